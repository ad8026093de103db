// Package run reconciles EvaluationRuns: it makes a plan, has an Indexed Job play it, and adds up
// the runners' summaries.
//
// A pass reads everything into a snapshot, decides with pure functions over it, and writes last:
// the status, then the Job, then the pods. The Job starts, retries and limits runners, one index
// for each shard of the plan.
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
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
)

const concurrentRuns = 8 // no pass waits for the pool's servers

// Options describe the operator.
type Options struct {
	Image   string // of the runners: the operator's own
	Version string // for a run's provenance
	// Traces makes the spans of runs, nil without tracing.
	Traces Traces
	// TracingVariables are added to those of runners.
	TracingVariables []corev1.EnvVar
}

func (o Options) runners() runnerOptions {
	return runnerOptions{image: o.Image, tracingVariables: o.TracingVariables, traced: o.Traces != nil}
}

// Reconciler plays EvaluationRuns.
type Reconciler struct {
	client   client.Client
	direct   client.Reader // past the cache, where a stale answer could lose a summary
	reader   *Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	metrics  *runMetrics
	options  Options
}

// New returns a reconciler of the manager's cluster. The manager calls SetupWithManager next.
func New(mgr ctrl.Manager, options Options) *Reconciler {
	return &Reconciler{
		client:   mgr.GetClient(),
		direct:   mgr.GetAPIReader(),
		reader:   newReader(mgr, options.Version),
		recorder: mgr.GetEventRecorder("csenv"),
		clock:    clock.RealClock{},
		metrics:  newRunMetrics(),
		options:  options,
	}
}

// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns/status,verbs=update
// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs,verbs=get;list;watch
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
		For(&v1alpha1.EvaluationRun{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(runOfPod)).
		Watches(&v1alpha1.CustomerSupportEnv{}, handler.EnqueueRequestsFromMapFunc(r.runsOfPool)).
		WatchesRawSource(r.reader.polls.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentRuns}).
		Complete(r)
}

// runOfPod finds a pod's run by its labels.
func runOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRunner || labels[v1alpha1.LabelRun] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(),
		Name: labels[v1alpha1.LabelRun]}}}
}

// runsOfPool finds the runs of all namespaces that are played against a pool and haven't ended.
func (r *Reconciler) runsOfPool(ctx context.Context, pool client.Object) []reconcile.Request {
	list, err := access.UnendedRuns(ctx, r.client, client.ObjectKeyFromObject(pool))
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
	snap, err := r.reader.takeSnapshot(ctx, req.NamespacedName)
	if errors.Is(err, errPolling) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}

	// 2. Release the pods of runs that no longer exist.
	if err := r.releaseForeign(ctx, req.NamespacedName, snap.foreign); err != nil {
		return objects.IgnoreExpected(err)
	}
	if snap.run == nil {
		r.reader.polls.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}

	// 3. Decide, by the snapshot alone.
	began := r.clock.Now()
	next := decide(snap)
	next.took = r.clock.Since(began)

	// 4. Write the status first: the following steps are repeated if this pass ends here. The
	//    table of scenarios is written before the status that refers to it.
	if err := r.confirmEnd(ctx, snap, next); err != nil {
		return objects.IgnoreExpected(err)
	}
	if err := r.writeScores(ctx, snap, next.scores); err != nil {
		uncounted := next // without the shards whose scores aren't written
		uncounted.status = snap.run.Status
		return r.unlessRefused(ctx, snap, uncounted, err)
	}
	if err := r.writeStatus(ctx, snap.run, next); err != nil {
		return objects.IgnoreExpected(err)
	}

	// 5. Notify the servers that returned segments when the run has ended.
	if evaluation.Ended(next.status.Conditions) {
		r.reader.notifyDone(ctx, snap)
	}

	// 6. Start, resize or stop the Job.
	if err := r.applyPlan(ctx, snap, next); err != nil {
		return r.unlessRefused(ctx, snap, next, err)
	}
	if err := r.applyJob(ctx, snap, next); err != nil {
		return r.unlessRefused(ctx, snap, next, err)
	}

	// 7. Release what the run no longer needs.
	if err := r.release(ctx, snap, next); err != nil {
		return objects.IgnoreExpected(err)
	}
	return ctrl.Result{RequeueAfter: next.again}, nil
}

