package environment

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/observe"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// world is a reconciler on a fake API server that records the writes.
type world struct {
	client.WithWatch
	store      client.WithWatch // whose writes aren't counted
	reconciler *Reconciler
	events     chan string
	mu         sync.Mutex // guards writes, which may be concurrent
	writes     []string
	faults     faults
}

// faults are the errors of the next write of each kind.
type faults struct{ apply, create, status, statusAfterSuccess, patch, patchAfterSuccess error }

func newWorld(t *testing.T, existing ...client.Object) *world {
	t.Helper()
	w := &world{}
	store := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(existing...).
		WithStatusSubresource(&v1alpha1.CustomerSupportEnv{}).WithIndex(&v1alpha1.EvaluationRun{},
		objects.UnendedField, objects.UnendedIndex).
		WithTypeConverters(statusless{applyconfigurations.NewTypeConverter(scheme.Scheme)},
			managedfields.NewDeducedTypeConverter()).Build()
	w.WithWatch = interceptor.NewClient(store, w.counting())
	recorder := events.NewFakeRecorder(100)
	w.events = recorder.Events
	w.store = store
	stats := statsFunc(func(context.Context, string) (score.Report, error) { return report(1), nil })
	w.reconciler = newReconciler(w, store, recorder, stats, clocktesting.NewFakePassiveClock(noon))
	return w
}

// newReconciler returns a reconciler that writes with one client and reads past the cache with
// another.
func newReconciler(c client.Client, live client.Reader, recorder events.EventRecorder, stats observe.StatsReader,
	now clock.PassiveClock) *Reconciler {
	r := &Reconciler{
		reader: &observe.Reader{Live: live, Stats: stats, Keys: anyKeys{}, Clock: now, Image: testpool.Image},
		secrets: keyKeeper{live: live, keys: anyKeys{}, entropy: rand.Reader,
			check: func(context.Context, types.NamespacedName, string) (ed25519.PrivateKey, error) { return nil, nil }},
		events:  announcer{recorder},
		metrics: newPoolMetrics(),
	}
	r.use(c)
	return r
}

// use replaces the client.
func (r *Reconciler) use(c client.Client) {
	r.client, r.reader.Cache, r.writer.client, r.secrets.client = c, c, c, c
}

// statusless removes the status that the fake client adds to NetworkPolicies, because their schema
// has none.
type statusless struct{ managedfields.TypeConverter }

func (s statusless) ObjectToTyped(object runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() == children.KindNetworkPolicy {
		u = u.DeepCopy()
		delete(u.Object, "status")
		object = u
	}
	return s.TypeConverter.ObjectToTyped(object, opts...)
}

func (w *world) counting() interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			w.writes = append(w.writes, "apply")
			if w.faults.apply != nil {
				return w.faults.apply
			}
			return c.Apply(ctx, config, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			w.writes = append(w.writes, "create")
			if w.faults.create != nil {
				return w.faults.create
			}
			return c.Create(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			w.writes = append(w.writes, "delete")
			return c.Delete(ctx, object, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object,
			opts ...client.SubResourceUpdateOption) error {
			w.writes = append(w.writes, sub)
			if w.faults.status != nil {
				return w.faults.status
			}
			if err := c.SubResource(sub).Update(ctx, object, opts...); err != nil {
				return err
			}
			return w.faults.statusAfterSuccess
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the pool's spec and objects are never updated")
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if _, isDeployment := object.(*appsv1.Deployment); isDeployment {
				w.writes = append(w.writes, "scale")
				return c.Patch(ctx, object, patch, opts...)
			}
			if _, isPod := object.(*corev1.Pod); !isPod {
				return errors.New("the pool's spec and objects are never patched")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.writes = append(w.writes, "patch "+object.GetName())
			if w.faults.patch != nil {
				return w.faults.patch
			}
			if err := c.Patch(ctx, object, patch, opts...); err != nil {
				return err
			}
			return w.faults.patchAfterSuccess
		},
	}
}

func (w *world) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	w.writes = nil
	return w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pool())})
}

func (w *world) mustReconcile(t *testing.T) ctrl.Result {
	t.Helper()
	result, err := w.reconcile(t)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (w *world) pool(t *testing.T) *v1alpha1.CustomerSupportEnv {
	t.Helper()
	env := pool()
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(env), env); err != nil {
		t.Fatal(err)
	}
	return env
}

