//go:build e2e

// Package e2e tests csenv on a real node: it brings up the local cluster, installs the operator as
// a user would, applies objects and checks the results.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/hack/shipped"
)

const (
	// systemNamespace is where config/default installs the operator.
	systemNamespace = "csenv-system"
	// namespace contains the suite's pools and runs. It enforces the restricted Pod Security level.
	namespace = "csenv-e2e"
	// poolTimeout bounds the wait for a pool's first server.
	poolTimeout = 90 * time.Second
	// runTimeout bounds the wait for a run of some hundred episodes.
	runTimeout = 2 * time.Minute
)

var (
	// clusterTool and csenvTool are the programs of hack/cluster and cmd/csenv.
	clusterTool, csenvTool string
	k8s                    client.Client
	// kube passes requests on to pods.
	kube kubernetes.Interface
	// local reports whether the node's processes run on this machine.
	local bool
	// installed and removed record that BeforeSuite and AfterSuite finished.
	installed, removed bool
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	logf.SetLogger(GinkgoLogr)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	RunSpecs(t, "csenv on a real node")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tools := GinkgoT().TempDir()
	clusterTool, csenvTool = filepath.Join(tools, "cluster"), filepath.Join(tools, "csenv")
	By("building the cluster tool")
	run(ctx, "go", "build", "-o", clusterTool, "../cluster")
	// The cluster tool is deleted after this cleanup. ReportAfterEach doesn't run for failures of
	// BeforeSuite and AfterSuite.
	DeferCleanup(func() {
		if !installed || !removed {
			explain(os.Stdout)
		}
	})
	By("bringing the cluster up: the very first time this builds Kubernetes, which takes several minutes")
	stream(ctx, clusterTool, "up", "--nodes", cmp.Or(os.Getenv("NODES"), "1"))
	local = regexp.MustCompile(`(?m)^provider\s+local\b`).MatchString(run(ctx, clusterTool, "status"))
	stream(ctx, clusterTool, "load", "--image", image())
	By("building the command line with the flags of the image, which reuses its build cache")
	run(ctx, "go", shipped.BuildArgs("dev", shipped.Tags, csenvTool, "../../cmd/csenv")...)
	By("installing the operator")
	installOperator(ctx)
	connect(ctx)
	createNamespace(ctx)
	installed = true
}, NodeTimeout(30*time.Minute))

var _ = AfterSuite(func(ctx SpecContext) {
	if k8s == nil {
		return
	}
	By("deleting the namespace: no finalizer may block it")
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}))).To(Succeed())
	Eventually(ctx, func() error {
		return k8s.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	}).WithTimeout(2 * time.Minute).Should(MatchError(ContainSubstring("not found")))
	removed = true
}, NodeTimeout(3*time.Minute))

var _ = ReportAfterEach(func(report SpecReport) {
	// If a spec failed, the cluster tool has been built.
	if report.Failed() {
		explain(GinkgoWriter)
	}
})

// explain prints the first things to look at after a failure.
func explain(out io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"-n", namespace, "get", "cse,evalrun,jobs,pods", "-o", "wide"},
		{"-n", namespace, "get", "evalrun", "-o", "yaml"},
		{"-n", namespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", namespace, "logs", "-l", "app.kubernetes.io/managed-by=csenv", "--all-containers", "--prefix",
			"--tail=40"},
		{"-n", systemNamespace, "get", "pods", "-o", "wide"},
		{"-n", systemNamespace, "describe", "pods"},
		{"-n", systemNamespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", systemNamespace, "logs", "-l", "app.kubernetes.io/component=manager", "--prefix", "--tail=80"},
		{"-n", systemNamespace, "logs", "-l", "app.kubernetes.io/component=manager", "--prefix", "--tail=80",
			"--previous"},
	} {
		said, err := exec.CommandContext(ctx, clusterTool,
			append([]string{"kubectl", "--"}, args...)...).CombinedOutput()
		fmt.Fprintf(out, "--- kubectl %s (err: %v)\n%s\n", strings.Join(args, " "), err, said)
	}
}

func installOperator(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", "../../config/default")
	kubectl(ctx, "-n", systemNamespace, "rollout", "restart", "deployment/csenv-manager")
	kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-manager", "--timeout=180s")
}

func image() string {
	if image := os.Getenv("IMAGE"); image != "" {
		return image
	}
	return "csenv:dev"
}

func connect(ctx context.Context) {
	GinkgoHelper()
	kubeconfig := strings.TrimSpace(run(ctx, clusterTool, "kubeconfig"))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	// Specs poll at short intervals to observe the manager between two writes.
	config.QPS = -1
	Expect(v1alpha1.AddToScheme(scheme.Scheme)).To(Succeed())
	k8s, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	kube, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
}

func createNamespace(ctx context.Context) {
	GinkgoHelper()
	stale := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, stale))).To(Succeed())
	fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Eventually(ctx, func() error { return k8s.Create(ctx, fresh.DeepCopy()) }).WithTimeout(2 * time.Minute).Should(
		Succeed())
}

// kubectl runs the cluster's kubectl, which must succeed, and returns its output.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, clusterTool, append([]string{"kubectl", "--"}, args...)...)
}

// kubectlRefused runs kubectl, which must fail, and returns its output.
func kubectlRefused(ctx context.Context, stdin string, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, clusterTool, append([]string{"kubectl", "--", "-n", namespace}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	Expect(err).To(HaveOccurred(), "kubectl %s should have been refused, output: %s", args, out)
	return string(out)
}

// apply applies a manifest to the suite's namespace.
func apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, clusterTool, "kubectl", "--", "-n", namespace, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "applying:\n%s\n%s", manifest, out)
}

func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %s:\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// stream runs a long command and shows its output.
func stream(ctx context.Context, name string, args ...string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	Expect(cmd.Run()).To(Succeed(), fmt.Sprintf("%s %s", name, strings.Join(args, " ")))
}
