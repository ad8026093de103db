package pods

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Source is who says why a pod doesn't run.
type Source string

// The sources.
const (
	APIServer Source = "API server"
	Scheduler Source = "scheduler"
	Registry  Source = "kubelet, about an image"
	Kubelet   Source = "kubelet, about a container"
)

// Owner is what a pod belongs to: how its spec is changed.
type Owner struct{ number, image, change, container string }

const createAgain = "delete the run and create it again with another "

// The owners. A pool's pods follow its spec. What a run's pods are made of can't be changed.
var (
	Server = Owner{number: "lower spec.replicas", image: "change spec.image", change: "change ",
		container: "spec.template"}
	Runner = Owner{number: "lower spec.parallelism", image: "correct the operator's image, which runners use",
		change: createAgain, container: "spec.template"}
	Agent = Owner{number: Runner.number, image: createAgain + "spec.agent.container.image", change: createAgain,
		container: "spec.agent.container"}
)

// Write returns an advice, which has NUMBER, IMAGE, TEMPLATE and CONTAINER for changes of the
// owner's spec.
func (o Owner) Write(advice string) string {
	return strings.NewReplacer("NUMBER", o.number, "IMAGE", o.image, "TEMPLATE", o.change+"spec.template",
		"CONTAINER", o.change+o.container).Replace(advice)
}

// Remedy is what people do about a message of a source.
type Remedy struct {
	From  Source
	Cause string // for people
	words *regexp.Regexp
	// Advice is a sentence without its full stop. $1 is what the message names.
	Advice string
}

