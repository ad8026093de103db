package figures

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
)

func TestVerdicts(t *testing.T) {
	complete := []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
	run := func(task string, s v1alpha1.EvaluationRunStatus) *v1alpha1.EvaluationRun {
		return &v1alpha1.EvaluationRun{Status: s,
			Spec: v1alpha1.EvaluationRunSpec{Tasks: []v1alpha1.TaskSelection{{Name: task}}}}
	}
	scored := v1alpha1.EvaluationRunStatus{PassRate: "0.2500", PassRateCI95: &v1alpha1.Interval{Low: "0.1420",
		High: "0.4018"}, Score: &v1alpha1.Score{Mean: "0.5"}, Episodes: &v1alpha1.RunEpisodes{Scored: 30, Total: 40}}
	ended := scored
	ended.Conditions = complete
	partly, played := ended, ended
	played.Tasks = []v1alpha1.TaskResult{{Name: "ticket-resolve"}}
	partly.Episodes = &v1alpha1.RunEpisodes{Scored: 98, Failed: 2, Errored: 20, Total: 120}
	const text = " 25 % of the tickets to the standard (14 to 40 %), in "
	for want, r := range map[string]*v1alpha1.EvaluationRun{
		"Classifies" + text + "30 episodes.": run("ticket-classify", ended),
		"Resolves" + text + "100 episodes. Of all 120 episodes, the other 20 errored and have no score.": run(
			"ticket-resolve", partly),
		"Handles 25 % of the workflows to the standard (14 to 40 %), in 30 episodes so far: 30 of 40 episodes have " +
			"ended.": run("refund", scored),
		"Handles 25 % of the cases to the standard (14 to 40 %), in 30 episodes.":   run("case-hard", ended),
		"Manages 25 % of the queues to the standard (14 to 40 %), in 30 episodes.":  run("queue-management", ended),
		"Passes 25 % of the episodes to the standard (14 to 40 %), in 30 episodes.": run("chess", ended),
		"Resolves" + text + "30 episodes.":                                          {Status: played}, // the episodes of a trainer
		"No episode has a score.":                                                   run("refund", v1alpha1.EvaluationRunStatus{Conditions: complete}),
		"No episode has a score yet: 2 of 4 have ended.": run("refund", v1alpha1.EvaluationRunStatus{
			Episodes: &v1alpha1.RunEpisodes{Errored: 2, Total: 4}}),
	} {
		if got := verdictOf(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, rows := range map[string][]thresholdRow{
		"; does not meet its threshold of 60 %":      {{Metric: "passRate", Min: "0.6", Result: "missed"}},
		"; meets its threshold for meanScore of 0.4": {{Metric: "meanScore", Min: "0.4", Result: "met"}},
		"; meets all its 2 thresholds": {{Metric: "passRate", Min: "0.6", Result: "met"},
			{Metric: "coverage", Min: "1", Result: "met"}},
		"": {{Metric: "passRate", Min: "0.6", Result: "not final"}},
	} {
		if got := describeThresholds(rows); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPassHatNames(t *testing.T) {
	for want, p := range map[string]v1alpha1.PassHat{
		"passes both of two tries (pass^2), over 1 scenario": {K: 2, Scenarios: 1},
		"passes all of 4 tries (pass^4)":                     {K: 4},
	} {
		if got := passHatName(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSupportedDigits(t *testing.T) {
	for _, tt := range []struct{ figure, low, high, want string }{
		{"0.4750", "0.3475", "0.6025", "0.48"}, {"0.4754", "0.4721", "0.4787", "0.475"},
		{"0.4754", "0.4753", "0.4755", "0.4754"}, {"0.4750", "", "", "0.48"}, {"", "", "", ""},
	} {
		if got := RoundToInterval(tt.figure, v1alpha1.Interval{Low: tt.low, High: tt.high}); got != tt.want {
			t.Errorf("%s in %s to %s: %s, want %s", tt.figure, tt.low, tt.high, got, tt.want)
		}
	}
}

// A public page names no criterion, because that can tell what is right.
func TestLostPoints(t *testing.T) {
	lost := []source.LostPoints{{Task: "t", Dimension: "response", Episodes: 2, Points: 300},
		{Task: "t", Dimension: "response", Part: "facts", Episodes: 2, Points: 200},
		{Task: "t", Dimension: "response", Part: "limit: copied", Episodes: 1, Points: 100}}
	if only := lostRows(lost[:2], ""); len(only) != 1 || only[0].Name != "response: facts" {
		t.Errorf("a single part: %+v", only)
	}
	for public, want := range map[bool]int{true: 1, false: 3} {
		v := NewRunView(&v1alpha1.EvaluationRun{}, ViewOptions{Public: public, Episodes: "/e", Lost: lost})
		if len(v.Lost) != want || v.Lost[0].Share != "100 %" || v.Lost[0].Path != "/e?lost=t%2Fresponse%2F&sort=score" {
			t.Errorf("public %v: %+v", public, v.Lost)
		}
	}
}
