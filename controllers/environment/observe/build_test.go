package observe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

var (
	pool        = testpool.MakePool
	unready     = testpool.SetUnready
	terminating = testpool.SetTerminating
	waiting     = testpool.SetWaiting
	report      = testpool.NewReport
	bounds      = testpool.NewAutoscaling
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// server returns a running and ready pod of the newest template.
func server(name string, edits ...func(*corev1.Pod)) corev1.Pod {
	return testpool.NewServer(children.BuildPodTemplate(children.Pool{Env: pool(), Image: testpool.Image}, ""), name, edits...)
}

func outdated(pod *corev1.Pod) { pod.Annotations = map[string]string{children.TemplateHash: "older"} }
