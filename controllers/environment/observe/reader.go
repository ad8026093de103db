// Package observe reads what a pass over a pool needs: the pool's objects, its pods, what its
// servers report, and the runs that wait for it. It writes nothing and decides nothing.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/polling"
	"github.com/csenv/csenv/envserver/score"
)

// Reader reads snapshots.
type Reader struct {
	Cache     client.Reader
	Live      client.Reader // past the cache, which holds only objects that carry our labels
	Stats     StatsReader
	Polls     *polling.Poller[Answers]
	Keys      keys.Source
	Clock     clock.PassiveClock
	Image     string // of pools whose spec names none
	Namespace string // of the operator, "" for one outside of the cluster
}

// Answers are what a poll returns, and the servers at its beginning.
type Answers struct {
	servers []corev1.Pod
	reports map[string]score.Report
}

// Begin returns a pool's snapshot before anything else is read.
func (r *Reader) Begin(env *v1alpha1.CustomerSupportEnv) snapshot.Snapshot {
	return snapshot.Snapshot{
		Pool: children.Pool{Env: env, Image: cmp.Or(env.Spec.Image, r.Image), Operator: r.Namespace},
		Live: map[children.ID]snapshot.Object{},
		Now:  r.Clock.Now(),
	}
}

// Read reads everything that a pass needs. Without the reports of the servers it isn't known, and
// another pass follows when they have been polled.
func (r *Reader) Read(ctx context.Context, env *v1alpha1.CustomerSupportEnv) (s snapshot.Snapshot,
	known bool, err error) {
	s = r.Begin(env)
	if err := r.readChildren(ctx, &s); err != nil {
		return s, false, err
	}
	if s.NeedsRelease() {
		s.Updating, s.UpdatingErr = listUpdating(ctx, r.Cache)
	}
	if s.Awaited, err = isAwaited(ctx, r.Cache, env); err != nil {
		return s, false, err
	}
	pool := client.ObjectKeyFromObject(env)
	if s.Pods, err = objects.ListServers(ctx, r.Cache, pool); err != nil {
		return s, false, err
	}
	servers, isNewest := s.Pods, s.SelectNewest(s.AnnotatedScenarios())
	secrets, err := r.Keys.Secrets(ctx, pool, env.Status.LedgerPublicKey)
	if err != nil {
		s.KeyErr = err      // the conditions report it
		return s, true, nil //nolint:nilerr // the pass goes on without the servers' reports
	}
	answer, known := r.Polls.Ask(ctx, polling.Question{Object: pool, Pool: pool}, func(ctx context.Context) Answers {
		return Answers{servers, readReports(ctx, r.Stats, secrets.Operations, servers, isNewest)}
	})
	s.Reports, s.Unasked = answer.reports, listUnasked(s.Pods, answer.servers)
	return s, known, nil
}

// isAwaited reports whether an EvaluationRun of any namespace keeps the pool from scaling to zero.
func isAwaited(ctx context.Context, reader client.Reader, env *v1alpha1.CustomerSupportEnv) (bool, error) {
	if a := env.Spec.Autoscaling; a == nil || ptr.Deref(a.MinReplicas, 1) > 0 {
		return false, nil
	}
	pool := client.ObjectKeyFromObject(env)
	list, err := objects.UnendedRuns(ctx, reader, pool)
	return slices.ContainsFunc(list, func(run v1alpha1.EvaluationRun) bool {
		return evaluation.PoolOf(&run) == pool && wantsToPlay(&run)
	}), err
}

// listUpdating finds the pools whose servers are being replaced. It reads that from the cluster,
// because an operator that starts must know the pools that another one updates.
func listUpdating(ctx context.Context, reader client.Reader) (map[types.NamespacedName]bool, error) {
	var list appsv1.DeploymentList
	if err := reader.List(ctx, &list, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
		v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer}); err != nil {
		return nil, fmt.Errorf("listing the Deployments of pools: %w", err)
	}
	found := map[types.NamespacedName]bool{}
	for i := range list.Items {
		d := &list.Items[i]
		c := snapshot.FindCondition(d, appsv1.DeploymentProgressing)
		stuck := c != nil && c.Status == corev1.ConditionFalse
		if !stuck && (!snapshot.IsObserved(d) || d.Status.UpdatedReplicas < d.Status.Replicas) {
			found[client.ObjectKeyFromObject(d)] = true
		}
	}
	return found, nil
}

// readChildren reads the objects that the pool may have.
func (r *Reader) readChildren(ctx context.Context, s *snapshot.Snapshot) error {
	for _, c := range children.BuildObjects(s.Pool, 0, "") {
		object, err := r.readChild(ctx, s.Env.Namespace, c.ID)
		switch {
		case err != nil:
			return fmt.Errorf("reading %s: %w", c.ID, err)
		case object == nil:
		case isOurs(s.Env, object):
			s.Live[c.ID] = object
		case c.Config == nil: // another owner's object, whose name the pool doesn't need
		case IsPredecessors(s.Env, object):
			s.Leaving = append(s.Leaving, c.ID)
		default:
			s.Taken = append(s.Taken, c.ID)
		}
	}
	return nil
}

// listUnasked returns the pods that weren't ready to be asked when a poll began.
func listUnasked(servers, asked []corev1.Pod) []types.UID {
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
func (r *Reader) readChild(ctx context.Context, namespace string, id children.ID) (client.Object, error) {
	key := client.ObjectKey{Namespace: namespace, Name: id.Name}
	for _, reader := range []client.Reader{r.Cache, r.Live} {
		object := newObject(id.Kind)
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
	case children.KindDeployment:
		return &appsv1.Deployment{}
	case children.KindBudget:
		return &policyv1.PodDisruptionBudget{}
	case children.KindNetworkPolicy:
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

// IsPredecessors reports whether the object belongs to a deleted pool of the same name. Its garbage
// collection triggers another pass.
func IsPredecessors(env *v1alpha1.CustomerSupportEnv, object client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID != env.UID && owner.Kind == "CustomerSupportEnv" && owner.Name == env.Name
}
