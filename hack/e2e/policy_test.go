//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The network plugins of the local cluster enforce no NetworkPolicy. kube-router does, with rules
// of iptables and sets of addresses.
var _ = Describe("Enforced NetworkPolicies", Ordered, Label("policies"), func() {
	inNamespace("csenv-e2e-policies")
	BeforeAll(func(ctx SpecContext) {
		skipUnlessLocal()
		if _, err := exec.LookPath("ipset"); err != nil {
			run(ctx, "apt-get", "install", "--yes", "--no-install-recommends", "ipset")
		}
		if len(processesOfLostNode(ctx)) > 0 { // kube-router enforces policies of one node's pods
			kubectl(ctx, "cordon", lostNode)
			DeferCleanup(kubectl, "uncordon", lostNode)
			installOperator(ctx)
		}
		enforcePolicies(ctx)
		kubectl(ctx, "apply", "-k", "../../config/network-policy")
		DeferCleanup(kubectl, "delete", "-k", "../../config/network-policy")
		createModelKey(ctx)
		createSupport(ctx)
	}, NodeTimeout(specBound))

	It("admit clients and the operator to servers, and nobody else", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, strangerPod(namespace, serversOf(ctx, "support")[0]))).To(Succeed())
		stranger := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-stranger"}}
		Expect(k8s.Create(ctx, stranger)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, stranger)).To(Succeed()) })
		Expect(k8s.Create(ctx, strangerPod(stranger.Name, serversOf(ctx, "support")[0]))).To(Succeed())
		operator := &corev1.PodList{}
		Expect(k8s.List(ctx, operator, client.InNamespace(systemNamespace), operatorLabels)).To(Succeed())

		server := serversOf(ctx, "support")[0].Status.PodIP
		manager := operator.Items[0].Status.PodIP
		for _, tc := range []struct {
			what, from, pod, address, port string
			admitted                       bool
		}{
			{"a client of the pool's namespace", namespace, "stranger", server, "8000", true},
			{"the operator", systemNamespace, operator.Items[0].Name, server, "9000", true},
			{"a client that asks for statistics", namespace, "stranger", server, "9000", false},
			{"another namespace's client", stranger.Name, "stranger", server, "8000", false},
			{"another namespace that asks for statistics", stranger.Name, "stranger", server, "9000", false},
			{"a reader of the operator's metrics", namespace, "stranger", manager, "8443", false},
		} {
			Eventually(ctx, connects).WithArguments(tc.from, tc.pod, tc.address, tc.port).Should(Equal(tc.admitted), tc.what)
		}
		kubectl(ctx, "label", "namespace", stranger.Name, "metrics=enabled")
		Eventually(ctx, connects).WithArguments(stranger.Name, "stranger", server, "9000").Should(BeTrue())
		Eventually(ctx, connects).WithArguments(stranger.Name, "stranger", manager, "8443").Should(BeTrue())
	}, SpecTimeout(specBound))

	It("let a run be played, also when its servers are replaced", func(ctx SpecContext) {
		tasks, spec := []string{task("ticket-classify", 10)}, []string{"seed: 11", "parallelism: 8", "concurrency: 4"}
		apply(ctx, serveModel(ctx).runManifest("undisturbed", "support", tasks, spec...))
		peace := awaitComplete(ctx, "undisturbed")
		model := serveModel(ctx)
		held := model.hold(func(p place) bool { return p.episode >= 3 })
		apply(ctx, model.runManifest("replaced", "support", tasks, spec...))
		held.await(ctx, "replaced")
		deletePods(ctx, serversOf(ctx, "support"))
		held.release()
		expectFigures(awaitEnd(ctx, "replaced"), peace)
		Expect(warningsOf(ctx, "replaced")).To(BeEmpty())
	}, SpecTimeout(specBound))
})

// enforcePolicies runs kube-router in the cluster's network until the specs end.
func enforcePolicies(ctx context.Context) {
	GinkgoHelper()
	tool := filepath.Join(GinkgoT().TempDir(), "kube-router")
	run(ctx, "env", "GOWORK=off", "go", "build", "-C", "../policies", "-o", tool,
		"github.com/cloudnativelabs/kube-router/v2/cmd/kube-router")
	kubeconfig := strings.TrimSpace(run(ctx, clusterTool, "kubeconfig"))
	inside := []string{"--net=" + filepath.Join(filepath.Dir(kubeconfig), "net"), "--"}
	cmd := exec.Command("nsenter", append(inside, tool, "--kubeconfig", kubeconfig, "--hostname-override", nodeAtHome,
		"--run-firewall", "--run-router=false", "--run-service-proxy=false", "--health-port=0", "--metrics-port=0")...)
	cmd.Stdout, cmd.Stderr = GinkgoWriter, GinkgoWriter
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
		_ = cmd.Wait()
		run(ctx, "nsenter", append(inside, "sh", "-c", "iptables-save | grep -vE 'KUBE-(ROUTER|NWPLCY|POD-FW)' | "+
			"iptables-restore && ipset destroy")...)
	})
}

// strangerPod is a pod that waits, with the rights of another one.
func strangerPod(in string, like corev1.Pod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "stranger"}, Spec: corev1.PodSpec{
		SecurityContext: like.Spec.SecurityContext, Containers: []corev1.Container{{Name: "pause",
			Image: "csenv.local/pause:1", SecurityContext: like.Spec.Containers[0].SecurityContext}}}}
}

// connects reports whether a pod can connect to an address.
func connects(ctx SpecContext, in, name, address, port string) bool {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: in, Name: name}, pod)).To(Succeed())
	pids := processesIn(string(pod.UID), "")
	if len(pids) == 0 {
		return false
	}
	return exec.CommandContext(ctx, "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", pids[0]), "--", "timeout", "2",
		"bash", "-c", "</dev/tcp/"+address+"/"+port).Run() == nil
}
