package observe

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

func pollerOf(reports runtest.FakePool) *LivePoller {
	// The tests poll synchronously.
	return NewLivePoller(reports, func(context.Context, types.NamespacedName, func(context.Context)) {})
}

// asked polls the servers: the first request finds no answers.
func asked(t *testing.T, p *LivePoller, servers []string, now time.Time) {
	t.Helper()
	pool := types.NamespacedName{Namespace: runtest.Namespace, Name: runtest.PoolName}
	p.figures(t.Context(), pool, "", servers, "run-uid", runtest.StartTime(), time.Hour, now)
	p.pollPool(t.Context(), pool, "", servers)
}

func TestLiveFiguresAreOfAllServers(t *testing.T) {
	pool := types.NamespacedName{Namespace: runtest.Namespace, Name: runtest.PoolName}
	reports := runtest.FakePool{
		"10.0.0.1": {Runs: []score.RunReport{{Run: "run-uid", Active: 2, Scored: 3}, {Run: "another", Active: 9}}},
		"10.0.0.2": {Runs: []score.RunReport{{Run: "run-uid", Active: 1, Failed: 1, Errored: 1}}},
	}
	p := pollerOf(reports)
	servers := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	asked(t, p, servers, runtest.StartTime())
	if of := p.figures(t.Context(), pool, "", servers, "unasked", runtest.StartTime(), 0, runtest.StartTime()); of.Known {
		t.Errorf("a run that no server was asked for has counts %+v", of)
	}
	at := func(d time.Duration) *snapshot.Live {
		return p.figures(t.Context(), pool, "", servers, "run-uid", runtest.StartTime(), snapshot.PollInterval,
			runtest.StartTime().Add(d))
	}
	if at(snapshot.PollInterval - time.Second).Due {
		t.Error("it is due immediately after the run's beginning")
	}
	got := at(snapshot.PollInterval)
	if diff := cmp.Diff(&snapshot.Live{Known: true, AsOf: runtest.StartTime(), Graded: 4, Due: true, Active: 3,
		Ended: 5}, got, cmp.AllowUnexported(snapshot.Live{})); diff != "" {
		t.Error(diff)
	}
	if at(2*snapshot.PollInterval - time.Second).Due {
		t.Error("it is due immediately")
	}
	if !at(2 * snapshot.PollInterval).Due {
		t.Error("it isn't due after the interval")
	}
}

func TestPollerDropsEndedRuns(t *testing.T) {
	p := pollerOf(runtest.FakePool{})
	asked(t, p, nil, runtest.StartTime())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeUnused(runtest.StartTime().Add(forgetAfter))
	if len(p.pools) > 0 || len(p.shown) > 0 {
		t.Errorf("stores %d pools and %d runs", len(p.pools), len(p.shown))
	}
}

// The number of writes grows slowly with a run's duration.
func TestProgressIsWrittenRarely(t *testing.T) {
	run := runtest.NewRun()
	run.Status.StartTime = new(metav1.NewTime(runtest.StartTime()))
	interval := func(now time.Time) time.Duration { return snapshot.Snapshot{Run: run, Now: now}.LiveInterval() }
	writes := 0
	for now := runtest.StartTime(); now.Before(runtest.StartTime().Add(time.Hour)); now = now.Add(interval(now)) {
		writes++
	}
	if writes > 200 {
		t.Errorf("%d writes of progress in an hour", writes)
	}
	if got := interval(runtest.StartTime().Add(24 * time.Hour)); got != time.Minute {
		t.Errorf("written every %v after a day, want a minute", got)
	}
}

// Idleness is measured from the last change, not from the first poll.
func TestIdleness(t *testing.T) {
	report := score.Report{Sessions: score.Sessions{Active: 2, Capacity: 2},
		Runs: []score.RunReport{{Run: "run-uid", Scored: 3}}}
	reports := runtest.FakePool{"10.0.0.1": report}
	p, servers := pollerOf(reports), []string{"10.0.0.1"}
	after := func(d time.Duration) *snapshot.Live {
		asked(t, p, servers, runtest.StartTime().Add(d))
		return p.figures(t.Context(), types.NamespacedName{Namespace: runtest.Namespace, Name: runtest.PoolName}, "", servers,
			"run-uid", runtest.StartTime(), 0,
			runtest.StartTime().Add(d))
	}
	if live := after(6 * time.Second); live.Idle != 0 || live.Sessions != report.Sessions {
		t.Errorf("first: %+v", live)
	}
	if live := after(46 * time.Second); live.Idle != 40*time.Second {
		t.Errorf("unchanged: %+v", live)
	}
	reports["10.0.0.1"] = score.Report{Runs: []score.RunReport{{Run: "run-uid", Scored: 4}}}
	if live := after(60 * time.Second); live.Idle != 0 {
		t.Errorf("another episode has ended: %+v", live)
	}
	reports["10.0.0.1"] = score.Report{Runs: []score.RunReport{{Run: "run-uid", Active: 1, Scored: 4}}}
	after(90 * time.Second)
	if live := after(100 * time.Second); live.Idle != 0 {
		t.Errorf("one is played: %+v", live)
	}
}
