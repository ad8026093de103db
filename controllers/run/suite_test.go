package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// TestAgainstAPIServer reconciles against a real API server, one pass at a time, without a manager: what a fake client can't tell is whether the API
// server takes our objects, patches and statuses as we mean them.
func TestAgainstAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set, so there is no API server to test against. Run: export KUBEBUILDER_ASSETS=$(go run ./hack/cluster envtest)")
	}
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	reporter.NoColor = true
	RunSpecs(t, "EvaluationRun", suite, reporter)
}

// cluster is the API server of the suite and the namespace of a spec.
type cluster struct {
	client    client.Client
	namespace string
	r         *Reconciler
}

var _ = Describe("EvaluationRun", Ordered, func() {
	var (
		server *envtest.Environment
		c      *cluster
		api    client.Client
	)

	BeforeAll(func() {
		types := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, v1alpha1.AddToScheme} {
			Expect(add(types)).To(Succeed())
		}
		server = &envtest.Environment{
			CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
			ErrorIfCRDPathMissing: true,
		}
		config, err := server.Start()
		Expect(err).NotTo(HaveOccurred())
		api, err = client.New(config, client.Options{Scheme: types})
		Expect(err).NotTo(HaveOccurred())
	})
	AfterAll(func() { Expect(server.Stop()).To(Succeed()) })

	BeforeEach(func(ctx SpecContext) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"}}
		Expect(api.Create(ctx, space)).To(Succeed())
		c = &cluster{client: api, namespace: space.Name}
		c.r = &Reconciler{
			client: api, live: api, recorder: events.NewFakeRecorder(100), pools: fakePool{"10.0.0.1": offer()},
			clock: testclock.NewFakePassiveClock(time.Now()), metrics: newRunMetrics(), options: Options{Image: "csenv:test", Version: "v1.2.3"},
		}
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
		Expect(job.Spec.Template.Finalizers).To(ConsistOf(summaryFinalizer))
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
		Expect(states(got.Status.Conditions)).To(Equal("EnvironmentReady=True/EnvironmentAvailable Complete=True/Completed Failed=False/NotFailed"))
		Expect(got.Status.Progress).To(Equal("14/14"))
		Expect(got.Status.Score.Mean).To(MatchRegexp(`^0\.\d{4}$`))
		Expect(got.Status.Provenance.ScenarioDigest).To(Equal(digestA))

		By("writing nothing more")
		c.reconcile(ctx)
		Expect(c.run(ctx).ResourceVersion).To(Equal(got.ResourceVersion))
	})

	It("lifts its own finalizer alone, whoever writes to the pod", func(ctx SpecContext) {
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		stale := c.endPod(ctx, 0, c.plan(ctx))
		fresh := stale.DeepCopy()
		fresh.Finalizers = append(fresh.Finalizers, "example.com/theirs")
		Expect(api.Update(ctx, fresh)).To(Succeed())
		Expect(c.r.lift(ctx, []corev1.Pod{*stale})).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(stale), fresh)).To(Succeed())
		Expect(fresh.Finalizers).To(ConsistOf(batchv1.JobTrackingFinalizer, "example.com/theirs"))

		By("leaving a pod that took the name of the one that was meant")
		controllerutil.AddFinalizer(fresh, summaryFinalizer)
		Expect(api.Update(ctx, fresh)).To(Succeed())
		stale.UID = types.UID("00000000-0000-0000-0000-000000000000")
		Expect(c.r.lift(ctx, []corev1.Pod{*stale})).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(fresh), fresh)).To(Succeed())
		Expect(fresh.Finalizers).To(ContainElement(summaryFinalizer))
	})

	It("lets go of the pods of a run that is deleted while it is played", func(ctx SpecContext) {
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

	It("loses to a status that was written in between", func(ctx SpecContext) {
		c.createPool(ctx)
		c.createRun(ctx)
		c.reconcile(ctx)
		stale := c.run(ctx)
		c.endPod(ctx, 0, c.plan(ctx))
		c.reconcile(ctx)
		err := c.r.writeStatus(ctx, stale, decision{status: *stale.Status.DeepCopy()})
		Expect(err).NotTo(HaveOccurred(), "an unchanged status is not written")
		changed := stale.Status.DeepCopy()
		changed.Progress = "13/14"
		err = c.r.writeStatus(ctx, stale, decision{status: *changed})
		Expect(apierrors.IsConflict(err)).To(BeTrue())
		Expect(c.run(ctx).Status.Shards.CompletedIndexes).To(Equal("0"))
	})

	It("takes the status of a run that fails", func(ctx SpecContext) {
		c.createPool(ctx)
		run := c.createRun(ctx)
		c.reconcile(ctx)
		c.endPodWith(ctx, 0, corev1.PodSucceeded, "error: nothing")
		c.reconcile(ctx)
		Expect(states(c.run(ctx).Status.Conditions)).To(ContainSubstring("Failed=True/SummaryRefused"))
		var job batchv1.Job
		err := api.Get(ctx, client.ObjectKeyFromObject(run), &job)
		Expect(apierrors.IsNotFound(err) || !job.DeletionTimestamp.IsZero()).To(BeTrue(), "the Job goes on")
	})

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
		run := evaluation()
		run.ObjectMeta = metav1.ObjectMeta{Name: runName, Namespace: c.namespace}
		run.Spec = v1alpha1.EvaluationRunSpec{
			EnvironmentRef: run.Spec.EnvironmentRef, Agent: run.Spec.Agent, Tasks: []v1alpha1.TaskSelection{{Name: "refund"}},
		}
		Expect(api.Create(ctx, run)).To(Succeed())
		c.reconcile(ctx)
		got := c.run(ctx)
		Expect(states(got.Status.Conditions)).To(ContainSubstring("Failed=True/InvalidPlan"))
		Expect(got.Spec.Retries.MaxErroredPercent).To(HaveValue(BeEquivalentTo(5)))
		Expect(got.Spec.PassScore).To(Equal("0.8"))
	})
})

