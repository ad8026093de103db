package environment

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

var _ = Describe("A pool with existing objects", func() {
	var d *desk

	BeforeEach(func(ctx SpecContext) { d = newDesk(ctx) })

	It("reports the Service of another owner and doesn't change it", func(ctx SpecContext) {
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

	It("waits until the objects of an earlier pool of its name are deleted", func(ctx SpecContext) {
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

	// `kubectl delete --cascade=orphan` leaves orphans.
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

	It("reports an object that the API server refuses, and applies the others", func(ctx SpecContext) {
		orphan := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: d.namespace, Labels: children.LabelObject("support")},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "support"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "support"}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{
						{Name: pods.ServerContainer, Image: testpool.Image}}},
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
		Expect(env.Status.ObservedGeneration).To(BeZero(), "the spec isn't applied")
	})
})
