package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// cluster is the suite's API server and the namespace of a spec.
type cluster struct {
	client    client.Client
	namespace string
	r         *Reconciler
}

func (c *cluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

func (c *cluster) reconcile(ctx SpecContext) {
	GinkgoHelper()
	_, err := c.r.Reconcile(ctx, ctrl.Request{NamespacedName: c.key(runtest.RunName)})
	Expect(err).NotTo(HaveOccurred())
}

func (c *cluster) run(ctx SpecContext) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	var run v1alpha1.EvaluationRun
	Expect(c.client.Get(ctx, c.key(runtest.RunName), &run)).To(Succeed())
	return &run
}

func (c *cluster) change(ctx SpecContext, change func(*v1alpha1.EvaluationRun)) {
	GinkgoHelper()
	run := c.run(ctx)
	change(run)
	Expect(c.client.Update(ctx, run)).To(Succeed())
}

func (c *cluster) changePool(ctx SpecContext, change func(*v1alpha1.CustomerSupportEnv)) {
	GinkgoHelper()
	var env v1alpha1.CustomerSupportEnv
	Expect(c.client.Get(ctx, c.key(runtest.PoolName), &env)).To(Succeed())
	change(&env)
	Expect(c.client.Update(ctx, &env)).To(Succeed())
}

func (c *cluster) job(ctx SpecContext) *batchv1.Job {
	GinkgoHelper()
	var job batchv1.Job
	Expect(c.client.Get(ctx, c.key(runtest.RunName), &job)).To(Succeed())
	return &job
}

// anew returns another namespace on the same API server.
func (c *cluster) anew(ctx SpecContext) *cluster {
	GinkgoHelper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"}}
	Expect(c.client.Create(ctx, space)).To(Succeed())
	return &cluster{client: c.client, namespace: space.Name, r: c.r}
}

// playCrashing alternates operators and a Job until the run has ended. The operator crashes after
// the write with the given number; playCrashing reports whether that number was reached. Shard 1
// leaves a forged summary in the first attempt.
func (c *cluster) playCrashing(ctx SpecContext, at int) (crashed bool) {
	GinkgoHelper()
	writes := 0
	write := func(do func() error) error {
		writes++
		if writes-1 == at {
			return errors.Join(do(), runtest.ErrCrash)
		}
		return do()
	}
	whole := c.r
	defer func() { c.r = whole }()
	for range 30 {
		operator := *whole
		operator.client, operator.recorder = crashing(c.client, write), events.NewFakeRecorder(100)
		c.r = &operator
		_, err := c.r.Reconcile(ctx, ctrl.Request{NamespacedName: c.key(runtest.RunName)})
		if !errors.Is(err, runtest.ErrCrash) {
			Expect(err).NotTo(HaveOccurred())
		}
		if err == nil && evaluation.HasEnded(c.run(ctx).Status.Conditions) && len(c.held(ctx)) == 0 {
			return writes > at
		}
		c.playJob(ctx)
	}
	Fail(fmt.Sprintf("the run doesn't end: %s", runtest.FormatConditions(c.run(ctx).Status.Conditions)))
	return true
}

// collectCrashing alternates operators and the end of two episodes until the run has ended. The
// operator crashes after the write with the given number; collectCrashing reports whether that
// number was reached.
func (c *cluster) collectCrashing(ctx SpecContext, at int, server *envServer) (crashed bool) {
	GinkgoHelper()
	writes := 0
	whole := c.r
	defer func() { c.r = whole }()
	for range 12 {
		operator := *whole
		operator.recorder = events.NewFakeRecorder(100)
		operator.client = crashing(c.client, func(do func() error) error {
			writes++
			if writes-1 == at {
				return errors.Join(do(), runtest.ErrCrash)
			}
			return do()
		})
		_, err := operator.Reconcile(ctx, ctrl.Request{NamespacedName: c.key(runtest.RunName)})
		if !errors.Is(err, runtest.ErrCrash) {
			Expect(err).NotTo(HaveOccurred())
		}
		if evaluation.HasEnded(c.run(ctx).Status.Conditions) {
			return writes > at
		}
		if server.number < 3 && server.opened == 0 {
			server.end(GinkgoTB(), score.Scored, "B01", 1_000_000)
			server.end(GinkgoTB(), score.Scored, "S01", 0)
		}
	}
	Fail(fmt.Sprintf("the run doesn't end: %s", runtest.FormatConditions(c.run(ctx).Status.Conditions)))
	return true
}

// crashing passes every write of the client to a function.
func crashing(api client.Client, write func(do func() error) error) client.Client {
	return interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return write(func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
	})
}