func (c *cluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

func (c *cluster) reconcile(ctx SpecContext) {
	GinkgoHelper()
	_, err := c.r.Reconcile(ctx, ctrl.Request{NamespacedName: c.key(runName)})
	Expect(err).NotTo(HaveOccurred())
}

func (c *cluster) run(ctx SpecContext) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	var run v1alpha1.EvaluationRun
	Expect(c.client.Get(ctx, c.key(runName), &run)).To(Succeed())
	return &run
}

func (c *cluster) createRun(ctx SpecContext) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	run := evaluation()
	run.ObjectMeta = metav1.ObjectMeta{Name: runName, Namespace: c.namespace}
	Expect(c.client.Create(ctx, run)).To(Succeed())
	return run
}

// createPool creates an available pool with one ready server.
func (c *cluster) createPool(ctx SpecContext) {
	GinkgoHelper()
	env := pool()
	status := env.Status
	status.Conditions[0].LastTransitionTime = metav1.Now()
	env.ObjectMeta = metav1.ObjectMeta{Name: poolName, Namespace: c.namespace}
	env.Spec.Environment = v1alpha1.TicketEnvironment
	Expect(c.client.Create(ctx, env)).To(Succeed())
	env.Status = status
	Expect(c.client.Status().Update(ctx, env)).To(Succeed())

	pod := server("support-a", "10.0.0.1")
	podStatus := pod.Status
	pod.Namespace = c.namespace
	pod.Spec.Containers = []corev1.Container{{Name: "envserver", Image: "csenv:test"}}
	Expect(c.client.Create(ctx, pod)).To(Succeed())
	podStatus.PodIPs = []corev1.PodIP{{IP: podStatus.PodIP}}
	pod.Status = podStatus
	Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
}

func (c *cluster) plan(ctx SpecContext) score.Plan {
	GinkgoHelper()
	var planMap corev1.ConfigMap
	Expect(c.client.Get(ctx, c.key(runName+"-plan"), &planMap)).To(Succeed())
	var plan score.Plan
	Expect(json.Unmarshal([]byte(planMap.Data[planKey]), &plan)).To(Succeed())
	return plan
}

// endPod ends a shard's runner as the kubelet would.
func (c *cluster) endPod(ctx SpecContext, shard int, plan score.Plan) *corev1.Pod {
	GinkgoHelper()
	return c.endPodWith(ctx, shard, corev1.PodSucceeded, summaryOf(GinkgoTB(), plan, shard, playing{}))
}

func (c *cluster) endPodWith(ctx SpecContext, shard int, phase corev1.PodPhase, message string) *corev1.Pod {
	GinkgoHelper()
	pod := runnerPodOf(c.run(ctx), shard)
	pod.UID, pod.CreationTimestamp = "", metav1.Time{}
	Expect(c.client.Create(ctx, pod)).To(Succeed())
	ended := ends(pod.DeepCopy(), phase, message)
	pod.Status = ended.Status
	Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
	return pod
}

// held lists the runners' pods that carry the finalizer.
func (c *cluster) held(ctx SpecContext) []string {
	GinkgoHelper()
	var list corev1.PodList
	Expect(c.client.List(ctx, &list, client.InNamespace(c.namespace))).To(Succeed())
	var names []string
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], summaryFinalizer) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
