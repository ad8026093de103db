package evaluation

import (
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// played returns the sums of four scored episodes and one errored one of a plan of eight: billing
// has the mean 0.7, shipping 1.
func played(t *testing.T) (score.Accumulator, v1alpha1.EvaluationRunStatus) {
	t.Helper()
	var sums score.Accumulator
	ledger := &score.Ledger{PassScore: 800_000}
	for i, e := range []struct {
		task, scenario, category string
		points                   int64
	}{{"ticket-resolve", "B01", "billing", 900_000}, {"ticket-resolve", "B02", "billing", 500_000},
		{"ticket-classify", "S01", "shipping", 1_000_000}, {"ticket-classify", "S02", "shipping", 1_000_000}} {
		ep := score.PlannedEpisode{Index: int64(i), Task: e.task, Scenario: e.scenario}
		if err := ledger.Add(ep, score.Episode{Outcome: score.Scored, Score: e.points, Category: e.category}); err != nil {
			t.Fatal(err)
		}
	}
	lost := score.ErrorClass{Class: "env_lost"}
	lost.Episodes.Add(7)
	sums.FoldSummary(ledger, score.Summary{Errored: []score.ErrorClass{lost}})
	return sums, v1alpha1.EvaluationRunStatus{
		Episodes: &v1alpha1.RunEpisodes{Total: 8},
		Baseline: &v1alpha1.BaselineResult{Name: "last", Scenarios: 4, Delta: "-0.0250",
			CI95: &v1alpha1.Interval{Low: "-0.1000", High: "0.0500"}},
	}
}

func TestThresholdsOfAllFigures(t *testing.T) {
	sums, status := played(t)
	number := func(text string) v1alpha1.Number { return v1alpha1.Number{Text: text} }
	for name, tc := range map[string]struct {
		threshold v1alpha1.Threshold
		change    func(*v1alpha1.EvaluationRunStatus)
		want      string
	}{
		"mean": {threshold: v1alpha1.Threshold{Metric: "meanScore", Min: number("0.85")},
			want: "True: meanScore is 0.8500, at least 0.85."},
		"of a task": {threshold: v1alpha1.Threshold{Metric: "meanScore", Task: "ticket-resolve", Min: number("0.71")},
			want: "False: meanScore of task ticket-resolve is 0.7000, below 0.71."},
		"of a category": {threshold: v1alpha1.Threshold{Metric: "passRate", Category: "shipping", Min: number("1")},
			want: "True: passRate of category shipping is 1.0000, at least 1."},
		"of a category that wasn't played": {threshold: v1alpha1.Threshold{Metric: "passRate", Category: "technical"},
			want: "False: passRate of category technical is not known: it requires more episodes."},
		"coverage": {threshold: v1alpha1.Threshold{Metric: "coverage", Min: number("0.500001")},
			want: "False: coverage is 0.5000, below 0.500001."},
		"difference": {threshold: v1alpha1.Threshold{Metric: "delta", Min: number("-0.03")},
			want: "True: delta is -0.0250, at least -0.03."},
		"difference missed": {threshold: v1alpha1.Threshold{Metric: "delta", Min: number("-0.02")},
			want: "False: delta is -0.0250, below -0.02."},
		"low end of the difference": {threshold: v1alpha1.Threshold{Metric: "deltaLow", Min: number("-0.09")},
			want: "False: deltaLow is -0.1000, below -0.09."},
		"no comparison": {threshold: v1alpha1.Threshold{Metric: "delta", Min: number("-1")},
			change: func(s *v1alpha1.EvaluationRunStatus) { s.Baseline = &v1alpha1.BaselineResult{Message: "No."} },
			want:   "False: delta is not known: the run is not compared with its baseline."},
	} {
		t.Run(name, func(t *testing.T) {
			now := *status.DeepCopy()
			if tc.change != nil {
				tc.change(&now)
			}
			c := thresholdsCondition([]v1alpha1.Threshold{tc.threshold}, now, sums, Completed)
			if got := string(c.Status) + ": " + c.Message; got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// Thresholds that no run could meet are refused before an episode is played, and so is a limit of
// errored episodes that the pool doesn't permit.
func TestBeginRefuses(t *testing.T) {
	scenario := func(id, category string) score.Scenario { return score.Scenario{ID: id, Category: category} }
	report := score.Report{Tasks: []score.Task{{Name: "ticket-resolve", Scenarios: []score.Scenario{
		scenario("B01", "billing"), scenario("S01", "shipping")}}}}
	for name, tc := range map[string]struct {
		threshold v1alpha1.Threshold
		errored   *int32
		limit     *int32
		attempts  int32
		want      string
	}{
		"nothing": {},
		"a task": {threshold: v1alpha1.Threshold{Metric: "meanScore", Task: "refund"},
			want: "names task refund, which the run doesn't play: use one of ticket-resolve"},
		"a category": {threshold: v1alpha1.Threshold{Metric: "meanScore", Category: "technical"},
			want: "names category technical, of which the run plays no scenario: use one of billing"},
		"a category that the spec excludes": {threshold: v1alpha1.Threshold{Metric: "meanScore",
			Category: "shipping"}, want: "names category shipping"},
		"one that is played": {threshold: v1alpha1.Threshold{Metric: "meanScore", Category: "billing"}},
		"more errored than the pool permits": {errored: new(int32(11)), limit: new(int32(10)),
			want: "retries.maxErroredPercent is 11, and pool support permits 10 at most"},
		"the default, of a pool that permits less": {limit: new(int32(4)), want: "retries.maxErroredPercent is 5"},
		"as many as the pool permits":              {errored: new(int32(10)), limit: new(int32(10))},
		"more attempts than the pool permits": {attempts: 4,
			want: "retries.episodeAttempts is 4, and pool support permits 3 at most"},
		"as many attempts": {attempts: 3},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.EvaluationRun{Spec: v1alpha1.EvaluationRunSpec{
				PassScore: v1alpha1.Number{Text: "0.8"}, Retries: v1alpha1.Retries{MaxErroredPercent: tc.errored,
					EpisodeAttempts: tc.attempts},
				Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve",
					Scenarios: &v1alpha1.ScenarioSelection{Categories: []string{"billing"}}}}}}
			run.UID = "uid"
			if tc.threshold.Metric != "" {
				run.Spec.Thresholds = []v1alpha1.Threshold{tc.threshold}
			}
			_, _, err := BeginRun(run, &v1alpha1.EvaluationRunStatus{}, Offer{Pool: "support", Report: report,
				Limits: v1alpha1.RunLimits{MaxErroredPercent: tc.limit, MaxEpisodeAttempts: new(int32(3))}})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
