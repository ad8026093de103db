package environment

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
)

var _ = Describe("A pool that scales itself", func() {
	var (
		d   *desk
		now *clocktesting.FakePassiveClock
	)
	replicas := func(ctx SpecContext) int32 { return *d.deployment(ctx).Spec.Replicas }
	pod := func(ctx SpecContext, name string) *corev1.Pod {
		GinkgoHelper()
		p := &corev1.Pod{}
		Expect(k8s.Get(ctx, d.key(name), p)).To(Succeed())
		return p
	}
	// lookFor reconciles every five seconds of that time span.
	lookFor := func(ctx SpecContext, span time.Duration) {
		GinkgoHelper()
		for end := now.Now().Add(span); !now.Now().After(end); now.SetTime(now.Now().Add(scalePollInterval)) {
			d.reconcile(ctx)
		}
	}
	start := func(ctx SpecContext, a v1alpha1.Autoscaling) {
		GinkgoHelper()
		now = clocktesting.NewFakePassiveClock(time.Now())
		d.reconciler.reader.Clock = now
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{Autoscaling: &a, Sessions: v1alpha1.SessionLimits{PerPod: 10}})
		d.reconcile(ctx)
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
		d.answers["10.0.0.1"] = report(0)
	}

	BeforeEach(func(ctx SpecContext) { d = newDesk(ctx) })

	It("follows its sessions, up at once and down after the delay, idle servers first", func(ctx SpecContext) {
		start(ctx, v1alpha1.Autoscaling{MaxReplicas: 3, FreeSessions: new(intstr.FromInt32(5)),
			ScaleDownDelaySeconds: new(int32(60))})
		Expect(replicas(ctx)).To(BeEquivalentTo(1))

		By("a burst")
		d.answers["10.0.0.1"] = report(8)
		d.reconcile(ctx)
		Expect(replicas(ctx)).To(BeEquivalentTo(2))
		Expect(*d.pool(ctx).Spec.Replicas).To(BeEquivalentTo(1), "the spec is the user's")
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionScalingLimited, metav1.ConditionFalse,
			v1alpha1.ReasonWithinLimits))
		d.startPod(ctx, "support-b", "10.0.0.2", asItIs)
		d.answers["10.0.0.2"] = report(9)
		d.reconcile(ctx)
		Expect(replicas(ctx)).To(BeEquivalentTo(3))
		d.startPod(ctx, "support-c", "10.0.0.3", asItIs)
		d.answers["10.0.0.3"] = report(9)
		d.reconcile(ctx)
		Expect(replicas(ctx)).To(BeEquivalentTo(3))
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionScalingLimited, metav1.ConditionTrue,
			v1alpha1.ReasonAtMaximum))

		By("its end")
		d.rollOut(ctx)
		d.answers["10.0.0.1"], d.answers["10.0.0.2"], d.answers["10.0.0.3"] = report(3), report(0), report(0)
		lookFor(ctx, 55*time.Second)
		Expect(replicas(ctx)).To(BeEquivalentTo(3))
		Expect(d.patched.Load()).To(BeZero(), "costs are written only when necessary")
		lookFor(ctx, 10*time.Second)
		Expect(replicas(ctx)).To(BeEquivalentTo(1))
		Expect(pod(ctx, "support-a").Annotations).To(HaveKeyWithValue("controller.kubernetes.io/pod-deletion-cost", "3"))
		Expect(pod(ctx, "support-b").Annotations).NotTo(HaveKey("controller.kubernetes.io/pod-deletion-cost"))
		Expect(revision(d.deployment(ctx))).To(BeNumerically(">", revision(pod(ctx, "support-a"))),
			"the cost comes before the number")
	})

	It("is never written to at rest", func(ctx SpecContext) {
		start(ctx, v1alpha1.Autoscaling{MaxReplicas: 3})
		d.rollOut(ctx)
		lookFor(ctx, time.Minute)
		before := d.pool(ctx).ResourceVersion
		d.writes = 0
		d.patched.Store(0)
		lookFor(ctx, 5*time.Minute)
		Expect(d.writes).To(BeZero())
		Expect(d.patched.Load()).To(BeZero())
		Expect(d.pool(ctx).ResourceVersion).To(Equal(before))

		By("marking an idle server as evictable once")
		lookFor(ctx, 10*time.Minute)
		Expect(d.patched.Load()).To(BeEquivalentTo(1))
		Expect(pod(ctx, "support-a").Annotations).To(HaveKeyWithValue(children.SafeToEvict, "true"))
		d.answers["10.0.0.1"] = report(1)
		d.reconcile(ctx)
		Expect(pod(ctx, "support-a").Annotations).To(HaveKeyWithValue(children.SafeToEvict, "false"))
	})

	It("has no servers while it is unused, until a run waits for it", func(ctx SpecContext) {
		start(ctx, v1alpha1.Autoscaling{MinReplicas: new(int32(0)), MaxReplicas: 3,
			ScaleDownDelaySeconds: new(int32(30))})
		Expect(replicas(ctx)).To(BeEquivalentTo(1), "a server reports the tasks of the pool")
		lookFor(ctx, 40*time.Second)
		Expect(replicas(ctx)).To(BeZero())
		Expect(k8s.Delete(ctx, pod(ctx, "support-a"), client.GracePeriodSeconds(0))).To(Succeed())
		d.rollOut(ctx)
		lookFor(ctx, 40*time.Second)
		Expect(replicas(ctx)).To(BeZero())
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse,
			v1alpha1.ReasonScaledToZero))

		lab := newDesk(ctx)
		run := &v1alpha1.EvaluationRun{
			ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: lab.namespace},
			Spec: v1alpha1.EvaluationRunSpec{
				EnvironmentRef: v1alpha1.EnvironmentReference{Name: "support", Namespace: d.namespace},
				Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
					Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NoopPolicy}},
				Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve"}},
			},
		}
		Expect(k8s.Create(ctx, run)).To(Succeed())
		lookFor(ctx, 10*time.Second)
		Expect(replicas(ctx)).To(BeZero(), "the run isn't admitted yet")
		run.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionEnvironmentReady, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonEnvironmentNotAvailable, LastTransitionTime: metav1.Now(),
		}}
		Expect(k8s.Status().Update(ctx, run)).To(Succeed())
		d.reconcile(ctx)
		Expect(replicas(ctx)).To(BeEquivalentTo(1))
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse,
			v1alpha1.ReasonNoServerReady))
	})

	It("is suspended and resumed", func(ctx SpecContext) {
		start(ctx, v1alpha1.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 3})
		env := d.pool(ctx)
		env.Spec.OperatingMode = v1alpha1.SuspendedMode
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		Expect(replicas(ctx)).To(BeZero())
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse,
			v1alpha1.ReasonSuspended))
		env = d.pool(ctx)
		env.Spec.OperatingMode = v1alpha1.RunningMode
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		Expect(replicas(ctx)).To(BeEquivalentTo(2))
	})
})

