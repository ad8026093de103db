package environment

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// memory is the state of a pool between passes. It is lost when the operator restarts: delays start
// again and metrics miss changes. Passes of a pool don't overlap, so only deleted needs a lock.
type memory struct {
	uid       types.UID
	history   history
	written   time.Time // when the status was last written
	scaled    string    // the last announced change of the number of servers
	heldSince time.Time // when a scale-down began to wait for a full server, zero if none waits
	observed  bool      // there was an earlier pass, whose servers are in servers
	servers   map[types.UID]serverMemory
	deleted   []*corev1.Pod // since the last pass
	// accepted identifies objects that admission changed when they were last applied (intended).
	accepted map[childID]string
	// metricsToken is when the Secret of the token for metrics was last found as intended, and
	// metricsKey the public key of that time.
	metricsToken time.Time
	metricsKey   string
}

// serverMemory is the state of a server between passes.
type serverMemory struct {
	wasReady  bool
	missed    bool      // it wasn't listed in the last pass
	idleSince time.Time // the zero time while it isn't known to be idle
	active    int64     // open sessions in its last report
	unjudged  int64     // judge failures in its last report
}

// maxDeleted bounds the deleted pods that are kept for the next pass.
const maxDeleted = 2000

// memories holds the memories of all pools.
type memories struct {
	mu    sync.Mutex
	pools map[types.NamespacedName]*memory
}

// of returns a pool's memory, an empty one for a new pool of a known name.
func (m *memories) of(env *v1alpha1.CustomerSupportEnv) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: env.Namespace, Name: env.Name}
	if known := m.pools[key]; known != nil && known.uid == env.UID {
		return known
	}
	if m.pools == nil {
		m.pools = map[types.NamespacedName]*memory{}
	}
	m.pools[key] = &memory{uid: env.UID}
	return m.pools[key]
}

func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pools, key)
}

// recordDeleted keeps a deleted pod until its pool's next pass.
func (m *memories) recordDeleted(key types.NamespacedName, pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pools[key]; known != nil && len(known.deleted) < maxDeleted {
		known.deleted = append(known.deleted, pod)
	}
}

// takeDeleted returns the pods that were deleted since the last pass.
func (m *memories) takeDeleted(key types.NamespacedName) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.pools[key]
	if known == nil {
		return nil
	}
	deleted := known.deleted
	known.deleted = nil
	return deleted
}

// updates bounds the pools whose servers are replaced at the same time because of another release
// of the operator. A nil one has no bound.
type updates struct {
	most    int
	mu      sync.Mutex
	updated map[types.NamespacedName]bool
}

func newUpdates(most int) *updates {
	return &updates{most: most, updated: map[types.NamespacedName]bool{}}
}

// postpone decides whether the pool's servers aren't replaced yet. They wait only if their template
// differs without a change of the spec or of the scenarios: another release of the operator made
// it. A pool keeps its place until its servers are replaced, or are found not to start.
func (u *updates) postpone(ctx context.Context, reader client.Reader, d *decision) error {
	deployment, pool := d.deployment(), types.NamespacedName{Namespace: d.env.Namespace, Name: d.env.Name}
	if u == nil || deployment == nil {
		return nil
	}
	if deployment.Spec.Template.Annotations[templateHash] == newestTemplate(*d) {
		if isRolledOut(deployment) || deadlineExceeded(d.snapshot) {
			u.end(pool)
		}
		return nil
	}
	if d.env.Generation != d.env.Status.ObservedGeneration || d.scenarios != annotatedScenarios(d.snapshot) {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	busy, err := updating(ctx, reader)
	if err != nil {
		d.postponed = true
		return err
	}
	maps.Copy(busy, u.updated) // the cache may not show them yet
	if !busy[pool] && len(busy) >= u.most {
		d.postponed = true
		return nil
	}
	u.updated[pool] = true
	return nil
}

// updating finds the pools whose servers are being replaced. It reads that from the cluster,
// because an operator that starts must know the pools that another one updates.
func updating(ctx context.Context, reader client.Reader) (map[types.NamespacedName]bool, error) {
	var list appsv1.DeploymentList
	if err := reader.List(ctx, &list, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
		v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer}); err != nil {
		return nil, fmt.Errorf("listing the Deployments of pools: %w", err)
	}
	found := map[types.NamespacedName]bool{}
	for i := range list.Items {
		d := &list.Items[i]
		c := deploymentCondition(d, appsv1.DeploymentProgressing)
		stuck := c != nil && c.Status == corev1.ConditionFalse
		if !stuck && (!observed(d) || d.Status.UpdatedReplicas < d.Status.Replicas) {
			found[client.ObjectKeyFromObject(d)] = true
		}
	}
	return found, nil
}

func newestTemplate(d decision) string {
	return podTemplate(d.snapshot, d.scenarios).Annotations[templateHash]
}

func isRolledOut(d *appsv1.Deployment) bool {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return observed(d) && d.Status.UpdatedReplicas == wanted && d.Status.Replicas == wanted
}

// end frees the place of a pool.
func (u *updates) end(pool types.NamespacedName) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.updated, pool)
}
