package rules

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
)

// defaultFree is the default of spec.autoscaling.freeSessions.
const defaultFree = "20%"

// load summarises the sessions of a pool's servers.
type load struct {
	size    int64 // sessions that one server takes
	active  int64 // open sessions of the servers that stay and answered
	stay    int32 // servers that stay
	silent  int32 // servers that stay and run, but didn't answer
	idle    int32 // servers that stay without sessions, including starting ones
	unready int32 // idle servers that aren't ready
	// exposed are servers that stay, aren't ready and may have sessions: full ones, say. A
	// ReplicaSet removes servers that aren't ready before any other.
	exposed int32
	leaving int32 // terminating servers that still run
	lasting int64 // open sessions of terminating and draining servers
	unsure  bool  // a terminating server didn't answer
	awaited bool  // an EvaluationRun needs the pool
}

// serversFor returns the minimum number of servers for the sessions and the free ones. A pool with
// minReplicas 0 gets none while it isn't used.
func (l load) serversFor(a *v1alpha1.Autoscaling, sessions int64, isPlayed bool) int64 {
	if ptr.Deref(a.MinReplicas, 1) == 0 && !isPlayed {
		return 0
	}
	number, percent := parseFree(a)
	return max(1, divideUp(100*(sessions+number), l.size*(100-percent)))
}

// parseFree returns the sessions to keep free: a number, or a percentage of the capacity.
func parseFree(a *v1alpha1.Autoscaling) (number, percent int64) {
	free := ptr.Deref(a.FreeSessions, intstr.FromString(defaultFree))
	if free.Type == intstr.Int {
		return int64(max(0, free.IntVal)), 0
	}
	percent, err := strconv.ParseInt(strings.TrimSuffix(free.StrVal, "%"), 10, 64)
	if err != nil {
		// The schema admits only percentages.
		return 0, 0
	}
	return 0, min(max(0, percent), 99)
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }

// summariseLoad summarises the servers of a snapshot.
func summariseLoad(s snapshot.Snapshot) load {
	l := load{size: measureServer(s), awaited: s.Awaited}
	for _, pod := range s.Pods {
		if pods.HasEnded(&pod) {
			continue
		}
		report, answered := s.Reports[pod.Name]
		active := snapshot.ActiveSessions(report)
		isSilent := pods.IsServing(&pod) && !answered
		if pod.DeletionTimestamp != nil {
			if pods.IsServing(&pod) {
				l.leaving++
			}
			l.lasting, l.unsure = l.lasting+active, l.unsure || isSilent
			continue
		}
		l.stay++
		switch {
		case isSilent:
			l.silent++
		case active == 0:
			l.idle++
		case report.Draining:
			l.lasting += active
		default:
			l.active += active
		}
		mayPlay := isSilent || active > 0
		switch {
		case pods.IsReady(&pod):
		case mayPlay:
			l.exposed++
		default:
			l.unready++
		}
	}
	return l
}

// measureServer returns the sessions of one server: as many as the spec says, or fewer if the
// servers of the newest template report so.
func measureServer(s snapshot.Snapshot) int64 {
	size, isNewest := int64(max(1, s.Env.Spec.Sessions.PerPod)), s.SelectNewest(s.AnnotatedScenarios())
	sum, n := int64(0), int64(0)
	for _, pod := range s.Pods {
		if report, ok := s.Reports[pod.Name]; ok && !report.Draining && isNewest(pod) {
			sum, n = sum+min(max(1, report.Sessions.Capacity), size), n+1
		}
	}
	if n == 0 {
		return size
	}
	return sum / n
}
