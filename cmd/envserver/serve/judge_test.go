package serve

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/openenv/client"
)

// goodTrial is a model's answer to the trial of a judge.
const goodTrial = `{"choices": [{"message": {"content": "{\"verdicts\": [{\"id\": \"c1\", \"evidence_quote\": ` +
	`\"on Monday\", \"reason\": \"It does.\", \"verdict\": \"met\"}], ` +
	`\"letter\": {\"reason\": \"It is one.\", \"may_be_sent\": true}}"}}]}`

// A server whose judge refuses the key reports that and isn't ready.
func TestRefusedJudge(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": {"message": "Incorrect API key provided: sk-bad"}}`, http.StatusUnauthorized)
	}))
	defer endpoint.Close()
	o := parse(t, []string{"--judge", "llm", "--judge-base-url", endpoint.URL, "--judge-model", "m-1"},
		map[string]string{envvars.JudgeKey: "sk-bad"})
	r := start(t, func(into *options) { into.judge = o.judge })
	stats := ""
	for !strings.Contains(stats, "judgeFault") { // until the judge has been tried
		_, stats = get(t, r.ops+"/stats")
	}
	if !strings.Contains(stats, "401 Unauthorized for model m-1: Incorrect API key provided: [key]") {
		t.Errorf("/stats: %s", stats)
	}
	if status, _ := get(t, r.ops+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", status)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// The key is read from a file or a variable and sent only to the endpoint. A failure of the judge
// is an error, not a score.
func TestLLMJudge(t *testing.T) {
	const key = "sk-of-the-test"
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args      []string
		variables map[string]string
	}{
		"file":     {[]string{"--judge-api-key-file", file}, map[string]string{envvars.JudgeKey: "another"}},
		"variable": {nil, map[string]string{envvars.JudgeKey: key}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan string, 9)
			var tried atomic.Bool
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent <- r.Header.Get("Authorization")
				if tried.Swap(true) {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, goodTrial)
			}))
			defer endpoint.Close()
			o := parse(t, append([]string{"--judge", "llm", "--judge-base-url", endpoint.URL, "--judge-model", "m-1",
				"--log-level", "debug"}, c.args...), c.variables)
			r := start(t, func(into *options) { into.judge, into.logLevel = o.judge, o.logLevel })
			for status := 0; status != http.StatusOK; { // until the judge has been tried
				status, _ = get(t, r.ops+"/readyz")
			}
			session, err := client.Dial(t.Context(), r.protocol, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if _, err := session.Reset(t.Context(), map[string]any{"task": "ticket-resolve",
				"scenario": "B02"}); err != nil {
				t.Fatal(err)
			}
			_, err = session.Step(t.Context(), map[string]any{"action_type": "submit", "decision": "resolve",
				"message": "Hello, we look into it and write again tomorrow."})
			if refused, ok := errors.AsType[*client.ServerError](err); !ok || refused.Cause != "judge_failed" {
				t.Errorf("the step: %v, want the cause judge_failed", err)
			}
			if got := <-sent; got != "Bearer "+key {
				t.Errorf("sent %q", got)
			}
			_, metrics := get(t, r.ops+"/metrics")
			for _, want := range []string{`csenv_judge_failures_total{cause="judge_failed"} 1`,
				`csenv_judge_calls_total{result="unauthorised"} 4`} {
				if !strings.Contains(metrics, want) {
					t.Errorf("/metrics lacks %s", want)
				}
			}
			_, stats := get(t, r.ops+"/stats")
			if !strings.Contains(stats, `"llm:m-1@r`) {
				t.Errorf("/stats doesn't name the scale: %s", stats)
			}
			r.stop()
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if err := <-r.ended; err != nil {
				t.Error(err)
			}
			if strings.Contains(r.logs.String()+metrics+stats, key) {
				t.Errorf("the key was logged:\n%s", r.logs)
			}
		})
	}
}

func TestJudgeFlagErrors(t *testing.T) {
	good := []string{"--judge", "llm", "--judge-base-url", "https://x.test/v1", "--judge-model", "m"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"type":        {[]string{"--judge", "me"}, `--judge is "me"`},
		"no endpoint": {[]string{"--judge", "llm", "--judge-model", "m"}, "base URL"},
		"no model":    {[]string{"--judge", "llm", "--judge-base-url", "https://x.test/v1"}, "model"},
		"timeout":     {append(slices.Clip(good), "--judge-timeout", "0"), "--judge-timeout"},
		"on failure":  {append(slices.Clip(good), "--judge-on-failure", "zero"), "choose error or offline"},
		"key file":    {append(slices.Clip(good), "--judge-api-key-file", "none.key"), "none.key"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := NewCommand(Setting{LookupEnv: noEnvironment, Logs: os.Stderr})
			cmd.SetArgs(c.args)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to contain %q", err, c.want)
			}
		})
	}
}

// A step over plain HTTP is answered even if its judgement takes the maximum time.
func TestResponsesWaitForTheJudge(t *testing.T) {
	log := newLogger("error", Setting{Logs: io.Discard})
	for _, judgement := range []time.Duration{0, time.Minute, 10 * time.Minute} {
		if got := newHTTPServer(nil, judgement, 1, log).WriteTimeout; got != judgement+2*time.Minute {
			t.Errorf("a judgement of %v: a response may take %v, want two minutes more", judgement, got)
		}
	}
}
