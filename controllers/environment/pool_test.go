package environment

import (
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
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
)

var _ = Describe("A pool", func() {
	var d *desk

	BeforeEach(func(ctx SpecContext) {
		d = newDesk(ctx)
		d.create(ctx, v1alpha1.CustomerSupportEnvSpec{Replicas: new(int32(2))})
		d.reconcile(ctx)
	})

	It("creates its objects, which are deleted with it", func(ctx SpecContext) {
		env := d.pool(ctx)
		objects := []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{},
			&networkingv1.NetworkPolicy{}, &corev1.Service{}, &corev1.Secret{}}
		names := []string{"support", "support", "support", "support", "support-pods",
			keys.SecretName("support", env.Status.LedgerPublicKey)}
		for i, object := range objects {
			Expect(k8s.Get(ctx, d.key(names[i]), object)).To(Succeed())
			Expect(metav1.IsControlledBy(object, env)).To(BeTrue(), "%T %s isn't deleted with the pool", object,
				names[i])
			Expect(*metav1.GetControllerOf(object).BlockOwnerDeletion).To(BeTrue())
			Expect(object.GetFinalizers()).To(BeEmpty())
		}
		Expect(env.Finalizers).To(BeEmpty(), "nothing outside the API needs cleaning")
	})

	It("has servers that the restricted Pod Security Standard admits", func(ctx SpecContext) {
		d.startPod(ctx, "support-a", "10.0.0.1", asItIs)
	})

	It("waits for its judge", func(ctx SpecContext) {
		d.rollOut(ctx)
		deployment := d.deployment(ctx)
		deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 0, 0
		Expect(k8s.Status().Update(ctx, deployment)).To(Succeed())
		d.startPod(ctx, "support-a", "10.0.0.1", unready)
		fault := report(0)
		fault.JudgeFault = "http://model.test answered 401 Unauthorized: bad key"
		d.answers["10.0.0.1"] = fault
		d.reconcile(ctx)
		Expect(d.pool(ctx)).To(SatisfyAll(
			beCondition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonJudgeNotReady),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonJudgeNotReady)))
		Expect(degradedMessage(d.pool(ctx))).To(HaveSuffix(fault.JudgeFault))

		d.answers["10.0.0.1"] = report(0)
		d.rollOut(ctx)
		d.reconcile(ctx)
		Expect(d.pool(ctx)).To(SatisfyAll(
			beCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)))
	})

	It("needs no writes at rest", func(ctx SpecContext) {
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

	It("limits the writes of counts of sessions", func(ctx SpecContext) {
		now := clocktesting.NewFakePassiveClock(time.Now())
		d.reconciler.reader.Clock = now
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

	It("becomes available and lists its tasks", func(ctx SpecContext) {
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
		env.Spec.Replicas, env.Spec.Image = new(int32(3)), "registry.example/csenv:2"
		env.Spec.RewardMode = v1alpha1.TerminalReward
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

	It("reverts manual changes and keeps additions", func(ctx SpecContext) {
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

	It("removes what its spec no longer contains", func(ctx SpecContext) {
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
		Expect(d.writes).To(BeZero(), "the defaulted objects match the intended ones")

		env = d.pool(ctx)
		env.Spec.Template, env.Spec.Service, env.Spec.Access.TokenSecretRef = nil, v1alpha1.PoolService{}, nil
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		Expect(cmp.Diff(plain.Spec, d.deployment(ctx).Spec)).To(BeEmpty())
		Expect(cmp.Diff(service.Spec, d.service(ctx).Spec)).To(BeEmpty())
		Expect(d.service(ctx).Annotations).To(Equal(service.Annotations))
	})

	It("has servers that the restricted Pod Security Standard admits with every override", func(ctx SpecContext) {
		Expect(k8s.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "puller",
			Namespace: d.namespace}})).To(Succeed())
		env := d.pool(ctx)
		env.Spec.Template = everyOverride()
		// This RuntimeClass doesn't exist, and the cluster's priority classes are for system
		// namespaces.
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

	It("replaces its servers once per change of its packs, but not for an invalid one", func(ctx SpecContext) {
		env := d.pool(ctx)
		withPacks(env)
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		rollOut := func(name, address string) {
			d.rollOut(ctx)
			deployment := d.deployment(ctx)
			deployment.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
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
		Expect(d.deployment(ctx).Spec.Template.Annotations).To(HaveKeyWithValue(children.ScenariosAnnotation, "sha256:b"))
		Expect(d.pool(ctx)).To(SatisfyAll(
			beCondition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut),
			beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy)))
		Expect(d.pool(ctx).Status.ScenarioDigest).To(Equal("sha256:a"), "no server has loaded the other digest yet")

		rollOut("support-b", "10.0.0.2")
		d.answers["10.0.0.2"] = playing("sha256:b", "sha256:b", "")
		for range 3 {
			d.reconcile(ctx)
		}
		Expect(d.deployment(ctx).Generation).To(Equal(first + 1))
		Expect(d.pool(ctx).Status.ScenarioDigest).To(Equal("sha256:b"))
	})

	It("has a network policy until it is unmanaged", func(ctx SpecContext) {
		policy := &networkingv1.NetworkPolicy{}
		Expect(k8s.Get(ctx, d.key("support"), policy)).To(Succeed())
		Expect(policy.Spec.PodSelector.MatchLabels).To(Equal(pods.Selector("support")))
		open := policy.DeepCopy()
		open.Spec.Ingress = append(open.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		Expect(k8s.Update(ctx, open, client.FieldOwner("kubectl-edit"))).To(Succeed())
		d.reconcile(ctx)
		closed := &networkingv1.NetworkPolicy{}
		Expect(k8s.Get(ctx, d.key("support"), closed)).To(Succeed())
		Expect(closed.Spec).To(Equal(policy.Spec), "an added rule is removed")

		env := d.pool(ctx)
		env.Spec.NetworkPolicy = v1alpha1.UnmanagedNetworkPolicy
		Expect(k8s.Update(ctx, env)).To(Succeed())
		d.reconcile(ctx)
		Expect(k8s.Get(ctx, d.key("support"), policy)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		theirs := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: d.namespace}}
		Expect(k8s.Create(ctx, theirs)).To(Succeed())
		d.reconcile(ctx)
		Expect(k8s.Get(ctx, d.key("support"), policy)).To(Succeed(), "the policy of another owner stays")
		Expect(d.pool(ctx)).To(beCondition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonHealthy))
	})

	It("recreates a deleted object", func(ctx SpecContext) {
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

	It("keeps its key, and creates a new one if its status names none", func(ctx SpecContext) {
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
			Equal(keys.SecretName("support", second)))
	})

	It("quotes the error of a server that doesn't start", func(ctx SpecContext) {
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
