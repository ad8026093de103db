//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	// chaosKills is the number of killed processes, unless KILLS sets another.
	chaosKills = 6
	// chaosTimeout bounds the rest of a disturbed run after its last kill. The Job's back-off
	// delays a killed shard's next attempt, and a lost node's pods are replaced after minutes.
	chaosTimeout = 12 * time.Minute
	// lostNode is the node that is lost for good, if the cluster has it.
	lostNode = "csenv-2"
)

// victims lists the kinds of processes to kill. A kind that is listed twice is killed more often.
var victims = []string{"manager", "runner", "runner", "envserver", "envserver", "kube-apiserver"}

// A run is played without failures, and again while the processes that play and count it are killed
// at random, once for each seed of chaos_seeds.txt or with CHAOS_SEED. Its model keeps the rest of
// every shard until the last kill, so each kill hits a run under way. With NODES=2, one of the two
// nodes is lost for good with all its processes.
var _ = Describe("A run under random kills", Ordered, Label("chaos"), func() {
	var peace *v1alpha1.EvaluationRun
	tasks := []string{task("ticket-resolve", 50)}
	spec := []string{"seed: 5", "parallelism: 8", "concurrency: 4",
		"retries: {episodeAttempts: 10, shardBackoffLimit: 20, maxErroredPercent: 0}"}

	inNamespace("csenv-e2e-chaos")
	BeforeAll(func(ctx SpecContext) {
		skipUnlessLocal()
		createModelKey(ctx)
		apply(ctx, poolWith("shaken", "replicas: 2"))
		awaitPool(ctx, "shaken")
		apply(ctx, serveModel(ctx).runManifest("undisturbed", "shaken", tasks, spec...))
		peace = awaitComplete(ctx, "undisturbed")
	}, NodeTimeout(specBound))

	AfterEach(func(ctx SpecContext) { // else the pods of a lost node keep the namespace from being deleted
		if local && len(processesOfLostNode(ctx)) == 0 {
			kubectl(ctx, "delete", "node", lostNode, "--ignore-not-found")
		}
	}, NodeTimeout(specBound))

	for _, seed := range chaosSeeds() {
		It(fmt.Sprintf("ends with the figures of the undisturbed run: seed %d", seed), func(ctx SpecContext) {
			kills := int(setting("KILLS", chaosKills))
			c := &chaos{chance: rand.New(rand.NewPCG(uint64(seed), 0)), kills: kills, hits: map[string]int{}}
			if len(processesOfLostNode(ctx)) > 0 {
				c.loseAfter = 1 + c.chance.IntN(max(1, kills/2))
			}
			name, model := fmt.Sprintf("disturbed-%d", seed), serveModel(ctx)
			held := model.hold(func(p place) bool { return p.episode >= 100 })
			apply(ctx, model.runManifest(name, "shaken", tasks, spec...))
			held.await(ctx, name)
			c.disturb(ctx, name)
			Expect(over(ctx, name)).To(BeFalse())
			held.release()
			war := awaitEnd(ctx, name)
			expectFigures(war, peace)
			Expect(war.Status.Episodes.Total).To(BeEquivalentTo(2000))
			AddReportEntry("killed", c.hits)
			Expect(model.wrong()).To(BeEmpty())
		}, SpecTimeout(50*time.Minute))
	}
})

// chaosSeeds reads the seeds of the file, or that of the variable.
func chaosSeeds() (seeds []int64) {
	text, err := os.ReadFile("chaos_seeds.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		number, _, _ := strings.Cut(line, "#")
		if number = strings.TrimSpace(number); number == "" {
			continue
		}
		seed, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic("chaos_seeds.txt: " + err.Error())
		}
		seeds = append(seeds, seed)
	}
	if only, err := strconv.ParseInt(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		return []int64{only}
	}
	return seeds
}

// chaos kills processes at random.
type chaos struct {
	chance    *rand.Rand
	kills     int            // wanted
	hits      map[string]int // by kind
	loseAfter int            // so many kills the node is lost, 0 for never
}

