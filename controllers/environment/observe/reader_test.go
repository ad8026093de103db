package observe

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
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
	labelled := func(env string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Labels = children.LabelObject(env) }
	}
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
			if got := IsPredecessors(pool(), tt.object); got != tt.predecessor {
				t.Errorf("IsPredecessors = %v, want %v", got, tt.predecessor)
			}
		})
	}
}

func TestUnaskedServers(t *testing.T) {
	t.Parallel()
	pod := func(uid string, ready bool) corev1.Pod {
		p := server(uid)
		if !ready {
			unready(&p)
		}
		return p
	}
	asked := []corev1.Pod{pod("asked", true), pod("starting", false), pod("gone", true)}
	now := []corev1.Pod{pod("asked", true), pod("starting", true), pod("new", true)}
	if got := listUnasked(now, asked); !slices.Equal(got, []types.UID{now[1].UID, now[2].UID}) {
		t.Errorf("unasked: %v", got)
	}
}
