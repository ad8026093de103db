package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

func scoresName(run *v1alpha1.EvaluationRun) string { return run.Name + "-scores" }

// readScores reads the run's table, and that of its baseline. Neither is worth a failed pass: what
// can't be read is told at the end.
func (r *Reconciler) readScores(ctx context.Context, s *snapshot) error {
	if s.run.Status.Provenance == nil {
		return nil
	}
	err := r.readOwnTable(ctx, s)
	if err != nil || s.run.Spec.BaselineRef == nil {
		return err
	}
	baseline := &v1alpha1.EvaluationRun{}
	err = r.client.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.BaselineRef.Name},
		baseline)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the baseline: %w", err)
	}
	s.baseline = baseline
	if ref := baseline.Status.ScoresRef; ref != nil {
		s.baselineScores, err = r.readTable(ctx, baseline, ref.Name)
	}
	return err
}

// readOwnTable reads the run's own table. While there are summaries to count, or when a run that
// collects ends, it looks past the cache for what the cache doesn't have: a table that was just
// made, or something else of its name.
func (r *Reconciler) readOwnTable(ctx context.Context, s *snapshot) error {
	var err error
	if s.scores, err = r.readTable(ctx, s.run, scoresName(s.run)); err != nil || s.scores != nil ||
		len(s.succeeded) == 0 && !ending(*s) {
		return err
	}
	object := &corev1.ConfigMap{}
	err = r.direct.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: scoresName(s.run)}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the scores of run %s: %w", s.run.Name, err)
	case metav1.IsControlledBy(object, s.run):
		s.scores = object
	default:
		s.scoresTaken = true
	}
	return nil
}

// readTable reads a ConfigMap of a run, nil where the cache has none of it.
func (r *Reconciler) readTable(ctx context.Context, run *v1alpha1.EvaluationRun,
	name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the scores of run %s: %w", run.Name, err)
	case err == nil && metav1.IsControlledBy(object, run):
		return object, nil
	default:
		return nil, nil
	}
}

// keepScores puts the shards that this pass counts into the table of scenarios. The table is
// written before the status is: after a crash in between, it has rows too many, which are replaced
// when their shards are counted. Rows of other shards stay as they are, whatever this pass knows of
// them: it may have an old view of the status.
func keepScores(d *decision, s snapshot, plan score.Plan) {
	if len(d.folding.ledgers) == 0 || s.scoresTaken {
		return
	}
	table := tableOf(s.scores)
	var fresh, others score.IndexSet
	for _, shard := range d.folding.counted {
		fresh.Add(int64(shard.index))
	}
	for shard := range int64(plan.Shards) {
		if !fresh.Contains(shard) {
			others.Add(shard)
		}
	}
	table.Keep(plan, others)
	for _, ledger := range d.folding.ledgers {
		table.Fold(ledger)
	}
	// A table that is too large is left out, and complete says so.
	if text, err := table.MarshalText(); err == nil && (s.scores == nil || s.scores.Data[v1alpha1.ScoresKey] != string(text)) {
		d.scores = new(string(text))
	}
}

// tableOf reads a table, which may be anybody's work: what can't be read is empty, and no sums hold
// it.
func tableOf(object *corev1.ConfigMap) *score.ScenarioTable {
	table := &score.ScenarioTable{}
	if object != nil && table.UnmarshalText([]byte(object.Data[v1alpha1.ScoresKey])) != nil {
		return &score.ScenarioTable{}
	}
	return table
}

// complete writes what only a run has that is complete.
func complete(d *decision, s snapshot, plan score.Plan) {
	table := tableOf(s.scores)
	if d.scores != nil && table.UnmarshalText([]byte(*d.scores)) != nil {
		table = &score.ScenarioTable{}
	}
	table.Keep(plan, d.folding.completed)
	publish(d, s, table)
}

