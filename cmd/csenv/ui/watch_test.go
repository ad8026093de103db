package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/testkit/isolated"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/scenarios"
)

var shared apiserver.Shared

// TestMain keeps csenv eval from signing with the user's key.
func TestMain(m *testing.M) {
	restore, err := isolated.Environment()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	restore()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = 1
	}
	os.Exit(code)
}

// kubeconfig points the kubeconfig at a server.
func kubeconfig(t *testing.T, content []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// opened is a site with the sources that the arguments of csenv ui select.
func opened(t testing.TB, args ...string) (*site, *httptest.Server) {
	t.Helper()
	from := &selected{}
	cmd := NewUICommand()
	cmd.ResetFlags()
	from.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	found, err := from.open(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	described, err := describeScenarios(catalog)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pages: pages, sources: found, catalog: catalog, scenarios: described, log: slog.New(slog.DiscardHandler)}
	return s, serving(t, s)
}

func serving(t testing.TB, s *site) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// fetch reads a page.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
	}
	return response.StatusCode, text.String()
}

// eventually waits until a page contains all texts.
func eventually(t *testing.T, url string, wanted ...string) string {
	t.Helper()
	var text, missing string
	poll(t, func() bool {
		_, text = fetch(t, url)
		missing = ""
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				missing = want
			}
		}
		return missing == ""
	}, func() string { return fmt.Sprintf("the page doesn't contain %q:\n%s", missing, text) })
	return text
}

// poll waits until a condition is true, or fails with a message.
func poll(t *testing.T, done func() bool, message func() string) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true,
		func(context.Context) (bool, error) { return done(), nil }); err != nil {
		t.Fatal(message())
	}
}

// admin has all rights.
func admin(t *testing.T, server *envtest.Environment) client.Client {
	t.Helper()
	kubeconfig(t, server.KubeConfig)
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inNamespace creates a namespace with a pool and a run.
func inNamespace(t *testing.T, c client.Client, name string) *v1alpha1.EvaluationRun {
	t.Helper()
	run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "run-of-" + name},
		Spec: v1alpha1.EvaluationRunSpec{EnvironmentRef: v1alpha1.EnvironmentReference{Name: "pool-of-" + name},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent, Builtin: &v1alpha1.BuiltinAgentSpec{Policy: "Noop"}},
			Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve"}}}}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "pool-of-" + name}}, run} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// finish completes a run.
func finish(t *testing.T, c client.Client, run *v1alpha1.EvaluationRun, scored int64) {
	t.Helper()
	run.Status.Episodes = &v1alpha1.RunEpisodes{Total: 40, Scored: scored}
	complete := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonRunning, Message: "Playing."}
	if scored == 40 {
		complete.Status, complete.Reason = metav1.ConditionTrue, v1alpha1.ReasonCompleted
		run.Status.Score = &v1alpha1.Score{Mean: "0.4321", StandardError: "0.0100", Min: "0.0000", P50: "0.5000",
			Max: "1.0000", CI95: &v1alpha1.Interval{Low: "0.4100", High: "0.4600"}}
	}
	meta.SetStatusCondition(&run.Status.Conditions, complete)
	if err := c.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

// stream sends the lines of a page's updates.
func stream(t *testing.T, url string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // the goroutine closes it
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1<<12)
	go func() {
		defer response.Body.Close()
		defer close(lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// await reads lines until one contains a text.
func await(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	timeout := time.After(3 * time.Minute)
	for {
		select {
		case line, open := <-lines:
			if strings.Contains(line, want) {
				return
			}
			if !open {
				t.Fatalf("the stream ended without %q", want)
			}
		case <-timeout:
			t.Fatalf("no update contains %q", want)
		}
	}
}

func TestLiveCluster(t *testing.T) {
	c := admin(t, shared.Get(t))
	run := inNamespace(t, c, "live")
	s, server := opened(t, "-n", "live")
	eventually(t, server.URL, "pool-of-live", "run-of-live", "The operator hasn&#39;t seen the pool yet")
	lines := stream(t, server.URL+"/live")
	await(t, lines, "run-of-live")
	finish(t, c, run, 10)
	await(t, lines, "10/40")
	finish(t, c, run, 40)
	await(t, lines, "0.4100 to 0.4600")

	t.Run("filters", func(t *testing.T) {
		for query, found := range map[string]bool{"": true, "?text=RUN-OF": true, "?state=Completed": true,
			"?text=x": false, "?state=under-way": false, "?namespace=other": false} {
			if _, text := fetch(t, server.URL+"/"+query); strings.Contains(text, "0.4321") != found {
				t.Errorf("with %q the page shows the run: %v, want %v", query, !found, found)
			}
		}
		if code, _ := fetch(t, server.URL+"/?page=0"); code != http.StatusBadRequest {
			t.Errorf("status %d for a wrong page", code)
		}
	})
	t.Run("events", func(t *testing.T) {
		if err := c.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "live", Name: "e"},
			InvolvedObject: corev1.ObjectReference{Kind: "EvaluationRun", Namespace: "live", Name: run.Name,
				UID: run.UID}, Type: "Warning", Reason: "Started", Message: "Words.", Count: 3}); err != nil {
			t.Fatal(err)
		}
		loaded := &source.LoadedRun{EvaluationRun: run}
		events, err := s.events(t.Context(), loaded)
		if err != nil || len(events) != 1 || events[0].Count != 3 || events[0].Last.IsZero() {
			t.Errorf("events %+v, %v", events, err)
		}
		public := *s
		public.public = true
		if events, err := public.events(t.Context(), loaded); len(events) > 0 || err != nil {
			t.Errorf("in public mode: %v, %v", events, err)
		}
	})
	if err := c.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	await(t, lines, "There are no runs.")
	eventually(t, server.URL, "csenv run -n live --pool pool-of-live")
}

