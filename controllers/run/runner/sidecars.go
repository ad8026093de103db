package runner

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// SidecarPatience is how long a pod may run after its runner has ended.
const SidecarPatience = 30 * time.Second

// FindOutlived are the pods, of those whose runner has succeeded, that still run SidecarPatience
// after it. The time is that until the next pod may be one of them, 0 if none can.
func FindOutlived(succeeded []corev1.Pod, now time.Time) (kept []corev1.Pod, next time.Duration) {
	for i := range succeeded {
		pod := &succeeded[i]
		left := SidecarPatience - now.Sub(ReadFinishedTime(pod))
		switch {
		case pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero():
		case left <= 0:
			kept = append(kept, *pod)
		case next == 0 || left < next:
			next = left
		}
	}
	return kept, next
}

// IsBlockedBySidecars reports whether pods that sidecars keep use up the Job's parallelism, so that
// it creates no more. Their runners have ended, so nothing that is being played is lost with the
// Job.
func IsBlockedBySidecars(job *batchv1.Job, kept []corev1.Pod) bool {
	return len(kept) > 0 && len(kept) >= int(ptr.Deref(job.Spec.Parallelism, 1))
}

// DescribeSidecar names the container that keeps the pod running.
func DescribeSidecar(pod *corev1.Pod) string {
	name := "of the pod"
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != Container && c.State.Running != nil {
			name = c.Name
			break
		}
	}
	return fmt.Sprintf("The runner of pod %s has ended and is counted, but the container %s still runs and keeps the "+
		"pod.", pod.Name, name)
}
