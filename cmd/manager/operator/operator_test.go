package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/testkit"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args    []string
		env     string
		want    options
		wantErr string
	}{
		"defaults": {nil, "csenv:1", options{maxUpdates: 5, metricsAddress: ":8443", probeAddress: ":8081", image: "csenv:1"},
			""},
		"the flag prevails": {[]string{"--image=csenv:2", "--leader-elect"}, "csenv:1",
			options{maxUpdates: 5, metricsAddress: ":8443", probeAddress: ":8081", image: "csenv:2", leaderElect: true}, ""},
		"addresses": {[]string{"--metrics-bind-address=0", "--metrics-insecure", "--health-probe-bind-address=:1"},
			"csenv:1",
			options{maxUpdates: 5, metricsAddress: "0", probeAddress: ":1", image: "csenv:1", insecure: true}, ""},
		"the version needs no image": {[]string{"--version"}, "",
			options{maxUpdates: 5, metricsAddress: ":8443", probeAddress: ":8081", showVersion: true}, ""},
		"cleaning up needs none": {[]string{"--cleanup", "--watch-namespaces=a,b"}, "",
			options{maxUpdates: 5, metricsAddress: ":8443", probeAddress: ":8081", cleanUp: true,
				namespaces: namespaceList{"a", "b"}}, ""},
		"no namespace":    {[]string{"--watch-namespaces="}, "csenv:1", options{}, "no name of a namespace"},
		"no image":        {nil, "", options{}, "set --image or CSENV_IMAGE"},
		"no updates":      {[]string{"--max-pool-updates=0"}, "csenv:1", options{}, "use at least 1"},
		"an argument":     {[]string{"start"}, "csenv:1", options{}, `unexpected argument "start"`},
		"an unknown flag": {[]string{"--speed=9"}, "csenv:1", options{}, "not defined"},
		"help":            {[]string{"--help"}, "csenv:1", options{}, flag.ErrHelp.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CSENV_IMAGE", tt.env)
			t.Setenv("POD_NAMESPACE", "")
			got, err := parseOptions(tt.args, io.Discard)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" &&
				(err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error = %v, want one with %q", err, tt.wantErr)
			}
			got.log = tt.want.log
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("options = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	tests := map[string]struct {
		env     map[string]string
		want    int64
		wantErr string
	}{
		"no limit":            {nil, before, ""},
		"the limit":           {map[string]string{"MEMORY_LIMIT": "536870912"}, 483183819, ""},
		"GOMEMLIMIT prevails": {map[string]string{"MEMORY_LIMIT": "536870912", "GOMEMLIMIT": "off"}, before, ""},
		"a quantity":          {map[string]string{"MEMORY_LIMIT": "512Mi"}, before, `"512Mi"`},
		"nothing":             {map[string]string{"MEMORY_LIMIT": "0"}, before, `"0"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(before)
			err := limitMemory(func(name string) string { return tt.env[name] })
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error = %v, want one with %q", err, tt.wantErr)
			}
			if got := debug.SetMemoryLimit(-1); got != tt.want {
				t.Errorf("limit = %d, want %d", got, tt.want)
			}
		})
	}
}

// Users determine the number and size of ConfigMaps and Secrets.
func TestNoContentsAreCached(t *testing.T) {
	var uncached []string
	for _, object := range managerOptions(options{}, nil).Client.Cache.DisableFor {
		uncached = append(uncached, fmt.Sprintf("%T", object))
	}
	if want := []string{"*v1.Secret", "*v1.ConfigMap"}; !slices.Equal(uncached, want) {
		t.Errorf("read past the cache: %v, want %v", uncached, want)
	}
}

func TestOwnNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("of-the-account\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ variable, file, want string }{
		"the variable":         {"of-the-variable", file, "of-the-variable"},
		"the service account":  {"", file, "of-the-account"},
		"outside of a cluster": {"", file + ".none", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ownNamespace(func(string) string { return tt.variable }, tt.file); got != tt.want {
				t.Errorf("namespace %q, want %q", got, tt.want)
			}
		})
	}
}

// The whole program in its installed form: with its ServiceAccount and only the roles of
// config/rbac.
func TestRunAsInstalled(t *testing.T) {
	server := apiserver.Start(t)
	config := server.Config
	install(t, server)
	admin := newAdmin(t, config)
	checkInstalled(t, admin)

	o := options{maxUpdates: 5, metricsAddress: testkit.FreeAddresses(t, 1)[0],
		probeAddress: testkit.FreeAddresses(t, 1)[0], image: "csenv:test", leaderElect: true,
		leaseNamespace: "csenv-system"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runManager(ctx, asManager(config), o) }()

	pool := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "default"}}
	if err := admin.Create(ctx, pool); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	eventually(t, done, "the pool's Deployment", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKeyFromObject(pool), deployment)
	})
	eventually(t, done, "the pool's status", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if len(pool.Status.Conditions) == 0 {
			return errors.New("no conditions")
		}
		return nil
	})
	// A change of one of the pool's objects triggers a pass, well before the next poll.
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1,
		UpdatedReplicas: 1, ReadyReplicas: 1}
	if err := admin.Status().Update(ctx, deployment); err != nil {
		t.Fatal(err)
	}
	eventually(t, done, "a pool that is available", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		for _, c := range pool.Status.Conditions {
			if c.Type == v1alpha1.ConditionAvailable && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", pool.Status.Conditions)
	})
	eventually(t, done, "an event", func(ctx context.Context) error {
		var events corev1.EventList
		if err := admin.List(ctx, &events, client.InNamespace("default")); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == v1alpha1.ReasonServersReady && event.InvolvedObject.Name == "support" {
				return nil
			}
		}
		return fmt.Errorf("only %d others", len(events.Items))
	})
	evaluation := &v1alpha1.EvaluationRun{
		ObjectMeta: metav1.ObjectMeta{Name: "smoke", Namespace: "default"},
		Spec: v1alpha1.EvaluationRunSpec{
			EnvironmentRef: v1alpha1.EnvironmentReference{Name: "nowhere"},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
				Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NoopPolicy}},
			Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve"}},
		},
	}
	if err := admin.Create(ctx, evaluation); err != nil {
		t.Fatal(err)
	}
	eventually(t, done, "a run's status", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(evaluation), evaluation); err != nil {
			return err
		}
		if len(evaluation.Status.Conditions) == 0 {
			return errors.New("no conditions")
		}
		return nil
	})
	eventually(t, done, "readiness", func(ctx context.Context) error {
		return get(ctx,
			"http://"+o.probeAddress+"/readyz", http.StatusOK)
	})
	eventually(t, done, "metrics that strangers don't get", func(ctx context.Context) error {
		return get(ctx, "https://"+o.metricsAddress+"/metrics", http.StatusUnauthorized)
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the manager ended with %v", err)
	}
}

func newAdmin(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// install runs the documented command: kubectl apply -k config/default.
func install(t *testing.T, server *envtest.Environment) {
	t.Helper()
	// The go command caches a test's result by the files that the test itself opens. kubectl is
	// another process.
	if err := fs.WalkDir(os.DirFS("../../.."), "config", touch); err != nil {
		t.Fatal(err)
	}
	user, err := server.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	_, stderr, err := kubectl.Run("apply", "--server-side", "-k", "../../../config/default")
	if err != nil {
		output, _ := io.ReadAll(stderr)
		t.Fatalf("kubectl apply -k config/default: %v\n%s", err, output)
	}
}

func touch(path string, entry fs.DirEntry, err error) error {
	if err != nil || entry.IsDir() {
		return err
	}
	_, err = os.ReadFile(filepath.Join("../../..", path))
	return err
}

// checkInstalled checks that the API server admits the operator's pod to its namespace, which
// enforces the restricted Pod Security Standard, and that servers and runners get the operator's
// image.
func checkInstalled(t *testing.T, admin client.Client) {
	t.Helper()
	manager := &appsv1.Deployment{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "csenv-system", Name: "csenv-manager"},
		manager); err != nil {
		t.Fatal(err)
	}
	container := manager.Spec.Template.Spec.Containers[0]
	if got := container.Env[0]; got.Name != "CSENV_IMAGE" || got.Value != container.Image {
		t.Errorf("%s is %s, the manager's image %s", got.Name, got.Value, container.Image)
	}
	t.Setenv("CSENV_IMAGE", container.Image)
	if _, err := parseOptions(container.Args, io.Discard); err != nil {
		t.Errorf("the manager refuses its arguments %q: %v", container.Args, err)
	}
	pod := &corev1.Pod{ObjectMeta: manager.Spec.Template.ObjectMeta, Spec: manager.Spec.Template.Spec}
	pod.Namespace, pod.Name = "csenv-system", "csenv-manager-0"
	if err := admin.Create(t.Context(), pod); err != nil {
		t.Errorf("the manager's pod is refused: %v", err)
	}
}

// asManager returns a configuration with the ServiceAccount of config/rbac.
func asManager(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:csenv-system:csenv-manager",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return config
}

func get(ctx context.Context, url string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	// The metrics are served with a self-signed certificate.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	response, err := insecure.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	return nil
}

// eventually polls until there is no error left, the manager has ended, or three minutes have
// passed.
func eventually(t *testing.T, done <-chan error, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			select {
			case err := <-done:
				return false, fmt.Errorf("the manager ended: %w", err)
			default:
			}
			last = check(ctx)
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("waiting for %s: %v: %v", what, err, last)
	}
}
