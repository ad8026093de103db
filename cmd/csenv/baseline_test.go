package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
)

// csenv eval compares with a stored run as a cluster compares with spec.baselineRef, and the stored
// run has the same outcome.
func TestEvalBaseline(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	play := func(args ...string) []string {
		return append([]string{"eval", "ticket-classify", "--categories", "billing", "--results", store}, args...)
	}
	must(t, play("--agent", "heuristic")...)
	var run v1alpha1.EvaluationRun
	for _, baseline := range []string{"heuristic", filepath.Join(store, "heuristic")} {
		out := must(t, play("--agent", "oracle", "--baseline", baseline, "--threshold", "delta=0.1", "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &run); err != nil || run.Status.Baseline == nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var compared comparison
	if err := json.Unmarshal([]byte(must(t, "compare", "oracle", "heuristic", "--results", store, "-o", "json")),
		&compared); err != nil || run.Status.Baseline.Delta != compared.Delta ||
		run.Status.Baseline.CI95.Low != compared.Low || run.Status.Baseline.Scenarios != 10 {
		t.Errorf("%v: compare says %+v, eval %+v", err, compared, run.Status.Baseline)
	}
	if out := must(t, "results", "oracle", "--results", store); !strings.Contains(out, "delta is "+compared.Delta) {
		t.Error(out)
	}
	missed := play("--agent", "noop", "--baseline", "heuristic", "--threshold", "delta=-0.01")
	if out, errs, code := csenv(t, missed...); code != exitOutcome || !strings.Contains(out, "below -0.01") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if out, _, code := csenv(t, "results", "noop", "--results", store); code != exitOutcome ||
		!strings.Contains(out, "below -0.01") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, errs, code := csenv(t, play("--agent", "random", "--baseline", "nobody")...); code != exitError ||
		out != "" || !strings.Contains(errs, "reading --baseline: there is no run nobody in") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
