package environment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

func TestObjectOwnership(t *testing.T) {
	t.Parallel()
	other := pool(func(env *v1alpha1.CustomerSupportEnv) { env.Name, env.UID = "support-pods", "another" })
	recreated := pool(func(env *v1alpha1.CustomerSupportEnv) { env.UID = "earlier" })
	service := func(edits ...func(*corev1.Service)) client.Object {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "shop"}}
		for _, edit := range edits {
			edit(s)
		}
		return s
	}
	labelled := func(env string) func(*corev1.Service) { return func(s *corev1.Service) { s.Labels = poolLabels(env) } }
	owned := func(by *v1alpha1.CustomerSupportEnv) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(by, v1alpha1.GroupVersion.WithKind("CustomerSupportEnv"))}
		}
	}
	tests := map[string]struct {
		object      client.Object
		ours        bool
		predecessor bool
	}{
		"its own":                          {service(labelled("support"), owned(pool())), true, false},
		"its own, labels removed manually": {service(owned(pool())), true, false},
		"an orphan of an earlier pool":     {service(labelled("support")), true, false},
		"of an earlier pool, soon to go":   {service(labelled("support"), owned(recreated)), false, true},
		"another pool's":                   {service(labelled("support-pods"), owned(other)), false, false},
		"another pool's, labelled as its":  {service(labelled("support"), owned(other)), false, false},
		"an orphan of another pool":        {service(labelled("support-pods")), false, false},
		"without an owner or label":        {service(), false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isOurs(pool(), tt.object); got != tt.ours {
				t.Errorf("isOurs = %v, want %v", got, tt.ours)
			}
			if got := isPredecessors(pool(), tt.object); got != tt.predecessor {
				t.Errorf("isPredecessors = %v, want %v", got, tt.predecessor)
			}
		})
	}
}
