package evaluation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// criterion is one list of a selection.
type criterion struct {
	// field is the list's name in spec.tasks[].scenarios, and value the word for one of its values.
	field, value string
	wanted       []string
	// of returns a scenario's values. One of them has to be wanted.
	of func(score.Scenario) []string
}

func listCriteria(s v1alpha1.ScenarioSelection) []criterion {
	return []criterion{
		{"ids", "scenario", s.IDs, func(sc score.Scenario) []string { return []string{sc.ID} }},
		{"categories", "category", s.Categories, func(sc score.Scenario) []string { return []string{sc.Category} }},
		{"modifiers", "modifier", s.Modifiers, func(sc score.Scenario) []string { return sc.Modifiers }},
		{"difficulties", "difficulty", toStrings(s.Difficulties),
			func(sc score.Scenario) []string { return []string{sc.Difficulty} }},
		{"splits", "split", toStrings(s.Splits),
			func(sc score.Scenario) []string { return []string{string(v1alpha1.SplitNamed(sc.Split))} }},
	}
}

func toStrings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func (c criterion) matches(sc score.Scenario) bool {
	return len(c.wanted) == 0 ||
		slices.ContainsFunc(c.of(sc), func(v string) bool { return slices.Contains(c.wanted, v) })
}

// values are the scenarios' values of the criterion, ordered.
func (c criterion) values(scenarios []score.Scenario) []string {
	values := map[string]bool{}
	for _, sc := range scenarios {
		for _, v := range c.of(sc) {
			values[v] = true
		}
	}
	delete(values, "") // servers of an older release may not report an attribute
	return slices.Sorted(maps.Keys(values))
}

// unknown returns an error if no scenario of the task has a wanted value.
func (c criterion) unknown(task score.Task) error {
	known := c.values(task.Scenarios)
	missing := slices.DeleteFunc(slices.Clone(c.wanted), func(v string) bool { return slices.Contains(known, v) })
	switch {
	case len(missing) == 0:
		return nil
	case len(known) == 0:
		return fmt.Errorf("no scenario of task %s has %s, or the pool's servers are of an older release that doesn't "+
			"report them: omit scenarios.%s, or update the servers", task.Name, c.field, c.field)
	default:
		return fmt.Errorf("task %s has no %s %s, use %s", task.Name, c.value, joinNames(missing), joinNames(known))
	}
}

// selectScenarios lists the ids of a task's scenarios that a selection asks for, and notes their
// categories. Its errors name what there is.
func selectScenarios(selection v1alpha1.TaskSelection, offered []score.Task,
	selectedCategories map[string]bool) ([]string, error) {
	at := slices.IndexFunc(offered, func(t score.Task) bool { return t.Name == selection.Name })
	if at < 0 {
		names := make([]string, len(offered))
		for i, t := range offered {
			names[i] = t.Name
		}
		return nil, fmt.Errorf("there is no task %q, use %s", selection.Name, strings.Join(names, ", "))
	}
	var combined []criterion
	var wrong []error
	for _, c := range listCriteria(ptr.Deref(selection.Scenarios, v1alpha1.ScenarioSelection{})) {
		if len(c.wanted) > 0 {
			combined, wrong = append(combined, c), append(wrong, c.unknown(offered[at]))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	var selected []string
	for _, sc := range filterScenarios(offered[at].Scenarios, combined) {
		selected = append(selected, sc.ID)
		selectedCategories[sc.Category] = true
	}
	if len(selected) == 0 && len(combined) > 0 {
		return nil, newDisjointError(offered[at], combined)
	}
	return selected, nil
}

func filterScenarios(scenarios []score.Scenario, criteria []criterion) []score.Scenario {
	return slices.DeleteFunc(slices.Clone(scenarios), func(sc score.Scenario) bool {
		return slices.ContainsFunc(criteria, func(c criterion) bool { return !c.matches(sc) })
	})
}

// newDisjointError is the error of lists that no scenario matches together. It names the values
// with which one of the lists would match scenarios.
func newDisjointError(task score.Task, combined []criterion) error {
	lists := make([]string, len(combined))
	var advice strings.Builder
	for i, c := range combined {
		lists[i] = c.field + " " + joinNames(c.wanted)
		others := slices.Delete(slices.Clone(combined), i, i+1)
		if values := c.values(filterScenarios(task.Scenarios, others)); len(values) > 0 {
			fmt.Fprintf(&advice, "; with the other lists %s can be %s", c.field, joinNames(values))
		}
	}
	return fmt.Errorf("task %s has no scenario that meets all of %s%s", task.Name, strings.Join(lists, " and "),
		advice.String())
}

// joinNames joins names, and omits those after the first forty: a task may have a thousand
// scenarios.
func joinNames(names []string) string {
	const most = 40
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
