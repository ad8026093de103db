package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/pods"
)

// createPack is the advice for a pack without files.
const createPack = "Create it from the pack's folder"

// degradedRules find the first fault, because the others often follow from it: of the pool's
// objects, then of its pods, then of its servers.
var degradedRules = slices.Concat([]Rule{
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNameTaken,
		"another object has a name that the pool needs",
		"Delete it, or create this CustomerSupportEnv with another name", func(f facts) (what, detail string) {
			if len(f.taken) == 0 {
				return "", ""
			}
			return fmt.Sprintf("%s in namespace %s belongs to something else and isn't changed.", f.taken[0],
				f.env.Namespace), ""
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonApplyFailed,
		"the API server refuses an object of the pool", "Correct what it names", func(f facts) (what, detail string) {
			if f.writeErr == nil {
				return "", ""
			}
			return "The API server refused an object of the pool. The operator tries again.",
				pods.QuoteMessage(f.writeErr.Error())
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonPodsRefused,
		"the API server refuses the servers' pods",
		"Correct what it names", func(f facts) (what, detail string) {
			if f.refusal == "" {
				return "", ""
			}
			return "The servers' pods can't be created.", pods.QuoteMessage(f.refusal)
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInvalidPack,
		"a changed pack is missing or empty", createPack, func(f facts) (what, detail string) {
			return describeEmptyPack(f.env, "New servers can't start", f.packError)
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInvalidPack,
		"a changed pack is invalid", "Correct the pack", func(f facts) (what, detail string) {
			if f.packError == "" {
				return "", ""
			}
			return "The changed scenario packs aren't rolled out. Servers continue with the packs that they have " +
				"loaded, but new servers can't start.", pods.QuoteMessage(nameObjects(f.env, f.packError))
		}},
}, serverRules, []Rule{
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonLedgerKeyUnreadable,
		"the operator can't read the pool's ledger key",
		"Restore Secret KEY_SECRET, or create a new key (" + replaceKey + ")", func(f facts) (what, detail string) {
			if f.keyErr == nil {
				return "", ""
			}
			return "The operator can't read the pool's ledger key, without which servers don't answer it.",
				pods.QuoteMessage(f.keyErr.Error())
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonJudgeNotReady,
		"the judge of a server can't grade", "Correct spec.judge or its endpoint; if you correct the key in its " +
			"Secret, restart the servers (`kubectl rollout restart deployment -n NAMESPACE POOL`)",
		func(f facts) (what, detail string) {
			if f.unjudged == "" {
				return "", ""
			}
			return fmt.Sprintf("The judge of server %s can't grade, so the server accepts no sessions and tries the "+
				"judge again every minute.", f.unjudged), pods.QuoteMessage(f.unjudging)
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonServersUnreachable,
		"servers are ready but don't answer the operator",
		"Check that network policies admit the operator's namespace to that port", func(f facts) (what, detail string) {
			if len(f.silent) == 0 {
				return "", ""
			}
			return describeNumbers(true, "Servers are ready but don't answer the operator on port %d: %d of %d, "+
				"including %s.", v1alpha1.OperationsPort, len(f.silent), f.listed, f.silent[0])
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonProgressDeadlineExceeded,
		"the newest servers don't become ready in time",
		"`kubectl describe deployment -n NAMESPACE POOL` shows details",
		describeIf(func(f facts) bool { return f.stuck }, "The newest servers don't become ready.")},
	{v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy,
		"otherwise", "", describeIf(func(facts) bool { return true }, "No faults found.")},
})

// serverRules check the faulty server. The first server counts that one of them holds for, in order
// of their names.
var serverRules = []Rule{
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNodeLost,
		"the node of a server doesn't answer", "Repair it, or, if it is gone, delete it (`kubectl delete node " +
			"NODE`): the server is replaced at once then, and else after the tolerance for unreachable nodes",
		checkNode},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonUnschedulable,
		"no node can run a server", "Add nodes, or lower spec.replicas", checkScheduled},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonUnschedulable,
		"no scheduler has looked at a server", "Run that scheduler, or change spec.template.schedulerName",
		checkClaimed},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed,
		"the image can't be pulled", "Correct spec.image, or make the image available to the nodes", checkImage},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonStartFailed,
		"the kubelet can't create a server's container", "Correct what it names", checkContainer},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonStartFailed,
		"a server's container isn't created in time", "`kubectl describe pod -n NAMESPACE SERVER` shows the cause, " +
			"such as a RuntimeClass that the node lacks. If Secret KEY_SECRET doesn't exist, create a new key: " +
			replaceKey, checkCreation},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonStartFailed,
		"a server's container can't start", "Correct what it names", checkStart},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonCrashLoop,
		"a server ran out of memory", "Lower spec.sessions.perPod and raise spec.replicas, or raise " +
			"spec.template.resources.limits.memory", checkMemory},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonCrashLoop,
		"a server can't start without the tokens of clients", "Add one to the Secret that spec.access.tokenSecretRef " +
			"names, or create it", checkToken},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonCrashLoop,
		"a server can't start without the files of a pack", createPack, func(f facts) (what, detail string) {
			if ended := findEnd(f.faulty); ended != nil {
				return describeEmptyPack(f.env, fmt.Sprintf("Server %s can't start", f.faulty.Name), ended.Message)
			}
			return "", ""
		}},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonCrashLoop,
		"a server keeps ending", "Correct the error that it reports (`kubectl logs -n NAMESPACE SERVER --previous` " +
			"shows the full log)", checkEnd},
}

func checkNode(f facts) (what, detail string) {
	node := pods.FindLostNode(f.faulty)
	return describeNumbers(node != "", "Node %s of server %s doesn't answer.", node, f.faulty.Name)
}

