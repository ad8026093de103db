//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/hack/previous"
)

const (
	// heldSessions is the number of sessions that play while the release changes, and
	// heldThinking the time before each of their actions: an episode lasts half a minute.
	heldSessions = 40
	heldThinking = 8 * time.Second
	// heldTrainers is the number of clients that play the External run.
	heldTrainers = 8
)

// The previous release is the newest tag before HEAD, or CSENV_UPGRADE_FROM.
var _ = Describe("An upgrade from the previous release, and back", Label("upgrade"), Serial, Ordered, func() {
	inNamespace("csenv-e2e-upgrade")
	It("loses no episode, counts none twice and cuts no session", func(ctx SpecContext) {
		old := previousRelease(ctx)
		head := release{name: "HEAD", folder: "../..", image: "csenv:dev", csenv: csenvTool(ctx)}
		By("installing " + old.name)
		kubectl(ctx, "-n", namespace, "delete", "evalrun,cse", "--all", timeout)
		old.install(ctx)
		now := old
		DeferCleanup(func(ctx SpecContext) {
			if now != head {
				head.install(ctx)
			}
		}, NodeTimeout(specBound))

		u := &upgrade{pinned: old.grading(ctx) != head.grading(ctx)}
		u.prepare(ctx, old)
		u.change(ctx, "up", old, head)
		now = head
		if u.pinned {
			// Servers of the previous release refuse the runners of this one, so a run waits and
			// says so.
			apply(ctx, stayingRun(serveModel(ctx), "waiting"))
			Eventually(ctx, conditionsOf).WithArguments("waiting").Should(ContainElement(
				HaveField("Message", ContainSubstring("a release before the operator's"))))
		} else {
			u.change(ctx, "back", head, old)
			now = old
		}
		u.settle(ctx)
		AddReportEntry("upgrade from "+old.name+" and back", u.String())
	}, SpecTimeout(specBound))
})

// release is a version of csenv that can be installed.
type release struct {
	name   string
	folder string // its checkout
	image  string // the image in its manifests
	csenv  string // its command line
}

// previousRelease loads the image of the previous release onto the node and returns it.
func previousRelease(ctx SpecContext) release {
	GinkgoHelper()
	found, err := previous.FindRelease(ctx, ".")
	if errors.Is(err, previous.ErrNoHistory) && !previous.IsHistoryRequired() {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	old := release{name: found.Name, folder: folder, image: "csenv:previous",
		csenv: filepath.Join(folder, "csenv-previous")}
	Expect(found.Extract(ctx, folder)).To(Succeed())
	By("building " + old.name)
	stream(ctx, "env", "-u", "CSENV_PROGRAM", "CSENV_CLUSTER_DIR="+stateFolder(ctx), "go", "-C", folder, "run",
		"./hack/cluster", "load", "--image", old.image)
	run(ctx, "go", "-C", folder, "build", "-trimpath", "-o", old.csenv, "./cmd/csenv")
	file := filepath.Join(folder, "config", "default", "kustomization.yaml")
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.Count(string(text), "newTag: dev\n")).To(Equal(1))
	tagged := strings.Replace(string(text), "newTag: dev\n", "newTag: previous\n", 1)
	Expect(os.WriteFile(file, []byte(tagged), 0o600)).To(Succeed())
	return old
}

// install applies the release's manifests and returns the time without a leading manager.
func (r release) install(ctx SpecContext) time.Duration {
	GinkgoHelper()
	before := leader(ctx)
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(r.folder, "config", "default"))
	last := time.Now()
	Eventually(ctx, func() string {
		now := leader(ctx)
		if now == before {
			last = time.Now()
		}
		return now
	}).WithPolling(closely).ShouldNot(Or(BeEmpty(), Equal(before)))
	without := time.Since(last)
	kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-manager", timeout)
	return without
}

// grading returns what decides whether scores of two releases can be mixed.
func (r release) grading(ctx SpecContext) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, r.csenv, "eval", "ticket-resolve", "--agent", "null", "--results", "none",
		"-o", "json").Output()
	Expect(err).NotTo(HaveOccurred(), r.name)
	played := &v1alpha1.EvaluationRun{}
	Expect(json.Unmarshal(out, played)).To(Succeed())
	p := played.Status.Provenance
	return p.ScenarioDigest + " " + p.GraderVersion + " " + p.Judge
}

// figures returns what the release's command line reads of a run.
func (r release) figures(ctx SpecContext, evalrun string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, r.csenv, "results", evalrun, "-n", namespace, "-o", "json", "--kubeconfig",
		strings.TrimSpace(run(ctx, clusterTool, "kubeconfig"))).Output()
	Expect(err).NotTo(HaveOccurred(), "%s of %s: %s", r.csenv, r.name, out)
	read := &v1alpha1.EvaluationRun{}
	Expect(json.Unmarshal(out, read)).To(Succeed())
	figures, err := json.Marshal([]any{read.Status.Episodes, read.Status.Score, read.Status.Tasks})
	Expect(err).NotTo(HaveOccurred())
	return string(figures)
}