// A viewer of one namespace sees it, is told why others aren't shown, and sees them as soon as the
// rights allow it.
func TestRights(t *testing.T) {
	api := shared.Get(t)
	c := admin(t, api)
	inNamespace(t, c, "mine")
	inNamespace(t, c, "foreign")
	viewer := rbacv1.PolicyRule{APIGroups: []string{"csenv.dev"}, Resources: []string{"*"},
		Verbs: []string{"get", "list", "watch"}}
	jane := []rbacv1.Subject{{Kind: "User", Name: "jane", APIGroup: rbacv1.GroupName}}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: []rbacv1.PolicyRule{viewer}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "jane"}, Subjects: jane,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "viewer"}},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	user, err := api.AddUser(envtest.User{Name: "jane", Groups: []string{"system:authenticated"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig(t, content)
	t.Run("one namespace", func(t *testing.T) {
		s, server := opened(t, "-n", "mine")
		if text := eventually(t, server.URL, "run-of-mine", "pool-of-mine"); strings.Contains(text, "of-foreign") {
			t.Error(text)
		}
		run, err := s.sources.runs(t.Context())
		if err != nil || len(run) != 1 {
			t.Fatalf("%d runs, %v", len(run), err)
		}
		if events, err := s.events(t.Context(), run[0]); len(events) > 0 || err != nil {
			t.Errorf("events without the right to list them: %v, %v", events, err)
		}
		_, server = opened(t, "-n", "foreign")
		if text := eventually(t, server.URL, "request the role csenv-viewer"); strings.Contains(text, "of-foreign<") {
			t.Error(text)
		}
	})
	t.Run("all namespaces", func(t *testing.T) {
		_, server := opened(t, "-A")
		if text := eventually(t, server.URL, "request the role csenv-viewer"); strings.Contains(text, "run-of") {
			t.Error(text)
		}
		kind := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "viewer"}
		if err := c.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "jane"},
			Subjects: jane, RoleRef: kind}); err != nil {
			t.Fatal(err)
		}
		eventually(t, server.URL, "run-of-mine", "run-of-foreign", "pool-of-foreign")
		// The notice ends when both kinds are read.
		poll(t, func() bool { _, text := fetch(t, server.URL); return !strings.Contains(text, "csenv-viewer") },
			func() string { return "the notice stays" })
	})
}

// A front before the API server fails as clusters do, and recovers.
func TestRecovery(t *testing.T) {
	c := admin(t, shared.Get(t))
	run := inNamespace(t, c, "recovery")
	front := newFront(t, shared.Get(t).Config)
	kubeconfig(t, front.kubeconfig("recovery"))
	s, server := opened(t, "-n", "recovery")
	eventually(t, server.URL, "run-of-recovery")
	forAll := *s
	forAll.public = true
	public := serving(t, &forAll)
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"missing rights":      {http.StatusForbidden, "Forbidden", "request the role csenv-viewer"},
		"expired credentials": {http.StatusUnauthorized, "Unauthorized", "sign in again"},
		"no answer":           {0, "", "the cluster doesn&#39;t answer"},
		"missing CRDs":        {http.StatusNotFound, "NotFound", "csenv is not installed in this cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			front.fail(tt.status, tt.body)
			text := eventually(t, server.URL, tt.want)
			for _, want := range []string{"run-of-recovery", "The page shows the state of less than 1 min ago."} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			if _, text := fetch(t, server.URL+"/leaderboard"); !strings.Contains(text, tt.want) {
				t.Errorf("another page has no notice: %s", text)
			}
			if _, text := fetch(t, public.URL); strings.Contains(text, tt.want) ||
				!strings.Contains(text, "The cluster can&#39;t be read at present.") {
				t.Errorf("in public mode: %s", text)
			}
			front.fail(http.StatusOK, "")
			problem := func() error { return s.sources.cluster.Snapshot().Problem }
			poll(t, func() bool { return problem() == nil }, func() string { return "no recovery: " + problem().Error() })
		})
	}
	finish(t, c, run, 40)
	eventually(t, server.URL, "0.4321")
}

// Without CRDs the pages say how to install them, and show pools once there are some.
func TestNotInstalled(t *testing.T) {
	kubeconfig(t, apiserver.Start(t).KubeConfig)
	_, server := opened(t, "-A")
	eventually(t, server.URL, "csenv is not installed in this cluster", "There are no runs.")
	if code, text := fetch(t, server.URL+"/runs/default/x-12345678"); code != http.StatusBadGateway ||
		!strings.Contains(text, "not installed") {
		t.Errorf("status %d: %s", code, text)
	}
}