func checkClaimed(f facts) (what, detail string) {
	return describeNumbers(pods.IsUnclaimed(f.faulty) && f.now.Sub(f.faulty.CreationTimestamp.Time) >=
		pods.CreationPatience, "Scheduler %s hasn't looked at server %s for more than %s.",
		f.faulty.Spec.SchedulerName, f.faulty.Name, pods.CreationPatience)
}

func checkScheduled(f facts) (what, detail string) {
	c := pods.FindCondition(f.faulty, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return "", ""
	}
	return fmt.Sprintf("No node can run server %s.", f.faulty.Name), pods.QuoteMessage(c.Message)
}

func checkImage(f facts) (what, detail string) {
	waiting := pods.FindWaitingState(pods.FindContainerStatus(f.faulty, pods.ServerContainer))
	if !pods.ImagePullFailed(waiting) {
		return "", ""
	}
	return fmt.Sprintf("Image %q of server %s can't be pulled.", f.image, f.faulty.Name),
		pods.QuoteMessage(pods.DescribeWaiting(waiting))
}

func checkContainer(f facts) (what, detail string) {
	waiting := pods.FindWaitingState(pods.FindContainerStatus(f.faulty, pods.ServerContainer))
	if !pods.CreationFailed(waiting) {
		return "", ""
	}
	words := pods.QuoteMessage(waiting.Message)
	if create := pods.HowToCreate(f.faulty, waiting.Message); create != "" {
		words += ". " + create + "."
	}
	return fmt.Sprintf("Server %s can't be started.", f.faulty.Name), words
}

func checkCreation(f facts) (what, detail string) {
	waiting := pods.FindWaitingState(pods.FindContainerStatus(f.faulty, pods.ServerContainer))
	scheduled := pods.FindCondition(f.faulty, corev1.PodScheduled)
	return describeNumbers(waiting.Reason == pods.ContainerCreating && scheduled != nil &&
		f.now.Sub(scheduled.LastTransitionTime.Time) >= pods.CreationPatience,
		"The container of server %s hasn't been created for more than %s.", f.faulty.Name, pods.CreationPatience)
}

// findEnd returns how a server ended that isn't running again, or nil.
func findEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	status := pods.FindContainerStatus(pod, pods.ServerContainer)
	if status == nil || status.State.Running != nil && status.Started != nil && *status.Started {
		return nil
	}
	return pods.LastTerminated(status)
}

func checkStart(f facts) (what, detail string) {
	ended := findEnd(f.faulty)
	if ended == nil || !pods.HasNotStarted(*ended) {
		return "", ""
	}
	return fmt.Sprintf("Server %s can't be started%s.", f.faulty.Name, limitMemory(f)),
		pods.QuoteMessage(ended.Message)
}

func checkMemory(f facts) (what, detail string) {
	ended := findEnd(f.faulty)
	return describeNumbers(ended != nil && ended.Reason == pods.OutOfMemory, "Server %s ran out of memory%s.",
		f.faulty.Name, limitMemory(f))
}

func limitMemory(f facts) string { return pods.DescribeMemory(f.faulty, pods.ServerContainer) }

func checkToken(f facts) (what, detail string) {
	ended, token := findEnd(f.faulty), f.env.Spec.Access.TokenSecretRef
	if ended == nil || token == nil || !strings.Contains(ended.Message, children.TokenFolder) {
		return "", ""
	}
	return fmt.Sprintf("Server %s can't start without a token under key %q of Secret %s.", f.faulty.Name, token.Key,
			token.Name), fmt.Sprintf("%s: %s", pods.CreateCommand("secret", token.Name, f.faulty.Namespace, token.Key),
			pods.QuoteMessage(nameObjects(f.env, pods.LastWords(ended.Message))))
}

func checkEnd(f facts) (what, detail string) {
	ended := findEnd(f.faulty)
	if ended == nil {
		return "", ""
	}
	return fmt.Sprintf("Server %s ended with exit code %d.", f.faulty.Name, ended.ExitCode),
		pods.QuoteMessage(nameObjects(f.env, pods.LastWords(ended.Message)))
}

// describeEmptyPack describes a pack of which a server says that it has no files, "" if there is
// none. Its volume is optional, so the server doesn't know whether the object exists.
func describeEmptyPack(env *v1alpha1.CustomerSupportEnv, consequence, says string) (what, detail string) {
	for i, pack := range env.Spec.Scenarios.Packs {
		if !strings.Contains(says, children.NamePackFolder(i)+": no scenario files") {
			continue
		}
		kind, name := identifyPack(pack)
		return fmt.Sprintf("%s: %s %s doesn't exist in namespace %s, or it has no scenario files.", consequence, kind,
			name, env.Namespace), pods.CreateFrom(strings.ToLower(kind), name, env.Namespace, "--from-file=FOLDER")
	}
	return "", ""
}

// identifyPack returns the kind and the name of the object that has the pack's files.
func identifyPack(pack v1alpha1.ScenarioPack) (kind, name string) {
	if pack.ConfigMap != nil {
		return "ConfigMap", pack.ConfigMap.Name
	}
	return "Secret", pack.Secret.Name
}

// nameObjects replaces the servers' paths by the names of the mounted objects.
func nameObjects(env *v1alpha1.CustomerSupportEnv, text string) string {
	var names []string
	for i, pack := range env.Spec.Scenarios.Packs {
		kind, name := identifyPack(pack)
		names = append(names, children.NamePackFolder(i), kind+" "+name)
	}
	if token := env.Spec.Access.TokenSecretRef; token != nil {
		names = append(names, children.TokenFolder+"/"+children.TokenEntry,
			fmt.Sprintf("key %q of Secret %s", token.Key, token.Name))
	}
	return strings.NewReplacer(names...).Replace(text)
}
