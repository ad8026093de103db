package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// buildRouteURL makes the URL of a route. The family is ws or http.
func buildRouteURL(baseURL, family, route string) (*url.URL, error) {
	if !strings.Contains(baseURL, "://") {
		baseURL = "http://" + baseURL
	}
	target, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("parsing the server's URL: %w", err)
	}
	switch target.Scheme {
	case "http", "ws":
		target.Scheme = family
	case "https", "wss":
		target.Scheme = family + "s"
	default:
		return nil, fmt.Errorf("the server's URL has the scheme %q: use http, https, ws or wss", target.Scheme)
	}
	if target.Host == "" {
		return nil, fmt.Errorf("the server's URL %q has no host: use http://HOST:PORT", baseURL)
	}
	return target.JoinPath(route), nil
}

// FetchLedger fetches the signed ledger of a run's shard from the server that played it.
func FetchLedger(ctx context.Context, baseURL, run string, shard int, o Options) (score.SignedLedger, error) {
	signed, err := fetchJSON[score.SignedLedger](ctx, baseURL, "/ledger", ledgerQuery(run, shard), o)
	if err != nil {
		err = fmt.Errorf("fetching the ledger of run %s, shard %d: %w", run, shard, err)
	}
	return signed, err
}

func ledgerQuery(run string, shard int) url.Values {
	return url.Values{"run": {run}, "shard": {strconv.Itoa(shard)}}
}

// Schema is the answer of GET /schema, with JSON Schemas.
type Schema struct {
	Action      json.RawMessage `json:"action"`
	Observation json.RawMessage `json:"observation"`
	State       json.RawMessage `json:"state"`
}

// FetchSchema fetches the schemas of any OpenEnv server. Servers of csenv describe the actions of a
// task if it is named, others ignore its name.
func FetchSchema(ctx context.Context, baseURL, task string, o Options) (Schema, error) {
	query := url.Values{}
	if task != "" {
		query.Set("task", task)
	}
	schema, err := fetchJSON[Schema](ctx, baseURL, "/schema", query, o)
	if err != nil {
		err = fmt.Errorf("fetching the schema: %w", err)
	}
	return schema, err
}

// fetchJSON decodes the JSON answer to GET.
func fetchJSON[T any](ctx context.Context, baseURL, route string, query url.Values, o Options) (answer T, err error) {
	target, err := buildRouteURL(baseURL, "http", route)
	if err != nil {
		return answer, err
	}
	target.RawQuery = query.Encode()
	body, err := sendRequest(ctx, http.MethodGet, target, nil, o)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("decoding the answer: %w", err)
	}
	return answer, nil
}

// sendRequest sends a request, with a JSON body unless that is nil, and returns the body of the
// answer. A status other than 200 is a *StatusError.
func sendRequest(ctx context.Context, method string, target *url.URL, body []byte, o Options) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = o.header()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := o.requester().Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, statusError(response.StatusCode, answer)
	}
	return answer, nil
}

// requester returns the client of HTTP requests.
func (o Options) requester() *http.Client {
	if o.Connect == nil {
		return &requester
	}
	return &http.Client{Transport: &http.Transport{DialContext: o.Connect, DisableKeepAlives: true},
		Timeout: requestTimeout}
}

// Shard names a ledger to open.
type Shard struct {
	Run       string
	Shard     int
	PassScore int64
	// Plan is the JSON of the run's plan, nil for a run without one.
	Plan []byte
}

// OpenLedger opens the ledger of a run's shard, sends the server the run's plan and the receipts of
// the shard's episodes that another server of its pool graded, and returns which episodes have
// ended. Repeated receipts change nothing.
func OpenLedger(ctx context.Context, baseURL string, s Shard, receipts []string,
	o Options) (protocol.ReceiptsAnswer, error) {
	var answer protocol.ReceiptsAnswer
	target, err := buildRouteURL(baseURL, "http", "/ledger")
	if err != nil {
		return answer, err
	}
	target.RawQuery = ledgerQuery(s.Run, s.Shard).Encode()
	body := protocol.Receipts{PassScore: &s.PassScore}
	if s.Plan != nil {
		if body.Plan, err = protocol.PackPlan(s.Plan); err != nil {
			return answer, err
		}
	}
	// The plan is sent alone unless it is small: a body has one bound for both.
	var turn int64
	for rest := receipts; ; {
		n := 0
		if len(body.Plan) < protocol.MaxBody/20 {
			n = countFitting(rest)
		}
		body.Receipts = append([]string{}, rest[:n]...)
		if answer, err = postReceipts(ctx, target, body, o); err != nil {
			return answer, fmt.Errorf("opening the ledger of run %s, shard %d: %w", s.Run, s.Shard, err)
		}
		body.Plan, turn = nil, max(turn, answer.Turn)
		if rest = rest[n:]; len(rest) == 0 {
			answer.Turn = turn
			return answer, nil
		}
	}
}

// ReportUsed tells the server of a shard's ledger how many tokens the shard's runners have used.
func ReportUsed(ctx context.Context, baseURL, run string, shard int, used score.Tokens, o Options) error {
	target, err := buildRouteURL(baseURL, "http", "/ledger")
	if err != nil {
		return err
	}
	target.RawQuery = ledgerQuery(run, shard).Encode()
	_, err = postReceipts(ctx, target, protocol.Receipts{Receipts: []string{}, Used: used}, o)
	return err
}

// countFitting returns how many of the receipts fit into one request, at least the first.
func countFitting(receipts []string) int {
	size := 0
	for i, text := range receipts {
		size += len(text) + len(`"",`)
		if i > 0 && (i == protocol.MaxReceipts || size > protocol.MaxBody*9/10) {
			return i
		}
	}
	return len(receipts)
}

func postReceipts(ctx context.Context, target *url.URL, content protocol.Receipts,
	o Options) (protocol.ReceiptsAnswer, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return protocol.ReceiptsAnswer{}, err
	}
	text, err := sendRequest(ctx, http.MethodPost, target, body, o)
	if err != nil {
		return protocol.ReceiptsAnswer{}, err
	}
	var answer protocol.ReceiptsAnswer
	err = json.Unmarshal(text, &answer)
	return answer, err
}