// Remedies are what is known about the messages of the sources. Of a source, the first that
// matches a message counts; of the scheduler, which gives a reason for each node, all do.
var Remedies = []Remedy{
	newRemedy(APIServer, `no PriorityClass with name (\S+) was found`, "the PriorityClass doesn't exist",
		"Create PriorityClass $1, or TEMPLATE.priorityClassName"),
	newRemedy(APIServer, `RuntimeClass "([^"]+)" not found`, "the RuntimeClass doesn't exist",
		"Create RuntimeClass $1, or TEMPLATE.runtimeClassName"),
	newRemedy(APIServer, `error looking up service account ([^:\s]+)`, "the ServiceAccount doesn't exist",
		"Create ServiceAccount $1, or TEMPLATE.serviceAccountName"),
	newRemedy(APIServer, `exceeded quota: ([^,\s]+)`, "a quota is used up",
		"Raise ResourceQuota $1, wait until others use less of it, or NUMBER"),
	newRemedy(APIServer, `failed quota: ([^:\s]+): must specify`, "a quota asks for requests or limits",
		"Let a LimitRange set the defaults that ResourceQuota $1 asks for, or CONTAINER.resources"),
	newRemedy(APIServer, `insufficient quota to (?:match these scopes|consume)`, "no quota covers the pods",
		"Create a ResourceQuota that covers them, or TEMPLATE.priorityClassName"),
	newRemedy(APIServer, `(?:maximum|minimum) \S+ usage per|limit to request ratio per`,
		"a LimitRange excludes the requests or limits",
		"Change the namespace's LimitRange, or CONTAINER.resources"),
	newRemedy(APIServer, `violates PodSecurity "([^"]+)"`, "the namespace enforces a Pod Security Standard",
		"csenv's own containers meet the level restricted: have the sidecar that is added to the pods left out, "+
			"or admit it by the namespace's label pod-security.kubernetes.io/enforce, which is $1 now"),
	newRemedy(APIServer, `admission webhook "([^"]+)" denied`, "an admission webhook denies it",
		"Do what webhook $1 asks for, or have it admit csenv's objects"),
	newRemedy(APIServer, `failed calling webhook "([^"]+)"`, "an admission webhook doesn't answer",
		"Repair webhook $1, or have its failurePolicy ignore failures"),
	newRemedy(APIServer, `ValidatingAdmissionPolicy '([^']+)'`, "an admission policy denies it",
		"Do what ValidatingAdmissionPolicy $1 asks for, or change it"),
	newRemedy(APIServer, `because it is being terminated`, "the namespace is being deleted",
		"Nothing can be created in it: use another namespace"),
	newRemedy(APIServer, `User "([^"]+)" cannot`, "the operator lacks a right",
		"Give $1 its rights again: install csenv's roles of this release"),
	newRemedy(APIServer, ` is invalid: `, "a value of the template isn't valid",
		"TEMPLATE as the message says"),
	newRemedy(Scheduler, `node\.kubernetes\.io/(?:unreachable|not-ready|out-of-service|network-unavailable)`,
		"nodes don't answer", "Repair the nodes that aren't ready (`kubectl get nodes`)"),
	newRemedy(Scheduler, `were unschedulable|node\.kubernetes\.io/unschedulable`, "nodes are cordoned",
		"Uncordon a node (`kubectl uncordon NODE`)"),
	newRemedy(Scheduler, `Insufficient \S+|Too many pods|no nodes available|didn't have free ports`,
		"the nodes are full", "Add nodes, NUMBER, or CONTAINER.resources"),
	newRemedy(Scheduler, `node affinity/selector`, "no node has the labels",
		"Label a node as nodeSelector and affinity ask for (`kubectl get nodes --show-labels`), or "+
			"TEMPLATE.nodeSelector"),
	newRemedy(Scheduler, `pod affinity rules|anti-affinity rules`, "affinity to other pods excludes every node",
		"Add nodes, NUMBER, or TEMPLATE.affinity"),
	newRemedy(Scheduler, `topology spread constraints`, "spread constraints exclude every node",
		"Add or label nodes, or TEMPLATE.topologySpreadConstraints"),
	newRemedy(Scheduler, `untolerated taint|taints that the pod didn't tolerate`, "taints aren't tolerated",
		"Repair a node that isn't ready, remove the taint from one (`kubectl describe nodes`), or "+
			"TEMPLATE.tolerations"),
	newRemedy(Scheduler, `persistentvolumeclaim "([^"]+)" not found`, "the volume claim doesn't exist",
		"Create PersistentVolumeClaim $1, or TEMPLATE.volumes"),
	newRemedy(Scheduler, `unbound immediate PersistentVolumeClaims|storageclass\S* "?[^"]*"? not found|non-existent pv`,
		"a volume claim isn't bound", "Correct the claim's StorageClass, or create a volume for it (`kubectl "+
			"describe pvc` shows what it waits for)"),
	newRemedy(Scheduler, `volume node affinity conflict|no available volume zone|max volume count|ReadWriteOncePod`,
		"the volume can't be used on a node", "Use a volume that the nodes can mount, and that several pods "+
			"can, if there are several"),
	newRemedy(Registry, `InvalidImageName|[cC]ouldn't parse image|invalid reference format`, "the name isn't valid",
		"IMAGE"),
	newRemedy(Registry, `ErrImageNeverPull|is not present with pull policy of Never`,
		"the node lacks the image, and may not pull it",
		"Load the image onto the nodes, or TEMPLATE.imagePullPolicy"),
	newRemedy(Registry, `(?i)toomanyrequests|429|rate limit`, "the registry limits pulls",
		"Wait, or give a pull Secret: TEMPLATE.imagePullSecrets"),
	newRemedy(Registry, `(?i)unauthorized|authentication required|authorization failed|no basic auth|access denied|`+
		`\b403\b`,
		"the registry refuses the credentials, or there are none",
		"Correct the Secret that imagePullSecrets names or add it to the pods' ServiceAccount (`kubectl create "+
			"secret docker-registry`), or, if the image has another name, IMAGE"),
	newRemedy(Registry, `(?i)no match for platform|exec format`, "the image is of another architecture",
		"Build the image for the node's architecture, or TEMPLATE.nodeSelector"),
	newRemedy(Registry, `(?i)not found|manifest unknown|name unknown|does not exist`, "the registry has no such image",
		"Push the image, or IMAGE"),
	newRemedy(Registry, `(?i)no such host|timeout|timed out|deadline exceeded|connection refused|unreachable|x509|`+
		`tls:|server misbehaving|connection reset`, "the node can't reach the registry",
		"Check the registry's name, and that nodes reach and trust it, or IMAGE"),
	newRemedy(Kubelet, `will run as root|non-numeric user|non-root`, "the image runs as root",
		"Build the image with a numeric USER other than 0, or TEMPLATE.securityContext.runAsUser"),
	newRemedy(Kubelet, `(?i)OOM-?killed|memory limit too low|stopped process`, "the memory limit is too low",
		"CONTAINER.resources.limits.memory"),
	newRemedy(Kubelet, `executable file not found|no such file or directory`, "the image has no such program",
		"It isn't the image that is meant: IMAGE"),
	newRemedy(Kubelet, `exec format error`, "the image is of another architecture",
		"Build the image for the node's architecture, or TEMPLATE.nodeSelector"),
}

