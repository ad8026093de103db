package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

func scoresName(run *v1alpha1.EvaluationRun) string { return run.Name + "-scores" }

// readScores reads the run's table, and that of its baseline. Neither is worth a failed pass: what
// can't be read is told at the end.
func (r *Reconciler) readScores(ctx context.Context, s *snapshot, needed bool) error {
	if s.run.Status.Provenance == nil {
		return nil
	}
	err := r.readOwnTable(ctx, s, needed)
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

// readOwnTable reads the run's own table. If the pass is about to
// write it, the API server is asked for what the cache doesn't have: a table that was just made, or
// another object of its name.
func (r *Reconciler) readOwnTable(ctx context.Context, s *snapshot, needed bool) error {
	var err error
	if s.scores, err = r.readTable(ctx, s.run, scoresName(s.run)); err != nil || s.scores != nil ||
		!needed {
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
	text, err := table.MarshalText()
	if err == nil && (s.scores == nil || s.scores.Data[v1alpha1.ScoresKey] != string(text)) {
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
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonScoresLeftOut,
			fmt.Sprintf("There is no table of the scenarios' scores: it takes more than %d bytes, or ConfigMap %s "+
				"was changed or is somebody else's. The figures are not touched by that.",
				score.MaxTableBytes, scoresName(s.run)))
	}
	if s.run.Spec.BaselineRef == nil {
		return
	}
	if !held {
		table = nil
	}
	now := s.run.DeepCopy()
	now.Status = d.status
	baseline := evaluation.Baseline{Run: s.baseline}
	if s.baselineScores != nil {
		baseline.Table = tableOf(s.baselineScores)
	}
	d.status.Baseline = evaluation.Compare(now, table, baseline)
	d.status.Baseline.Message = pods.Shorten(d.status.Baseline.Message, pods.MaxNote)
}
