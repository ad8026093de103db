package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/envvars"
)

// Without --results, episodes are stored in the default folder, which other commands read without a
// cluster. A complete run is played again, and an interrupted one is continued at any concurrency.
func TestDefaultStore(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Chdir(t.TempDir())
	if err := os.Unsetenv(envvars.Results); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Setenv(envvars.Results, "none") })
	play := func(more ...string) (string, int) {
		_, errs, code := csenv(t, append([]string{"eval", "ticket-classify", "--scenarios", "B06,S03"}, more...)...)
		return errs, code
	}
	out := must(t, "eval", "ticket-classify", "--scenarios", "B06,S03")
	if strings.Count(out, "\n") > 12 || !strings.Contains(out, "\nScore 1.00, 95 % interval ") || strings.Contains(out, "sha256") ||
		!strings.Contains(strings.Join(strings.Fields(out), " "), "Stored in csenv-results/heuristic-") {
		t.Fatal(out)
	}
	if out := must(t, "results", "heuristic"); !strings.Contains(out, "Completed, 2 of 2 episodes") {
		t.Error(out)
	}
	if errs, _ := play("--concurrency", "2"); strings.Contains(errs, "reused") {
		t.Errorf("a complete run is not played again: %s", errs)
	}
	stored, err := filepath.Glob("csenv-results/heuristic-*/shard-00000/000001.jsonl")
	if err != nil || len(stored) != 2 {
		t.Fatal(stored, err)
	}
	if _, errs, code := csenv(t, "results", "heuristic"); code != exitError ||
		!strings.Contains(errs, "several runs named heuristic") || !strings.Contains(errs, "(ticket-classify, seed 0, 20") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, file := range stored {
		lines, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(lines), "\n")
		if err := os.WriteFile(file, []byte(first+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if errs, _ := play("--concurrency", "3", "--parallelism", "2"); !strings.Contains(errs, "1 episode reused from") {
		t.Errorf("an interrupted run is not continued: %s", errs)
	}
	if errs, _ := play("--results", "none"); errs != "" {
		t.Errorf("--results none stores: %s", errs)
	}
}

// A model that refuses every request is called once, a judge a few times, and no episode is played.
func TestEvalTriesEndpoints(t *testing.T) {
	t.Setenv("CSENV_AGENT_KEY", "key")
	var calls atomic.Int64
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		http.Error(w, `{"error":{"message":"the model gpt-9 does not exist"}}`, http.StatusNotFound)
	}))
	defer refusing.Close()
	for name, args := range map[string][]string{
		"agent": {"--model", "gpt-9", "--base-url", refusing.URL + "/v1"},
		"judge": {"--judge", "llm", "--judge-model", "gpt-9", "--judge-base-url", refusing.URL + "/v1"},
	} {
		calls.Store(0)
		out, errs, code := csenv(t, append([]string{"eval", "ticket-resolve"}, args...)...)
		if code != exitError || out != "" || calls.Load() > map[string]int64{"agent": 1, "judge": 4}[name] {
			t.Errorf("%s: exit code %d after %d calls: %s%s", name, code, calls.Load(), out, errs)
		}
		for _, want := range []string{"nothing was played", "404", "gpt-9 does not exist", refusing.URL, "check the model's name"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: the error does not contain %q: %s", name, want, errs)
			}
		}
	}
}

// A dry run calls no endpoint and stores nothing.
func TestEvalDryRun(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results")
	out := must(t, "eval", "ticket-resolve", "--scenarios", "B06,S03", "--trials", "2", "--model", "m", "--base-url",
		"http://127.0.0.1:1/v1", "--results", folder, "--dry-run")
	for _, want := range []string{"task ticket-resolve", "4 episodes", "actions, at least", "http://127.0.0.1:1/v1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("a dry run has stored episodes")
	}
}

// The output of an interrupted run says how to continue, and nothing of a score that it hasn't.
func TestEvalInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the request only after that
			stop()
			<-r.Context().Done()
		}
	}))
	defer slow.Close()
	var out strings.Builder
	code := runWith(ctx, []string{"eval", "ticket-classify", "--scenarios", "B06,S03", "--agent-url", slow.URL,
		"--results", t.TempDir()}, strings.NewReader(""), &out, io.Discard)
	got := strings.Join(strings.Fields(out.String()), " ")
	if code != exitOutcome ||
		!strings.Contains(got, "Run the same command again to play the others.") || strings.Contains(got, "estimate") ||
		strings.Count(got, "0 of 2 episodes") != 1 {
		t.Errorf("exit code %d: %s", code, got)
	}
}

func TestEvalLimit(t *testing.T) {
	play := func(flags ...string) (run v1alpha1.EvaluationRun) {
		t.Helper()
		out := must(t, append([]string{"eval", "ticket-classify", "--limit", "3", "-o", "json"}, flags...)...)
		if err := json.Unmarshal([]byte(out), &run); err != nil {
			t.Fatal(err)
		}
		return run
	}
	ids := func(run v1alpha1.EvaluationRun) []string { return run.Spec.Tasks[0].Scenarios.IDs }
	first, again, other := play("--results", "none"), play("--results", "none"), play("--results", "none", "--seed", "7")
	if first.Status.Progress != "3/3" || len(ids(first)) != 3 || !slices.Equal(ids(first), ids(again)) ||
		slices.Equal(ids(first), ids(other)) {
		t.Errorf("%s: %v, again %v, another seed %v", first.Status.Progress, ids(first), ids(again), ids(other))
	}
	if few := play("--results", "none", "--category", "shipping", "--limit", "1000"); few.Status.Progress != "10/10" {
		t.Errorf("more than there are: %s", few.Status.Progress)
	}
}

func TestEvalLabels(t *testing.T) {
	folder := t.TempDir()
	for name, team := range map[string]string{"first": "support", "second": "sales"} {
		must(t, "eval", "ticket-classify", "--limit", "2", "--name", name, "--label", "team="+team, "--note", "a try",
			"--results", folder)
	}
	if out := must(t, "runs", "-l", "team=support", "--results", folder); !strings.Contains(out, "first") ||
		strings.Contains(out, "second") {
		t.Error(out)
	}
	var run v1alpha1.EvaluationRun
	out := must(t, "results", "second", "--results", folder, "-o", "json")
	if err := json.Unmarshal([]byte(out), &run); err != nil || run.Labels["team"] != "sales" ||
		run.Annotations["csenv.dev/note"] != "a try" {
		t.Errorf("%v, %s", err, out)
	}
}
