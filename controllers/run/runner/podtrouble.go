package runner

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/envvars"
)

// FindStartTrouble returns why a runner can't start, "" if each can, and since when: the oldest
// trouble of a kind that rarely resolves itself.
func FindStartTrouble(list []corev1.Pod, now time.Time) (why string, since time.Time) {
	for i := range list {
		trouble := describePod(&list[i], now)
		if began := ReadScheduledTime(&list[i]); trouble != "" && (why == "" || began.Before(since)) {
			why, since = fmt.Sprintf("pod %s: %s", list[i].Name, trouble), began
		}
	}
	return why, since
}

// describePod returns why a pod's runner can't start: its own container, or the agent's, which
// starts first.
func describePod(pod *corev1.Pod, now time.Time) string {
	runner := pods.FindContainerStatus(pod, Container)
	if runner != nil && runner.State.Waiting == nil {
		return "" // later failures of the agent are errors of episodes
	}
	if IsCreating(pod) && now.Sub(ReadScheduledTime(pod)) >= pods.CreationPatience {
		return fmt.Sprintf("its containers haven't been created for more than %s. `kubectl describe pod -n %s %s` "+
			"shows the cause, such as a volume whose Secret or ConfigMap doesn't exist%s", pods.CreationPatience,
			pod.Namespace, pod.Name, listSecrets(pod))
	}
	if trouble := waitingTrouble(pod, runner); trouble != "" {
		return trouble
	}
	agent := pods.FindContainerStatus(pod, AgentContainer)
	if trouble := waitingTrouble(pod, agent); trouble != "" {
		return "the agent's container: " + trouble
	}
	return describeAgent(pod, agent)
}

// listSecrets tells which Secrets and keys the runner needs, "" if only that of its credential.
func listSecrets(pod *corev1.Pod) string {
	var needed []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Name == secretsVolume && v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil && len(s.Secret.Items) == 1 && s.Secret.Items[0].Path != envvars.RunCredential {
					key := s.Secret.Items[0].Key
					needed = append(needed, fmt.Sprintf("%s with the key %s (%s)", s.Secret.Name, key,
						pods.CreateCommand("secret", s.Secret.Name, pod.Namespace, key)))
				}
			}
		case v.Name == storeVolume && v.Secret != nil:
			needed = append(needed, v.Secret.SecretName)
		}
	}
	if len(needed) == 0 {
		return ""
	}
	return "; the runner needs the Secret " + strings.Join(needed, ", and ")
}

// IsCreating reports whether the kubelet is still preparing the pod's containers.
func IsCreating(pod *corev1.Pod) bool {
	return pods.FindWaitingState(pods.FindContainerStatus(pod, Container)).Reason == pods.ContainerCreating ||
		pods.FindWaitingState(pods.FindContainerStatus(pod, AgentContainer)).Reason == pods.ContainerCreating
}

// pullFailed is the reason of a container whose image was not pulled.
const pullFailed = "ErrImagePull"

// waitingTrouble returns the kubelet's message on a container that waits for a user to act, and how
// to create a missing object.
func waitingTrouble(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	waiting := pods.FindWaitingState(c)
	if !pods.ImagePullFailed(waiting) && !pods.CreationFailed(waiting) {
		return ""
	}
	if waiting.Message == "" {
		return waiting.Reason
	}
	reason, message := waiting.Reason, waiting.Message
	if _, cause, found := strings.Cut(message, pullFailed+": "); found {
		reason, message = pullFailed, cause // the state alternates between the failure and the wait after it
	}
	trouble := reason + ": " + pods.QuoteMessage(message)
	if create := pods.HowToCreate(pod, waiting.Message); create != "" {
		trouble += ". " + create
	}
	return trouble
}

// describeAgent describes an agent's container that ended before it listened, which isn't known
// during its first start: an agent may take agentStartSeconds. The text is the same in each of the
// container's states, so that the status doesn't change with every restart.
func describeAgent(pod *corev1.Pod, c *corev1.ContainerStatus) string {
	if c == nil || ptr.Deref(c.Started, false) {
		return ""
	}
	if w := c.State.Waiting; c.RestartCount == 0 && (w == nil || w.Reason != "CrashLoopBackOff") {
		return ""
	}
	why := fmt.Sprintf("the agent's container doesn't listen on port %d", findAgentPort(pod))
	if end := pods.LastTerminated(c); end != nil {
		why += fmt.Sprintf(", and ended with exit code %d", end.ExitCode)
	}
	return why
}

func findAgentPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == AgentContainer && len(c.Ports) > 0 {
			return c.Ports[0].ContainerPort
		}
	}
	return 0
}
