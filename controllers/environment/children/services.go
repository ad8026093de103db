package children

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
)

// buildService selects the servers that accept sessions.
func buildService(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	return addOwner(env, corev1ac.Service(env.Name, env.Namespace).
		WithAnnotations(env.Spec.Service.Annotations).
		WithSpec(corev1ac.ServiceSpec().
			WithType(chooseServiceType(env)).
			WithSelector(pods.Selector(env.Name)).
			WithPorts(buildServicePort("http", v1alpha1.EnvironmentPort))))
}

// buildPodsService lists all servers, including full and starting ones: a runner returns to the
// server that holds its shard's ledger.
func buildPodsService(env *v1alpha1.CustomerSupportEnv) *corev1ac.ServiceApplyConfiguration {
	return addOwner(env, corev1ac.Service(v1alpha1.PodsServiceName(env.Name), env.Namespace).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(pods.Selector(env.Name)).
			WithPorts(buildServicePort("http", v1alpha1.EnvironmentPort),
				buildServicePort("ops", v1alpha1.OperationsPort))))
}

func buildServicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithPort(port).WithProtocol(corev1.ProtocolTCP).
		WithTargetPort(intstr.FromString(name))
}

// buildBudget allows one eviction at a time, also of a single server, because a draining server
// continues to serve its sessions. Servers that aren't ready may always be evicted; otherwise full
// ones would block every node drain.
func buildBudget(env *v1alpha1.CustomerSupportEnv) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return addOwner(env, policyv1ac.PodDisruptionBudget(env.Name, env.Namespace).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name)))))
}
