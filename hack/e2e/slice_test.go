//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxStatusBytes bounds a run's status.
const maxStatusBytes = 16 << 10

var _ = Describe("From kubectl apply to a score", Ordered, func() {
	inNamespace("csenv-e2e-slice")
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, poolManifest("support", "Ticket"))
		apply(ctx, poolManifest("workflows", "Workflow"))
		awaitPool(ctx, "support")
		awaitPool(ctx, "workflows")
		createModelKey(ctx)
	}, NodeTimeout(specBound))

	It("scores 40 tickets", func(ctx SpecContext) {
		var took []time.Duration
		for i := range 3 {
			name, began := fmt.Sprintf("quick-%d", i), time.Now()
			apply(ctx, runManifest(name, "support", "Heuristic", []string{task("ticket-resolve", 1)}))
			Expect(awaitComplete(ctx, name).Status.Episodes.Total).To(BeEquivalentTo(40))
			took = append(took, time.Since(began).Round(100*time.Millisecond))
		}
		AddReportEntry("from kubectl apply to Complete, 40 tickets", took)
	}, SpecTimeout(specBound))

	It("scores the oracle with full marks by rule and the policy Noop with none", func(ctx SpecContext) {
		apply(ctx, runManifest("oracle", "support", "Oracle",
			[]string{task("ticket-classify", 1), task("ticket-resolve", 1)}))
		apply(ctx, runManifest("nothing", "support", "Noop", []string{task("ticket-resolve", 1)}))
		oracle, noop := awaitComplete(ctx, "oracle"), awaitComplete(ctx, "nothing")

		for _, result := range oracle.Status.Tasks {
			for _, dimension := range result.Dimensions {
				if dimension.Name != "response" {
					Expect(dimension.Mean).To(Equal(dimension.Max), "%s of %s", dimension.Name, result.Name)
				}
			}
		}
		Expect(oracle.Status.Tasks).To(ContainElement(And(HaveField("Name", "ticket-classify"),
			HaveField("Score.Mean", "1.0000"))))
		Expect(oracle.Status.PassRate).To(Equal("1.0000"))
		Expect(noop.Status.Score.Mean).To(Equal("0.0000"))
		Expect(noop.Status.Score.Max).To(Equal("0.0000"))
		Expect(noop.Status.PassRate).To(Equal("0.0000"))
	}, SpecTimeout(specBound))

	It("plays the same seed twice to the same figures, over any number of runners", func(ctx SpecContext) {
		tasks := []string{task("ticket-resolve", 3)}
		apply(ctx, runManifest("seed-a", "support", "Heuristic", tasks, "seed: 7"))
		apply(ctx, runManifest("seed-b", "support", "Heuristic", tasks, "seed: 7", "parallelism: 3"))
		apply(ctx, runManifest("seed-c", "support", "Random", tasks, "seed: 7"))
		a, b, c := awaitComplete(ctx, "seed-a"), awaitComplete(ctx, "seed-b"), awaitComplete(ctx, "seed-c")

		Expect(b.Status.Shards.Total).To(BeEquivalentTo(3))
		Expect(b.Status.Score).To(Equal(a.Status.Score))
		Expect(b.Status.Tasks).To(Equal(a.Status.Tasks))
		Expect(b.Status.Categories).To(Equal(a.Status.Categories))
		Expect(b.Status.PassHatK).To(Equal(a.Status.PassHatK))
		Expect(number(c.Status.Score.Mean)).To(BeNumerically("<", number(a.Status.Score.Mean)),
			"Random against Heuristic")
	}, SpecTimeout(specBound))

	It("plays workflows", func(ctx SpecContext) {
		tasks := []string{task("order-inquiry", 2), task("refund", 2), task("payment-exception", 2)}
		apply(ctx, runManifest("workflow-oracle", "workflows", "Oracle", tasks))
		apply(ctx, runManifest("workflow-heuristic", "workflows", "Heuristic", tasks))
		oracle, heuristic := awaitComplete(ctx, "workflow-oracle"), awaitComplete(ctx, "workflow-heuristic")
		Expect(oracle.Status.Score.Mean).To(Equal("1.0000"))
		Expect(number(heuristic.Status.Score.Mean)).To(And(BeNumerically(">", 0), BeNumerically("<", 1)))
	}, SpecTimeout(specBound))

	It("counts every episode and prints it in kubectl get", func(ctx SpecContext) {
		kubectl(ctx, "-n", namespace, "wait", "--for=condition=Complete", "evaluationrun/oracle", timeout)
		oracle := awaitComplete(ctx, "oracle")
		Expect(oracle.Status.Episodes.Scored + oracle.Status.Episodes.Failed).To(Equal(oracle.Status.Episodes.Total))
		Expect(oracle.Status.Provenance.ScenarioDigest).To(HavePrefix("sha256:"))

		status, err := json.Marshal(oracle.Status)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(status)).To(BeNumerically("<", maxStatusBytes))

		table := kubectl(ctx, "-n", namespace, "get", "cse,evalrun")
		AddReportEntry("kubectl get cse,evalrun", "\n"+table)
		Expect(table).To(ContainSubstring("ServersReady"))
		Expect(table).To(
			MatchRegexp(`evaluationrun\S+/oracle\s+support\s+Oracle\s+\d+/\d+\s+[01]\.\d{4}\s+1\.0000\s+Completed`))
		Expect(kubectl(ctx, "explain", "evaluationrun.spec.retries.maxErroredPercent")).To(ContainSubstring("percent"))
	}, SpecTimeout(specBound))

	It("deletes what belongs to a run and to a pool, and nothing else", func(ctx SpecContext) {
		By("deleting a run while its shards are being played")
		playHeld(ctx, "midflight", "support")
		kubectl(ctx, "-n", namespace, "delete", "evalrun", "midflight", timeout)
		expectGone(ctx, "midflight", &batchv1.Job{})
		Eventually(ctx, podsOf).WithArguments("midflight").Should(BeEmpty())

		By("deleting a finished run")
		kubectl(ctx, "-n", namespace, "delete", "evalrun", "oracle", timeout)
		expectGone(ctx, "oracle", &batchv1.Job{})
		expectGone(ctx, "oracle-scores", &corev1.ConfigMap{})
		Eventually(ctx, podsOf).WithArguments("oracle").Should(BeEmpty())
		Eventually(ctx, secretsOf).WithArguments("csenv.dev/run=oracle").Should(BeEmpty())

		By("deleting a pool")
		Expect(secretsOf(ctx, "csenv.dev/environment=workflows,!csenv.dev/run")).To(HaveLen(2), "key and metrics token")
		kubectl(ctx, "-n", namespace, "delete", "cse", "workflows", timeout)
		expectGone(ctx, "workflows", &appsv1.Deployment{})
		expectGone(ctx, "workflows", &corev1.Service{})
		expectGone(ctx, "workflows-pods", &corev1.Service{})
		expectGone(ctx, "workflows", &policyv1.PodDisruptionBudget{})
		Eventually(ctx, secretsOf).WithArguments("csenv.dev/environment=workflows,!csenv.dev/run").Should(BeEmpty())
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "support"}, &appsv1.Deployment{})).To(
			Succeed())
	}, SpecTimeout(specBound))
})

// number parses a decimal string of the API.
func number(decimal string) float64 {
	GinkgoHelper()
	value, err := strconv.ParseFloat(decimal, 64)
	Expect(err).NotTo(HaveOccurred())
	return value
}

func podsOf(ctx SpecContext, evalrun string) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"csenv.dev/run": evalrun})).To(
		Succeed())
	return pods.Items
}

func secretsOf(ctx SpecContext, selector string) []corev1.Secret {
	GinkgoHelper()
	parsed, err := labels.Parse(selector)
	Expect(err).NotTo(HaveOccurred())
	secrets := &corev1.SecretList{}
	Expect(k8s.List(ctx, secrets, client.InNamespace(namespace),
		client.MatchingLabelsSelector{Selector: parsed})).To(Succeed())
	return secrets.Items
}

func expectGone(ctx SpecContext, name string, obj client.Object) {
	GinkgoHelper()
	Eventually(ctx, func() bool {
		return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj))
	}).Should(BeTrue(), "%T %s should be gone", obj, name)
}

// conditionsOf returns a run's current conditions.
func conditionsOf(ctx SpecContext, evalrun string) []metav1.Condition {
	GinkgoHelper()
	return runNamed(ctx, evalrun).Status.Conditions
}
