//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/envvars"
)

// Runs store their episodes in a bucket of versitygw on this machine, which pods can reach.
var _ = Describe("Results in a bucket", Ordered, Label("s3"), func() {
	inNamespace("csenv-e2e-results")
	var s3 *s3Server
	spec := func(credentials string) []string {
		return []string{"seed: 5", "parallelism: 4", "concurrency: 4",
			fmt.Sprintf("results: {url: %q, credentialsSecretRef: {name: %s}}", s3.url("runs"), credentials)}
	}
	stored := func(name, credentials string) string {
		return runManifest(name, "storing", "Heuristic", storedTasks, spec(credentials)...)
	}
	var peace *v1alpha1.EvaluationRun

	BeforeAll(func(ctx SpecContext) {
		s3 = startS3(ctx)
		apply(ctx, s3.secret("right", s3.password))
		apply(ctx, s3.secret("wrong", "guessed"))
		startStoring(ctx)
	}, NodeTimeout(specBound))

	It("contain every episode once", func(ctx SpecContext) {
		apply(ctx, stored("stored", "right"))
		peace = awaitComplete(ctx, "stored")
		Expect(peace.Status.Episodes.Total).To(BeEquivalentTo(800))
		Expect(peace.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionResultsStored,
			metav1.ConditionTrue, v1alpha1.ReasonStored, "All 800 episodes")))
		Expect(s3.episodes(ctx, "stored")).To(HaveLen(800))
		Expect(s3.lines("stored")).To(Equal(800))
	}, SpecTimeout(specBound))

	It("are not needed for the score of a run that the bucket refuses, which reports the reason", func(ctx SpecContext) {
		apply(ctx, stored("refused", "wrong"))
		refused := awaitComplete(ctx, "refused")
		Expect(refused.Status.Score).To(Equal(peace.Status.Score))
		Expect(refused.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionResultsStored,
			metav1.ConditionFalse, v1alpha1.ReasonStoreFailed,
			"0 of 800 episodes are stored", "the store rejects the credentials: correct them: SignatureDoesNotMatch",
			"The score stands")))
	}, SpecTimeout(specBound))

	It("are reused when a runner is killed and started again", func(ctx SpecContext) {
		held := halfStored(ctx, "killed", s3.runs(), spec("right")...)
		before := s3.lines("killed")
		strike(ctx, "runner", "killed", rand.New(rand.NewPCG(0, 0)))
		held.release()
		killed := awaitEnd(ctx, "killed")
		AddReportEntry("stored before the kill", before)

		Expect(killed.Status.Score).To(Equal(peace.Status.Score))
		Expect(killed.Status.Tasks).To(Equal(peace.Status.Tasks))
		Expect(killed.Status.Episodes.Scored + killed.Status.Episodes.Failed).To(BeEquivalentTo(800))
		// A crash may lose the lines of the last seconds before it, and the run reports their
		// number.
		there := len(s3.episodes(ctx, "killed"))
		Expect(s3.lines("killed")).To(Equal(there), "an episode was played twice")
		condition := meta.FindStatusCondition(killed.Status.Conditions, v1alpha1.ConditionResultsStored)
		AddReportEntry("ResultsStored", condition.Message)
		if there < 800 {
			Expect(*condition).To(haveReason(v1alpha1.ConditionResultsStored, metav1.ConditionFalse,
				v1alpha1.ReasonStoreFailed,
				fmt.Sprintf("%d of 800 episodes are stored", there), "ended before a restart and were not yet written"))
		} else {
			Expect(condition.Status).To(Equal(metav1.ConditionTrue))
		}
		Expect(there).To(BeNumerically(">=", before))
	}, SpecTimeout(specBound))

	It("are not needed for the score of a run whose store dies, which reports the reason", func(ctx SpecContext) {
		held := halfStored(ctx, "lost", s3.runs(), spec("right")...)
		s3.kill()
		held.release()
		lost := awaitEnd(ctx, "lost")
		Expect(lost.Status.Score).To(Equal(peace.Status.Score))
		Expect(lost.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionResultsStored,
			metav1.ConditionFalse, v1alpha1.ReasonStoreFailed,
			fmt.Sprintf("%d of 800 episodes are stored", s3.lines("lost")), "the address does not answer: start the store "+
				"or correct its address", "The score stands")))
	}, SpecTimeout(specBound))
})

