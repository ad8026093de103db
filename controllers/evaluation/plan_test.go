package evaluation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

func TestSelectScenarios(t *testing.T) {
	scenario := func(id, category string) score.Scenario { return score.Scenario{ID: id, Category: category} }
	tasks := []score.Task{{Name: "ticket-resolve", Scenarios: []score.Scenario{scenario("B01", "billing"),
		scenario("B02", "billing"), scenario("S01", "shipping"), scenario("T01", "technical")}}}
	cases := map[string]struct {
		selection *v1alpha1.ScenarioSelection
		want      []string
	}{
		"all":         {nil, []string{"B01", "B02", "S01", "T01"}},
		"empty lists": {&v1alpha1.ScenarioSelection{}, []string{"B01", "B02", "S01", "T01"}},
		"ids":         {&v1alpha1.ScenarioSelection{IDs: []string{"S01", "B01"}}, []string{"B01", "S01"}},
		"categories": {&v1alpha1.ScenarioSelection{Categories: []string{"billing", "technical"}},
			[]string{"B01", "B02", "T01"}},
		"both intersect": {&v1alpha1.ScenarioSelection{IDs: []string{"B01", "S01"}, Categories: []string{"billing"}},
			[]string{"B01"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := selectScenarios(v1alpha1.TaskSelection{Name: "ticket-resolve", Scenarios: tc.selection},
				tasks, map[string]bool{})
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v; %s", err, diff)
			}
		})
	}
}

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
