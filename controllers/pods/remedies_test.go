package pods_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/csenv/csenv/controllers/pods"
)

// The messages are those of Kubernetes 1.37, containerd and registries.
func TestAdvise(t *testing.T) {
	t.Parallel()
	const again = "delete the run and create it again with another spec.template."
	for _, tt := range []struct {
		from              pods.Source
		message           string
		server, runnerToo string // "" for the same
	}{
		{pods.APIServer, `pods "a-" is forbidden: no PriorityClass with name gold was found`,
			"Create PriorityClass gold, or change spec.template.priorityClassName",
			"Create PriorityClass gold, or " + again + "priorityClassName"},
		{pods.APIServer, `pods "a-" is forbidden: pod rejected: RuntimeClass "gvisor" not found`,
			"Create RuntimeClass gvisor, or change spec.template.runtimeClassName",
			"Create RuntimeClass gvisor, or " + again + "runtimeClassName"},
		{pods.APIServer, `pods "a-" is forbidden: error looking up service account lab/bot: serviceaccount "bot" not found`,
			"Create ServiceAccount lab/bot, or change spec.template.serviceAccountName",
			"Create ServiceAccount lab/bot, or " + again + "serviceAccountName"},
		{pods.APIServer, `pods "a-" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`,
			"Raise ResourceQuota small, wait until others use less of it, or lower spec.replicas",
			"Raise ResourceQuota small, wait until others use less of it, or lower spec.parallelism"},
		{pods.APIServer, `pods "a-" is forbidden: failed quota: small: must specify limits.cpu for: mesh`,
			"Let a LimitRange set the defaults that ResourceQuota small asks for, or change spec.template.resources",
			"Let a LimitRange set the defaults that ResourceQuota small asks for, or " + again + "resources"},
		{pods.APIServer, `insufficient quota to match these scopes: [{PriorityClass In [gold]}]`,
			"Create a ResourceQuota that covers them, or change spec.template.priorityClassName", ""},
		{pods.APIServer, `pods "a-" is forbidden: [minimum memory usage per Container is 2Gi, but request is 64Mi, maximum cpu ` +
			`usage per Container is 1, but limit is 2]`, "Change the namespace's LimitRange, or change spec.template.resources",
			"Change the namespace's LimitRange, or " + again + "resources"},
		{pods.APIServer, `pods "a-" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false ` +
			`(container "istio-init" must set ...)`, "enforce, which is restricted:latest now", ""},
		{pods.APIServer, `admission webhook "validate.kyverno.svc" denied the request: no label team`,
			"Do what webhook validate.kyverno.svc asks for", ""},
		{pods.APIServer, `Internal error occurred: failed calling webhook "a.b": connect: connection refused`,
			"Repair webhook a.b", ""},
		{pods.APIServer, `jobs.batch "a" is forbidden: ValidatingAdmissionPolicy 'teams' with binding 'all' denied request: no`,
			"Do what ValidatingAdmissionPolicy teams asks for, or change it", ""},
		{pods.APIServer, `namespaces "lab" is forbidden: unable to create new content in namespace lab because it is being ` +
			`terminated`, "use another namespace", ""},
		{pods.APIServer, `jobs.batch is forbidden: User "system:serviceaccount:c:m" cannot create resource "jobs"`,
			"Give system:serviceaccount:c:m its rights again", ""},
		{pods.APIServer, `Job.batch "a" is invalid: spec.template.spec.tolerations[0].operator: Invalid value: "Exist"`,
			"Change spec.template as the message says",
			"Delete the run and create it again with another spec.template as the message says"},
		{pods.APIServer, `no way`, "", ""},

		{pods.Scheduler, `0/2 nodes are available: 2 Insufficient memory. no new claims to deallocate, preemption: 0/2 nodes`,
			"Add nodes, lower spec.replicas, or change spec.template.resources",
			"Add nodes, lower spec.parallelism, or " + again + "resources"},
		{pods.Scheduler, `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector.`,
			"resources. Or: Label a node as nodeSelector and affinity ask for (`kubectl get nodes --show-labels`), or change " +
				"spec.template.nodeSelector", ""},
		{pods.Scheduler, `0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.`,
			"or change spec.template.affinity", "or " + again + "affinity"},
		{pods.Scheduler, `0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.`,
			"change spec.template.topologySpreadConstraints", ""},
		{pods.Scheduler, `0/1 nodes are available: 1 node(s) had untolerated taint(s).`, "change spec.template.tolerations",
			again + "tolerations"},
		{pods.Scheduler, `0/1 nodes are available: 1 node(s) were unschedulable.`, "Uncordon a node", ""},
		{pods.Scheduler, `0/1 nodes are available: persistentvolumeclaim "data" not found.`,
			"Create PersistentVolumeClaim data", ""},
		{pods.Scheduler, `0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.`,
			"Correct the claim's StorageClass", ""},
		{pods.Scheduler, `0/2 nodes are available: 2 node(s) had volume node affinity conflict.`, "Use a volume", ""},
		{pods.Scheduler, `no nodes available to schedule pods`, "Add nodes", ""},

		{pods.Registry, `InvalidImageName: Failed to apply default image tag "A": couldn't parse image name`,
			"Change spec.image", "Correct the operator's image"},
		{pods.Registry, `ErrImageNeverPull: Container image "csenv:x" is not present with pull policy of Never`,
			"Load the image onto the nodes", ""},
		{pods.Registry, `ErrImagePull: rpc error: failed to resolve reference "r.example/x:1": r.example/x:1: not found`,
			"Push the image, or change spec.image", "Push the image, or correct the operator's image"},
		{pods.Registry, `ErrImagePull: pull access denied, repository does not exist or may require authorization: ` +
			`authorization failed`, "imagePullSecrets names", ""},
		{pods.Registry, `ErrImagePull: failed to fetch oauth token: 401 Unauthorized`, "kubectl create secret docker-registry", ""},
		{pods.Registry, `ErrImagePull: dial tcp: lookup nosuch.example: no such host`, "Check the registry's name", ""},
		{pods.Registry, `ErrImagePull: tls: failed to verify certificate: x509: unknown authority`, "reach and trust it", ""},
		{pods.Registry, `ErrImagePull: 429 Too Many Requests - toomanyrequests: rate limit`, "Wait, or give a pull Secret", ""},
		{pods.Registry, `ErrImagePull: no match for platform in manifest: not found`, "for the node's architecture", ""},

		{pods.Kubelet, `CreateContainerConfigError: container has runAsNonRoot and image will run as root`,
			"securityContext.runAsUser", ""},
		{pods.Kubelet, `StartError: OCI runtime create failed: container init was OOM-killed (memory limit too low?)`,
			"Change spec.template.resources.limits.memory",
			"Delete the run and create it again with another spec.template.resources.limits.memory"},
		{pods.Kubelet, `StartError: failed to start containerd task: cannot start a stopped process: unknown`,
			"resources.limits.memory", ""},
		{pods.Kubelet, `StartError: exec: "/envserver": stat /envserver: no such file or directory`, "change spec.image", ""},
		{pods.Kubelet, `StartError: exec /envserver: exec format error`, "for the node's architecture", ""},
	} {
		if got := pods.Advise(pods.Server, tt.from, tt.message); !strings.Contains(got, tt.server) ||
			(got == "") != (tt.server == "") {
			t.Errorf("%s: a pool is advised %q, want %q", tt.message, got, tt.server)
		}
		got := pods.Advise(pods.Runner, tt.from, tt.message)
		if !strings.Contains(got, tt.runnerToo) || strings.Contains(got, "change spec") || strings.Contains(got, "Change spec") {
			t.Errorf("%s: a run is advised %q, want %q", tt.message, got, tt.runnerToo)
		}
	}
}

