package environment

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
)

// fault is a reason why servers can't run, and its remedy.
type fault struct{ reason, message string }

func faultf(reason, format string, args ...any) *fault {
	return &fault{reason: reason, message: fmt.Sprintf(format, args...)}
}

// findFault returns the first fault: of the pool's objects, then of its pods, then of its servers.
func findFault(d decision) *fault {
	for _, find := range []func(decision) *fault{nameTaken, applyFailed, podsRefused, invalidPack, serverFault,
		keyUnreadable, judgeNotReady, serversUnreachable, rolloutStuck} {
		if f := find(d); f != nil {
			return f
		}
	}
	return nil
}

func nameTaken(d decision) *fault {
	if len(d.taken) == 0 {
		return nil
	}
	return faultf(v1alpha1.ReasonNameTaken, "%s in namespace %s belongs to something else and isn't changed. "+
		"Delete it, or create this CustomerSupportEnv with another name.", d.taken[0], d.env.Namespace)
}

func applyFailed(d decision) *fault {
	if d.applyErr == nil {
		return nil
	}
	return faultf(v1alpha1.ReasonApplyFailed, "The API server refused an object of the pool. The operator tries "+
		"again. Correct the cause: %s", pods.Quote(d.applyErr.Error()))
}

// podsRefused reports that the ReplicaSet can't create pods.
func podsRefused(d decision) *fault {
	c := deploymentCondition(d.deployment(), appsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return nil
	}
	return faultf(v1alpha1.ReasonPodsRefused, "The servers' pods can't be created. Raise the namespace's quota or "+
		"change the policy that refuses them: %s", pods.Quote(c.Message))
}

// serverFault returns the first fault of a pod that isn't terminating, in order of their names.
func serverFault(d decision) *fault {
	for _, pod := range d.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, find := range []func(decision, corev1.Pod) *fault{unschedulable, imagePullFailed, startFailed,
			crashLoop} {
			if f := find(d, pod); f != nil {
				return f
			}
		}
	}
	return nil
}

func unschedulable(_ decision, pod corev1.Pod) *fault {
	c := pods.Condition(&pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return nil
	}
	return faultf(v1alpha1.ReasonUnschedulable, "No node can run server %s. Add nodes, or lower spec.replicas: %s",
		pod.Name, pods.Quote(c.Message))
}

func imagePullFailed(d decision, pod corev1.Pod) *fault {
	waiting := pods.Waiting(pods.Container(&pod, pods.ServerContainer))
	if !pods.ImagePullFailed(waiting) {
		return nil
	}
	return faultf(v1alpha1.ReasonImagePullFailed, "Image %q of server %s can't be pulled. Correct spec.image, or "+
		"make the image available to the nodes: %s", d.image, pod.Name, pods.Quote(waiting.Message))
}

func startFailed(d decision, pod corev1.Pod) *fault {
	waiting := pods.Waiting(pods.Container(&pod, pods.ServerContainer))
	if pods.CreationFailed(waiting) {
		words := pods.Quote(waiting.Message)
		if create := pods.HowToCreate(&pod, waiting.Message); create != "" {
			words += ". " + create + "."
		}
		return faultf(v1alpha1.ReasonStartFailed, "Server %s can't be started: %s", pod.Name, words)
	}
	scheduled := pods.Condition(&pod, corev1.PodScheduled)
	if waiting.Reason != pods.ContainerCreating || scheduled == nil ||
		d.now.Sub(scheduled.LastTransitionTime.Time) < pods.CreationPatience {
		return nil
	}
	return faultf(v1alpha1.ReasonStartFailed, "The container of server %s hasn't been created for more than %s. "+
		"`kubectl describe pod -n %s %s` shows the cause. If Secret %s doesn't exist, create a new key: `%s`", pod.Name,
		pods.CreationPatience, pod.Namespace, pod.Name, keys.SecretName(d.env.Name, d.env.Status.LedgerPublicKey),
		replaceKeyCommand(d.env))
}

