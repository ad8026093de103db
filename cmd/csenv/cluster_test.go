package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
	"github.com/csenv/csenv/scenarios"
)

// apiUser is a client with all rights, and reads runs as csenv does.
type apiUser struct {
	client.Client
	connection *cluster.Connection
}

// Run reads a run.
func (u apiUser) Run(ctx context.Context, name string) (*v1alpha1.EvaluationRun, error) {
	return u.connection.Run(ctx, name)
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(s), corev1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

// apiServer starts a real API server for the test and points the kubeconfig at it.
func apiServer(t *testing.T, crds bool) apiUser {
	t.Helper()
	start := apiserver.Start
	if crds {
		start = apiserver.StartWithCRDs
	}
	server := start(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	c, err := (&cluster.Flags{}).Connect()
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.New(server.Config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return apiUser{all, c}
}

// playRun acts as the operator: it plays a run of the cluster and writes its status and scores.
func playRun(t *testing.T, c apiUser, name string, agent policy.Factory) {
	t.Helper()
	run, err := c.Run(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := manifest.CompletePool(t.Context(), &v1alpha1.CustomerSupportEnv{
		ObjectMeta: metav1.ObjectMeta{Name: "support"}})
	if err != nil {
		t.Fatal(err)
	}
	kind, err := local.NewKind(pool, catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	if agent == nil {
		if agent, err = policy.NewBuiltin(string(run.Spec.Agent.Builtin.Policy), "ticket", catalog); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var played []record.Episode
	if err := local.Play(t.Context(), run, local.Options{
		Kind: kind, Pool: "support", LedgerKey: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), Agent: agent, Version: "test", Log: slog.New(slog.DiscardHandler),
		Clock:  rollout.SystemClock(),
		Record: func(e record.Episode) { mu.Lock(); played = append(played, e); mu.Unlock() },
	}); err != nil {
		t.Fatal(err)
	}
	key, err := score.ParsePublicKey(run.Status.Provenance.LedgerKey)
	if err != nil {
		t.Fatal(err)
	}
	pass, err := evaluation.PassScore(run)
	if err != nil {
		t.Fatal(err)
	}
	ledger := &score.Ledger{PassScore: pass}
	for _, e := range played {
		r, err := score.VerifyReceipt(e.Receipt, key)
		if err == nil {
			err = ledger.Add(r.Planned, r.Episode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var table score.ScenarioTable
	table.Fold(ledger)
	text, err := table.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	scores := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: name + "-scores"},
		Data: map[string]string{v1alpha1.ScoresKey: string(text)}}
	if err := c.Create(t.Context(), scores); err != nil {
		t.Fatal(err)
	}
	run.Status.ScoresRef = &v1alpha1.ObjectReference{Name: scores.Name}
	if err := c.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

func TestCluster(t *testing.T) {
	c := apiServer(t, true)
	for _, pool := range []string{"support", "empty"} {
		if err := c.Create(t.Context(), &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: pool}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []string{"oracle", "heuristic", "noop"} {
		out, errs, code := csenv(t, "run", "--pool", "support", "--task", "ticket-classify", "--agent", agent, "--name",
			agent+"-run", "--seed", "7", "--detach")
		if code != exitDone || out != agent+"-run\n" {
			t.Fatalf("exit code %d: %s%s", code, out, errs)
		}
		playRun(t, c, agent+"-run", nil)
	}
	labelled, err := c.Run(t.Context(), "oracle-run")
	if err != nil {
		t.Fatal(err)
	}
	labelled.Labels = map[string]string{"team": "a"}
	if err := c.Update(t.Context(), labelled); err != nil {
		t.Fatal(err)
	}
	t.Run("following", func(t *testing.T) { followed(t) })
	t.Run("results", func(t *testing.T) {
		out := must(t, "results", "heuristic-run")
		narrow(t, out)
		if !strings.Contains(out, "heuristic-run: Completed, 40 of 40") {
			t.Error(out)
		}
		var run v1alpha1.EvaluationRun
		if err := json.Unmarshal([]byte(must(t, "results", "oracle-run", "-o", "json")), &run); err != nil ||
			run.Status.Score.Mean != "1.0000" || run.Kind != "EvaluationRun" {
			t.Errorf("JSON: %+v, %v", run.Status.Score, err)
		}
	})
	t.Run("compare", func(t *testing.T) { compared(t) })
	t.Run("leaderboard", func(t *testing.T) { ranked(t) })
	t.Run("env status", func(t *testing.T) {
		out, _, code := csenv(t, "env", "status")
		if code != exitOutcome || !strings.Contains(out, "support: Pending") || !strings.Contains(out, "no servers") {
			t.Error(out)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		out, _, code := csenv(t, "doctor", "-o", "json")
		for _, want := range []string{`"installed, of this version"`, `"not installed"`,
			`"not yet reconciled"`, `3 runs, 0 to look at`} {
			if code != exitOutcome || !strings.Contains(out, want) {
				t.Errorf("exit code %d, there is no %s in %s", code, want, out)
			}
		}
	})
	t.Run("edited scores", func(t *testing.T) { editedScores(t, c) })
	t.Run("errors", func(t *testing.T) { clusterErrors(t) })
	t.Run("completion", func(t *testing.T) {
		if out := must(t, "__complete", "results", ""); !strings.Contains(out, "heuristic-run\n") {
			t.Error(out)
		}
		if out := must(t, "__complete", "run", "--pool", ""); !strings.Contains(out, "empty\nsupport\n") {
			t.Error(out)
		}
	})
	t.Run("trainers", func(t *testing.T) { trained(t, c) })
	t.Run("resuming", func(t *testing.T) { resumed(t, c) })
}

// resumed resumes a run that failed.
func resumed(t *testing.T, c apiUser) {
	if _, errs, code := csenv(t, "run", "--resume", "noop-run"); code != exitError ||
		!strings.Contains(errs, "run noop-run has not failed, it is Completed") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	run, err := c.Run(t.Context(), "noop-run")
	if err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&run.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTooManyErrored, Message: "Words."})
	if err := c.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"resumed run noop-run in namespace default: attempt 2", "is being resumed already"} {
		if out, errs, code := csenv(t, "run", "--resume", "noop-run", "--detach"); code != exitDone ||
			out != "noop-run\n" || !strings.Contains(errs, said) {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
	}
	if run, err = c.Run(t.Context(), "noop-run"); err != nil || *run.Spec.Attempt != 2 {
		t.Errorf("attempt %v, %v; want 2", run.Spec.Attempt, err)
	}
	if _, errs, code := csenv(t, "run", "--resume", "noop-run", "--trials", "4"); code != exitError ||
		!strings.Contains(errs, "--trials can't be combined with --resume") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if out, _, _ := csenv(t, "doctor", "-o", "json"); !strings.Contains(out,
		"csenv run --resume noop-run -n default") {
		t.Error(out)
	}
}

// trained reads a run of type External that has the figures of another run.
func trained(t *testing.T, c apiUser) {
	manifest := "apiVersion: csenv.dev/v1alpha1\nkind: EvaluationRun\nmetadata: {name: grpo-7}\nspec: " +
		"{environmentRef: {name: support}, agent: {type: External}}\n"
	if out := must(t, "run", "-f", manifestFile(t, manifest), "--detach"); out != "grpo-7\n" {
		t.Fatal(out)
	}
	played, err := c.Run(t.Context(), "heuristic-run")
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.Run(t.Context(), "grpo-7")
	if err != nil {
		t.Fatal(err)
	}
	run.Status = *played.Status.DeepCopy()
	run.Status.Agent, run.Status.Provenance.Seed = "External", nil
	if err := c.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := csenv(t, "run", "--follow", "grpo-7", "-o", "csv"); code != exitDone ||
		!strings.Contains(out, "grpo-7,run,grpo-7,40,") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if out := must(t, "results", "grpo-7"); !strings.Contains(out, "grpo-7: Completed, 40 of 40") ||
		strings.Contains(out, "seed") {
		t.Error(out)
	}
	var compared comparison
	if err := json.Unmarshal([]byte(must(t, "compare", "grpo-7", "heuristic-run", "-o", "json")),
		&compared); err != nil || compared.Same != 40 {
		t.Errorf("comparison with the same figures: %+v, %v", compared, err)
	}
	if out := must(t, "leaderboard"); !strings.Contains(out, "grpo-7") {
		t.Error(out)
	}
	if _, errs, code := csenv(t, "episodes", "grpo-7"); code != exitError ||
		!strings.Contains(errs, "trainers store the episodes of External runs") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// comparison is the part of the JSON of compare that the tests check.
type comparison struct {
	Scenarios, Better, Worse, Same int64
	Delta, Low                     string
}

// must runs a command and fails the test unless it exits with code 0.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := csenv(t, args...)
	if code != exitDone {
		t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
	}
	return out
}

func followed(t *testing.T) {
	out, errs, code := csenv(t, "run", "--follow", "noop-run", "-o", "csv")
	if code != exitDone || !strings.Contains(out, "noop-run,run,noop-run,40,0.0000") ||
		!strings.Contains(errs, "Completed: ") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func compared(t *testing.T) {
	out := must(t, "compare", "oracle-run", "heuristic-run", "-o", "json")
	var c comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	var a, b v1alpha1.EvaluationRun
	for name, run := range map[string]*v1alpha1.EvaluationRun{"oracle-run": &a, "heuristic-run": &b} {
		if err := json.Unmarshal([]byte(must(t, "results", name, "-o", "json")), run); err != nil {
			t.Fatal(err)
		}
	}
	// Each scenario was played once, so the mean difference is the difference of the means.
	if want := chart.ParseDecimal(a.Status.Score.Mean) - chart.ParseDecimal(b.Status.Score.Mean); c.Scenarios != 40 ||
		c.Better+c.Worse+c.Same != 40 || !near(chart.ParseDecimal(c.Delta), want) || chart.ParseDecimal(c.Low) <= 0 {
		t.Errorf("comparison = %+v, want a difference of %v", c, want)
	}
	text := must(t, "compare", "heuristic-run", "oracle-run")
	narrow(t, text)
	if !strings.Contains(text, "oracle-run is better (95 %") || !strings.Contains(text, "--all lists them") {
		t.Error(text)
	}
}

// A run whose table of scores is not the one that was counted is named and ranked nowhere.
func editedScores(t *testing.T, c apiUser) {
	t.Helper()
	table := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "noop-run-scores"}, table); err != nil {
		t.Fatal(err)
	}
	honest := table.Data[v1alpha1.ScoresKey]
	for name, text := range map[string]string{
		"better":     strings.ReplaceAll(honest, ",0.000000", ",1.000000"),
		"no table":   "x",
		"a row less": honest[:strings.LastIndex(strings.TrimSuffix(honest, "\n"), "\n")+1],
	} {
		if text == honest {
			t.Fatalf("%s: nothing was changed in\n%s", name, honest)
		}
		table.Data[v1alpha1.ScoresKey] = text
		if err := c.Update(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		out := must(t, "leaderboard", "-o", "csv")
		if strings.Count(out, "pool default/support") != 2 || !strings.Contains(out, "not ranked,,noop-run,Noop") ||
			!strings.Contains(out, "ConfigMap noop-run-scores") {
			t.Errorf("%s: %s", name, out)
		}
		if _, errs, code := csenv(t, "compare", "oracle-run", "noop-run"); code != exitError ||
			!strings.Contains(errs, "noop-run-scores") {
			t.Errorf("%s: compare has exit code %d: %s", name, code, errs)
		}
	}
	if err := c.Delete(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "leaderboard", "-o", "csv"); !strings.Contains(out, "ConfigMap noop-run-scores was deleted") {
		t.Errorf("without the table: %s", out)
	}
}

func near(a, b float64) bool { return a-b < 2e-4 && b-a < 2e-4 }

func ranked(t *testing.T) {
	out := must(t, "leaderboard")
	narrow(t, out)
	var names []string
	for line := range strings.SplitSeq(out, "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasSuffix(fields[1], "-run") {
			names = append(names, fields[0]+" "+fields[1])
		}
	}
	if want := []string{"1 oracle-run", "2 heuristic-run", "3 noop-run"}; !slices.Equal(names, want) {
		t.Errorf("ranks %v, want %v:\n%s", names, want, out)
	}
	if out := must(t, "leaderboard", "-l", "team=a", "-o", "csv"); strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, "oracle-run") {
		t.Error(out)
	}
	if out := must(t, "leaderboard", "-o", "markdown"); !strings.Contains(out, "| 1 | oracle-run | Oracle | 1.0000 |") {
		t.Error(out)
	}
}

func clusterErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown run": {[]string{"results", "heuristics"}, "there is no run heuristics in namespace default: " +
			"choose one of heuristic-run, noop-run, oracle-run"},
		"another namespace": {[]string{"results", "oracle-run", "-n", "other"},
			"run oracle-run is not in namespace other, but in default: choose that namespace with -n"},
		"a name twice": {[]string{"run", "--pool", "support", "--task", "ticket-classify", "--name", "oracle-run"},
			"run oracle-run already exists in namespace default"},
		"no such namespace": {[]string{"run", "--pool", "support", "--task", "ticket-classify", "-n", "nowhere"},
			"there is no namespace nowhere"},
		"no pool": {[]string{"run", "--task", "ticket-classify"}, "--pool is missing"},
		"no such pool": {[]string{"env", "status", "nope"},
			"there is no such pool in namespace default: choose one of empty, support"},
		"no episodes": {[]string{"episodes", "oracle-run"},
			"run oracle-run stores no episodes: create it again with spec.results"},
		"no labels":       {[]string{"leaderboard", "-l", "team=b"}, "no run in namespace default matches"},
		"a bad selector":  {[]string{"leaderboard", "-l", "=="}, "reading -l"},
		"both":            {[]string{"leaderboard", "-l", "a=b", "x"}, "names of runs or -l, not both"},
		"a wrong context": {[]string{"results", "x", "--context", "nope"}, "kubectl config get-contexts"},
		"a key without use": {[]string{"run", "--pool", "p", "--task", "refund", "--key-secret", "a/b"},
			"--key-secret is for --agent openai"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if out, errs, code := csenv(t, tt.args...); code != exitError || !strings.Contains(errs, tt.want) {
				t.Errorf("exit code %d, output %q, error %q; want it to contain %q", code, out, errs, tt.want)
			}
		})
	}
}

func TestNoCluster(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", empty)
	if _, errs, code := csenv(t, "results", "x"); code != exitError ||
		!strings.Contains(errs, "no cluster is configured: set --kubeconfig") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	config := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: " +
		"'http://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(empty, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := csenv(t, "results", "x"); code != exitError ||
		!strings.Contains(errs, "the cluster doesn't answer") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
