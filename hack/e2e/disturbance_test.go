//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

// closely is the polling interval of specs that wait for the moment to kill a manager, which takes
// about 100 ms to count a shard.
const closely = 20 * time.Millisecond

// shards is the number of shards of the disturbed run.
const shards = 8

// disturbance is something that happens to a run under way. Three episodes of each shard are played
// before it, and the model keeps the others until it is over.
type disturbance struct {
	name string
	do   func(ctx SpecContext, evalrun string, held *hold)
	// warnings are the reasons of the warnings that the run may have. An ordinary operation has
	// none.
	warnings []string
}

// disturbances are what a run must outlive with the figures of an undisturbed one. A further one is
// a row here.
var disturbances = []disturbance{
	{name: "two runners are deleted", do: func(ctx SpecContext, evalrun string, _ *hold) {
		deletePods(ctx, podsOf(ctx, evalrun)[:2])
	}},
	{name: "all runners are deleted by force", do: func(ctx SpecContext, evalrun string, _ *hold) {
		deletePods(ctx, podsOf(ctx, evalrun), client.GracePeriodSeconds(0))
	}},
	{name: "all runners are evicted", do: func(ctx SpecContext, evalrun string, _ *hold) {
		for _, pod := range podsOf(ctx, evalrun) {
			Expect(k8s.SubResource("eviction").Create(ctx, &pod, &policyv1.Eviction{})).To(Succeed())
		}
	}},
	{name: "the Job is deleted", do: func(ctx SpecContext, evalrun string, _ *hold) {
		kubectl(ctx, "-n", namespace, "delete", "job", evalrun, timeout)
	}},
	{name: "the run is suspended and resumed with fewer runners", do: func(ctx SpecContext, evalrun string, held *hold) {
		patch(ctx, "evalrun", evalrun, `{"spec":{"suspend":true}}`)
		Eventually(ctx, held.kept.Load).Should(BeZero(), "requests whose runner has left")
		patch(ctx, "evalrun", evalrun, `{"spec":{"suspend":false,"parallelism":3}}`)
	}},
	{name: "the quota allows no pods for a while", warnings: []string{v1alpha1.ReasonRunnersRefused},
		do: func(ctx SpecContext, evalrun string, _ *hold) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
			Expect(k8s.Create(ctx, quota)).To(Succeed())
			deletePods(ctx, podsOf(ctx, evalrun))
			Eventually(ctx, conditionsOf).WithArguments(evalrun).Should(ContainElement(haveReason(
				v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonRunnersRefused)))
			Expect(k8s.Delete(ctx, quota)).To(Succeed())
		}},
	{name: "a server is deleted", do: func(ctx SpecContext, _ string, _ *hold) {
		deletePods(ctx, serversOf(ctx, "support")[:1])
	}},
	{name: "all servers are deleted by force", do: func(ctx SpecContext, _ string, _ *hold) {
		deletePods(ctx, serversOf(ctx, "support"), client.GracePeriodSeconds(0))
	}},
	{name: "the servers are replaced", do: func(ctx SpecContext, _ string, _ *hold) {
		patch(ctx, "cse", "support", `{"spec":{"template":{"annotations":{"example.com/rolled-out":"true"}}}}`)
	}},
	{name: "the pool is scaled down and up", do: func(ctx SpecContext, _ string, _ *hold) {
		kubectl(ctx, "-n", namespace, "scale", "cse", "support", "--replicas=1")
		Eventually(ctx, wanted).WithArguments("support").Should(BeEquivalentTo(1))
		kubectl(ctx, "-n", namespace, "scale", "cse", "support", "--replicas=2")
	}},
	{name: "all ConfigMaps are deleted", do: func(ctx SpecContext, _ string, _ *hold) {
		kubectl(ctx, "-n", namespace, "delete", "configmaps", "--all")
	}},
	{name: "the credential is deleted, and all runners", do: func(ctx SpecContext, evalrun string, _ *hold) {
		kubectl(ctx, "-n", namespace, "delete", "secret", runner.NameCredential(runNamed(ctx, evalrun)))
		deletePods(ctx, podsOf(ctx, evalrun))
	}},
	{name: "the ledger key's Secret is deleted, and all servers", do: func(ctx SpecContext, _ string, _ *hold) {
		name := keys.SecretName("support", poolNamed(ctx, "support").Status.LedgerPublicKey)
		kubectl(ctx, "-n", namespace, "delete", "secret", name)
		Eventually(ctx, func() bool {
			return exists(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		}).Should(BeTrue(), "the Secret is there again")
		deletePods(ctx, serversOf(ctx, "support"))
	}},
	{name: "the figures in the status are edited", do: func(ctx SpecContext, evalrun string, _ *hold) {
		kubectl(ctx, "-n", namespace, "patch", "evalrun", evalrun, "--subresource=status", "--type=merge", "-p",
			`{"status":{"passRate":"1.0000","progress":"400/400"}}`)
	}},
	{name: "managers are killed while they count", do: killManagers},
	{name: "the API server is killed", do: killing("kube-apiserver")},
	{name: "etcd is killed", do: killing("etcd")},
	{name: "the Job controller and the scheduler are killed", do: killing("kube-controller-manager", "kube-scheduler")},
	{name: "the node is rebooted", do: func(ctx SpecContext, _ string, _ *hold) {
		skipUnlessLocal()
		for _, pid := range processesWith("kubelet", "environ", "CSENV_CLUSTER_STATE="+stateFolder(ctx)+"\x00") {
			Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
		stream(ctx, clusterTool, "up", "--nodes", nodes()) // which ends all pods first
	}},
	{name: "the nodes are cordoned, and all runners deleted", warnings: []string{v1alpha1.ReasonUnschedulable},
		do: func(ctx SpecContext, evalrun string, _ *hold) {
			kubectl(ctx, "cordon", "--selector=kubernetes.io/os")
			DeferCleanup(kubectl, "uncordon", "--selector=kubernetes.io/os")
			deletePods(ctx, podsOf(ctx, evalrun))
			Eventually(ctx, conditionsOf).WithArguments(evalrun).Should(ContainElement(haveReason(
				v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)))
			kubectl(ctx, "uncordon", "--selector=kubernetes.io/os")
		}},
	{name: "a webhook that doesn't answer refuses pods for a while", warnings: []string{v1alpha1.ReasonRunnersRefused},
		do: func(ctx SpecContext, evalrun string, _ *hold) {
			apply(ctx, deadWebhook)
			DeferCleanup(kubectl, "delete", "validatingwebhookconfiguration", "dead", "--ignore-not-found")
			deletePods(ctx, podsOf(ctx, evalrun))
			Eventually(ctx, conditionsOf).WithArguments(evalrun).Should(ContainElement(haveReason(
				v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonRunnersRefused, "dead.example.com")))
			kubectl(ctx, "delete", "validatingwebhookconfiguration", "dead")
		}},
	{name: "another field manager suspends the Job", do: func(ctx SpecContext, evalrun string, _ *hold) {
		kubectl(ctx, "-n", namespace, "patch", "job", evalrun, "--field-manager=other", "-p",
			`{"spec":{"suspend":true,"parallelism":1}}`)
		job := &batchv1.Job{}
		Eventually(ctx, func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: evalrun}, job)).To(Succeed())
			g.Expect(job.Spec.Suspend).NotTo(HaveValue(BeTrue()))
			g.Expect(job.Spec.Parallelism).To(HaveValue(BeEquivalentTo(shards)))
		}).Should(Succeed())
	}},
	{name: "the pool's status is edited", do: func(ctx SpecContext, _ string, _ *hold) {
		kubectl(ctx, "-n", namespace, "patch", "cse", "support", "--subresource=status", "--type=merge", "-p",
			`{"status":{"readyReplicas":0,"tasks":null,"conditions":null,"scenarioDigest":"sha256:00","graderVersion":"0"}}`)
	}},
	{name: "the run is deleted and created again", do: func(ctx SpecContext, evalrun string, _ *hold) {
		recreate(ctx, evalrun, func() { kubectl(ctx, "-n", namespace, "delete", "evalrun", evalrun, timeout) })
	}},
	{name: "the servers' image can't be pulled for a while", do: func(ctx SpecContext, _ string, _ *hold) {
		patch(ctx, "cse", "support", `{"spec":{"image":"nosuch.example/x:1"}}`)
		Eventually(ctx, poolNamed).WithArguments("support").Should(HaveField("Status.Conditions", ContainElement(
			haveReason(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed))))
		patch(ctx, "cse", "support", `{"spec":{"image":null}}`)
	}},
	{name: "the processes of a server and of a runner are killed, as for memory",
		do: func(ctx SpecContext, evalrun string, _ *hold) {
			skipUnlessLocal()
			Expect(kill(serversOf(ctx, "support")[0], "envserver")).To(BeTrue())
			Expect(kill(podsOf(ctx, evalrun)[0], "runner")).To(BeTrue())
		}},
	{name: "servers and runners stand still for 20 seconds", do: func(ctx SpecContext, evalrun string, _ *hold) {
		skipUnlessLocal()
		stopped := serversOf(ctx, "support")
		stopped = append(stopped, podsOf(ctx, evalrun)...)
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			for _, pod := range stopped {
				for _, pid := range processesIn(string(pod.UID), "") {
					_ = syscall.Kill(pid, signal)
				}
			}
			if signal == syscall.SIGSTOP {
				pause(ctx, 20*time.Second)
			}
		}
	}},
	{name: "the operator has no rights for a while, and all runners are deleted",
		do: func(ctx SpecContext, evalrun string, _ *hold) {
			kubectl(ctx, "delete", "clusterrolebinding", "csenv-manager")
			DeferCleanup(installOperator)
			deletePods(ctx, podsOf(ctx, evalrun))
			installOperator(ctx) // with the CRDs
		}},
	{name: "the pool's Services, policies and budget are deleted", do: func(ctx SpecContext, _ string, _ *hold) {
		kubectl(ctx, "-n", namespace, "delete", "services,networkpolicies,poddisruptionbudgets", "-l",
			v1alpha1.LabelEnvironment+"=support")
	}},
	// Nobody counts such runners, so what they had begun looks like another client's.
	{name: "the runners' finalizers are removed, and they are deleted",
		warnings: []string{v1alpha1.ReasonEpisodesReplayed, v1alpha1.ReasonUnreportedAttempts},
		do: func(ctx SpecContext, evalrun string, _ *hold) {
			for _, pod := range podsOf(ctx, evalrun) {
				pod.Finalizers = nil
				Expect(k8s.Update(ctx, &pod)).To(Succeed())
			}
			deletePods(ctx, podsOf(ctx, evalrun), client.GracePeriodSeconds(0))
		}},
	{name: "the node evicts all pods", do: func(ctx SpecContext, _ string, _ *hold) {
		kubectl(ctx, "taint", "nodes", "--all", "example.com/out=:NoExecute")
		pause(ctx, 5*time.Second)
		kubectl(ctx, "taint", "nodes", "--all", "example.com/out-")
	}},
	{name: "the namespace is deleted, and all in it created again", do: func(ctx SpecContext, evalrun string, _ *hold) {
		recreate(ctx, evalrun, func() {
			createNamespace(ctx)
			createModelKey(ctx)
			createSupport(ctx)
		})
	}},
}

