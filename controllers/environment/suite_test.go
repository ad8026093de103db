package environment

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/internal/testkit/apiserver"
)

// The suite reconciles by hand against a real API server: its defaults, validation, field ownership
// and Pod Security admission. What the Deployment controller would do, the specs do.
func TestSuite(t *testing.T) {
	apiserver.Require(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "environment controller")
}

var k8s client.WithWatch

var _ = BeforeSuite(func(SpecContext) {
	logf.SetLogger(GinkgoLogr)
	config := apiserver.StartWithCRDs(GinkgoTB()).Config
	var err error
	k8s, err = client.NewWithWatch(config, client.Options{Scheme: newScheme(GinkgoTB())})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(2*time.Minute))

// desk is a pool in a namespace of its own, and a reconciler whose writes are counted.
type desk struct {
	namespace  string
	reconciler *Reconciler
	writes     int
	patched    atomic.Int64            // pods, several at a time
	answers    map[string]score.Report // by address of the pod
}

func newDesk(ctx context.Context) *desk {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "desk-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	d := &desk{namespace: namespace.Name, answers: map[string]score.Report{}}
	d.reconciler = &Reconciler{
		client: d.counting(), live: k8s, recorder: events.NewFakeRecorder(100), entropy: rand.Reader,
		clock: clock.RealClock{}, metrics: newPoolMetrics(), image: testImage,
		stats: statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
			if answer, ok := d.answers[podIP]; ok {
				return answer, nil
			}
			return score.Report{}, fmt.Errorf("%s doesn't answer", podIP)
		}),
	}
	return d
}

func (d *desk) counting() client.Client {
	return interceptor.NewClient(k8s, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			d.writes++
			return c.Apply(ctx, config, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			d.writes++
			return c.Create(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			d.patched.Add(1)
			return c.Patch(ctx, object, patch, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object,
			opts ...client.SubResourceUpdateOption) error {
			d.writes++
			return c.SubResource(sub).Update(ctx, object, opts...)
		},
	})
}

func (d *desk) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: d.namespace, Name: name}
}

func (d *desk) create(ctx context.Context, spec v1alpha1.CustomerSupportEnvSpec) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "support",
		Namespace: d.namespace}, Spec: spec})).To(Succeed())
}

func (d *desk) reconcile(ctx context.Context) {
	GinkgoHelper()
	_, err := d.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: d.key("support")})
	Expect(err).NotTo(HaveOccurred())
}

func (d *desk) pool(ctx context.Context) *v1alpha1.CustomerSupportEnv {
	GinkgoHelper()
	env := &v1alpha1.CustomerSupportEnv{}
	Expect(k8s.Get(ctx, d.key("support"), env)).To(Succeed())
	return env
}

func (d *desk) deployment(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(k8s.Get(ctx, d.key("support"), deployment)).To(Succeed())
	return deployment
}

func (d *desk) service(ctx context.Context) *corev1.Service {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(k8s.Get(ctx, d.key("support"), service)).To(Succeed())
	return service
}

// rollOut does what the Deployment controller does when all goes well.
func (d *desk) rollOut(ctx context.Context) {
	GinkgoHelper()
	deployment := d.deployment(ctx)
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n,
		AvailableReplicas: n,
	}
	Expect(k8s.Status().Update(ctx, deployment)).To(Succeed())
}

// startPod creates a pod of the Deployment's template, as a ReplicaSet would, and answers for it.
func (d *desk) startPod(ctx context.Context, name, address string, edit func(*corev1.Pod)) {
	GinkgoHelper()
	template := d.deployment(ctx).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = name, d.namespace
	Expect(k8s.Create(ctx, pod)).To(Succeed())
	running := server(name)
	pod.Status = running.Status
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	edit(pod)
	Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
}

func asItIs(*corev1.Pod) {}

// beCondition matches the pool's condition of a type.
func beCondition(kind string, status metav1.ConditionStatus, reason string) OmegaMatcher {
	return WithTransform(func(env *v1alpha1.CustomerSupportEnv) []metav1.Condition { return env.Status.Conditions },
		ContainElement(SatisfyAll(HaveField("Type", kind), HaveField("Status", status), HaveField("Reason", reason),
			HaveField("ObservedGeneration", BeNumerically(">", 0)))))
}

