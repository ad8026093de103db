package run

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

func TestCollectionBegins(t *testing.T) {
	w, _, _ := trainingWorld(t, trainers(8))
	begun := w.run().Status
	if begun.Agent != "External" || begun.Progress != "0/8" || begun.StartTime == nil ||
		begun.Rollouts.Tag != runtest.RunName || begun.Provenance.Seed != nil {
		t.Errorf("at the beginning: %+v", begun)
	}
	if c := w.complete(); c.Reason != v1alpha1.ReasonRunning || !strings.Contains(c.Message, `reset(run="baseline")`) ||
		!strings.Contains(c.Message, "0 of 8") {
		t.Errorf("Complete says %s: %s", c.Reason, c.Message)
	}
	if w.job() != nil {
		t.Error("a run of type External has a Job")
	}
}

func TestRolloutsFromTagToScore(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(8))
	a.end(t, score.Scored, "B01", 900_000)
	a.end(t, score.Scored, "B01", 800_000)
	a.end(t, score.Errored, "B02", 0)
	b.end(t, score.Failed, "S01", 100_000)
	b.active = 3
	if got := w.mustPass().RequeueAfter; got != rules.CollectInterval {
		t.Errorf("again in %s, want %s", got, rules.CollectInterval)
	}
	run := w.run()
	if diff := cmp.Diff(&v1alpha1.RunEpisodes{Total: 8, Scored: 2, Failed: 1, Errored: 1, Active: new(int64(3))},
		run.Status.Episodes); diff != "" {
		t.Error(diff)
	}
	if run.Status.Progress != "4/8" || run.Status.Score.Mean != "0.6000" || run.Status.PassRate != "0.6667" ||
		run.Status.EstimatedCompletionTime == nil {
		t.Errorf("%+v, score %+v", run.Status, run.Status.Score)
	}
	want := []v1alpha1.RolloutServer{{Pod: "support-a", Instance: a.instance, Segment: 1},
		{Pod: "support-b", Instance: b.instance, Segment: 1}}
	if diff := cmp.Diff(want, run.Status.Rollouts.Servers); diff != "" {
		t.Error(diff)
	}

	w.mustPass()
	if last := a.asked[len(a.asked)-1]; a.sealed != nil || last.Ack != 1 || last.Instance != a.instance ||
		last.PassScore != 800_000 || last.Tag != runtest.RunName || last.Run != "run-uid" {
		t.Errorf("the next request is %+v", last)
	}
	if w.run().ResourceVersion != run.ResourceVersion {
		t.Error("a pass without new episodes writes")
	}
}

// A run that has reached its number of episodes has the same data for figures as any other run.
func TestRolloutsReachTheirGoal(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(8))
	a.end(t, score.Errored, "B02", 0)
	a.end(t, score.Scored, "B01", 900_000)
	b.end(t, score.Failed, "S01", 100_000)
	b.end(t, score.Scored, "S01", 800_000)
	w.mustPass()
	for range 7 {
		b.end(t, score.Scored, "T01", 1_000_000)
	}
	w.mustPass()
	ended := w.run().Status
	if got, want := runtest.FormatConditions(ended.Conditions), "EnvironmentReady=True/EnvironmentAvailable Complete=True/Completed "+
		"Failed=False/NotFailed"; got != want {
		t.Fatalf("conditions %s, want %s", got, want)
	}
	if diff := cmp.Diff(&v1alpha1.RunEpisodes{Total: 11, Scored: 9, Failed: 1, Errored: 1},
		ended.Episodes); diff != "" {
		t.Error(diff)
	}
	if ended.Progress != "11/11" || ended.Shards.Total != 1 || ended.Shards.CompletedIndexes != "0" ||
		ended.ScoresRef == nil || ended.CompletionTime == nil {
		t.Errorf("at the end: %+v", ended)
	}
	if diff := cmp.Diff(&v1alpha1.Rollouts{Tag: runtest.RunName}, ended.Rollouts); diff != "" {
		t.Error(diff)
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(ended.Shards.Accumulator)); err != nil {
		t.Fatal(err)
	}
	var table corev1.ConfigMap
	if err := w.client.Get(t.Context(), key(ended.ScoresRef.Name), &table); err != nil {
		t.Fatal(err)
	}
	if !sums.Holds(tally.ReadTable(&table)) || sums.Scored != 9 || sums.Errored != 1 {
		t.Errorf("the sums %+v don't hold the table %s", sums, table.Data[v1alpha1.ScoresKey])
	}
}

