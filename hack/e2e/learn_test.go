//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// learnt is the part of the trainer's summary.json that is compared with the run.
type learnt struct {
	Episodes, Errored, Lost int64
	Mean, PassRate          float64
}

// curveRow matches a row of the curve: updates, episodes, and at the end the mean of held-out
// tickets.
var curveRow = regexp.MustCompile(`(?m)^ +(\d+) +(\d+) .* (\d\.\d{3})$`)

var _ = Describe("The trainer of examples/learn", Label("learn"), Ordered, func() {
	inNamespace("csenv-e2e-learn")
	const (
		// restarted, killed and resumed are the numbers of episodes after which the pool is
		// restarted, its servers are killed and, from then on, the training is ended.
		restarted, killed, resumed = 64_000, 128_000, 32_000
		// uncollected is the longest time in which a killed server keeps episodes for itself.
		uncollected = 10 * time.Second
	)
	It("learns in a Job while the pool is restarted and servers are killed, and the run has its figures",
		func(ctx SpecContext) {
			run(ctx, "sh", "-c", "cd ../.. && exec go run ./hack/trainer")
			stream(ctx, clusterTool, "load", "--layout", "../../bin/trainer")
			kubectl(ctx, "-n", namespace, "apply", "-k", "../../config/samples/training")
			kubectl(ctx, "-n", namespace, "delete", "cse", "training")
			// The training lasts until the test ends it, so that it lasts as long as the
			// disturbances.
			unending := strings.NewReplacer("    external: {episodes: 51200}\n", "", "        - --updates=100\n", "")
			apply(ctx, unending.Replace(manifestOf("cluster.yaml")))
			awaitServers(ctx, "learn", 2)
			began := time.Now()
			apply(ctx, unending.Replace(manifestOf("job.yaml")))

			By("restarting the pool")
			reach(ctx, restarted)
			before := podNames(serversOf(ctx, "learn"))
			kubectl(ctx, "-n", namespace, "patch", "cse", "learn", "--type=merge", "-p",
				`{"spec":{"template":{"annotations":{"example.com/restarted":"true"}}}}`)
			awaitServers(ctx, "learn", 2, HaveField("Name", Not(BeElementOf(before))))

			By("killing one server after the other, because all sessions may be on one")
			reach(ctx, killed)
			rate := float64(collected(ctx, "learn-1")) / time.Since(began).Seconds()
			for i, server := range serversOf(ctx, "learn") {
				Expect(kill(server, "envserver")).To(BeTrue())
				Eventually(ctx, restarts).WithArguments("learn").Should(BeEquivalentTo(i + 1))
				awaitServers(ctx, "learn", 2)
			}

			By("ending the training after some more episodes")
			reach(ctx, collected(ctx, "learn-1")+resumed)
			kubectl(ctx, "-n", namespace, "exec", "job/learn", "--", "python3", "-c", "import os; os.kill(1, 15)")
			Eventually(ctx, learntIn).WithTimeout(10 * time.Minute).Should(HaveField("Episodes", BeNumerically(">", 0)))
			trainer := learntIn(ctx)
			log := kubectl(ctx, "-n", namespace, "logs", "job/learn")
			Expect(os.WriteFile(filepath.Join("..", "..", "bin", "learn.log"), []byte(log), 0o600)).To(Succeed())
			Expect(trainer.Lost).To(BeNumerically(">", 0), "sessions of a killed server")
			curve := curveRow.FindAllStringSubmatch(log, -1)
			Expect(curve).NotTo(BeEmpty(), log)
			untrained, learned := heldOut(curve[0]), heldOut(curve[len(curve)-1])
			Expect(learned).To(BeNumerically(">", untrained+0.3), "it has learned:\n%s", log)

			By("comparing the figures")
			last, since := int64(-1), time.Now()
			Eventually(ctx, func() time.Duration {
				if n := collected(ctx, "learn-1"); n != last {
					last, since = n, time.Now()
				}
				return time.Since(since)
			}).Should(BeNumerically(">", uncollected), "the last episodes are collected")
			kubectl(ctx, "-n", namespace, "patch", "evalrun", "learn-1", "--type=merge", "-p",
				`{"spec":{"activeDeadlineSeconds":1}}`)
			counted := awaitComplete(ctx, "learn-1")
			missed := trainer.Episodes - last
			most := int64(rate * uncollected.Seconds())
			Expect(missed).To(And(BeNumerically(">=", -trainer.Lost), BeNumerically("<=", most)))
			mean, err := strconv.ParseFloat(counted.Status.Score.Mean, 64)
			Expect(err).NotTo(HaveOccurred())
			// Each missed episode moves the mean by at most 1/n. The status has four decimals.
			Expect(mean).To(BeNumerically("~", trainer.Mean, float64(missed+trainer.Lost)/float64(trainer.Episodes)+0.00005))
			AddReportEntry("training", fmt.Sprintf("%d episodes, %d lost and played again, mean %.6f, pass rate %.6f; the run: "+
				"%d episodes (%d not handed over by killed servers), mean %s, pass rate %s; held out %.3f, before the "+
				"training %.3f; %.0f episodes/s", trainer.Episodes, trainer.Lost, trainer.Mean, trainer.PassRate,
				last, missed, counted.Status.Score.Mean, counted.Status.PassRate, learned,
				untrained, rate))
			kubectl(ctx, "-n", namespace, "delete", "job,evalrun,cse", "learn", "learn-1", "--ignore-not-found", timeout)
		}, SpecTimeout(20*time.Minute))
})

// restarts counts the restarts of a pool's servers.
func restarts(ctx SpecContext, pool string) (count int32) {
	GinkgoHelper()
	for _, server := range serversOf(ctx, pool) {
		for _, c := range server.Status.ContainerStatuses {
			count += c.RestartCount
		}
	}
	return count
}

// manifestOf returns a file of examples/learn.
func manifestOf(name string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "learn", name))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// learntIn returns the summary in the termination message of the trainer, zero while it trains.
func learntIn(ctx SpecContext) (summary learnt) {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"job-name": "learn"})).To(Succeed())
	for _, pod := range pods.Items {
		Expect(pod.Status.Phase).NotTo(Equal(corev1.PodFailed), "the trainer failed")
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				Expect(json.Unmarshal([]byte(c.State.Terminated.Message), &summary)).To(Succeed())
			}
		}
	}
	return summary
}

// reach waits until the run has so many episodes, and fails if the trainer does.
func reach(ctx SpecContext, episodes int64) {
	GinkgoHelper()
	Eventually(ctx, func() int64 {
		learntIn(ctx)
		return collected(ctx, "learn-1")
	}).WithTimeout(5 * time.Minute).Should(BeNumerically(">", episodes))
}

// heldOut returns the mean of a row of the curve.
func heldOut(row []string) float64 {
	GinkgoHelper()
	mean, err := strconv.ParseFloat(row[len(row)-1], 64)
	Expect(err).NotTo(HaveOccurred())
	return mean
}
