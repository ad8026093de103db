package evaluation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

func offeredTickets() []score.Task {
	scenario := func(id, category, difficulty, split string) score.Scenario {
		return score.Scenario{ID: id, Category: category, Difficulty: difficulty, Split: split}
	}
	return []score.Task{{Name: "ticket-resolve", Scenarios: []score.Scenario{
		scenario("B01", "billing", "easy", "public-train"), scenario("B02", "billing", "hard", "public-test"),
		scenario("S01", "shipping", "medium", "public-train"), scenario("T01", "technical", "hard", "private")}}}
}

func offeredCases() []score.Task {
	scenario := func(id, family, split string, modifiers ...string) score.Scenario {
		return score.Scenario{ID: id, Category: family, Difficulty: "hard", Split: split, Modifiers: modifiers}
	}
	return []score.Task{{Name: "case-hard", Scenarios: []score.Scenario{
		scenario("return-01", "return", "public-train"), scenario("return-02", "return", "public-test", "opened", "plus"),
		scenario("return-03", "return", "public-test", "plus"), scenario("damaged-01", "damaged", "public-dev", "holiday"),
	}}}
}

func TestSelectScenarios(t *testing.T) {
	easy, hard := v1alpha1.Difficulty("easy"), v1alpha1.Difficulty("hard")
	for name, tc := range map[string]struct {
		offered   []score.Task
		selection *v1alpha1.ScenarioSelection
		want      string
	}{
		"all":         {offeredTickets(), nil, "B01 B02 S01 T01"},
		"empty lists": {offeredTickets(), &v1alpha1.ScenarioSelection{}, "B01 B02 S01 T01"},
		"ids":         {offeredTickets(), &v1alpha1.ScenarioSelection{IDs: []string{"S01", "B01"}}, "B01 S01"},
		"categories": {offeredTickets(),
			&v1alpha1.ScenarioSelection{Categories: []string{"billing", "technical"}}, "B01 B02 T01"},
		"difficulties": {offeredTickets(),
			&v1alpha1.ScenarioSelection{Difficulties: []v1alpha1.Difficulty{easy, hard}}, "B01 B02 T01"},
		"splits": {offeredTickets(), &v1alpha1.ScenarioSelection{
			Splits: []v1alpha1.ScenarioSplit{v1alpha1.TestSplit, v1alpha1.PrivateSplit}}, "B02 T01"},
		"lists intersect": {offeredTickets(),
			&v1alpha1.ScenarioSelection{IDs: []string{"B01", "S01"}, Categories: []string{"billing"}}, "B01"},
		"one modifier": {offeredCases(), &v1alpha1.ScenarioSelection{Modifiers: []string{"plus"}},
			"return-02 return-03"},
		"one of several modifiers": {offeredCases(),
			&v1alpha1.ScenarioSelection{Modifiers: []string{"opened", "holiday"}}, "return-02 damaged-01"},
		"all lists": {offeredCases(), &v1alpha1.ScenarioSelection{IDs: []string{"return-02", "return-03", "damaged-01"},
			Categories: []string{"return"}, Modifiers: []string{"opened"}, Difficulties: []v1alpha1.Difficulty{hard},
			Splits: []v1alpha1.ScenarioSplit{v1alpha1.TestSplit}}, "return-02"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := selectScenarios(v1alpha1.TaskSelection{Name: tc.offered[0].Name, Scenarios: tc.selection},
				tc.offered, map[string]bool{})
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" || err != nil {
				t.Errorf("error %v; %s", err, diff)
			}
		})
	}
}

func TestSelectScenariosRefuses(t *testing.T) {
	older := offeredCases()
	for i := range older[0].Scenarios {
		older[0].Scenarios[i].Modifiers, older[0].Scenarios[i].Split = nil, ""
	}
	for name, tc := range map[string]struct {
		offered   []score.Task
		selection v1alpha1.ScenarioSelection
		want      string
	}{
		"a modifier of no case": {offeredCases(), v1alpha1.ScenarioSelection{Modifiers: []string{"plus", "pluss"}},
			"task case-hard has no modifier pluss, use holiday, opened, plus"},
		"a difficulty of another task": {offeredCases(),
			v1alpha1.ScenarioSelection{Difficulties: []v1alpha1.Difficulty{"easy"}},
			"task case-hard has no difficulty easy, use hard"},
		"a split that the pool doesn't serve": {offeredCases(),
			v1alpha1.ScenarioSelection{Splits: []v1alpha1.ScenarioSplit{v1alpha1.PrivateSplit}},
			"task case-hard has no split Private, use Dev, Test, Train"},
		"modifiers of tickets": {offeredTickets(), v1alpha1.ScenarioSelection{Modifiers: []string{"plus"}},
			"no scenario of task ticket-resolve has modifiers, or the pool's servers are of an older release that " +
				"doesn't report them: omit scenarios.modifiers, or update the servers"},
		"servers that don't report modifiers": {older, v1alpha1.ScenarioSelection{Modifiers: []string{"plus"}},
			"no scenario of task case-hard has modifiers, or the pool's servers are of an older release"},
		"servers that don't report splits": {older,
			v1alpha1.ScenarioSelection{Splits: []v1alpha1.ScenarioSplit{v1alpha1.TestSplit}},
			"no scenario of task case-hard has splits, or the pool's servers are of an older release"},
		"lists that exclude each other": {offeredCases(), v1alpha1.ScenarioSelection{Categories: []string{"return"},
			Modifiers: []string{"opened"}, Splits: []v1alpha1.ScenarioSplit{v1alpha1.TrainSplit}},
			"task case-hard has no scenario that meets all of categories return and modifiers opened and splits Train; " +
				"with the other lists splits can be Test"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := selectScenarios(v1alpha1.TaskSelection{Name: tc.offered[0].Name, Scenarios: &tc.selection},
				tc.offered, map[string]bool{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, error %v, want %q", got, err, tc.want)
			}
		})
	}
}

// The message of the worst selection fits into a condition, of which the API takes 32,768
// characters.
func TestInvalidPlanFitsIntoItsCondition(t *testing.T) {
	run := &v1alpha1.EvaluationRun{}
	offer := Offer{Pool: "support"}
	for i := range 16 {
		task := score.Task{Name: fmt.Sprintf("task-%d", i)}
		selection := v1alpha1.ScenarioSelection{}
		for j := range 256 {
			id := fmt.Sprintf("%s-%03d", strings.Repeat("x", 28), j)
			task.Scenarios = append(task.Scenarios, score.Scenario{ID: id, Category: id + id, Modifiers: []string{id}})
			selection.IDs = append(selection.IDs, "y"+id)
			selection.Categories, selection.Modifiers = selection.IDs[:min(j, 32)], selection.IDs[:min(j, 64)]
		}
		offer.Report.Tasks = append(offer.Report.Tasks, task)
		run.Spec.Tasks = append(run.Spec.Tasks, v1alpha1.TaskSelection{Name: task.Name, Scenarios: &selection})
	}
	_, err := NewPlan(run, offer, 1)
	if err == nil {
		t.Fatal("no error")
	}
	if message := InvalidPlan(err).Message; len(message) > 32_768 ||
		!strings.Contains(message, "task-0 has no scenario y") || !strings.Contains(message, "and 216 more") {
		t.Errorf("%d bytes: %.400s", len(message), message)
	}
}
