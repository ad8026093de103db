package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// classifier is a model that classifies every ticket as billing of medium priority, and does
// nothing else. Each answer costs 1,000 tokens of prompts and 10 of answers. It refuses seeds.
func classifier(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(body), `"seed"`) {
			http.Error(w, `{"error": {"message": "Unrecognized request argument supplied: seed"}}`, http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"choices": [{"message": {"tool_calls": [{"id": "a", "type": "function", "function": {"name": `+
			`"classify", "arguments": "{\"category\": \"billing\", \"priority\": \"medium\"}"}}]}}], `+
			`"usage": {"prompt_tokens": 1000, "completion_tokens": 10}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

func TestDoctorTriesModels(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	url := classifier(t)
	out, errs, _ := csenv(t, "doctor", "--model", "m", "--base-url", url, "--task", "ticket-classify")
	narrow(t, out)
	for _, want := range []string{"the model called them", "refused: left out", "2 of 2 answers were actions", "seed",
		"eval --task ticket-classify"} {
		if !strings.Contains(errs, "trying model m") || !strings.Contains(out, want) {
			t.Errorf("%q is missing: %s%s", want, out, errs)
		}
	}
	out, _, code := csenv(t, "doctor", "--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--judge-model", "m",
		"--judge-base-url", url)
	for _, want := range []string{"bad   model m", "check that the endpoint runs", "with no verdict"} {
		if code != exitOutcome || !strings.Contains(out, want) {
			t.Errorf("%q is missing, exit code %d: %s", want, code, out)
		}
	}
}

// A run says what was seen of its endpoint, and ends when its budget is used up. With a larger one,
// the same command plays the rest.
func TestEvalBudget(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	url, folder := classifier(t), t.TempDir()
	play := func(args ...string) (string, string, int) {
		return csenv(t, append([]string{"eval", "ticket-classify", "--model", "m", "--base-url", url, "--results", folder,
			"--concurrency", "1", "--price-in", "1", "--price-out", "0"}, args...)...)
	}
	for limit, why := range map[string][]string{
		"11000": {"--max-total-tokens", "budget.maxTokens is 11000"},
		"0.01":  {"--max-cost", "budget.maxCost (--max-cost) is 0.01"},
	} {
		out, errs, code := play(why[0], limit, "--name", "b"+strings.Trim(why[0], "-"))
		if code != exitOutcome || !strings.Contains(out+errs, "BudgetExceeded") ||
			!strings.Contains(strings.Join(strings.Fields(out+errs), " "), why[1]) {
			t.Errorf("%s %s: exit code %d: %s%s", why[0], limit, code, out, errs)
		}
	}
	out, errs, code := play("--name", "bmax-cost", "--max-cost", "0.05")
	if code != 0 || !strings.Contains(errs, "reused from") || !strings.Contains(out, "40 of 40") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "Requests leave out: seed (of") {
		t.Errorf("the run doesn't say what its endpoint refuses: %s", out)
	}
	if out := must(t, "results", "bmax-cost", "--results", folder, "-o", "json"); !strings.Contains(out,
		`"scenarios": 40`) {
		t.Errorf("pass^1 has no number of scenarios: %s", out)
	}
	if _, errs, code := play("--max-cost", "much"); code != exitError || !strings.Contains(errs, "give an amount") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A run in which no answer was an action has scores, says so, and is no success.
func TestEvalWithoutActions(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"choices": [{"message": {"content": "How can I help?"}}], "usage": {"prompt_tokens": 10, `+
			`"completion_tokens": 5}}`)
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	out, errs, code := csenv(t, "eval", "ticket-classify", "--category", "billing", "--model", "m", "--base-url",
		server.URL+"/v1", "--results", folder, "--name", "mute")
	said := strings.Join(strings.Fields(out+errs), " ")
	for _, want := range []string{"10 of 10 episodes scored", "50 of 50 answers of the agent (100.0 %) were no action",
		"How can I help?"} {
		if code != exitOutcome || !strings.Contains(said, want) {
			t.Errorf("exit code %d, %q is missing: %s", code, want, said)
		}
	}
	if _, _, code := csenv(t, "results", "mute", "--results", folder); code != exitOutcome {
		t.Errorf("results: exit code %d", code)
	}
	if out := must(t, "runs", "--results", folder, "-o", "markdown"); !strings.Contains(out, "100.0 % no action") {
		t.Errorf("the list of runs: %s", out)
	}
}
