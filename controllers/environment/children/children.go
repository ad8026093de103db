// Package children builds the objects of a pool, and compares them with the cluster's. It is
// pure: the same pool gives the same objects.
package children

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
)

// BuildObjects returns the objects of a pool with that many servers. The Secrets aren't among them,
// because the operator may not watch Secrets.
func BuildObjects(p Pool, servers int32, scenarios string) []Child {
	env := p.Env
	policy := Child{ID: ID{KindNetworkPolicy, env.Name}}
	if env.Spec.NetworkPolicy != v1alpha1.UnmanagedNetworkPolicy {
		policy.Config = buildNetworkPolicy(env, p.Operator)
	}
	return []Child{
		{ID: ID{KindService, env.Name}, Config: buildService(env)},
		{ID: ID{KindService, v1alpha1.PodsServiceName(env.Name)}, Config: buildPodsService(env)},
		{ID: ID{KindBudget, env.Name}, Config: buildBudget(env)},
		policy,
		{ID: ID{KindDeployment, env.Name}, Config: buildDeployment(p, servers, scenarios)},
	}
}

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

// buildDeployment runs the servers. New ones are ready before old ones drain, unless there can be
// no more of them.
func buildDeployment(p Pool, servers int32, scenarios string) *appsv1ac.DeploymentApplyConfiguration {
	env := p.Env
	surge, unavailable := intstr.FromString("25%"), intstr.FromInt32(0)
	if p.NoSurge {
		surge, unavailable = intstr.FromInt32(0), intstr.FromInt32(1)
	}
	return addOwner(env, appsv1ac.Deployment(env.Name, env.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(servers).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name))).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(surge).
					WithMaxUnavailable(unavailable))).
			WithTemplate(convertConfig[corev1ac.PodTemplateSpecApplyConfiguration](
				BuildPodTemplate(p, scenarios)))))
}