// setting reads a number from an environment variable.
func setting(name string, otherwise int64) int64 {
	GinkgoHelper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), "%s=%s", name, text)
	return n
}

// disturb kills the wanted number of processes.
func (c *chaos) disturb(ctx SpecContext, evalrun string) {
	GinkgoHelper()
	for n := range c.kills {
		pause(ctx, time.Duration(500+c.chance.IntN(2000))*time.Millisecond)
		kind, who := victims[c.chance.IntN(len(victims))], ""
		if c.loseAfter > 0 && n == c.loseAfter {
			Eventually(ctx, running).WithArguments(map[string]string{"csenv.dev/run": evalrun}).Should(
				ContainElement(HaveField("Spec.NodeName", lostNode)), "a runner on the node that will be lost")
			kind, who = "node", loseNode(ctx)
		} else {
			who = strike(ctx, kind, evalrun, c.chance)
		}
		c.hits[kind]++
		GinkgoWriter.Printf("%s killed %s\n", time.Now().Format(time.TimeOnly), who)
	}
}

// loseNode kills every process of a node, the kubelet first, so that nothing reports their end.
func loseNode(ctx SpecContext) string {
	GinkgoHelper()
	Eventually(ctx, func() int {
		pids := processesOfLostNode(ctx)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids)
	}).Should(BeZero())
	return "node " + lostNode
}

// processesOfLostNode lists its kubelet and containerd, and then the processes in its pods.
func processesOfLostNode(ctx SpecContext) []int {
	GinkgoHelper()
	mark := "CSENV_CLUSTER_STATE=" + stateFolder(ctx) + "/second\x00"
	pids := slices.Concat(processesWith("kubelet", "environ", mark), processesWith("containerd", "environ", mark))
	return append(pids, processesWith("", "cgroup", "/csenv-"+strings.Join(addressesOfCluster(ctx), "-")+"-2/")...)
}

// addressesOfCluster returns the first two bytes of all addresses of the cluster.
func addressesOfCluster(ctx SpecContext) []string {
	GinkgoHelper()
	network, err := os.ReadFile(filepath.Join(stateFolder(ctx), "network"))
	Expect(err).NotTo(HaveOccurred())
	return strings.Split(string(network), ".")[:2]
}

// strike kills one process of the kind, as soon as there is one, and returns its name.
func strike(ctx SpecContext, kind, evalrun string, chance *rand.Rand) (name string) {
	GinkgoHelper()
	if kind == "kube-apiserver" {
		restart(ctx, kind)
		return kind
	}
	selector := map[string]map[string]string{
		"manager":   {"app.kubernetes.io/component": "manager"},
		"runner":    {"csenv.dev/run": evalrun},
		"envserver": {"csenv.dev/environment": "shaken", "app.kubernetes.io/component": "env-server"},
	}[kind]
	draw := chance.Int()
	var pod corev1.Pod
	Eventually(ctx, func() bool {
		pods := running(ctx, selector)
		if len(pods) == 0 {
			return false
		}
		pod = pods[draw%len(pods)]
		return kill(pod, kind)
	}).Should(BeTrue(), "a process of %s to kill", kind)
	if kind != "runner" {
		// Deleting the pod gives its successor no back-off: the kubelet delays a container that is
		// killed repeatedly.
		_ = k8s.Delete(ctx, &pod, client.GracePeriodSeconds(0))
	}
	return kind + " " + pod.Name
}

// kill ends a program in a pod at once, and reports whether it ran.
func kill(pod corev1.Pod, program string) (hit bool) {
	GinkgoHelper()
	for _, pid := range processesIn(string(pod.UID), program) {
		hit = syscall.Kill(pid, syscall.SIGKILL) == nil || hit
	}
	return hit
}

