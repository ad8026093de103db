package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/rule"
)

// createPack is the advice for a pack without files.
const createPack = "Create it from the pack's folder"

// faults are asked for the first fault, because the others often follow from it: of the pool's
// objects, then of its pods, then of its servers.
var faults = slices.Concat([]Rule{
	{Reason: v1alpha1.ReasonNameTaken, Stage: Degraded, State: isTrue, Event: warning,
		When:   "another object has a name that the pool needs",
		Advice: "Delete it, or create this CustomerSupportEnv with another name", Check: func(p *pass) rule.Finding {
			if len(p.Taken) == 0 {
				return rule.Finding{}
			}
			return rule.Finding{What: fmt.Sprintf("%s in namespace %s belongs to something else and isn't changed.",
				p.Taken[0],
				p.Env.Namespace)}
		}},
	{Reason: v1alpha1.ReasonApplyFailed, Stage: Degraded, State: isTrue, Event: warning,
		When: "the API server refuses an object of the pool", Advice: "Correct what it names",
		Check: func(p *pass) rule.Finding {
			if p.Err == nil {
				return rule.Finding{}
			}
			return p.addAdvice(pods.APIServer,
				"The API server refused an object of the pool. The operator tries again.",
				pods.QuoteMessage(p.Err.Error()))
		}},
	{Reason: v1alpha1.ReasonPodsRefused, Stage: Degraded, State: isTrue, Event: warning,
		When: "the API server refuses the servers' pods", Advice: "Correct what it names",
		Check: func(p *pass) rule.Finding {
			refusal := p.findRefusal()
			if refusal == "" {
				return rule.Finding{}
			}
			return p.addAdvice(pods.APIServer, "The servers' pods can't be created.", pods.QuoteMessage(refusal))
		}},
	{Reason: v1alpha1.ReasonInvalidPack, Stage: Degraded, State: isTrue, Event: warning,
		When: "a changed pack is missing or empty", Advice: createPack, Check: func(p *pass) rule.Finding {
			return describeEmptyPack(p.Env, "New servers can't start", p.findPackError())
		}},
	{Reason: v1alpha1.ReasonInvalidPack, Stage: Degraded, State: isTrue, Event: warning,
		When: "a changed pack is invalid", Advice: "Correct the pack", Check: func(p *pass) rule.Finding {
			failure := p.findPackError()
			if failure == "" {
				return rule.Finding{}
			}
			return quoteFinding("The changed scenario packs aren't rolled out. Servers continue with the packs that "+
				"they have loaded, but new servers can't start.", nameObjects(p.Env, failure))
		}},
}, serverFaults, []Rule{
	{Reason: v1alpha1.ReasonLedgerKeyUnreadable, Stage: Degraded, State: isTrue, Event: warning,
		When:   "the operator can't read the pool's ledger key",
		Advice: "Restore Secret KEY_SECRET, or create a new key (" + replaceKey + ")",
		Check: func(p *pass) rule.Finding {
			if p.KeyErr == nil {
				return rule.Finding{}
			}
			return quoteFinding("The operator can't read the pool's ledger key, without which servers don't answer it.",
				p.KeyErr.Error())
		}},
	{Reason: v1alpha1.ReasonJudgeNotReady, Stage: Degraded, State: isTrue, Event: warning,
		When: "the judge of a server can't grade",
		Advice: "Correct spec.judge or its endpoint; if you correct the key in its " +
			"Secret, restart the servers (`kubectl rollout restart deployment -n NAMESPACE POOL`)",
		Check: func(p *pass) rule.Finding {
			server, why := p.findUnjudged()
			if server == "" {
				return rule.Finding{}
			}
			return quoteFinding(fmt.Sprintf("The judge of server %s can't grade, so the server accepts no sessions "+
				"and tries the judge again every minute.", server), why)
		}},
	{Reason: v1alpha1.ReasonServersUnreachable, Stage: Degraded, State: isTrue, Event: warning,
		When:   "servers are ready but don't answer the operator",
		Advice: "Check that network policies admit the operator's namespace to that port",
		Check: func(p *pass) rule.Finding {
			silent := p.listSilent()
			if len(silent) == 0 {
				return rule.Finding{}
			}
			return newFinding("Servers are ready but don't answer the operator on port %d: %d of %d, "+
				"including %s.", v1alpha1.OperationsPort, len(silent), len(p.Pods), silent[0])
		}},
	{Reason: v1alpha1.ReasonProgressDeadlineExceeded, Stage: Degraded, State: isTrue, Event: warning,
		When:   "the newest servers don't become ready in time",
		Advice: "`kubectl describe deployment -n NAMESPACE POOL` shows details",
		Check: describeIf(func(p *pass) bool { return snapshot.IsStuck(p.Snapshot) },
			"The newest servers don't become ready.")},
	{Reason: v1alpha1.ReasonHealthy, Stage: Degraded, State: isFalse, When: "otherwise",
		Check: func(*pass) rule.Finding { return newFinding("No faults found.") }},
})

