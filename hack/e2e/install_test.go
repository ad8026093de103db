//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// releaseFolder is the folder of a release. If it is set, the specs install its files instead of
// those of the checkout.
var releaseFolder = os.Getenv("CSENV_RELEASE")

// operatorLabels select the operator's pods.
var operatorLabels = client.MatchingLabels{"app.kubernetes.io/name": "csenv", "app.kubernetes.io/component": "manager"}

// The specs replace the suite's installation, and install it again at the end.
var _ = Describe("The Helm chart", Ordered, Serial, Label("helm"), func() {
	inNamespace("csenv-e2e-helm")
	var (
		helmTool string
		chart    = "../../charts/csenv"
		values   = "image.repository=" + image()[:strings.LastIndex(image(), ":")] +
			",image.tag=" + image()[strings.LastIndex(image(), ":")+1:]
	)
	helm := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		return run(ctx, helmTool, append([]string{"--kubeconfig", strings.TrimSpace(run(ctx, clusterTool, "kubeconfig")),
			"--namespace", systemNamespace}, args...)...)
	}
	var before []string

	BeforeAll(func(ctx SpecContext) {
		helmTool = filepath.Join(GinkgoT().TempDir(), "helm")
		run(ctx, "env", "GOWORK=off", "go", "build", "-C", "../chart", "-o", helmTool, "helm.sh/helm/v4/cmd/helm")
		if releaseFolder != "" {
			charts, err := filepath.Glob(filepath.Join(releaseFolder, "csenv-*.tgz"))
			Expect(err).NotTo(HaveOccurred())
			Expect(charts).To(HaveLen(1), "charts of %s", releaseFolder)
			chart, values = charts[0], "" // which names the release's image
			stream(ctx, clusterTool, "load", "--layout", filepath.Join(releaseFolder, "image"))
		}
		By("removing what kubectl has installed")
		undeploy(ctx)
		DeferCleanup(func(ctx SpecContext) {
			By("installing the operator with kubectl again")
			helm(ctx, "uninstall", "csenv", "--ignore-not-found", "--no-hooks", "--wait")
			kubectl(ctx, "delete", "namespace", systemNamespace, "--ignore-not-found", timeout)
			installOperator(ctx)
		}, NodeTimeout(specBound))
		createModelKey(ctx)
		By("listing the objects of the cluster")
		kubectl(ctx, "apply", "-f", "../../config/manager/namespace.yaml")
		Eventually(ctx, func(g Gomega) {
			before = allObjects(ctx)
			g.Expect(before).NotTo(ContainElement(ContainSubstring("csenv-manager")))
		}).Should(Succeed())
	}, NodeTimeout(specBound))

	It("installs csenv, and the samples have the scores that the README shows", func(ctx SpecContext) {
		Expect(helm(ctx, "lint", "--strict", chart, "--set", values)).To(ContainSubstring("0 chart(s) failed"))
		Expect(helm(ctx, "template", "csenv", chart, "--set", values)).To(ContainSubstring("name: csenv-manager\n"))
		Expect(helm(ctx, "install", "csenv", chart, "--set", values, "--wait", "--timeout=2m")).To(
			ContainSubstring("kubectl -n " + systemNamespace))
		playSamples(ctx)
	}, SpecTimeout(specBound))

	It("upgrades to two replicas, the pages, and rights on single namespaces", func(ctx SpecContext) {
		helm(ctx, "upgrade", "csenv", chart, "--reset-then-reuse-values", "--wait", "--timeout=2m", "--set",
			"replicas=2,ui.enabled=true,metrics.secure=false,crds.keep=false,watchNamespaces={"+namespace+"}")
		manager := client.ObjectKey{Namespace: systemNamespace, Name: "csenv-manager"}
		deployment := &appsv1.Deployment{}
		Expect(k8s.Get(ctx, manager, deployment)).To(Succeed())
		Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(2))
		Expect(k8s.Get(ctx, manager, &policyv1.PodDisruptionBudget{})).To(Succeed())
		Expect(apierrors.IsNotFound(k8s.Get(ctx, manager, &rbacv1.ClusterRole{}))).To(BeTrue())

		By("playing a run again")
		apply(ctx, runManifest("again", "support", "Heuristic", []string{task("ticket-resolve", 2)}, "seed: 42"))
		first := awaitComplete(ctx, "heuristic")
		Expect(awaitComplete(ctx, "again").Status.Score).To(Equal(first.Status.Score))
		By("reading the pages and the metrics")
		Eventually(ctx, uiPage).WithArguments("").Should(ContainSubstring("again"))
		Eventually(ctx, replicasWithMetrics).Should(Equal([]bool{false, true}))
		for _, pod := range operatorPods(ctx) {
			said := kubectl(ctx, "-n", systemNamespace, "logs", pod)
			Expect(strings.Contains(said, "forbidden")).To(BeFalse(), said)
		}
	}, SpecTimeout(specBound))

	It("leaves nothing behind when it is uninstalled, not even while a run is played", func(ctx SpecContext) {
		playHeld(ctx, "long", "support")
		By("uninstalling the release")
		helm(ctx, "uninstall", "csenv", "--wait", "--timeout=4m")
		Eventually(ctx, objectsBeside).WithArguments(before).Should(BeEmpty())
	}, SpecTimeout(specBound))

	It("isn't needed: a release's install.yaml has the same scores and leaves nothing behind", func(ctx SpecContext) {
		if releaseFolder == "" {
			Skip("CSENV_RELEASE names no release: `make test-release` sets it")
		}
		manifest := filepath.Join(releaseFolder, "install.yaml")
		kubectl(ctx, "apply", "--server-side", "-f", manifest)
		kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-manager", timeout)
		playSamples(ctx)
		removeRunsAndPools(ctx)
		kubectl(ctx, "delete", "-f", manifest, timeout)
		Eventually(ctx, objectsBeside).WithArguments(before).Should(BeEmpty())
	}, SpecTimeout(specBound))
})

