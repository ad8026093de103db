// Package observe reads everything that a pass over a run needs into a Snapshot. It decides nothing,
// and has no client that writes.
package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/controllers/stats"
)

// readCollection reads the servers' segments and, until the run has ended, its table.
func (r *Reader) readCollection(ctx context.Context, s *Snapshot) error {
	if s.Closing || evaluation.Ended(s.Run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if s.Run.Status.Provenance == nil {
		return r.readReport(ctx, s)
	}
	if err := r.readSegments(ctx, s); err != nil {
		return err
	}
	goal := tally.ReadGoal(s.Run)
	completes := goal > 0 && tally.BoundCollected(s.Run, s.Segments) >= goal || IsDeadlineOver(s.Run, s.Job, s.Now)
	return r.readScores(ctx, s, completes)
}

// Reader reads what a pass needs. It has no client that writes.
type Reader struct {
	Cache    client.Reader
	Metadata client.Reader // of ConfigMaps: the cache
	Direct   client.Reader // past the cache, where a stale answer could lose a summary
	Pools    PoolReader
	Polls    *polling.Poller[Polled]
	Keys     keys.Source
	Live     *LivePoller
	Contents *Contents
	Clock    clock.PassiveClock
	Version  string // of the operator, for a run's provenance
}

// New returns a reader of the manager's cluster.
func New(mgr ctrl.Manager, version string) *Reader {
	reader := stats.NewReader()
	polls := polling.New[Polled](concurrentPolls)
	return &Reader{
		Cache:    mgr.GetClient(),
		Metadata: mgr.GetCache(),
		Direct:   mgr.GetAPIReader(),
		Pools:    reader,
		Keys:     objects.Keys(mgr.GetAPIReader()),
		Polls:    polls,
		Live:     NewLivePoller(reader, polls.Do),
		Contents: NewContents(),
		Clock:    clock.RealClock{},
		Version:  version,
	}
}

// TakeSnapshot reads everything that a pass needs.
func (r *Reader) TakeSnapshot(ctx context.Context, key types.NamespacedName) (Snapshot, error) {
	s := Snapshot{Now: r.Clock.Now(), Version: r.Version}
	run := &v1alpha1.EvaluationRun{}
	err := r.Cache.Get(ctx, key, run)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("reading the run: %w", err)
	}
	if err == nil && run.DeletionTimestamp.IsZero() {
		s.Run = run
	}
	if err := r.readPods(ctx, key, &s); err != nil {
		return s, err
	}
	if s.Run == nil {
		return s, nil
	}
	if err := r.readPool(ctx, &s); err != nil {
		return s, err
	}
	if err := r.readNeighbours(ctx, &s); err != nil {
		return s, err
	}
	if IsExternal(run) {
		return s, r.readCollection(ctx, &s)
	}
	return s, r.readJob(ctx, &s)
}

// readOwn reads one of the run's own objects and reports whether it exists. Until the run has
// ended, objects that the cache doesn't have are read past it: they may have just been created, or
// may belong to another owner, whose objects the cache doesn't contain.
func (r *Reader) readOwn(ctx context.Context, s *Snapshot, name string, object client.Object) (bool, error) {
	key := types.NamespacedName{Namespace: s.Run.Namespace, Name: name}
	var err error
	if configMap, ok := object.(*corev1.ConfigMap); ok {
		err = r.readConfigMap(ctx, key, configMap)
	} else {
		err = r.Cache.Get(ctx, key, object)
	}
	if apierrors.IsNotFound(err) && !evaluation.Ended(s.Run.Status.Conditions) &&
		s.PoolState() == PoolReady {
		err = r.Direct.Get(ctx, key, object)
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %T %s: %w", object, name, err)
	}
	if err == nil && !metav1.IsControlledBy(object, s.Run) {
		s.Taken = append(s.Taken, fmt.Sprintf("%s %s", strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."), name))
		return false, nil
	}
	return err == nil, nil
}

// readJob reads the run's Job and, until the run has ended, its plan, its table and the servers'
// counts.
func (r *Reader) readJob(ctx context.Context, s *Snapshot) error {
	planMap, job := &corev1.ConfigMap{}, &batchv1.Job{}
	if found, err := r.readOwn(ctx, s, s.Run.Name, job); err != nil {
		return err
	} else if found {
		s.Job = job
	}
	if s.Closing || evaluation.Ended(s.Run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if found, err := r.readOwn(ctx, s, runner.PlanName(s.Run), planMap); err != nil {
		return err
	} else if found {
		s.PlanMap = planMap
	}
	if err := errors.Join(r.readRefusal(ctx, s), r.readLostNodes(ctx, s)); err != nil {
		return err
	}
	if _, err := s.StoredPlan(); err != nil || s.Run.Status.Provenance == nil {
		if err := r.readReport(ctx, s); err != nil {
			return err
		}
	}
	if err := r.readScores(ctx, s, len(s.Succeeded) > 0); err != nil {
		return err
	}
	return r.readLive(ctx, s)
}