// serverFaults are asked about one server. The first server that one of them holds for counts, in
// order of their names.
var serverFaults = []Rule{
	{Reason: v1alpha1.ReasonNodeLost, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "the node of a server doesn't answer",
		Advice: "Repair it, or, if it is gone, delete it (`kubectl delete node " +
			"NODE`): the server is replaced at once then, and else after the tolerance for unreachable nodes",
		Check: checkNode},
	{Reason: v1alpha1.ReasonUnschedulable, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "no node can run a server", Advice: "Add nodes, or lower spec.replicas", Check: checkScheduled},
	{Reason: v1alpha1.ReasonUnschedulable, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When:   "no scheduler has looked at a server",
		Advice: "Run that scheduler, or change spec.template.schedulerName",
		Check:  checkClaimed},
	{Reason: v1alpha1.ReasonImagePullFailed, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "the image can't be pulled", Advice: "Correct spec.image, or make the image available to the nodes",
		Check: checkImage},
	{Reason: v1alpha1.ReasonStartFailed, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "the kubelet can't create a server's container", Advice: "Correct what it names", Check: checkContainer},
	{Reason: v1alpha1.ReasonStartFailed, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "a server's container isn't created in time",
		Advice: "`kubectl describe pod -n NAMESPACE SERVER` shows the cause, " +
			"such as a RuntimeClass that the node lacks. If Secret KEY_SECRET doesn't exist, create a new key: " +
			replaceKey, Check: checkCreation},
	{Reason: v1alpha1.ReasonStartFailed, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "a server's container can't start", Advice: "Correct what it names", Check: checkStart},
	{Reason: v1alpha1.ReasonCrashLoop, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "a server ran out of memory", Advice: "Lower spec.sessions.perPod and raise spec.replicas, or raise " +
			"spec.template.resources.limits.memory", Check: checkMemory},
	{Reason: v1alpha1.ReasonCrashLoop, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "a server can't start without the tokens of clients",
		Advice: "Add one to the Secret that spec.access.tokenSecretRef " +
			"names, or create it", Check: checkToken},
	{Reason: v1alpha1.ReasonCrashLoop, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "a server can't start without the files of a pack", Advice: createPack,
		Check: func(p *pass) rule.Finding {
			if ended := findEnd(p.faulty); ended != nil {
				return describeEmptyPack(p.Env, fmt.Sprintf("Server %s can't start", p.faulty.Name), ended.Message)
			}
			return rule.Finding{}
		}},
	{Reason: v1alpha1.ReasonCrashLoop, Stage: Degraded | ofServer, State: isTrue, Event: warning,
		When: "a server keeps ending",
		Advice: "Correct the error that it reports (`kubectl logs -n NAMESPACE SERVER --previous` " +
			"shows the full log)", Check: checkEnd},
}

func checkNode(p *pass) rule.Finding {
	node := pods.FindLostNode(p.faulty)
	return describeNumbers(node != "", "Node %s of server %s doesn't answer.", node, p.faulty.Name)
}

func checkClaimed(p *pass) rule.Finding {
	return describeNumbers(pods.IsUnclaimed(p.faulty) && p.Now.Sub(p.faulty.CreationTimestamp.Time) >=
		pods.CreationPatience, "Scheduler %s hasn't looked at server %s for more than %s.",
		p.faulty.Spec.SchedulerName, p.faulty.Name, pods.CreationPatience)
}

func checkScheduled(p *pass) rule.Finding {
	c := pods.FindCondition(p.faulty, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return rule.Finding{}
	}
	return p.addAdvice(pods.Scheduler, fmt.Sprintf("No node can run server %s.", p.faulty.Name),
		pods.QuoteMessage(c.Message))
}

