package run

import (
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
)

// Kubernetes' own controllers create, evict and replace the pods here. The specs act as scheduler,
// kubelet and operator.
var _ = Describe("A run's Job", Ordered, func() {
	var (
		c   *cluster
		now *testclock.FakePassiveClock
	)

	BeforeAll(func() {
		types := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme,
			v1alpha1.AddToScheme} {
			Expect(add(types)).To(Succeed())
		}
		server := apiserver.StartWithControllers(GinkgoTB(), []string{"job-controller", "node-lifecycle-controller",
			"taint-eviction-controller", "resourcequota-controller"},
			"--node-monitor-period=100ms", "--node-monitor-grace-period=2s", "--node-eviction-rate=100")
		api, err := client.NewWithWatch(server.Config, client.Options{Scheme: types})
		Expect(err).NotTo(HaveOccurred())
		now = testclock.NewFakePassiveClock(time.Now())
		c = &cluster{client: api}
		c.r = reconcilerOf(api, api, now)
	})

	BeforeEach(func(ctx SpecContext) {
		now.SetTime(time.Now())
		c = c.anew(ctx)
		c.createPool(ctx)
	})

	It("replaces the runners of lost nodes, and counts no failure", func(ctx SpecContext) {
		c.createRun(ctx)
		c.reconcile(ctx)
		first := c.runners(ctx, 4)
		for _, name := range []string{"deleted", "unreachable", "alive"} {
			Expect(c.client.Create(ctx, readyNode(name))).To(Succeed())
		}
		c.startRunner(ctx, first[0], "deleted")
		c.startRunner(ctx, first[1], "unreachable")

		By("losing two of three nodes: one runner is deleted, one evicted, and nothing reports that they have stopped")
		Expect(c.client.Delete(ctx, first[0])).To(Succeed())
		Expect(c.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "deleted"}})).To(Succeed())
		var deadline time.Time
		Eventually(ctx, func(g Gomega) {
			// Nothing is evicted while all nodes are lost.
			g.Expect(c.client.Status().Patch(ctx, readyNode("alive"),
				client.StrategicMergeFrom(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alive"}}))).To(Succeed())
			for index, pod := range first {
				g.Expect(c.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				g.Expect(pod.DeletionTimestamp.IsZero()).To(Equal(index > 1))
			}
			deadline = first[1].DeletionTimestamp.Time // the later one
		}).WithTimeout(time.Minute).Should(Succeed())
		c.reconcile(ctx)
		Expect(c.runners(ctx, 2)).To(And(HaveKey(2), HaveKey(3)), "no pod is replaced before its deadline")

		By("ending them after their deadline")
		now.SetTime(deadline.Add(snapshot.DeleteGrace))
		c.reconcile(ctx)
		again := c.runners(ctx, 4)
		for index, pod := range again {
			if index > 1 {
				Expect(pod.UID).To(Equal(first[index].UID))
			} else {
				Expect(pod.UID).NotTo(Equal(first[index].UID))
			}
		}
		job := c.job(ctx)
		Expect(job.Status.Failed).To(BeZero())
		for index := range 2 {
			Expect(again[index].Annotations).To(HaveKeyWithValue(batchv1.JobIndexFailureCountAnnotation, "0"))
			Expect(runner.CountStopped(again[index])).To(BeEquivalentTo(1), "their attempts have no report")
		}
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Complete=False/Running Failed=False"))

		By("completing the run with the replacements")
		plan := c.plan(ctx)
		for index, pod := range again {
			pod.Status = runtest.EndPod(pod.DeepCopy(), corev1.PodSucceeded, runtest.SummaryOf(GinkgoTB(), plan, index, runtest.Playing{})).Status
			Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
		}
		c.reconcile(ctx)
		got := c.run(ctx)
		Expect(runtest.FormatConditions(got.Status.Conditions)).To(ContainSubstring("Complete=True/Completed"))
		Expect(got.Status.Progress).To(Equal("14/14"))
		Expect(got.Status.Shards.JobAttempts).To(BeEquivalentTo(1))
		Expect(c.held(ctx)).To(BeEmpty())
	}, SpecTimeout(3*time.Minute))

	It("tells why the API server refuses its pods, and continues when it accepts them", func(ctx SpecContext) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few", Namespace: c.namespace},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
		Expect(c.client.Create(ctx, quota)).To(Succeed())
		Eventually(ctx, func() error {
			probe := runtest.NewServer("probe", "")
			probe.ObjectMeta = metav1.ObjectMeta{Name: "probe", Namespace: c.namespace}
			probe.Spec.Containers = []corev1.Container{{Name: "probe", Image: "probe"}}
			return c.client.Create(ctx, probe, client.DryRunAll)
		}).WithTimeout(time.Minute).Should(Satisfy(apierrors.IsForbidden), "the pool's server uses up the quota")
		c.createRun(ctx)
		c.reconcile(ctx)
		Eventually(ctx, func(g Gomega) {
			began := c.job(ctx).Status.StartTime
			g.Expect(began).NotTo(BeNil())
			now.SetTime(began.Add(observe.NoPodsAfter))
			c.reconcile(ctx)
			complete := meta.FindStatusCondition(c.run(ctx).Status.Conditions, v1alpha1.ConditionComplete)
			g.Expect(complete.Reason).To(Equal(v1alpha1.ReasonRunnersRefused))
			g.Expect(complete.Message).To(ContainSubstring(
				"is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"))
		}).WithTimeout(time.Minute).Should(Succeed())

		Expect(c.client.Delete(ctx, quota)).To(Succeed())
		again := c.runners(ctx, 4)
		c.reconcile(ctx)
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Complete=False/Running Failed=False"))

		By("forgetting the refusal: the Job has no pods while it delays those of failed shards")
		for _, pod := range again {
			pod.Status = runtest.EndPod(pod.DeepCopy(), corev1.PodFailed, "error: no memory").Status
			pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Now()
			Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
		}
		Eventually(ctx, func() int32 { return c.job(ctx).Status.Active }).WithTimeout(time.Minute).Should(BeZero())
		c.reconcile(ctx) // releases them
		Expect(c.held(ctx)).To(BeEmpty())
		c.reconcile(ctx)
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Complete=False/Running Failed=False"))
	}, SpecTimeout(3*time.Minute))
})

