package observe

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

func TestSameGrader(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*score.Report)
		same   bool
	}{
		"same":            {func(*score.Report) {}, true},
		"other scenarios": {func(r *score.Report) { r.ScenarioDigest = "sha256:bb" }, false},
		"other grader":    {func(r *score.Report) { r.GraderVersion = "2" }, false},
		"other judge":     {func(r *score.Report) { r.Judge = "llm" }, false},
		"more sessions":   {func(r *score.Report) { r.Sessions.Active = 7 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			report := runtest.NewReport()
			tc.change(&report)
			if err := checkGrader(runtest.NewPool(), report); (err == nil) != tc.same {
				t.Errorf("error %v", err)
			}
		})
	}
}

// While a pool has servers of the release before alone, no runner is started, which they would
// refuse. Servers of both releases are as good as one of this one.
func TestRunsWaitForServersOfTheirRelease(t *testing.T) {
	old := runtest.NewReport()
	old.Protocol = 0
	pods := []corev1.Pod{*runtest.NewServer("support-a", "10.0.0.1"), *runtest.NewServer("support-b", "10.0.0.2")}
	reports := runtest.FakePool{"10.0.0.1": old, "10.0.0.2": old}
	r := &Reader{Cache: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&pods[0], &pods[1]).Build(),
		Pools: reports, Keys: runtest.PoolKeys{}}
	if _, _, err := r.fetchReport(t.Context(), runtest.NewPool(), true); !errors.Is(err, errOldServer) {
		t.Errorf("error %v", err)
	}
	if report, _, err := r.fetchReport(t.Context(), runtest.NewPool(), false); err != nil || report == nil {
		t.Errorf("a run of trainers has %v, %v", report, err)
	}
	reports["10.0.0.2"] = runtest.NewReport()
	if report, _, err := r.fetchReport(t.Context(), runtest.NewPool(), true); err != nil || report.Protocol == 0 {
		t.Errorf("during the update it has %v, %v", report, err)
	}
}
