package pods

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// ServerContainer is the name of a server's container in its pod.
const ServerContainer = "envserver"

// Selector returns the labels of a pool's servers. It must not change between versions, because a
// Deployment's selector is immutable.
func Selector(pool string) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:        v1alpha1.LabelNameValue,
		v1alpha1.LabelComponent:   v1alpha1.ComponentEnvServer,
		v1alpha1.LabelEnvironment: pool,
	}
}

// IsReady reports whether the pod's Ready condition is True. A full server isn't ready.
func IsReady(pod *corev1.Pod) bool {
	c := FindCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// IsRunning reports whether the pod runs and has an address. Its containers may be restarting.
func IsRunning(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
}

// IsServing reports whether the server's container runs. It may be full, starting or draining.
func IsServing(pod *corev1.Pod) bool {
	server := FindContainerStatus(pod, ServerContainer)
	return IsRunning(pod) && server != nil && server.State.Running != nil
}

// HasEnded reports whether the pod has ended for good, for example because its node evicted it.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// FindCondition returns the pod's condition of a type, nil if it has none.
func FindCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	return FindFirst(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
}

// FindFirst returns a pointer to the first item that matches, or nil.
func FindFirst[T any](items []T, matches func(T) bool) *T {
	i := slices.IndexFunc(items, matches)
	if i < 0 {
		return nil
	}
	return &items[i]
}

// FindContainerStatus returns the status of the container or init container of a name, nil without
// one.
func FindContainerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	isNamed := func(c corev1.ContainerStatus) bool { return c.Name == name }
	return cmp.Or(FindFirst(pod.Status.ContainerStatuses, isNamed),
		FindFirst(pod.Status.InitContainerStatuses, isNamed))
}

// maxDigests is the maximum number of digests in a status.
const maxDigests = 16

var digestOfImage = regexp.MustCompile(`sha256:[0-9a-f]{64}$`)

// ImageDigests returns the different digests of a container's image in some pods, sorted, together
// with those that are known.
func ImageDigests(list []corev1.Pod, container string, known ...string) []string {
	digests := slices.Clone(known)
	for i := range list {
		if c := FindContainerStatus(&list[i], container); c != nil {
			digests = append(digests, digestOfImage.FindString(c.ImageID))
		}
	}
	slices.Sort(digests)
	digests = slices.DeleteFunc(slices.Compact(digests), func(d string) bool { return d == "" })
	return digests[:min(len(digests), maxDigests)]
}

// FindTerminatedState returns how a container ended, or the zero value if it has not ended.
func FindTerminatedState(pod *corev1.Pod, container string) corev1.ContainerStateTerminated {
	if c := FindContainerStatus(pod, container); c != nil && c.State.Terminated != nil {
		return *c.State.Terminated
	}
	return corev1.ContainerStateTerminated{}
}

// LastTerminated returns how a container's latest process ended, nil if none has ended.
func LastTerminated(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c == nil {
		return nil
	}
	return cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
}

// FindWaitingState returns why a container waits, the zero value if it doesn't.
func FindWaitingState(c *corev1.ContainerStatus) corev1.ContainerStateWaiting {
	if c == nil || c.State.Waiting == nil {
		return corev1.ContainerStateWaiting{}
	}
	return *c.State.Waiting
}

// ContainerCreating is why a container waits until the kubelet has mounted its volumes.
const ContainerCreating = "ContainerCreating"

// CreationPatience limits ContainerCreating, which is all that shows if a volume can't be mounted.
const CreationPatience = 2 * time.Minute

// ImagePullFailed reports whether a container waits because its image can't be pulled.
func ImagePullFailed(waiting corev1.ContainerStateWaiting) bool {
	return slices.Contains([]string{
		pullFailed, "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed",
	}, waiting.Reason)
}

// CreationFailed reports whether a container waits because it can't be created or started.
func CreationFailed(waiting corev1.ContainerStateWaiting) bool {
	return slices.Contains([]string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"},
		waiting.Reason)
}
