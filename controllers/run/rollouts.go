package run

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxServers bounds the servers that are asked for rollouts, and those in a status: twice as many as the largest pool has, for each may be replaced by another while it drains.
	maxServers = 2048
	// maxLookups bounds the pods of a pass that are looked for past the cache.
	maxLookups = 64
)

// handover is what a server of the pool answered when it was asked for rollouts.
type handover struct {
	pod     *corev1.Pod
	segment score.Segment
	err     error
}

// readRollouts asks the pool's servers for what trainers have played for the run since it was last asked, and tells them what the status, as it was read, has of that. Servers that are full or
// draining are asked too, and those of a pool that is being deleted.
func (r *Reconciler) readRollouts(ctx context.Context, s *snapshot) error {
	if s.run.Status.Rollouts == nil || s.revoked || suspended(s.run) {
		return nil
	}
	sums, _, err := collected(s.run)
	if err != nil {
		return nil //nolint:nilerr // the decision tells it
	}
	pods, err := r.servers(ctx, poolKeyOf(s.run))
	if err != nil {
		return err
	}
	known := map[string]v1alpha1.RolloutServer{}
	for _, server := range s.run.Status.Rollouts.Servers {
		known[server.Pod] = server
	}
	room := maxServers - len(known)
	there := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		_, isKnown := known[pod.Name]
		there[pod.Name] = pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
		if !serves(pod) || !isKnown && room == 0 {
			continue
		}
		if !isKnown {
			room--
		}
		s.handovers = append(s.handovers, handover{pod: pod})
	}
	r.ask(ctx, s.handovers, func(pod string) score.Collection {
		last := known[pod]
		return score.Collection{Tag: s.run.Status.Rollouts.Tag, Run: string(s.run.UID), PassScore: sums.PassScore, Instance: last.Instance, Ack: last.Segment}
	})
	return r.findGone(ctx, s, there)
}

// sayGoodbye tells the servers that a run has ended, so that none of them waits for it when it is told to go. One that doesn't hear it finds out by itself within a minute.
func (r *Reconciler) sayGoodbye(ctx context.Context, s snapshot) {
	r.ask(ctx, slices.Clone(s.handovers), func(string) score.Collection {
		return score.Collection{Tag: s.run.Status.Rollouts.Tag, Run: string(s.run.UID), Done: true}
	})
}

// ask asks several servers at a time, each its own question.
func (r *Reconciler) ask(ctx context.Context, servers []handover, question func(pod string) score.Collection) {
	ctx, cancel := context.WithTimeout(ctx, reportBudget)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(pollWidth)
	for i := range servers {
		h := &servers[i]
		group.Go(func() error {
			h.segment, h.err = r.pools.Rollouts(ctx, h.pod.Status.PodIP, question(h.pod.Name))
			return nil
		})
	}
	_ = group.Wait() // each has its own error
}

// findGone finds the servers whose numbers need no longer be remembered, for nobody can hand over their segments again. The cache alone can't tell: it may not show yet what the pass that wrote them
// saw.
func (r *Reconciler) findGone(ctx context.Context, s *snapshot, there map[string]bool) error {
	lookups := 0
	for _, server := range s.run.Status.Rollouts.Servers {
		alive, listed := there[server.Pod]
		if !listed {
			if lookups++; lookups > maxLookups {
				return nil
			}
			var pod corev1.Pod
			err := r.direct.Get(ctx, types.NamespacedName{Namespace: poolKeyOf(s.run).Namespace, Name: server.Pod}, &pod)
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
