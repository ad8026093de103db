package access

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/api/v1alpha1"
)

func pool(from v1alpha1.NamespacesFrom, selector *metav1.LabelSelector) *v1alpha1.CustomerSupportEnv {
	env := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "shop"}}
	env.Spec.Access.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: from, Selector: selector}
	return env
}

func TestAllows(t *testing.T) {
	t.Parallel()
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "team", Operator: metav1.LabelSelectorOpIn}}}
	tests := map[string]struct {
		pool      *v1alpha1.CustomerSupportEnv
		namespace string
		labels    map[string]string
		want      bool
		wantErr   string
	}{
		"its own":          {pool(v1alpha1.SameNamespace, nil), "shop", nil, true, ""},
		"another":          {pool(v1alpha1.SameNamespace, nil), "lab", nil, false, ""},
		"no access is set": {pool("", nil), "lab", nil, false, ""},
		"all":              {pool(v1alpha1.AllNamespaces, nil), "lab", nil, true, ""},
		"selected": {pool(v1alpha1.SelectedNamespaces, team), "lab",
			map[string]string{"team": "a"}, true, ""},
		"selected, its own": {pool(v1alpha1.SelectedNamespaces, team), "shop", nil, true, ""},
		"not selected": {pool(v1alpha1.SelectedNamespaces, team), "lab",
			map[string]string{"team": "b"}, false, ""},
		"everything is selected": {pool(v1alpha1.SelectedNamespaces, &metav1.LabelSelector{}), "lab", nil,
			true, ""},
		"no selector": {pool(v1alpha1.SelectedNamespaces, nil), "lab", nil, false, ""},
		"a selector that makes no sense": {pool(v1alpha1.SelectedNamespaces, broken), "lab", nil, false,
			"access.allowedNamespaces.selector of CustomerSupportEnv support in namespace shop"},
		"its own, with an invalid selector": {pool(v1alpha1.SelectedNamespaces, broken), "shop", nil, true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := AllowsNamespace(tt.pool, tt.namespace, tt.labels)
			if got != tt.want {
				t.Errorf("allowed: %v, want %v", got, tt.want)
			}
			if tt.wantErr == "" && err != nil || tt.wantErr != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// Only the namespaces whose runs are allowed reach the port.
func TestPeersMatchAllows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.SampledFrom([]string{"a", "b"})
		env := pool(rapid.SampledFrom([]v1alpha1.NamespacesFrom{v1alpha1.SameNamespace, v1alpha1.AllNamespaces,
			v1alpha1.SelectedNamespaces}).Draw(r, "from"), nil)
		if env.Spec.Access.AllowedNamespaces.From == v1alpha1.SelectedNamespaces {
			env.Spec.Access.AllowedNamespaces.Selector = &metav1.LabelSelector{
				MatchLabels: rapid.MapOfN(rapid.Just("team"), value, 0, 1).Draw(r, "selector")}
		}
		namespace := rapid.SampledFrom([]string{"shop", "lab"}).Draw(r, "namespace")
		has := rapid.MapOfN(rapid.Just("team"), value, 0, 1).Draw(r, "labels")
		allowed, err := AllowsNamespace(env, namespace, has)
		if err != nil {
			r.Fatal(err)
		}
		if reached := reaches(r, BuildPeers(env), env.Namespace, namespace, has); reached != allowed {
			r.Fatalf("runs of %s %v are allowed: %v; its pods reach the pool: %v", namespace, has, allowed, reached)
		}
	})
}

// reaches evaluates the peers of a policy as a network does.
func reaches(r *rapid.T, peers []networkingv1.NetworkPolicyPeer, policyNamespace, namespace string,
	has map[string]string) bool {
	for _, peer := range peers {
		if peer.NamespaceSelector == nil {
			if namespace == policyNamespace {
				return true
			}
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
		if err != nil {
			r.Fatal(err)
		}
		if selector.Matches(labels.Set(has)) {
			return true
		}
	}
	return false
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	selector, err := metav1.LabelSelectorAsSelector(SelectNamespace("csenv-system"))
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]bool{"csenv-system": true, "lab": false} {
		if got := selector.Matches(labels.Set{"kubernetes.io/metadata.name": namespace}); got != want {
			t.Errorf("%s is selected: %v, want %v", namespace, got, want)
		}
	}
}
