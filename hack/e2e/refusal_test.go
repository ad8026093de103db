//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

var _ = Describe("Bad input", Ordered, func() {
	inNamespace("csenv-e2e-refusal")
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, poolManifest("support", "Ticket"))
		awaitPool(ctx, "support")
		createModelKey(ctx)
	}, NodeTimeout(specBound))

	DescribeTable("fails or holds a run with a condition that advises what to do",
		func(ctx SpecContext, manifest, name string, condition OmegaMatcher) {
			apply(ctx, manifest)
			Eventually(ctx, conditionsOf).WithArguments(name).Should(ContainElement(condition))
			Expect(podsOf(ctx, name)).To(BeEmpty())
		},
		Entry("an unknown task", runManifest("unknown-task", "support", "Noop", []string{task("ticket-juggle", 1)}),
			"unknown-task",
			haveReason(v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonInvalidPlan, "ticket-juggle",
				"ticket-resolve")),
		Entry("an unknown scenario", runManifest("unknown-scenario", "support", "Noop",
			[]string{"{name: ticket-resolve, scenarios: {ids: [Z99]}}"}), "unknown-scenario",
			haveReason(v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonInvalidPlan, "Z99")),
		Entry("an environment that isn't there", runManifest("no-environment", "nowhere", "Noop",
			[]string{task("ticket-resolve", 1)}), "no-environment",
			haveReason(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, v1alpha1.ReasonEnvironmentNotFound,
				"nowhere")),
	)

	// The manager is stopped while the runners' pods are replaced by pods with forged summaries:
	// one with a changed digit, one of another run, and one written without a server.
	It("rejects forged summaries, reports them, and plays their shards again",
		func(ctx SpecContext) {
			tasks, spec := []string{task("ticket-resolve", 2)}, []string{"seed: 5", "parallelism: 4", "retain: Always"}
			apply(ctx, serveModel(ctx).runManifest("honest", "support", tasks, spec...))
			honest := awaitComplete(ctx, "honest")
			model := serveModel(ctx)
			held := model.hold(everything)
			apply(ctx, model.runManifest("tampered", "support", tasks, spec...))
			held.await(ctx, "tampered")
			scaleManager(ctx, 0)
			DeferCleanup(scaleManager, 1)
			held.release()
			Eventually(ctx, func(g Gomega) {
				job := &batchv1.Job{}
				g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "tampered"}, job)).To(Succeed())
				g.Expect(job.Status.Conditions).To(ContainElement(And(HaveField("Type", batchv1.JobComplete),
					HaveField("Status", corev1.ConditionTrue))))
			}).Should(Succeed())
			Expect(counted(ctx, "tampered")).To(BeEmpty(), "no shard may be counted yet")

			exchanged := map[string]string{ // by shard
				"0": changedDigit(wordsOf(ctx, "tampered", "0")),
				"1": wordsOf(ctx, "honest", "1"),
				"2": `{"version":2,"ledger":{"payload":"","signature":""},"durations":""}`,
			}
			for shard, words := range exchanged {
				exchange(ctx, runnerOf(ctx, "tampered", shard), words)
			}
			scaleManager(ctx, 1)
			tampered := awaitComplete(ctx, "tampered")

			story := kubectl(ctx, "-n", namespace, "describe", "evalrun", "tampered")
			_, events, _ := strings.Cut(story, "\nEvents:\n")
			AddReportEntry("kubectl describe evalrun", "\n"+events)
			for _, told := range []string{
				`tampered-0-\w+ is not counted: ` + score.ErrSignature.Error(),
				`tampered-1-\w+ is not counted: ` + score.ErrForeign.Error(),
				`tampered-2-\w+ is not counted: `, `ShardsPlayedAgain .*Shards 0-2 are played again`,
			} {
				Expect(story).To(MatchRegexp(told))
			}
			Expect(tampered.Status.Shards.JobAttempts).To(BeEquivalentTo(2))
			Expect(tampered.Status.Episodes).To(Equal(honest.Status.Episodes))
			Expect(tampered.Status.Score).To(Equal(honest.Status.Score))
			Expect(tampered.Status.Tasks).To(Equal(honest.Status.Tasks))
		}, SpecTimeout(specBound))

	It("reports that an image can't be pulled", func(ctx SpecContext) {
		manifest := strings.Replace(poolManifest("no-image", "Ticket"), "spec:",
			"spec:\n  image: registry.example/none:1", 1)
		apply(ctx, manifest)
		Eventually(ctx, poolNamed).WithArguments("no-image").Should(HaveField("Status.Conditions", ContainElement(
			haveReason(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed,
				"registry.example/none:1"))))
	}, SpecTimeout(specBound))

})

