// Package observe reads everything that a pass over a run needs into a Snapshot. It decides
// nothing, and has no client that writes.
package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
)

// readCollection reads the servers' segments and, until the run has ended, its table.
func (r *Reader) readCollection(ctx context.Context, s *snapshot.Snapshot) error {
	if s.Closing || evaluation.HasEnded(s.Run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if s.Run.Status.Provenance == nil {
		return r.readReport(ctx, s)
	}
	if err := r.readSegments(ctx, s); err != nil {
		return err
	}
	goal := tally.ReadGoal(s.Run)
	completes := goal > 0 && tally.BoundCollected(s.Run, s.Segments) >= goal || s.IsDeadlineOver()
	return r.readScores(ctx, s, completes)
}

// TakeSnapshot reads everything that a pass needs.
func (r *Reader) TakeSnapshot(ctx context.Context, key types.NamespacedName) (snapshot.Snapshot, error) {
	s := snapshot.Snapshot{Now: r.Clock.Now(), Version: r.Version}
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
	if evaluation.IsExternal(run) {
		return s, r.readCollection(ctx, &s)
	}
	return s, r.readJob(ctx, &s)
}

// readPods reads the pods with the run's name, this run's and other runs'.
func (r *Reader) readPods(ctx context.Context, key types.NamespacedName, s *snapshot.Snapshot) error {
	var list corev1.PodList
	labels := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRunner, v1alpha1.LabelRun: key.Name}
	if err := r.Cache.List(ctx, &list, client.InNamespace(key.Namespace), labels); err != nil {
		return fmt.Errorf("listing the run's pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	leaving := false
	for _, pod := range list.Items {
		mine := s.Run != nil && pod.Labels[runner.LabelRunUID] == string(s.Run.UID)
		held := controllerutil.ContainsFinalizer(&pod, runner.SummaryFinalizer)
		if mine && pod.Status.Phase == corev1.PodFailed {
			s.Failed = append(s.Failed, pod)
		}
		if mine && runner.HasSucceeded(&pod) {
			s.Succeeded = append(s.Succeeded, pod)
		}
		switch {
		case mine && held:
			s.Pods = append(s.Pods, pod)
		case held:
			s.Foreign = append(s.Foreign, pod)
		case mine && !pod.DeletionTimestamp.IsZero():
			s.Stopping = append(s.Stopping, pod)
		}
		leaving = leaving || mine && !pod.DeletionTimestamp.IsZero()
	}
	if !leaving {
		return nil
	}
	return r.readNamespace(ctx, key.Namespace, s)
}

// readNamespace finds out whether the namespace is being deleted.
func (r *Reader) readNamespace(ctx context.Context, name string, s *snapshot.Snapshot) error {
	namespace := &corev1.Namespace{}
	err := r.Direct.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	s.Closing = err == nil && !namespace.DeletionTimestamp.IsZero()
	return nil
}

// readNeighbours reads the pools whose Secrets the run's pods could read.
func (r *Reader) readNeighbours(ctx context.Context, s *snapshot.Snapshot) error {
	if s.Run.Status.Provenance != nil || evaluation.HasEnded(s.Run.Status.Conditions) {
		return nil
	}
	list := &v1alpha1.CustomerSupportEnvList{}
	if err := r.Cache.List(ctx, list, client.InNamespace(s.Run.Namespace)); err != nil {
		return fmt.Errorf("listing the pools of namespace %s: %w", s.Run.Namespace, err)
	}
	s.Pools = list.Items
	return nil
}

// readJob reads the run's Job and, until the run has ended, its plan, its table and the servers'
// counts.
func (r *Reader) readJob(ctx context.Context, s *snapshot.Snapshot) error {
	job := &batchv1.Job{}
	if found, err := r.readOwn(ctx, s, s.Run.Name, job); err != nil {
		return err
	} else if found {
		s.Job = job
	}
	if err := r.readSealed(ctx, s); err != nil {
		return err
	}
	if s.Closing || evaluation.HasEnded(s.Run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if err := errors.Join(r.readPlanMap(ctx, s), r.readRefusal(ctx, s), r.readLostNodes(ctx, s),
		r.readCredential(ctx, s)); err != nil {
		return err
	}
	what, _, _ := s.FindChange()
	if _, err := s.StoredPlan(); err != nil || s.Run.Status.Provenance == nil || what != "" {
		if err := r.readReport(ctx, s); err != nil {
			return err
		}
	}
	if err := r.readScores(ctx, s, len(s.Succeeded) > 0); err != nil {
		return err
	}
	return r.readLive(ctx, s)
}

// readCredential finds out whether runners that are being created wait for the run's Secret. The
// operator may not list Secrets, and reads this one only then.
func (r *Reader) readCredential(ctx context.Context, s *snapshot.Snapshot) error {
	if !slices.ContainsFunc(s.Pods, func(pod corev1.Pod) bool { return runner.IsCreating(&pod) }) {
		return nil
	}
	name := types.NamespacedName{Namespace: s.Run.Namespace, Name: runner.NameCredential(s.Run)}
	err := r.Direct.Get(ctx, name, &corev1.Secret{})
	s.NoCredential = apierrors.IsNotFound(err)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the run's credential: %w", err)
	}
	return nil
}

// readPlanMap reads the plan's ConfigMap. While the Job contains the plan, there may be one in the
// cache, but no pass needs it.
func (r *Reader) readPlanMap(ctx context.Context, s *snapshot.Snapshot) (err error) {
	if s.Job != nil && runner.ReadInputs(&s.Job.Spec.Template) != nil {
		s.PlanMap, err = r.readCached(ctx, s.Run, runner.PlanName(s.Run))
		return err
	}
	planMap := &corev1.ConfigMap{}
	found, err := r.readOwn(ctx, s, runner.PlanName(s.Run), planMap)
	if found {
		s.PlanMap = planMap
	}
	return err
}

// readLive reads the live counts of a run that is being played.
func (r *Reader) readLive(ctx context.Context, s *snapshot.Snapshot) error {
	if r.Live == nil || s.Env == nil || s.Run.Status.StartTime == nil || evaluation.IsSuspended(s.Run) {
		return nil
	}
	list, err := objects.ListServers(ctx, r.Cache, client.ObjectKeyFromObject(s.Env))
	if err != nil {
		return err
	}
	pool := client.ObjectKeyFromObject(s.Env)
	secrets, err := r.Keys.Secrets(ctx, pool, s.Env.Status.LedgerPublicKey)
	if err != nil {
		logf.FromContext(ctx).V(1).Info("Progress not read", "reason", err.Error())
		return nil
	}
	var servers []string
	for i := range list {
		if pods.IsRunning(&list[i]) && len(servers) < maxPolled {
			servers = append(servers, list[i].Status.PodIP)
		}
	}
	s.Live = r.Live.figures(ctx, pool, secrets.Operations, servers, s.Run.UID, s.Run.Status.StartTime.Time,
		s.LiveInterval(), s.Now)
	return nil
}

// readLostNodes finds out which nodes of overdue pods are lost. Nodes are read past the cache,
// because this is rare and a cache would hold all nodes. Without the right to read nodes, which an
// operator of single namespaces doesn't have, no node counts as lost.
func (r *Reader) readLostNodes(ctx context.Context, s *snapshot.Snapshot) error {
	s.LostNodes = map[string]bool{}
	for _, pod := range s.OverduePods() {
		name := pod.Spec.NodeName
		if _, known := s.LostNodes[name]; known {
			continue
		}
		var node corev1.Node
		err := r.Direct.Get(ctx, types.NamespacedName{Name: name}, &node)
		if apierrors.IsForbidden(err) {
			s.LostNodes[name] = false
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		s.LostNodes[name] = err != nil || !isReady(&node)
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
