package run

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// After the restart of a node, pods may have exchanged their addresses while the cache is stale. A
// server's segment counts only for its own pod.
func TestAddressOfAnotherPod(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	swap := func() {
		addresses := w.r.reader.Pools.(rolloutPool)
		addresses["10.0.0.1"], addresses["10.0.0.2"] = addresses["10.0.0.2"], addresses["10.0.0.1"]
	}
	b.end(t, score.Scored, "B01", 1_000_000)
	b.active = 2
	swap()
	a.silent = true
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 0 || len(got.Rollouts.Servers) != 0 || b.sealed == nil {
		t.Errorf("the segment of server b at the address of server a: %+v, %+v", got.Episodes, got.Rollouts)
	}
	swap()
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 1 || len(got.Rollouts.Servers) != 1 ||
		got.Rollouts.Servers[0].Pod != "support-b" {
		t.Errorf("at its own address: %+v, %+v", got.Episodes, got.Rollouts)
	}
	if got := w.events(); len(got) > 0 {
		t.Errorf("events %v", got)
	}
}

// A segment is not counted without a proof that the pool graded it for this run, or if it has been
// counted.
func TestSegmentsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		forge  func(s, first *score.Segment)
		reason string
	}{
		"another key": {func(s, _ *score.Segment) { resign(s, runtest.OtherKey(), func(*score.Ledger) {}) },
			tally.RefusedSignature},
		"another run's":   {func(s, _ *score.Segment) { s.Instance = "instance-c" }, tally.RefusedForeign},
		"another number":  {func(s, _ *score.Segment) { s.Number++ }, tally.RefusedForeign},
		"a changed digit": {func(s, _ *score.Segment) { s.Ledger.Payload[0] ^= 1 }, tally.RefusedSignature},
		"counted before":  {func(s, first *score.Segment) { *s = *first }, tally.RefusedReplayed},
		"another pod's": {func(s, _ *score.Segment) {
			resign(s, runtest.PoolKey(), func(l *score.Ledger) {
				l.Run = score.SegmentRun("run-uid", "support-c", s.Instance)
			})
		}, tally.RefusedForeign},
		"an impossible number": {func(s, _ *score.Segment) { s.Dropped = -1 }, tally.RefusedMalformed},
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

// A gap in the numbers means that something else acknowledged a segment. The next segment counts,
// and the gap is reported.
func TestMissingSegmentIsReported(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	another := score.CollectRequest{Tag: runtest.RunName, Run: "another-uid", PassScore: 800_000}
	collectAs := func(request score.CollectRequest) {
		a.end(t, score.Scored, "B01", 1_000_000)
		if _, err := a.collect(request); err != nil {
			t.Fatal(err)
		}
	}
	collectAs(another)
	another.Instance, another.Ack = a.instance, 1
	collectAs(another)
	a.forge = func(s *score.Segment) { s.Dropped, s.Forked = 4, 5 }
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 1 || got.Rollouts.Servers[0].Segment != 3 ||
		got.Rollouts.Dropped != 4 || got.Rollouts.Forked != 5 {
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
	if diff := cmp.Diff([]string{"Warning RolloutsDropped", "Warning RolloutsMissing"},
		w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// A segment that was sealed with another pass score counts as missing, not as one of another
// grader.
func TestSegmentOfAnotherPassScore(t *testing.T) {
	w, a, _ := trainingWorld(t, trainers(0))
	a.end(t, score.Scored, "B01", 1_000_000)
	if _, err := a.collect(score.CollectRequest{Tag: runtest.RunName, Run: "run-uid", PassScore: 1}); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	if got := w.run().Status; got.Episodes.Scored != 1 || got.Rollouts.Servers[0].Segment != 2 {
		t.Errorf("%+v, %+v, %s", got.Episodes, got.Rollouts, runtest.FormatConditions(got.Conditions))
	}
	if diff := cmp.Diff([]string{"Warning RolloutsMissing"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// reportingPool replaces the report of a pool's servers.
type reportingPool struct {
	observe.PoolReader
	report score.Report
}

func (p reportingPool) Report(context.Context, string, string, ...string) (score.Report, error) {
	return p.report, nil
}

// Whoever may write a pool's status can't end its runs with it: what has changed is what a server
// reports.
func TestForgedPoolStatus(t *testing.T) {
	for name, change := range map[string]func(pool *v1alpha1.CustomerSupportEnvStatus, report *score.Report){
		"scenarios": func(pool *v1alpha1.CustomerSupportEnvStatus, report *score.Report) {
			pool.ScenarioDigest, report.ScenarioDigest = "sha256:bb", "sha256:bb"
		},
		"grader": func(pool *v1alpha1.CustomerSupportEnvStatus, report *score.Report) {
			pool.GraderVersion, report.GraderVersion = "2", "2"
		},
		"judge": func(pool *v1alpha1.CustomerSupportEnvStatus, report *score.Report) {
			pool.Judge, report.Judge = "model", "model"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			w.mustPass()
			pool, report := runtest.NewPool(), runtest.NewReport()
			if err := w.client.Get(t.Context(), key(runtest.PoolName), pool); err != nil {
				t.Fatal(err)
			}
			change(&pool.Status, &report)
			if err := w.client.Status().Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			w.mustPass()
			w.create(runtest.NewSucceededPod(t, w.run(), w.plan(), 2))
			w.wait(rules.BatchDelay)
			w.mustPass()
			if got := w.run().Status; got.CompletionTime != nil || got.Shards.CompletedIndexes != "2" {
				t.Fatalf("a change that no server reports: %s, shards %q", runtest.FormatConditions(got.Conditions),
					got.Shards.CompletedIndexes)
			}
			w.r.reader.Pools = runtest.FakePool{"10.0.0.1": report}
			w.mustPass()
			got := runtest.FormatConditions(w.run().Status.Conditions)
			if !strings.Contains(got, "Failed=True/EnvironmentChanged") {
				t.Errorf("a change that a server reports: %s", got)
			}
		})
	}
}

// Scores of two graders are never mixed, whether the pool or a server reports the change first.
// Earlier figures remain.
func TestRolloutsOfAnotherGrader(t *testing.T) {
	for name, change := range map[string]func(w *world, a *envServer){
		"a server": func(_ *world, a *envServer) { a.restart("2") },
		"the pool": func(w *world, _ *envServer) {
			env := &v1alpha1.CustomerSupportEnv{}
			if err := w.client.Get(w.t.Context(), key(runtest.PoolName), env); err != nil {
				w.t.Fatal(err)
			}
			env.Status.Judge = "model"
			if err := w.client.Status().Update(w.t.Context(), env); err != nil {
				w.t.Fatal(err)
			}
			w.mustPass()
			if got := w.run().Status; got.CompletionTime != nil {
				w.t.Errorf("a change that no server reports: %s", runtest.FormatConditions(got.Conditions))
			}
			report := runtest.NewReport()
			report.Judge = "model"
			w.r.reader.Pools = reportingPool{w.r.reader.Pools, report}
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
			if s := runtest.FormatConditions(got.Conditions); !strings.Contains(s, "Failed=True/EnvironmentChanged") {
				t.Errorf("conditions %s", s)
			}
			if got.Shards == nil || got.Shards.Accumulator == "" || got.Rollouts.Ledger != "" {
				t.Errorf("the counted figures can't be decoded: %+v", got.Shards)
			}
		})
	}
}

// Sums that don't fit into the status end the run with the earlier figures.
func TestLedgerTooLarge(t *testing.T) {
	w, a, b := trainingWorld(t, trainers(0))
	a.end(t, score.Scored, "B01", 1_000_000)
	w.mustPass()
	for i := range 2600 {
		[]*envServer{a, b}[i%2].end(t, score.Scored, fmt.Sprintf("a-scenario-of-a-name-as-long-%04d", i), 1_000_000)
	}
	w.mustPass()
	got := w.run().Status
	if s := runtest.FormatConditions(got.Conditions); !strings.Contains(s, "Failed=True/LedgerTooLarge") || got.Episodes.Scored != 1 ||
		got.Shards == nil {
		t.Errorf("%s, %+v", s, got.Episodes)
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
