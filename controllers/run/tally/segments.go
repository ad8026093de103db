package tally

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/stats"
	"github.com/csenv/csenv/envserver/score"
)

// mostActive bounds the active episodes that are accepted from one server. It is the maximum of
// spec.sessions.perPod.
const mostActive = 100_000

// ReadGoal is the number of episodes that a run collects, 0 for no limit.
func ReadGoal(run *v1alpha1.EvaluationRun) int64 {
	return ptr.Deref(ptr.Deref(run.Spec.Agent.External, v1alpha1.ExternalAgentSpec{}).Episodes, 0)
}

// Collection is the result of the servers' replies.
type Collection struct {
	run     *v1alpha1.EvaluationRun
	key     ed25519.PublicKey
	Sums    *score.Ledger
	Servers []v1alpha1.RolloutServer // ordered by pod
	Counted []*score.Ledger          // of the segments that were added to the sums
	Refused []Refusal

	// Errored, Dropped and Forked are numbers of episodes in those segments. Missing is the number
	// of segments that another client acknowledged or had sealed. It doesn't include those before
	// a server's first, which may belong to an earlier run of the same name.
	Errored, Dropped, Forked, Missing int64
	Active                            int64

	Silent   int    // servers that didn't reply, or with an error
	Refusing *Reply // the first reply with an error
	Awaited  bool   // a draining server without active episodes waits for an acknowledgement
	Err      error  // the status can't be read
}

// CollectSegments adds the servers' segments to the sums of the status.
// The numbers of servers that are gone are forgotten.
func CollectSegments(run *v1alpha1.EvaluationRun, replies []Reply, gone []string) *Collection {
	sums, key, err := ReadCollected(run)
	if err != nil {
		return &Collection{Err: err}
	}
	c := &Collection{run: run, key: key, Sums: sums, Servers: slices.Clone(run.Status.Rollouts.Servers)}
	for _, reply := range replies {
		c.count(reply)
	}
	c.Servers = slices.DeleteFunc(c.Servers, func(server v1alpha1.RolloutServer) bool {
		return slices.Contains(gone, server.Pod)
	})
	return c
}

// BoundCollected is an upper bound of the episodes that CollectSegments finds: it verifies nothing.
func BoundCollected(run *v1alpha1.EvaluationRun, replies []Reply) int64 {
	before := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
	most := before.Scored + before.Failed + before.Errored
	for _, reply := range replies {
		var ledger score.Ledger
		signed := reply.Segment.Ledger
		if reply.Err == nil && signed != nil && ledger.UnmarshalBinary(signed.Payload) == nil {
			most += max(0, ledger.Opened)
		}
	}
	return most
}

// ReachesGoal reports whether as many episodes are collected as the run asks for.
func (c *Collection) ReachesGoal() bool {
	return ReadGoal(c.run) > 0 && c.Sums.Opened >= ReadGoal(c.run)
}

// count adds a server's segment to the sums, if it is authentic and new.
func (c *Collection) count(h Reply) {
	if h.Err != nil {
		c.Silent++
		if _, answered := errors.AsType[*stats.StatusError](h.Err); (answered || errors.Is(h.Err, ErrOtherPod)) &&
			c.Refusing == nil {
			c.Refusing = &h
		}
		return
	}
	c.Active += min(max(0, h.Segment.Active), mostActive)
	if h.Segment.Ledger == nil {
		return
	}
	at, found := slices.BinarySearchFunc(c.Servers, h.Pod.Name,
		func(server v1alpha1.RolloutServer, pod string) int { return cmp.Compare(server.Pod, pod) })
	last, known := int64(0), found && c.Servers[at].Instance == h.Segment.Instance
	if known {
		last = c.Servers[at].Segment
	}
	ledger, err := h.Segment.Verify(string(c.run.UID), h.Pod.Name, c.key)
	if err == nil && h.Segment.Number <= last {
		err = fmt.Errorf("%w: %d, and %d is the last", errReplayed, h.Segment.Number, last)
	}
	// Any client of a server can have it seal a segment with another pass score. That isn't another
	// grader, and the segment's episodes may not be the run's own.
	stray := err == nil && ledger.PassScore != c.Sums.PassScore
	if err == nil && !stray {
		err = c.Sums.Merge(ledger)
	}
	if err != nil {
		c.Refused = append(c.Refused, Refusal{Pod: h.Pod, Reason: classifyRefusal(err), Err: err})
		return
	}
	now := v1alpha1.RolloutServer{Pod: h.Pod.Name, Instance: h.Segment.Instance, Segment: h.Segment.Number}
	if found {
		c.Servers[at] = now
	} else {
		c.Servers = slices.Insert(c.Servers, at, now)
	}
	if known {
		c.Missing += h.Segment.Number - last - 1
	}
	c.Awaited = c.Awaited || !h.Pod.DeletionTimestamp.IsZero() && h.Segment.Active == 0
	if stray {
		c.Missing++
		return
	}
	c.Counted = append(c.Counted, ledger)
	c.Errored += ledger.Opened - ledger.Scored - ledger.Failed
	c.Dropped += h.Segment.Dropped
	c.Forked += h.Segment.Forked
}

// SumCollected turns the sums of collected episodes into a run's.
func SumCollected(sums *score.Ledger) score.Accumulator {
	total := score.Accumulator{}
	total.Fold(sums)
	total.Errored = sums.Opened - sums.Scored - sums.Failed
	return total
}

// Reply is the answer of a server to the request for the segments of a run.
type Reply struct {
	Pod     *corev1.Pod
	Segment score.Segment
	Err     error
}

// ErrOtherPod means that the pod's address in the cache belongs to another pod by now. That pod's
// segments are counted when they are requested from it.
var ErrOtherPod = errors.New("its address is answered by pod")