var _ = Describe("A disturbed run", Ordered, ContinueOnFailure, func() {
	inNamespace("csenv-e2e-disturbance")
	tasks := []string{task("ticket-classify", 10)}
	spec := []string{"seed: 11", fmt.Sprintf("parallelism: %d", shards), "concurrency: 4",
		"retries: {shardBackoffLimit: 5, maxErroredPercent: 0}"}
	var peace *v1alpha1.EvaluationRun

	BeforeAll(func(ctx SpecContext) {
		createModelKey(ctx)
		createSupport(ctx)
		apply(ctx, serveModel(ctx).runManifest("undisturbed", "support", tasks, spec...))
		peace = awaitComplete(ctx, "undisturbed")
		Expect(peace.Status.Shards.Total).To(BeEquivalentTo(shards))
	}, NodeTimeout(specBound))

	for i, d := range disturbances {
		It("has the figures of an undisturbed one: "+d.name, func(ctx SpecContext) {
			name, model := fmt.Sprintf("disturbed-%d", i), serveModel(ctx)
			held := model.hold(func(p place) bool { return p.episode >= 3 })
			apply(ctx, model.runManifest(name, "support", tasks, spec...))
			held.await(ctx, name)
			d.do(ctx, name, held)
			Expect(over(ctx, name)).To(BeFalse())
			held.release()
			expectFigures(awaitEnd(ctx, name), peace)
			Expect(model.wrong()).To(BeEmpty())
			Expect(slices.DeleteFunc(warningsOf(ctx, name), func(reason string) bool {
				return slices.Contains(d.warnings, reason)
			})).To(BeEmpty(), "warnings of the run")
			Eventually(ctx, func(g Gomega) {
				g.Expect(podsOf(ctx, name)).To(Or(BeEmpty(), HaveEach(HaveField("Finalizers", BeEmpty()))))
			}).Should(Succeed())
			awaitServers(ctx, "support", 2)
		}, SpecTimeout(specBound+chaosTimeout))
	}
})

