// Package environment reconciles CustomerSupportEnvs: it creates a pool of environment servers for
// each, and reports the pool's state in its status.
//
// A pass reads everything into a snapshot, decides with pure functions, and then writes the changed
// objects and the status. A Deployment performs rolling updates. Sessions, episodes and digests are
// polled from the servers' /stats, because nothing in the cluster announces their changes.
//
// The pool's objects are applied by server-side apply, and only if the live object lacks an
// intended value. So a pool at rest needs no writes, and manual changes are reverted. An applied
// object that admission changes stays as admission made it.
package environment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/stats"
)

const (
	// fieldOwner owns the applied fields in all replicas and versions of the operator.
	fieldOwner        = client.FieldOwner("csenv-environment")
	pollInterval      = 15 * time.Second // between two polls of a pool's servers
	scalePollInterval = 5 * time.Second  // of autoscaled pools, which must follow a burst within ten seconds
	pollJitter        = 0.2              // at most added to both, so that pools spread out
	// countsInterval is the minimum time between two status writes that change only the counts of
	// sessions and episodes.
	countsInterval  = 15 * time.Second
	concurrentPools = 16 // are reconciled at the same time; no pass waits for servers
	// concurrentPolls of pools run at the same time. Each asks at most statsInFlight servers at a
	// time.
	concurrentPolls = 32
)

// Reconciler reconciles CustomerSupportEnvs.
type Reconciler struct {
	client   client.Client
	live     client.Reader // past the cache, which holds only objects that carry our labels
	recorder events.EventRecorder
	stats    statsReader
	polls    *polling.Poller[polled]
	keys     keys.Source
	clock    clock.PassiveClock
	entropy  io.Reader // of ledger keys
	image    string    // of pools whose spec names none
	memories memories
	updates  *updates
	metrics  *poolMetrics
	// namespace is the operator's own, whose traffic a pool's NetworkPolicy admits.
	namespace string
}

// Options configure all pools.
type Options struct {
	// Image is the image of pools whose spec names none.
	Image string
	// Namespace is the operator's own, empty outside of the cluster. Without it, managed
	// NetworkPolicies admit every client to the port of statistics.
	Namespace string
	// MaxUpdates is the number of pools whose servers are replaced at the same time because of
	// another release of the operator.
	MaxUpdates int
}

// New returns a reconciler of the manager's cluster.
func New(mgr ctrl.Manager, o Options) *Reconciler {
	return &Reconciler{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		recorder:  mgr.GetEventRecorder("csenv"),
		stats:     stats.NewReader(),
		polls:     polling.New[polled](concurrentPolls),
		keys:      objects.Keys(mgr.GetAPIReader()),
		clock:     clock.RealClock{},
		metrics:   newPoolMetrics(),
		entropy:   rand.Reader,
		image:     o.Image,
		namespace: o.Namespace,
		updates:   newUpdates(o.MaxUpdates),
	}
}

// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs,verbs=get;list;watch
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs/status,verbs=update
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the reconciler. A pool is reconciled when its spec, one of its objects
// or one of its pods changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := errors.Join(r.metrics.register(metrics.Registry),
		metrics.Registry.Register(newCollector(mgr.GetClient(), mgr.Elected()))); err != nil {
		return fmt.Errorf("registering the pools' metrics: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("environment").
		// Writes of our own status don't trigger another pass.
		For(&v1alpha1.CustomerSupportEnv{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&v1alpha1.EvaluationRun{}, handler.EnqueueRequestsFromMapFunc(poolOfRun),
			builder.WithPredicates(beginsToWait())).
		WatchesRawSource(r.polls.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentPools}).
		Complete(r)
}

// poolOfPod finds a pod's pool by its labels, because the pod's owner is a ReplicaSet.
func poolOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.LabelComponent] != v1alpha1.ComponentEnvServer || labels[v1alpha1.LabelEnvironment] == "" {
		return nil
	}
	pool := types.NamespacedName{Namespace: pod.GetNamespace(), Name: labels[v1alpha1.LabelEnvironment]}
	return []reconcile.Request{{NamespacedName: pool}}
}

