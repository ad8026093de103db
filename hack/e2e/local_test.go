//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/csenv/csenv/api/v1alpha1"
)

var _ = Describe("The same manifest on this machine and in the cluster", Ordered, func() {
	inNamespace("csenv-e2e-local")
	It("produces exactly the same figures", func(ctx SpecContext) {
		apply(ctx, poolManifest("athome", "Ticket"))
		awaitPool(ctx, "athome")
		manifest := runManifest("athome", "athome", "Heuristic", []string{task("ticket-resolve", 3),
			task("queue-management", 1)}, "seed: 11", "parallelism: 3", "passScore: 0.4")
		apply(ctx, manifest)
		cluster := awaitComplete(ctx, "athome")

		folder := GinkgoT().TempDir()
		file := filepath.Join(folder, "run.yaml")
		Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
		out, err := exec.CommandContext(ctx, csenvTool(ctx), "eval", "-f", file, "--results", folder, "-o", "json").Output()
		Expect(err).NotTo(HaveOccurred())
		home := &v1alpha1.EvaluationRun{}
		Expect(json.Unmarshal(out, home)).To(Succeed())

		Expect(home.Spec).To(Equal(cluster.Spec), "the defaults")
		for name, pair := range map[string][2]any{
			"score":        {home.Status.Score, cluster.Status.Score},
			"passRate":     {home.Status.PassRate, cluster.Status.PassRate},
			"passRateCI95": {home.Status.PassRateCI95, cluster.Status.PassRateCI95},
			"passHatK":     {home.Status.PassHatK, cluster.Status.PassHatK},
			"tasks":        {home.Status.Tasks, cluster.Status.Tasks},
			"categories":   {home.Status.Categories, cluster.Status.Categories},
			"difficulties": {home.Status.Difficulties, cluster.Status.Difficulties},
			"languages":    {home.Status.Languages, cluster.Status.Languages},
			"scenarios":    {home.Status.Provenance.ScenarioDigest, cluster.Status.Provenance.ScenarioDigest},
			"grader":       {home.Status.Provenance.GraderVersion, cluster.Status.Provenance.GraderVersion},
			"agent":        {home.Status.Provenance.AgentDigest, cluster.Status.Provenance.AgentDigest},
			"spec":         {home.Status.Provenance.SpecHash, cluster.Status.Provenance.SpecHash},
		} {
			Expect(pair[0]).To(Equal(pair[1]), name)
		}
		Expect(home.Status.Score.Mean).NotTo(BeEmpty())
	}, SpecTimeout(specBound))
})
