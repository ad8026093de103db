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

// readScores reads the run's table, and its baseline's.
func (r *Reader) readScores(ctx context.Context, s *snapshot.Snapshot, needed bool) error {
	if s.Run.Status.Provenance == nil {
		return nil
	}
	err := r.readOwnTable(ctx, s, needed)
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
		s.BaselineScores, err = r.readCached(ctx, baseline, ref.Name)
	}
	if err != nil || s.BaselineScores != nil || baseline.Status.ScoresRef == nil {
		return err
	}
	// The cache may show the baseline's end before its table, and a comparison is made once.
	object := &corev1.ConfigMap{}
	err = r.Direct.Get(ctx, types.NamespacedName{Namespace: baseline.Namespace, Name: baseline.Status.ScoresRef.Name},
		object)
	if err == nil && metav1.IsControlledBy(object, baseline) {
		s.BaselineScores = object
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the scores of the baseline: %w", err)
	}
	return nil
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

// readOwnTable reads the run's own table. If the pass is about to write it, a table that the cache
// doesn't have is read past it: it may be new, or another owner's object.
func (r *Reader) readOwnTable(ctx context.Context, s *snapshot.Snapshot, needed bool) error {
	var err error
	s.Scores, err = r.readCached(ctx, s.Run, snapshot.NameScores(s.Run))
	defer func() { s.OpenTable(s.Scores) }()
	if err != nil || s.Scores != nil || !needed {
		return err
	}
	object := &corev1.ConfigMap{}
	err = r.Direct.Get(ctx, types.NamespacedName{Namespace: s.Run.Namespace, Name: snapshot.NameScores(s.Run)}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the scores of run %s: %w", s.Run.Name, err)
	case metav1.IsControlledBy(object, s.Run):
		s.Scores = object
	default:
		s.ScoresTaken = true
	}
	return nil
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
