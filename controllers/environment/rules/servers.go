package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
)

// serverMemory is the state of a server between passes.
type serverMemory struct {
	wasReady  bool
	missed    bool      // it wasn't listed in the last pass
	idleSince time.Time // the zero time while it isn't known to be idle
	active    int64     // open sessions in its last report
	unjudged  int64     // judge failures in its last report
}

// Changes are what happened to the servers since the last pass.
type Changes struct {
	TimesToReady []time.Duration // of the servers that have become ready
	Unjudged     int64           // replies that could not be judged
}

// compareServers compares the servers with the last pass. before is nil in the first pass.
func compareServers(s snapshot.Snapshot, before map[types.UID]serverMemory) (Changes, map[types.UID]serverMemory) {
	var changes Changes
	servers := make(map[types.UID]serverMemory, len(s.Pods))
	for i := range s.Pods {
		pod := &s.Pods[i]
		known, isKnown := before[pod.UID]
		if pods.IsReady(pod) && !known.wasReady {
			known.wasReady = true
			if before != nil {
				since := pods.FindCondition(pod, corev1.PodReady).LastTransitionTime.Sub(pod.CreationTimestamp.Time)
				changes.TimesToReady = append(changes.TimesToReady, max(0, since))
			}
		}
		if report, answered := s.Reports[pod.Name]; answered {
			// A server that restarts counts from 0. Failures before the first pass aren't counted.
			if isKnown {
				changes.Unjudged += max(0, report.JudgeFailures-known.unjudged)
			}
			known.active, known.unjudged = snapshot.ActiveSessions(report), report.JudgeFailures
			switch {
			case known.active > 0:
				known.idleSince = time.Time{}
			case known.idleSince.IsZero():
				known.idleSince = s.Now
			}
		}
		known.missed = false
		servers[pod.UID] = known
	}
	// Keep a pod for one more pass, because it may leave the cache before its deletion event.
	for uid, known := range before {
		if _, exists := servers[uid]; !exists && !known.missed {
			known.missed = true
			servers[uid] = known
		}
	}
	return changes, servers
}