// publish writes the reference to a complete run's table, and the comparison.
func publish(d *decision, s snapshot, table *score.ScenarioTable) {
	held := d.folding.sums.Holds(table)
	if held {
		d.status.ScoresRef = &v1alpha1.ObjectReference{Name: scoresName(s.run)}
	} else {
		d.tell(corev1.EventTypeWarning, v1alpha1.ReasonScoresLeftOut,
			fmt.Sprintf("There is no table of the scenarios' scores: it takes more than %d bytes, or ConfigMap %s "+
				"was changed or is somebody else's. The figures are not touched by that.",
				score.MaxTableBytes, scoresName(s.run)))
	}
	if s.run.Spec.BaselineRef == nil {
		return
	}
	d.status.Baseline = &v1alpha1.BaselineResult{Name: s.run.Spec.BaselineRef.Name}
	if err := compare(d, s, table, held); err != nil {
		d.status.Baseline.Message = pods.Shorten(fmt.Sprintf("There is no comparison with run %s: %v.",
			s.run.Spec.BaselineRef.Name, err), pods.MaxNote)
	}
}

// compare pairs the run's scenarios with the baseline's.
func compare(d *decision, s snapshot, table *score.ScenarioTable, held bool) error {
	other := s.baseline
	switch {
	case !held:
		return errors.New("this run has no table of its scenarios' scores")
	case other == nil:
		return fmt.Errorf("it is not in namespace %s", s.run.Namespace)
	case !meta.IsStatusConditionTrue(other.Status.Conditions, v1alpha1.ConditionComplete):
		return errors.New("it is not complete")
	case s.baselineScores == nil || other.Status.Shards == nil:
		return errors.New("it has no table of its scenarios' scores")
	}
	now := s.run.DeepCopy()
	now.Status = d.status
	mine, theirs, err := bases(now, other)
	if err == nil {
		err = score.Comparable(mine, theirs)
	}
	if err != nil {
		return err
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(other.Status.Shards.Accumulator)); err != nil {
		return fmt.Errorf("reading its sums: %w", err)
	}
	baseline := tableOf(s.baselineScores)
	if !sums.Holds(baseline) {
		return errors.New("the table of its scenarios' scores was changed")
	}
	writeComparison(d.status.Baseline, score.Compare(table.Rows(), baseline.Rows()))
	return nil
}

func bases(a, b *v1alpha1.EvaluationRun) (mine, theirs score.Basis, err error) {
	if mine, err = basis(a); err == nil {
		theirs, err = basis(b)
	}
	return mine, theirs, err
}

// basis is what a run's scores rest on, by what of it can't be changed.
func basis(run *v1alpha1.EvaluationRun) (score.Basis, error) {
	pass, err := score.ParseDecimal(run.Spec.PassScore)
	if err != nil {
		return score.Basis{}, fmt.Errorf("reading spec.passScore of run %s: %w", run.Name, err)
	}
	made := ptr.Deref(run.Status.Provenance, v1alpha1.Provenance{})
	b := score.Basis{
		ScenarioDigest: made.ScenarioDigest, GraderVersion: made.GraderVersion, Judge: made.Judge,
		PassScore: pass, Pressure: run.Spec.Pressure == v1alpha1.ResponseTimePressure,
	}
	b.Tasks = TaskNames(run)
	return b, nil
}

// TaskNames are the tasks that a run plays, or that trainers have played for it.
func TaskNames(run *v1alpha1.EvaluationRun) []string {
	var names []string
	for _, task := range run.Spec.Tasks {
		names = append(names, task.Name)
	}
	if isExternal(run) {
		for _, task := range run.Status.Tasks {
			names = append(names, task.Name)
		}
	}
	return names
}

func writeComparison(result *v1alpha1.BaselineResult, c score.Comparison) {
	result.Scenarios = c.Scenarios
	if c.Pairs == 0 {
		result.Message = "The runs have no scenario in common."
		return
	}
	result.Delta = score.Decimal(c.Delta)
	if c.CI95 != nil {
		result.StandardError = score.Decimal(*c.StandardError)
		result.CI95 = interval(c.CI95)
	}
}

// reachable refuses thresholds of a pass^k for which no task has enough trials: they could never be
// met.
func reachable(thresholds []v1alpha1.Threshold, plan score.Plan) error {
	most := 0
	for _, task := range plan.Tasks {
		most = max(most, task.Trials)
	}
	for _, t := range thresholds {
		if k, ok := passHatK(t.Metric); ok && k > most {
			return fmt.Errorf("spec.thresholds names %s, which takes %d trials of a scenario, and spec.tasks asks "+
				"for %d at most", t.Metric, k, most)
		}
	}
	return nil
}

