package children

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

// Each port admits only its clients.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	own := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}
	labelled := func(key, value string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{key: value}}}
	}
	allowing := func(from v1alpha1.NamespacesFrom, selector *metav1.LabelSelector) func(*v1alpha1.CustomerSupportEnv) {
		return func(env *v1alpha1.CustomerSupportEnv) {
			env.Spec.Access.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: from, Selector: selector}
		}
	}
	ofType := func(kind v1alpha1.ServiceType) func(*v1alpha1.CustomerSupportEnv) {
		return func(env *v1alpha1.CustomerSupportEnv) { env.Spec.Service.Type = kind }
	}
	watchers := []networkingv1.NetworkPolicyPeer{labelled("kubernetes.io/metadata.name", "csenv-system"),
		labelled("metrics", "enabled")}
	tests := map[string]struct {
		env               *v1alpha1.CustomerSupportEnv
		operator          string
		clients, watchers []networkingv1.NetworkPolicyPeer
	}{
		"its own namespace": {pool(), "csenv-system", []networkingv1.NetworkPolicyPeer{own}, watchers},
		"all namespaces": {pool(allowing(v1alpha1.AllNamespaces, nil)), "csenv-system",
			[]networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}, watchers},
		"selected namespaces": {pool(allowing(v1alpha1.SelectedNamespaces,
			&metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}})), "csenv-system",
			[]networkingv1.NetworkPolicyPeer{own, labelled("team", "a")}, watchers},
		"a node's port":                 {pool(ofType(v1alpha1.NodePortService)), "csenv-system", nil, watchers},
		"a load balancer":               {pool(ofType(v1alpha1.LoadBalancerService)), "csenv-system", nil, watchers},
		"an operator outside a cluster": {pool(), "", []networkingv1.NetworkPolicyPeer{own}, nil},
	}
	port := func(n int32) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(n))}}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := &networkingv1.NetworkPolicy{}
			testpool.DecodeConfig(t, buildNetworkPolicy(tt.env, tt.operator), policy)
			want := networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: pods.Selector("support")},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: port(8000), From: tt.clients},
					{Ports: port(9000), From: tt.watchers}},
			}
			if diff := cmp.Diff(want, policy.Spec); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
}