// storedTasks are the tasks of runs that store their 800 episodes.
var storedTasks = []string{task("ticket-resolve", 20)}

// startStoring creates the pool on which they are played.
func startStoring(ctx SpecContext) {
	GinkgoHelper()
	apply(ctx, poolWith("storing", "replicas: 2"))
	awaitPool(ctx, "storing")
	createModelKey(ctx)
}

// halfStored starts a run that plays half of each shard, and waits until episodes are stored below
// a folder.
func halfStored(ctx SpecContext, name, folder string, spec ...string) *hold {
	GinkgoHelper()
	model := serveModel(ctx)
	held := model.hold(func(p place) bool { return p.episode >= 100 })
	apply(ctx, model.runManifest(name, "storing", storedTasks, spec...))
	held.await(ctx, name)
	Eventually(ctx, linesOf).WithArguments(folder, name).Should(BeNumerically(">", 0), "stored episodes of %s", name)
	return held
}

// Runs store their episodes in a volume: a folder of this machine, which is the first node's too.
var _ = Describe("Results in a volume", Ordered, Label("volume"), func() {
	inNamespace("csenv-e2e-volume")
	spec := []string{"seed: 5", "parallelism: 4", "concurrency: 4", "results: {persistentVolumeClaim: {claimName: evals}}"}

	It("contain every episode once, also when a runner is killed and started again", func(ctx SpecContext) {
		if !local {
			Skip("the node has another file system")
		}
		folder := createVolume(ctx)
		startStoring(ctx)
		apply(ctx, runManifest("stored", "storing", "Heuristic", storedTasks, spec...))
		peace := awaitComplete(ctx, "stored")
		Expect(peace.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionResultsStored,
			metav1.ConditionTrue, v1alpha1.ReasonStored, "All 800 episodes")))
		Expect(linesOf(folder, "stored")).To(Equal(800))

		held := halfStored(ctx, "killed", folder, spec...)
		before := linesOf(folder, "killed")
		strike(ctx, "runner", "killed", rand.New(rand.NewPCG(0, 0)))
		held.release()
		killed := awaitEnd(ctx, "killed")
		Expect(killed.Status.Score).To(Equal(peace.Status.Score))
		Expect(killed.Status.Tasks).To(Equal(peace.Status.Tasks))

		By("reading them as the message says")
		out, err := csenvHere(ctx, "episodes", "killed").CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(out)).To(ContainSubstring("are in a volume of the cluster"))
		out, err = exec.CommandContext(ctx, csenvTool(ctx), "episodes", "killed", "--results", folder, "-o",
			"json").Output()
		Expect(err).NotTo(HaveOccurred(), "%s", out)
		there := len(indexesOf(out))
		AddReportEntry("stored before the kill, and at the end", fmt.Sprint(before, " ", there))
		Expect(there).To(BeNumerically(">=", before))
		Expect(linesOf(folder, "killed")).To(Equal(there), "an episode was played twice")
	}, SpecTimeout(specBound))

	It("name the claim that doesn't exist", func(ctx SpecContext) {
		apply(ctx, runManifest("none", "storing", "Heuristic", storedTasks,
			"results: {persistentVolumeClaim: {claimName: none}}"))
		Eventually(ctx, conditionsOf).WithArguments("none").Should(ContainElement(
			HaveField("Message", ContainSubstring("Create PersistentVolumeClaim none"))))
	}, SpecTimeout(specBound))
})

