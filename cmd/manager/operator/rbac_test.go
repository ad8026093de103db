package operator

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// granted lists the operator's permissions in all namespaces. Add new ones here, so that they are
// reviewed.
func granted() map[string][]string {
	return map[string][]string{
		"csenv.dev/customersupportenvs": {"get", "list", "watch"},
		// A run is deleted after ttlSecondsAfterFinished.
		"csenv.dev/evaluationruns": {"delete", "get", "list", "watch"},

		"csenv.dev/customersupportenvs/status":     {"update"},
		"csenv.dev/customersupportenvs/finalizers": {"update"},
		"csenv.dev/evaluationruns/status":          {"update"},
		"csenv.dev/evaluationruns/finalizers":      {"update"},

		// A pool's objects. A NetworkPolicy is deleted if spec.networkPolicy is Unmanaged.
		"apps/deployments":                  {"create", "get", "list", "patch", "watch"},
		"services":                          {"create", "get", "list", "patch", "watch"},
		"policy/poddisruptionbudgets":       {"create", "get", "list", "patch", "watch"},
		"networking.k8s.io/networkpolicies": {"create", "delete", "get", "list", "patch", "watch"},
		// Ledger keys, which are read by name, and what follows from them. Neither list nor watch.
		"secrets": {"create", "delete", "get"},

		// A run's objects.
		"batch/jobs": {"create", "delete", "get", "list", "patch", "watch"},
		"configmaps": {"create", "delete", "get", "list", "update", "watch"},

		// Deletion costs of servers and finalizers of runners are patched. A server that is being
		// deleted and doesn't drain is deleted again, with a shorter grace period.
		"pods": {"delete", "get", "list", "patch", "watch"},
		// Runners of nodes that don't answer are marked as failed, so that the Job replaces them.
		"pods/status": {"patch"},
		"nodes":       {"get"},
		// The Job controller reports by events only that pods are refused.
		"events": {"list"},
		// access.allowedNamespaces may select namespaces by labels.
		"namespaces":           {"get"},
		"events.k8s.io/events": {"create", "patch"},
	}
}

func TestRoleGrantsNoMore(t *testing.T) {
	data, err := os.ReadFile("../../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, rule := range role.Rules {
		if len(rule.NonResourceURLs)+len(rule.ResourceNames) > 0 {
			t.Errorf("a rule of another kind: %+v", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group != "" {
					resource = group + "/" + resource
				}
				got[resource] = append(got[resource], rule.Verbs...)
				slices.Sort(got[resource])
			}
		}
	}
	if diff := cmp.Diff(granted(), got); diff != "" {
		t.Errorf("config/rbac/role.yaml (-want +got):\n%s", diff)
	}
}
