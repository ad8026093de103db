package evaluation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/tasks"
)

// MaxCategories is how many categories a status lists, and a plan may have.
const MaxCategories = 32

// maxCause bounds the characters of the cause in the message of an invalid plan. The API takes
// messages of 32,768.
const maxCause = 16_384

// Offer describes a pool.
type Offer struct {
	Pool           string // its name, for messages
	Image, Version string // of the servers, and of the program that counts, for the provenance
	ImageDigests   []string
	LedgerKey      string // the servers' public key
	// Limits are what the pool's spec allows runs.
	Limits v1alpha1.RunLimits
	Report score.Report // a server's reply to /stats
}

// BeginRun plans a run and writes the provenance, the size of the plan and empty figures to its
// status. The plan has spec.parallelism shards.
func BeginRun(run *v1alpha1.EvaluationRun, status *v1alpha1.EvaluationRunStatus,
	offer Offer) (score.Plan, score.Accumulator, error) {
	sums := score.Accumulator{}
	if err := CheckLimits(run, offer); err != nil {
		return score.Plan{}, sums, err
	}
	plan, err := NewPlan(run, offer, int(ptr.Deref(run.Spec.Parallelism, 1)))
	if err != nil {
		return plan, sums, err
	}
	if sums.Plan, err = plan.Fingerprint(); err != nil {
		return plan, sums, err
	}
	if status.Provenance, err = NewProvenance(run, offer); err != nil {
		return plan, sums, err
	}
	WritePlan(status, plan)
	WriteFigures(status, sums, score.IndexSet{})
	return plan, sums, nil
}

// InvalidPlan is the outcome of a run that can't be planned.
func InvalidPlan(err error) Outcome {
	return Outcome{Failed, v1alpha1.ReasonInvalidPlan,
		fmt.Sprintf("The run can't be planned: %.*v. Correct its spec and create it again.", maxCause, err)}
}

// NewPlan plans the tasks of a run's spec. It fails if the pool doesn't offer them, or if the plan
// has too few trials for the spec's thresholds.
func NewPlan(run *v1alpha1.EvaluationRun, offer Offer, shards int) (score.Plan, error) {
	spec, report := run.Spec, offer.Report
	passScore, err := PassScore(run)
	if err != nil {
		return score.Plan{}, err
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
	if len(categories) > MaxCategories {
		return score.Plan{}, fmt.Errorf("spec.tasks selects scenarios of %d categories, and a run has figures for %d "+
			"at most: list the wanted ones in spec.tasks[].scenarios.categories", len(categories), MaxCategories)
	}
	plan, err := score.NewPlan(draft, shards)
	if err != nil {
		return plan, err
	}
	return plan, validateThresholds(spec.Thresholds, plan, categories)
}

// CheckLimits returns an error if the pool doesn't permit the run's spec.
func CheckLimits(run *v1alpha1.EvaluationRun, offer Offer) error {
	limit := offer.Limits.MaxErroredPercent
	wanted := ptr.Deref(run.Spec.Retries.MaxErroredPercent, defaultMaxErroredPercent)
	if limit != nil && wanted > *limit {
		return fmt.Errorf(
			"retries.maxErroredPercent is %d, and pool %s permits %d at most (its runs.maxErroredPercent)",
			wanted, offer.Pool, *limit)
	}
	most, attempts := offer.Limits.MaxEpisodeAttempts, run.Spec.Retries.EpisodeAttempts
	if most != nil && attempts > *most {
		return fmt.Errorf(
			"retries.episodeAttempts is %d, and pool %s permits %d at most (its runs.maxEpisodeAttempts)", attempts,
			offer.Pool, *most)
	}
	return nil
}

// validateThresholds refuses thresholds that could never be met: of a pass^k for which no task has
// enough trials, and of a task or category that isn't played.
func validateThresholds(thresholds []v1alpha1.Threshold, plan score.Plan, categories map[string]bool) error {
	trials := 0
	names := make([]string, 0, len(plan.Tasks))
	for _, task := range plan.Tasks {
		trials = max(trials, task.Trials)
		names = append(names, task.Name)
	}
	for _, t := range thresholds {
		if t.Task != "" && !slices.Contains(names, t.Task) {
			return fmt.Errorf("spec.thresholds names task %s, which the run doesn't play: use one of %s", t.Task,
				strings.Join(names, ", "))
		}
		if t.Category != "" && !categories[t.Category] {
			return fmt.Errorf("spec.thresholds names category %s, of which the run plays no scenario: use one of %s",
				t.Category, strings.Join(slices.Sorted(maps.Keys(categories)), ", "))
		}
		if k, ok := passHatK(t.Metric); ok && k > trials {
			return fmt.Errorf("spec.thresholds names %s, which takes %d trials of a scenario, and spec.tasks asks "+
				"for %d at most", t.Metric, k, trials)
		}
	}
	return nil
}

// PassScore returns the minimum score of an episode of a run that passes, in micro-points: the one
// with which the run began, else its spec's, else the default of its tasks.
func PassScore(run *v1alpha1.EvaluationRun) (int64, error) {
	text := cmp.Or(run.Status.PassScore, run.Spec.PassScore.Text)
	if text == "" {
		names := make([]string, len(run.Spec.Tasks))
		for i, task := range run.Spec.Tasks {
			names[i] = task.Name
		}
		return tasks.PassScore(names...), nil
	}
	pass, err := score.ParseDecimal(text)
	if err != nil {
		return 0, fmt.Errorf("reading the pass score of run %s: %w", run.Name, err)
	}
	return pass, nil
}
