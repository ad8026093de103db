// Package environment reconciles CustomerSupportEnvs: it creates a pool of environment servers for
// each, and reports the pool's state in its status.
//
// A pass reads everything into a snapshot (observe), decides with pure functions (rules) that build
// the pool's objects (children), and then this package writes the changed objects and the status. A
// Deployment performs rolling updates. Sessions, episodes and digests are polled from the servers'
// /stats, because nothing in the cluster announces their changes.
//
// The pool's objects are applied by server-side apply, and only if the live object lacks an
// intended value. So a pool at rest needs no writes, and manual changes are reverted. An applied
// object that admission changes stays as admission made it.
package environment

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/csenv/csenv/controllers/environment/observe"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/controllers/stats"
	"github.com/csenv/csenv/envserver/score"
)

const (
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
	reader   *observe.Reader
	writer   writer
	secrets  keyKeeper
	events   announcer
	memories memories
	updates  *updates
	metrics  *poolMetrics
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
	source := objects.NewKeyReader(mgr.GetAPIReader())
	return &Reconciler{
		client: mgr.GetClient(),
		reader: &observe.Reader{
			Cache:     mgr.GetClient(),
			Live:      mgr.GetAPIReader(),
			Stats:     stats.NewReader(),
			Polls:     polling.New[observe.Answers](concurrentPolls),
			Keys:      source,
			Clock:     clock.RealClock{},
			Image:     o.Image,
			Namespace: o.Namespace,
		},
		writer: writer{mgr.GetClient()},
		secrets: keyKeeper{client: mgr.GetClient(), live: mgr.GetAPIReader(), keys: source, entropy: rand.Reader,
			check: source.Check},
		events:  announcer{mgr.GetEventRecorder("csenv")},
		updates: newUpdates(o.MaxUpdates),
		metrics: newPoolMetrics(),
	}
}

// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs,verbs=get;list;watch
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs/status,verbs=update
// +kubebuilder:rbac:groups=csenv.dev,resources=customersupportenvs/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=csenv.dev,resources=evaluationruns,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
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
		Watches(&corev1.Pod{}, r.handlePods()).
		Watches(&v1alpha1.EvaluationRun{}, handler.EnqueueRequestsFromMapFunc(observe.FindPoolOfRun),
			builder.WithPredicates(observe.SelectWaiting())).
		WatchesRawSource(r.reader.Polls.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentPools}).
		Complete(r)
}

// findPoolOfPod finds a pod's pool by its labels, because the pod's owner is a ReplicaSet.
func findPoolOfPod(_ context.Context, pod client.Object) []reconcile.Request {
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
		r.memories.forgetPool(req.NamespacedName)
		r.reader.Polls.Forget(req.NamespacedName)
		r.metrics.forgetPool(req.NamespacedName)
		r.updates.freePlace(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	memory := r.memories.memoryOf(env)

	// 2. Create the ledger key first, or its Secret again: the servers start with it, and only the
	// status stores its public half.
	keyErr := r.secrets.ensureKey(ctx, env, memory)
	if keyErr == nil {
		keyErr = r.secrets.restoreKey(ctx, env, memory, r.reader.Clock.Now())
	}
	if keyErr != nil && (env.Status.LedgerPublicKey == "" || apierrors.IsConflict(keyErr)) {
		return r.reportNoKey(ctx, env, memory, keyErr)
	}

	// 3. Read everything. While the servers are polled, the pass ends; the poller requests another.
	snapshot, known, err := r.reader.Read(ctx, env)
	if err != nil || !known {
		return ctrl.Result{}, err
	}
	r.reportTerminated(env, memory.decided)

	// 4. Decide the number of servers and their scenarios. Nothing changes the decision afterwards.
	d, decided := rules.DecidePool(rules.Input{Snapshot: snapshot, Memory: memory.decided,
		MayUpdate: r.updates.claimPlace(snapshot)})
	memory.decided = decided
	r.metrics.countChanges(env, d.Changes)
	r.metrics.showPool(snapshot)

	// 5. Write what differs. The status shows refusals too, because users can't read the operator's
	// log.
	written, accepted := r.writer.writeDecision(ctx, d, memory.accepted)
	memory.accepted = accepted
	written.Err = errors.Join(keyErr, written.Err, r.secrets.keepMetricsToken(ctx, snapshot, memory))
	r.reportDecision(d, written, memory)

	// 6. Write the status.
	if err := r.writeStatus(ctx, env, rules.ComputeStatus(d, written), memory); err != nil {
		return objects.IgnoreExpected(errors.Join(written.Err, err))
	}

	// 7. If a write failed, retry with a growing delay. Otherwise return for the next poll.
	if written.Err != nil {
		return ctrl.Result{}, written.Err
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(choosePollInterval(d), pollJitter)}, nil
}

// reportNoKey ends a pass that couldn't create the pool's first key. The status shows why, because
// users can't read the operator's log.
func (r *Reconciler) reportNoKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv, m *memory,
	cause error) (ctrl.Result, error) {
	if result, err := objects.IgnoreExpected(cause); err == nil {
		return result, nil
	}
	d, _ := rules.DecidePool(rules.Input{Snapshot: r.reader.Begin(env), Memory: m.decided})
	status := rules.ComputeStatus(d, rules.Written{Err: cause})
	return ctrl.Result{}, errors.Join(cause, r.writeStatus(ctx, env, status, m))
}

