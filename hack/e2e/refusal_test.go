//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

var _ = Describe("Bad input", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, poolManifest("support", "Ticket"))
		awaitPool(ctx, "support")
	}, NodeTimeout(2*time.Minute))

	DescribeTable("is refused by the API server with a message that says what is wrong",
		func(ctx SpecContext, manifest string, words ...string) {
			said := kubectlRefused(ctx, manifest, "apply", "-f", "-")
			for _, word := range words {
				Expect(said).To(ContainSubstring(word))
			}
		},
		Entry("an unknown field", strings.Replace(poolManifest("bad", "Ticket"), "environment:", "surroundings:", 1), `unknown field "spec.surroundings"`),
		Entry("an unknown environment", poolManifest("bad", "Chess"), "Unsupported value", "Ticket"),
		Entry("a policy that doesn't exist", runManifest("bad", "support", "Genius", []string{task("ticket-resolve", 1)}), "Unsupported value", "Heuristic"),
		Entry("no trials", runManifest("bad", "support", "Null", []string{task("ticket-resolve", -1)}), "trials"),
		Entry("a pass score above 1", runManifest("bad", "support", "Null", []string{task("ticket-resolve", 1)}, `passScore: "1.5"`), "passScore"),
		Entry("no task", runManifest("bad", "support", "Null", nil), "tasks"),
		Entry("a long name", poolManifest(strings.Repeat("a", 60), "Ticket"), "at most 50"),
	)

	It("can't change a run that has begun", func(ctx SpecContext) {
		apply(ctx, runManifest("fixed", "support", "Null", []string{task("ticket-classify", 1)}))
		said := kubectlRefused(ctx, "", "patch", "evalrun", "fixed", "--type=merge", "-p", `{"spec":{"seed":99}}`)
		Expect(said).To(ContainSubstring("seed is immutable"))
	}, SpecTimeout(time.Minute))

	DescribeTable("ends or holds a run with a condition that says what to do",
		func(ctx SpecContext, manifest, name string, condition OmegaMatcher) {
			apply(ctx, manifest)
			Eventually(ctx, conditionsOf).WithArguments(name).WithTimeout(time.Minute).Should(ContainElement(condition))
			Expect(podsOf(ctx, name)).To(BeEmpty())
		},
		Entry("an unknown task", runManifest("unknown-task", "support", "Null", []string{task("ticket-juggle", 1)}), "unknown-task",
			haveReason(v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonInvalidPlan, "ticket-juggle", "ticket-resolve")),
		Entry("an unknown scenario", runManifest("unknown-scenario", "support", "Null", []string{"{name: ticket-resolve, scenarios: {ids: [Z99]}}"}), "unknown-scenario",
			haveReason(v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonInvalidPlan, "Z99")),
		Entry("an environment that isn't there", runManifest("no-environment", "nowhere", "Null", []string{task("ticket-resolve", 1)}), "no-environment",
			haveReason(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, v1alpha1.ReasonEnvironmentNotFound, "nowhere")),
	)

	It("counts nothing of a summary that the pool didn't sign, and plays on", func(ctx SpecContext) {
		apply(ctx, runManifest("forged", "support", "Heuristic", []string{task("ticket-classify", 1000), task("ticket-resolve", 1000)}, "concurrency: 1"))
		evalrun := &v1alpha1.EvaluationRun{}
		Eventually(ctx, podsOf).WithArguments("forged").WithTimeout(time.Minute).ShouldNot(BeEmpty())
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "forged"}, evalrun)).To(Succeed())
		Expect(k8s.Create(ctx, forgedRunner(evalrun))).To(Succeed())

		Eventually(ctx, func() string {
			return kubectl(ctx, "-n", namespace, "get", "events", "--field-selector=reason=SummaryRefused")
		}).WithTimeout(time.Minute).Should(And(ContainSubstring("evaluationrun/forged"), ContainSubstring("forged-runner")))
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "forged"}, evalrun)).To(Succeed())
		Expect(evalrun.Status.Episodes.Scored).To(BeZero())
		Expect(evalrun.Status.Score).To(BeNil())
		Expect(evalrun.Status.Conditions).To(ContainElement(haveCondition(v1alpha1.ConditionFailed, metav1.ConditionFalse)), "the shard's own runner still plays it")
		kubectl(ctx, "-n", namespace, "delete", "evalrun", "forged", "--timeout=60s")
		Eventually(ctx, podsOf).WithArguments("forged").WithTimeout(90 * time.Second).Should(Or(BeEmpty(), HaveEach(HaveField("Name", "forged-runner"))))
	}, SpecTimeout(4*time.Minute))

	It("says that an image can't be pulled", func(ctx SpecContext) {
		manifest := strings.Replace(poolManifest("no-image", "Ticket"), "spec:", "spec:\n  image: registry.example/none:1", 1)
		apply(ctx, manifest)
		pool := &v1alpha1.CustomerSupportEnv{}
		Eventually(ctx, func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "no-image"}, pool)).To(Succeed())
			g.Expect(pool.Status.Conditions).To(ContainElement(
				haveReason(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonImagePullFailed, "registry.example/none:1")))
		}).WithTimeout(90 * time.Second).Should(Succeed())
		kubectl(ctx, "-n", namespace, "delete", "cse", "no-image", "--timeout=60s")
	}, SpecTimeout(3*time.Minute))

	It("leaves a server that is sent rubbish as it was", func(ctx SpecContext) {
		pod := serverPod(ctx, "support")
		address := forward(pod, "8000")
		conn, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+address+"/ws", nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		Expect(conn.SetReadDeadline(time.Now().Add(30 * time.Second))).To(Succeed())
		for sent, code := range map[string]string{
			"{bad":                               "INVALID_JSON",
			`{"type":"juggle"}`:                  "UNKNOWN_TYPE",
			`{"type":"step"}`:                    "VALIDATION_ERROR",
			`{"type":"reset","data":[1]}`:        "VALIDATION_ERROR",
			`{"type":"state","surplus":"field"}`: "VALIDATION_ERROR",
		} {
			Expect(conn.WriteMessage(websocket.TextMessage, []byte(sent))).To(Succeed())
			_, answer, err := conn.ReadMessage()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(answer)).To(ContainSubstring(code), "sent %s", sent)
		}
		Expect(conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"reset","data":{"seed":1}}`))).To(Succeed())
		_, answer, err := conn.ReadMessage()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(answer)).To(ContainSubstring(`"observation"`))
		Expect(healthy(ctx, address)).To(BeTrue())
		after := serverPod(ctx, "support")
		Expect(after.Status.ContainerStatuses[0].RestartCount).To(BeZero())
	}, SpecTimeout(time.Minute))
})

// forgedRunner is what somebody with the right to create pods might pass off as the runner of the run's first shard: it succeeds, but what it leaves is no signed summary.
func forgedRunner(evalrun *v1alpha1.EvaluationRun) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "forged-runner", Namespace: namespace, Finalizers: []string{"csenv.dev/summary"},
			Labels: map[string]string{
				"app.kubernetes.io/component": "runner", "app.kubernetes.io/managed-by": "csenv", "csenv.dev/run": evalrun.Name, "csenv.dev/run-uid": string(evalrun.UID),
			},
			Annotations: map[string]string{"batch.kubernetes.io/job-completion-index": "0"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "runner", Image: image(), Command: []string{"/manager", "--version"},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// serverPod returns a ready server of the pool.
func serverPod(ctx context.Context, pool string) corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{
		"csenv.dev/environment": pool, "app.kubernetes.io/component": "env-server",
	})).To(Succeed())
	Expect(pods.Items).NotTo(BeEmpty())
	return pods.Items[0]
}

// forward lets this machine reach a pod's port until the spec ends, wherever the node is, and returns the address here.
func forward(pod corev1.Pod, port string) string {
	GinkgoHelper()
	// Not the spec's context: cleanup ends it, after what uses it.
	cmd := exec.CommandContext(context.Background(), clusterTool, "kubectl", "--", "-n", pod.Namespace, "port-forward", "pod/"+pod.Name, ":"+port, "--address", "127.0.0.1")
	cmd.Stderr = GinkgoWriter
	out, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := make(chan string, 1)
	go func() {
		// A first line always comes: the end of the program is an empty one.
		line, _ := bufio.NewReader(out).ReadString('\n')
		said <- line
	}()
	line := ""
	Eventually(said).WithTimeout(30 * time.Second).Should(Receive(&line))
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	Expect(address).To(HavePrefix("127.0.0.1:"), "kubectl port-forward said %q", line)
	return address
}

func healthy(ctx context.Context, address string) bool {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