// crashLoop reports a server that ended and isn't started.
func crashLoop(d decision, pod corev1.Pod) *fault {
	status := pods.Container(&pod, pods.ServerContainer)
	if status == nil || status.State.Running != nil && status.Started != nil && *status.Started {
		return nil
	}
	ended := pods.LastTerminated(status)
	if ended == nil {
		return nil
	}
	if ended.Reason == "OOMKilled" {
		return faultf(v1alpha1.ReasonCrashLoop, "Server %s ran out of memory. Lower spec.sessions.perPod and raise "+
			"spec.replicas, or raise spec.template.resources.limits.memory.", pod.Name)
	}
	log := pods.Quote(named(d.env, pods.LastWords(ended.Message)))
	if token := d.env.Spec.Access.TokenSecretRef; token != nil && strings.Contains(ended.Message, tokenFolder) {
		return faultf(v1alpha1.ReasonCrashLoop, "Server %s can't start without a token. Add one under key %q of "+
			"Secret %s, which spec.access.tokenSecretRef names, or create the Secret with %s: %s", pod.Name, token.Key,
			token.Name, pods.CreateCommand("secret", token.Name, pod.Namespace, token.Key), log)
	}
	if pack := emptyPack(d.env, ended.Message); pack != "" {
		return faultf(v1alpha1.ReasonCrashLoop, "Server %s can't start: %s", pod.Name, pack)
	}
	return faultf(v1alpha1.ReasonCrashLoop, "Server %s ended with exit code %d. Correct the error that it reports "+
		"(`kubectl logs -n %s %s --previous` shows the full log): %s",
		pod.Name, ended.ExitCode, pod.Namespace, pod.Name, log)
}

// keyUnreadable reports that the operator has no token for the servers.
func keyUnreadable(d decision) *fault {
	if d.keyErr == nil {
		return nil
	}
	return faultf(v1alpha1.ReasonLedgerKeyUnreadable, "The operator can't read the pool's ledger key, without which "+
		"servers don't answer it. Restore Secret %s, or create a new key (`%s`): %s",
		keys.SecretName(d.env.Name, d.env.Status.LedgerPublicKey), replaceKeyCommand(d.env),
		pods.Quote(d.keyErr.Error()))
}

// judgeNotReady reports servers that accept no sessions, because they couldn't grade them.
func judgeNotReady(d decision) *fault {
	for _, pod := range d.pods {
		if why := d.reports[pod.Name].JudgeFault; why != "" && pod.DeletionTimestamp == nil {
			return faultf(v1alpha1.ReasonJudgeNotReady, "The judge of server %s can't grade, so the server accepts no "+
				"sessions and tries the judge again every minute. Correct spec.judge or its endpoint; if you correct "+
				"the key in its Secret, restart the servers (`kubectl rollout restart deployment -n %s %s`): %s",
				pod.Name, d.env.Namespace, d.env.Name, pods.Quote(why))
		}
	}
	return nil
}

// serversUnreachable reports servers that the kubelet reaches and the operator doesn't.
func serversUnreachable(d decision) *fault {
	var silent []string
	for _, pod := range d.pods {
		if _, ok := d.reports[pod.Name]; !ok && pod.DeletionTimestamp == nil && pods.IsReady(&pod) &&
			!slices.Contains(d.unasked, pod.UID) {
			silent = append(silent, pod.Name)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	return faultf(v1alpha1.ReasonServersUnreachable, "Servers are ready but don't answer the operator on port %d: %d "+
		"of %d, including %s. Check that network policies admit the operator's namespace to that port.",
		v1alpha1.OperationsPort, len(silent), len(d.pods), silent[0])
}

func rolloutStuck(d decision) *fault {
	if !deadlineExceeded(d.snapshot) {
		return nil
	}
	return faultf(v1alpha1.ReasonProgressDeadlineExceeded, "The newest servers don't become ready. `kubectl describe "+
		"deployment -n %s %s` shows details.", d.env.Namespace, d.env.Name)
}

// deadlineExceeded reports whether the rolling update is stuck. Full servers aren't ready and delay
// it without a fault.
func deadlineExceeded(s snapshot) bool {
	c := deploymentCondition(s.deployment(), appsv1.DeploymentProgressing)
	return replicaCounts(s).full == 0 && c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason == "ProgressDeadlineExceeded"
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	if d == nil {
		return nil
	}
	return pods.First(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}