// choosePollInterval returns the time to the next poll, shorter if the number of servers depends on
// it.
func choosePollInterval(d rules.Decision) time.Duration {
	if d.Env.Spec.Autoscaling != nil || d.Held {
		return scalePollInterval
	}
	return pollInterval
}

// reportTerminated counts the servers that have terminated, and says what happened to their
// sessions.
func (r *Reconciler) reportTerminated(env *v1alpha1.CustomerSupportEnv, last rules.Memory) {
	for _, pod := range r.memories.takeDeleted(client.ObjectKeyFromObject(env)) {
		report, found := readDrainReport(pod)
		lost := int64(0)
		if found {
			r.metrics.drains.WithLabelValues(env.Namespace, env.Name).Observe(float64(report.Seconds))
		} else {
			lost = last.ActiveSessions(pod.UID)
		}
		r.metrics.cut.WithLabelValues(env.Namespace, env.Name).Add(float64(report.Cut + lost))
		r.events.announceTerminated(env, pod.Name, report, lost)
	}
}

// readDrainReport reads the drain report from the pod's termination message. Its numbers are
// bounded, because users choose the image.
func readDrainReport(pod *corev1.Pod) (report score.DrainReport, found bool) {
	message := pods.FindTerminatedState(pod, pods.ServerContainer).Message
	if json.Unmarshal([]byte(message), &report) != nil {
		return score.DrainReport{}, false
	}
	report.Sessions = min(max(0, report.Sessions), snapshot.MaxSessions)
	report.Cut = min(max(0, report.Cut), snapshot.MaxSessions)
	report.Seconds = min(max(0, report.Seconds), int64((7 * 24 * time.Hour).Seconds()))
	return report, true
}

// reportDecision says once for each change what was applied.
func (r *Reconciler) reportDecision(d rules.Decision, w rules.Written, m *memory) {
	if w.Err != nil {
		return
	}
	if d.Scaling.Reason != "" && m.scaled != identifyScaling(d) {
		m.scaled = identifyScaling(d)
		r.metrics.countScaling(d.Env, d.Scaling)
		r.events.announceScaling(d.Env, d.Scaling)
	}
	if d.ChangesPacks() {
		r.events.announcePacks(d.Env, d.Scenarios)
	}
}

// writeStatus writes the status if it differs, and then emits events for changed conditions. Counts
// alone are written at most every countsInterval.
func (r *Reconciler) writeStatus(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	status v1alpha1.CustomerSupportEnvStatus, m *memory) error {
	logRules(ctx, status.Conditions)
	now := r.reader.Clock.Now()
	if equality.Semantic.DeepEqual(env.Status, status) || onlyCountsDiffer(env.Status, status) &&
		now.Sub(m.written) < countsInterval {
		return nil
	}
	if err := r.writer.writeStatus(ctx, env, status); err != nil {
		return err
	}
	m.written = now
	r.events.announceConditions(env, status.Conditions)
	return nil
}

// logRules logs which rules held in the pass: the reasons of the conditions.
func logRules(ctx context.Context, conditions []metav1.Condition) {
	log := logf.FromContext(ctx).V(1)
	if !log.Enabled() {
		return
	}
	held := make([]any, 0, 2*len(conditions))
	for _, c := range conditions {
		held = append(held, c.Type, c.Reason)
	}
	log.Info("Rules that hold for the pool", held...)
}

// onlyCountsDiffer reports whether nothing but the counts of sessions and episodes differs.
func onlyCountsDiffer(a, b v1alpha1.CustomerSupportEnvStatus) bool {
	if a.Sessions == nil || b.Sessions == nil || a.Episodes == nil || b.Episodes == nil {
		return false
	}
	b.Sessions, b.Episodes = a.Sessions, a.Episodes
	return equality.Semantic.DeepEqual(a, b)
}

// handlePods enqueues a pod's pool. It stores deleted pods, because their termination messages
// can't be read later.
func (r *Reconciler) handlePods() handler.EventHandler {
	enqueue := handler.EnqueueRequestsFromMapFunc(findPoolOfPod)
	return handler.Funcs{
		CreateFunc: enqueue.Create, UpdateFunc: enqueue.Update, GenericFunc: enqueue.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if pod, isPod := e.Object.(*corev1.Pod); isPod {
				for _, pool := range findPoolOfPod(ctx, pod) {
					r.memories.recordDeleted(pool.NamespacedName, pod)
				}
			}
			enqueue.Delete(ctx, e, queue)
		},
	}
}