// restart kills a program of the control plane and starts it with the same arguments.
func restart(ctx SpecContext, program string) {
	GinkgoHelper()
	pids := processesWith(program, "environ", "CSENV_CLUSTER_STATE="+stateFolder(ctx)+"\x00")
	Expect(pids).To(HaveLen(1), "processes of %s", program)
	folder := fmt.Sprintf("/proc/%d", pids[0])
	words := func(file string) []string {
		text, err := os.ReadFile(filepath.Join(folder, file))
		Expect(err).NotTo(HaveOccurred())
		return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	}
	args := append([]string{"nsenter", "--net=" + filepath.Join(stateFolder(ctx), "net"), "--"}, words("cmdline")...)
	log, err := os.Readlink(filepath.Join(folder, "fd", "2"))
	Expect(err).NotTo(HaveOccurred())
	output, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	Expect(err).NotTo(HaveOccurred())
	defer output.Close()
	again := exec.Command(args[0], args[1:]...)
	again.Env, again.Stdout, again.Stderr = words("environ"), output, output
	again.Dir = filepath.Dir(filepath.Dir(log))
	again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	Expect(syscall.Kill(pids[0], syscall.SIGKILL)).To(Succeed())
	// The port is in use until the process has ended.
	Eventually(ctx, func() error { return syscall.Kill(pids[0], 0) }).WithPolling(
		closely).Should(MatchError(syscall.ESRCH))
	Expect(again.Start()).To(Succeed())
	go func() { _ = again.Wait() }() // reaps it: a later strike may kill it
	Eventually(ctx, func() error { return k8s.List(ctx, &corev1.NamespaceList{}) }).Should(
		Succeed())
}

// stateFolder returns the folder of the cluster.
func stateFolder(ctx SpecContext) string {
	GinkgoHelper()
	return filepath.Dir(strings.TrimSpace(run(ctx, clusterTool, "kubeconfig")))
}

// processesIn finds the processes of a program that belong to the pod with that UID, if they are on
// this machine.
func processesIn(podUID, program string) []int {
	GinkgoHelper()
	return processesWith(program, "cgroup", podUID)
}

// processesWith finds the processes of a program, or of any if it is empty, with a text in one of
// their files in /proc.
func processesWith(program, proof, needle string) []int {
	GinkgoHelper()
	var pids []int
	folders, err := filepath.Glob("/proc/[0-9]*")
	Expect(err).NotTo(HaveOccurred())
	for _, folder := range folders {
		// Not the executable, which is one for all programs of the image.
		cmdline, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		called, _, _ := strings.Cut(string(cmdline), "\x00")
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || program != "" && filepath.Base(called) != program {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(folder, proof)); err == nil &&
			strings.Contains(string(text), needle) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// running lists the running pods with those labels in all namespaces, sorted by name. It returns
// none if the API server doesn't answer.
func running(ctx SpecContext, labels map[string]string) []corev1.Pod {
	pods := &corev1.PodList{}
	if err := k8s.List(ctx, pods, client.MatchingLabels(labels)); err != nil {
		return nil
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil ||
			p.Status.Phase != corev1.PodRunning
	})
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods.Items
}

// over reports whether the run has ended. It is false if the API server does not answer.
func over(ctx SpecContext, evalrun string) bool {
	obj := &v1alpha1.EvaluationRun{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: evalrun}, obj); err != nil {
		return false
	}
	return obj.Status.CompletionTime != nil
}

// awaitEnd waits until the run has ended, and expects it to be complete.
func awaitEnd(ctx SpecContext, evalrun string) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	Eventually(ctx, func() bool { return over(ctx, evalrun) }).WithTimeout(chaosTimeout).Should(BeTrue())
	obj := &v1alpha1.EvaluationRun{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: evalrun}, obj)).To(Succeed())
	Expect(meta.IsStatusConditionTrue(obj.Status.Conditions, v1alpha1.ConditionComplete)).To(BeTrue(), "%v",
		obj.Status.Conditions)
	return obj
}
