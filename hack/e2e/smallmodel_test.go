//go:build e2e

package e2e

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A small language model on this machine", Ordered, func() {
	inNamespace("csenv-e2e-smallmodel")

	It("plays runs in both modes to a score", func(ctx SpecContext) {
		apply(ctx, poolManifest("small", "Ticket"))
		url := serveSmallModel(ctx)
		awaitPool(ctx, "small")
		for _, mode := range []string{"Tools", "JSON"} {
			name := "small-" + strings.ToLower(mode)
			apply(ctx, agentManifest(name, "small", `{type: OpenAI, openAI: {baseURL: "`+url+`", model: smollm2, mode: `+mode+
				`, maxTokens: 200}}`, []string{"{name: ticket-classify, scenarios: {ids: [B01, B02, S01, T01]}}"},
				"concurrency: 2", "retries: {maxErroredPercent: 0}"))
			run := awaitComplete(ctx, name)
			AddReportEntry(name, run.Status.Score.Mean+", "+run.Status.Progress)
			Expect(run.Status.Episodes.Scored + run.Status.Episodes.Failed).To(BeEquivalentTo(4))
			Expect(run.Status.Tokens.Completion).To(BeNumerically(">", 0))
		}
	}, SpecTimeout(specBound))
})

// serveSmallModel serves a model with llama.cpp on this machine's side of the node, and returns its
// base URL.
func serveSmallModel(ctx SpecContext) string {
	GinkgoHelper()
	folder := filepath.Join("..", "conformance", "model")
	environment := exec.CommandContext(ctx, "python3", "../python.py", "model", filepath.Join(folder, "requirements.txt"), "--no-deps")
	environment.Stderr = GinkgoWriter
	python, err := environment.Output()
	Expect(err).NotTo(HaveOccurred())
	server := exec.Command(strings.TrimSpace(string(python)), filepath.Join(folder, "serve.py"), hereAddress(ctx)) //nolint:noctx // it outlives the context
	server.Stderr = GinkgoWriter
	out, err := server.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(server.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_, _ = server.Process.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred(), "the model's server has ended")
	return strings.TrimSpace(url)
}
