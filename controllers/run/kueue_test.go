package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/testkit/process"
)

// kueueVariable names a folder with Kueue's program and manifests, which `make test-kueue` builds.
const kueueVariable = "CSENV_KUEUE"

const kueueConfig = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "%s"}
metrics: {bindAddress: "%s"}
webhook: {port: %s, certDir: %s}
leaderElection: {leaderElect: false}
integrations: {frameworks: [batch/job]}
`

const kueueQueues = `
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [pods, cpu, memory]
    flavors:
    - name: any
      resources:
      - {name: pods, nominalQuota: 4}
      - {name: cpu, nominalQuota: 4}
      - {name: memory, nominalQuota: 4Gi}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: default, namespace: %s}
spec: {clusterQueue: all}
`

// Kueue and Kubernetes' Job controller run here.
var _ = Describe("A Job in Kueue's default queue", Ordered, func() {
	var c *cluster

	BeforeAll(func(ctx SpecContext) {
		folder := os.Getenv(kueueVariable)
		if folder == "" {
			Skip("this test needs Kueue: run `make test-kueue`")
		}
		types := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme,
			v1alpha1.AddToScheme} {
			Expect(add(types)).To(Succeed())
		}
		server := apiserver.StartWithControllers(GinkgoTB(), []string{"job-controller"})
		api, err := client.NewWithWatch(server.Config, client.Options{Scheme: types})
		Expect(err).NotTo(HaveOccurred())
		startKueue(ctx, api, folder, server.KubeConfig)
		c = (&cluster{client: api,
			r: reconcilerOf(api, api, testclock.NewFakePassiveClock(time.Now()))}).anew(ctx)
		for _, object := range objectsOf(fmt.Sprintf(kueueQueues, c.namespace)) {
			Eventually(ctx, func() error { return api.Create(ctx, object) }).WithTimeout(time.Minute).Should(Succeed())
		}
		c.awaitDefaultQueue(ctx)
	})

	It("starts when it is admitted, and leaves the queue while its run is suspended", func(ctx SpecContext) {
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		first := c.job(ctx)
		Expect(first.Labels).To(HaveKeyWithValue(runner.LabelQueue, "default"))
		c.awaitAdmission(ctx)
		Expect(c.job(ctx).UID).To(Equal(first.UID), "the Job was replaced")

		c.change(ctx, func(run *v1alpha1.EvaluationRun) { run.Spec.Suspend = new(true) })
		for range 3 {
			c.reconcile(ctx)
			Expect(apierrors.IsNotFound(c.client.Get(ctx, client.ObjectKeyFromObject(first), &batchv1.Job{}))).To(BeTrue())
		}
		c.change(ctx, func(run *v1alpha1.EvaluationRun) { run.Spec.Suspend = new(false) })
		c.reconcile(ctx)
		c.awaitAdmission(ctx)
	}, SpecTimeout(3*time.Minute))
})

// awaitAdmission reconciles until Kueue has started the Job.
func (c *cluster) awaitAdmission(ctx SpecContext) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		c.reconcile(ctx)
		return runtest.FormatConditions(c.run(ctx).Status.Conditions)
	}).WithTimeout(time.Minute).Should(ContainSubstring("Complete=False/Running"))
	Expect(c.job(ctx).Spec.Suspend).To(HaveValue(BeFalse()))
}

func objectsOf(manifests string) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifests)), 1<<12); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, object)
	}
}

// startKueue installs Kueue and runs its program here instead of in a pod. The API server finds its
// webhooks by the external name and the port of their Service.
func startKueue(ctx SpecContext, api client.Client, folder string, kubeconfig []byte) {
	GinkgoHelper()
	addresses, err := process.FreeAddresses(ctx, 3)
	Expect(err).NotTo(HaveOccurred())
	port := addresses[0][strings.LastIndex(addresses[0], ":")+1:]
	manifests, err := os.ReadFile(filepath.Join(folder, "kueue.yaml"))
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objectsOf(regexp.MustCompile(`(?m)^( +)name: kueue-webhook-service$`).ReplaceAllString(
		string(manifests), "${0}\n${1}port: "+port)) {
		switch {
		case object.GetKind() == "Deployment" || object.GetKind() == "APIService":
			continue
		case object.GetKind() == "Service":
			object.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
		}
		Expect(client.IgnoreAlreadyExists(api.Create(ctx, object))).To(Succeed())
	}
	dir := GinkgoTB().TempDir()
	write := func(name string, data []byte) string {
		GinkgoHelper()
		path := filepath.Join(dir, name)
		Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
		return path
	}
	cmd := exec.Command(filepath.Join(folder, "kueue"),
		"--config="+write("config.yaml", fmt.Appendf(nil, kueueConfig, addresses[1], addresses[2], port, dir)),
		"--feature-gates=VisibilityOnDemand=false")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+write("kubeconfig", kubeconfig))
	kueue, err := process.Start("kueue", cmd)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kueue.Stop(10 * time.Second)).To(Succeed()) })
	// The kubelet would mount the Secret of the certificate that Kueue creates.
	Eventually(ctx, func(g Gomega) {
		var secret corev1.Secret
		g.Expect(api.Get(ctx, client.ObjectKey{Namespace: "kueue-system", Name: "kueue-webhook-server-cert"},
			&secret)).To(Succeed())
		g.Expect(secret.Data).To(HaveKey("tls.crt"))
		for name, data := range secret.Data {
			write(name, data)
		}
	}).WithTimeout(time.Minute).Should(Succeed())
}
