package environment

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/score"
)

// TestSuite calls Reconcile with a real API server, with its defaults, validation, field ownership
// and Pod Security admission. The specs act as the Deployment controller.
func TestSuite(t *testing.T) {
	apiserver.RequireBinaries(t)
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	reporter.NoColor = true
	suite.RandomSeed = 1 // the same order in every run
	SetDefaultEventuallyTimeout(2 * time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "CustomerSupportEnv", suite, reporter)
}

var k8s client.WithWatch

var _ = BeforeSuite(func(SpecContext) {
	logf.SetLogger(GinkgoLogr)
	config := apiserver.StartWithCRDs(GinkgoTB()).Config
	var err error
	k8s, err = client.NewWithWatch(config, client.Options{Scheme: newScheme(GinkgoTB())})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(2*time.Minute))

// desk is a pool in its own namespace, and a reconciler whose writes are counted.
type desk struct {
	namespace  string
	reconciler *Reconciler
	writes     int
	patched    atomic.Int64            // writes of pods, which are concurrent
	answers    map[string]score.Report // by the pod's address
}

func newDesk(ctx context.Context) *desk {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "desk-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	d := &desk{namespace: namespace.Name, answers: map[string]score.Report{}}
	stats := statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
		if answer, ok := d.answers[podIP]; ok {
			return answer, nil
		}
		return score.Report{}, fmt.Errorf("%s doesn't answer", podIP)
	})
	d.reconciler = newReconciler(d.counting(), k8s, events.NewFakeRecorder(100), stats, clock.RealClock{})
	return d
}

func (d *desk) counting() client.Client {
	return interceptor.NewClient(k8s, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			d.writes++
			return c.Apply(ctx, config, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			d.writes++
			return c.Create(ctx, object, opts...)
		},
		// The API server has no cache indexes.
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, isRuns := list.(*v1alpha1.EvaluationRunList); isRuns {
				opts = nil
			}
			return c.List(ctx, list, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			d.patched.Add(1)
			return c.Patch(ctx, object, patch, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object,
			opts ...client.SubResourceUpdateOption) error {
			d.writes++
			return c.SubResource(sub).Update(ctx, object, opts...)
		},
	})
}

func (d *desk) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: d.namespace, Name: name}
}

func (d *desk) create(ctx context.Context, spec v1alpha1.CustomerSupportEnvSpec) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "support",
		Namespace: d.namespace}, Spec: spec})).To(Succeed())
}

func (d *desk) reconcile(ctx context.Context) {
	GinkgoHelper()
	_, err := d.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: d.key("support")})
	Expect(err).NotTo(HaveOccurred())
}

func (d *desk) pool(ctx context.Context) *v1alpha1.CustomerSupportEnv {
	GinkgoHelper()
	env := &v1alpha1.CustomerSupportEnv{}
	Expect(k8s.Get(ctx, d.key("support"), env)).To(Succeed())
	return env
}

func (d *desk) deployment(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(k8s.Get(ctx, d.key("support"), deployment)).To(Succeed())
	return deployment
}

func (d *desk) service(ctx context.Context) *corev1.Service {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(k8s.Get(ctx, d.key("support"), service)).To(Succeed())
	return service
}

// rollOut sets the Deployment's status to a complete rolling update.
func (d *desk) rollOut(ctx context.Context) {
	GinkgoHelper()
	deployment := d.deployment(ctx)
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n,
		AvailableReplicas: n,
	}
	Expect(k8s.Status().Update(ctx, deployment)).To(Succeed())
}

// startPod creates a pod of the Deployment's template, as a ReplicaSet would, and answers its
// requests.
func (d *desk) startPod(ctx context.Context, name, address string, edit func(*corev1.Pod)) {
	GinkgoHelper()
	template := d.deployment(ctx).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = name, d.namespace
	Expect(k8s.Create(ctx, pod)).To(Succeed())
	running := server(name)
	pod.Status = running.Status
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	edit(pod)
	Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
}

func asItIs(*corev1.Pod) {}

// beCondition matches the pool's condition of a type.
func beCondition(kind string, status metav1.ConditionStatus, reason string) OmegaMatcher {
	return WithTransform(func(env *v1alpha1.CustomerSupportEnv) []metav1.Condition { return env.Status.Conditions },
		ContainElement(SatisfyAll(HaveField("Type", kind), HaveField("Status", status), HaveField("Reason", reason),
			HaveField("ObservedGeneration", BeNumerically(">", 0)))))
}

func degradedMessage(env *v1alpha1.CustomerSupportEnv) string {
	for _, c := range env.Status.Conditions {
		if c.Type == v1alpha1.ConditionDegraded {
			return c.Message
		}
	}
	return ""
}