var _ = Describe("A pool", func() {
	var d *desk

	BeforeEach(func(ctx SpecContext) {
		d = newDesk(ctx)
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{Replicas: new(int32(2))})
		d.reconcile(ctx)
	})

	It("gets its objects, which go when it goes", func(ctx SpecContext) {
		env := d.pool(ctx)
		objects := []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{},
			&networkingv1.NetworkPolicy{}, &corev1.Service{}, &corev1.Secret{}}
		names := []string{"support", "support", "support", "support", "support-pods",
			keySecretName("support", env.Status.LedgerPublicKey)}
		for i, object := range objects {
			Expect(k8s.Get(ctx, d.key(names[i]), object)).To(Succeed())
			Expect(metav1.IsControlledBy(object, env)).To(BeTrue(), "%T %s has no owner that takes it along", object,
				names[i])
			Expect(*metav1.GetControllerOf(object).BlockOwnerDeletion).To(BeTrue())
			Expect(object.GetFinalizers()).To(BeEmpty())
		}
		Expect(env.Finalizers).To(BeEmpty(), "nothing outside the API needs cleaning")
	})

	It("has servers that the restricted Pod Security Standard admits", func(ctx SpecContext) {
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
	})

	It("is never written to at rest", func(ctx SpecContext) {
		d.rollOut(ctx)
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
		d.answers["10.0.0.1"] = report(3)
		d.reconcile(ctx)
		versions := func() []string {
			return []string{d.pool(ctx).ResourceVersion, d.deployment(ctx).ResourceVersion}
		}
		before := versions()
		d.writes = 0
		for range 10 {
			d.reconcile(ctx)
		}
		Expect(d.writes).To(BeZero())
		Expect(versions()).To(Equal(before))
	})

	It("is written to once in a while when sessions come and go", func(ctx SpecContext) {
		now := clocktesting.NewFakePassiveClock(time.Now())
		d.reconciler.clock = now
		d.rollOut(ctx)
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
		d.answers["10.0.0.1"] = report(3)
		d.reconcile(ctx)
		d.writes = 0
		for i := range int64(4) {
			d.answers["10.0.0.1"] = report(7 - i)
			now.SetTime(now.Now().Add(countsInterval / 2))
			d.reconcile(ctx)
		}
		Expect(d.writes).To(Equal(2))
		Expect(d.pool(ctx).Status.Sessions).To(Equal(&v1alpha1.SessionCounts{Active: 4, Capacity: 10}))
	})

	It("becomes available, and says what it offers", func(ctx SpecContext) {
		Expect(d.pool(ctx)).To(SatisfyAll(
			beCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoServerReady),
			beCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)))
		d.rollOut(ctx)
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
		d.startPod(ctx, "support-b", "10.0.0.2", asItIs)
		d.answers["10.0.0.1"], d.answers["10.0.0.2"] = report(1), report(2)
		d.reconcile(ctx)
		env := d.pool(ctx)
		Expect(env).To(SatisfyAll(
			beCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady),
			beCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRolledOut),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)))
		Expect(env.Status.ObservedGeneration).To(Equal(env.Generation))
		Expect(env.Status.ScenarioDigest).To(Equal("sha256:new"))
		Expect(env.Status.Tasks).To(HaveLen(2))
	})

	It("follows its spec", func(ctx SpecContext) {
		env := d.pool(ctx)
		env.Spec.Replicas, env.Spec.Image, env.Spec.RewardMode = new(
			int32(3)), "registry.example/csenv:2", v1alpha1.TerminalReward
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.rollOut(ctx)
		d.reconcile(ctx)
		deployment := d.deployment(ctx)
		Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(3))
		Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example/csenv:2"))
		Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElement("terminal"))
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue,
			v1alpha1.ReasonRollingOut))
		Expect(d.pool(ctx).Status.Image).To(Equal("registry.example/csenv:2"))
	})

	It("takes back what somebody changed by hand, and leaves what they added", func(ctx SpecContext) {
		deployment := d.deployment(ctx)
		deployment.Spec.Replicas = new(int32(7))
		deployment.Spec.Template.Spec.Containers[0].Args = append(deployment.Spec.Template.Spec.Containers[0].Args,
			"--verbose")
		deployment.Labels["team"] = "helpdesk"
		Expect(k8s.Update(ctx, deployment, client.FieldOwner("kubectl-edit"))).To(Succeed())
		service := &corev1.Service{}
		Expect(k8s.Get(ctx, d.key("support"), service)).To(Succeed())
		service.Spec.Selector = map[string]string{"app": "elsewhere"}
		Expect(k8s.Update(ctx, service, client.FieldOwner("kubectl-edit"))).To(Succeed())

		d.reconcile(ctx)

		deployment = d.deployment(ctx)
		Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(2))
		Expect(deployment.Spec.Template.Spec.Containers[0].Args).NotTo(ContainElement("--verbose"))
		Expect(deployment.Labels).To(HaveKeyWithValue("team", "helpdesk"))
		Expect(k8s.Get(ctx, d.key("support"), service)).To(Succeed())
		Expect(service.Spec.Selector).To(Equal(pods.Selector("support")))
	})

	It("has what its spec no longer asks for taken back", func(ctx SpecContext) {
		plain, service := d.deployment(ctx), d.service(ctx)
		env := d.pool(ctx)
		env.Spec.Template = everyOverride()
		env.Spec.Service = v1alpha1.PoolService{Type: v1alpha1.NodePortService,
			Annotations: map[string]string{"example.com/internal": "true"}}
		env.Spec.Access.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "clients", Key: "tokens"}
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)

		template := d.deployment(ctx).Spec.Template
		Expect(template.Labels).To(HaveKeyWithValue("team", "helpdesk"))
		Expect(template.Annotations).To(HaveKeyWithValue("example.com/note", "ours"))
		Expect(template.Spec.Containers[0].Env).To(ContainElements(
			HaveField("Name", "HTTPS_PROXY"), HaveField("Name", "EMPTY"), HaveField("Name", "NODE"), SatisfyAll(
				HaveField("Name", "GOMEMLIMIT"), HaveField("Value", "1932735240"))))
		Expect(template.Spec).To(SatisfyAll(HaveField("Affinity", Not(BeNil())), HaveField("RuntimeClassName",
			Not(BeNil())), HaveField("NodeSelector", HaveLen(1)), HaveField("Tolerations", HaveLen(1)),
			HaveField("TopologySpreadConstraints", HaveLen(1)), HaveField("ImagePullSecrets", HaveLen(1)), HaveField(
				"ServiceAccountName", "puller"), HaveField("PriorityClassName", "system-cluster-critical")))
		Expect(d.service(ctx)).To(SatisfyAll(HaveField("Spec.Type", corev1.ServiceTypeNodePort),
			HaveField("Annotations", HaveKeyWithValue("example.com/internal", "true"))))
		d.writes = 0
		d.reconcile(ctx)
		Expect(d.writes).To(BeZero(), "what the API server makes of it is what was asked for")

		env = d.pool(ctx)
		env.Spec.Template, env.Spec.Service, env.Spec.Access.TokenSecretRef = nil, v1alpha1.PoolService{}, nil
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		Expect(cmp.Diff(plain.Spec, d.deployment(ctx).Spec)).To(BeEmpty())
		Expect(cmp.Diff(service.Spec, d.service(ctx).Spec)).To(BeEmpty())
		Expect(d.service(ctx).Annotations).To(Equal(service.Annotations))
	})

	It("has servers that the restricted Pod Security Standard admits, whatever it overrides", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "puller",
			Namespace: d.namespace}})).To(Succeed())
		env := d.pool(ctx)
		env.Spec.Template = everyOverride()
		// The API server has no such class, and a class of the cluster is for system namespaces.
		env.Spec.Template.RuntimeClassName, env.Spec.Template.PriorityClassName = nil, ""
		env.Spec.Access.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "clients", Key: "tokens"}
		withPacks(env)
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
		pod := &corev1.Pod{}
		Expect(k8s.Get(ctx, d.key("support-a"), pod)).To(Succeed())
		Expect(pod.Spec.Volumes).NotTo(ContainElement(HaveField("VolumeSource.Projected", Not(BeNil()))),
			"no token of the service account")
	})

	It("replaces its servers once for each change of its packs, and not for one at fault", func(ctx SpecContext) {
		env := d.pool(ctx)
		withPacks(env)
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		rollOut := func(name, address string) {
			d.rollOut(ctx)
			deployment := d.deployment(ctx)
			deployment.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: newRolloutReason,
				LastUpdateTime: metav1.NewTime(time.Now().Add(-time.Hour)),
			}}
			Expect(k8s.Status().Update(ctx, deployment)).To(Succeed())
			d.startPod(ctx, name, address, asItIs)
		}
		rollOut("support-a", "10.0.0.1")
		d.answers["10.0.0.1"] = playing("sha256:a", "sha256:a", "")
		d.reconcile(ctx)
		first := d.deployment(ctx).Generation

		d.answers["10.0.0.1"] = playing("sha256:a", "", "/etc/csenv/packs/pack-1/T9.yaml:31: wrong")
		d.reconcile(ctx)
		Expect(d.deployment(ctx).Generation).To(Equal(first))
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionTrue,
			v1alpha1.ReasonInvalidPack))
		Expect(degradedMessage(d.pool(ctx))).To(ContainSubstring("Secret held-out/T9.yaml:31: wrong"))

		d.answers["10.0.0.1"] = playing("sha256:a", "sha256:b", "")
		d.reconcile(ctx)
		Expect(d.deployment(ctx).Generation).To(Equal(first + 1))
		Expect(d.deployment(ctx).Spec.Template.Annotations).To(HaveKeyWithValue(scenariosAnnotation, "sha256:b"))
		Expect(d.pool(ctx)).To(SatisfyAll(
			beCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)))
		Expect(d.pool(ctx).Status.ScenarioDigest).To(Equal("sha256:a"), "none plays the other yet")

		rollOut("support-b", "10.0.0.2")
		d.answers["10.0.0.2"] = playing("sha256:b", "sha256:b", "")
		for range 3 {
			d.reconcile(ctx)
		}
		Expect(d.deployment(ctx).Generation).To(Equal(first + 1))
		Expect(d.pool(ctx).Status.ScenarioDigest).To(Equal("sha256:b"))
	})

	It("has a network policy, until it isn't to have one", func(ctx SpecContext) {
		policy := &networkingv1.NetworkPolicy{}
		Expect(k8s.Get(ctx, d.key("support"), policy)).To(Succeed())
		Expect(policy.Spec.PodSelector.MatchLabels).To(Equal(pods.Selector("support")))
		open := policy.DeepCopy()
		open.Spec.Ingress = append(open.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		Expect(k8s.Update(ctx, open, client.FieldOwner("kubectl-edit"))).To(Succeed())
		d.reconcile(ctx)
		closed := &networkingv1.NetworkPolicy{}
		Expect(k8s.Get(ctx, d.key("support"), closed)).To(Succeed())
		Expect(closed.Spec).To(Equal(policy.Spec), "a rule that somebody added")

		env := d.pool(ctx)
		env.Spec.NetworkPolicy = v1alpha1.UnmanagedNetworkPolicy
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		Expect(k8s.Get(ctx, d.key("support"), policy)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		theirs := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: d.namespace}}
		Expect(k8s.Create(ctx, theirs)).To(Succeed())
		d.reconcile(ctx)
		Expect(k8s.Get(ctx, d.key("support"), policy)).To(Succeed(), "somebody else's of its name")
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy))
	})

	It("gets back an object that somebody deleted", func(ctx SpecContext) {
		Expect(k8s.Delete(ctx, d.deployment(ctx))).To(Succeed())
		d.reconcile(ctx)
		Expect(metav1.IsControlledBy(d.deployment(ctx), d.pool(ctx))).To(BeTrue())
	})

	It("has its fields owned by one manager", func(ctx SpecContext) {
		managers := []string{}
		for _, entry := range d.deployment(ctx).ManagedFields {
			managers = append(managers, entry.Manager+" "+string(entry.Operation))
		}
		Expect(managers).To(Equal([]string{string(fieldOwner) + " Apply"}))
	})

	It("keeps its key, and gets a new one when its status names none", func(ctx SpecContext) {
		first := d.pool(ctx)
		d.reconcile(ctx)
		Expect(d.pool(ctx).Status.LedgerPublicKey).To(Equal(first.Status.LedgerPublicKey))
		cleared := d.pool(ctx)
		cleared.Status.LedgerPublicKey = ""
		Expect(k8s.Status().Update(ctx, cleared)).To(Succeed())
		d.reconcile(ctx)
		second := d.pool(ctx).Status.LedgerPublicKey
		Expect(second).NotTo(Or(BeEmpty(), Equal(first.Status.LedgerPublicKey)))
		Expect(d.deployment(ctx).Spec.Template.Spec.Volumes[0].Secret.SecretName).To(
			Equal(keySecretName("support", second)))
	})

	It("quotes a server that doesn't start", func(ctx SpecContext) {
		d.startPod(ctx, "support-a", "10.0.0.1", func(pod *corev1.Pod) {
			waiting("CrashLoopBackOff", "back-off")(pod)
			ended("Error", 1, `tickets/B07.yaml:31: unknown key "prioritiy"`)(pod)
			pod.Status.Phase = corev1.PodRunning
		})
		d.reconcile(ctx)
		env := d.pool(ctx)
		Expect(env).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonCrashLoop))
		Expect(degradedMessage(env)).To(ContainSubstring(`tickets/B07.yaml:31: unknown key "prioritiy"`))
	})
})

