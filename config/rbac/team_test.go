// Package rbac_test tries the role for teams on a real API server.
package rbac_test

import (
	"os"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
)

// A user who has only the role for teams creates runs and reads their results, and can reach
// nothing on which scores rest.
func TestTeamRole(t *testing.T) {
	apiserver.RequireBinaries(t)
	config := apiserver.Start(t).Config
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	text, err := os.ReadFile("team_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, role); err != nil {
		t.Fatal(err)
	}
	if len(role.Labels) > 0 {
		t.Errorf("the role is added to others: %v", role.Labels)
	}
	for _, object := range []client.Object{
		role, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "team"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}}},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "alice", Groups: []string{"system:authenticated"}}
	alice, err := client.New(as, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	csenv := v1alpha1.GroupVersion.Group
	for _, tt := range []struct {
		group, resource, sub string
		may, mayNot          []string
	}{
		{csenv, "evaluationruns", "", []string{"create", "update", "patch", "delete", "get", "list", "watch"}, nil},
		{csenv, "evaluationruns", "status", []string{"get"}, []string{"update", "patch"}},
		{csenv, "evaluationruns", "finalizers", nil, []string{"update"}},
		{csenv, "customersupportenvs", "", []string{"get", "list"}, []string{"create", "update", "patch", "delete"}},
		{csenv, "customersupportenvs", "status", []string{"get"}, []string{"update", "patch"}},
		{csenv, "customersupportenvs", "scale", nil, []string{"update", "patch"}},
		{"", "secrets", "", nil, []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{"", "configmaps", "", []string{"get"}, []string{"create", "update", "patch", "delete"}},
		{"", "pods", "", []string{"get", "list"}, []string{"create", "update", "patch", "delete"}},
		{"", "pods", "log", []string{"get"}, nil},
		{"", "pods", "exec", nil, []string{"get", "create"}},
		{"", "pods", "ephemeralcontainers", nil, []string{"update", "patch"}},
		{"", "pods", "portforward", nil, []string{"get", "create"}},
		{"", "serviceaccounts", "token", nil, []string{"create"}},
		{"batch", "jobs", "", nil, []string{"create", "update", "patch"}},
		{"apps", "deployments", "", nil, []string{"create", "update", "patch"}},
		{rbacv1.GroupName, "rolebindings", "", nil, []string{"create", "update"}},
	} {
		for want, verbs := range map[bool][]string{true: tt.may, false: tt.mayNot} {
			for _, verb := range verbs {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "team-a", Group: tt.group,
						Resource: tt.resource, Subresource: tt.sub, Verb: verb}}}
				if err := alice.Create(t.Context(), review); err != nil {
					t.Fatal(err)
				}
				if review.Status.Allowed != want {
					t.Errorf("%s %s/%s: allowed %v, want %v", verb, tt.resource, tt.sub, review.Status.Allowed, want)
				}
			}
		}
	}
}
