//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// trainedEpisodes is the minimum number of episodes that the trainers play.
const trainedEpisodes = 100

var _ = Describe("A run that collects episodes of trainers", Ordered, func() {
	inNamespace("csenv-e2e-trainers")
	It("counts each episode once despite a rolling update and a killed manager", func(ctx SpecContext) {
		apply(ctx, pooled("gym", "replicas: 2", "drainTimeoutSeconds: 90", "service: {type: NodePort}"))
		awaitServers(ctx, "gym", 2)
		apply(ctx, "apiVersion: csenv.dev/v1alpha1\nkind: EvaluationRun\nmetadata: {name: grpo-7}\nspec: "+
			"{environmentRef: {name: gym}, agent: {type: External}}\n")
		players := gather(ctx, nodeURL(ctx, "gym"), "grpo-7", 12, time.Second)
		Eventually(ctx, collected).WithArguments("grpo-7").Should(
			BeNumerically(">", trainedEpisodes/5))

		By("replacing every server, and killing the manager while they go")
		before := podNames(serversOf(ctx, "gym"))
		patch(ctx, "cse", "gym", `{"spec":{"template":{"annotations":{"example.com/rolled-out":"true"}}}}`)
		Eventually(ctx, func(g Gomega) {
			g.Expect(serversOf(ctx, "gym")).To(ContainElement(HaveField("DeletionTimestamp", Not(BeNil()))))
		}).Should(Succeed())
		killed := strike(ctx, "manager", "", rand.New(rand.NewPCG(1, 1)))
		awaitServers(ctx, "gym", 2, HaveField("Name", Not(BeElementOf(before))))
		Eventually(ctx, players.episodes.Load).Should(BeNumerically(">=", trainedEpisodes))
		players.leave(ctx)
		ended := players.episodes.Load()
		Expect(players.losses()).To(BeEmpty())
		Eventually(ctx, collected).WithArguments("grpo-7").Should(Equal(ended))
		data, err := json.Marshal(runNamed(ctx, "grpo-7").Status)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(data)).To(BeNumerically("<", 16<<10))

		By("ending the run by its deadline")
		patch(ctx, "evalrun", "grpo-7", `{"spec":{"activeDeadlineSeconds":1}}`)
		run := awaitComplete(ctx, "grpo-7")
		Expect(run.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionComplete, metav1.ConditionTrue,
			v1alpha1.ReasonCollectionEnded)))
		Expect(run.Status.Episodes).To(Equal(&v1alpha1.RunEpisodes{Total: ended, Scored: ended}))
		Expect(run.Status.Score.Mean).To(Equal(score.FormatDecimal((players.sum+ended/2)/ended)),
			"the mean of the scores that the clients received")
		Expect(run.Status.Rollouts.Dropped).To(BeZero())
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(run), &batchv1.Job{})).To(
			MatchError(ContainSubstring("not found")))
		AddReportEntry("trainers", fmt.Sprintf("%s; the run has %d episodes with mean %s, status of %d bytes while "+
			"it went on; killed %s", players, ended, run.Status.Score.Mean, len(data), killed))
	}, SpecTimeout(specBound))
})

// runNamed returns a run of the suite's namespace.
func runNamed(ctx SpecContext, name string) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	run := &v1alpha1.EvaluationRun{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run)).To(Succeed())
	return run
}

// collected returns the number of episodes in a run's figures.
func collected(ctx SpecContext, evalrun string) int64 {
	GinkgoHelper()
	e := runNamed(ctx, evalrun).Status.Episodes
	if e == nil {
		return 0
	}
	return e.Scored + e.Failed + e.Errored
}
