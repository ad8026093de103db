package rules

import (
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
)

// A ReplicaSet removes unready pods first, then pods with the lowest deletion cost. So before the
// Deployment's replicas are lowered, each busy pod gets its number of sessions as its cost. If a
// cost can't be written, the replicas stay.
//
// A full server isn't ready, so it would be removed before an idle one. Autoscaling avoids that
// (see removable). If a user lowers spec.replicas, the change waits until the server has a free
// slot, at most fullPatience.

const (
	deletionCost       = "controller.kubernetes.io/pod-deletion-cost" // 0 if unset
	idleBeforeEviction = 10 * time.Minute
	fullPatience       = time.Minute
)

// Mark is a change of a pod's annotations. A nil value removes one.
type Mark struct {
	Pod         string
	Annotations map[string]*string
}

// markPods returns the changes to write before the Deployment is applied.
func markPods(s snapshot.Snapshot, costs bool, servers map[types.UID]serverMemory) []Mark {
	var all []Mark
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		changes := map[string]*string{}
		if costs {
			maps.Copy(changes, changeCost(s, pod))
		}
		maps.Copy(changes, changeEviction(s, pod, servers[pod.UID]))
		if len(changes) > 0 {
			all = append(all, Mark{pod.Name, changes})
		}
	}
	return all
}

func changeCost(s snapshot.Snapshot, pod *corev1.Pod) map[string]*string {
	sessions := int64(0)
	if report, answered := s.Reports[pod.Name]; answered {
		sessions = snapshot.ActiveSessions(report)
	} else if pods.IsServing(pod) {
		sessions = snapshot.MaxSessions
	}
	var cost *string
	if sessions > 0 {
		cost = new(strconv.FormatInt(sessions, 10))
	}
	if pod.Annotations[deletionCost] == ptr.Deref(cost, "") {
		return nil
	}
	return map[string]*string{deletionCost: cost}
}

// changeEviction returns nothing for a server that doesn't answer, or if the user sets the
// annotation.
func changeEviction(s snapshot.Snapshot, pod *corev1.Pod, known serverMemory) map[string]*string {
	_, userSays := children.GetUserAnnotations(s.Env)[children.SafeToEvict]
	_, answered := s.Reports[pod.Name]
	now, set := pod.Annotations[children.SafeToEvict]
	if userSays || !answered || !set {
		return nil
	}
	isIdle := !known.idleSince.IsZero()
	switch {
	case now != "false" && !isIdle:
		return map[string]*string{children.SafeToEvict: new("false")}
	case now != "true" && isIdle && s.Now.Sub(known.idleSince) >= idleBeforeEviction:
		return map[string]*string{children.SafeToEvict: new("true")}
	}
	return nil
}
