package run

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/score"
)

// TestAgainstAPIServer reconciles with a real API server, one pass at a time, without a manager.
// Unlike a fake client, it shows whether the API server accepts our objects, patches and statuses.
func TestAgainstAPIServer(t *testing.T) {
	apiserver.RequireBinaries(t)
	RegisterFailHandler(Fail)
	logf.SetLogger(logr.Discard())
	suite, reporter := GinkgoConfiguration()
	reporter.NoColor = true
	suite.RandomSeed = 1 // the same order in every run
	SetDefaultEventuallyTimeout(2 * time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "EvaluationRun", suite, reporter)
}

var _ = Describe("EvaluationRun", Ordered, func() {
	var (
		c   *cluster
		api client.WithWatch
	)

	BeforeAll(func() {
		types := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme,
			admissionv1.AddToScheme, v1alpha1.AddToScheme} {
			Expect(add(types)).To(Succeed())
		}
		var err error
		api, err = client.NewWithWatch(apiserver.StartWithCRDs(GinkgoTB()).Config, client.Options{Scheme: types})
		Expect(err).NotTo(HaveOccurred())
	})

	BeforeEach(func(ctx SpecContext) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"}}
		Expect(api.Create(ctx, space)).To(Succeed())
		c = &cluster{client: api, namespace: space.Name}
		c.r = reconcilerOf(api, api, testclock.NewFakePassiveClock(time.Now()))
	})

	It("plays a run from its plan to its score", func(ctx SpecContext) {
		c.createPool(ctx)
		run := c.createRun(ctx)
		c.reconcile(ctx)

		By("making a Job that the API server accepts and leaves as it is")
		var job batchv1.Job
		Expect(api.Get(ctx, client.ObjectKeyFromObject(run), &job)).To(Succeed())
		Expect(job.Spec.Completions).To(HaveValue(BeEquivalentTo(4)))
		Expect(job.Spec.MaxFailedIndexes).To(HaveValue(BeZero()))
		Expect(job.Spec.Template.Finalizers).To(ConsistOf(runner.SummaryFinalizer))
		Expect(metav1.IsControlledBy(&job, run)).To(BeTrue())

		By("counting shards as they end, several at once")
		plan := c.plan(ctx)
		c.endPod(ctx, 1, plan)
		c.endPod(ctx, 3, plan)
		c.reconcile(ctx)
		got := c.run(ctx)
		Expect(got.Status.Shards.CompletedIndexes).To(Equal("1,3"))
		Expect(c.held(ctx)).To(BeEmpty())

		By("completing with the last one")
		c.endPod(ctx, 0, plan)
		c.endPod(ctx, 2, plan)
		c.reconcile(ctx)
		got = c.run(ctx)
		Expect(runtest.FormatConditions(got.Status.Conditions)).To(Equal(
			"EnvironmentReady=True/EnvironmentAvailable Complete=True/Completed Failed=False/NotFailed"))
		Expect(got.Status.Progress).To(Equal("14/14"))
		Expect(got.Status.Score.Mean).To(MatchRegexp(`^0\.\d{4}$`))
		Expect(got.Status.Provenance.ScenarioDigest).To(Equal(runtest.DigestA))

		By("writing nothing more")
		c.reconcile(ctx)
		Expect(c.run(ctx).ResourceVersion).To(Equal(got.ResourceVersion))
	})

	It("removes only its own finalizer, despite other writers of the pod", func(ctx SpecContext) {
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		stale := c.endPod(ctx, 0, c.plan(ctx))
		fresh := stale.DeepCopy()
		fresh.Finalizers = append(fresh.Finalizers, "example.com/theirs")
		Expect(api.Update(ctx, fresh)).To(Succeed())
		Expect(c.r.removeFinalizers(ctx, []corev1.Pod{*stale})).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(stale), fresh)).To(Succeed())
		Expect(fresh.Finalizers).To(ConsistOf(batchv1.JobTrackingFinalizer, "example.com/theirs"))

		By("ignoring another pod with the same name")
		controllerutil.AddFinalizer(fresh, runner.SummaryFinalizer)
		Expect(api.Update(ctx, fresh)).To(Succeed())
		stale.UID = types.UID("00000000-0000-0000-0000-000000000000")
		Expect(c.r.removeFinalizers(ctx, []corev1.Pod{*stale})).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(fresh), fresh)).To(Succeed())
		Expect(fresh.Finalizers).To(ContainElement(runner.SummaryFinalizer))
	})

	It("removes the finalizers of a run that is deleted while it is played", func(ctx SpecContext) {
		c.createPool(ctx)
		run := c.createRun(ctx)
		c.reconcile(ctx)
		pod := c.endPod(ctx, 0, c.plan(ctx))
		Expect(api.Delete(ctx, run)).To(Succeed())
		Expect(api.Delete(ctx, pod)).To(Succeed())
		Expect(c.held(ctx)).NotTo(BeEmpty())
		c.reconcile(ctx)
		Expect(c.held(ctx)).To(BeEmpty())
	})

	It("doesn't overwrite a newer status", func(ctx SpecContext) {
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		stale := c.run(ctx)
		c.endPod(ctx, 0, c.plan(ctx))
		c.reconcile(ctx)
		err := c.r.writeStatus(ctx, snapshot.Snapshot{Run: stale}, rules.Decision{Status: *stale.Status.DeepCopy()})
		Expect(err).NotTo(HaveOccurred(), "an unchanged status is not written")
		changed := stale.Status.DeepCopy()
		changed.Progress = "13/14"
		err = c.r.writeStatus(ctx, snapshot.Snapshot{Run: stale}, rules.Decision{Status: *changed})
		Expect(apierrors.IsConflict(err)).To(BeTrue())
		Expect(c.run(ctx).Status.Shards.CompletedIndexes).To(Equal("0"))
	})

	It("writes the status of a failed run", func(ctx SpecContext) {
		c.createPool(ctx)
		run := c.createRun(ctx, func(run *v1alpha1.EvaluationRun) {
			run.Spec.Retries.ShardBackoffLimit = new(
				int32(0))
		})
		c.reconcile(ctx)
		c.endPodWith(ctx, 0, corev1.PodSucceeded, "error: nothing")
		c.reconcile(ctx)
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Failed=True/SummaryRefused"))
		var job batchv1.Job
		Expect(api.Get(ctx, client.ObjectKeyFromObject(run), &job)).To(Succeed())
		Expect(job.Spec.Suspend).To(HaveValue(BeTrue()), "the Job continues")
	})

	It("creates a runner with a sidecar, a volume, overrides and keys, and changes its Job with the run",
		func(ctx SpecContext) {
			c.createPool(ctx)
			run := c.createRun(ctx, func(run *v1alpha1.EvaluationRun) {
				run.Labels = map[string]string{"team": "a"}
				run.Spec.Agent = runtest.ListAgents()["registry.example/agent:1"]
				run.Spec.Results = &v1alpha1.Results{PersistentVolumeClaim: &v1alpha1.VolumeClaimReference{
					ClaimName: "episodes"}}
				run.Spec.Template = &v1alpha1.PodOverrides{NodeSelector: map[string]string{"disk": "fast"},
					Volumes:      []v1alpha1.PodVolume{{Name: "plan", Secret: &v1alpha1.ObjectReference{Name: "weights"}}},
					VolumeMounts: []v1alpha1.PodVolumeMount{{Name: "plan", MountPath: "/mnt/weights"}},
					Env:          []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy.example"}}}
				run.Spec.EnvironmentRef.TokenSecretRef = runtest.SecretKey("tokens")
				run.Spec.Suspend = new(true)
			})
			c.reconcile(ctx)
			Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(
				ContainSubstring("Suspended=True/Suspended Complete=False/Suspended"))
			c.change(ctx, func(run *v1alpha1.EvaluationRun) { run.Spec.Suspend = new(false) })
			c.reconcile(ctx)
			job := c.job(ctx)
			Expect(job.Labels).To(HaveKeyWithValue("team", "a"))
			Expect(job.Spec.Suspend).To(HaveValue(BeFalse()))
			Expect(job.Spec.Template.Spec.NodeSelector).To(HaveKeyWithValue("disk", "fast"))
			Expect(job.Spec.Template.Spec.InitContainers).To(HaveLen(1))

			c.change(ctx, func(run *v1alpha1.EvaluationRun) {
				run.Spec.Suspend = new(true)
				run.Spec.Parallelism = new(
					int32(2))
			})
			c.reconcile(ctx)
			Expect(c.job(ctx).Spec.Suspend).To(HaveValue(BeTrue()))
			Expect(c.job(ctx).Spec.Parallelism).To(HaveValue(BeEquivalentTo(2)))

			c.change(ctx, func(run *v1alpha1.EvaluationRun) {
				run.Spec.TTLSecondsAfterFinished = new(int32(0))
				run.Spec.Retain = v1alpha1.RetainNever
			})
			for shard := range 4 {
				c.endPod(ctx, shard, c.plan(ctx))
			}
			c.reconcile(ctx)
			Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Complete=True/Completed"))
			c.reconcile(ctx)
			err := api.Get(ctx, client.ObjectKeyFromObject(run), &v1alpha1.EvaluationRun{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the run still exists after its retention")
		})

	It("plays against a pool of another namespace that admits its namespace", func(ctx SpecContext) {
		c.createPool(ctx)
		shared := c.namespace
		c.changePool(ctx, func(env *v1alpha1.CustomerSupportEnv) {
			env.Spec.Access.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.SelectedNamespaces,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}
		})
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
		Expect(api.Create(ctx, space)).To(Succeed())
		c.namespace = space.Name
		c.createRun(ctx, func(run *v1alpha1.EvaluationRun) { run.Spec.EnvironmentRef.Namespace = shared })
		c.reconcile(ctx)
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("EnvironmentReady=False/NamespaceNotAllowed"))
		space.Labels["team"] = "a"
		Expect(api.Update(ctx, space)).To(Succeed())
		c.reconcile(ctx)
		Expect(c.job(ctx).Spec.Template.Spec.Containers[0].Args).To(
			ContainElement("--pool=support-pods." + shared + ".svc:8000"))
	})

	// A pass makes up to five writes. A crash after one of them is a crash before the next one.
	// Then another operator continues.
	It("counts every shard once, after a crash at any write", func(ctx SpecContext) {
		var want v1alpha1.EvaluationRunStatus
		for at := 0; ; at++ {
			c = c.anew(ctx)
			c.createPool(ctx)
			c.createRun(ctx)
			crashed := c.playCrashing(ctx, at)
			got := c.run(ctx).Status
			Expect(runtest.FormatConditions(got.Conditions)).To(ContainSubstring("Complete=True/Completed"))
			Expect(c.held(ctx)).To(BeEmpty())
			if want.Score == nil {
				want = got
			}
			Expect(got.Score).To(Equal(want.Score), "crash after write %d", at)
			Expect(got.Episodes).To(Equal(want.Episodes))
			Expect(got.Shards.CompletedIndexes).To(Equal("0-3"))
			Expect(got.Shards.JobAttempts).To(BeEquivalentTo(2), "the forged shard is played again")
			if !crashed {
				Expect(at).To(BeNumerically(">", 10), "writes of a run")
				return
			}
		}
	}, SpecTimeout(2*time.Minute))

	It("collects trainers' episodes exactly once, after a crash at any write", func(ctx SpecContext) {
		for at := 0; ; at++ {
			c = c.anew(ctx)
			c.createPool(ctx)
			server := newEnvServer("support-a")
			c.r.reader.Pools = rolloutPool{"10.0.0.1": server}
			c.createRun(ctx, func(run *v1alpha1.EvaluationRun) {
				run.Spec.Agent, run.Spec.Tasks = v1alpha1.Agent{Type: v1alpha1.ExternalAgent,
					External: &v1alpha1.ExternalAgentSpec{Episodes: new(int64(6))}}, nil
			})
			crashed := c.collectCrashing(ctx, at, server)
			got := c.run(ctx)
			Expect(runtest.FormatConditions(got.Status.Conditions)).To(ContainSubstring("Complete=True/Completed"))
			Expect(got.Status.Episodes).To(Equal(&v1alpha1.RunEpisodes{Total: 6, Scored: 6}), "crash after write %d",
				at)
			Expect(got.Status.Score.Mean).To(Equal("0.5000"))
			Expect(got.Status.ScoresRef).NotTo(BeNil())
			data, err := json.Marshal(got.Status)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(data)).To(BeNumerically("<", 16<<10))

			By("creating nothing for runners, and writing nothing more")
			Expect(apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(got), &batchv1.Job{}))).To(BeTrue())
			c.reconcile(ctx)
			Expect(c.run(ctx).ResourceVersion).To(Equal(got.ResourceVersion))
			if !crashed {
				Expect(at).To(BeNumerically(">", 3), "writes of a run")
				return
			}
		}
	}, SpecTimeout(2*time.Minute))

	It("ends a collection by an edited deadline", func(ctx SpecContext) {
		c.createPool(ctx)
		server := newEnvServer("support-a")
		c.r.reader.Pools = rolloutPool{"10.0.0.1": server}
		c.createRun(ctx, func(run *v1alpha1.EvaluationRun) {
			run.Spec.Agent, run.Spec.Tasks = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}, nil
		})
		c.reconcile(ctx)
		server.end(GinkgoTB(), score.Scored, "B01", 1_000_000)
		c.change(ctx, func(run *v1alpha1.EvaluationRun) { run.Spec.ActiveDeadlineSeconds = new(int32(1)) })
		c.r.setClock(testclock.NewFakePassiveClock(time.Now().Add(2 * time.Second)))
		c.reconcile(ctx)
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Complete=True/CollectionEnded"))
		Expect(c.run(ctx).Status.Progress).To(Equal("1"))
	})

	It("leaves a Job in the queue that admission chose", func(ctx SpecContext) {
		policy, binding := defaultQueuePolicy(c.namespace)
		err := api.Create(ctx, policy)
		if meta.IsNoMatchError(err) {
			Skip("Kubernetes 1.35 doesn't serve the policies by which the test sets a queue")
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Create(ctx, binding)).To(Succeed())
		c.awaitDefaultQueue(ctx)
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		made := c.job(ctx)
		Expect(made.Labels).To(HaveKeyWithValue(runner.LabelQueue, "default"))
		Expect(made.Spec.Suspend).To(HaveValue(BeTrue()))
		for range 3 {
			c.reconcile(ctx)
		}
		Expect(c.job(ctx).UID).To(Equal(made.UID), "the Job is replaced again and again")
		Expect(runtest.FormatConditions(c.run(ctx).Status.Conditions)).To(ContainSubstring("Complete=False/Queued"))

		By("creating none while the run is suspended")
		c.change(ctx, func(run *v1alpha1.EvaluationRun) { run.Spec.Suspend = new(true) })
		for range 3 {
			c.reconcile(ctx)
			Expect(apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(made), &batchv1.Job{}))).To(BeTrue())
		}
	}, SpecTimeout(2*time.Minute))

	It("resizes the Job", func(ctx SpecContext) {
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		run := c.run(ctx)
		run.Spec.Parallelism = ptr.To[int32](1)
		Expect(api.Update(ctx, run)).To(Succeed())
		c.reconcile(ctx)
		var job batchv1.Job
		Expect(api.Get(ctx, client.ObjectKeyFromObject(run), &job)).To(Succeed())
		Expect(job.Spec.Parallelism).To(HaveValue(BeEquivalentTo(1)))
	})

	It("fails a run of a task that isn't offered, with its defaults", func(ctx SpecContext) {
		c.createPool(ctx)
		run := runtest.NewRun()
		run.ObjectMeta = metav1.ObjectMeta{Name: runtest.RunName, Namespace: c.namespace}
		run.Spec = v1alpha1.EvaluationRunSpec{
			EnvironmentRef: run.Spec.EnvironmentRef, Agent: run.Spec.Agent,
			Tasks: []v1alpha1.TaskSelection{{Name: "refund"}},
		}
		Expect(api.Create(ctx, run)).To(Succeed())
		c.reconcile(ctx)
		got := c.run(ctx)
		Expect(runtest.FormatConditions(got.Status.Conditions)).To(ContainSubstring("Failed=True/InvalidPlan"))
		Expect(got.Spec.Retries.MaxErroredPercent).To(HaveValue(BeEquivalentTo(5)))
		Expect(got.Spec.PassScore).To(BeZero())
	})
})
