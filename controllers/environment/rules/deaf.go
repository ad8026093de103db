package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
)

const (
	// deafAfter is how long a server that is being deleted may report that it doesn't drain. It is
	// told to drain after its preStop hook, which takes two seconds.
	deafAfter = 20 * time.Second
	// deafGrace is the grace period of such a server without sessions, in seconds. It ends at once
	// when it is told again.
	deafGrace = 10
)

// Deaf is a server that wasn't told that it is being deleted: the kubelet sends SIGTERM once, and a
// process that is just starting ignores it. A shorter grace period, in seconds, has it sent again.
type Deaf struct {
	Pod   *corev1.Pod
	Grace int64
}

// listDeaf finds the servers that are being deleted and report that they don't drain. One with
// sessions keeps all of its time but a second.
func listDeaf(s snapshot.Snapshot) []Deaf {
	var deaf []Deaf
	for i := range s.Pods {
		pod := &s.Pods[i]
		report, answered := s.Reports[pod.Name]
		grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
		if pod.DeletionTimestamp == nil || !answered || report.Draining || !pods.IsServing(pod) || grace <= deafGrace ||
			s.Now.Sub(pod.DeletionTimestamp.Add(-time.Duration(grace)*time.Second)) < deafAfter {
			continue
		}
		if snapshot.ActiveSessions(report) > 0 {
			deaf = append(deaf, Deaf{pod, grace - 1})
		} else {
			deaf = append(deaf, Deaf{pod, deafGrace})
		}
	}
	return deaf
}
