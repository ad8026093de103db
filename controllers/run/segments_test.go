package run

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/stats"
	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/score"
)

// envServer is a server of the pool, with the rollouts that a real server keeps.
type envServer struct {
	pod      string
	rollouts *ledger.Rollouts
	tag      string
	// opened is the number of episodes that no segment has, sealed the segment that waits for its
	// acknowledgement, with sealedOpened episodes. instance and number are those of the last segment.
	opened, sealedOpened, number, active int64
	sealed                               *score.Segment
	instance                             string
	// silent servers don't answer. Every answer of a deaf one is lost.
	silent, deaf, refuses bool
	asked                 []score.CollectRequest
	// forge, when set, changes the segments that are returned.
	forge func(*score.Segment)
}

// graderKind has the properties that a segment names.
type graderKind struct {
	episode.Kind
	version string
}

func (graderKind) ScenarioDigest() string  { return digestA }
func (k graderKind) GraderVersion() string { return k.version }
func (graderKind) Judge() string           { return "offline-v1" }

func newEnvServer(pod string) *envServer {
	e := &envServer{pod: pod, tag: runName}
	e.restart("1")
	return e
}

// restart replaces the server's process by one with another grader.
func (e *envServer) restart(grader string) {
	e.rollouts = ledger.NewRollouts(graderKind{version: grader}, e.pod, poolKey(), slog.New(slog.DiscardHandler))
}

