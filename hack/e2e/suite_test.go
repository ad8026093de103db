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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// bound ends a wait for something that never happens. It promises no speed.
	bound = 4 * time.Minute
	// specBound ends a spec whose waits together last too long.
	specBound = 15 * time.Minute
	// order is the seed of the order of the containers, which Ginkgo would shuffle.
	order = 1
)

var (
	// tools is the folder of the programs that the suite builds.
	tools string
	// clusterTool is the program of hack/cluster.
	clusterTool string
	k8s         client.Client
	// kube passes requests on to pods.
	kube kubernetes.Interface
	// local reports whether the node's processes run on this machine.
	local bool
	// namespace contains the pools and runs of the container that runs. It enforces the restricted
	// Pod Security level.
	namespace string
	// installed records that the operator of this checkout is installed.
	installed bool
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	logf.SetLogger(GinkgoLogr)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	SetDefaultEventuallyTimeout(bound)
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite, reporter := GinkgoConfiguration()
	suite.RandomSeed = order
	RunSpecs(t, "csenv on a real node", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tools = GinkgoT().TempDir()
	if clusterTool = programOf("CSENV_CLUSTER_TOOL"); clusterTool == "" {
		By("building the cluster tool")
		clusterTool = filepath.Join(tools, "cluster")
		run(ctx, "go", "build", "-trimpath", "-tags", shipped.Tags, "-o", clusterTool, "../cluster")
	}
	By("bringing the cluster up: the very first time this builds Kubernetes, which takes several minutes")
	stream(ctx, clusterTool, "up", "--nodes", nodes())
	local = regexp.MustCompile(`(?m)^provider\s+local\b`).MatchString(run(ctx, clusterTool, "status"))
	stream(ctx, clusterTool, "load", "--image", image())
	connect(ctx)
}, NodeTimeout(30*time.Minute))

// nodes is the number of the cluster's nodes.
func nodes() string { return cmp.Or(os.Getenv("NODES"), "1") }

// programOf returns the program that an environment variable names, from the root of the
// repository, or "".
func programOf(variable string) string {
	GinkgoHelper()
	path := os.Getenv(variable)
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join("..", "..", path)
	}
	path, err := filepath.Abs(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(path).To(BeARegularFile(), variable)
	return path
}

// csenvTool returns the command line: the file that CSENV_PROGRAM names, or one that it builds once
// with the flags of the image, which have the same build cache.
func csenvTool(ctx context.Context) string {
	GinkgoHelper()
	if given := programOf("CSENV_PROGRAM"); given != "" {
		return given
	}
	built := filepath.Join(tools, "csenv")
	if _, err := os.Stat(built); err != nil {
		run(ctx, "go", shipped.BuildArgs("dev", shipped.Tags, built, "../../cmd/csenv")...)
	}
	return built
}

// inNamespace gives the specs of an ordered container a namespace of their own, with the operator
// installed. No finalizer may block the namespace's deletion.
func inNamespace(name string) {
	BeforeAll(func(ctx SpecContext) {
		namespace = name
		if !installed {
			installOperator(ctx)
		}
		createNamespace(ctx)
	}, NodeTimeout(specBound))
	AfterAll(deleteNamespace, NodeTimeout(specBound))
}

// JustAfterEach runs before cleanups, which remove what is to be explained.
var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
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
	earlier := operatorPods(ctx) // which may have an earlier image of the same name
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", "../../config/default")
	if earlier != nil {
		kubectl(ctx, "-n", systemNamespace, "rollout", "restart", "deployment/csenv-manager")
	}
	kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-manager", timeout)
	installed = true
}

// timeout is the flag with which kubectl waits.
const timeout = "--timeout=4m"

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
	deleteNamespace(ctx) // which an earlier suite may have left
	Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})).To(Succeed())
}

func deleteNamespace(ctx context.Context) {
	GinkgoHelper()
	doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Eventually(ctx, func() bool { return apierrors.IsNotFound(k8s.Delete(ctx, doomed)) }).Should(BeTrue(), func() string {
		explain(GinkgoWriter)
		return "the namespace " + namespace + " is not gone"
	})
}

// kubectl runs the cluster's kubectl, which must succeed, and returns its output.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, clusterTool, append([]string{"kubectl", "--"}, args...)...)
}

// patch changes an object of the namespace.
func patch(ctx context.Context, kind, name, change string) {
	GinkgoHelper()
	kubectl(ctx, "-n", namespace, "patch", kind, name, "--type=merge", "-p", change)
}

// exists reports whether the API server has an object.
func exists(ctx context.Context, key client.ObjectKey, object client.Object) bool {
	GinkgoHelper()
	err := k8s.Get(ctx, key, object)
	Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
	return err == nil
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