// readyNode is a node that answers now.
func readyNode(name string) *corev1.Node {
	now := metav1.Now()
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastHeartbeatTime: now, LastTransitionTime: now}}}}
}

// runners waits until so many of the run's pods aren't being deleted, and returns them by index.
func (c *cluster) runners(ctx SpecContext, want int) map[int]*corev1.Pod {
	GinkgoHelper()
	var found map[int]*corev1.Pod
	Eventually(ctx, func(g Gomega) {
		found = map[int]*corev1.Pod{}
		var list corev1.PodList
		g.Expect(c.client.List(ctx, &list, client.InNamespace(c.namespace),
			client.MatchingLabels{v1alpha1.LabelRun: runtest.RunName})).To(Succeed())
		for i := range list.Items {
			pod := &list.Items[i]
			index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
			g.Expect(err).NotTo(HaveOccurred())
			if pod.DeletionTimestamp.IsZero() && pod.Status.Phase != corev1.PodFailed {
				found[index] = pod
			}
		}
		g.Expect(found).To(HaveLen(want))
	}).WithTimeout(time.Minute).Should(Succeed())
	return found
}

// startRunner binds a pod to a node, where it runs. The Job controller replaces a failed pod 10 s
// after it has ceased to be ready, so the pod has been unready for longer.
func (c *cluster) startRunner(ctx SpecContext, pod *corev1.Pod, node string) {
	GinkgoHelper()
	Expect(c.client.SubResource("binding").Create(ctx, pod,
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})).To(Succeed())
	Expect(c.client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady,
		Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute))})
	Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
}