func checkImage(p *pass) rule.Finding {
	waiting := pods.FindWaitingState(pods.FindContainerStatus(p.faulty, pods.ServerContainer))
	if !pods.ImagePullFailed(waiting) {
		return rule.Finding{}
	}
	return p.addAdvice(pods.Registry, fmt.Sprintf("Image %q of server %s can't be pulled.", p.Image, p.faulty.Name),
		pods.QuoteMessage(pods.DescribeWaiting(waiting)))
}

func checkContainer(p *pass) rule.Finding {
	waiting := pods.FindWaitingState(pods.FindContainerStatus(p.faulty, pods.ServerContainer))
	if !pods.CreationFailed(waiting) {
		return rule.Finding{}
	}
	words := pods.QuoteMessage(waiting.Message)
	if create := pods.HowToCreate(p.faulty, waiting.Message); create != "" {
		words += ". " + create + "."
	}
	return p.addAdvice(pods.Kubelet, fmt.Sprintf("Server %s can't be started.", p.faulty.Name), words)
}

func checkCreation(p *pass) rule.Finding {
	waiting := pods.FindWaitingState(pods.FindContainerStatus(p.faulty, pods.ServerContainer))
	scheduled := pods.FindCondition(p.faulty, corev1.PodScheduled)
	return describeNumbers(waiting.Reason == pods.ContainerCreating && scheduled != nil &&
		p.Now.Sub(scheduled.LastTransitionTime.Time) >= pods.CreationPatience,
		"The container of server %s hasn't been created for more than %s.", p.faulty.Name, pods.CreationPatience)
}

// findEnd returns how a server ended that isn't running again, or nil.
func findEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	status := pods.FindContainerStatus(pod, pods.ServerContainer)
	if status == nil || status.State.Running != nil && status.Started != nil && *status.Started {
		return nil
	}
	return pods.LastTerminated(status)
}

func checkStart(p *pass) rule.Finding {
	ended := findEnd(p.faulty)
	if ended == nil || !pods.HasNotStarted(*ended) {
		return rule.Finding{}
	}
	return p.addAdvice(pods.Kubelet, fmt.Sprintf("Server %s can't be started%s.", p.faulty.Name, limitMemory(p)),
		pods.QuoteMessage(ended.Message))
}

func checkMemory(p *pass) rule.Finding {
	ended := findEnd(p.faulty)
	return describeNumbers(ended != nil && ended.Reason == pods.OutOfMemory, "Server %s ran out of memory%s.",
		p.faulty.Name, limitMemory(p))
}

func limitMemory(p *pass) string { return pods.DescribeMemory(p.faulty, pods.ServerContainer) }

func checkToken(p *pass) rule.Finding {
	ended, token := findEnd(p.faulty), p.Env.Spec.Access.TokenSecretRef
	if ended == nil || token == nil || !strings.Contains(ended.Message, children.TokenFolder) {
		return rule.Finding{}
	}
	words := pods.QuoteMessage(nameObjects(p.Env, pods.LastWords(ended.Message)))
	return rule.Finding{What: fmt.Sprintf("Server %s can't start without a token under key %q of Secret %s.",
		p.faulty.Name, token.Key, token.Name),
		Detail: pods.CreateCommand("secret", token.Name, p.faulty.Namespace, token.Key) + ": " + words}
}

func checkEnd(p *pass) rule.Finding {
	ended := findEnd(p.faulty)
	if ended == nil {
		return rule.Finding{}
	}
	return quoteFinding(fmt.Sprintf("Server %s ended with exit code %d.", p.faulty.Name, ended.ExitCode),
		nameObjects(p.Env, pods.LastWords(ended.Message)))
}

// describeEmptyPack describes a pack that has no files, as a server reports, "" if there is
// none. Its volume is optional, so the server doesn't know whether the object exists.
func describeEmptyPack(env *v1alpha1.CustomerSupportEnv, consequence, says string) rule.Finding {
	for i, pack := range env.Spec.Scenarios.Packs {
		if !strings.Contains(says, children.NamePackFolder(i)+": no scenario files") {
			continue
		}
		kind, name := identifyPack(pack)
		return rule.Finding{
			What: fmt.Sprintf("%s: %s %s doesn't exist in namespace %s, or it has no scenario files.", consequence,
				kind,
				name, env.Namespace),
			Detail: pods.CreateFrom(strings.ToLower(kind), name, env.Namespace, "--from-file=FOLDER"),
		}
	}
	return rule.Finding{}
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