// end counts the end of an episode.
func (e *envServer) end(t testing.TB, outcome score.Outcome, scenario string, points int64) {
	t.Helper()
	recorder, err := e.rollouts.Open(e.tag)
	if err == nil {
		_, err = recorder.Finish(score.PlannedEpisode{Task: "ticket-resolve", Scenario: scenario},
			score.Episode{Outcome: outcome, Score: points, Category: "billing", Difficulty: "easy", Language: "en",
				Dimensions: []score.Dimension{{Name: "reply", Earned: points / 1000, Offered: 1000}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	e.opened++
}

func (e *envServer) collect(request score.CollectRequest) (score.Segment, error) {
	e.asked = append(e.asked, request)
	if e.silent {
		return score.Segment{}, errors.New("no route to host")
	}
	if e.refuses {
		return score.Segment{}, fmt.Errorf("asking: %w", &stats.StatusError{Path: "/rollouts", Code: 404})
	}
	segment, err := e.rollouts.Collect(request)
	if err != nil {
		return segment, err
	}
	e.sealed = nil
	if segment.Ledger != nil {
		if e.instance != segment.Instance || e.number != segment.Number {
			e.sealedOpened, e.opened = e.opened, 0
		}
		e.sealed, e.instance, e.number = new(segment), segment.Instance, segment.Number
	}
	segment.Active = e.active
	if e.forge != nil {
		e.forge(&segment)
	}
	if e.deaf {
		return score.Segment{}, errors.New("the connection was reset")
	}
	return segment, nil
}

// resign changes a segment's ledger and signs it with another key.
func resign(s *score.Segment, key ed25519.PrivateKey, change func(*score.Ledger)) {
	changed, err := s.Ledger.Verify(poolKey().Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	change(changed)
	signed, err := changed.Sign(key)
	if err != nil {
		panic(err)
	}
	s.Ledger = &signed
}

// rolloutPool answers for servers by address.
type rolloutPool map[string]*envServer

func (p rolloutPool) Report(context.Context, string) (score.Report, error) { return offer(), nil }

func (p rolloutPool) Rollouts(_ context.Context, podIP string, question score.CollectRequest) (score.Segment, error) {
	return p[podIP].collect(question)
}

// trainers are an evaluation whose episodes they bring.
func trainers(episodes int64) *v1alpha1.EvaluationRun {
	run := newTestRun()
	run.Spec.Agent, run.Spec.Tasks = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}, nil
	if episodes > 0 {
		run.Spec.Agent.External = &v1alpha1.ExternalAgentSpec{Episodes: &episodes}
	}
	return run
}

// runningServer is a pod of the pool whose server can be asked.
func runningServer(name, ip string) *corev1.Pod {
	pod := server(name, ip)
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// trainingWorld has a run that collects from two servers.
func trainingWorld(t *testing.T, run *v1alpha1.EvaluationRun) (w *world, a, b *envServer) {
	t.Helper()
	w = newWorld(t, pool(), runningServer("support-a", "10.0.0.1"), runningServer("support-b", "10.0.0.2"), run)
	a, b = newEnvServer("support-a"), newEnvServer("support-b")
	w.r.pools = rolloutPool{"10.0.0.1": a, "10.0.0.2": b}
	w.mustPass()
	return w, a, b
}

func (w *world) wait(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) complete() metav1.Condition {
	for _, c := range w.run().Status.Conditions {
		if c.Type == v1alpha1.ConditionComplete {
			return c
		}
	}
	return metav1.Condition{}
}

func TestCollectionBegins(t *testing.T) {
	w, _, _ := trainingWorld(t, trainers(8))
	begun := w.run().Status
	if begun.Agent != "External" || begun.Progress != "0/8" || begun.StartTime == nil ||
		begun.Rollouts.Tag != runName || begun.Provenance.Seed != nil {
		t.Errorf("at the beginning: %+v", begun)
	}
	if c := w.complete(); c.Reason != v1alpha1.ReasonRunning || !strings.Contains(c.Message, `reset(run="baseline")`) ||
		!strings.Contains(c.Message, "0 of 8") {
		t.Errorf("Complete says %s: %s", c.Reason, c.Message)
	}
	if w.job() != nil {
		t.Error("there is a Job, and nobody to play it")
	}
}

func TestRolloutsFromTagToScore(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(8))
	a.end(t, score.Scored, "B01", 900_000)
	a.end(t, score.Scored, "B01", 800_000)
	a.end(t, score.Errored, "B02", 0)
	b.end(t, score.Failed, "S01", 100_000)
	b.active = 3
	if got := w.mustPass().RequeueAfter; got != collectInterval {
		t.Errorf("again in %s, want %s", got, collectInterval)
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
		last.PassScore != 800_000 || last.Tag != runName || last.Run != "run-uid" {
		t.Errorf("the next question is %+v", last)
	}
	if w.run().ResourceVersion != run.ResourceVersion {
		t.Error("a pass with nothing to count writes")
	}
}

// A run that has as many episodes as it wants leaves what the figures of any run are read from.
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
	if got, want := states(ended.Conditions), "EnvironmentReady=True/EnvironmentAvailable Complete=True/Completed "+
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
	if diff := cmp.Diff(&v1alpha1.Rollouts{Tag: runName}, ended.Rollouts); diff != "" {
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
	if !sums.Holds(tableOf(&table)) || sums.Scored != 9 || sums.Errored != 1 {
		t.Errorf("the sums %+v don't hold the table %s", sums, table.Data[v1alpha1.ScoresKey])
	}
}

// The end is told to whoever watches, and to the servers, which then wait for the run no longer.
func TestEndOfACollectionIsTold(t *testing.T) {
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
	if diff := cmp.Diff([]string{"Normal Started", "Normal Progress", "Normal Completed"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if got := testutil.ToFloat64(w.r.metrics.episodes.WithLabelValues("scored")); got != 10 {
		t.Errorf("%v scored episodes in the metric, want 10", got)
	}
	if got := testutil.ToFloat64(w.r.metrics.episodes.WithLabelValues("errored")); got != 1 {
		t.Errorf("%v errored episodes in the metric, want 1", got)
	}
	if last := a.asked[len(a.asked)-1]; !last.Done || last.Tag != runName || last.Run != "run-uid" || b.sealed != nil {
		t.Errorf("the last word to a server is %+v", last)
	}
	asked := len(a.asked)
	w.mustPass()
	if len(a.asked) != asked {
		t.Error("a run that has ended collects")
	}
}

// A run of another namespace's pool, which asks for a token, collects under a name that no run of
// the pool's own namespace has. A Job of its name is no concern of it.
func TestRolloutsOfAnotherNamespace(t *testing.T) {
	run := trainers(0)
	run.Spec.EnvironmentRef.Namespace = "shared"
	env, pod := pool(), runningServer("support-a", "10.0.0.1")
	env.Namespace, pod.Namespace = "shared", "shared"
	env.Spec.Access = v1alpha1.Access{AllowedNamespaces: v1alpha1.AllowedNamespaces{From: v1alpha1.AllNamespaces},
		TokenSecretRef: secretKey("tokens")}
	w := newWorld(t, env, pod, run, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: runName, Namespace: namespace}})
	a := newEnvServer("support-a")
	a.tag = "default/baseline"
	w.r.pools = rolloutPool{"10.0.0.1": a}
	w.mustPass()
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Rollouts.Tag != "default/baseline" || got.Progress != "1" || got.Episodes.Total != 1 {
		t.Errorf("tag %q, progress %q, %s", got.Rollouts.Tag, got.Progress, states(got.Conditions))
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
	if got := states(w.run().Status.Conditions); !strings.Contains(got, "Failed=True/NamespaceNotAllowed") ||
		len(a.asked) != asked || w.run().Status.Shards == nil {
		t.Errorf("%s, asked %d times more", got, len(a.asked)-asked)
	}
}

// What trainers bring is compared with a planned run of the same tasks.
func TestRolloutsAgainstABaseline(t *testing.T) {
	base := newTestRun()
	base.Name, base.UID = "before", "base-uid"
	base.Spec.Tasks = base.Spec.Tasks[1:]
	run := trainers(2)
	run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: "before"}
	w, a, _ := trainingWorld(t, run)
	var sums score.Accumulator
	theirs, table := score.Ledger{ScenarioDigest: digestA, GraderVersion: "1",
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
	w.create(base, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before-scores", Namespace: namespace,
		OwnerReferences: owners(base)}, Data: map[string]string{v1alpha1.ScoresKey: string(text)}})
	a.end(t, score.Scored, "B01", 1_000_000)
	a.end(t, score.Scored, "S01", 500_000)
	w.mustPass()
	if got := w.run().Status.Baseline; got == nil || got.Delta != "0.5000" || got.Scenarios != 2 || got.Message != "" {
		t.Errorf("compared: %+v", got)
	}
}

// Pods of a node that was started again can have each other's addresses, and the cache may not show
// it yet: a server's word counts for its own pod alone.
func TestAddressOfAnotherPod(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	swap := func() {
		addresses := w.r.pools.(rolloutPool)
		addresses["10.0.0.1"], addresses["10.0.0.2"] = addresses["10.0.0.2"], addresses["10.0.0.1"]
	}
	b.end(t, score.Scored, "B01", 1_000_000)
	b.active = 2
	swap()
	a.silent = true
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 0 || len(got.Rollouts.Servers) != 0 || b.sealed == nil {
		t.Errorf("what server b hands over at the address of server a: %+v, %+v", got.Episodes, got.Rollouts)
	}
	swap()
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 1 || len(got.Rollouts.Servers) != 1 ||
		got.Rollouts.Servers[0].Pod != "support-b" {
		t.Errorf("when it is asked at its own: %+v, %+v", got.Episodes, got.Rollouts)
	}
	if diff := cmp.Diff([]string{"Normal Started"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// What doesn't prove that the pool graded it for this run, or is in the figures, is not counted.
func TestSegmentsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		forge  func(s, first *score.Segment)
		reason string
	}{
		"another key": {func(s, _ *score.Segment) { resign(s, otherKey(), func(*score.Ledger) {}) },
			refusedSignature},
		"another run's":   {func(s, _ *score.Segment) { s.Instance = "instance-c" }, refusedForeign},
		"another number":  {func(s, _ *score.Segment) { s.Number++ }, refusedForeign},
		"a changed digit": {func(s, _ *score.Segment) { s.Ledger.Payload[0] ^= 1 }, refusedSignature},
		"counted before":  {func(s, first *score.Segment) { *s = *first }, refusedReplayed},
		"another pod's": {func(s, _ *score.Segment) {
			resign(s, poolKey(), func(l *score.Ledger) { l.Run = score.SegmentRun("run-uid", "support-c", s.Instance) })
		}, refusedForeign},
		"an impossible number": {func(s, _ *score.Segment) { s.Dropped = -1 }, refusedMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, b := trainingWorld(t, trainers(0))
			a.end(t, score.Scored, "B01", 1_000_000)
			w.mustPass()
			first := a.sealed
			w.mustPass()
			w.events()
			a.end(t, score.Scored, "B01", 1_000_000)
			b.end(t, score.Scored, "B01", 0)
			a.forge = func(s *score.Segment) { tc.forge(s, first) }
			w.mustPass()
			got := w.run().Status
			if got.Episodes.Scored != 2 || got.Score.Mean != "0.5000" {
				t.Errorf("%d episodes are counted with mean %s, want one of each server", got.Episodes.Scored,
					got.Score.Mean)
			}
			if diff := cmp.Diff([]string{"Warning RolloutsRefused"}, w.events()); diff != "" {
				t.Errorf("events: %s", diff)
			}
			if c := w.complete(); !strings.Contains(c.Message, "server support-a") {
				t.Errorf("Complete says %s", c.Message)
			}
			if n := testutil.ToFloat64(w.r.metrics.refused.WithLabelValues(tc.reason)); n != 1 {
				t.Errorf("%v segments refused as %s", n, tc.reason)
			}
		})
	}
}

// A number that was left out was acknowledged by something else: what came then counts, and that
// something is missing is told.
func TestMissingSegmentIsTold(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	another := score.CollectRequest{Tag: runName, Run: "another-uid", PassScore: 800_000}
	collectAs := func(request score.CollectRequest) {
		a.end(t, score.Scored, "B01", 1_000_000)
		if _, err := a.collect(request); err != nil {
			t.Fatal(err)
		}
	}
	collectAs(another)
	another.Instance, another.Ack = a.instance, 1
	collectAs(another)
	a.forge = func(s *score.Segment) { s.Dropped = 4 }
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 1 || got.Rollouts.Servers[0].Segment != 3 ||
		got.Rollouts.Dropped != 4 {
		t.Errorf("%+v, %+v", got.Episodes, got.Rollouts)
	}
	a.forge = nil
	another.Ack = 0
	collectAs(another)
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 2 || got.Rollouts.Servers[0].Segment != 5 {
		t.Errorf("%+v, %+v", got.Episodes, got.Rollouts)
	}
	if diff := cmp.Diff([]string{"Normal Started", "Warning RolloutsDropped", "Warning RolloutsMissing"},
		w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// A segment that somebody else had sealed with another pass score is missing, and is no other
// grader's.
func TestSegmentOfAnotherPassScore(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	a.end(t, score.Scored, "B01", 1_000_000)
	if _, err := a.collect(score.CollectRequest{Tag: runName, Run: "run-uid", PassScore: 1}); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 1 || got.Rollouts.Servers[0].Segment != 2 {
		t.Errorf("%+v, %+v, %s", got.Episodes, got.Rollouts, states(got.Conditions))
	}
	if diff := cmp.Diff([]string{"Normal Started", "Warning RolloutsMissing"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// Scores of two graders are never mixed, whoever tells first that the grader is another: the pool
// or a server. What was counted before stands.
func TestRolloutsOfAnotherGrader(t *testing.T) {
	for name, change := range map[string]func(w *world, a *envServer){
		"a server": func(_ *world, a *envServer) { a.restart("2") },
		"the pool": func(w *world, _ *envServer) {
			env := &v1alpha1.CustomerSupportEnv{}
			if err := w.client.Get(w.t.Context(), key(poolName), env); err != nil {
				w.t.Fatal(err)
			}
			env.Status.Judge = "model"
			if err := w.client.Status().Update(w.t.Context(), env); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, b := trainingWorld(t, trainers(0))
			b.end(t, score.Scored, "B01", 500_000)
			w.mustPass()
			change(w, a)
			a.end(t, score.Scored, "B01", 1_000_000)
			w.mustPass()
			got := w.run().Status
			if s := states(got.Conditions); !strings.Contains(s, "Failed=True/EnvironmentChanged") {
				t.Errorf("conditions %s", s)
			}
			if got.Shards == nil || got.Shards.Accumulator == "" || got.Rollouts.Ledger != "" {
				t.Errorf("the figures of what was counted can't be read: %+v", got.Shards)
			}
		})
	}
}

func TestRolloutsEndByDeadline(t *testing.T) {
	deadline := func(seconds int32) *v1alpha1.EvaluationRun {
		run := trainers(1000)
		run.Spec.ActiveDeadlineSeconds = &seconds
		return run
	}
	t.Run("with what there is", func(t *testing.T) {
		w, a, _ := trainingWorld(t, deadline(60))
		w.wait(59 * time.Second)
		if got := w.mustPass().RequeueAfter; got != time.Second {
			t.Errorf("again in %s, want 1s", got)
		}
		a.end(t, score.Scored, "B01", 1_000_000)
		w.wait(time.Second)
		w.mustPass()
		got := w.run().Status
		if s := states(got.Conditions); !strings.Contains(s, "Complete=True/CollectionEnded") ||
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
	t.Run("by hand, when a server answers at last", func(t *testing.T) {
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
		if got := w.run().Status; got.Episodes.Scored != 2 || !strings.Contains(states(got.Conditions),
			"Complete=True/CollectionEnded") {
			t.Errorf("%+v, %s", got.Episodes, states(got.Conditions))
		}
	})
	t.Run("with what waits while it is suspended", func(t *testing.T) {
		w, a, b := trainingWorld(t, deadline(60))
		a.end(t, score.Scored, "B01", 1_000_000)
		b.silent = true
		run := w.run()
		run.Spec.Suspend = new(true)
		if err := w.client.Update(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		w.mustPass()
		w.wait(time.Minute + collectPatience)
		w.mustPass()
		if got := w.run().Status; got.Episodes.Scored != 1 || !strings.Contains(states(got.Conditions),
			"Complete=True/CollectionEnded") {
			t.Errorf("%+v, %s", got.Episodes, states(got.Conditions))
		}
	})
	t.Run("though a server is gone for good", func(t *testing.T) {
		w, a, b := trainingWorld(t, deadline(60))
		a.end(t, score.Scored, "B01", 1_000_000)
		b.silent = true
		w.wait(time.Minute + collectPatience)
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
		t.Errorf("a suspended run asks %d times, and again in %s", len(a.asked), got)
	}
	if got := w.run().Status; got.Episodes.Scored != 0 || !strings.Contains(states(got.Conditions),
		"Suspended=True/Suspended Complete=False/Suspended") {
		t.Errorf("%+v, %s", got.Episodes, states(got.Conditions))
	}
	suspend(false)
	w.mustPass()
	if got := w.run().Status.Episodes.Scored; got != 1 {
		t.Errorf("%d episodes are counted after the pause, want 1", got)
	}
	if diff := cmp.Diff([]string{"Normal Started", "Normal Suspended", "Normal Resumed"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// A server that is going hears at once that its segment is counted. Its number is forgotten when it
// can't come back, and not when the cache alone doesn't show it.
func TestServersThatGo(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	pod := runningServer("support-a", "10.0.0.1")
	pod.Finalizers = []string{"example.com/hold"}
	if err := w.client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	a.end(t, score.Scored, "B01", 1_000_000)
	a.active = 1
	if got := w.mustPass().RequeueAfter; got != collectInterval {
		t.Errorf("a server that is going and plays on hears again in %s, want %s", got, collectInterval)
	}
	a.end(t, score.Scored, "B01", 1_000_000)
	a.active = 0
	if got := w.mustPass().RequeueAfter; got != acknowledgeDelay {
		t.Errorf("a server that is going hears again in %s, want %s", got, acknowledgeDelay)
	}
	if got := w.mustPass().RequeueAfter; got != collectInterval || a.sealed != nil {
		t.Errorf("again in %s, sealed %v", got, a.sealed)
	}
	w.unlisted = "support-a"
	w.mustPass()
	if got := w.run().Status.Rollouts.Servers; len(got) != 1 {
		t.Errorf("the number of a server that lives is forgotten: %+v", got)
	}
	w.unlisted = ""
	if err := w.client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if got := w.run().Status.Rollouts.Servers; len(got) != 0 {
		t.Errorf("the number of a server that is gone is kept: %+v", got)
	}
}

// Sums that don't fit into the status end the run with what was counted before.
func TestLedgerTooLarge(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	for i := range 2600 {
		[]*envServer{a, b}[i%2].end(t, score.Scored, fmt.Sprintf("a-scenario-of-a-name-as-long-%04d", i), 1_000_000)
	}
	w.mustPass()
	got := w.run().Status
	if s := states(got.Conditions); !strings.Contains(s, "Failed=True/LedgerTooLarge") || got.Episodes.Scored != 1 ||
		got.Shards == nil {
		t.Errorf("%s, %+v", s, got.Episodes)
	}
}

// A server that answers with an error, for its image is older, say, is told from one that is just
// not there.
func TestServerThatHandsNothingOver(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	a.refuses, b.silent = true, true
	w.mustPass()
	if c := w.complete(); c.Reason != v1alpha1.ReasonRunning ||
		!strings.Contains(c.Message, "Server support-a returns no segment: asking: /rollouts returned status 404") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}

// A pool of which nobody answers takes time from the passes of other runs, so it is asked less
// often.
func TestSilentPoolIsAskedLess(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	a.silent = true
	if got := w.mustPass().RequeueAfter; got != collectInterval {
		t.Errorf("with a server that answers, again in %s, want %s", got, collectInterval)
	}
	b.silent = true
	if got := w.mustPass().RequeueAfter; got != silentInterval {
		t.Errorf("with none, again in %s, want %s", got, silentInterval)
	}
}

// unreachablePool has servers whose packets are swallowed, but for one.
type unreachablePool struct {
	rolloutPool
	reachable *corev1.Pod
	asked     *atomic.Int64
}

func (p unreachablePool) Rollouts(ctx context.Context, podIP string, _ score.CollectRequest) (score.Segment, error) {
	if ctx.Err() == nil {
		p.asked.Add(1)
	}
	if podIP == p.reachable.Status.PodIP {
		return score.Segment{Pod: p.reachable.Name}, ctx.Err()
	}
	<-ctx.Done()
	return score.Segment{}, ctx.Err()
}

// Servers that don't answer keep no other from being asked: one that is going is asked whatever the
// others do, and of the largest pool each.
func TestSilentServersKeepNoOtherFromBeingAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		servers int
		going   bool
	}{"one that is going": {maxServers, true}, "any": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers []segmentReply
				for i := range tc.servers {
					servers = append(servers, segmentReply{pod: runningServer(fmt.Sprintf("support-%04d", i),
						fmt.Sprint(i))})
				}
				last := &servers[tc.servers-1]
				if tc.going {
					last.pod.DeletionTimestamp = new(metav1.Now())
				}
				pool := unreachablePool{reachable: last.pod, asked: &atomic.Int64{}}
				r := &Reconciler{pools: pool, clock: clock.RealClock{}}
				began := time.Now()
				r.request(t.Context(), servers, func(string) score.CollectRequest { return score.CollectRequest{} })
				if asked := pool.asked.Load(); last.err != nil || asked < 1000 || time.Since(began) > requestBudget {
					t.Errorf("it is asked with %v, and %d in all in %s", last.err, asked, time.Since(began))
				}
			})
		})
	}
}

// A pass with an old view of a run that has ended leaves its table alone, which has other episodes
// by then, and has the servers wait for nobody.
func TestOldViewOfARunThatHasEnded(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(4))
	a.end(t, score.Scored, "B01", 900_000)
	w.mustPass()
	old := w.run()
	for range 3 {
		b.end(t, score.Scored, "S01", 800_000)
	}
	w.mustPass()
	before := w.run()
	var want, got corev1.ConfigMap
	if err := w.client.Get(t.Context(), key(before.Status.ScoresRef.Name), &want); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		a.end(t, score.Failed, "T01", 0)
	}
	w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
		run, ok := object.(*v1alpha1.EvaluationRun)
		if ok {
			old.DeepCopyInto(run)
		}
		return ok, nil
	}
	if again := w.mustPass().RequeueAfter; again != pods.ConflictDelay {
		t.Errorf("again in %s, want %s", again, pods.ConflictDelay)
	}
	if err := w.client.Get(t.Context(), key(want.Name), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Data, got.Data); diff != "" || w.run().ResourceVersion != before.ResourceVersion {
		t.Errorf("the table or the run has changed: %s", diff)
	}
	if last := a.asked[len(a.asked)-1]; !last.Done {
		t.Errorf("the last word to a server is %+v", last)
	}
}

// directReads counts the questions past the cache.
type directReads struct {
	client.Reader
	count int
}

func (r *directReads) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	r.count++
	return r.Reader.Get(ctx, key, object, options...)
}

// While trainers play, nothing is read past the cache: not even what is only needed at the end.
func TestCollectingReadsTheCache(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(8))
	direct := &directReads{Reader: w.r.direct}
	w.r.direct = direct
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status.Progress; got != "1/8" || direct.count > 0 {
		t.Errorf("progress %s, with %d reads past the cache", got, direct.count)
	}
}

func TestTamperedRolloutsFailTheRun(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EvaluationRunStatus){
		"no rollouts":    func(s *v1alpha1.EvaluationRunStatus) { s.Rollouts = nil },
		"another ledger": func(s *v1alpha1.EvaluationRunStatus) { s.Rollouts.Ledger = "AAAA" },
		"no base64":      func(s *v1alpha1.EvaluationRunStatus) { s.Rollouts.Ledger = "!" },
		"another key":    func(s *v1alpha1.EvaluationRunStatus) { s.Rollouts.LedgerKey = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := trainingWorld(t, trainers(0))
			run := w.run()
			change(&run.Status)
			if err := w.client.Status().Update(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			w.mustPass()
			if c := w.complete(); c.Reason != v1alpha1.ReasonSummaryRefused ||
				!strings.Contains(c.Message, "changed by hand") {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
		})
	}
}

// Episodes end, answers are lost, operators crash around every write and see old views, servers are
// started again, drained and replaced, and their addresses swapped: nothing is ever counted twice,
// and nothing is lost but what the servers that were killed took along. A run that has ended stays
// as it is, and so does its table.
func TestRolloutsCountOnceWhateverHappens(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			run := trainers(int64(seed%2) * 12)
			run.Spec.Retries.MaxErroredPercent = new(int32(100))
			w, a, b := trainingWorld(t, run)
			story := &rolloutStory{world: w, random: random, servers: []*envServer{a, b}}
			for range 100 {
				story.step()
				story.check()
			}
			story.collectRest()
		})
	}
}

// rolloutStory is a random course of events.
type rolloutStory struct {
	*world
	random  *rand.Rand
	servers []*envServer
	views   []*v1alpha1.EvaluationRun
	made    int
	// played counts the episodes that have ended, lost those of them that went with their servers.
	played, lost int64
	// end is the run as it ended, and table what it left.
	end   *v1alpha1.EvaluationRun
	table map[string]string
}

func (s *rolloutStory) step() {
	e := s.servers[s.random.IntN(len(s.servers))]
	switch s.random.IntN(10) {
	case 0, 1, 2:
		outcome := []score.Outcome{score.Scored, score.Failed, score.Errored}[s.random.IntN(3)]
		e.end(s.t, outcome, []string{"B01", "B02", "S01"}[s.random.IntN(3)], s.random.Int64N(score.One+1))
		s.played++
	case 3:
		s.lose(e)
		s.replace(e, e.pod)
	case 4:
		s.drain(e)
	case 5:
		pool := s.r.pools.(rolloutPool)
		pool["10.0.0.1"], pool["10.0.0.2"] = pool["10.0.0.2"], pool["10.0.0.1"]
	default:
		s.faultyPass()
	}
}

// check compares what is counted with what may be, until the run has ended, and then the run with
// what it was.
func (s *rolloutStory) check() {
	run := s.run()
	if s.end != nil {
		if diff := cmp.Diff(s.end, run) + cmp.Diff(s.table, s.scores(run).Data); diff != "" {
			s.t.Fatalf("a run that has ended changes: %s", diff)
		}
		return
	}
	if got := inFigures(run); got > s.played-s.lost {
		s.t.Fatalf("%d episodes are counted of %d, %d of which are lost", got, s.played, s.lost)
	}
	if !ended(run.Status.Conditions) {
		return
	}
	var sums score.Accumulator
	scores := s.scores(run)
	if err := sums.UnmarshalText([]byte(run.Status.Shards.Accumulator)); err != nil || !sums.Holds(tableOf(scores)) {
		s.t.Fatalf("the sums %+v don't hold the table %s: %v", sums, scores.Data[v1alpha1.ScoresKey], err)
	}
	s.end, s.table = run, scores.Data
}

func (s *rolloutStory) scores(run *v1alpha1.EvaluationRun) *corev1.ConfigMap {
	var table corev1.ConfigMap
	if err := s.client.Get(s.t.Context(), key(run.Status.ScoresRef.Name), &table); err != nil {
		s.t.Fatal(err)
	}
	return &table
}

func inFigures(run *v1alpha1.EvaluationRun) int64 {
	e := run.Status.Episodes
	return e.Scored + e.Failed + e.Errored
}

// lose counts what a server takes along: what has ended there and is not in the status.
func (s *rolloutStory) lose(e *envServer) {
	s.lost += e.opened
	if e.sealed == nil {
		return
	}
	for _, known := range s.run().Status.Rollouts.Servers {
		if known.Pod == e.pod && known.Instance == e.instance && known.Segment >= e.sealed.Number {
			return
		}
	}
	s.lost += e.sealedOpened
}

// replace has a server begin anew, in its pod or another.
func (s *rolloutStory) replace(e *envServer, pod string) {
	s.made++
	*e = *newEnvServer(pod)
}

// drain tells a server to go, and puts another into the place of one that was told and has nothing
// more to hand over.
func (s *rolloutStory) drain(e *envServer) {
	var pod corev1.Pod
	if err := s.client.Get(s.t.Context(), key(e.pod), &pod); err != nil {
		s.t.Fatal(err)
	}
	finalizers := `["example.com/hold"]`
	going := !pod.DeletionTimestamp.IsZero()
	if going && (e.sealed != nil || e.opened > 0) {
		return
	}
	if going {
		finalizers = "null"
	}
	if err := s.client.Patch(s.t.Context(), &pod, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`))); err != nil {
		s.t.Fatal(err)
	}
	if going {
		s.replace(e, fmt.Sprintf("support-%d", s.made))
		s.create(runningServer(e.pod, pod.Status.PodIP))
	} else if err := s.client.Delete(s.t.Context(), &pod); err != nil {
		s.t.Fatal(err)
	}
}

// faultyPass is a pass with lost answers, a crash or an old view of the run.
func (s *rolloutStory) faultyPass() {
	for _, e := range s.servers {
		e.silent, e.deaf = s.random.IntN(6) == 0, s.random.IntN(4) == 0
	}
	if s.random.IntN(8) == 0 {
		s.unlisted = s.servers[0].pod
	}
	s.views = append(s.views, s.run())
	if s.random.IntN(3) == 0 {
		old := s.views[max(0, len(s.views)-1-s.random.IntN(8))]
		s.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
			run, ok := object.(*v1alpha1.EvaluationRun)
			if ok {
				old.DeepCopyInto(run)
			}
			return ok, nil
		}
	}
	switch s.random.IntN(5) {
	case 0:
		s.fault = func(string, func() error) error { return errCrash }
	case 1:
		s.fault = func(_ string, do func() error) error { return errors.Join(do(), errCrash) }
	}
	if _, err := s.pass(); err != nil && !errors.Is(err, errCrash) {
		s.t.Fatal(err)
	}
	s.read, s.fault, s.unlisted = nil, nil, ""
	s.events()
}

// collectRest collects what is left without faults, and compares.
func (s *rolloutStory) collectRest() {
	for _, e := range s.servers {
		e.silent, e.deaf = false, false
	}
	s.r.pools = rolloutPool{"10.0.0.1": s.servers[0], "10.0.0.2": s.servers[1]}
	for range 3 {
		s.mustPass()
		s.check()
	}
	if s.end != nil {
		return
	}
	run := s.run()
	if got := inFigures(run); got != s.played-s.lost {
		s.t.Errorf("%d episodes are counted of %d, %d of which are lost", got, s.played, s.lost)
	}
	for _, e := range s.servers {
		if e.sealed != nil || e.opened > 0 {
			s.t.Errorf("server %s isn't settled", e.pod)
		}
	}
	if refused := testutil.ToFloat64(s.r.metrics.refused.WithLabelValues(refusedReplayed)); refused > 0 {
		s.t.Errorf("%v segments were handed over again", refused)
	}
	if got := ptr.Deref(run.Status.Rollouts, v1alpha1.Rollouts{}); len(got.Servers) > 2 || got.Dropped != 0 {
		s.t.Errorf("%+v", got)
	}
}
