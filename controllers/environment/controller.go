// Package environment turns a CustomerSupportEnv into a pool of environment servers, and tells in
// its status how the pool fares.
//
// One pass reads everything into a snapshot, decides with pure functions over it, and writes last:
// what differs of the pool's objects, then the status. A Deployment is the engine: rollouts, surge
// and progress deadlines are its own. What the servers say of themselves (sessions, episodes,
// digests) is polled from their /stats, for nothing in the cluster tells when it changes.
//
// The pool's objects are applied by server-side apply, and only when the object that exists doesn't
// hold all that is wanted: a pool at rest costs reads alone, and a change that somebody made by
// hand is put right.
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
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/stats"
)

const (
	// fieldOwner owns the fields that are applied, whichever replica or version of the operator
	// applies them.
	fieldOwner = client.FieldOwner("csenv-environment")
	// pollInterval is how often a pool's servers are asked for their statistics. Up to pollJitter
	// of it is added, so that pools spread out.
	pollInterval = 15 * time.Second
	// scalePollInterval is that of a pool that autoscaling has to keep up with: a burst is answered
	// within ten seconds.
	scalePollInterval = 5 * time.Second
	pollJitter        = 0.2
	// countsInterval is how often the status is written at most when nothing in it differs but the
	// counts of sessions and episodes.
	countsInterval = 15 * time.Second
	// pools are reconciled side by side, for a pass waits on the network while it polls, and for
	// seconds where a network policy swallows the question. All of them together ask no more than
	// concurrentPools * statsInFlight servers at a time.
	concurrentPools = 16
)

// Reconciler keeps pools as their CustomerSupportEnvs want them.
type Reconciler struct {
	client   client.Client
	live     client.Reader // past the cache, which holds only objects that carry our labels
	recorder events.EventRecorder
	stats    statsReader
	clock    clock.PassiveClock
	entropy  io.Reader // of ledger keys
	image    string    // of pools whose spec names none
	memories memories
	metrics  *poolMetrics
	// namespace is the operator's own, whose traffic a pool's NetworkPolicy admits.
	namespace string
}

// Options are what the operator gives its pools.
type Options struct {
	// Image is run by pools whose spec names none.
	Image string
	// Namespace is the operator's own. Without it, the operator runs outside of the cluster, and
	// managed NetworkPolicies admit everybody to the port that it reads statistics from.
	Namespace string
}

// New returns a reconciler of the manager's cluster.
func New(mgr ctrl.Manager, o Options) *Reconciler {
	return &Reconciler{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		recorder:  mgr.GetEventRecorder("csenv"),
		stats:     stats.NewReader(),
		clock:     clock.RealClock{},
		metrics:   newPoolMetrics(),
		entropy:   rand.Reader,
		image:     o.Image,
		namespace: o.Namespace,
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
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager has the manager reconcile a pool when its spec, one of its objects or one of its
// pods changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for _, c := range append(r.metrics.collectors(), newCollector(mgr.GetClient())) {
		if err := metrics.Registry.Register(c); err != nil {
			return fmt.Errorf("registering the pools' metrics: %w", err)
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.EvaluationRun{}, poolNameField,
		poolName); err != nil {
		return fmt.Errorf("indexing runs by their pool: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("environment").
		// Our own status writes wake nobody.
		For(&v1alpha1.CustomerSupportEnv{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&v1alpha1.EvaluationRun{}, handler.EnqueueRequestsFromMapFunc(poolOfRun),
			builder.WithPredicates(beginsToWait())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentPools}).
		Complete(r)
}

// poolOfPod finds a pod's pool by its labels: between the two stand the Deployment and a
// ReplicaSet.
func poolOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.LabelComponent] != v1alpha1.ComponentEnvServer || labels[v1alpha1.LabelEnvironment] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(),
		Name: labels[v1alpha1.LabelEnvironment]}}}
}

// Reconcile brings one pool a step nearer to its spec and its status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// 1. A pool that is gone or going needs nothing: its objects have it as their owner and go
	//    with it.
	env := &v1alpha1.CustomerSupportEnv{}
	err := r.client.Get(ctx, req.NamespacedName, env)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the pool: %w", err)
	}
	if apierrors.IsNotFound(err) || !env.DeletionTimestamp.IsZero() {
		r.memories.forget(req.NamespacedName)
		r.metrics.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	memory := r.memories.of(env)

	// 2. The ledger key comes first: the servers start with it, and the status is the only place
	//    that remembers its public half.
	if err := r.ensureKey(ctx, env); err != nil {
		return pods.IgnoreExpected(err)
	}

	// 3. Read everything.
	snap, err := r.takeSnapshot(ctx, env)
	if err != nil {
		return ctrl.Result{}, err
	}

	// 4. Count what has happened to the servers since the last pass, and tell of those that went.
	r.reportTerminated(env, memory)
	memory.observe(snap, r.metrics)
	r.metrics.show(snap)

	// 5. Decide how many servers there are to be and what they are to play, and apply what
	//    differs. A refusal goes into the status as well: a user sees that, but not our log.
	d := decide(snap, memory)
	markErr := r.annotate(ctx, env.Namespace, marks(d, memory))
	if markErr != nil && needsCosts(d) {
		d.hold()
	}
	steps := changes(d)
	d.applying = d.applying || len(steps) > 0
	d.applyErr = errors.Join(markErr, r.apply(ctx, steps))
	r.announceScaling(d, memory)
	r.announcePacks(d)

	// 6. Tell what was seen, then what has changed since the last time.
	if err := r.writeStatus(ctx, env, computeStatus(d), memory); err != nil {
		return pods.IgnoreExpected(errors.Join(d.applyErr, err))
	}

	// 7. Try again soon, with a growing delay, where a write failed. Otherwise come back for the
	//    statistics.
	if d.applyErr != nil {
		return ctrl.Result{}, d.applyErr
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(pollEvery(d), pollJitter)}, nil
}

// pollEvery is short for pools whose number of servers depends on what they say.
func pollEvery(d decision) time.Duration {
	if d.env.Spec.Autoscaling != nil || d.held {
		return scalePollInterval
	}
	return pollInterval
}

// announceScaling tells of another number of servers once the API server has it, and not again
// while the cache hasn't.
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
	reason, word := v1alpha1.ReasonScaledUp, "up"
	if d.scaling.to < d.scaling.from {
		reason, word = v1alpha1.ReasonScaledDown, "down"
	}
	r.recorder.Eventf(d.env, nil, corev1.EventTypeNormal, reason, "Reconcile", "Scaled %s from %d to %d servers: %s.",
		word, d.scaling.from, d.scaling.to, d.scaling.why)
}

// writeStatus writes the status if it differs, guarded by the resource version, and then announces
// what changed. Counts change all the time in a pool that is played: alone they are written every
// countsInterval at most.
func (r *Reconciler) writeStatus(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	status v1alpha1.CustomerSupportEnvStatus, m *memory) error {
	now := r.clock.Now()
	if equality.Semantic.DeepEqual(env.Status, status) || onlyCountsDiffer(env.Status, status) &&
		now.Sub(m.written) < countsInterval {
		return nil
	}
	before := env.Status.Conditions
	updated := env.DeepCopy()
	updated.Status = status
	if err := r.client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	m.written = now
	for _, t := range transitions(before, status.Conditions) {
		r.recorder.Eventf(env, nil, t.eventType(), t.Reason, "Reconcile", "%s", t.note())
	}
	return nil
}
