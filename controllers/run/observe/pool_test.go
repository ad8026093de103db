package observe

import (
	"testing"

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