// passHatK is the k of a metric that is a pass^k.
func passHatK(metric v1alpha1.Metric) (int, bool) {
	text, ok := strings.CutPrefix(string(metric), "passHat")
	k, err := strconv.Atoi(text)
	return k, ok && err == nil
}

// thresholdsCondition says whether the figures of a run that is complete reach its thresholds.
func thresholdsCondition(thresholds []v1alpha1.Threshold, sums score.Accumulator, is state) metav1.Condition {
	if is != completed {
		return condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionUnknown, v1alpha1.ReasonThresholdsPending,
			"The run is not complete, so its figures are not final.")
	}
	figures := sums.Figures()
	var met, missed []string
	for _, t := range thresholds {
		value, known := FigureOf(figures, t.Metric)
		least, err := score.ParseDecimal(t.Min)
		switch {
		case !known:
			missed = append(missed, fmt.Sprintf("%s is not known with so few episodes", t.Metric))
		case err != nil || value < least:
			missed = append(missed, fmt.Sprintf("%s is %s, below %s", t.Metric, score.Decimal(value), t.Min))
		default:
			met = append(met, fmt.Sprintf("%s is %s, at least %s", t.Metric, score.Decimal(value), t.Min))
		}
	}
	if len(missed) > 0 {
		return condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionFalse, v1alpha1.ReasonThresholdsMissed,
			sentence(missed))
	}
	return condition(v1alpha1.ConditionThresholdsMet, metav1.ConditionTrue, v1alpha1.ReasonThresholdsReached,
		sentence(met))
}

func sentence(parts []string) string { return strings.Join(parts, "; ") + "." }

// FigureOf is a metric's value in micro-points, false where there is none.
func FigureOf(f score.Figures, metric v1alpha1.Metric) (int64, bool) {
	if k, ok := passHatK(metric); ok {
		at := slices.IndexFunc(f.PassHatK, func(p stats.PassHatK) bool { return p.K == k })
		if at < 0 {
			return 0, false
		}
		return f.PassHatK[at].Value, true
	}
	switch {
	case f.Episodes == 0:
		return 0, false
	case metric == v1alpha1.MeanScoreMetric:
		return f.Mean, true
	case metric == v1alpha1.PassRateMetric:
		return f.PassRate, true
	case metric == v1alpha1.MeanScoreLowMetric && f.CI95 != nil:
		return f.CI95.Low, true
	default:
		return 0, false
	}
}

// storedCondition says whether the episodes of the shards that are counted are in the result store.
func storedCondition(sums score.Accumulator, is state) metav1.Condition {
	f := sums.Figures()
	stored, all := f.Stored.Episodes, f.Episodes+f.Errored
	switch {
	case f.Stored.Error != "" || stored < all:
		return condition(v1alpha1.ConditionResultsStored, metav1.ConditionFalse, v1alpha1.ReasonStoreFailed,
			fmt.Sprintf(
				"%d of %d episodes are stored: %s. The score stands. Where the others are needed, see to that and create "+
					"the run again.", stored, all, pods.Quote(orUnknown(f.Stored.Error))))
	case is == failed && all == 0:
		return condition(v1alpha1.ConditionResultsStored, metav1.ConditionUnknown, v1alpha1.ReasonNothingCounted,
			"The run ended before an episode was counted: there is nothing to store.")
	case is == completed || is == failed:
		return condition(v1alpha1.ConditionResultsStored, metav1.ConditionTrue, v1alpha1.ReasonStored,
			fmt.Sprintf("All %d episodes that are counted are stored.", all))
	default:
		return condition(v1alpha1.ConditionResultsStored, metav1.ConditionUnknown, v1alpha1.ReasonStorePending,
			fmt.Sprintf("%d episodes are stored so far.", stored))
	}
}

func orUnknown(reason string) string {
	if reason == "" {
		return "the runners don't say why the others aren't"
	}
	return strings.TrimSuffix(reason, ".")
}
