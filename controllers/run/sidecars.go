package run

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/pods"
)

// sidecarPatience is how long a pod may run after its runner has ended.
const sidecarPatience = 30 * time.Second

// runnerSucceeded reports whether the pod's runner has ended without an error. Its pod may still
// run, because a sidecar does, for example the proxy of a service mesh.
func runnerSucceeded(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return pod.Status.Phase == corev1.PodSucceeded
	}
	runner := pods.Container(pod, runnerContainer)
	return runner != nil && runner.State.Terminated != nil && runner.State.Terminated.ExitCode == 0
}

// outlived are the pods that still run sidecarPatience after their runner has succeeded.
func outlived(d *decision, s snapshot) []corev1.Pod {
	var kept []corev1.Pod
	for i := range s.succeeded {
		pod := &s.succeeded[i]
		left := sidecarPatience - s.now.Sub(finishedAt(pod))
		switch {
		case pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero():
		case left > 0:
			d.wake(left)
		default:
			kept = append(kept, *pod)
		}
	}
	return kept
}

// blockedBySidecars reports whether pods that sidecars keep use up the Job's parallelism, so that
// it creates no more. Their runners have ended, so nothing that is being played is lost with the
// Job.
func blockedBySidecars(d *decision, s snapshot) bool {
	kept := outlived(d, s)
	return len(kept) > 0 && len(kept) >= int(ptr.Deref(s.job.Spec.Parallelism, 1))
}

// sidecarMessage names the container that keeps the pod running.
func sidecarMessage(pod *corev1.Pod) string {
	name := "of the pod"
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != runnerContainer && c.State.Running != nil {
			name = c.Name
			break
		}
	}
	return fmt.Sprintf("The runner of pod %s has ended and is counted, but the container %s still runs and keeps the "+
		"pod. Make it a native sidecar (an init container whose restartPolicy is Always), or have none injected into "+
		"the pods of spec.template.", pod.Name, name)
}
