// Package run reconciles EvaluationRuns: it makes a plan, has an Indexed Job play it, and adds up
// the runners' summaries.
//
// A pass reads everything into a snapshot (observe), decides by it alone (rules), and writes last:
// the status, then the Job, then the pods. Only this package writes. The Job starts, retries and
// limits runners, one index for each shard of the plan (runner). What they have played is added up
// by tally.
//
// A shard is counted exactly once. The runner leaves a summary as its container's termination
// message, and a finalizer keeps the pod until it is read. One status write, guarded by the
// resource version, adds the summary to the accumulator and its index to the completed ones; the
// finalizer is removed after that. After a crash before the write the pod still exists; after a
// crash that follows it the index shows that the shard is counted. No other state is kept.
//
// A run of type External has neither plan nor Job: trainers play episodes, tagged with its name,
// and the pool's servers return them in numbered segments, each kept until it is acknowledged. A
// pass adds segments to the sums in the status write that stores their numbers, and the next pass
// acknowledges those numbers. So each segment is counted once as well.
//
// Objects in the run's namespace aren't trusted: a summary counts only if its ledger has the pool's
// signature and the planned episodes, and a ConfigMap's plan only if its fingerprint is the one in
// the status.
package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

const concurrentRuns = 8 // no pass waits for the pool's servers

// Reconciler plays EvaluationRuns.
type Reconciler struct {
	writer
	reader *observe.Reader
}

// New returns a reconciler of the manager's cluster. The manager calls SetupWithManager next.
func New(mgr ctrl.Manager, options Options) *Reconciler {
	reader := observe.New(mgr, options.Version)
	return &Reconciler{reader: reader, writer: writer{
		client:   mgr.GetClient(),
		direct:   mgr.GetAPIReader(),
		recorder: mgr.GetEventRecorder("csenv"),
		keys:     reader.Keys,
		clock:    clock.RealClock{},
		metrics:  newRunMetrics(),
		options:  options,
		released: newReleases(),
		counting: &poolCounts{},
	}}
}

// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns/status,verbs=update
// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs,verbs=get;list;watch
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs/status,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager has the manager reconcile a run when its spec, its Job, its plan, one of its
// pods or its pool changes. A pod requests its run by name, whether or not that exists, so that
// pods of runs deleted while no operator ran are released.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := errors.Join(r.metrics.register(metrics.Registry),
		metrics.Registry.Register(newStateCollector(r.client, mgr.Elected()))); err != nil {
		return fmt.Errorf("registering the runs' metrics: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("run").
		For(&v1alpha1.EvaluationRun{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{},
			predicate.Funcs{UpdateFunc: isEditAfterEnd}))).
		Owns(&batchv1.Job{}).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(mapPodToRun)).
		Watches(&v1alpha1.CustomerSupportEnv{}, handler.EnqueueRequestsFromMapFunc(r.mapPoolToRuns)).
		WatchesRawSource(r.reader.Polls.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentRuns}).
		Complete(r)
}

// isEditAfterEnd selects changes to the status of a run that had ended: few are the operator's.
func isEditAfterEnd(e event.UpdateEvent) bool {
	before, was := e.ObjectOld.(*v1alpha1.EvaluationRun)
	after, is := e.ObjectNew.(*v1alpha1.EvaluationRun)
	return was && is && evaluation.HasEnded(before.Status.Conditions) &&
		!equality.Semantic.DeepEqual(before.Status, after.Status)
}

// mapPodToRun finds a pod's run by its labels.
func mapPodToRun(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRunner || labels[v1alpha1.LabelRun] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(),
		Name: labels[v1alpha1.LabelRun]}}}
}

// mapPoolToRuns finds the runs of all namespaces that are played against a pool and haven't ended.
func (r *Reconciler) mapPoolToRuns(ctx context.Context, pool client.Object) []reconcile.Request {
	list, err := objects.UnendedRuns(ctx, r.client, client.ObjectKeyFromObject(pool))
	if err != nil {
		logf.FromContext(ctx).Error(err, "Finding the runs of a pool", "pool", pool.GetName())
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list))
	for i := range list {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
	}
	return requests
}

