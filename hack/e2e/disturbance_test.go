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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// closely is the polling interval of specs that wait for the moment to kill a manager, which takes
// about 100 ms to count a shard.
const closely = 20 * time.Millisecond

// shards is the number of shards of the disturbed run.
const shards = 8

var _ = Describe("A manager that is killed repeatedly", Ordered, func() {
	inNamespace("csenv-e2e-disturbance")
	It("counts every shard exactly once", func(ctx SpecContext) {
		apply(ctx, poolManifest("support", "Ticket"))
		awaitPool(ctx, "support")
		tasks := []string{task("ticket-classify", 50), task("ticket-resolve", 50)}
		parallelism := fmt.Sprintf("parallelism: %d", shards)

		By("playing an undisturbed run")
		apply(ctx, runManifest("peace", "support", "Heuristic", tasks, "seed: 11", parallelism))
		peace := awaitComplete(ctx, "peace")
		Expect(peace.Status.Shards.Total).To(BeEquivalentTo(shards))

		By("playing the same run while the manager is killed")
		apply(ctx, runManifest("war", "support", "Heuristic", tasks, "seed: 11", parallelism))
		killWhileShardsEnd(ctx, "war")
		war := awaitComplete(ctx, "war")

		Expect(war.Status.Shards).To(HaveField("CompletedIndexes", peace.Status.Shards.CompletedIndexes))
		Expect(war.Status.Episodes).To(HaveField("Scored", peace.Status.Episodes.Scored))
		Expect(war.Status.Episodes).To(HaveField("Failed", peace.Status.Episodes.Failed))
		Expect(war.Status.Score).To(Equal(peace.Status.Score))
		Expect(war.Status.Tasks).To(Equal(peace.Status.Tasks))
		Expect(war.Status.Categories).To(Equal(peace.Status.Categories))
		Expect(war.Status.PassHatK).To(Equal(peace.Status.PassHatK))
		Eventually(ctx, func(g Gomega) {
			g.Expect(podsOf(ctx, "war")).To(Or(BeEmpty(), HaveEach(HaveField("Finalizers", BeEmpty()))))
		}).Should(Succeed())
	}, SpecTimeout(specBound))
})

// killWhileShardsEnd kills managers before and after the write that counts shards. The first is
// killed while runners play: until its Lease expires, no manager counts the shards that end. The
// next two are killed when they become leader, the last when a counted shard appears.
func killWhileShardsEnd(ctx SpecContext, evalrun string) {
	GinkgoHelper()
	k := &killer{dead: map[string]bool{}}
	k.strike(ctx, func() bool { return len(podsOf(ctx, evalrun)) == shards })
	Eventually(ctx, uncounted).WithArguments(evalrun).WithPolling(closely).ShouldNot(BeEmpty())

	between := 0
	for range 2 {
		k.strike(ctx, func() bool { return len(uncounted(ctx, evalrun)) > 0 || len(counted(ctx, evalrun)) > 0 })
		// Listed after the kill, when no manager can count them.
		if left := uncounted(ctx, evalrun); len(left) > 0 {
			AddReportEntry("killed with these shards finished and not counted", left)
			between++
		}
	}
	Expect(between).To(BeNumerically(">", 0), "no manager was killed between the end of a shard and the write that "+
		"counts it")

	k.strike(ctx, func() bool { return len(counted(ctx, evalrun)) > 0 })
	AddReportEntry("killed with these shards counted", counted(ctx, evalrun))
	if local {
		Expect(k.hits).To(BeNumerically(">", 0), "no SIGKILL hit a manager")
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
	obj := &v1alpha1.EvaluationRun{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: evalrun}, obj)).To(Succeed())
	return ptr.Deref(obj.Status.Shards, v1alpha1.Shards{}).CompletedIndexes
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
