package openenv

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

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
	var body protocol.Receipts
	if err := json.Unmarshal(text, &body); err != nil || len(body.Receipts) > protocol.MaxReceipts {
		writeDetail(w, http.StatusUnprocessableEntity, fmt.Sprintf(`send {"receipts": [...]} with at most %d texts`,
			protocol.MaxReceipts))
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
func (s *ledgers) takeOver(key ledgerKey, receipts []score.Receipt) (protocol.ReceiptsAnswer, error) {
	if len(receipts) == 0 {
		s.mu.Lock()
		l := s.byKey[key]
		s.mu.Unlock()
		if l == nil {
			return protocol.ReceiptsAnswer{}, nil
		}
		return l.takeOver(nil)
	}
	l, err := s.open(runTag{run: key.run, shard: key.shard, passScore: receipts[0].PassScore})
	if err != nil {
		return protocol.ReceiptsAnswer{}, err
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

func (l *runLedger) takeOver(receipts []score.Receipt) (protocol.ReceiptsAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = time.Now()
	for _, r := range receipts {
		if err := l.sums.Accepts(r); err != nil {
			return protocol.ReceiptsAnswer{}, err
		}
	}
	if len(l.ended)+len(receipts) > maxEnded {
		return protocol.ReceiptsAnswer{}, fmt.Errorf("the ledger of run %s, shard %d is full with %d episodes: use "+
			"more shards",
			l.key.run, l.key.shard, len(l.ended))
	}
	var answer protocol.ReceiptsAnswer
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
