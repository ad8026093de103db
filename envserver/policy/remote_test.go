package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
)

const token = "token-of-the-test"

// remote is an agent behind a URL. Nothing waits between its requests.
func remote(t *testing.T, url string) policy.Policy {
	t.Helper()
	return newAgent(t, policy.Config{Type: policy.TypeHTTP, HTTP: &policy.HTTPConfig{URL: url, TimeoutSeconds: 1}})
}

func newAgent(t *testing.T, c policy.Config) policy.Policy {
	t.Helper()
	factory, err := policy.New(c, policy.Options{
		Environment: "ticket", Key: token, Concurrency: 4,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := factory(score.PlannedEpisode{Index: 7, Task: "ticket-resolve", Scenario: "T001", Trial: 2,
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

// A policy behind a URL is told all that the protocol promises, and neither the scenario nor the
// seed.
func TestHTTPPolicyIsAsked(t *testing.T) {
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
	want := `{"observation":{"step":2},"history":[{"observation":{"step":0},"action":{"n":1},"refused":"no such thing"},{"observation":{"step":1},"action":{"n":2}}],` +
		`"schema":{"type":"object"},"environment":"ticket","task":"ticket-resolve","episode":{"index":7,"trial":2},"step":2}`
	if diff := cmp.Diff(want, asked[2]); diff != "" {
		t.Errorf("the third request (-want +got)\n%s", diff)
	}
	if !strings.Contains(asked[1], `"refused":"no such thing"`) ||
		!strings.HasPrefix(asked[0], `{"observation":{"step":0},"history":[],`) {
		t.Errorf("asked %s and %s", asked[0], asked[1])
	}
	if usage := agent.(policy.Metered).Usage(); usage != (policy.Usage{Prompt: 30, Completion: 9}) {
		t.Errorf("usage %+v", usage)
	}
	if said := agent.(policy.Speaker).Said(); said != "I said it" {
		t.Errorf("said %q", said)
	}
}

// What an endpoint gives that is no answer has a class; what is an answer is played, however little
// sense it makes, in a form that every server reads.
func TestHTTPAnswers(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		action string
		class  policy.Class
		calls  int64
	}{
		"an action": {200, `{"action": {"action_type": "resolve"}}`, `{"action_type":"resolve"}`, "", 1},
		"a name twice": {200, `{"action": {"action_type": "resolve", "action_type": "respond"}}`,
			`{"action_type":"respond"}`, "", 1},
		"a text": {200, `{"action": "resolve it"}`, `{"action_type":"\"resolve it\""}`, "", 1},
		"null":   {200, `{"action": null}`, `{"action_type":"null"}`, "", 1},
		"a list": {200, `{"action": []}`, `{"action_type":"[]"}`, "", 1},
		"a large number": {200, `{"action": {"amount": 12345678901234567890.10}}`,
			`{"amount":12345678901234567890.10}`, "", 1},
		"a lone surrogate": {200, `{"action": {"message": "\ud800"}}`, "{\"message\":\"\ufffd\"}", "", 1},
		"no action":        {200, `{"actions": {}}`, "", policy.Refused, 1},
		"no object":        {200, `[]`, "", policy.Refused, 1},
		"no JSON":          {200, `<html>`, "", policy.Refused, 1},
		"nothing":          {200, ``, "", policy.Refused, 1},
		"too long":         {200, `{"action": {"a": "` + strings.Repeat("a", 1<<20) + `"}}`, "", policy.Refused, 1},
		"full":             {429, ``, "", policy.RateLimited, 5},
		"broken":           {500, ``, "", policy.Unavailable, 5},
		"not there":        {404, ``, "", policy.Refused, 1},
		"moved":            {302, ``, "", policy.Refused, 1},
		"created":          {201, `{"action": {}}`, "", policy.Refused, 1},
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

// checkClass checks an endpoint's failure, which is to tell no secret.
func checkClass(t *testing.T, err error, class policy.Class) {
	t.Helper()
	failed, ok := errors.AsType[*policy.EndpointError](err)
	if class == "" && err != nil || class != "" && (!ok || failed.Class != class) {
		t.Errorf("error = %v, want class %q", err, class)
	}
	if err != nil && strings.Contains(err.Error(), token) {
		t.Errorf("the error tells the token: %v", err)
	}
}

func TestUnreachablePolicies(t *testing.T) {
	nobody := httptest.NewServer(nil)
	nobody.Close()
	_, err := remote(t, nobody.URL+"/?token="+token).Act(t.Context(), turn(0, ""))
	checkClass(t, err, policy.Unavailable)
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

// A container beside the runner may take its time to listen.
func TestContainersAreWaitedFor(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
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

// The agent of the documentation plays.
func TestDocumentedAgentPlays(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```python\n")
	code, _, found := strings.Cut(code, "```")
	if !found || !strings.Contains(code, "8080") {
		t.Fatal("docs/agents.md shows no agent in Python on port 8080")
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	script := filepath.Join(t.TempDir(), "agent.py")
	if err := os.WriteFile(script, []byte(strings.Replace(code, "8080", fmt.Sprint(port), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, script)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	factory, err := policy.New(policy.Config{Type: policy.TypeContainer,
		Container: &policy.ContainerConfig{Port: port}}, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := ticketKind(t)
	final := play(t, kind, factory, score.PlannedEpisode{Task: "ticket-resolve",
		Scenario: kind.Tasks()[1].Scenarios[0].ID, Seed: 1})
	if final.Outcome != score.Scored || final.Score == 0 {
		t.Errorf("the episode ended as %+v", final)
	}
}
