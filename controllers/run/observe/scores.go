package observe

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
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// readScores reads the run's table, and its baseline's. If the pass is about to write the run's
// table, one that the cache doesn't have is read past it: it may be new, or another owner's object.
func (r *Reader) readScores(ctx context.Context, s *snapshot.Snapshot, needed bool) (err error) {
	if s.Run.Status.Provenance == nil {
		return nil
	}
	s.Scores, s.ScoresTaken, err = r.readTable(ctx, s.Run, snapshot.NameScores(s.Run), needed)
	s.OpenTable()
	if err != nil || s.Run.Spec.BaselineRef == nil {
		return err
	}
	baseline := &v1alpha1.EvaluationRun{}
	err = r.Cache.Get(ctx, types.NamespacedName{Namespace: s.Run.Namespace, Name: s.Run.Spec.BaselineRef.Name},
		baseline)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the baseline: %w", err)
	}
	s.Baseline = baseline
	if ref := baseline.Status.ScoresRef; ref != nil {
		// The cache may show the baseline's end before its table, and a comparison is made once.
		s.BaselineScores, _, err = r.readTable(ctx, baseline, ref.Name, true)
	}
	return err
}

// readLate reads what a comparison with a late baseline needs, and the servers' counts of a run
// that has just completed.
func (r *Reader) readLate(ctx context.Context, s *snapshot.Snapshot) error {
	if ended := s.Run.Status.CompletionTime; !s.Closing && !evaluation.IsExternal(s.Run) && ended != nil &&
		s.Now.Sub(ended.Time) < snapshot.CountsPatience {
		if err := r.readLive(ctx, s); err != nil {
			return err
		}
	}
	if s.Closing {
		return nil
	}
	if evaluation.AwaitsBaseline(s.Run.Status.Conditions) {
		return r.readScores(ctx, s, true)
	}
	return r.findDeletedScores(ctx, s)
}

// findDeletedScores finds out whether the table of a complete run was deleted, and what is known of
// it.
func (r *Reader) findDeletedScores(ctx context.Context, s *snapshot.Snapshot) error {
	ref := s.Run.Status.ScoresRef
	if ref == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: s.Run.Namespace, Name: ref.Name}
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := r.Metadata.Get(ctx, key, known)
	if apierrors.IsNotFound(err) {
		err = r.Direct.Get(ctx, key, &corev1.ConfigMap{}) // the cache may not have it yet
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	s.ScoresGone = true
	for _, kept := range r.Contents.Values() {
		if client.ObjectKeyFromObject(kept) == key && metav1.IsControlledBy(kept, s.Run) {
			s.ScoresKept = kept // the last one is the newest
		}
	}
	return nil
}

// Remember keeps the content of a table that was written.
func (r *Reader) Remember(table *corev1.ConfigMap) {
	if table.Size() <= maxKept {
		r.Contents.Add(version{client.ObjectKeyFromObject(table), table.UID, table.ResourceVersion}, table)
	}
}

// readTable reads a run's table, past the cache if it is needed and the cache doesn't have it. It
// returns true if something else has its name.
func (r *Reader) readTable(ctx context.Context, run *v1alpha1.EvaluationRun, name string,
	needed bool) (table *corev1.ConfigMap, taken bool, err error) {
	if table, err = r.readCached(ctx, run, name); err != nil || table != nil || !needed {
		return table, false, err
	}
	table = &corev1.ConfigMap{}
	err = r.Direct.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, table)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading the scores of run %s: %w", run.Name, err)
	case metav1.IsControlledBy(table, run):
		return table, false, nil
	}
	return nil, true, nil
}

// readCached reads a ConfigMap of a run, nil if the cache has none.
func (r *Reader) readCached(ctx context.Context, run *v1alpha1.EvaluationRun,
	name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	err := r.readConfigMap(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	if err == nil && metav1.IsControlledBy(object, run) {
		return object, nil
	}
	return nil, nil
}
