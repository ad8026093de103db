package observe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
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

// readSegments requests the run's next segments from the pool's servers, also from full and
// draining ones and while the pool is being deleted. The request acknowledges the segments that the
// status contains. Segments of a suspended run are requested only at its end.
func (r *Reader) readSegments(ctx context.Context, s *snapshot.Snapshot) error {
	if s.Run.Status.Rollouts == nil || s.Revoked || evaluation.IsSuspended(s.Run) && !s.IsDeadlineOver() {
		return nil
	}
	sums, _, err := tally.ReadCollected(s.Run)
	if err != nil {
		return nil //nolint:nilerr // the decision reports it
	}
	list, err := objects.ListServers(ctx, r.Cache, evaluation.PoolOf(s.Run))
	if err != nil {
		return err
	}
	known := map[string]v1alpha1.RolloutServer{}
	for _, server := range s.Run.Status.Rollouts.Servers {
		known[server.Pod] = server
	}
	capacity := maxServers - len(known)
	alive := map[string]bool{}
	var replies []tally.Reply
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
		replies = append(replies, tally.Reply{Pod: pod})
	}
	secrets, keyErr := r.Keys.Secrets(ctx, evaluation.PoolOf(s.Run), s.Run.Status.Rollouts.LedgerKey)
	if keyErr == nil {
		s.Token = secrets.Operations
	}
	// A newer status acknowledges the segments that this one doesn't contain.
	version, changed := s.Run.ResourceVersion, false
	if what, _, _ := s.FindChange(); what != "" && s.PoolState() == snapshot.PoolReady {
		version, changed = version+" "+s.Env.ResourceVersion, true
	}
	answer, err := r.pollServers(ctx, s, version, func(ctx context.Context) (p Polled) {
		if changed {
			p = r.pollReport(ctx, s)
		}
		p.segments = replies
		if keyErr != nil {
			// The key may be back before the servers go: the run waits for them as for silent ones.
			for i := range replies {
				replies[i].Err = keyErr
			}
			return p
		}
		r.requestAll(ctx, replies, secrets.Operations, func(pod string) score.CollectRequest {
			last := known[pod]
			return score.CollectRequest{Tag: s.Run.Status.Rollouts.Tag, Run: string(s.Run.UID),
				PassScore: sums.PassScore, Instance: last.Instance, Ack: last.Segment}
		})
		return p
	})
	if err != nil {
		return err
	}
	s.Report, s.Segments = answer.report, answer.segments
	s.Lost = r.heard.noteReplies(s.Run.UID, s.Segments, alive, s.Now)
	return r.findGone(ctx, s, alive)
}

// ForgetServers forgets what the servers of a run have replied: those that its status has as lost,
// or all of a run that has ended.
func (r *Reader) ForgetServers(s snapshot.Snapshot, ended bool) {
	r.heard.forgetServers(s.Run.UID, s.Lost, ended)
}

// NotifyDone notifies the servers that a run has ended, so that a draining server doesn't wait for
// it. A server that isn't reached stops waiting within a minute.
func (r *Reader) NotifyDone(ctx context.Context, s snapshot.Snapshot) {
	if len(s.Segments) == 0 {
		return
	}
	r.Polls.Do(ctx, evaluation.PoolOf(s.Run), func(ctx context.Context) {
		r.requestAll(ctx, slices.Clone(s.Segments), s.Token, func(string) score.CollectRequest {
			return score.CollectRequest{Tag: s.Run.Status.Rollouts.Tag, Run: string(s.Run.UID), Done: true}
		})
	})
}

// requestAll sends a request to each server: first to those that are being deleted, which may not
// exist at the next pass, and to the others in random order, so that slow ones don't always keep
// the same servers from their turn.
func (r *Reader) requestAll(ctx context.Context, servers []tally.Reply, token string,
	request func(pod string) score.CollectRequest) {
	var deleted, others []int
	random := rand.New(rand.NewPCG(uint64(r.Clock.Now().UnixNano()), 0)) //nolint:gosec // no secret
	for _, i := range random.Perm(len(servers)) {
		if servers[i].Pod.DeletionTimestamp.IsZero() {
			others = append(others, i)
		} else {
			deleted = append(deleted, i)
		}
	}
	forEach(ctx, append(deleted, others...), requestWidth, func(ctx context.Context, i int) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		h := &servers[i]
		h.Segment, h.Err = r.Pools.Rollouts(ctx, h.Pod.Status.PodIP, token, request(h.Pod.Name))
		if h.Err == nil && h.Segment.Pod != h.Pod.Name {
			h.Err = fmt.Errorf("%w %.64q", tally.ErrOtherPod, h.Segment.Pod)
		}
	})
}

// findGone finds the servers whose segment numbers can be forgotten, because no server can send
// their segments again. A pod that the cache doesn't list is read past it: the cache may be older
// than the pass that wrote the number.
func (r *Reader) findGone(ctx context.Context, s *snapshot.Snapshot, alive map[string]bool) error {
	lookups := 0
	for _, server := range s.Run.Status.Rollouts.Servers {
		lives, listed := alive[server.Pod]
		if !listed {
			if lookups++; lookups > maxLookups {
				return nil
			}
			var pod corev1.Pod
			name := types.NamespacedName{Namespace: evaluation.PoolOf(s.Run).Namespace, Name: server.Pod}
			err := r.Direct.Get(ctx, name, &pod)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("looking for server %s: %w", server.Pod, err)
			}
			lives = err == nil
		}
		if !lives {
			s.Gone = append(s.Gone, server.Pod)
		}
	}
	return nil
}
