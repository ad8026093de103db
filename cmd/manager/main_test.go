package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args    []string
		env     string
		want    options
		wantErr string
	}{
		"defaults":          {nil, "csenv:1", options{metricsAddress: ":8443", probeAddress: ":8081", image: "csenv:1"}, ""},
		"the flag prevails": {[]string{"--image=csenv:2", "--leader-elect"}, "csenv:1", options{metricsAddress: ":8443", probeAddress: ":8081", image: "csenv:2", leaderElect: true}, ""},
		"addresses": {[]string{"--metrics-bind-address=0", "--metrics-insecure", "--health-probe-bind-address=:1"}, "csenv:1",
			options{metricsAddress: "0", probeAddress: ":1", image: "csenv:1", insecure: true}, ""},
		"the version needs no image": {[]string{"--version"}, "", options{metricsAddress: ":8443", probeAddress: ":8081", showVersion: true}, ""},
		"no image":                   {nil, "", options{}, "set --image or CSENV_IMAGE"},
		"an argument":                {[]string{"start"}, "csenv:1", options{}, `unexpected argument "start"`},
		"an unknown flag":            {[]string{"--speed=9"}, "csenv:1", options{}, "not defined"},
		"help":                       {[]string{"--help"}, "csenv:1", options{}, flag.ErrHelp.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CSENV_IMAGE", tt.env)
			got, err := parse(tt.args, io.Discard)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error = %v, want one with %q", err, tt.wantErr)
			}
			got.log = tt.want.log
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("options = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The whole program, as the manifests let it work: as its ServiceAccount, with the roles of config/rbac and no more.
func TestRunAsInstalled(t *testing.T) {
	server := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases"}, ErrorIfCRDPathMissing: true}
	config, err := server.Start()
	if err != nil {
		t.Fatalf("starting an API server: %v\nRun make test, or set KUBEBUILDER_ASSETS to what `go run ./hack/cluster envtest` prints.", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := newAdmin(t, config)
	install(t, admin)

	o := options{metricsAddress: freeAddress(t), probeAddress: freeAddress(t), image: "csenv:test", leaderElect: true, leaseNamespace: "csenv-system"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, asManager(config), o) }()

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
	// A change of an object of the pool's wakes its reconciler, well before the next poll.
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1}
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
			Agent:          v1alpha1.Agent{Type: v1alpha1.BuiltinAgent, Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NullPolicy}},
			Tasks:          []v1alpha1.TaskSelection{{Name: "ticket-resolve"}},
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
	eventually(t, done, "readiness", func(ctx context.Context) error { return get(ctx, "http://"+o.probeAddress+"/readyz", http.StatusOK) })
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

// install applies the roles and bindings of config/rbac.
func install(t *testing.T, admin client.Client) {
	t.Helper()
	objects := map[string]client.Object{
		"role.yaml":                         &rbacv1.ClusterRole{},
		"role_binding.yaml":                 &rbacv1.ClusterRoleBinding{},
		"leader_election_role.yaml":         &rbacv1.Role{},
		"leader_election_role_binding.yaml": &rbacv1.RoleBinding{},
		"metrics_auth_role.yaml":            &rbacv1.ClusterRole{},
		"metrics_auth_role_binding.yaml":    &rbacv1.ClusterRoleBinding{},
	}
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "csenv-system"}}); err != nil {
		t.Fatal(err)
	}
	for file, object := range objects {
		data, err := os.ReadFile("../../config/rbac/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if strings.HasPrefix(file, "leader_election") {
			object.SetNamespace("csenv-system")
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// asManager acts as the ServiceAccount of config/rbac.
func asManager(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:csenv-system:csenv-manager",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return config
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func get(ctx context.Context, url string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	// The metrics' certificate is the process's own.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
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

// eventually polls until there is no error left, the manager has ended, or half a minute has passed.
func eventually(t *testing.T, done <-chan error, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
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