// removeRunsAndPools deletes them with their pods, while the operator still removes finalizers.
func removeRunsAndPools(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "delete", "evaluationruns,customersupportenvs", "--all", "--all-namespaces", timeout)
	kubectl(ctx, "wait", "--for=delete", "pods", "--all-namespaces", timeout, "-l",
		"app.kubernetes.io/managed-by=csenv")
}

// playSamples applies the samples and compares their scores with those that the guide shows.
func playSamples(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "-n", namespace, "apply", "-k", "../../config/samples")
	guide, err := os.ReadFile("../../docs/guides/operate-pools.md")
	Expect(err).NotTo(HaveOccurred())
	shown := regexp.MustCompile(`(?m)^evaluationrun\.csenv\.dev/(\S+) .* (\d\.\d{4}) +\d\.\d{4} `).FindAllSubmatch(guide, -1)
	Expect(shown).To(HaveLen(6))
	for _, row := range shown {
		name, score := string(row[1]), string(row[2])
		Expect(awaitComplete(ctx, name).Status.Score.Mean).To(Equal(score), name)
	}
}

// objectsBeside lists the cluster's objects that aren't among earlier ones.
func objectsBeside(ctx context.Context, earlier []string) []string {
	GinkgoHelper()
	return slices.DeleteFunc(allObjects(ctx), func(object string) bool { return slices.Contains(earlier, object) })
}

// operatorPods names the operator's pods, without those of the release before, which are being
// deleted and have lost their rights.
func operatorPods(ctx context.Context) (names []string) {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(k8s.List(ctx, &pods, client.InNamespace(systemNamespace), operatorLabels)).To(Succeed())
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp.IsZero() {
			names = append(names, pod.Name)
		}
	}
	return names
}

// replicasWithMetrics reports of each of the operator's pods whether it counts runs, false first.
func replicasWithMetrics(ctx context.Context) (counting []bool) {
	for _, pod := range operatorPods(ctx) {
		text, err := kube.CoreV1().Pods(systemNamespace).ProxyGet("http", pod, "8443", "metrics", nil).DoRaw(ctx)
		if err != nil {
			return nil
		}
		counting = append(counting, strings.Contains(string(text), "\ncsenv_runs{"))
	}
	slices.SortFunc(counting, func(a, b bool) int {
		return cmp.Compare(map[bool]int{true: 1}[a], map[bool]int{true: 1}[b])
	})
	return counting
}

// allObjects lists the cluster's objects of all kinds, except events, which expire.
func allObjects(ctx context.Context) []string {
	GinkgoHelper()
	var out []byte
	// A kind may be removed between the two calls.
	Eventually(ctx, func() (err error) {
		kinds := strings.Fields(kubectl(ctx, "api-resources", "--verbs=list", "--output=name"))
		kinds = slices.DeleteFunc(kinds, func(kind string) bool {
			return strings.HasPrefix(kind, "events") || kind == "componentstatuses"
		})
		out, err = exec.CommandContext(ctx, clusterTool, "kubectl", "--", "get", strings.Join(kinds, ","),
			"--all-namespaces", "--no-headers",
			"--output=custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name").Output()
		return err
	}).Should(Succeed(), "listing all objects")
	objects := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, object := range objects {
		objects[i] = strings.Join(strings.Fields(object), " ")
	}
	return objects
}
