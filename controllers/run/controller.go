// Package run plays EvaluationRuns: it fixes a plan, has an Indexed Job play it, and adds up what
// the runners bring back.
//
// One pass reads everything into a snapshot, decides with pure functions over it, and writes last:
// the status first, then the Job, then the pods. The Job is the engine: it starts, retries and
// limits runners, one index for each shard of the plan.
//
// A shard is counted exactly once. The runner leaves a summary as its container's termination
// message, and the pod template carries a finalizer, so that a finished pod can't vanish before it
// was read. The pass that reads it adds the summary to the accumulator and its index to the
// completed ones in one status write, guarded by the resource version; the finalizer is removed
// after that. A crash before the write loses nothing, for the pod is still there; a crash after it
// counts nothing twice, for the index is there. Nothing else is remembered anywhere.
//
// A run of type External has neither plan nor Job: trainers bring the episodes, tagged with its
// name, and the pool's servers hand them over in numbered segments, each kept until it is
// acknowledged. A pass reads the servers' segments, and adds them to the sums in one status write
// together with their numbers; the next pass that reads those numbers acknowledges them. So a
// segment counts once, too, whatever is lost or crashes in between.
//
// Objects in the run's namespace aren't trusted: a summary counts only if its ledger carries the
// pool's signature and holds the planned episodes, and the plan in the ConfigMap only if it has the
// fingerprint that the status holds.
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
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/stats"
)

const (
	// Runs are reconciled side by side, for a pass waits on the network while it asks a pool what
	// it offers, or what trainers have played.
	concurrentRuns = 8
)

// Options are what a reconciler must know of its operator.
type Options struct {
	// Image of the runners: the operator's own.
	Image string
	// Version of the operator, for a run's provenance.
	Version string
}

// Reconciler plays EvaluationRuns.
type Reconciler struct {
	client   client.Client
	direct   client.Reader // past the cache, for questions to which a stale answer would lose a summary
	recorder events.EventRecorder
	pools    poolReader
	live     *livePoller
	clock    clock.PassiveClock
	metrics  *runMetrics
	options  Options
}