// The end is reported by an event and to the servers, which then wait for the run no longer.
func TestEndOfACollectionIsReported(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(8))
	for range 4 {
		a.end(t, score.Scored, "B01", 900_000)
	}
	w.mustPass()
	for range 6 {
		b.end(t, score.Scored, "T01", 1_000_000)
	}
	b.end(t, score.Errored, "T01", 0)
	w.mustPass()
	if got := w.events(); len(got) > 0 {
		t.Errorf("events: %s", got)
	}
	if got := testutil.ToFloat64(w.r.metrics.episodes.WithLabelValues("scored")); got != 10 {
		t.Errorf("%v scored episodes in the metric, want 10", got)
	}
	if got := testutil.ToFloat64(w.r.metrics.episodes.WithLabelValues("errored")); got != 1 {
		t.Errorf("%v errored episodes in the metric, want 1", got)
	}
	if last := a.asked[len(a.asked)-1]; !last.Done || last.Tag != runtest.RunName || last.Run != "run-uid" || b.sealed != nil {
		t.Errorf("the last request to a server is %+v", last)
	}
	asked := len(a.asked)
	w.mustPass()
	if len(a.asked) != asked {
		t.Error("a run that has ended collects")
	}
}

// A run that uses another namespace's pool with a token collects under a tag that no run of the
// pool's namespace has. A Job with its name doesn't matter.
func TestRolloutsOfAnotherNamespace(t *testing.T) {
	run := trainers(0)
	run.Spec.EnvironmentRef.Namespace = "shared"
	env, pod := runtest.NewPool(), runtest.RunningServer("support-a", "10.0.0.1")
	env.Namespace, pod.Namespace = "shared", "shared"
	env.Spec.Access = v1alpha1.Access{AllowedNamespaces: v1alpha1.AllowedNamespaces{From: v1alpha1.AllNamespaces},
		TokenSecretRef: runtest.SecretKey("tokens")}
	w := newWorld(t, env, pod, run, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runtest.Namespace}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: runtest.RunName, Namespace: runtest.Namespace}})
	a := newEnvServer("support-a")
	a.tag = "default/baseline"
	w.r.reader.Pools = rolloutPool{"10.0.0.1": a}
	w.mustPass()
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Rollouts.Tag != "default/baseline" || got.Progress != "1" || got.Episodes.Total != 1 {
		t.Errorf("tag %q, progress %q, %s", got.Rollouts.Tag, got.Progress, runtest.FormatConditions(got.Conditions))
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(env), env); err != nil {
		t.Fatal(err)
	}
	env.Spec.Access.AllowedNamespaces.From = v1alpha1.SameNamespace
	if err := w.client.Update(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	asked := len(a.asked)
	w.mustPass()
	if got := runtest.FormatConditions(w.run().Status.Conditions); !strings.Contains(got, "Failed=True/NamespaceNotAllowed") ||
		len(a.asked) != asked || w.run().Status.Shards == nil {
		t.Errorf("%s, %d more requests", got, len(a.asked)-asked)
	}
}

