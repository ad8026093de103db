package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxServers bounds the servers that are asked for rollouts, and those in a status: twice as
	// many as the largest pool has, for each may be replaced by another while it drains.
	maxServers = 2048
	// askTimeout is for one server's answer. So many are asked at a time that a pass comes to each
	// server of the largest pool although none answers.
	askTimeout = time.Second
	askWidth   = 128
	// maxLookups bounds the pods of a pass that are looked for past the cache.
	maxLookups = 64
)

// segmentReply is the answer of a server to the request for the segments of a run.
type segmentReply struct {
	pod     *corev1.Pod
	segment score.Segment
	err     error
}

// readSegments asks the pool's servers for what trainers have played for the run since it was last
// asked, and tells them what the status, as it was read, has of that. Servers that are full or
// draining are asked too, and those of a pool that is being deleted. What waits for a suspended run
// is asked for at its end alone.
func (r *Reconciler) readSegments(ctx context.Context, s *snapshot) error {
	if s.run.Status.Rollouts == nil || s.revoked || suspended(s.run) && !deadlineOver(*s) {
		return nil
	}
	sums, _, err := collectedBefore(s.run)
	if err != nil {
		return nil //nolint:nilerr // the decision tells it
	}
	list, err := pods.Servers(ctx, r.client, poolKeyOf(s.run))
	if err != nil {
		return err
	}
	known := map[string]v1alpha1.RolloutServer{}
	for _, server := range s.run.Status.Rollouts.Servers {
		known[server.Pod] = server
	}
	room := maxServers - len(known)
	there := map[string]bool{}
	for i := range list {
		pod := &list[i]
		_, isKnown := known[pod.Name]
		there[pod.Name] = !pods.HasEnded(pod)
		if !pods.IsRunning(pod) || !isKnown && room == 0 {
			continue
		}
		if !isKnown {
			room--
		}
		s.segments = append(s.segments, segmentReply{pod: pod})
	}
	r.ask(ctx, s.segments, func(pod string) score.CollectRequest {
		last := known[pod]
		return score.CollectRequest{Tag: s.run.Status.Rollouts.Tag, Run: string(s.run.UID), PassScore: sums.PassScore,
			Instance: last.Instance, Ack: last.Segment}
	})
	return r.findGone(ctx, s, there)
}

// confirmEnd fails with a conflict if a run is about to end by an old view of it. The guard of the
// status comes too late: the table of scenarios is written before, and the old view may be that of
// a run that has ended, whose servers have been told to wait for it no longer.
func (r *Reconciler) confirmEnd(ctx context.Context, s snapshot, next decision) error {
	if s.run.Status.Rollouts == nil || ended(s.run.Status.Conditions) || !ended(next.status.Conditions) {
		return nil
	}
	var run v1alpha1.EvaluationRun
	if err := r.direct.Get(ctx, client.ObjectKeyFromObject(s.run), &run); err != nil {
		return fmt.Errorf("reading the run that is about to end: %w", err)
	}
	if run.ResourceVersion == s.run.ResourceVersion {
		return nil
	}
	if ended(run.Status.Conditions) {
		r.notifyDone(ctx, s)
	}
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("evaluationruns").GroupResource(), run.Name,
		errors.New("the run has changed since it was read"))
}

// notifyDone notifies the servers that a run has ended, so that a draining server doesn't wait for
// it. A server that isn't reached stops waiting within a minute.
func (r *Reconciler) notifyDone(ctx context.Context, s snapshot) {
	r.ask(ctx, slices.Clone(s.segments), func(string) score.CollectRequest {
		return score.CollectRequest{Tag: s.run.Status.Rollouts.Tag, Run: string(s.run.UID), Done: true}
	})
}

// errOtherPod means that the address that the cache has of a pod is another's by now: what that one
// has is counted when it is asked itself.
var errOtherPod = errors.New("its address is answered by pod")

// ask asks many servers at a time, each its own question: those that are going first, for they are
// there no longer next time, and the others in an order that changes, should some keep the rest
// from being asked.
func (r *Reconciler) ask(ctx context.Context, servers []segmentReply, question func(pod string) score.CollectRequest) {
	ctx, cancel := context.WithTimeout(ctx, reportBudget)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(askWidth)
	order := rand.New(rand.NewPCG(uint64(r.clock.Now().UnixNano()), 0)).Perm(len(servers)) //nolint:gosec // no secret
	for _, going := range []bool{true, false} {
		for _, i := range order {
			h := &servers[i]
			if h.pod.DeletionTimestamp.IsZero() == going {
				continue
			}
			group.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, askTimeout)
				defer cancel()
				h.segment, h.err = r.pools.Rollouts(ctx, h.pod.Status.PodIP, question(h.pod.Name))
				if h.err == nil && h.segment.Pod != h.pod.Name {
					h.err = fmt.Errorf("%w %.64q", errOtherPod, h.segment.Pod)
				}
				return nil
			})
		}
	}
	_ = group.Wait() // each has its own error
}

// findGone finds the servers whose numbers need no longer be remembered, for nobody can hand over
// their segments again. The cache alone can't tell: it may not show yet what the pass that wrote
// them saw.
func (r *Reconciler) findGone(ctx context.Context, s *snapshot, there map[string]bool) error {
	lookups := 0
	for _, server := range s.run.Status.Rollouts.Servers {
		alive, listed := there[server.Pod]
		if !listed {
			if lookups++; lookups > maxLookups {
				return nil
			}
			var pod corev1.Pod
			err := r.direct.Get(ctx, types.NamespacedName{Namespace: poolKeyOf(s.run).Namespace, Name: server.Pod},
				&pod)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("looking for server %s: %w", server.Pod, err)
			}
			alive = err == nil
		}
		if !alive {
			s.gone = append(s.gone, server.Pod)
		}
	}
	return nil
}
