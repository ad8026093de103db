package run

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/controllers/run/runner"
)

// defaultQueuePolicy does to the Jobs of a namespace what Kueue's admission does if the namespace
// has a LocalQueue with the name default.
func defaultQueuePolicy(namespace string) (*admissionv1.MutatingAdmissionPolicy,
	*admissionv1.MutatingAdmissionPolicyBinding) {
	const name = "default-queue"
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
					corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"},
						Resources: []string{"jobs"}},
				}}},
			},
			MatchConditions: []admissionv1.MatchCondition{{Name: "without-a-queue",
				Expression: `!has(object.metadata.labels) || !('` + runner.LabelQueue + `' in object.metadata.labels)`}},
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: `Object{` +
					`metadata: Object.metadata{labels: {"` + runner.LabelQueue + `": "default"}}, ` +
					`spec: Object.spec{suspend: true}}`}}},
		},
	}
	return policy, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}}
}

// awaitDefaultQueue waits until admission puts Jobs into the default queue, which takes effect with
// a delay.
func (c *cluster) awaitDefaultQueue(ctx SpecContext) {
	GinkgoHelper()
	Eventually(ctx, func() (map[string]string, error) {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: c.namespace},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}}}}
		err := c.client.Create(ctx, job, client.DryRunAll)
		return job.Labels, err
	}).WithTimeout(time.Minute).Should(HaveKeyWithValue(runner.LabelQueue, "default"))
}
