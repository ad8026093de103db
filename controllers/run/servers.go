package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxServers bounds the servers that segments are requested from, and those in a status: twice
	// as many as the largest pool has, since each may be replaced while it drains.
	maxServers = 2048
	// requestTimeout is for one server's reply. With requestWidth requests at a time, a pass
	// reaches every server of the largest pool even if no other replies.
	requestTimeout = time.Second
	requestWidth   = 128
	// maxLookups bounds the pods of a pass that are read past the cache.
	maxLookups = 64
)

// segmentReply is the answer of a server to the request for the segments of a run.
type segmentReply struct {
	pod     *corev1.Pod
	segment score.Segment
	err     error
}

// readSegments requests the run's next segments from the pool's servers, full and draining ones and
// those of a pool that is being deleted included. The request acknowledges the segments that the
// status contains. Segments of a suspended run are requested only at its end.
func (r *Reader) readSegments(ctx context.Context, s *snapshot) error {
	if s.run.Status.Rollouts == nil || s.revoked || isSuspended(s.run) && !deadlineOver(s.run, s.job, s.now) {
		return nil
	}
	sums, _, err := collectedBefore(s.run)
	if err != nil {
		return nil //nolint:nilerr // the decision reports it
	}
	list, err := objects.Servers(ctx, r.cache, evaluation.PoolOf(s.run))
	if err != nil {
		return err
	}
	known := map[string]v1alpha1.RolloutServer{}
	for _, server := range s.run.Status.Rollouts.Servers {
		known[server.Pod] = server
	}
	capacity := maxServers - len(known)
	alive := map[string]bool{}
	var replies []segmentReply
	for i := range list {
		pod := &list[i]
		_, isKnown := known[pod.Name]
		alive[pod.Name] = !pods.HasEnded(pod)
		if !pods.IsRunning(pod) || !isKnown && capacity == 0 {
			continue
		}
		if !isKnown {
			capacity--
		}
		replies = append(replies, segmentReply{pod: pod})
	}
	secrets, err := r.keys.Secrets(ctx, evaluation.PoolOf(s.run), s.run.Status.Rollouts.LedgerKey)
	if err != nil {
		// The key may be back before the servers go, so the run waits for them as for silent ones.
		for i := range replies {
			replies[i].err = err
		}
		s.segments = replies
		return r.findGone(ctx, s, alive)
	}
	s.token = secrets.Operations
	// A newer status acknowledges the segments that this one doesn't contain.
	answer, err := r.poll(ctx, s, s.run.ResourceVersion, func(ctx context.Context) polled {
		r.request(ctx, replies, secrets.Operations, func(pod string) score.CollectRequest {
			last := known[pod]
			return score.CollectRequest{Tag: s.run.Status.Rollouts.Tag, Run: string(s.run.UID),
				PassScore: sums.PassScore, Instance: last.Instance, Ack: last.Segment}
		})
		return polled{segments: replies}
	})
	if err != nil {
		return err
	}
	s.segments = answer.segments
	return r.findGone(ctx, s, alive)
}

// confirmEnd returns a conflict if a run is about to end by an old view of it. The guard of the
// status comes too late: the table of scenarios is written before it, and the old view may be of a
// run that has ended, whose servers no longer wait for it.
func (r *Reconciler) confirmEnd(ctx context.Context, s snapshot, next decision) error {
	ends := evaluation.Ended(next.status.Conditions) && !evaluation.Ended(s.run.Status.Conditions)
	if s.run.Status.Rollouts == nil || !ends {
		return nil
	}
	var run v1alpha1.EvaluationRun
	if err := r.direct.Get(ctx, client.ObjectKeyFromObject(s.run), &run); err != nil {
		return fmt.Errorf("reading the run that is about to end: %w", err)
	}
	if run.ResourceVersion == s.run.ResourceVersion {
		return nil
	}
	if evaluation.Ended(run.Status.Conditions) {
		r.reader.notifyDone(ctx, s)
	}
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("evaluationruns").GroupResource(), run.Name,
		errors.New("the run has changed since it was read"))
}

// notifyDone notifies the servers that a run has ended, so that a draining server doesn't wait for
// it. A server that isn't reached stops waiting within a minute.
func (r *Reader) notifyDone(ctx context.Context, s snapshot) {
	if len(s.segments) == 0 {
		return
	}
	r.polls.Do(ctx, evaluation.PoolOf(s.run), func(ctx context.Context) {
		r.request(ctx, slices.Clone(s.segments), s.token, func(string) score.CollectRequest {
			return score.CollectRequest{Tag: s.run.Status.Rollouts.Tag, Run: string(s.run.UID), Done: true}
		})
	})
}

// errOtherPod means that the pod's address in the cache belongs to another pod by now. That pod's
// segments are counted when they are requested from it.
var errOtherPod = errors.New("its address is answered by pod")

// request sends a request to each server: first to those that are being deleted, which may not
// exist at the next pass, and to the others in random order, so that slow ones don't always keep
// the same servers from their turn.
func (r *Reader) request(ctx context.Context, servers []segmentReply, token string,
	request func(pod string) score.CollectRequest) {
	var deleted, others []int
	random := rand.New(rand.NewPCG(uint64(r.clock.Now().UnixNano()), 0)) //nolint:gosec // no secret
	for _, i := range random.Perm(len(servers)) {
		if servers[i].pod.DeletionTimestamp.IsZero() {
			others = append(others, i)
		} else {
			deleted = append(deleted, i)
		}
	}
	forEach(ctx, append(deleted, others...), requestWidth, func(ctx context.Context, i int) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		h := &servers[i]
		h.segment, h.err = r.pools.Rollouts(ctx, h.pod.Status.PodIP, token, request(h.pod.Name))
		if h.err == nil && h.segment.Pod != h.pod.Name {
			h.err = fmt.Errorf("%w %.64q", errOtherPod, h.segment.Pod)
		}
	})
}

// findGone finds the servers whose segment numbers can be forgotten, because no server can send
// their segments again. A pod that the cache doesn't list is read past it: the cache may be older
// than the pass that wrote the number.
func (r *Reader) findGone(ctx context.Context, s *snapshot, alive map[string]bool) error {
	lookups := 0
	for _, server := range s.run.Status.Rollouts.Servers {
		lives, listed := alive[server.Pod]
		if !listed {
			if lookups++; lookups > maxLookups {
				return nil
			}
			var pod corev1.Pod
			name := types.NamespacedName{Namespace: evaluation.PoolOf(s.run).Namespace, Name: server.Pod}
			err := r.direct.Get(ctx, name, &pod)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("looking for server %s: %w", server.Pod, err)
			}
			lives = err == nil
		}
		if !lives {
			s.gone = append(s.gone, server.Pod)
		}
	}
	return nil
}
