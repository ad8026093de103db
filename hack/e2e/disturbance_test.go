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
		createModelKey(ctx)
		apply(ctx, poolManifest("support", "Ticket"))
		awaitPool(ctx, "support")
		tasks := []string{task("ticket-classify", 50), task("ticket-resolve", 20)}
		spec := []string{"seed: 11", fmt.Sprintf("parallelism: %d", shards)}

		By("playing an undisturbed run")
		apply(ctx, serveModel(ctx).runManifest("peace", "support", tasks, spec...))
		peace := awaitComplete(ctx, "peace")
		Expect(peace.Status.Shards.Total).To(BeEquivalentTo(shards))

		By("killing a manager while every shard is played")
		model := serveModel(ctx)
		held := model.hold(everything)
		apply(ctx, model.runManifest("war", "support", tasks, spec...))
		held.await(ctx, "support", "war")
		k := &killer{dead: map[string]bool{}}
		k.strike(ctx, func() bool { return true })

		By("ending half of the shards while there is no manager")
		scaleManager(ctx, 0)
		DeferCleanup(scaleManager, 1)
		held.keepOnly(func(p place) bool { return p.shard >= shards/2 })
		Eventually(ctx, uncounted).WithArguments("war").Should(ConsistOf("0", "1", "2", "3"))
		Expect(counted(ctx, "war")).To(BeEmpty())

		By("killing the manager that counts them, and the next one")
		scaleManager(ctx, 1)
		k.strike(ctx, func() bool { return counted(ctx, "war") != "" })
		AddReportEntry("killed with these shards counted", counted(ctx, "war"))
		k.strike(ctx, func() bool { return counted(ctx, "war") == "0-3" })
		Expect(over(ctx, "war")).To(BeFalse())
		held.release()
		war := awaitComplete(ctx, "war")
		if local {
			Expect(k.hits).To(BeNumerically(">=", 3), "SIGKILLs that hit a manager")
		}

		Expect(war.Status.Shards).To(HaveField("CompletedIndexes", peace.Status.Shards.CompletedIndexes))
		Expect(war.Status.Episodes).To(HaveField("Scored", peace.Status.Episodes.Scored))
		Expect(war.Status.Episodes).To(HaveField("Failed", peace.Status.Episodes.Failed))
		Expect(war.Status.Score).To(Equal(peace.Status.Score))
		Expect(war.Status.Tasks).To(Equal(peace.Status.Tasks))
		Expect(war.Status.Categories).To(Equal(peace.Status.Categories))
		Expect(war.Status.PassHatK).To(Equal(peace.Status.PassHatK))
		Expect(model.wrong()).To(BeEmpty())
		Eventually(ctx, func(g Gomega) {
			g.Expect(podsOf(ctx, "war")).To(Or(BeEmpty(), HaveEach(HaveField("Finalizers", BeEmpty()))))
		}).Should(Succeed())
	}, SpecTimeout(specBound))
})

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
