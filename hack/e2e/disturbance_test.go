//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A manager that is killed again and again", Ordered, func() {
	It("neither loses nor doubles a shard", func(ctx SpecContext) {
		apply(ctx, poolManifest("support", "Ticket"))
		awaitPool(ctx, "support")
		tasks := []string{task("ticket-classify", 20), task("ticket-resolve", 20)}

		By("playing a run in peace")
		apply(ctx, runManifest("peace", "support", "Heuristic", tasks, "seed: 11", "parallelism: 8"))
		peace := awaitComplete(ctx, "peace")

		By("playing the same run while the manager is killed")
		apply(ctx, runManifest("war", "support", "Heuristic", tasks, "seed: 11", "parallelism: 8"))
		killLeader(ctx, 4)
		war := awaitComplete(ctx, "war")

		Expect(war.Status.Episodes).To(HaveField("Scored", peace.Status.Episodes.Scored))
		Expect(war.Status.Episodes).To(HaveField("Failed", peace.Status.Episodes.Failed))
		Expect(war.Status.Score).To(Equal(peace.Status.Score))
		Expect(war.Status.Tasks).To(Equal(peace.Status.Tasks))
		Expect(war.Status.Categories).To(Equal(peace.Status.Categories))
		Expect(war.Status.PassHatK).To(Equal(peace.Status.PassHatK))
		Eventually(ctx, func(g Gomega) {
			g.Expect(podsOf(ctx, "war")).To(HaveEach(HaveField("Finalizers", BeEmpty())))
		}).WithTimeout(time.Minute).Should(Succeed())
	}, SpecTimeout(6*time.Minute))
})

// killLeader kills -9 whichever manager leads, as soon as it leads, and does so the given number of times: each one dies in the midst of its first reconciles.
func killLeader(ctx context.Context, times int) {
	GinkgoHelper()
	killed := map[string]bool{}
	for range times {
		Eventually(ctx, func(g Gomega) {
			lease := &coordinationv1.Lease{}
			g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "csenv-manager"}, lease)).To(Succeed())
			leader, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
			g.Expect(leader).NotTo(BeEmpty())
			g.Expect(killed).NotTo(HaveKey(leader))
			kill(ctx, leader)
			killed[leader] = true
		}).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(Succeed())
	}
}

// kill sends SIGKILL to a manager pod's process where it runs on this machine, and deletes the pod so that no back-off delays the next one.
func kill(ctx context.Context, name string) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: name}, pod)).To(Succeed())
	cgroups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	Expect(err).NotTo(HaveOccurred())
	for _, path := range cgroups {
		cgroup, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(cgroup), string(pod.UID)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		Expect(err).NotTo(HaveOccurred())
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if filepath.Base(exe) == "manager" {
			Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		}
	}
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
}
