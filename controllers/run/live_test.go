package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/envserver/score"
)

func pollerOf(reports fakePool) *livePoller {
	// The tests poll synchronously.
	return newLivePoller(reports, func(context.Context, types.NamespacedName, func(context.Context)) {})
}

// asked polls the servers: the first request finds no answers.
func asked(t *testing.T, p *livePoller, servers []string, now time.Time) {
	t.Helper()
	pool := types.NamespacedName{Namespace: namespace, Name: poolName}
	p.figures(t.Context(), pool, "", servers, "run-uid", time.Hour, now)
	p.poll(t.Context(), pool, "", servers)
}

func TestLiveFiguresAreOfAllServers(t *testing.T) {
	pool := types.NamespacedName{Namespace: namespace, Name: poolName}
	reports := fakePool{
		"10.0.0.1": {Runs: []score.RunReport{{Run: "run-uid", Active: 2, Scored: 3}, {Run: "another", Active: 9}}},
		"10.0.0.2": {Runs: []score.RunReport{{Run: "run-uid", Active: 1, Failed: 1, Errored: 1}}},
	}
	p := pollerOf(reports)
	servers := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	asked(t, p, servers, start())
	got := p.figures(t.Context(), pool, "", servers, "run-uid", pollInterval, start().Add(time.Second))
	if diff := cmp.Diff(&liveFigures{known: true, due: true, active: 3, ended: 5}, got,
		cmp.AllowUnexported(liveFigures{})); diff != "" {
		t.Error(diff)
	}
	if got := p.figures(t.Context(), pool, "", servers, "run-uid", pollInterval, start().Add(2*time.Second)); got.due {
		t.Error("it is due immediately")
	}
	if got := p.figures(t.Context(), pool, "", servers, "run-uid", pollInterval, start().Add(6*time.Second)); !got.due {
		t.Error("it isn't due after the interval")
	}
}

func TestPollerDropsEndedRuns(t *testing.T) {
	p := pollerOf(fakePool{})
	asked(t, p, nil, start())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(start().Add(forgetAfter))
	if len(p.pools) > 0 || len(p.shown) > 0 {
		t.Errorf("stores %d pools and %d runs", len(p.pools), len(p.shown))
	}
}

func TestShowLive(t *testing.T) {
	for name, tc := range map[string]struct {
		live     *liveFigures
		progress string // progress in the status before
		want     string
		active   *int64
		end      *metav1.Time
	}{
		"no requests": {nil, "5/14", "4/14", nil, nil},
		"the servers have more": {&liveFigures{known: true, due: true, active: 3, ended: 7}, "4/14", "7/14",
			new(int64(3)), new(metav1.NewTime(start().Add(20 * time.Second)))},
		"they lost their count": {&liveFigures{known: true, due: true, ended: 1}, "4/14", "4/14", new(int64(0)),
			new(metav1.NewTime(start().Add(35 * time.Second)))},
		"they count shards twice": {&liveFigures{known: true, due: true, ended: 99}, "4/14", "14/14", new(int64(0)),
			new(metav1.NewTime(start().Add(10 * time.Second)))},
		"not due": {&liveFigures{known: true, active: 3, ended: 9}, "7/14", "7/14", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, plan := begun(t)
			s.now = start().Add(10 * time.Second)
			s.run.Status.Progress, s.live = tc.progress, tc.live
			addPods(&s, succeeded(t, s.run, plan, 0))
			d := decide(s)
			if d.status.Progress != tc.want {
				t.Errorf("progress %s, want %s", d.status.Progress, tc.want)
			}
			if diff := cmp.Diff(tc.active, d.status.Episodes.Active); diff != "" {
				t.Errorf("active: %s", diff)
			}
			if diff := cmp.Diff(tc.end, d.status.EstimatedCompletionTime); diff != "" {
				t.Errorf("estimate: %s", diff)
			}
			if (d.again > 0) != (tc.live != nil) {
				t.Errorf("requeued after %v", d.again)
			}
		})
	}
}

// The number of writes grows slowly with a run's duration.
func TestProgressIsWrittenRarely(t *testing.T) {
	run := newTestRun()
	run.Status.StartTime = new(metav1.NewTime(start()))
	writes := 0
	for now := start(); now.Before(start().Add(time.Hour)); now = now.Add(showInterval(run, now)) {
		writes++
	}
	if writes > 200 {
		t.Errorf("%d writes of progress in an hour", writes)
	}
	if got := showInterval(run, start().Add(24*time.Hour)); got != maxShowInterval {
		t.Errorf("written every %v after a day, want %v", got, maxShowInterval)
	}
}

func TestLiveFiguresAreRead(t *testing.T) {
	full := server("support-b", "10.0.0.2")
	full.Status.Conditions = nil
	w := newWorld(t, pool(), server("support-a", "10.0.0.1"), full, newTestRun())
	for i, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		pod := server(fmt.Sprintf("support-%c", 'a'+rune(i)), ip)
		pod.Status.Phase = corev1.PodRunning
		if err := w.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	reports := w.r.reader.pools.(fakePool)
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		report := offer()
		report.Runs = []score.RunReport{{Run: "run-uid", Active: 4, Scored: 1}}
		reports[ip] = report
	}
	w.r.reader.live = newLivePoller(reports, func(ctx context.Context, _ types.NamespacedName,
		requests func(context.Context)) {
		requests(ctx)
	})
	w.mustPass()
	w.clock.SetTime(start().Add(12 * time.Second))
	w.mustPass()
	if got := w.run().Status; got.Episodes.Active == nil || *got.Episodes.Active != 8 || got.Progress != "2/14" ||
		got.EstimatedCompletionTime == nil {
		t.Errorf("status %+v, episodes %+v", got.Progress, got.Episodes)
	}
}

// Goals in the distant future or in the past have no estimate.
func TestEstimatedEnd(t *testing.T) {
	if got := estimatedEnd(start(), start().Add(time.Minute), 1, 1<<31); got != nil {
		t.Errorf("one of two billion in a minute is done at %s", got)
	}
	if got, want := estimatedEnd(start(), start().Add(time.Minute), 1, 3), start().Add(3*time.Minute); !got.Time.Equal(
		want) {
		t.Errorf("one of three in a minute is done at %s, want %s", got, want)
	}
}