// Reconcile advances one run and updates its status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// 1. Read everything.
	snap, err := r.reader.TakeSnapshot(ctx, req.NamespacedName)
	if errors.Is(err, observe.ErrPolling) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}

	// 2. Release the pods of runs that no longer exist.
	if err := r.releaseForeign(ctx, req.NamespacedName, snap.Foreign); err != nil {
		return objects.IgnoreExpected(err)
	}
	if snap.Run == nil {
		r.reader.Polls.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}

	// 3. Decide, by the snapshot alone.
	next, took := r.decide(ctx, snap)

	// 4. Write the status first: the following steps are repeated if this pass ends here. The
	//    table of scenarios is written before the status that refers to it, and a run that begins
	//    is counted by its pool before that.
	if err := r.confirmEnd(ctx, snap, next); err != nil {
		return objects.IgnoreExpected(err)
	}
	if err := r.writeScores(ctx, snap, next); err != nil {
		uncounted := next // without the shards whose scores aren't written
		uncounted.Status = snap.Run.Status
		return r.handleWriteError(ctx, snap, uncounted, err)
	}
	if err := r.countRun(ctx, snap, next); err != nil {
		return objects.IgnoreExpected(err)
	}
	if err := r.writeStatus(ctx, snap, next); err != nil {
		return objects.IgnoreExpected(err)
	}
	r.metrics.observeDeciding(next.Tally, took)
	r.reader.ForgetServers(snap, evaluation.HasEnded(next.Status.Conditions))

	// 5. Notify the servers that returned segments when the run has ended.
	if evaluation.HasEnded(next.Status.Conditions) {
		r.reader.NotifyDone(ctx, snap)
	}

	// 6. Start, resize or stop the Job.
	if err := r.applyPlan(ctx, snap, next); err != nil {
		return r.handleWriteError(ctx, snap, next, err)
	}
	if err := r.applyJob(ctx, snap, next); err != nil {
		return r.handleWriteError(ctx, snap, next, err)
	}

	// 7. Release what the run no longer needs.
	if err := r.releasePods(ctx, snap, next); err != nil {
		return objects.IgnoreExpected(err)
	}
	return ctrl.Result{RequeueAfter: next.Again}, nil
}

// decide logs which rule ended or held the run.
func (r *Reconciler) decide(ctx context.Context, snap snapshot.Snapshot) (rules.Decision, time.Duration) {
	began := r.clock.Now()
	next := rules.DecideRun(snap)
	took := r.clock.Since(began)
	logf.FromContext(ctx).V(1).Info("Decided", "rule", next.Rule, "took", took)
	return next, took
}

// confirmEnd returns a conflict if a run is about to end by an old view of it. The guard of the
// status comes too late: the table of scenarios is written before it, and the old view may be of a
// run that has ended, whose servers no longer wait for it.
func (r *Reconciler) confirmEnd(ctx context.Context, s snapshot.Snapshot, next rules.Decision) error {
	ends := evaluation.HasEnded(next.Status.Conditions) && !evaluation.HasEnded(s.Run.Status.Conditions)
	if s.Run.Status.Rollouts == nil || !ends {
		return nil
	}
	var run v1alpha1.EvaluationRun
	if err := r.direct.Get(ctx, client.ObjectKeyFromObject(s.Run), &run); err != nil {
		return fmt.Errorf("reading the run that is about to end: %w", err)
	}
	if run.ResourceVersion == s.Run.ResourceVersion {
		return nil
	}
	if evaluation.HasEnded(run.Status.Conditions) {
		r.reader.NotifyDone(ctx, s)
	}
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("evaluationruns").GroupResource(), run.Name,
		errors.New("the run has changed since it was read"))
}
