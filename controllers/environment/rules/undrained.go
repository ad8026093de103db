package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
)

const (
	// undrainedAfter is how long a server that is being deleted may report that it doesn't drain.
	// It is told to drain after its preStop hook, which takes two seconds.
	undrainedAfter = 20 * time.Second
	// undrainedGrace is the grace period of such a server without sessions, in seconds. It ends at
	// once when it is told again.
	undrainedGrace = 10
)

// Undrained is a server that wasn't told that it is being deleted: the kubelet sends SIGTERM once,
// and a process that is just starting ignores it. A shorter grace period, in seconds, has it sent
// again.
type Undrained struct {
	Pod   *corev1.Pod
	Grace int64
}

// listUndrained finds the servers that are being deleted and report that they don't drain. One with
// sessions keeps all of its time but a second.
func listUndrained(s snapshot.Snapshot) []Undrained {
	var undrained []Undrained
	for i := range s.Pods {
		pod := &s.Pods[i]
		report, answered := s.Reports[pod.Name]
		grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
		if pod.DeletionTimestamp == nil || !answered || report.Draining || !pods.IsServing(pod) ||
			grace <= undrainedGrace ||
			s.Now.Sub(pod.DeletionTimestamp.Add(-time.Duration(grace)*time.Second)) < undrainedAfter {
			continue
		}
		if snapshot.ActiveSessions(report) > 0 {
			undrained = append(undrained, Undrained{pod, grace - 1})
		} else {
			undrained = append(undrained, Undrained{pod, undrainedGrace})
		}
	}
	return undrained
}