// Reconcile reconciles one pool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// 1. A deleted pool needs nothing: the garbage collector deletes its objects.
	env := &v1alpha1.CustomerSupportEnv{}
	err := r.client.Get(ctx, req.NamespacedName, env)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the pool: %w", err)
	}
	if apierrors.IsNotFound(err) || !env.DeletionTimestamp.IsZero() {
		r.memories.forget(req.NamespacedName)
		r.polls.Forget(req.NamespacedName)
		r.metrics.forget(req.NamespacedName)
		r.updates.end(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	memory := r.memories.of(env)

	// 2. Create the ledger key first: the servers start with it, and only the status stores its
	// public half.
	keyErr := r.ensureKey(ctx, env)
	if keyErr != nil && (env.Status.LedgerPublicKey == "" || apierrors.IsConflict(keyErr)) {
		return r.withoutKey(ctx, env, memory, keyErr)
	}

	// 3. Read everything. While the servers are polled, the pass ends; the poller requests another.
	snap, known, err := r.takeSnapshot(ctx, env)
	if err != nil || !known {
		return ctrl.Result{}, err
	}

	// 4. Count the changes of the servers since the last pass.
	r.reportTerminated(env, memory)
	memory.observe(snap, r.metrics)
	r.metrics.show(snap)

	// 5. Decide the number of servers and their scenarios, and apply what differs. The status shows
	// refusals too, because users can't read the operator's log.
	d := decide(snap, memory)
	markErr := r.annotate(ctx, env.Namespace, marks(d, memory))
	if markErr != nil && needsCosts(d) {
		d.hold()
	}
	listErr := r.updates.postpone(ctx, r.client, &d)
	steps := changes(d, memory.accepted)
	d.applying = d.applying || len(steps) > 0
	d.applyErr = errors.Join(keyErr, markErr, listErr, r.apply(ctx, env.Namespace, steps, memory),
		r.keepMetricsToken(ctx, snap, memory))
	r.announceScaling(d, memory)
	r.announcePacks(d)

	// 6. Write the status.
	if err := r.writeStatus(ctx, env, computeStatus(d), memory); err != nil {
		return objects.IgnoreExpected(errors.Join(d.applyErr, err))
	}

	// 7. If a write failed, retry with a growing delay. Otherwise return for the next poll.
	if d.applyErr != nil {
		return ctrl.Result{}, d.applyErr
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(pollEvery(d), pollJitter)}, nil
}

// pollEvery returns the time to the next poll, shorter if the number of servers depends on it.
func pollEvery(d decision) time.Duration {
	if d.env.Spec.Autoscaling != nil || d.held {
		return scalePollInterval
	}
	return pollInterval
}

// announceScaling emits an event once for each change of the number of servers, after it was
// applied.
func (r *Reconciler) announceScaling(d decision, m *memory) {
	if d.applyErr != nil || d.scaling.reason == "" {
		return
	}
	change := fmt.Sprintf("%s to %d", d.deployment().ResourceVersion, d.scaling.to)
	if m.scaled == change {
		return
	}
	m.scaled = change
	r.metrics.decided(d)
	reason := v1alpha1.ReasonScaledUp
	if d.scaling.direction() == "down" {
		reason = v1alpha1.ReasonScaledDown
	}
	r.recorder.Eventf(d.env, nil, corev1.EventTypeNormal, reason, "Reconcile", "Scaled %s from %d to %d servers: %s.",
		d.scaling.direction(), d.scaling.from, d.scaling.to, d.scaling.why)
}

// writeStatus writes the status if it differs, and then emits events for changed conditions. Counts
// alone are written at most every countsInterval.
func (r *Reconciler) writeStatus(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	status v1alpha1.CustomerSupportEnvStatus, m *memory) error {
	now := r.clock.Now()
	if equality.Semantic.DeepEqual(env.Status, status) || onlyCountsDiffer(env.Status, status) &&
		now.Sub(m.written) < countsInterval {
		return nil
	}
	updated := env.DeepCopy()
	updated.Status = status
	if err := r.client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	m.written = now
	for _, c := range transitions(env.Status.Conditions, status.Conditions) {
		r.recorder.Eventf(env, nil, eventType(c), c.Reason, "Reconcile", "%s", pods.Clip(c.Message, pods.MaxNote))
	}
	return nil
}
