//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// One of two nodes is cut off, with the leading operator, a server and runners on it, until all of
// them were replaced. Then it comes back, and what still runs on it meets its replacements.
var _ = Describe("A node that is cut off and comes back", Ordered, Label("nodes"), func() {
	inNamespace("csenv-e2e-partition")
	It("changes no figure of a run", func(ctx SpecContext) {
		if !local || nodes() != "2" {
			Skip("the cluster has one node: NODES=2 adds another")
		}
		stream(ctx, clusterTool, "up", "--nodes", nodes()) // another spec may have lost it
		stream(ctx, clusterTool, "load", "--image", image())
		createModelKey(ctx)
		kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", "../../config/ha")
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "-n", systemNamespace, "delete", "poddisruptionbudget", "csenv-manager")
			installOperator(ctx)
		})
		kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-manager", timeout)
		createSupport(ctx)
		tasks, spec := []string{task("ticket-classify", 10)}, []string{"seed: 11", "parallelism: 8", "concurrency: 4"}
		apply(ctx, serveModel(ctx).runManifest("undisturbed", "support", tasks, spec...))
		peace := awaitComplete(ctx, "undisturbed")
		model := serveModel(ctx)
		held := model.hold(func(p place) bool { return p.episode >= 3 })
		apply(ctx, model.runManifest("cut", "support", tasks, spec...))
		held.await(ctx, "cut")

		By("having the operator on the second node lead")
		for nodeOf(ctx, leader(ctx)) != lostNode {
			was := leader(ctx)
			kubectl(ctx, "-n", systemNamespace, "delete", "pod", was)
			Eventually(ctx, leader).ShouldNot(Equal(was))
		}
		led := leader(ctx)
		away := podsOn(append(serversOf(ctx, "support"), podsOf(ctx, "cut")...), lostNode)
		Expect(away).To(And(ContainElement(HavePrefix("support-")), ContainElement(HavePrefix("cut-"))))

		By("cutting the node off")
		began := time.Now()
		cutOff(ctx, true)
		DeferCleanup(cutOff, false)
		Eventually(ctx, leader).Should(Not(Equal(led)))
		AddReportEntry("another operator leads after", time.Since(began).Round(time.Second).String())
		Eventually(ctx, func(g Gomega) {
			g.Expect(podsOn(running(ctx, map[string]string{"csenv.dev/run": "cut"}), nodeAtHome)).To(HaveLen(8))
			g.Expect(podsOn(running(ctx, map[string]string{"csenv.dev/environment": "support"}), nodeAtHome)).To(
				ContainElements(HavePrefix("support-"), HavePrefix("support-")))
		}).WithTimeout(chaosTimeout).Should(Succeed())
		AddReportEntry("servers and runners are replaced after", time.Since(began).Round(time.Second).String())

		By("healing it")
		cutOff(ctx, false)
		held.release()
		expectFigures(awaitEnd(ctx, "cut"), peace)
		Expect(model.wrong()).To(BeEmpty())
		Expect(warningsOf(ctx, "cut")).To(HaveEach(v1alpha1.ReasonNodeLost))
		Eventually(ctx, func() []string {
			return podsOn(append(serversOf(ctx, "support"), podsOf(ctx, "cut")...), lostNode)
		}).ShouldNot(ContainElement(BeElementOf(away)), "pods that were replaced")
		awaitServers(ctx, "support", 2)
		kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-manager", timeout)
	}, SpecTimeout(30*time.Minute))
})

// nodeAtHome is the node that is never lost.
const nodeAtHome = "csenv"

// podsOn names the pods of a node.
func podsOn(pods []corev1.Pod, node string) (names []string) {
	for _, pod := range pods {
		if pod.Spec.NodeName == node {
			names = append(names, pod.Name)
		}
	}
	return names
}

// nodeOf returns the node of one of the operator's pods.
func nodeOf(ctx SpecContext, name string) string {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: name}, pod)).To(Succeed())
	return pod.Spec.NodeName
}

// cutOff separates the second node: its kubelet stands still, and its pods reach only each other.
// false undoes that.
func cutOff(ctx SpecContext, cut bool) {
	GinkgoHelper()
	signal, network := syscall.SIGCONT, filepath.Join(stateFolder(ctx), "net")
	rules := [][]string{{"-F", "PREROUTING"}, {"-F", "OUTPUT"}}
	if cut {
		pods := strings.Join(append(addressesOfCluster(ctx), "132", "0/22"), ".")
		signal, rules = syscall.SIGSTOP, [][]string{{"-A", "PREROUTING", "-s", pods, "!", "-d", pods, "-j", "DROP"},
			{"-A", "PREROUTING", "!", "-s", pods, "-d", pods, "-j", "DROP"}, {"-A", "OUTPUT", "-d", pods, "-j", "DROP"}}
	}
	for _, rule := range rules {
		run(ctx, "nsenter", append([]string{"--net=" + network, "--", "iptables", "--wait", "-t", "raw"}, rule...)...)
	}
	for _, pid := range processesWith("kubelet", "environ", "CSENV_CLUSTER_STATE="+stateFolder(ctx)+"/second\x00") {
		Expect(syscall.Kill(pid, signal)).To(Succeed())
	}
}