// createVolume creates the claim evals, which a folder of this machine satisfies, and returns the
// folder.
func createVolume(ctx SpecContext) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: csenv-e2e-evals}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  local: {path: %q}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%s]}]}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: evals}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: csenv-e2e-evals, resources: {requests: {storage: 1Gi}}}
`, folder, nodes.Items[0].Name))
	DeferCleanup(func(ctx SpecContext) {
		kubectl(ctx, "delete", "pv", "csenv-e2e-evals", "--wait=false")
	})
	return folder
}

// s3Server is versitygw on this machine, on a folder with one bucket.
type s3Server struct {
	address, folder, password string
	process                   *exec.Cmd
}

// startS3 builds versitygw, which takes a minute the first time, and starts it where pods can reach
// it.
func startS3(ctx SpecContext) *s3Server {
	GinkgoHelper()
	programs := GinkgoT().TempDir()
	// The port is free after the listener is closed.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(hereAddress(ctx), "0"))
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	s := &s3Server{address: listener.Addr().String(), folder: GinkgoT().TempDir(), password: "a-password-of-this-suite"}
	run(ctx, "env", "GOWORK=off", "go", "-C", "../conformance/s3", "build", "-trimpath", "-o", programs,
		"github.com/versity/versitygw/cmd/versitygw")
	Expect(os.Mkdir(filepath.Join(s.folder, "evals"), 0o700)).To(Succeed())
	s.process = exec.Command(filepath.Join(programs, "versitygw"), "--port", s.address, "--health", "/health",
		"--quiet", "posix", "--sidecar", GinkgoT().TempDir(), s.folder)
	s.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY=runs", "ROOT_SECRET_KEY="+s.password)
	s.process.Stdout, s.process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(s.process.Start()).To(Succeed())
	DeferCleanup(s.kill)
	Eventually(ctx, func(g Gomega) {
		response, err := get(ctx, "http://"+s.address+"/health")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}).Should(Succeed())
	return s
}

func (s *s3Server) kill() {
	if s.process.ProcessState == nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait() // it was killed
	}
}

func (s *s3Server) url(prefix string) string {
	return "s3://evals/" + prefix + "?endpoint=http://" + s.address + "&use_path_style=true&region=us-east-1"
}

func (s *s3Server) secret(name, password string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %s}
stringData: {AWS_ACCESS_KEY_ID: runs, AWS_SECRET_ACCESS_KEY: %q}
`, name, password)
}

// episodes returns the indexes of a run in the cluster that csenv lists.
func (s *s3Server) episodes(ctx context.Context, evalrun string) map[int64]bool {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, csenvTool(ctx), "episodes", evalrun, "-n", namespace, "-o", "json", "--kubeconfig",
		strings.TrimSpace(run(ctx, clusterTool, "kubeconfig")))
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=runs", "AWS_SECRET_ACCESS_KEY="+s.password, "NO_PROXY=*",
		"no_proxy=*", envvars.Stores+"="+s.url("runs"))
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	return indexesOf(out)
}

// indexesOf returns the indexes of the episodes that csenv lists, each of which is there once.
func indexesOf(list []byte) map[int64]bool {
	GinkgoHelper()
	var rows []struct {
		Index int64 `json:"index"`
	}
	Expect(json.Unmarshal(list, &rows)).To(Succeed())
	indexes := map[int64]bool{}
	for _, row := range rows {
		indexes[row.Index] = true
	}
	Expect(indexes).To(HaveLen(len(rows)))
	return indexes
}

// runs is the server's folder of runs.
func (s *s3Server) runs() string { return filepath.Join(s.folder, "evals", "runs") }

// lines counts the records in the server's folder.
func (s *s3Server) lines(evalrun string) int { return linesOf(s.runs(), evalrun) }

// linesOf counts the records of a run below a folder.
func linesOf(folder, evalrun string) int {
	GinkgoHelper()
	segments, err := filepath.Glob(filepath.Join(folder, namespace, evalrun+"-*", "shard-*", "*.jsonl"))
	Expect(err).NotTo(HaveOccurred())
	lines := 0
	for _, segment := range segments {
		text, err := os.ReadFile(segment)
		Expect(err).NotTo(HaveOccurred())
		lines += strings.Count(string(text), "\n")
	}
	return lines
}