// Trainers' episodes are compared with a planned run of the same tasks.
func TestRolloutsAgainstABaseline(t *testing.T) {
	base := runtest.NewRun()
	base.Name, base.UID = "before", "base-uid"
	base.Spec.Tasks = base.Spec.Tasks[1:]
	run := trainers(2)
	run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: "before"}
	w, a, _ := trainingWorld(t, run)
	var sums score.Accumulator
	theirs, table := score.Ledger{ScenarioDigest: runtest.DigestA, GraderVersion: "1",
		Judge: "offline-v1"}, &score.ScenarioTable{}
	for _, scenario := range []string{"B01", "S01"} {
		if err := theirs.Add(score.PlannedEpisode{Task: "ticket-resolve", Scenario: scenario},
			score.Episode{Outcome: score.Scored, Score: 250_000}); err != nil {
			t.Fatal(err)
		}
	}
	sums.Fold(&theirs)
	table.Fold(&theirs)
	text, err := table.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	base.Status = v1alpha1.EvaluationRunStatus{
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue,
			Reason: v1alpha1.ReasonCompleted}},
		Provenance: w.run().Status.Provenance, ScoresRef: &v1alpha1.ObjectReference{Name: "before-scores"},
		Episodes: &v1alpha1.RunEpisodes{Total: 2}, Shards: &v1alpha1.Shards{Total: 1},
	}
	evaluation.WriteFigures(&base.Status, sums, score.IndexSet{})
	w.create(base, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before-scores", Namespace: runtest.Namespace,
		OwnerReferences: runner.MakeMeta(base, "").OwnerReferences}, Data: map[string]string{v1alpha1.ScoresKey: string(text)}})
	a.end(t, score.Scored, "B01", 1_000_000)
	a.end(t, score.Scored, "S01", 500_000)
	w.mustPass()
	if got := w.run().Status.Baseline; got == nil || got.Delta != "0.5000" || got.Scenarios != 2 || got.Message != "" {
		t.Errorf("compared: %+v", got)
	}
}