// What is wrong with the container of an agent is corrected there.
func TestAgentsAreChangedInTheirOwnField(t *testing.T) {
	t.Parallel()
	const again = "elete the run and create it again with another spec.agent.container."
	for message, want := range map[string]string{"StartError: exec: \"/agent\": executable file not found": again + "image",
		pods.OutOfMemory: again + "resources.limits.memory"} {
		if got := pods.Advise(pods.Agent, pods.Kubelet, message); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

func TestFindLostNode(t *testing.T) {
	t.Parallel()
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason}
	}
	running := condition(corev1.ContainersReady, corev1.ConditionTrue, "")
	for name, tt := range map[string]struct {
		phase      corev1.PodPhase
		conditions []corev1.PodCondition
		want       string
	}{
		"new":        {corev1.PodPending, nil, ""},
		"ready":      {corev1.PodRunning, []corev1.PodCondition{condition(corev1.PodReady, "True", ""), running}, ""},
		"lost":       {corev1.PodRunning, []corev1.PodCondition{condition(corev1.PodReady, "False", ""), running}, "n1"},
		"lost ended": {corev1.PodFailed, []corev1.PodCondition{condition(corev1.PodReady, "False", ""), running}, ""},
		"not ready": {corev1.PodRunning, []corev1.PodCondition{condition(corev1.PodReady, "False", "ContainersNotReady"),
			condition(corev1.ContainersReady, "False", "ContainersNotReady")}, ""},
		"a gate": {corev1.PodRunning, []corev1.PodCondition{condition(corev1.PodReady, "False", "ReadinessGatesNotReady"),
			running}, ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: tt.phase, Conditions: tt.conditions}}
		if got := pods.FindLostNode(pod); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestDescribeMemory(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("64Mi")}}}, {Name: "b"}}}}
	for name, want := range map[string]string{"a": ", with a memory limit of 64Mi", "b": "", "c": ""} {
		if got := pods.DescribeMemory(pod, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