// secrets returns the names of ledger keys' Secrets.
func (w *world) secrets(t *testing.T) []string {
	t.Helper()
	var list corev1.SecretList
	if err := w.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(list.Items))
	for _, secret := range list.Items {
		if secret.Data[keys.File] != nil {
			names = append(names, secret.Name)
		}
	}
	return names
}

func (w *world) condition(t *testing.T, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(w.pool(t).Status.Conditions, kind)
	if c == nil {
		t.Fatalf("no condition %s", kind)
	}
	return *c
}

func (w *world) announced() []string {
	var got []string
	for {
		select {
		case event := <-w.events:
			got = append(got, event)
		default:
			return got
		}
	}
}

// keyless changes a pool to one that was just created.
func keyless(env *v1alpha1.CustomerSupportEnv) { env.Status = v1alpha1.CustomerSupportEnvStatus{} }

func conflict() error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("customersupportenvs").GroupResource(), "support",
		errors.New("the object has been modified"))
}

func TestReconcileCreatesThePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	result := w.mustReconcile(t)
	if diff := cmp.Diff([]string{"create", "status", "apply", "apply", "apply", "apply", "apply", "create",
		"status"}, w.writes); diff != "" {
		t.Errorf("writes: the key, its public half, then the objects, a token, then the status (-want +got):\n%s", diff)
	}
	if result.RequeueAfter < pollInterval || result.RequeueAfter > pollInterval*12/10 {
		t.Errorf("requeued after %s, want %s and some jitter", result.RequeueAfter, pollInterval)
	}
	env := w.pool(t)
	if diff := cmp.Diff([]string{keys.SecretName("support", env.Status.LedgerPublicKey)}, w.secrets(t)); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}} {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(env), object); err != nil {
			t.Error(err)
		}
	}
	if got := w.condition(t, v1alpha1.ConditionProgressing); got.Status != metav1.ConditionTrue {
		t.Errorf("Progressing is %+v", got)
	}
	if diff := cmp.Diff([]string{"Normal RollingOut 0 of 2 servers run the newest template and 0 are ready. No " +
		"action is needed."}, w.announced()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestReconcileAtRestWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	w.mustReconcile(t)
	w.mustReconcile(t)
	for range 5 {
		w.mustReconcile(t)
		if len(w.writes) > 0 {
			t.Fatalf("writes to a pool at rest: %v", w.writes)
		}
	}
}

func TestReconcileRepairsTheDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	w.mustReconcile(t)
	d := &appsv1.Deployment{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Image = "evil:latest"
	if err := w.store.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile(t)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(pool()), d); err != nil {
		t.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Containers[0].Image; got != testpool.Image {
		t.Errorf("image = %s, want %s", got, testpool.Image)
	}
}

func TestReconcileIgnoresDeletedPools(t *testing.T) {
	t.Parallel()
	deleted := metav1.NewTime(noon)
	tests := map[string][]client.Object{
		"gone": nil,
		"going": {pool(keyless, func(env *v1alpha1.CustomerSupportEnv) {
			env.DeletionTimestamp, env.Finalizers = &deleted, []string{"foregroundDeletion"}
		})},
	}
	for name, objects := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, objects...)
			if result := w.mustReconcile(t); result != (ctrl.Result{}) || len(w.writes) > 0 {
				t.Errorf("result %v and writes %v, want none", result, w.writes)
			}
		})
	}
}

// A Service called "support" may belong to another owner.
func TestReconcileLeavesOthersObjectsAlone(t *testing.T) {
	t.Parallel()
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "shop"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "helpdesk"}},
	}
	w := newWorld(t, pool(keyless), theirs)
	// The cache contains only objects with our labels.
	w.reconciler.use(interceptor.NewClient(w, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			opts ...client.GetOption) error {
			if err := c.Get(ctx, key, object, opts...); err != nil {
				return err
			}
			if _, isPool := object.(*v1alpha1.CustomerSupportEnv); !isPool &&
				object.GetLabels()[v1alpha1.LabelManagedBy] == "" {
				return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
			}
			return nil
		},
	}))
	w.mustReconcile(t)
	got := &corev1.Service{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(theirs), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs.Spec, got.Spec); diff != "" || len(got.OwnerReferences) > 0 {
		t.Errorf("their Service was changed, owners %v:\n%s", got.OwnerReferences, diff)
	}
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonNameTaken {
		t.Errorf("Degraded is %+v", c)
	}
}

