package rules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

func TestShowLive(t *testing.T) {
	for name, tc := range map[string]struct {
		live     *snapshot.Live
		progress string // progress in the status before
		want     string
		active   *int64
		end      *metav1.Time
	}{
		"no requests": {nil, "5/14", "4/14", nil, nil},
		"the servers have more": {&snapshot.Live{Known: true, Due: true, Active: 3, Ended: 7}, "4/14", "7/14",
			new(int64(3)), new(metav1.NewTime(runtest.StartTime().Add(20 * time.Second)))},
		"they lost their count": {&snapshot.Live{Known: true, Due: true, Ended: 1}, "4/14", "4/14", new(int64(0)),
			new(metav1.NewTime(runtest.StartTime().Add(35 * time.Second)))},
		"they count shards twice": {&snapshot.Live{Known: true, Due: true, Ended: 99}, "4/14", "14/14", new(int64(0)),
			new(metav1.NewTime(runtest.StartTime().Add(10 * time.Second)))},
		"not due": {&snapshot.Live{Known: true, Active: 3, Ended: 9}, "7/14", "7/14", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, plan := begun(t)
			s.Now = runtest.StartTime().Add(10 * time.Second)
			s.Run.Status.Progress, s.Live = tc.progress, tc.live
			addPods(&s, runtest.NewSucceededPod(t, s.Run, plan, 0))
			d := DecideRun(s)
			if d.Status.Progress != tc.want {
				t.Errorf("progress %s, want %s", d.Status.Progress, tc.want)
			}
			if diff := cmp.Diff(tc.active, d.Status.Episodes.Active); diff != "" {
				t.Errorf("active: %s", diff)
			}
			if diff := cmp.Diff(tc.end, d.Status.EstimatedCompletionTime); diff != "" {
				t.Errorf("estimate: %s", diff)
			}
			if (d.Again > 0) != (tc.live != nil) {
				t.Errorf("requeued after %v", d.Again)
			}
		})
	}
}

// Goals in the distant future or in the past have no estimate.
func TestEstimatedEnd(t *testing.T) {
	if got := estimateEnd(runtest.StartTime(), runtest.StartTime().Add(time.Minute), 1, 1<<31); got != nil {
		t.Errorf("one of two billion in a minute is done at %s", got)
	}
	if got, want := estimateEnd(runtest.StartTime(), runtest.StartTime().Add(time.Minute), 1, 3), runtest.StartTime().Add(3*time.Minute); !got.Time.Equal(
		want) {
		t.Errorf("one of three in a minute is done at %s, want %s", got, want)
	}
}
