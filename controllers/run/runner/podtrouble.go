package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/envvars"
)

// Trouble is why a runner can't start: a phrase, and what to do about it, "" if nothing is known.
type Trouble struct {
	Why, Advice string
	Since       time.Time
}

// FindStartTrouble returns the oldest trouble of a kind that rarely resolves itself, the zero value
// if each runner can start. failed are the pods of the same Job that have failed.
func FindStartTrouble(list, failed []corev1.Pod, now time.Time) (oldest Trouble) {
	for i := range list {
		t := describePod(&list[i], now)
		if t.Since = ReadScheduledTime(&list[i]); t.Why != "" && (oldest.Why == "" || t.Since.Before(oldest.Since)) {
			t.Why = fmt.Sprintf("pod %s: %s", list[i].Name, t.Why)
			oldest = t
		}
	}
	last := FindLastFailure(failed)
	if oldest.Why != "" || last == nil || !pods.HasNotStarted(pods.FindTerminatedState(last, Container)) ||
		slices.ContainsFunc(list, isPlaying) {
		return oldest
	}
	return Trouble{Why: fmt.Sprintf("pod %s: %s", last.Name, describeEnd(last)), Advice: AdviseFailure(failed),
		Since: ReadScheduledTime(&failed[0])}
}

func isPlaying(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// describePod returns why a pod's runner can't start: its own container, or the agent's, which
// starts first.
func describePod(pod *corev1.Pod, now time.Time) Trouble {
	runner := pods.FindContainerStatus(pod, Container)
	if runner != nil && runner.State.Waiting == nil {
		return Trouble{} // later failures of the agent are errors of episodes
	}
	if IsCreating(pod) && now.Sub(ReadScheduledTime(pod)) >= pods.CreationPatience {
		return Trouble{Why: fmt.Sprintf("its containers haven't been created for more than %s. `kubectl describe pod "+
			"-n %s %s` shows the cause, such as a volume whose Secret or ConfigMap doesn't exist, or a RuntimeClass "+
			"that the node lacks%s",
			pods.CreationPatience, pod.Namespace, pod.Name, listSecrets(pod))}
	}
	if trouble := describeWaiting(pod, runner, pods.Runner); trouble.Why != "" {
		return trouble
	}
	agent := pods.FindContainerStatus(pod, AgentContainer)
	trouble := describeWaiting(pod, agent, pods.Agent)
	if trouble.Why == "" {
		return describeAgent(pod, agent)
	}
	trouble.Why = "the agent's container: " + trouble.Why
	return trouble
}

// listSecrets tells which Secrets and keys the runner needs, "" if only its credential's.
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

// describeWaiting quotes the kubelet on a container that waits for a user to act.
func describeWaiting(pod *corev1.Pod, c *corev1.ContainerStatus, owner pods.Owner) Trouble {
	waiting := pods.FindWaitingState(c)
	from := pods.Registry
	switch {
	case pods.CreationFailed(waiting):
		from = pods.Kubelet
	case !pods.ImagePullFailed(waiting):
		return Trouble{}
	}
	words := pods.DescribeWaiting(waiting)
	return Trouble{Why: pods.QuoteMessage(words),
		Advice: cmp.Or(pods.HowToCreate(pod, words), pods.Advise(owner, from, words))}
}

// describeAgent describes an agent's container that ended before it listened, which isn't known
// during its first start: an agent may take agentStartSeconds. The text is the same in each of the
// container's states, so that the status doesn't change with every restart.
func describeAgent(pod *corev1.Pod, c *corev1.ContainerStatus) Trouble {
	if c == nil || ptr.Deref(c.Started, false) {
		return Trouble{}
	}
	if w := c.State.Waiting; c.RestartCount == 0 && (w == nil || w.Reason != "CrashLoopBackOff") {
		return Trouble{}
	}
	trouble := Trouble{Why: fmt.Sprintf("the agent's container doesn't listen on port %d", findAgentPort(pod))}
	if end := pods.LastTerminated(c); end != nil {
		trouble.Why += fmt.Sprintf(", and ended with exit code %d", end.ExitCode)
		if pods.HasNotStarted(*end) || end.Reason == pods.OutOfMemory {
			trouble.Why += " (" + end.Reason + pods.DescribeMemory(pod, AgentContainer) + ")"
			trouble.Advice = pods.Advise(pods.Agent, pods.Kubelet, end.Reason+": "+end.Message)
		}
	}
	return trouble
}

func findAgentPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == AgentContainer && len(c.Ports) > 0 {
			return c.Ports[0].ContainerPort
		}
	}
	return 0
}
