//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/scenarios"
)

// caseEpisodes is the least number of episodes of a run over generated cases.
const caseEpisodes = 2000

var _ = Describe("A run over generated cases", Ordered, func() {
	inNamespace("csenv-e2e-cases")
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, poolManifest("cases", "Workflow"))
		awaitPool(ctx, "cases")
	}, NodeTimeout(specBound))

	It("has the figures of every family in the selected split", func(ctx SpecContext) {
		families, difficulties, trials := testCases()
		var tasks []string
		for _, difficulty := range slices.Sorted(maps.Keys(difficulties)) {
			tasks = append(tasks, fmt.Sprintf("{name: case-%s, trials: %d, scenarios: {difficulties: [%s], splits: [Test]}}",
				difficulty, trials, difficulty))
		}
		extra := []string{"seed: 3", "parallelism: 2", "thresholds: [{metric: meanScore, category: return, min: 0.9}]"}
		apply(ctx, runManifest("cases-oracle", "cases", "Oracle", tasks, extra...))
		apply(ctx, runManifest("cases-heuristic", "cases", "Heuristic", tasks, extra...))
		oracle, heuristic := awaitEnd(ctx, "cases-oracle"), awaitEnd(ctx, "cases-heuristic")

		for _, evalrun := range []*v1alpha1.EvaluationRun{oracle, heuristic} {
			Expect(evalrun.Status.Episodes.Total).To(BeNumerically(">=", caseEpisodes))
			Expect(evalrun.Status.Episodes.Errored).To(BeZero())
			Expect(episodesBy(evalrun.Status.Categories)).To(Equal(families))
			Expect(episodesBy(evalrun.Status.Difficulties)).To(Equal(difficulties))
			Expect(total(families)).To(BeEquivalentTo(evalrun.Status.Episodes.Total))
		}
		Expect(oracle.Status.Score.Min).To(Equal("1.0000"))
		Expect(oracle.Status.PassRate).To(Equal("1.0000"))
		Expect(oracle.Status.Conditions).To(ContainElement(haveCondition(v1alpha1.ConditionThresholdsMet,
			metav1.ConditionTrue)))
		Expect(number(heuristic.Status.Score.Mean)).To(And(BeNumerically(">", 0), BeNumerically("<", 1)))
		Expect(heuristic.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionThresholdsMet,
			metav1.ConditionFalse, v1alpha1.ReasonThresholdsMissed, "return")))
	}, SpecTimeout(specBound))

	It("fails with the reason if no case matches its selection", func(ctx SpecContext) {
		apply(ctx, runManifest("cases-none", "cases", "Oracle",
			[]string{"{name: case-easy, scenarios: {modifiers: [pluss], difficulties: [hard], splits: [Private]}}"}))
		Eventually(ctx, conditionsOf).WithArguments("cases-none").Should(ContainElement(
			haveReason(v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonInvalidPlan,
				"task case-easy has no modifier pluss, use ", "task case-easy has no difficulty hard, use easy",
				"task case-easy has no split Private, use Dev, Test, Train")))
	}, SpecTimeout(specBound))
})

// testCases returns the trials with which the cases of the test split give caseEpisodes, and the
// numbers of episodes by family and by difficulty.
func testCases() (families, difficulties map[string]int64, trials int64) {
	GinkgoHelper()
	catalog, err := scenarios.LoadPublic()
	Expect(err).NotTo(HaveOccurred())
	var selected []*scenarios.WorkflowScenario
	for _, s := range catalog.Cases() {
		if s.Split == v1alpha1.TestSplit.Name() {
			selected = append(selected, s)
		}
	}
	Expect(selected).NotTo(BeEmpty())
	n := int64(len(selected))
	trials = (caseEpisodes + n - 1) / n
	families, difficulties = map[string]int64{}, map[string]int64{}
	for _, s := range selected {
		families[s.Category()] += trials
		difficulties[s.Class] += trials
	}
	return families, difficulties, trials
}

func episodesBy(groups []v1alpha1.CategoryResult) map[string]int64 {
	episodes := map[string]int64{}
	for _, group := range groups {
		episodes[group.Name] = group.Episodes
	}
	return episodes
}

func total(episodes map[string]int64) (sum int64) {
	for _, n := range episodes {
		sum += n
	}
	return sum
}