// release has the runners of lost nodes replaced, removes the finalizer of pods whose summary is
// counted or refused, and deletes the run when its time is over.
func (r *Reconciler) release(ctx context.Context, snap snapshot, next decision) error {
	if err := r.failLost(ctx, next.lost); err != nil {
		return err
	}
	if err := r.removeFinalizers(ctx, next.release); err != nil || !next.deleteRun {
		return err
	}
	logf.FromContext(ctx).Info("Deleting a run after ttlSecondsAfterFinished")
	return r.client.Delete(ctx, snap.run, client.Preconditions{UID: &snap.run.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// writeStatus writes the status if it differs, guarded by the resource version. Events and metrics
// follow the write.
func (r *Reconciler) writeStatus(ctx context.Context, run *v1alpha1.EvaluationRun, next decision) error {
	if !equality.Semantic.DeepEqual(run.Status, next.status) {
		updated := run.DeepCopy()
		updated.Status = next.status
		if err := r.client.Status().Update(ctx, updated); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	for _, e := range next.events {
		var about runtime.Object // remains a nil interface, which a nil *Pod in it would not be
		if e.about != nil {
			about = e.about
		}
		r.recorder.Eventf(run, about, e.kind, e.reason, cmp.Or(e.action, "Reconcile"), "%s",
			pods.Shorten(e.note, pods.MaxNote))
	}
	r.metrics.observe(next.folding, next.took)
	r.metrics.observeEnd(run, next.status)
	r.traceEnd(ctx, run, next.status)
	return nil
}

// writeScores writes the table of scenarios, guarded by its resource version.
func (r *Reconciler) writeScores(ctx context.Context, snap snapshot, table *string) error {
	if table == nil {
		return nil
	}
	data := map[string]string{v1alpha1.ScoresKey: *table}
	if snap.scores == nil {
		table := &corev1.ConfigMap{ObjectMeta: objectMeta(snap.run, scoresName(snap.run)), Data: data}
		return asRefusal("ConfigMap "+table.Name, r.create(ctx, table))
	}
	updated := snap.scores.DeepCopy()
	updated.Data = data
	if err := r.client.Update(ctx, updated); err != nil {
		return asRefusal("ConfigMap "+updated.Name, fmt.Errorf("writing the scores of scenarios: %w", err))
	}
	return nil
}

// applyPlan creates the ConfigMap that runners read, and deletes one that isn't the plan.
func (r *Reconciler) applyPlan(ctx context.Context, snap snapshot, next decision) error {
	switch {
	case next.removePlan:
		return client.IgnoreNotFound(r.client.Delete(ctx, snap.planMap, client.Preconditions{UID: &snap.planMap.UID}))
	case next.createPlan != nil:
		object, err := planConfigMap(snap.run, *next.createPlan)
		if err != nil {
			return err
		}
		return asRefusal("ConfigMap "+object.Name, r.create(ctx, object))
	}
	return nil
}

// applyJob creates, changes or deletes the Job.
func (r *Reconciler) applyJob(ctx context.Context, snap snapshot, next decision) error {
	switch {
	case next.deleteJob:
		logf.FromContext(ctx).Info("Deleting the Job", "job", snap.job.Name)
		return client.IgnoreNotFound(r.client.Delete(ctx, snap.job, client.Preconditions{UID: &snap.job.UID},
			client.PropagationPolicy(metav1.DeletePropagationBackground)))
	case next.createJob != nil:
		if err := r.createCredential(ctx, snap); err != nil {
			return asRefusal("the Secret of the run's credential", err)
		}
		return asRefusal("Job "+snap.run.Name, r.create(ctx, runnerJob(snap.run, snap.env, r.options.runners(), *next.createJob)))
	case next.changeJob != (jobChange{}):
		changed := snap.job.DeepCopy()
		c, spec := next.changeJob, &changed.Spec
		spec.Parallelism = cmp.Or(c.parallelism, spec.Parallelism)
		spec.Suspend = cmp.Or(c.suspend, spec.Suspend)
		spec.ActiveDeadlineSeconds = cmp.Or(c.deadline, spec.ActiveDeadlineSeconds)
		if err := r.client.Patch(ctx, changed, client.MergeFrom(snap.job)); err != nil {
			return asRefusal("a change of Job "+changed.Name, fmt.Errorf("changing the Job: %w", err))
		}
	}
	return nil
}

// create creates one of the run's objects.
func (r *Reconciler) create(ctx context.Context, object client.Object) error {
	if err := r.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
	}
	logf.FromContext(ctx).Info("Created", "kind", fmt.Sprintf("%T", object), "name", object.GetName())
	return nil
}

// releaseForeign removes the finalizers of pods with the name of the run and another run's UID. It
// reads past the cache, which may show an earlier run than that of the pods: a finalizer that is
// removed too early loses a summary.
func (r *Reconciler) releaseForeign(ctx context.Context, key types.NamespacedName, list []corev1.Pod) error {
	if len(list) == 0 {
		return nil
	}
	var run v1alpha1.EvaluationRun
	err := r.direct.Get(ctx, key, &run)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the run of %d pods: %w", len(list), err)
	}
	if err == nil && run.DeletionTimestamp.IsZero() {
		list = slices.DeleteFunc(slices.Clone(list),
			func(pod corev1.Pod) bool { return pod.Labels[labelRunUID] == string(run.UID) })
	}
	return r.removeFinalizers(ctx, list)
}

// removeFinalizers removes the finalizer of pods. The patch contains only the finalizer, so that it
// can't conflict with other writes.
func (r *Reconciler) removeFinalizers(ctx context.Context, list []corev1.Pod) error {
	for i := range list {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, list[i].UID,
			summaryFinalizer)
		err := r.client.Patch(ctx, list[i].DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
		switch {
		case apierrors.IsInvalid(err):
			// Another pod has the name by now: its UID can't be changed to this one's.
			logf.FromContext(ctx).V(1).Info("Pod was replaced", "pod", list[i].Name, "reason", err.Error())
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("removing the finalizer of pod %s: %w", list[i].Name, err)
		}
	}
	return nil
}
