package run

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

// Offer is what a pool has to play.
type Offer struct {
	// Pool is the pool's name, for messages.
	Pool string
	// LedgerKey is the public half of the key with which its servers sign.
	LedgerKey string
	// Report is what one of its servers says on /stats.
	Report score.Report
}

// NewPlan selects what a run's spec asks for of what a pool offers, in as many shards as the spec
// has runners side by side. Its error says what the pool doesn't offer.
func NewPlan(run *v1alpha1.EvaluationRun, offer Offer) (score.Plan, error) {
	return makePlan(run, offer, int(ptr.Deref(run.Spec.Parallelism, 1)))
}

func makePlan(run *v1alpha1.EvaluationRun, offer Offer, shards int) (score.Plan, error) {
	spec, report := run.Spec, offer.Report
	passScore, err := score.ParseDecimal(spec.PassScore)
	if err != nil {
		return score.Plan{}, fmt.Errorf("reading spec.passScore: %w", err)
	}
	draft := score.Plan{
		Run: string(run.UID), Seed: ptr.Deref(spec.Seed, 0), PassScore: passScore,
		Pressure:       spec.Pressure == v1alpha1.ResponseTimePressure,
		ScenarioDigest: report.ScenarioDigest, GraderVersion: report.GraderVersion, Judge: report.Judge,
		LedgerKey: offer.LedgerKey,
	}
	var wrong []error
	categories := map[string]bool{}
	for _, selection := range spec.Tasks {
		scenarios, err := selectScenarios(selection, report.Tasks, categories)
		wrong = append(wrong, err)
		draft.Tasks = append(draft.Tasks, score.PlanTask{Name: selection.Name, Trials: int(max(selection.Trials, 1)),
			Scenarios: scenarios})
	}
	if err := errors.Join(wrong...); err != nil {
		return score.Plan{}, fmt.Errorf("pool %s doesn't offer what spec.tasks asks for: %s", offer.Pool,
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if len(categories) > maxCategories {
		return score.Plan{}, fmt.Errorf("spec.tasks selects scenarios of %d categories, and a run has figures for %d "+
			"at most: name those that you want in spec.tasks[].scenarios.categories", len(categories), maxCategories)
	}
	return score.NewPlan(draft, shards)
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
	wanted := ptr.Deref(selection.Scenarios, v1alpha1.ScenarioSelection{})
	ids, categories := map[string]bool{}, map[string]bool{}
	var selected []string
	for _, sc := range offered[at].Scenarios {
		ids[sc.ID], categories[sc.Category] = true, true
		if asks(wanted.IDs, sc.ID) && asks(wanted.Categories, sc.Category) {
			selected = append(selected, sc.ID)
			selectedCategories[sc.Category] = true
		}
	}
	if err := errors.Join(unknown(selection.Name, "scenario", wanted.IDs, ids),
		unknown(selection.Name, "category", wanted.Categories, categories)); err != nil {
		return nil, err
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("task %s has no scenario that meets both ids and categories, its categories are %s",
			selection.Name, strings.Join(slices.Sorted(maps.Keys(categories)), ", "))
	}
	return selected, nil
}

// asks says whether a list asks for a name. An empty one asks for all.
func asks(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

func unknown(task, kind string, wanted []string, known map[string]bool) error {
	var missing []string
	for _, name := range wanted {
		if !known[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("task %s has no %s %s, use %s", task, kind, strings.Join(missing, ", "),
		strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}