// upgrade is what happens to one pool, its sessions and its runs.
type upgrade struct {
	pinned   bool                    // the releases grade differently, so the pool keeps its image
	calm     *v1alpha1.EvaluationRun // played while nothing changes
	holders  *crowd                  // whose sessions are held
	trainers *crowd                  // who play the External run
	changes  []change
	recorded int64 // episodes of the External run
}

// change is one change of the release.
type change struct {
	from, to      string
	without, took time.Duration // without a leading manager, and until all servers are replaced
	sessions      int64         // open at the change
	counted       int64         // episodes of the External run in its figures at the change
	run           *v1alpha1.EvaluationRun
	objects       int
	unknown       []string // fields of the objects that the installed release doesn't have
}

// prepare starts the pool, plays a run in peace, and starts the External run and the sessions.
func (u *upgrade) prepare(ctx SpecContext, old release) {
	GinkgoHelper()
	apply(ctx, pooled(stayingPool, "replicas: 2", "drainTimeoutSeconds: 120", "service: {type: NodePort}"))
	awaitServers(ctx, stayingPool, 2, hasImage(old.image))
	if u.pinned {
		kubectl(ctx, "-n", namespace, "patch", "cse", stayingPool, "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"image":%q}}`, old.image))
	}
	createModelKey(ctx)
	apply(ctx, stayingRun(serveModel(ctx), "calm"))
	u.calm = awaitComplete(ctx, "calm")
	apply(ctx, "apiVersion: csenv.dev/v1alpha1\nkind: EvaluationRun\nmetadata: {name: trained}\nspec: "+
		"{environmentRef: {name: "+stayingPool+"}, agent: {type: External}}\n")
	url := nodeURL(ctx, stayingPool)
	u.holders = gather(ctx, url, "", heldSessions, heldThinking)
	u.trainers = gather(ctx, url, "trained", heldTrainers, time.Second)
	Eventually(ctx, collected).WithArguments("trained").Should(BeNumerically(">", 0))
}

// change replaces a release while a run plays, and waits for the servers and the run.
func (u *upgrade) change(ctx SpecContext, evalrun string, from, to release) {
	GinkgoHelper()
	// Two of its shards are counted before the change, and two are played until after it.
	model := serveModel(ctx)
	held := model.hold(func(p place) bool { return p.shard >= 2 })
	apply(ctx, stayingRun(model, evalrun))
	held.await(ctx, evalrun)
	Eventually(ctx, counted).WithArguments(evalrun).Should(Equal("0-1"))
	servers := podNames(serversOf(ctx, stayingPool))
	stored := kubectl(ctx, "-n", namespace, "get", "cse,evalrun", "-o", "json")
	c := change{from: from.name, to: to.name, sessions: u.holders.playing.Load(), counted: collected(ctx, "trained")}

	By("replacing " + from.name + " with " + to.name)
	began := time.Now()
	c.without = to.install(ctx)
	Expect(over(ctx, evalrun)).To(BeFalse())
	c.objects, c.unknown = revalidate(ctx, stored)
	held.release()
	if u.pinned {
		awaitServers(ctx, stayingPool, 2)
	} else {
		awaitServers(ctx, stayingPool, 2, hasImage(to.image), HaveField("Name", Not(BeElementOf(servers))))
	}
	c.took = time.Since(began)
	Expect(u.holders.losses()).To(BeEmpty())
	Expect(u.trainers.losses()).To(BeEmpty())

	c.run = awaitEnd(ctx, evalrun)
	Expect(model.wrong()).To(BeEmpty())
	Expect(*c.run.Status.Episodes).To(And(HaveField("Total", u.calm.Status.Episodes.Total),
		HaveField("Scored", u.calm.Status.Episodes.Scored), HaveField("Failed", u.calm.Status.Episodes.Failed)))
	Expect(c.run.Status.Shards.CompletedIndexes).To(Equal(u.calm.Status.Shards.CompletedIndexes))
	Expect(c.run.Status.Score).To(Equal(u.calm.Status.Score))
	Expect(c.run.Status.Tasks).To(Equal(u.calm.Status.Tasks))
	Expect(from.figures(ctx, evalrun)).To(MatchJSON(to.figures(ctx, evalrun)))
	u.changes = append(u.changes, c)
}

// settle lets every client finish its episode, ends the External run and counts.
func (u *upgrade) settle(ctx SpecContext) {
	GinkgoHelper()
	u.holders.leave(ctx)
	u.trainers.leave(ctx)
	Expect(u.holders.losses()).To(BeEmpty())
	Expect(u.trainers.losses()).To(BeEmpty())
	ended := u.trainers.episodes.Load()
	Eventually(ctx, collected).WithArguments("trained").Should(Equal(ended))
	kubectl(ctx, "-n", namespace, "patch", "evalrun", "trained", "--type=merge", "-p",
		`{"spec":{"activeDeadlineSeconds":1}}`)
	trained := awaitComplete(ctx, "trained")
	u.recorded = trained.Status.Episodes.Total
	Expect(trained.Status.Episodes).To(Equal(&v1alpha1.RunEpisodes{Total: ended, Scored: ended}))
	Expect(trained.Status.Rollouts.Dropped).To(BeZero())
	Expect(trained.Status.Score.Mean).To(Equal(score.FormatDecimal((u.trainers.sum + ended/2) / ended)))
	kubectl(ctx, "-n", namespace, "delete", "evalrun,cse", "--all", timeout)
}

// String is the table of docs/upgrading.md.
func (u *upgrade) String() string {
	var b strings.Builder
	row := func(what string, of func(c change) string) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, c := range u.changes {
			fmt.Fprintf(&b, " %s |", of(c))
		}
		fmt.Fprintln(&b)
	}
	row("", func(c change) string { return c.from + " to " + c.to })
	row("---", func(change) string { return "---" })
	row("time without a leading manager", func(c change) string {
		return c.without.Round(100 * time.Millisecond).String()
	})
	row("until every server is replaced", func(c change) string { return c.took.Round(time.Second).String() })
	row("sessions open at the change, cut", func(c change) string { return fmt.Sprintf("%d, 0", c.sessions) })
	row("episodes of the External run counted until the change", func(c change) string {
		return strconv.FormatInt(c.counted, 10)
	})
	row("episodes of the run that is played meanwhile", func(c change) string {
		return strconv.FormatInt(c.run.Status.Episodes.Total, 10)
	})
	row("lost, counted twice", func(c change) string {
		e := c.run.Status.Episodes
		counted := e.Scored + e.Failed + e.Errored
		return fmt.Sprintf("%d, %d", max(0, e.Total-counted), max(0, counted-e.Total))
	})
	row("attempts that were repeated", func(c change) string {
		return strconv.FormatInt(c.run.Status.Episodes.Retried, 10)
	})
	row("score, without a change", func(c change) string {
		return fmt.Sprintf("%s, %s", c.run.Status.Score.Mean, u.calm.Status.Score.Mean)
	})
	row("stored objects accepted, fields dropped", func(c change) string {
		return fmt.Sprintf("%d of %d, %d %s", c.objects, c.objects, len(c.unknown), strings.Join(c.unknown, " "))
	})
	fmt.Fprintf(&b, "External run: %d episodes ended for the trainers, %d are recorded. Held sessions: %s.\n",
		u.trainers.episodes.Load(), u.recorded, u.holders)
	if u.pinned {
		fmt.Fprintln(&b, "The releases have other scenarios or another grader: spec.image kept the servers.")
	}
	return b.String()
}

