package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
)

const token = "token-of-the-test"

// remote makes an agent behind a URL that doesn't wait between its requests.
func remote(t *testing.T, url string) policy.Policy {
	t.Helper()
	return newAgent(t, policy.Config{Type: policy.TypeHTTP, HTTP: &policy.HTTPConfig{URL: url, TimeoutSeconds: 1}})
}

func newAgent(t *testing.T, c policy.Config) policy.Policy {
	t.Helper()
	player, err := policy.New(c, policy.Options{
		Environment: "ticket", Key: token, IDKey: "run", Concurrency: 4,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := player.Play(score.PlannedEpisode{Index: 7, Task: "ticket-resolve", Scenario: "T001", Trial: 2,
		Seed: 4242})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func turn(step int, refused string) policy.Turn {
	return policy.Turn{
		Environment: "ticket", Task: "ticket-resolve", Observation: json.RawMessage(fmt.Sprintf(`{"step":%d}`, step)),
		Schema: json.RawMessage(`{"type":"object"}`),
		Step:   step, Refused: refused, Planned: score.PlannedEpisode{Index: 7, Trial: 2, Scenario: "T001", Seed: 4242},
	}
}

// A policy behind a URL receives everything that the protocol promises, but neither the scenario
// nor the seed.
func TestHTTPPolicyRequest(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+token ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with %v", r.Method, r.Header)
		}
		fmt.Fprintf(w,
			`{"action": {"n": %d}, "said": "I said it", "usage": {"prompt_tokens": 10, "completion_tokens": 3}}`, len(
				asked))
	}))
	defer server.Close()
	agent := remote(t, server.URL)
	for step, refused := range []string{"", "no such thing", ""} {
		action, err := agent.Act(t.Context(), turn(step, refused))
		if err != nil || string(action) != fmt.Sprintf(`{"n":%d}`, step+1) {
			t.Errorf("Act() = %s, %v", action, err)
		}
	}
	want := `{"observation":{"step":2},"history":[{"observation":{"step":0},"action":{"n":1},` +
		`"refused":"no such thing"},{"observation":{"step":1},"action":{"n":2}}],` +
		`"schema":{"type":"object"},"environment":"ticket","task":"ticket-resolve","episode":"HYCMXDFODRL452ABKUD66ZUE",` +
		`"step":2}`
	if diff := cmp.Diff(want, asked[2]); diff != "" {
		t.Errorf("the third request (-want +got)\n%s", diff)
	}
	if !strings.Contains(asked[1], `"refused":"no such thing"`) ||
		!strings.HasPrefix(asked[0], `{"observation":{"step":0},"history":[],`) {
		t.Errorf("asked %s and %s", asked[0], asked[1])
	}
	if usage := agent.(policy.Metered).Usage(); usage != (score.Tokens{Prompt: 30, Completion: 9}) {
		t.Errorf("usage %+v", usage)
	}
	if said := agent.(policy.Speaker).Answer().Said; said != "I said it" {
		t.Errorf("said %q", said)
	}
}

// An answer that violates the protocol is an error with a class. Any other answer is played, even
// if it is nonsense, in a form that every server can decode.
func TestHTTPAnswers(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		action string
		class  string
		calls  int64
	}{
		"an action": {status: 200, body: `{"action": {"action_type": "resolve"}}`, action: `{"action_type":"resolve"}`,
			class: "", calls: 1},
		"a name twice": {status: 200, body: `{"action": {"action_type": "resolve", "action_type": "respond"}}`,
			action: `{"action_type":"respond"}`, class: "", calls: 1},
		"a text": {status: 200, body: `{"action": "resolve it"}`, action: `{"action_type":"\"resolve it\""}`, class: "",
			calls: 1},
		"null":   {status: 200, body: `{"action": null}`, action: `{"action_type":"null"}`, class: "", calls: 1},
		"a list": {status: 200, body: `{"action": []}`, action: `{"action_type":"[]"}`, class: "", calls: 1},
		"a large number": {status: 200, body: `{"action": {"amount": 12345678901234567890.10}}`,
			action: `{"amount":12345678901234567890.10}`, class: "", calls: 1},
		"a lone surrogate": {status: 200, body: `{"action": {"message": "\ud800"}}`, action: "{\"message\":\"\ufffd\"}",
			class: "", calls: 1},
		"no action": {status: 200, body: `{"actions": {}}`, action: "", class: score.ClassAgentError, calls: 1},
		"no object": {status: 200, body: `[]`, action: "", class: score.ClassAgentError, calls: 1},
		"no JSON":   {status: 200, body: `<html>`, action: "", class: score.ClassAgentError, calls: 1},
		"nothing":   {status: 200, body: ``, action: "", class: score.ClassAgentError, calls: 1},
		"too long": {status: 200, body: `{"action": {"a": "` + strings.Repeat("a", 1<<20) + `"}}`, action: "",
			class: score.ClassAgentError, calls: 1},
		"bad token": {status: 401, body: token, action: "", class: score.ClassAgentError, calls: 1},
		"full":      {status: 429, body: ``, action: "", class: score.ClassAgentRateLimited, calls: 5},
		"broken":    {status: 500, body: ``, action: "", class: score.ClassAgentUnavailable, calls: 5},
		"not there": {status: 404, body: ``, action: "", class: score.ClassAgentError, calls: 1},
		"moved":     {status: 302, body: ``, action: "", class: score.ClassAgentError, calls: 1},
		"created":   {status: 201, body: `{"action": {}}`, action: "", class: score.ClassAgentError, calls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				w.Header().Set("Location", "/elsewhere?token="+token)
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			defer server.Close()
			action, err := remote(t, server.URL+"/?secret="+token).Act(t.Context(), turn(0, ""))
			if string(action) != tc.action || calls.Load() != tc.calls {
				t.Errorf("Act() = %s after %d calls, want %s after %d", action, calls.Load(), tc.action, tc.calls)
			}
			checkClass(t, err, tc.class)
		})
	}
}

