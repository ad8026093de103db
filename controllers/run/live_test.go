package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

func TestLiveFiguresAreRead(t *testing.T) {
	full := runtest.NewServer("support-b", "10.0.0.2")
	full.Status.Conditions = nil
	w := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), full, runtest.NewRun())
	for i, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		pod := runtest.NewServer(fmt.Sprintf("support-%c", 'a'+rune(i)), ip)
		pod.Status.Phase = corev1.PodRunning
		if err := w.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	reports := w.r.reader.Pools.(runtest.FakePool)
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		report := runtest.NewReport()
		report.Runs = []score.RunReport{{Run: "run-uid", Active: 4, Scored: 1}}
		reports[ip] = report
	}
	w.r.reader.Live = observe.NewLivePoller(reports, func(ctx context.Context, _ types.NamespacedName,
		requests func(context.Context)) {
		requests(ctx)
	})
	w.mustPass()
	w.clock.SetTime(runtest.StartTime().Add(12 * time.Second))
	w.mustPass()
	if got := w.run().Status; got.Episodes.Active == nil || *got.Episodes.Active != 8 || got.Progress != "2/14" ||
		got.EstimatedCompletionTime == nil {
		t.Errorf("status %+v, episodes %+v", got.Progress, got.Episodes)
	}
}