func TestRolloutsEndByDeadline(t *testing.T) {
	deadline := func(seconds int32) *v1alpha1.EvaluationRun {
		run := trainers(1000)
		run.Spec.ActiveDeadlineSeconds = &seconds
		return run
	}
	t.Run("with the collected episodes", func(t *testing.T) {
		w, a, _ := trainingWorld(t, deadline(60))
		w.wait(59 * time.Second)
		if got := w.mustPass().RequeueAfter; got != time.Second {
			t.Errorf("again in %s, want 1s", got)
		}
		a.end(t, score.Scored, "B01", 1_000_000)
		w.wait(time.Second)
		w.mustPass()
		got := w.run().Status
		if s := runtest.FormatConditions(got.Conditions); !strings.Contains(s, "Complete=True/CollectionEnded") ||
			got.Progress != "1/1000" || got.ScoresRef == nil {
			t.Errorf("%s, progress %s", s, got.Progress)
		}
	})
	t.Run("with nothing", func(t *testing.T) {
		w, _, _ := trainingWorld(t, deadline(60))
		w.wait(time.Minute)
		w.mustPass()
		if c := w.complete(); c.Reason != v1alpha1.ReasonDeadlineExceeded ||
			!strings.Contains(c.Message, `reset(run="baseline")`) {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
	})
	t.Run("by an edited deadline, after a server answers again", func(t *testing.T) {
		w, a, b := trainingWorld(t, trainers(0))
		a.end(t, score.Scored, "B01", 1_000_000)
		b.end(t, score.Scored, "B01", 0)
		b.silent = true
		w.wait(time.Hour)
		run := w.run()
		run.Spec.ActiveDeadlineSeconds = new(int32(3590))
		if err := w.client.Update(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		w.mustPass()
		if c := w.complete(); c.Status != metav1.ConditionFalse {
			t.Errorf("the run ends without server b: %s", c.Message)
		}
		b.silent = false
		w.mustPass()
		if got := w.run().Status; got.Episodes.Scored != 2 || !strings.Contains(runtest.FormatConditions(got.Conditions),
			"Complete=True/CollectionEnded") {
			t.Errorf("%+v, %s", got.Episodes, runtest.FormatConditions(got.Conditions))
		}
	})
	t.Run("with the remaining segments of a suspended run", func(t *testing.T) {
		w, a, b := trainingWorld(t, deadline(60))
		a.end(t, score.Scored, "B01", 1_000_000)
		b.silent = true
		run := w.run()
		run.Spec.Suspend = new(true)
		if err := w.client.Update(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		w.mustPass()
		w.wait(time.Minute + rules.CollectPatience)
		w.mustPass()
		if got := w.run().Status; got.Episodes.Scored != 1 || !strings.Contains(runtest.FormatConditions(got.Conditions),
			"Complete=True/CollectionEnded") {
			t.Errorf("%+v, %s", got.Episodes, runtest.FormatConditions(got.Conditions))
		}
	})
	t.Run("although a server is lost", func(t *testing.T) {
		w, a, b := trainingWorld(t, deadline(60))
		a.end(t, score.Scored, "B01", 1_000_000)
		b.silent = true
		w.wait(time.Minute + rules.CollectPatience)
		w.mustPass()
		if c := w.complete(); c.Status != metav1.ConditionTrue {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
	})
	t.Run("with too many errored", func(t *testing.T) {
		w, a, _ := trainingWorld(t, deadline(60))
		a.end(t, score.Scored, "B01", 1_000_000)
		a.end(t, score.Errored, "B01", 0)
		w.mustPass()
		if c := w.complete(); c.Reason != v1alpha1.ReasonRunning {
			t.Errorf("before its end: %s", c.Reason)
		}
		w.wait(time.Minute)
		w.mustPass()
		if c := w.complete(); c.Reason != v1alpha1.ReasonTooManyErrored ||
			!strings.Contains(c.Message, "1 of 2 episodes errored") {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
	})
}

func TestSuspendedRunCollectsNothing(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	suspend := func(suspend bool) {
		run := w.run()
		run.Spec.Suspend = &suspend
		if err := w.client.Update(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	a.end(t, score.Scored, "B01", 1_000_000)
	suspend(true)
	if got := w.mustPass().RequeueAfter; got != 0 || len(a.asked) != 0 {
		t.Errorf("a suspended run made %d requests, requeued after %s", len(a.asked), got)
	}
	if got := w.run().Status; got.Episodes.Scored != 0 || !strings.Contains(runtest.FormatConditions(got.Conditions),
		"Suspended=True/Suspended Complete=False/Suspended") {
		t.Errorf("%+v, %s", got.Episodes, runtest.FormatConditions(got.Conditions))
	}
	suspend(false)
	w.mustPass()
	if got := w.run().Status.Episodes.Scored; got != 1 {
		t.Errorf("%d episodes are counted after the pause, want 1", got)
	}
	if diff := cmp.Diff([]string{"Normal Suspended", "Normal Resumed"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// A server that is killed while it plays is named, with a bound of what was lost. One that drains
// or has nothing to lose is not.
func TestLostServersAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(w *world, a *envServer, pod *corev1.Pod)
		lost int64
	}{
		"it is killed": {func(w *world, _ *envServer, pod *corev1.Pod) {
			w.remove(pod, pod.Name)
		}, 5},
		"it restarts": {func(_ *world, a *envServer, _ *corev1.Pod) { *a = *newEnvServer(a.pod) }, 5},
		"it is idle when it is killed": {func(w *world, a *envServer, pod *corev1.Pod) {
			a.active = 0
			w.mustPass()
			w.remove(pod, pod.Name)
		}, 0},
		"it drains": {func(w *world, _ *envServer, pod *corev1.Pod) {
			pod.Finalizers = []string{"example.com/hold"}
			if err := w.client.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.remove(pod, pod.Name)
			w.mustPass()
			pod = &corev1.Pod{}
			if err := w.client.Get(t.Context(), key("support-a"), pod); err != nil {
				t.Fatal(err)
			}
			pod.Finalizers = nil
			if err := w.client.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, _ := trainingWorld(t, trainers(0))
			a.end(t, score.Scored, "B01", 900_000)
			a.end(t, score.Scored, "B01", 900_000)
			a.active = 3
			w.mustPass()
			w.mustPass()
			w.events()
			pod := &corev1.Pod{}
			if err := w.client.Get(t.Context(), key("support-a"), pod); err != nil {
				t.Fatal(err)
			}
			tc.end(w, a, pod)
			for range 3 {
				w.mustPass()
			}
			var want []string
			if tc.lost > 0 {
				want = []string{"Warning RolloutsLost"}
			}
			if diff := cmp.Diff(want, w.events()); diff != "" || w.run().Status.Rollouts.Lost != tc.lost {
				t.Errorf("events %s, lost %d", diff, w.run().Status.Rollouts.Lost)
			}
		})
	}
}
