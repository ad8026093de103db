package evaluation

import (
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
)

func TestPassScore(t *testing.T) {
	cases := map[string]struct {
		recorded, explicit string
		tasks              []string
		want               int64
	}{
		"one task":        {tasks: []string{"ticket-resolve"}, want: 750_000},
		"different tasks": {tasks: []string{"ticket-resolve", "ticket-classify"}, want: 800_000},
		"no tasks":        {want: 800_000},
		"an explicit one": {explicit: "0.6", tasks: []string{"ticket-resolve"}, want: 600_000},
		"zero":            {explicit: "0", tasks: []string{"ticket-resolve"}},
		"a recorded one":  {recorded: "0.123456", tasks: []string{"ticket-resolve"}, want: 123_456},
	}
	for name, tc := range cases {
		run := &v1alpha1.EvaluationRun{}
		run.Spec.PassScore.Text, run.Status.PassScore = tc.explicit, tc.recorded
		for _, task := range tc.tasks {
			run.Spec.Tasks = append(run.Spec.Tasks, v1alpha1.TaskSelection{Name: task})
		}
		if got, err := PassScore(run); got != tc.want || err != nil {
			t.Errorf("%s: %d, want %d; error %v", name, got, tc.want, err)
		}
	}
}