// stayingPool is the pool that lives through the changes.
const stayingPool = "staying"

func stayingRun(m *model, name string) string {
	return m.runManifest(name, stayingPool, []string{task("ticket-resolve", 50)}, "seed: 5", "parallelism: 4",
		"concurrency: 4", "retries: {maxErroredPercent: 0}")
}

func hasImage(image string) OmegaMatcher {
	return HaveField("Spec.Containers", ContainElement(HaveField("Image", image)))
}

// revalidate has the API server check objects that another release stored, and returns their number
// and those of their fields that the installed CRDs don't have.
func revalidate(ctx SpecContext, list string) (objects int, unknown []string) {
	GinkgoHelper()
	stored := &unstructured.UnstructuredList{}
	Expect(stored.UnmarshalJSON([]byte(list))).To(Succeed())
	for _, object := range stored.Items {
		for _, update := range []func(*unstructured.Unstructured, client.UpdateOptions) error{
			func(o *unstructured.Unstructured, options client.UpdateOptions) error {
				return k8s.Update(ctx, o, &options)
			},
			func(o *unstructured.Unstructured, options client.UpdateOptions) error {
				return k8s.Status().Update(ctx, o, &client.SubResourceUpdateOptions{UpdateOptions: options})
			},
		} {
			// It fails with the list of the unknown fields, if there are any.
			strict := revalidated(ctx, object, update, metav1.FieldValidationStrict)
			if strict == nil {
				continue
			}
			fields := regexp.MustCompile(`unknown field "([^"]+)"`).FindAllStringSubmatch(strict.Error(), -1)
			Expect(fields).NotTo(BeEmpty(), "%s %s: %v", object.GetKind(), object.GetName(), strict)
			for _, field := range fields {
				unknown = append(unknown, field[1])
			}
			Expect(revalidated(ctx, object, update, metav1.FieldValidationIgnore)).To(Succeed(), "%s %s", object.GetKind(),
				object.GetName())
		}
	}
	slices.Sort(unknown)
	return len(stored.Items), slices.Compact(unknown)
}

// revalidated tries an update without storing it. The operator may write the object meanwhile.
func revalidated(ctx SpecContext, object unstructured.Unstructured,
	update func(*unstructured.Unstructured, client.UpdateOptions) error, validation string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := object.NewEmptyInstance().(*unstructured.Unstructured)
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(&object), now); err != nil {
			return err
		}
		then := object.DeepCopy()
		then.SetResourceVersion(now.GetResourceVersion())
		return update(then, client.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: validation})
	})
}
