//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/csenv/csenv/hack/guides"
)

// The specs execute the commands of the guides for a cluster, and those before them.
var _ = Describe("The guides", Serial, Label("guides"), Ordered, func() {
	inNamespace("csenv-e2e-guides")
	AfterEach(func(ctx SpecContext) {
		removeRunsAndPools(ctx)
		kubectl(ctx, "delete", "namespace", "bench", "team-a", "--ignore-not-found", timeout)
		kubectl(ctx, "-n", "default", "delete", "configmap", "acme", "--ignore-not-found")
	}, NodeTimeout(specBound))

	for _, name := range []string{"operate-pools", "host-a-benchmark", "train", "write-scenarios"} {
		It("can be followed on a cluster: "+name, func(ctx SpecContext) {
			page, err := os.ReadFile("../../docs/guides/" + name + ".md")
			Expect(err).NotTo(HaveOccurred())
			script := "set -euo pipefail\nkubectl() { bin/cluster kubectl -- \"$@\"; }\nset -x\n"
			executed := 0
			for _, b := range guides.ParseBlocks(string(page)) {
				if b.Language == "sh" && (b.Why == "" || b.Why == guides.Cluster) {
					script += string(page[b.Start:b.End])
				}
				if b.Why == guides.Cluster {
					executed++
				}
			}
			Expect(executed).To(BeNumerically(">", 0), "blocks for a cluster")
			folder := GinkgoT().TempDir()
			Expect(guides.MakeCheckout(folder, "../..", map[string]string{"csenv": csenvTool(ctx), "cluster": clusterTool})).To(
				Succeed())
			follow(ctx, folder, script)
		}, SpecTimeout(specBound))
	}
})

// follow runs a script in a folder, and ends what it leaves running.
func follow(ctx context.Context, folder, script string) {
	GinkgoHelper()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir = folder
	shell.Env = append(os.Environ(), "KUBECONFIG="+strings.TrimSpace(run(ctx, clusterTool, "kubeconfig")), "NO_COLOR=1")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.WaitDelay = time.Second
	output, err := os.Create(folder + "/output")
	Expect(err).NotTo(HaveOccurred())
	defer output.Close()
	shell.Stdout, shell.Stderr = output, output // a file: no process in the background keeps a pipe open
	failed := shell.Run()
	if shell.Process != nil {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	text, err := os.ReadFile(output.Name())
	Expect(err).NotTo(HaveOccurred())
	Expect(failed).NotTo(HaveOccurred(), string(text))
}