var _ = Describe("A pool that is scaled up and down at once", Ordered, func() {
	inNamespace("csenv-e2e-flaps")
	It("has no server left after a minute", func(ctx SpecContext) {
		apply(ctx, pooled("flapping", "replicas: 0"))
		for range 10 {
			kubectl(ctx, "-n", namespace, "scale", "cse", "flapping", "--replicas=10")
			Eventually(ctx, func() []corev1.Pod { return serversOf(ctx, "flapping") }).WithPolling(closely).ShouldNot(BeEmpty())
			kubectl(ctx, "-n", namespace, "scale", "cse", "flapping", "--replicas=0")
		}
		Eventually(ctx, func() []string { return podNames(serversOf(ctx, "flapping")) }).WithTimeout(time.Minute).Should(
			BeEmpty())
	}, SpecTimeout(specBound))
})

// expectFigures compares all figures of a disturbed run with those of the undisturbed one.
func expectFigures(war, peace *v1alpha1.EvaluationRun) {
	GinkgoHelper()
	w, p := war.Status, peace.Status
	Expect(w.Episodes.Errored).To(BeZero())
	Expect([]int64{w.Episodes.Total, w.Episodes.Scored, w.Episodes.Failed}).To(Equal(
		[]int64{p.Episodes.Total, p.Episodes.Scored, p.Episodes.Failed}))
	Expect(w.Shards.CompletedIndexes).To(Equal(p.Shards.CompletedIndexes))
	Expect(w.Score).To(Equal(p.Score))
	Expect(w.PassRate).To(Equal(p.PassRate))
	Expect(w.PassRateCI95).To(Equal(p.PassRateCI95))
	Expect(w.PassHatK).To(Equal(p.PassHatK))
	Expect(w.Tasks).To(Equal(p.Tasks))
	Expect(w.Categories).To(Equal(p.Categories))
	Expect(w.Difficulties).To(Equal(p.Difficulties))
	Expect(w.Languages).To(Equal(p.Languages))
}

