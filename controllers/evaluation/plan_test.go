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
