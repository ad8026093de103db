// Package children builds the objects of a pool, and compares them with those of the cluster. It is
// pure: the same pool gives the same objects.
package children

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

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

// buildDeployment runs the servers. New ones are ready before old ones drain.
func buildDeployment(p Pool, servers int32, scenarios string) *appsv1ac.DeploymentApplyConfiguration {
	env := p.Env
	return addOwner(env, appsv1ac.Deployment(env.Name, env.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(servers).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(pods.Selector(env.Name))).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType("RollingUpdate").
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromString("25%")).
					WithMaxUnavailable(intstr.FromInt32(0)))).
			WithTemplate(convertConfig[corev1ac.PodTemplateSpecApplyConfiguration](
				BuildPodTemplate(p, scenarios)))))
}