// warningsOf lists the reasons of the warnings of a run.
func warningsOf(ctx SpecContext, evalrun string) (reasons []string) {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(k8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "EvaluationRun" && e.InvolvedObject.Name == evalrun && e.Type == corev1.EventTypeWarning {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// createSupport creates the pool of the disturbed runs.
func createSupport(ctx SpecContext) {
	GinkgoHelper()
	apply(ctx, pooled("support", "replicas: 2", "drainTimeoutSeconds: 30"))
	awaitPool(ctx, "support")
}

// recreate creates a run again after lose has deleted it.
func recreate(ctx SpecContext, evalrun string, lose func()) {
	GinkgoHelper()
	run := runNamed(ctx, evalrun)
	lose()
	run.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: evalrun}
	Expect(k8s.Create(ctx, run)).To(Succeed())
}

// deadWebhook is asked about each new pod of the suite's namespaces, and has no server.
const deadWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: dead}
webhooks:
- name: dead.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  namespaceSelector: {matchLabels: {pod-security.kubernetes.io/enforce: restricted}}
  clientConfig: {service: {namespace: default, name: dead}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`

// killing kills processes of the control plane, which are started again at once.
func killing(programs ...string) func(SpecContext, string, *hold) {
	return func(ctx SpecContext, _ string, _ *hold) {
		skipUnlessLocal()
		for _, program := range programs {
			restart(ctx, program)
		}
	}
}

func skipUnlessLocal() {
	if !local {
		Skip("the processes of the cluster are not on this machine")
	}
}

// deletePods deletes pods, some of which may be gone.
func deletePods(ctx SpecContext, pods []corev1.Pod, options ...client.DeleteOption) {
	GinkgoHelper()
	for _, pod := range pods {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, &pod, options...))).To(Succeed())
	}
}

// killManagers kills the manager of a run under way, has half of the shards end while there is
// none, and kills the managers that count them.
func killManagers(ctx SpecContext, evalrun string, held *hold) {
	GinkgoHelper()
	k := &killer{dead: map[string]bool{}}
	k.strike(ctx, func() bool { return true })
	scaleManager(ctx, 0)
	DeferCleanup(scaleManager, 1)
	held.keepOnly(func(p place) bool { return p.shard >= shards/2 })
	Eventually(ctx, uncounted).WithArguments(evalrun).Should(ConsistOf("0", "1", "2", "3"))
	Expect(counted(ctx, evalrun)).To(BeEmpty())
	scaleManager(ctx, 1)
	k.strike(ctx, func() bool { return counted(ctx, evalrun) != "" })
	AddReportEntry("killed with these shards counted", counted(ctx, evalrun))
	k.strike(ctx, func() bool { return counted(ctx, evalrun) == "0-3" })
	if local {
		Expect(k.hits).To(BeNumerically(">=", 3), "SIGKILLs that hit a manager")
	}
}

// killer kills each manager once.
type killer struct {
	dead map[string]bool // by pod name
	hits int             // number of SIGKILLs that hit a manager's process
}

// strike kills the next leading manager when moment returns true. It looks its process up in
// advance, so that only the signal remains to be sent. It also deletes the pod, to avoid the
// back-off and because the processes of a remote node can't be signalled.
func (k *killer) strike(ctx SpecContext, moment func() bool) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Eventually(ctx, func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(k8s.List(ctx, pods, client.InNamespace(systemNamespace),
			client.MatchingLabels{"app.kubernetes.io/component": "manager"})).To(Succeed())
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
			return k.dead[p.Name] ||
				p.DeletionTimestamp != nil
		})
		g.Expect(pods.Items).To(HaveExactElements(HaveField("Status.Phase", corev1.PodRunning)))
		pod = &pods.Items[0]
	}).WithPolling(closely).Should(Succeed())
	pids := processesIn(string(pod.UID), "manager")
	Eventually(ctx, func() bool { return leader(ctx) == pod.Name && moment() }).WithPolling(
		closely).Should(BeTrue())
	for _, pid := range pids {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			k.hits++
		}
	}
	k.dead[pod.Name] = true
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
}

// leader returns the name of the pod that holds the operator's Lease.
func leader(ctx SpecContext) string {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "csenv-manager"}, lease)).To(Succeed())
	name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	return name
}

// counted returns the shards in a run's figures, in the format of its status.
func counted(ctx SpecContext, evalrun string) string {
	GinkgoHelper()
	return ptr.Deref(runNamed(ctx, evalrun).Status.Shards, v1alpha1.Shards{}).CompletedIndexes
}

// uncounted lists the run's shards whose runners succeeded and whose pods still have their
// finalizer, but which are not yet in the figures.
func uncounted(ctx SpecContext, evalrun string) []string {
	GinkgoHelper()
	done, err := score.ParseIndexSet(counted(ctx, evalrun))
	Expect(err).NotTo(HaveOccurred())
	var left []string
	for _, pod := range podsOf(ctx, evalrun) {
		shard := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		index, err := strconv.ParseInt(shard, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		if pod.Status.Phase == corev1.PodSucceeded && slices.Contains(pod.Finalizers, "csenv.dev/summary") &&
			!done.Contains(index) {
			left = append(left, shard)
		}
	}
	return left
}
