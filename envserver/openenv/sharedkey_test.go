package openenv

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func poolSecrets(tb testing.TB) *poolkey.Secrets {
	tb.Helper()
	secrets, err := poolkey.DeriveSecrets(echo.LedgerKey())
	if err != nil {
		tb.Fatal(err)
	}
	return secrets
}

// Without the run's credential a client can't open a ledger of a run, change an existing one, add
// receipts to it or read it.
func TestLedgersNeedTheRunsCredential(t *testing.T) {
	secrets := poolSecrets(t)
	s, url := serve(t, Config{SharedKey: true})
	p := wire.Connect(t, url)
	reset := func(run, more string) string {
		return p.Ask(fmt.Sprintf(`{"type":"reset","data":{"run":%q,"shard":3,"episode":0,"seed":7%s}}`, run, more))
	}
	credential := `,"run_credential":"` + secrets.OldRunCredential("uid") + `"`
	if answer := reset("uid", credential); !strings.Contains(answer, `"observation"`) {
		t.Fatalf("with the credential: %s", answer)
	}
	p.Ask(`{"type":"step","data":{"kind":"finish","score":900000}}`)
	before := s.ledgers.Figures()

	for i := range 5000 {
		if answer := reset(fmt.Sprintf("made-up-%d", i), ""); !strings.Contains(answer, "credential is missing") {
			t.Fatalf("a made-up run: %s", answer)
		}
	}
	for name, answer := range map[string]string{
		"another pass score":       reset("uid", `,"pass_score":1`),
		"another run's credential": reset("made-up", credential),
		"a number":                 reset("uid", `,"run_credential":7`),
	} {
		if !strings.Contains(answer, "VALIDATION_ERROR") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	for name, o := range map[string]client.Options{
		"without": {}, "another's": {Credential: secrets.OldRunCredential("other")},
		"the operator's": {Credential: secrets.Operations},
	} {
		_, opening := client.OpenLedger(t.Context(), url, shard3, nil, o)
		_, reading := client.FetchLedger(t.Context(), url, "uid", 3, o)
		for what, err := range map[string]error{"opened": opening, "fetched": reading} {
			if refused, ok := errors.AsType[*client.StatusError](err); !ok || refused.Status != http.StatusForbidden {
				t.Errorf("%s: %s with %v", name, what, err)
			}
		}
	}
	if got := s.ledgers.Figures(); got != before {
		t.Errorf("the ledgers have changed from %+v to %+v", before, got)
	}
	if _, err := client.FetchLedger(t.Context(), url, "uid", 3,
		client.Options{Credential: secrets.OldRunCredential("uid")}); err != nil {
		t.Error(err)
	}
	if answer := p.Ask(`{"type":"reset","data":{"run":"grpo-7"}}`); !strings.Contains(answer, `"observation"`) {
		t.Errorf("a tag of a run of type External needs a credential: %s", answer)
	}
}

// A server for runs only refuses every other episode, on every transport.
func TestRunsOnly(t *testing.T) {
	_, url := serve(t, Config{SharedKey: true, RunsOnly: true})
	p := wire.Connect(t, url)
	const refusal = "only the runners of EvaluationRuns play here"
	for name, data := range map[string]string{
		"no run": `{}`, "trainers": `{"run":"grpo-7"}`, "no credential": `{"run":"uid","shard":3,"episode":0,"seed":7}`,
	} {
		want := refusal
		if name == "no credential" {
			want = "credential is missing"
		}
		answer := p.Ask(`{"type":"reset","data":` + data + `}`)
		if wire.CodeOf(t, answer) != "VALIDATION_ERROR" || !strings.Contains(answer, want) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	for path, body := range map[string]string{
		"/reset": `{}`, "/step": `{"action":{"kind":"finish","score":900000}}`,
		"/mcp": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_observation","arguments":{}}}`,
	} {
		response, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil || response.Body.Close() != nil || !strings.Contains(string(text), refusal) {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
	planned := newPlannedRun(t, url)
	if answer := p.Ask(planned.reset(0)); !strings.Contains(answer, `"observation"`) {
		t.Errorf("a runner: %s", answer)
	}
	if _, err := New(Config{Kind: echo.Kind{}, LedgerKey: echo.LedgerKey(), RunsOnly: true}); err == nil {
		t.Error("credentials of runs follow from no key")
	}
}

// The operations port answers only the operator. Requests of others change nothing.
func TestOperationsPortNeedsATokenOfTheKey(t *testing.T) {
	secrets := poolSecrets(t)
	s, url := serve(t, Config{SharedKey: true, Pod: "support-a"})
	p := wire.Connect(t, url)
	for range 3 {
		p.Ask(`{"type":"reset","data":{"run":"grpo-7"}}`)
		p.Ask(`{"type":"step","data":{"kind":"finish","score":900000}}`)
	}
	ask := func(path, token string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer := httptest.NewRecorder()
		s.OpsHandler().ServeHTTP(answer, request)
		return answer
	}
	collect := func(r score.CollectRequest) string { return "/rollouts?" + r.Query().Encode() }
	own := score.CollectRequest{Tag: "grpo-7", Run: "uid", PassScore: score.One}
	ask(collect(own), secrets.Operations)
	for name, path := range map[string]string{
		"as another run": collect(score.CollectRequest{Tag: "grpo-7", Run: "thief", PassScore: score.One}),
		"a forged ack":   collect(score.CollectRequest{Tag: "grpo-7", Run: "uid", PassScore: score.One, Ack: 1}),
		"done":           collect(score.CollectRequest{Tag: "grpo-7", Run: "uid", Done: true}),
		"statistics":     "/stats",
		"metrics":        "/metrics",
	} {
		for _, token := range []string{"", "wrong", secrets.OldRunCredential("uid")} {
			if answer := ask(path, token); answer.Code != http.StatusUnauthorized ||
				strings.Contains(answer.Body.String(), "uid") {
				t.Errorf("%s with %q: %d %s", name, token, answer.Code, answer.Body)
			}
		}
	}
	if answer := ask(collect(own), secrets.Operations); !strings.Contains(answer.Body.String(), `"segment":1`) {
		t.Errorf("the segment is lost: %s", answer.Body)
	}
	if got := s.rollouts.Figures(); got.Counted != 3 || got.Dropped != 0 {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]int{"/metrics": 200, "/stats": 401, "/rollouts": 401} {
		if answer := ask(path, secrets.Metrics); answer.Code != want {
			t.Errorf("Prometheus gets %d from %s", answer.Code, path)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if answer := ask(path, ""); answer.Code != 200 || answer.Body.String() != "ok" {
			t.Errorf("a probe of %s: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// A server is full if all its ledgers are needed; the runner then continues on another server. It
// has space again after a ledger was fetched.
func TestFullLedgersAreACapacityError(t *testing.T) {
	s, url := serve(t, Config{})
	p := wire.Connect(t, url)
	needed := func(i int) string { return fmt.Sprintf("needed-%d", i) }
	for i := 0; s.ledgers.Figures().Open == i; i++ {
		l, err := s.ledgers.Open(protocol.RunTag{Run: needed(i)}, score.PlannedEpisode{})
		if err != nil {
			break
		}
		if _, err := l.Finish(score.PlannedEpisode{Task: "talk", Scenario: "E01"},
			score.Episode{Outcome: score.Scored}); err != nil {
			t.Fatal(err)
		}
	}
	reset := `{"type":"reset","data":{"run":"late","shard":0,"episode":0,"seed":7}}`
	if answer := p.Ask(reset); !strings.Contains(answer, protocol.CodeCapacity) {
		t.Errorf("a full server: %s", answer)
	}
	_, err := client.OpenLedger(t.Context(), url, client.Shard{Run: "late"}, nil, client.Options{})
	if refused, ok := errors.AsType[*client.StatusError](err); !ok || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("a full server opened a ledger with %v", err)
	}
	s.ledgers.Fetched(ledger.Key{Run: needed(0)})
	if answer := p.Ask(reset); !strings.Contains(answer, `"observation"`) {
		t.Errorf("a server with a fetched ledger: %s", answer)
	}
}
