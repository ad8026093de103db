package run

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

func scoresName(run *v1alpha1.EvaluationRun) string { return run.Name + "-scores" }

// readScores reads the run's table, and that of its baseline.
func (r *Reader) readScores(ctx context.Context, s *snapshot, needed bool) error {
	if s.run.Status.Provenance == nil {
		return nil
	}
	err := r.readOwnTable(ctx, s, needed)
	if err != nil || s.run.Spec.BaselineRef == nil {
		return err
	}
	baseline := &v1alpha1.EvaluationRun{}
	err = r.cache.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.BaselineRef.Name},
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
	if err != nil || s.baselineScores != nil || baseline.Status.ScoresRef == nil {
		return err
	}
	// The cache may show the baseline's end before its table, and a comparison is made once.
	object := &corev1.ConfigMap{}
	err = r.direct.Get(ctx, types.NamespacedName{Namespace: baseline.Namespace, Name: baseline.Status.ScoresRef.Name},
		object)
	if err == nil && metav1.IsControlledBy(object, baseline) {
		s.baselineScores = object
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the scores of the baseline: %w", err)
	}
	return nil
}

// readLate reads what compareLate needs.
func (r *Reader) readLate(ctx context.Context, s *snapshot) error {
	if s.closing || !evaluation.AwaitsBaseline(s.run.Status.Conditions) {
		return nil
	}
	return r.readScores(ctx, s, true)
}

// readOwnTable reads the run's own table. If the pass is about to write it, a table that the cache
// doesn't have is read past it: it may be new, or another owner's object.
func (r *Reader) readOwnTable(ctx context.Context, s *snapshot, needed bool) error {
	var err error
	if s.scores, err = r.readTable(ctx, s.run, scoresName(s.run)); err != nil || s.scores != nil || !needed {
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

// readTable reads a ConfigMap of a run, nil if the cache has none.
func (r *Reader) readTable(ctx context.Context, run *v1alpha1.EvaluationRun,
	name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	err := r.readConfigMap(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the scores of run %s: %w", run.Name, err)
	}
	if err == nil && metav1.IsControlledBy(object, run) {
		return object, nil
	}
	return nil, nil
}

// keepScores adds the shards that this pass counts to the table of scenarios. The table is written
// before the status: after a crash in between it has additional rows, which are replaced when their
// shards are counted. Rows of other shards are never removed, since the status of this pass may be
// old.
func keepScores(d *decision, s snapshot, plan score.Plan) {
	if len(d.folding.ledgers) == 0 || s.scoresTaken {
		return
	}
	// A table that is too large is left out, which publish reports.
	if text, err := addRows(tableOf(s.scores), plan, d.folding).MarshalText(); err == nil {
		writeTable(d, s, string(text))
	}
}

// addRows adds the rows of the shards that were counted to a table of scenarios, instead of those
// that the table has of them.
func addRows(table *score.ScenarioTable, plan score.Plan, f folding) *score.ScenarioTable {
	var fresh, others score.IndexSet
	for _, shard := range f.counted {
		fresh.Add(int64(shard.index))
	}
	for shard := range int64(plan.Shards) {
		if !fresh.Contains(shard) {
			others.Add(shard)
		}
	}
	table.Keep(plan, others)
	for _, ledger := range f.ledgers {
		table.Fold(ledger)
	}
	return table
}

func writeTable(d *decision, s snapshot, text string) {
	if s.scores == nil || s.scores.Data[v1alpha1.ScoresKey] != text {
		d.scores = &text
	}
}

// tableOf reads a table. One that can't be read is empty, which doesn't match any sums.
func tableOf(object *corev1.ConfigMap) *score.ScenarioTable {
	table := &score.ScenarioTable{}
	if object != nil && table.UnmarshalText([]byte(object.Data[v1alpha1.ScoresKey])) != nil {
		return &score.ScenarioTable{}
	}
	return table
}

// complete publishes the table and the comparison of a complete run.
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
			fmt.Sprintf("There is no table of the scenarios' scores: it exceeds %d bytes, or ConfigMap %s was changed "+
				"or has another owner. The figures are not affected.", score.MaxTableBytes, scoresName(s.run)))
	}
	if s.run.Spec.BaselineRef == nil {
		return
	}
	if !held {
		table = nil
	}
	compareWithBaseline(d, s, table)
}

// compareWithBaseline writes the comparison of a complete run, whose table is nil if it has none.
func compareWithBaseline(d *decision, s snapshot, table *score.ScenarioTable) {
	now := s.run.DeepCopy()
	now.Status = d.status
	baseline := evaluation.Baseline{Run: s.baseline}
	if s.baselineScores != nil {
		baseline.Table = tableOf(s.baselineScores)
	}
	d.status.Baseline = evaluation.Compare(now, table, baseline)
	d.status.Baseline.Message = pods.Shorten(d.status.Baseline.Message, pods.MaxNote)
	c := evaluation.ComparedCondition(*d.status.Baseline, baseline)
	if before := meta.FindStatusCondition(s.run.Status.Conditions, c.Type); c.Reason != v1alpha1.ReasonCompared &&
		(before == nil || before.Reason != c.Reason) {
		d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
	}
	set(d, s, c)
}

// baselineInterval is the time between two looks at a baseline that has not ended.
const baselineInterval = 30 * time.Second

// compareLate compares a complete run that waits for its baseline, and checks its thresholds again.
func compareLate(d *decision, s snapshot) {
	complete := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionComplete)
	sums, _, err := counted(s.run)
	if complete == nil || err != nil || !evaluation.AwaitsBaseline(d.status.Conditions) {
		return // a status that was changed by hand keeps its figures
	}
	table := tableOf(s.scores)
	if !sums.Holds(table) {
		table = nil
	}
	compareWithBaseline(d, s, table)
	outcome := evaluation.Outcome{State: evaluation.Completed, Reason: complete.Reason, Message: complete.Message}
	meta.RemoveStatusCondition(&d.status.Conditions, v1alpha1.ConditionStalled)
	for _, c := range evaluation.Conditions(s.run, d.status, sums, outcome) {
		if c.Type == v1alpha1.ConditionThresholdsMet && c.Status == metav1.ConditionFalse {
			d.announce(corev1.EventTypeWarning, c.Reason, c.Message)
		}
		set(d, s, c)
	}
}

const (
	// keptContents is the number of ConfigMaps whose contents are kept, each of at most maxKept
	// bytes.
	keptContents = 64
	maxKept      = 256 << 10
)

// contents are ConfigMaps by their version. They must not be changed.
type contents = lru.Cache[version, *corev1.ConfigMap]

type version struct {
	key      types.NamespacedName
	uid      types.UID
	resource string
}

func newContents() *contents {
	kept, err := lru.New[version, *corev1.ConfigMap](keptContents)
	if err != nil {
		panic(err) // the number isn't positive
	}
	return kept
}

// readConfigMap reads a ConfigMap that the cache has. The cache holds only metadata, because users
// may create any number of ConfigMaps with our labels. The contents that were read last are kept,
// so that the passes over a run don't read them again.
func (r *Reader) readConfigMap(ctx context.Context, key types.NamespacedName, object *corev1.ConfigMap) error {
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := r.metadata.Get(ctx, key, known); err != nil {
		return err
	}
	if kept, ok := r.contents.Get(version{key, known.UID, known.ResourceVersion}); ok {
		*object = *kept
		return nil
	}
	if err := r.direct.Get(ctx, key, object); err != nil {
		return err
	}
	if object.Size() <= maxKept {
		r.contents.Add(version{key, object.UID, object.ResourceVersion}, object)
	}
	return nil
}
