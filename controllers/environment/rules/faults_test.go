package rules

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/envserver/score"
)

func stuck(d *appsv1.Deployment) {
	d.Status.UpdatedReplicas = 1
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
	}
}

func refused(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			Message: `pods "x" is forbidden: exceeded quota: small`},
	}
}

// lostNode makes a pod as the node controller marks it.
func lostNode(pod *corev1.Pod) {
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
}

func unclaimed(since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.CreationTimestamp, pod.Spec.SchedulerName, pod.Spec.NodeName = metav1.NewTime(noon.Add(-since)), "special", ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
}

func TestDegraded(t *testing.T) {
	t.Parallel()
	fault := func(reason, words string) wantCondition { return wantCondition{metav1.ConditionTrue, reason, words} }
	fine := wantCondition{metav1.ConditionFalse, v1alpha1.ReasonHealthy, "No faults"}
	broken := waiting("CrashLoopBackOff", "back-off 5m0s")
	tests := map[string]struct {
		edit func(*pass)
		want wantCondition
	}{
		"at rest":     {func(*pass) {}, fine},
		"nothing yet": {empty, fine},
		"full":        {full, fine},
		"a name is taken": {func(s *pass) { s.Taken = []children.ID{{Kind: children.KindService, Name: "support"}} },
			fault(v1alpha1.ReasonNameTaken, "Service support in namespace shop belongs to something else")},
		"an object is refused": {func(s *pass) { s.Err = errors.New("applying Deployment support: no\nway") },
			fault(v1alpha1.ReasonApplyFailed, "applying Deployment support: no way")},
		"no judge": {unjudged, fault(v1alpha1.ReasonJudgeNotReady, "model.test answered 401 Unauthorized")},
		"pods are refused": {withDeployment(refused), fault(v1alpha1.ReasonPodsRefused, "can't be created. Raise ResourceQuota "+
			"small, wait until others use less of it, or lower spec.replicas: pods \"x\" is forbidden: exceeded quota: small")},
		"an object isn't valid": {func(s *pass) {
			s.Err = errors.New(`applying Deployment support: Deployment.apps "support" is invalid: spec.template.spec`)
		}, fault(v1alpha1.ReasonApplyFailed, "tries again. Change spec.template as the message says: applying Deployment")},
		"a lost node": {withPod(server("support-c", lostNode)), fault(v1alpha1.ReasonNodeLost,
			"Node n1 of server support-c doesn't answer. Repair it, or, if it is gone, delete it")},
		"no scheduler": {withPod(server("support-c", unclaimed(2*time.Minute))), fault(v1alpha1.ReasonUnschedulable,
			"Scheduler special hasn't looked at server support-c for more than 2m0s. Run that scheduler, or change "+
				"spec.template.schedulerName")},
		"a scheduler that has time": {withPod(server("support-c", unclaimed(time.Minute))), fine},
		"a node selector": {withPod(server("support-c", waiting("", ""), scheduled(corev1.ConditionFalse, "Unschedulable",
			"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", 0))),
			fault(v1alpha1.ReasonUnschedulable, "change spec.template.nodeSelector: 0/1 nodes")},
		"a memory limit that is too low to start": {withPod(server("support-c", broken, ended("StartError", 128,
			"container init was OOM-killed (memory limit too low?)"))), fault(v1alpha1.ReasonStartFailed,
			"Server support-c can't be started, with a memory limit of 1Gi. Change spec.template.resources.limits.memory: ")},
		"no node": {withPod(server("support-c", waiting("", ""), scheduled(corev1.ConditionFalse, "Unschedulable",
			"0/3 nodes are available", 0))),
			fault(v1alpha1.ReasonUnschedulable, "No node can run server support-c. Add nodes, or lower spec.replicas: "+
				"0/3 nodes are available")},
		"no image": {withPod(server("support-c", waiting("ImagePullBackOff", "no such host"))),
			fault(v1alpha1.ReasonImagePullFailed,
				`Image "csenv:test" of server support-c can't be pulled. Check the registry's name, and that nodes reach and `+
					`trust it, or change spec.image: ImagePullBackOff: no such host`)},
		"an image that runs as root": {withPod(server("support-c",
			waiting("CreateContainerConfigError", "image will run as root"))),
			fault(v1alpha1.ReasonStartFailed, "support-c can't be started. Build the image with a numeric "+
				"USER other than 0, or change spec.template.securityContext.runAsUser: image will run as root")},
		"a missing Secret": {withPod(server("support-c",
			waiting("CreateContainerConfigError", `secret "judge" not found`))),
			fault(v1alpha1.ReasonStartFailed, "support-c can't be started. Correct what it names: secret \"judge\" not found. Create it: "+
				"`kubectl create secret generic judge -n shop --from-literal=")},
		"a container that is being created": {withPod(server("support-c", waiting("ContainerCreating", ""),
			scheduled(corev1.ConditionTrue, "", "", time.Minute))), fine},
		"a container that isn't created in time": {
			withPod(server("support-c", waiting("ContainerCreating", ""),
				scheduled(corev1.ConditionTrue, "", "", 3*time.Minute))),
			fault(v1alpha1.ReasonStartFailed, "If Secret "+keys.SecretName("support", "public")+" doesn't exist")},
		"a broken scenario": {withPod(server("support-c", broken,
			ended("Error", 2, "reading scenarios:\ntickets/B07.yaml:31: unknown key \"prioritiy\"\n"))),
			fault(v1alpha1.ReasonCrashLoop,
				`exit code 2. Correct the error that it reports (`+"`kubectl logs -n shop support-c --previous`"+
					` shows the full log): reading scenarios: tickets/B07.yaml:31: unknown key "prioritiy"`)},
		"a panic": {withPod(server("support-c", broken, ended("Error", 2, "log line\npanic: nil map\n\tgoroutine 1"))),
			fault(v1alpha1.ReasonCrashLoop, "shows the full log): panic: nil map goroutine 1")},
		"a silent end": {withPod(server("support-c", broken, ended("Error", 1, ""))),
			fault(v1alpha1.ReasonCrashLoop, "(no message)")},
		"out of memory": {withPod(server("support-c", broken, ended("OOMKilled", 137, ""))),
			fault(v1alpha1.ReasonCrashLoop, "ran out of memory, with a memory limit of 1Gi. Lower spec.sessions.perPod")},
		"up again after an end":   {withPod(server("support-c", unready, ended("Error", 1, "once"))), fine},
		"a terminating pod fails": {withPod(server("support-c", terminating, broken, ended("Error", 1, "late"))), fine},
		"a server doesn't answer": {func(s *pass) { delete(s.Reports, "support-b") },
			fault(v1alpha1.ReasonServersUnreachable, "on port 9000: 1 of 2, including support-b")},
		"a server that isn't ready doesn't answer": {withPod(server("support-c", unready)), fine},
		"a terminating server doesn't answer":      {withPod(server("support-c", terminating)), fine},
		"stuck": {withDeployment(stuck),
			fault(v1alpha1.ReasonProgressDeadlineExceeded, "kubectl describe deployment -n shop support")},
		"a pack is at fault": {func(s *pass) {
			s.Reports["support-a"] = score.Report{
				Packs: &score.Packs{Error: "tickets/B07.yaml:31: unknown key\ntickets/B08.yaml:2: no id"}}
		}, fault(v1alpha1.ReasonInvalidPack, "Correct the pack: tickets/B07.yaml:31: unknown key tickets/B08.yaml:2: no id")},
		"a pack is at fault for older servers": {func(s *pass) {
			outdated(&s.Pods[0])
			s.Reports["support-a"] = score.Report{Packs: &score.Packs{Error: "B07.yaml:31: unknown key"}}
		}, fine},
		"the packs are fine": {func(s *pass) {
			s.Reports["support-a"] = score.Report{Packs: &score.Packs{Digest: "sha256:new"}}
		}, fine},
		"held up by a full server": {func(s *pass) { full(s); withDeployment(stuck)(s) }, fine},
		"the cause precedes its consequences": {func(s *pass) {
			withDeployment(stuck)(s)
			withPod(server("support-c", waiting("ErrImagePull", "no such host")))(s)
		}, fault(v1alpha1.ReasonImagePullFailed, "no such host")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.check(t, evaluate(Degraded, healthy(tt.edit)))
		})
	}
}

// unjudged makes the judge of the first server unable to grade.
func unjudged(s *pass) {
	fault := report(0)
	fault.JudgeFault = "http://model.test answered\n401 Unauthorized"
	s.Reports[s.Pods[0].Name] = fault
}

// A server whose judge can't grade isn't ready. Others of the pool may be.
func TestAvailableWithoutAJudge(t *testing.T) {
	t.Parallel()
	none := func(s *pass) {
		unjudged(s)
		withDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 })(s)
	}
	wantCondition{metav1.ConditionFalse, v1alpha1.ReasonJudgeNotReady, "the judge can't grade"}.check(t,
		evaluate(Available, healthy(none)))
	wantCondition{metav1.ConditionTrue, v1alpha1.ReasonServersReady, "2 of 2"}.check(t, evaluate(Available, healthy(unjudged)))
}
