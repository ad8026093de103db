package environment

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/envserver/score"
)

// snapshot is everything that a pass has read. It isn't changed afterwards.
type snapshot struct {
	env      *v1alpha1.CustomerSupportEnv
	image    string                    // of the servers
	operator string                    // namespace of the operator, "" for one outside of the cluster
	live     map[childID]client.Object // the pool's objects that exist
	taken    []childID                 // names of objects of other owners
	leaving  []childID                 // names of objects of a deleted pool of the same name
	pods     []corev1.Pod              // ordered by name
	reports  map[string]score.Report   // by name of the pod; one that couldn't be read is absent
	unasked  []types.UID               // of pods that became ready after the reports were read
	keyErr   error                     // why the ledger key can't be read, without which no server answers
	awaited  bool                      // an EvaluationRun needs the pool
	now      time.Time
}

// decision is the result of a pass over a snapshot.
type decision struct {
	snapshot
	scaling   scaling
	scenarios string // digest of the packs for which the servers were last replaced, "" if they never were
	held      bool   // a smaller number of servers waits
	applying  bool   // an object differed from its intended state
	postponed bool   // the Deployment of another release of the operator stays for now
	applyErr  error  // refusals of the API server
}

// decide chooses the number of servers and the scenarios that they play.
func decide(s snapshot, m *memory) decision {
	d := decision{snapshot: s, scenarios: nextScenarios(s)}
	d.scaling, m.history = decideReplicas(s, m.history)
	if m.holdBack(d) {
		d.hold()
	}
	return d
}

// deployment returns the pool's Deployment, or nil.
func (s snapshot) deployment() *appsv1.Deployment {
	d, _ := s.live[childID{kindDeployment, s.env.Name}].(*appsv1.Deployment)
	return d
}

// takeSnapshot reads everything that a pass needs. Without the reports of the servers it isn't
// known, and another pass follows when they have been polled.
func (r *Reconciler) takeSnapshot(ctx context.Context, env *v1alpha1.CustomerSupportEnv) (s snapshot, known bool,
	err error) {
	s = snapshot{
		env:      env,
		image:    cmp.Or(env.Spec.Image, r.image),
		operator: r.namespace,
		live:     map[childID]client.Object{},
		now:      r.clock.Now(),
	}
	for _, c := range children(decision{snapshot: s}) {
		object, err := r.readChild(ctx, env.Namespace, c.id)
		switch {
		case err != nil:
			return s, false, fmt.Errorf("reading %s: %w", c.id, err)
		case object == nil:
		case isOurs(env, object):
			s.live[c.id] = object
		case c.config == nil: // another owner's object, whose name the pool doesn't need
		case isPredecessors(env, object):
			s.leaving = append(s.leaving, c.id)
		default:
			s.taken = append(s.taken, c.id)
		}
	}
	if s.awaited, err = r.isAwaited(ctx, env); err != nil {
		return s, false, err
	}
	if s.pods, err = objects.Servers(ctx, r.client, client.ObjectKeyFromObject(env)); err != nil {
		return s, false, err
	}
	servers, isNewest := s.pods, describes(s, annotatedScenarios(s))
	pool := client.ObjectKeyFromObject(env)
	secrets, err := r.keys.Secrets(ctx, pool, env.Status.LedgerPublicKey)
	if err != nil {
		s.keyErr = err      // the conditions report it
		return s, true, nil //nolint:nilerr // the pass goes on without the servers' reports
	}
	answer, known := r.polls.Ask(ctx, polling.Question{Object: pool, Pool: pool}, func(ctx context.Context) polled {
		return polled{servers, readReports(ctx, r.stats, secrets.Operations, servers, isNewest)}
	})
	s.reports, s.unasked = answer.reports, unaskedOf(s.pods, answer.servers)
	return s, known, nil
}

// polled is what a poll returns, and the servers at its beginning.
type polled struct {
	servers []corev1.Pod
	reports map[string]score.Report
}

// unaskedOf returns the pods that weren't ready to be asked when a poll began.
func unaskedOf(servers, asked []corev1.Pod) []types.UID {
	before := map[types.UID]bool{}
	for i := range asked {
		before[asked[i].UID] = pods.IsReady(&asked[i])
	}
	var unasked []types.UID
	for i := range servers {
		if !before[servers[i].UID] {
			unasked = append(unasked, servers[i].UID)
		}
	}
	return unasked
}

// readChild reads past the cache if an object isn't cached: objects of other owners lack our
// labels, and a forced apply would overwrite them.
func (r *Reconciler) readChild(ctx context.Context, namespace string, id childID) (client.Object, error) {
	key := client.ObjectKey{Namespace: namespace, Name: id.name}
	for _, reader := range []client.Reader{r.client, r.live} {
		object := newObject(id.kind)
		err := reader.Get(ctx, key, object)
		if err == nil {
			return object, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, nil
}

func newObject(kind string) client.Object {
	switch kind {
	case kindDeployment:
		return &appsv1.Deployment{}
	case kindBudget:
		return &policyv1.PodDisruptionBudget{}
	case kindNetworkPolicy:
		return &networkingv1.NetworkPolicy{}
	default:
		return &corev1.Service{}
	}
}

// isOurs reports whether the pool may apply the object: it is its own, or an earlier pool of the
// name left it without an owner.
func isOurs(env *v1alpha1.CustomerSupportEnv, object client.Object) bool {
	if metav1.GetControllerOf(object) == nil {
		return object.GetLabels()[v1alpha1.LabelEnvironment] == env.Name
	}
	return metav1.IsControlledBy(object, env)
}

// isPredecessors reports whether the object belongs to a deleted pool of the same name. Its garbage
// collection triggers another pass.
func isPredecessors(env *v1alpha1.CustomerSupportEnv, object client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID != env.UID && owner.Kind == "CustomerSupportEnv" && owner.Name == env.Name
}