func newRemedy(from Source, words, cause, advice string) Remedy {
	return Remedy{from, cause, regexp.MustCompile(words), advice}
}

// Advise returns what to do about a message of a source, a sentence without its full stop, "" if
// nothing is known.
func Advise(owner Owner, from Source, message string) string {
	var advices []string
	for _, r := range Remedies {
		match := r.words.FindStringSubmatchIndex(message)
		if r.From != from || match == nil {
			continue
		}
		advice := string(r.words.ExpandString(nil, r.Advice, message, match))
		advices = append(advices, owner.Write(advice))
		if from != Scheduler {
			break
		}
	}
	return capitalize(strings.Join(advices, ". Or: "))
}

func capitalize(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// DescribeMemory returns the memory limit of a pod's container for a message, "" without one.
func DescribeMemory(pod *corev1.Pod, container string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if limit, has := c.Resources.Limits[corev1.ResourceMemory]; c.Name == container && has {
			return ", with a memory limit of " + limit.String()
		}
	}
	return ""
}

// OutOfMemory is why a container ended that exceeded its memory limit.
const OutOfMemory = "OOMKilled"

// HasNotStarted reports whether a container ended before its program ran.
func HasNotStarted(end corev1.ContainerStateTerminated) bool {
	return end.Reason == "StartError" || end.Reason == "ContainerCannotRun"
}

// pullFailed is the reason of a container whose image was not pulled.
const pullFailed = "ErrImagePull"

// DescribeWaiting is the kubelet's reason and message for a container that waits.
func DescribeWaiting(waiting corev1.ContainerStateWaiting) string {
	if waiting.Message == "" {
		return waiting.Reason
	}
	if _, cause, found := strings.Cut(waiting.Message, pullFailed+": "); found {
		return pullFailed + ": " + cause // the state alternates between the failure and the wait after it
	}
	return waiting.Reason + ": " + waiting.Message
}

// FindLostNode returns the node of a pod that doesn't answer, "" if it does: the node controller
// says of such a pod that it isn't ready, although its containers are. The kubelet and readiness
// gates give a reason.
func FindLostNode(pod *corev1.Pod) string {
	ready, containers := FindCondition(pod, corev1.PodReady), FindCondition(pod, corev1.ContainersReady)
	if ready == nil || ready.Status == corev1.ConditionTrue || ready.Reason != "" || containers == nil ||
		containers.Status != corev1.ConditionTrue || HasEnded(pod) {
		return ""
	}
	return pod.Spec.NodeName
}

// IsUnclaimed reports whether no scheduler has looked at the pod yet.
func IsUnclaimed(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName != "" && pod.Spec.NodeName == "" && pod.Status.Phase == corev1.PodPending &&
		FindCondition(pod, corev1.PodScheduled) == nil
}
