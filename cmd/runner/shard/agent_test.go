package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

const agentKey = "sk-secret-of-the-agent"

// A runner that is stopped sends no more requests, cancels those in flight, and exits long before
// it would be killed.
func TestStoppedRunnersSendNoRequests(t *testing.T) {
	kind := ticketKind(t)
	pod, plan := pool(t, kind), planFile(t, kind, func(*score.Plan) {})
	ctx, stop := context.WithCancel(t.Context())
	var stopped atomic.Bool
	var late, calls atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "Answer with the word") { // the trial
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices": [{"message": {"content": "ready"}}]}`)
			return
		}
		switch n := calls.Add(1); {
		case stopped.Load():
			late.Add(1)
		case n%3 == 0: // these wait for another attempt when the runner is stopped
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		case n < 6:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			<-r.Context().Done()
		}
	}))
	defer endpoint.Close()
	t.Setenv(envvars.AgentKey, agentKey)
	message := filepath.Join(t.TempDir(), "message")
	var logs bytes.Buffer
	cmd := newCommand(&logs)
	cmd.SetArgs([]string{
		"--plan=" + plan, "--pool=" + pod, "--termination-log=" + message, "--concurrency=4",
		fmt.Sprintf(`--agent={"type":"OpenAI","openAI":{"baseURL":%q,"model":"m"}}`, endpoint.URL),
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	deadline := time.After(2 * time.Minute)
	for calls.Load() < 3 {
		select {
		case err := <-ended:
			t.Fatalf("the runner ended early: %v\n%s", err, logs.String())
		case <-deadline:
			t.Fatal("the endpoint gets no request")
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	began := time.Now()
	<-time.After(50 * time.Millisecond) // for requests in flight when the runner was stopped
	stopped.Store(true)
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "the runner was stopped") {
			t.Errorf("error = %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the runner still runs after a minute")
	}
	if n := late.Load(); n > 0 {
		t.Errorf("%d requests after the runner was stopped", n)
	}
	t.Logf("gone after %v and %d requests", time.Since(began), calls.Load())
	text, err := os.ReadFile(message)
	if err != nil || !strings.HasPrefix(string(text), "error: ") {
		t.Errorf("the termination message is %q, %v", text, err)
	}
	if told := string(text) + logs.String(); strings.Contains(told, agentKey) {
		t.Errorf("the key is logged: %s", told)
	}
}

// A refused key plays nothing. The exit code says so to the Job, and the message to the user.
func TestRefusedKeyPlaysNothing(t *testing.T) {
	kind := ticketKind(t)
	var calls atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		http.Error(w, `{"error": {"message": "Incorrect API key provided: `+agentKey+`"}}`, http.StatusUnauthorized)
	}))
	defer endpoint.Close()
	t.Setenv(envvars.AgentKey, agentKey)
	message, err := run(t, "--plan="+planFile(t, kind, func(*score.Plan) {}), "--pool="+pool(t, kind),
		fmt.Sprintf(`--agent={"type":"OpenAI","openAI":{"baseURL":%q,"model":"gpt-4"}}`, endpoint.URL))
	if exitCode(err) != score.ExitAgentRefused || calls.Load() != 2 {
		t.Errorf("exit code %d after %d requests: %v", exitCode(err), calls.Load(), err)
	}
	want := endpoint.URL + "/chat/completions answered 401 Unauthorized for model gpt-4: " +
		"Incorrect API key provided: [key]"
	if !strings.HasPrefix(message, "error: ") || !strings.Contains(message, want) ||
		strings.Contains(message, agentKey) {
		t.Errorf("message %q, want %q", message, want)
	}
}

// An agent knows the episodes by the run's credential, not by their places in the plan.
func TestAgentsKnowEpisodesByTheCredential(t *testing.T) {
	kind := ticketKind(t)
	var mu sync.Mutex
	known := map[string]bool{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked policy.Request
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			mu.Lock()
			known[asked.Episode] = true
			mu.Unlock()
		}
		fmt.Fprint(w, `{"action": {"action_type": "resolve", "message": "Done."}}`)
	}))
	defer endpoint.Close()
	const credential = "the run's credential"
	t.Setenv(envvars.RunCredential, credential)
	file := planFile(t, kind, func(*score.Plan) {})
	if message, err := run(t, "--plan="+file, "--pool="+pool(t, kind),
		fmt.Sprintf(`--agent={"type":"HTTP","http":{"url":%q}}`, endpoint.URL)); err != nil {
		t.Fatal(err, message)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := score.ParsePlan(data)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for planned := range plan.Shard(0) {
		id, _ := policy.EpisodeID(poolkey.IDKey(credential), planned)
		want[id] = true
	}
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("the agent's episodes (-want +got)\n%s", diff)
	}
}