// revision returns the order of a write at an API server.
func revision(object client.Object) int {
	GinkgoHelper()
	n, err := strconv.Atoi(object.GetResourceVersion())
	Expect(err).NotTo(HaveOccurred())
	return n
}

var _ = Describe("The scale subresource of a pool", func() {
	It("is what kubectl scale and a HorizontalPodAutoscaler need", func(ctx SpecContext) {
		d := newDesk(ctx)
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{})
		d.reconcile(ctx)
		d.rollOut(ctx)
		d.reconcile(ctx)
		scale := &autoscalingv1.Scale{}
		Expect(k8s.SubResource("scale").Get(ctx, d.pool(ctx), scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(BeEquivalentTo(1))
		Expect(scale.Status.Replicas).To(BeEquivalentTo(1))
		Expect(scale.Status.Selector).To(
			Equal("app.kubernetes.io/component=env-server,app.kubernetes.io/name=csenv,csenv.dev/environment=support"))
		scale.Spec.Replicas = 4
		Expect(k8s.SubResource("scale").Update(ctx, d.pool(ctx), client.WithSubResourceBody(scale))).To(Succeed())
		d.reconcile(ctx)
		Expect(*d.deployment(ctx).Spec.Replicas).To(BeEquivalentTo(4))
	})
})

var fencedYAML = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

var _ = Describe("The examples of docs/pools.md", func() {
	page, err := os.ReadFile("../../docs/pools.md")
	if err != nil {
		panic(err)
	}
	var examples [][]byte
	for _, block := range fencedYAML.FindAllSubmatch(page, -1) {
		if bytes.Contains(block[1], []byte("apiVersion:")) {
			examples = append(examples, block[1])
		}
	}

	It("are some", func() { Expect(len(examples)).To(BeNumerically(">", 3)) })

	for i, example := range examples {
		It("are accepted by the API server: "+strconv.Itoa(i+1), func(ctx SpecContext) {
			d := newDesk(ctx)
			for document := range bytes.SplitSeq(example, []byte("\n---\n")) {
				object := &unstructured.Unstructured{}
				Expect(yaml.UnmarshalStrict(document, &object.Object)).To(Succeed())
				object.SetNamespace(d.namespace)
				Expect(k8s.Create(ctx, object, &client.CreateOptions{
					Raw: &metav1.CreateOptions{FieldValidation: "Strict"}})).To(Succeed(), "%s", example)
			}
		})
	}
})
