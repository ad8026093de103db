package operator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/testkit"
)

func poolIn(namespace string) *v1alpha1.CustomerSupportEnv {
	return &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: namespace}}
}

func runIn(namespace, poolNamespace string) *v1alpha1.EvaluationRun {
	return &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Name: "against-" + poolNamespace, Namespace: namespace},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: "support", Namespace: poolNamespace},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
				Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NoopPolicy}},
			Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve"}},
		},
	}
}

// refusals lists the requests that the API server refuses for want of rights.
type refusals struct {
	mu       sync.Mutex
	requests []string
	next     http.RoundTripper
}

func (r *refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusForbidden {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, request.Method+" "+request.URL.Path)
	}
	return response, err
}

// restrictTo replaces the operator's rights on the cluster by Roles with the same rules in single
// namespaces, as the chart does.
func restrictTo(t *testing.T, admin client.Client, namespaces ...string) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "csenv-manager"}, role); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, namespace := range namespaces {
		named := metav1.ObjectMeta{Name: role.Name, Namespace: namespace}
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			&rbacv1.Role{ObjectMeta: named, Rules: role.Rules},
			&rbacv1.RoleBinding{ObjectMeta: named,
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "csenv-manager", Namespace: "csenv-system"}}})
	}
	for _, object := range objects {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{role.Name, "csenv-metrics-auth"} {
		for _, object := range []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRole{}} {
			object.SetName(name)
			if err := admin.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The whole program with rights on two namespaces only. It may not cause a single refusal, because
// it would cause it again and again.
func TestRunInNamespaces(t *testing.T) {
	apiserver.RequireBinaries(t)
	// controller-runtime admits one controller of a name in a process.
	if os.Getenv("CSENV_TEST_ALONE") == "" {
		alone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		alone.Env = append(os.Environ(), "CSENV_TEST_ALONE=1")
		if output, err := alone.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	server := apiserver.Start(t)
	install(t, server)
	admin := newAdmin(t, server.Config)
	restrictTo(t, admin, "first", "second")
	create := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			if err := admin.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := poolIn("second")
	shared.Spec.Access.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.SelectedNamespaces,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "first"}}}
	create(poolIn("default"), poolIn("first"), shared, runIn("default", "default"), runIn("first", "first"),
		runIn("first", "second"), runIn("first", "default"))

	refused := &refusals{}
	config := asManager(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		refused.next = next
		return refused
	})
	o := options{namespaces: namespaceList{"first", "second"}, maxUpdates: 5, insecure: true,
		metricsAddress: testkit.FreeAddresses(t, 1)[0], probeAddress: testkit.FreeAddresses(t, 1)[0],
		image: "csenv:test", leaderElect: true,
		leaseNamespace: "csenv-system"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runManager(ctx, config, o) }()
	for _, pool := range []*v1alpha1.CustomerSupportEnv{poolIn("first"), poolIn("second")} {
		eventually(t, done, "the Deployment of the pool in "+pool.Namespace, func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKeyFromObject(pool), &appsv1.Deployment{})
		})
	}
	for name, reason := range map[string]string{
		"against-first":  v1alpha1.ReasonEnvironmentNotAvailable,
		"against-second": v1alpha1.ReasonEnvironmentNotAvailable,
		// It is answered as for a pool that doesn't exist.
		"against-default": v1alpha1.ReasonNamespaceNotAllowed,
	} {
		eventually(t, done, reason+" of run "+name, func(ctx context.Context) error {
			return hasReason(ctx, admin, client.ObjectKey{Namespace: "first", Name: name}, reason)
		})
	}
	eventually(t, done, "metrics", func(ctx context.Context) error {
		return get(ctx, "http://"+o.metricsAddress+"/metrics", http.StatusOK)
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the manager ended with %v", err)
	}
	checkUntouched(t, admin)
	if len(refused.requests) > 0 {
		t.Errorf("the operator sent requests without the right to: %v", refused.requests)
	}
}

func hasReason(ctx context.Context, api client.Client, key client.ObjectKey, reason string) error {
	evaluation := &v1alpha1.EvaluationRun{}
	if err := api.Get(ctx, key, evaluation); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(evaluation.Status.Conditions, v1alpha1.ConditionEnvironmentReady); c == nil ||
		c.Reason != reason {
		return fmt.Errorf("the condition is %+v", c)
	}
	return nil
}

// checkUntouched checks that the operator has written nothing to a namespace that it doesn't watch.
func checkUntouched(t *testing.T, admin client.Client) {
	t.Helper()
	key := client.ObjectKey{Namespace: "default", Name: "support"}
	if err := admin.Get(t.Context(), key, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("it created the Deployment of a pool elsewhere: %v", err)
	}
	pool, evaluation := poolIn("default"), runIn("default", "default")
	for _, object := range []client.Object{pool, evaluation} {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(pool.Status.Conditions) + len(evaluation.Status.Conditions); n > 0 {
		t.Errorf("objects elsewhere got %d conditions", n)
	}
}

func TestWatchNamespaces(t *testing.T) {
	for value, want := range map[string]string{
		"a": "a", "a,b": "a,b", "": `"" is no name`, "a,,b": `"" is no name`, "a, b": `" b" is no name`,
		"A": `"A" is no name`,
	} {
		var list namespaceList
		err := list.Set(value)
		got := list.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// The pods of runs have a finalizer, which the operator removes.
func TestCleanUp(t *testing.T) {
	config := apiserver.StartWithCRDs(t).Config
	admin := newAdmin(t, config)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "runner", Namespace: "a", Labels: map[string]string{
			v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue, v1alpha1.LabelComponent: v1alpha1.ComponentRunner}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runner", Image: "csenv:test"}}},
	}
	other := pod.DeepCopy()
	other.Name, other.Labels = "other", nil
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, pod, other,
		poolIn("a"), runIn("a", "a"), poolIn("default"), runIn("default", "default")} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want int) {
		t.Helper()
		if left, err := cleanUpNamespace(t.Context(), admin, "a"); err != nil || left != want {
			t.Errorf("%d objects are left, want %d: %v", left, want, err)
		}
	}
	check(3)
	check(1)
	if err := admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	check(0)
	for _, object := range []client.Object{other, poolIn("default"), runIn("default", "default")} {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("it deleted something else: %v", err)
		}
	}
	if err := cleanUp(t.Context(), config, options{}); err != nil {
		t.Error(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(poolIn("default")), poolIn("default")); err == nil {
		t.Error("a pool of another namespace is left")
	}
}