// New returns a reconciler of the manager's cluster. The manager calls SetupWithManager next.
func New(mgr ctrl.Manager, options Options) *Reconciler {
	reader := stats.NewReader()
	return &Reconciler{
		client:   mgr.GetClient(),
		direct:   mgr.GetAPIReader(),
		recorder: mgr.GetEventRecorder("csenv"),
		pools:    reader,
		live:     newLivePoller(reader),
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
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager has the manager reconcile a run when its spec, its Job, its plan, one of its
// pods or its pool changes. A pod wakes the name of its run whether or not there is such a run: so
// pods of runs that went while no operator was there are released when one comes back.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := errors.Join(r.metrics.register(metrics.Registry),
		metrics.Registry.Register(newStateCollector(r.client))); err != nil {
		return fmt.Errorf("registering the runs' metrics: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("run").
		// Status writes of this controller need no pass.
		For(&v1alpha1.EvaluationRun{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Owns(&corev1.ConfigMap{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(runOfPod)).
		Watches(&v1alpha1.CustomerSupportEnv{}, handler.EnqueueRequestsFromMapFunc(r.runsOfPool)).
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

// runsOfPool finds the runs, of whatever namespace, that are played against a pool and haven't
// ended.
func (r *Reconciler) runsOfPool(ctx context.Context, pool client.Object) []reconcile.Request {
	var list v1alpha1.EvaluationRunList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		logf.FromContext(ctx).Error(err, "Listing the runs of a pool", "pool", pool.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		run := &list.Items[i]
		if poolKeyOf(run) == client.ObjectKeyFromObject(pool) && !ended(run.Status.Conditions) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
		}
	}
	return requests
}

// Reconcile brings one run a step nearer to its end and its status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// 1. Read everything.
	snap, err := r.takeSnapshot(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}

	// 2. Release the pods of runs that no longer exist.
	if err := r.releaseForeign(ctx, req.NamespacedName, snap.foreign); err != nil {
		return pods.IgnoreExpected(err)
	}
	if snap.run == nil {
		return ctrl.Result{}, nil
	}

	// 3. Decide, over what was read alone.
	began := r.clock.Now()
	next := decide(snap)
	next.folding.took = r.clock.Since(began)

	// 4. Tell first: what is counted, and what the run is about to be played with. What follows
	//    can be repeated, and is when this pass ends here. The table of scenarios comes before,
	//    for the status vouches for it.
	if err := r.confirmEnd(ctx, snap, next); err != nil {
		return pods.IgnoreExpected(err)
	}
	if err := r.writeScores(ctx, snap, next.scores); err != nil {
		return pods.IgnoreExpected(err)
	}
	if err := r.writeStatus(ctx, snap.run, next); err != nil {
		return pods.IgnoreExpected(err)
	}

	// 5. Notify the servers that handed over segments when the run has ended.
	if ended(next.status.Conditions) {
		r.notifyDone(ctx, snap)
	}

	// 6. Start, resize or stop the Job.
	if err := r.applyPlan(ctx, snap, next); err != nil {
		return pods.IgnoreExpected(err)
	}
	if err := r.applyJob(ctx, snap, next); err != nil {
		return pods.IgnoreExpected(err)
	}

	// 7. Remove the finalizer of pods whose summaries are counted or refused.
	if err := r.removeFinalizers(ctx, next.release); err != nil {
		return pods.IgnoreExpected(err)
	}
	if next.deleteRun {
		logf.FromContext(ctx).Info("Deleting a run whose time after its end is over")
		return pods.IgnoreExpected(r.client.Delete(ctx, snap.run, client.Preconditions{UID: &snap.run.UID},
			client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	return ctrl.Result{RequeueAfter: next.again}, nil
}

// writeStatus writes the status if it differs, guarded by the resource version, and only then
// announces and measures what it says.
func (r *Reconciler) writeStatus(ctx context.Context, run *v1alpha1.EvaluationRun, next decision) error {
	if !equality.Semantic.DeepEqual(run.Status, next.status) {
		updated := run.DeepCopy()
		updated.Status = next.status
		if err := r.client.Status().Update(ctx, updated); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	for _, e := range next.events {
		r.record(run, e)
	}
	r.metrics.observe(next.folding)
	r.metrics.observeEnd(run, next.status)
	return nil
}

func (r *Reconciler) record(run *v1alpha1.EvaluationRun, e event) {
	// An interface that holds a nil pointer is not nil.
	var about runtime.Object
	if e.about != nil {
		about = e.about
	}
	note := pods.Shorten(e.note, pods.MaxNote)
	r.recorder.Eventf(run, about, e.kind, e.reason, cmp.Or(e.action, "Reconcile"), "%s", note)
}

// writeScores writes the table of scenarios, guarded by its resource version.
func (r *Reconciler) writeScores(ctx context.Context, snap snapshot, table *string) error {
	if table == nil {
		return nil
	}
	data := map[string]string{v1alpha1.ScoresKey: *table}
	if snap.scores == nil {
		err := r.create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: scoresName(snap.run), Namespace: snap.run.Namespace,
				Labels: runLabels(snap.run), OwnerReferences: owners(snap.run)}, Data: data,
		})
		return err
	}
	updated := snap.scores.DeepCopy()
	updated.Data = data
	if err := r.client.Update(ctx, updated); err != nil {
		return fmt.Errorf("writing the scores of scenarios: %w", err)
	}
	return nil
}

// applyPlan creates the ConfigMap that runners read, and removes one that isn't the plan any more.
func (r *Reconciler) applyPlan(ctx context.Context, snap snapshot, next decision) error {
	switch {
	case next.removePlan:
		return client.IgnoreNotFound(r.client.Delete(ctx, snap.planMap, client.Preconditions{UID: &snap.planMap.UID}))
	case next.createPlan != nil:
		object, err := planConfigMap(snap.run, *next.createPlan)
		if err != nil {
			return err
		}
		return r.create(ctx, object)
	}
	return nil
}

// applyJob creates, changes or deletes the Job.
func (r *Reconciler) applyJob(ctx context.Context, snap snapshot, next decision) error {
	switch {
	case next.deleteJob:
		logf.FromContext(ctx).Info("Deleting the Job", "job", snap.job.Name)
		err := r.client.Delete(ctx, snap.job, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &snap.job.UID})
		return client.IgnoreNotFound(err)
	case next.createJob != nil:
		return r.create(ctx, runnerJob(snap, *next.createJob))
	case next.changeJob != (jobChange{}):
		changed := snap.job.DeepCopy()
		next.changeJob.apply(&changed.Spec)
		if err := r.client.Patch(ctx, changed, client.MergeFrom(snap.job)); err != nil {
			return fmt.Errorf("changing the Job: %w", err)
		}
	}
	return nil
}

func (c jobChange) apply(spec *batchv1.JobSpec) {
	if c.parallelism != nil {
		spec.Parallelism = c.parallelism
	}
	if c.suspend != nil {
		spec.Suspend = c.suspend
	}
	if c.deadline != nil {
		spec.ActiveDeadlineSeconds = c.deadline
	}
}

// create creates one of the run's objects. If another was created meanwhile, the next pass reads
// it.
func (r *Reconciler) create(ctx context.Context, object client.Object) error {
	if err := r.client.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
	}
	logf.FromContext(ctx).Info("Created", "kind", fmt.Sprintf("%T", object), "name", object.GetName())
	return nil
}

// releaseForeign lifts the finalizers of pods that bear the run's name but belong to another run of
// it, which is gone or going. The cache alone can't tell: it may show an earlier run than the pods
// are of, and a finalizer lifted too early loses a summary.
func (r *Reconciler) releaseForeign(ctx context.Context, key types.NamespacedName, list []corev1.Pod) error {
	if len(list) == 0 {
		return nil
	}
	var run v1alpha1.EvaluationRun
	err := r.direct.Get(ctx, key, &run)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the run of %d list: %w", len(list), err)
	}
	if err == nil && run.DeletionTimestamp.IsZero() {
		list = slices.DeleteFunc(slices.Clone(list),
			func(pod corev1.Pod) bool { return pod.Labels[labelRunUID] == string(run.UID) })
	}
	return r.removeFinalizers(ctx, list)
}

// removeFinalizers removes the finalizer of pods. The patch names the finalizer alone, so it can't
// conflict with anybody else's write.
func (r *Reconciler) removeFinalizers(ctx context.Context, list []corev1.Pod) error {
	for i := range list {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, list[i].UID,
			summaryFinalizer)
		err := r.client.Patch(ctx, list[i].DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
		switch {
		case apierrors.IsInvalid(err):
			// Another pod has the name by now, and its UID can't be patched into this one's. The
			// cache is about to say so.
			logf.FromContext(ctx).V(1).Info("Pod was replaced", "pod", list[i].Name, "reason", err.Error())
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("lifting the finalizer of pod %s: %w", list[i].Name, err)
		}
	}
	return nil
}

// ended reports whether a run has completed or failed.
func ended(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFailed)
}
