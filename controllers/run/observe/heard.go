package observe

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// heard is what the servers of External runs have last replied. It may be lost at any time: then
// nothing is said of servers that are gone.
type heard struct {
	mu   sync.Mutex
	runs map[types.UID]map[string]lastReply // by pod
}

type lastReply struct {
	snapshot.LostServer
	instance string
	told     bool // to end: it drains, and what has ended is collected first
}

// noteReplies takes note of the replies to a run, and returns the servers that are lost, because
// alive doesn't list them or because they have restarted. It returns them until they are forgotten.
func (h *heard) noteReplies(run types.UID, replies []tally.Reply, alive map[string]bool,
	now time.Time) []snapshot.LostServer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[types.UID]map[string]lastReply{}
	}
	known := h.runs[run]
	if known == nil {
		known = map[string]lastReply{}
		h.runs[run] = known
	}
	var lost []snapshot.LostServer
	for _, reply := range replies {
		if reply.Err != nil {
			continue
		}
		last := known[reply.Pod.Name]
		if restarted := last.instance != "" && last.instance != reply.Segment.Instance; restarted && last.Active > 0 {
			lost = append(lost, last.LostServer)
			continue
		}
		var ledger score.Ledger
		if signed := reply.Segment.Ledger; signed != nil && ledger.UnmarshalBinary(signed.Payload) == nil {
			last.Largest = max(last.Largest, ledger.Opened)
		}
		last.Pod, last.Active, last.Seen = reply.Pod.Name, max(0, reply.Segment.Active), now
		last.instance, last.told = reply.Segment.Instance, reply.Pod.DeletionTimestamp != nil
		known[reply.Pod.Name] = last
	}
	for pod, last := range known {
		switch {
		case alive[pod]:
		case last.Active > 0 && !last.told:
			lost = append(lost, last.LostServer)
		default:
			delete(known, pod)
		}
	}
	slices.SortFunc(lost, func(a, b snapshot.LostServer) int { return strings.Compare(a.Pod, b.Pod) })
	return lost
}

// forgetServers deletes what the lost servers of a run reported, and a run that has ended.
func (h *heard) forgetServers(run types.UID, lost []snapshot.LostServer, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended {
		delete(h.runs, run)
	}
	maps.DeleteFunc(h.runs[run], func(pod string, _ lastReply) bool {
		return slices.ContainsFunc(lost, func(l snapshot.LostServer) bool { return l.Pod == pod })
	})
}