func TestReconcileRetriesAfterFaults(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("services"), "support", errors.New("exceeded quota"))
	timeout := apierrors.NewTimeoutError("gave up waiting", 1)
	tests := map[string]struct {
		env         *v1alpha1.CustomerSupportEnv
		faults      faults
		wantErr     string
		wantDelay   bool
		wantSecrets int
	}{
		"no Secret": {pool(keyless), faults{create: forbidden},
			"creating the ledger key's Secret", false, 0},
		"the key's status write loses": {pool(keyless), faults{status: conflict()}, "", true, 0},
		"the key's status write is refused": {pool(keyless), faults{status: forbidden},
			"writing the ledger's public key", false, 1},
		"the key's status write may have been": {pool(keyless), faults{statusAfterSuccess: timeout}, "gave up waiting",
			false, 1},
		"the status write loses": {pool(), faults{status: conflict()}, "", true, 0},
		"the status write fails": {pool(), faults{status: timeout}, "writing status: ", false, 0},
		"an object is refused": {pool(), faults{apply: forbidden}, "applying Service support: ", false,
			0},
		"everything fails": {pool(), faults{apply: forbidden, status: timeout},
			"applying Service support", false, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.env)
			w.faults = tt.faults
			result, err := w.reconcile(t)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error = %v, want it to contain %q", err, tt.wantErr)
			}
			if (result == ctrl.Result{RequeueAfter: objects.ConflictDelay}) != tt.wantDelay {
				t.Errorf("result = %v", result)
			}
			if got := w.secrets(t); len(got) != tt.wantSecrets {
				t.Errorf("Secrets %v, want %d", got, tt.wantSecrets)
			}
			if tt.faults.status != nil && len(w.announced()) > 0 {
				t.Error("an event for a write that failed")
			}
			w.faults = faults{}
			w.mustReconcile(t)
			w.mustReconcile(t)
			w.mustReconcile(t)
			if len(w.writes) > 0 {
				t.Errorf("unexpected writes: %v", w.writes)
			}
		})
	}
}

func TestReconcileReportsRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool())
	w.faults.apply = errors.New("exceeded quota")
	if _, err := w.reconcile(t); err == nil {
		t.Fatal("no error: the pass isn't repeated")
	}
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonApplyFailed ||
		!strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("Degraded is %+v", c)
	}
}

// A pass with a status older than the key must not start servers with a key that isn't in the
// status.
func TestReconcileOverAStaleStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	stale := w.pool(t)
	w.mustReconcile(t)
	key := w.pool(t).Status.LedgerPublicKey
	if err := w.reconciler.secrets.ensureKey(t.Context(), stale, &memory{}); !apierrors.IsConflict(err) {
		t.Fatalf("error = %v, want a conflict", err)
	}
	if got := w.pool(t).Status.LedgerPublicKey; got != key {
		t.Errorf("the public key changed from %s to %s", key, got)
	}
	if diff := cmp.Diff([]string{keys.SecretName("support", key)}, w.secrets(t)); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
}

func TestReconcileFollowsThePods(t *testing.T) {
	t.Parallel()
	env := pool()
	template := children.BuildPodTemplate(children.Pool{Env: env, Image: testpool.Image}, "")
	pod := server("support-a")
	pod.Labels, pod.Annotations = template.Labels, template.Annotations
	w := newWorld(t, env, &pod)
	w.mustReconcile(t)
	got := w.pool(t).Status
	if diff := cmp.Diff(&v1alpha1.SessionCounts{Active: 1, Capacity: 10}, got.Sessions); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	if got.ScenarioDigest != "sha256:new" || len(got.Tasks) != 2 {
		t.Errorf("the status has %q, %v", got.ScenarioDigest, got.Tasks)
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
	if err := w.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	w.announced()
	w.mustReconcile(t)
	if events := w.announced(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning ImagePullFailed") {
		t.Errorf("events = %v", events)
	}
}
