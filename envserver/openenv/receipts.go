package openenv

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

// maxReceipts bounds the receipts of one request: so many fit into its body.
const maxReceipts = 1000

// receiptsBody is the body of a request to take receipts over, receiptsAnswer that of its answer.
type receiptsBody struct {
	Receipts []string `json:"receipts"`
}

type receiptsAnswer struct {
	// Taken is the number of episodes that the request brought.
	Taken int `json:"taken"`
	// Ended are all episodes of the ledger.
	Ended score.IndexSet `json:"ended"`
}

// serveReceipts counts episodes in a shard's ledger that another server of the pool graded, and
// tells which episodes the ledger has. Receipts that it has counted before change nothing; if one
// doesn't hold, none is counted.
func (s *Server) serveReceipts(w http.ResponseWriter, r *http.Request) {
	key, ok := ledgerKeyOf(w, r)
	if !ok {
		return
	}
	text, ok := readObject(w, r, requiredBody)
	if !ok {
		return
	}
	var body receiptsBody
	if err := json.Unmarshal(text, &body); err != nil || len(body.Receipts) > maxReceipts {
		writeDetail(w, http.StatusUnprocessableEntity, fmt.Sprintf(`send {"receipts": [...]} with at most %d texts`,
			maxReceipts))
		return
	}
	receipts := make([]score.Receipt, len(body.Receipts))
	for i, text := range body.Receipts {
		var err error
		if receipts[i], err = score.VerifyReceipt(text, s.key.Public().(ed25519.PublicKey)); err != nil {
			writeDetail(w, http.StatusUnprocessableEntity, fmt.Sprintf("receipt %d: %v", i, err))
			return
		}
	}
	answer, err := s.ledgers.takeOver(key, receipts)
	switch {
	case errors.Is(err, score.ErrForeign), errors.Is(err, score.ErrGrader):
		writeDetail(w, http.StatusConflict, err.Error())
	case err != nil:
		writeDetail(w, http.StatusServiceUnavailable, err.Error())
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// ledgerKeyOf reads which ledger a request is about, or answers what is wrong.
func ledgerKeyOf(w http.ResponseWriter, r *http.Request) (ledgerKey, bool) {
	query := r.URL.Query()
	shard, err := strconv.Atoi(query.Get("shard"))
	if run := query.Get("run"); run == "" || len(run) > maxRunID || shard < 0 || err != nil {
		writeDetail(w, http.StatusBadRequest, "ask for /ledger?run=<UID of the run>&shard=<number>")
		return ledgerKey{}, false
	}
	return ledgerKey{run: query.Get("run"), shard: shard}, true
}

// takeOver counts the receipts' episodes, each once. Without receipts it opens no ledger.
func (s *ledgers) takeOver(key ledgerKey, receipts []score.Receipt) (receiptsAnswer, error) {
	if len(receipts) == 0 {
		s.mu.Lock()
		l := s.byKey[key]
		s.mu.Unlock()
		if l == nil {
			return receiptsAnswer{}, nil
		}
		return l.takeOver(nil)
	}
	l, err := s.open(runTag{run: key.run, shard: key.shard, passScore: receipts[0].PassScore})
	if err != nil {
		return receiptsAnswer{}, err
	}
	answer, err := l.takeOver(receipts)
	if answer.Taken > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counted += int64(answer.Taken)
		if s.byKey[key] == l {
			s.unread[key] = struct{}{}
		}
	}
	return answer, err
}

func (l *runLedger) takeOver(receipts []score.Receipt) (receiptsAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	for _, r := range receipts {
		if err := l.sums.Accepts(r); err != nil {
			return receiptsAnswer{}, err
		}
	}
	if len(l.ended)+len(receipts) > maxEnded {
		return receiptsAnswer{}, fmt.Errorf("the ledger of run %s, shard %d is full with %d episodes: use more shards",
			l.key.run, l.key.shard, len(l.ended))
	}
	var answer receiptsAnswer
	for _, r := range receipts {
		if _, counted := l.ended[r.Planned.Index]; counted {
			continue
		}
		if err := l.sums.Add(r.Planned, r.Episode); err != nil {
			return answer, err
		}
		l.sums.Opened++
		l.ended[r.Planned.Index] = struct{}{}
		answer.Taken++
	}
	for _, index := range slices.Sorted(maps.Keys(l.ended)) {
		answer.Ended.Add(index)
	}
	return answer, nil
}

// TakeOver has a server count episodes of a run's shard that another server of its pool graded, by
// their receipts, and returns which episodes its ledger has then. Receipts that it has counted
// already change nothing. Without receipts, it tells what there is.
func TakeOver(ctx context.Context, baseURL, run string, shard int, receipts []string,
	o ClientOptions) (score.IndexSet, error) {
	target, err := endpoint(baseURL, "http", "/ledger")
	if err != nil {
		return score.IndexSet{}, err
	}
	target.RawQuery = url.Values{"run": {run}, "shard": {strconv.Itoa(shard)}}.Encode()
	var answer receiptsAnswer
	for rest := receipts; ; {
		n := fitting(rest)
		if answer, err = postReceipts(ctx, target, rest[:n], o); err != nil {
			return score.IndexSet{}, fmt.Errorf("handing over receipts of run %s, shard %d: %w", run, shard, err)
		}
		if rest = rest[n:]; len(rest) == 0 {
			return answer.Ended, nil
		}
	}
}

// fitting is how many of the receipts fit into one request, at least one if there is one.
func fitting(receipts []string) int {
	size := 0
	for i, text := range receipts {
		size += len(text) + len(`"",`)
		if i > 0 && (i == maxReceipts || size > maxBody*9/10) {
			return i
		}
	}
	return len(receipts)
}

func postReceipts(ctx context.Context, target *url.URL, receipts []string, o ClientOptions) (receiptsAnswer, error) {
	body, err := json.Marshal(receiptsBody{Receipts: append([]string{}, receipts...)})
	if err != nil {
		return receiptsAnswer{}, err
	}
	text, err := request(ctx, http.MethodPost, target, body, o)
	if err != nil {
		return receiptsAnswer{}, err
	}
	var answer receiptsAnswer
	err = json.Unmarshal(text, &answer)
	return answer, err
}
