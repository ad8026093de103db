//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/grader/offline"
)

var _ = Describe("The content of a pool", Ordered, func() {
	inNamespace("csenv-e2e-content")
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, poolManifest("support", "Ticket"))
		awaitPool(ctx, "support")
	}, NodeTimeout(specBound))

	It("has every ticket of the catalogue and queues of tickets", func(ctx SpecContext) {
		Expect(poolNamed(ctx, "support").Status.Tasks).To(ConsistOf(
			v1alpha1.OfferedTask{Name: "ticket-classify", Scenarios: 40}, v1alpha1.OfferedTask{Name: "ticket-resolve",
				Scenarios: 40},
			v1alpha1.OfferedTask{Name: "queue-management", Scenarios: 100}))

		apply(ctx, runManifest("queue-oracle", "support", "Oracle", []string{task("queue-management", 1)}))
		apply(ctx, runManifest("queue-noop", "support", "Noop", []string{task("queue-management", 1)}))
		oracle, noop := awaitComplete(ctx, "queue-oracle"), awaitComplete(ctx, "queue-noop")
		Expect(oracle.Status.Episodes.Total).To(BeEquivalentTo(100))
		Expect(number(oracle.Status.Score.Mean)).To(BeNumerically(">", 0.98))
		Expect(noop.Status.Score.Max).To(Equal("0.0000"))
	}, SpecTimeout(specBound))

	It("lowers the score of slow agents if the run sets pressure", func(ctx SpecContext) {
		tasks := []string{task("ticket-resolve", 1)}
		apply(ctx, runManifest("relaxed", "support", "Heuristic", tasks, "seed: 7"))
		apply(ctx, runManifest("pressed", "support", "Heuristic", tasks, "seed: 7", "pressure: ResponseTime"))
		relaxed, pressed := awaitComplete(ctx, "relaxed"), awaitComplete(ctx, "pressed")
		Expect(number(pressed.Status.Score.Mean)).To(BeNumerically("<=", number(relaxed.Status.Score.Mean)))
		Expect(pressed.Status.Episodes.Errored).To(BeZero())
	}, SpecTimeout(specBound))

	It("can come from a private pack in a Secret", func(ctx SpecContext) {
		pack := packFiles()
		pack["pack.yaml"] = "name: acme\nversion: 1\nsalt: a secret of this suite\n"
		Expect(k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "acme"},
			StringData: pack})).To(Succeed())
		apply(ctx, poolWith("acme", "scenarios: {splits: [Private], packs: [{secret: {name: acme}}]}"))
		awaitPool(ctx, "acme")
		apply(ctx, runManifest("acme", "acme", "Heuristic",
			[]string{"{name: ticket-resolve, trials: 5, scenarios: {ids: [ACME-1]}}"}))
		Expect(awaitComplete(ctx, "acme").Status.Episodes.Total).To(BeEquivalentTo(5))
	}, SpecTimeout(specBound))

	It("plays nothing before the judge can be reached", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "models"},
			StringData: map[string]string{"token": "a key"}})).To(Succeed())
		apply(ctx, poolWith("judged", "judge: {type: LLM, llm: {baseURL: 'http://127.0.0.1:9/v1', model: absent, "+
			"timeoutSeconds: 2, apiKeySecretRef: {name: models, key: token}}}"))
		apply(ctx, runManifest("judged", "judged", "Oracle",
			[]string{"{name: ticket-resolve, scenarios: {ids: [B07]}}"}, "retries: {episodeAttempts: 1, "+
				"maxErroredPercent: 0}"))
		Eventually(ctx, conditionsOf).WithArguments("judged").Should(ContainElement(
			haveReason(v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonJudgeNotReady, "127.0.0.1:9")))

		By("grading with rules alone")
		patch(ctx, "cse", "judged", `{"spec":{"judge":{"type":"Offline","llm":null}}}`)
		played := awaitComplete(ctx, "judged")
		Expect(played.Status.Episodes.Scored).To(BeEquivalentTo(1))
		Expect(played.Status.Episodes.Errored).To(BeZero())
		Expect(played.Status.Provenance.Judge).To(Equal(offline.Name))
	}, SpecTimeout(specBound))
})

// poolWith returns the manifest of a pool of one server, with additional fields of its spec.
func poolWith(name, spec string) string {
	return poolManifest(name, "Ticket") + "  " + spec + "\n"
}

// packFiles returns a pack with one private ticket, ACME-1, as a flat folder.
func packFiles() map[string]string {
	GinkgoHelper()
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join("../../scenarios/testdata/pack", path))
		Expect(err).NotTo(HaveOccurred())
		return string(data)
	}
	ticket := strings.NewReplacer("id: T1\n", "id: ACME-1\n", "split: public-train", "split: private").Replace(
		read("tickets/T1.yaml"))
	Expect(ticket).To(And(ContainSubstring("id: ACME-1"), ContainSubstring("split: private")))
	return map[string]string{
		"ACME-1.yaml": ticket, "POL-REF.md": read("kb/POL-REF.md"), "POL-SLA.md": read("kb/POL-SLA.md"),
		"en.yaml": read("names/en.yaml"),
	}
}