// playJob ends two of the Job's pods at a time, and the Job after the last one.
func (c *cluster) playJob(ctx SpecContext) {
	GinkgoHelper()
	var job batchv1.Job
	if c.client.Get(ctx, c.key(runtest.RunName), &job) != nil || runner.HasJobEnded(&job) {
		return
	}
	plan := c.plan(ctx)
	shards, err := score.ParseIndexSet(job.Annotations[runner.AnnotationShards])
	Expect(err).NotTo(HaveOccurred())
	played := 0
	for index := range shards.Len() {
		shard, _ := shards.At(index)
		pod := ofJob(runtest.RunnerPod(c.run(ctx), int(shard)), &job, int(index))
		pod.Name += "-" + job.Annotations[runner.AnnotationJobAttempt]
		message := runtest.SummaryOf(GinkgoTB(), plan, int(shard), runtest.Playing{})
		if shard == 1 && runner.ReadJobAttempt(&job) == 1 {
			message = strings.Replace(message, `"payload":"`, `"payload":"AAAA`, 1)
		}
		if c.tryEndPod(ctx, pod, message) {
			if played++; played == 2 {
				return
			}
		}
	}
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, *job.Spec.Completions
	job.Status.CompletedIndexes = fmt.Sprintf("0-%d", *job.Spec.Completions-1)
	if *job.Spec.Completions == 1 {
		job.Status.CompletedIndexes = "0"
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions,
			batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now})
	}
	Expect(c.client.Status().Update(ctx, &job)).To(Succeed())
}

// tryEndPod ends a pod, unless it has already ended.
func (c *cluster) tryEndPod(ctx SpecContext, pod *corev1.Pod, message string) bool {
	GinkgoHelper()
	pod.UID, pod.CreationTimestamp = "", metav1.Time{}
	err := c.client.Create(ctx, pod)
	if apierrors.IsAlreadyExists(err) {
		return false
	}
	Expect(err).NotTo(HaveOccurred())
	pod.Status = runtest.EndPod(pod.DeepCopy(), corev1.PodSucceeded, message).Status
	Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
	return true
}

func (c *cluster) createRun(ctx SpecContext, changes ...func(*v1alpha1.EvaluationRun)) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	run := runtest.NewRun()
	run.ObjectMeta = metav1.ObjectMeta{Name: runtest.RunName, Namespace: c.namespace}
	for _, change := range changes {
		change(run)
	}
	Expect(c.client.Create(ctx, run)).To(Succeed())
	return run
}

// createPool creates an available pool with one ready server.
func (c *cluster) createPool(ctx SpecContext) {
	GinkgoHelper()
	env := runtest.NewPool()
	status := env.Status
	status.Conditions[0].LastTransitionTime = metav1.Now()
	env.ObjectMeta = metav1.ObjectMeta{Name: runtest.PoolName, Namespace: c.namespace}
	env.Spec.Environment = v1alpha1.TicketEnvironment
	Expect(c.client.Create(ctx, env)).To(Succeed())
	env.Status = status
	Expect(c.client.Status().Update(ctx, env)).To(Succeed())

	pod := runtest.RunningServer("support-a", "10.0.0.1")
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
	var job batchv1.Job
	Expect(c.client.Get(ctx, c.key(runtest.RunName), &job)).To(Succeed())
	inputs := runner.ReadInputs(&job.Spec.Template)
	if inputs == nil {
		var planMap corev1.ConfigMap
		Expect(c.client.Get(ctx, c.key(runtest.RunName+"-plan"), &planMap)).To(Succeed())
		inputs = planMap.Data
	}
	var plan score.Plan
	Expect(json.Unmarshal([]byte(inputs[runner.PlanKey]), &plan)).To(Succeed())
	return plan
}

// endPod ends a shard's runner in the same way as the kubelet.
func (c *cluster) endPod(ctx SpecContext, shard int, plan score.Plan) *corev1.Pod {
	GinkgoHelper()
	return c.endPodWith(ctx, shard, corev1.PodSucceeded, runtest.SummaryOf(GinkgoTB(), plan, shard, runtest.Playing{}))
}

func (c *cluster) endPodWith(ctx SpecContext, shard int, phase corev1.PodPhase, message string) *corev1.Pod {
	GinkgoHelper()
	pod := runtest.RunnerPod(c.run(ctx), shard)
	pod.UID, pod.CreationTimestamp = "", metav1.Time{}
	Expect(c.client.Create(ctx, pod)).To(Succeed())
	ended := runtest.EndPod(pod.DeepCopy(), phase, message)
	pod.Status = ended.Status
	Expect(c.client.Status().Update(ctx, pod)).To(Succeed())
	return pod
}

// held lists the runners' pods that have the finalizer.
func (c *cluster) held(ctx SpecContext) []string {
	GinkgoHelper()
	var list corev1.PodList
	Expect(c.client.List(ctx, &list, client.InNamespace(c.namespace))).To(Succeed())
	var names []string
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], runner.SummaryFinalizer) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