// checkClass checks the class of an endpoint's failure, which must not contain a secret.
func checkClass(t *testing.T, err error, class string) {
	t.Helper()
	failed, ok := errors.AsType[*policy.EndpointError](err)
	if class == "" && err != nil || class != "" && (!ok || failed.Class != class) {
		t.Errorf("error = %v, want class %q", err, class)
	}
	if err != nil && strings.Contains(err.Error(), token) {
		t.Errorf("the error contains the token: %v", err)
	}
}

func TestUnreachablePolicies(t *testing.T) {
	nobody := httptest.NewServer(nil)
	nobody.Close()
	_, err := remote(t, nobody.URL+"/?token="+token).Act(t.Context(), turn(0, ""))
	checkClass(t, err, score.ClassAgentUnavailable)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}))
	defer hanging.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := remote(t, hanging.URL).Act(ctx, turn(0, "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
}

// An answer whose member has another type is described by that member.
func TestMistypedAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`{"action": {}, "usage": {"prompt_tokens": 5.5}}`: `the number 5.5 in "usage.prompt_tokens"`,
		`{"action": {}, "said": 3}`:                       `the number in "said"`,
		`[]`:                                              `no JSON object with a member "action"`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		_, err := remote(t, server.URL).Act(t.Context(), turn(0, ""))
		server.Close()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	return int(netip.MustParseAddrPort(testkit.FreeAddresses(t, 1)[0]).Port())
}

// A container in the runner's pod may need some time before it listens.
func TestContainersAreWaitedFor(t *testing.T) {
	port := freePort(t)
	agent := newAgent(t, policy.Config{Type: policy.TypeContainer, Container: &policy.ContainerConfig{Port: port,
		Path: "/act?mode=a"}})
	late := make(chan *http.Server, 1)
	time.AfterFunc(400*time.Millisecond, func() {
		server := &http.Server{Addr: fmt.Sprintf("localhost:%d", port), ReadHeaderTimeout: time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"action": {"asked": %q}}`, r.URL.String())
			})}
		late <- server
		_ = server.ListenAndServe()
	})
	action, err := agent.Act(t.Context(), turn(0, ""))
	if err != nil || string(action) != `{"asked":"/act?mode=a"}` {
		t.Errorf("Act() = %s, %v", action, err)
	}
	_ = (<-late).Close()
}

// The agent of docs/agents.md plays an episode.
func TestDocumentedAgentPlays(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	page, err := os.ReadFile("../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```python\n")
	code, _, found := strings.Cut(code, "```")
	if !found || !strings.Contains(code, "8080") {
		t.Fatal("docs/agents.md shows no agent in Python on port 8080")
	}
	port := freePort(t)
	script := filepath.Join(t.TempDir(), "agent.py")
	if err := os.WriteFile(script, []byte(strings.Replace(code, "8080", fmt.Sprint(port), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, script)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	agent, err := policy.New(policy.Config{Type: policy.TypeContainer,
		Container: &policy.ContainerConfig{Port: port}}, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := ticketKind(t)
	final := play(t, kind, agent.Play, score.PlannedEpisode{Task: "ticket-resolve",
		Scenario: kind.Tasks()[1].Scenarios[0].ID, Seed: 1})
	if final.Outcome != score.Scored || final.Score == 0 {
		t.Errorf("the episode ended as %+v", final)
	}
}
