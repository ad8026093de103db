package children

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/pods"
)

// metricsLabel marks the namespaces that scrape metrics, by kubebuilder's convention.
const metricsLabel = "metrics"

// buildNetworkPolicy admits clients, the operator and Prometheus, each to its port. Egress isn't
// restricted. The kubelet needs no rule, because networks admit a node to its own pods.
func buildNetworkPolicy(env *v1alpha1.CustomerSupportEnv,
	operator string) *networkingv1ac.NetworkPolicyApplyConfiguration {
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods.Selector(env.Name)},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: admitPort(v1alpha1.EnvironmentPort), From: selectClients(env)},
			{Ports: admitPort(v1alpha1.OperationsPort), From: selectWatchers(operator)},
		},
	}
	return addOwner(env, networkingv1ac.NetworkPolicy(env.Name, env.Namespace).
		WithSpec(convertConfig[networkingv1ac.NetworkPolicySpecApplyConfiguration](spec)))
}

// selectClients returns the admitted pods, nil for every client. A Service that is reachable from
// outside admits every client, because many load balancers replace the client's address by a
// node's.
func selectClients(env *v1alpha1.CustomerSupportEnv) []networkingv1.NetworkPolicyPeer {
	if chooseServiceType(env) != corev1.ServiceTypeClusterIP {
		return nil
	}
	return access.BuildPeers(env)
}

// selectWatchers returns the readers of statistics and metrics, nil for every client. An operator
// outside of the cluster has no namespace.
func selectWatchers(operator string) []networkingv1.NetworkPolicyPeer {
	if operator == "" {
		return nil
	}
	return []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: access.SelectNamespace(operator)},
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{metricsLabel: "enabled"}}},
	}
}

func admitPort(port int32) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}}
}