// scaleManager sets the number of the operator's replicas and waits for it.
func scaleManager(ctx SpecContext, replicas int) {
	GinkgoHelper()
	kubectl(ctx, "-n", systemNamespace, "scale", "deployment/csenv-manager", fmt.Sprintf("--replicas=%d", replicas))
	Eventually(ctx, func(g Gomega) {
		pods := &corev1.PodList{} // also those that end, which may still write
		g.Expect(k8s.List(ctx, pods, client.InNamespace(systemNamespace), operatorLabels)).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(replicas))
		g.Expect(pods.Items).NotTo(ContainElement(HaveField("Status.Phase", Not(Equal(corev1.PodRunning)))))
	}).Should(Succeed())
}

// runnerOf returns the pod that has played a shard.
func runnerOf(ctx SpecContext, evalrun, shard string) *corev1.Pod {
	GinkgoHelper()
	pods := podsOf(ctx, evalrun)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool {
		return p.Annotations[batchv1.JobCompletionIndexAnnotation] == shard && p.Status.Phase == corev1.PodSucceeded
	})
	Expect(i).NotTo(Equal(-1), "no runner of %s has ended shard %s: %v", evalrun, shard, podNames(pods))
	return &pods[i]
}

// wordsOf returns the termination message of a shard's runner.
func wordsOf(ctx SpecContext, evalrun, shard string) string {
	GinkgoHelper()
	words := runnerOf(ctx, evalrun, shard).Status.ContainerStatuses[0].State.Terminated.Message
	Expect(words).To(ContainSubstring(`"signature"`))
	return words
}

// changedDigit changes one digit of the ledger in a summary.
func changedDigit(words string) string {
	GinkgoHelper()
	at := strings.Index(words, `"payload":"`) + len(`"payload":"`)
	digit := strings.IndexAny(words[at:], "0123456789") + at
	Expect(digit).To(BeNumerically(">", at))
	other := "1"
	if words[digit] == '1' {
		other = "2"
	}
	return words[:digit] + other + words[digit+1:]
}

// exchange force-deletes a runner's pod and creates another one in its place with a different
// termination message. The new pod has no node, so no kubelet corrects its status.
func exchange(ctx SpecContext, pod *corev1.Pod, words string) {
	GinkgoHelper()
	kubectl(ctx, "-n", namespace, "patch", "pod", pod.Name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	other := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: namespace, Finalizers: []string{"csenv.dev/summary"}, Labels: pod.Labels,
			Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
		},
		Spec: corev1.PodSpec{SchedulerName: "none", RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: pod.Spec.SecurityContext, Containers: []corev1.Container{{
				Name: "runner", Image: image(), SecurityContext: pod.Spec.Containers[0].SecurityContext,
			}}},
	}
	Eventually(ctx, func() error { return k8s.Create(ctx, other.DeepCopy()) }).Should(
		Succeed())
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
	other.Status.Phase = corev1.PodSucceeded
	other.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "runner", Image: image(), State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: words},
		}}}
	Expect(k8s.Status().Update(ctx, other)).To(Succeed())
}

// serverPod returns a ready server of the pool.
func serverPod(ctx context.Context, pool string) corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{
		"csenv.dev/environment": pool, "app.kubernetes.io/component": "env-server",
	})).To(Succeed())
	Expect(pods.Items).NotTo(BeEmpty())
	return pods.Items[0]
}