func degradedMessage(env *v1alpha1.CustomerSupportEnv) string {
	for _, c := range env.Status.Conditions {
		if c.Type == v1alpha1.ConditionDegraded {
			return c.Message
		}
	}
	return ""
}

var _ = Describe("A pool over what was there before", func() {
	var d *desk

	BeforeEach(func(ctx SpecContext) { d = newDesk(ctx) })

	It("leaves somebody else's Service alone and says so", func(ctx SpecContext) {
		theirs := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: d.namespace},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "helpdesk"},
				Ports: []corev1.ServicePort{{Port: 80}}},
		}
		Expect(k8s.Create(ctx, theirs)).To(Succeed())
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{})
		d.reconcile(ctx)
		got := &corev1.Service{}
		Expect(k8s.Get(ctx, d.key("support"), got)).To(Succeed())
		Expect(got.ResourceVersion).To(Equal(theirs.ResourceVersion))
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNameTaken))
	})

	It("waits for the objects of an earlier pool of its name to go", func(ctx SpecContext) {
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{})
		d.reconcile(ctx)
		Expect(k8s.Delete(ctx, d.pool(ctx))).To(Succeed())
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{})
		d.reconcile(ctx)
		Expect(metav1.IsControlledBy(d.deployment(ctx), d.pool(ctx))).To(BeFalse())
		Expect(d.pool(ctx)).To(SatisfyAll(
			beCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)))
		Expect(k8s.Delete(ctx, d.deployment(ctx))).To(Succeed())
		d.reconcile(ctx)
		Expect(metav1.IsControlledBy(d.deployment(ctx), d.pool(ctx))).To(BeTrue())
	})

	// As `kubectl delete --cascade=orphan` leaves them.
	It("takes over the orphans of an earlier pool", func(ctx SpecContext) {
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{})
		d.reconcile(ctx)
		orphan := d.deployment(ctx)
		orphan.OwnerReferences = nil
		Expect(k8s.Update(ctx, orphan)).To(Succeed())
		d.reconcile(ctx)
		Expect(metav1.IsControlledBy(d.deployment(ctx), d.pool(ctx))).To(BeTrue())
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy))
	})

	It("says what the API server refuses, and does the rest", func(ctx SpecContext) {
		orphan := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: d.namespace, Labels: poolLabels("support")},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "support"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "support"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: pods.ServerContainer, Image: testImage}}},
				},
			},
		}
		Expect(k8s.Create(ctx, orphan)).To(Succeed())
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{})
		_, err := d.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: d.key("support")})
		Expect(err).To(MatchError(ContainSubstring("applying Deployment support: ")))
		Expect(k8s.Get(ctx, d.key("support"), &corev1.Service{})).To(Succeed())
		env := d.pool(ctx)
		Expect(env).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonApplyFailed))
		Expect(degradedMessage(env)).To(ContainSubstring("field is immutable"))
		Expect(env.Status.ObservedGeneration).To(BeZero(), "the spec isn't what the cluster has")
	})
})
