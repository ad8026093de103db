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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
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

// deployment returns the pool's Deployment, nil if there is none.
func (s snapshot) deployment() *appsv1.Deployment {
	d, _ := s.live[childID{kindDeployment, s.env.Name}].(*appsv1.Deployment)
	return d
}

// takeSnapshot reads everything that a pass needs.
func (r *Reconciler) takeSnapshot(ctx context.Context, env *v1alpha1.CustomerSupportEnv) (snapshot, error) {
	s := snapshot{
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
			return snapshot{}, fmt.Errorf("reading %s: %w", c.id, err)
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
	var err error
	if s.awaited, err = r.isAwaited(ctx, env); err != nil {
		return snapshot{}, err
	}
	servers, err := pods.Servers(ctx, r.client, client.ObjectKeyFromObject(env))
	if err != nil {
		return snapshot{}, err
	}
	s.pods = servers
	s.reports = readReports(ctx, r.stats, servers, describes(s, annotatedScenarios(s)))
	return s, nil
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
