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

// endpoint makes the URL of a route, with the scheme family ws or http.
func endpoint(baseURL, family, route string) (*url.URL, error) {
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
		return nil, fmt.Errorf("the server's URL %q has the scheme %q: use http, https, ws or wss", baseURL,
			target.Scheme)
	}
	if target.Host == "" {
		return nil, fmt.Errorf("the server's URL %q names no host", baseURL)
	}
	return target.JoinPath(route), nil
}

// FetchLedger fetches the signed ledger of a run's shard from the server that played it.
func FetchLedger(ctx context.Context, baseURL, run string, shard int, o Options) (score.SignedLedger, error) {
	target, err := endpoint(baseURL, "http", "/ledger")
	if err != nil {
		return score.SignedLedger{}, err
	}
	target.RawQuery = url.Values{"run": {run}, "shard": {strconv.Itoa(shard)}}.Encode()
	body, err := request(ctx, http.MethodGet, target, nil, o)
	if err != nil {
		return score.SignedLedger{}, fmt.Errorf("fetching the ledger of run %s, shard %d: %w", run, shard, err)
	}
	var signed score.SignedLedger
	if err := json.Unmarshal(body, &signed); err != nil {
		return score.SignedLedger{}, fmt.Errorf("decoding the ledger of run %s, shard %d: %w", run, shard, err)
	}
	return signed, nil
}

// Schema is the answer of GET /schema: a JSON Schema each.
type Schema struct {
	Action      json.RawMessage `json:"action"`
	Observation json.RawMessage `json:"observation"`
	State       json.RawMessage `json:"state"`
}

// FetchSchema fetches the schemas of any OpenEnv server.
func FetchSchema(ctx context.Context, baseURL string, o Options) (Schema, error) {
	target, err := endpoint(baseURL, "http", "/schema")
	if err != nil {
		return Schema{}, err
	}
	body, err := request(ctx, http.MethodGet, target, nil, o)
	if err != nil {
		return Schema{}, fmt.Errorf("fetching the schema: %w", err)
	}
	var schema Schema
	if err := json.Unmarshal(body, &schema); err != nil {
		return Schema{}, fmt.Errorf("decoding the schema: %w", err)
	}
	return schema, nil
}

// request sends a request, with a JSON body unless that is nil, and returns the body of the answer
// 200. Any other answer is a *StatusError.
func request(ctx context.Context, method string, target *url.URL, body []byte, o Options) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = o.header()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := requester.Do(r)
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

// SendReceipts sends a server of a pool the receipts of episodes of a run's shard that another
// server graded, and returns the indexes of all episodes in its ledger. Receipts that were counted
// before change nothing.
func SendReceipts(ctx context.Context, baseURL, run string, shard int, receipts []string,
	o Options) (score.IndexSet, error) {
	target, err := endpoint(baseURL, "http", "/ledger")
	if err != nil {
		return score.IndexSet{}, err
	}
	target.RawQuery = url.Values{"run": {run}, "shard": {strconv.Itoa(shard)}}.Encode()
	var answer protocol.ReceiptsAnswer
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

// fitting returns how many of the receipts fit into one request, at least one if there is one.
func fitting(receipts []string) int {
	size := 0
	for i, text := range receipts {
		size += len(text) + len(`"",`)
		if i > 0 && (i == protocol.MaxReceipts || size > protocol.MaxBody*9/10) {
			return i
		}
	}
	return len(receipts)
}

func postReceipts(ctx context.Context, target *url.URL, receipts []string, o Options) (protocol.ReceiptsAnswer, error) {
	body, err := json.Marshal(protocol.Receipts{Receipts: append([]string{}, receipts...)})
	if err != nil {
		return protocol.ReceiptsAnswer{}, err
	}
	text, err := request(ctx, http.MethodPost, target, body, o)
	if err != nil {
		return protocol.ReceiptsAnswer{}, err
	}
	var answer protocol.ReceiptsAnswer
	err = json.Unmarshal(text, &answer)
	return answer, err
}
