package rules

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

func TestServersThatMissTheirEnd(t *testing.T) {
	const hour = 3630
	for name, tc := range map[string]struct {
		deleted  time.Duration // ago, 0 for a server that stays
		grace    int64
		report   *score.Report
		want     int64 // 0 for one that is left alone
		sessions int64
	}{
		"it stays":                  {0, 0, &score.Report{}, 0, 0},
		"just deleted":              {19 * time.Second, hour, &score.Report{}, 0, 0},
		"it misses its end":         {20 * time.Second, hour, &score.Report{}, 10, 0},
		"it misses its end, busy":   {20 * time.Second, hour, &score.Report{}, hour - 1, 3},
		"it drains":                 {time.Hour, hour, &score.Report{Draining: true}, 0, 3},
		"it doesn't answer":         {time.Hour, hour, nil, 0, 0},
		"it was told again already": {20 * time.Second, 10, &score.Report{}, 0, 0},
	} {
		pod := server("support-a")
		pod.Status.Phase = corev1.PodRunning
		s := snapshot.Snapshot{Now: noon, Reports: map[string]score.Report{}}
		if tc.deleted > 0 {
			grace := time.Duration(tc.grace) * time.Second
			pod.DeletionTimestamp = new(metav1.NewTime(noon.Add(grace - tc.deleted)))
			pod.DeletionGracePeriodSeconds = &tc.grace
		}
		if tc.report != nil {
			tc.report.Sessions.Active = tc.sessions
			s.Reports[pod.Name] = *tc.report
		}
		s.Pods = []corev1.Pod{pod}
		got := listUndrained(s)
		if (len(got) > 0) != (tc.want > 0) || len(got) > 0 && got[0].Grace != tc.want {
			t.Errorf("%s: %+v, want a grace of %d", name, got, tc.want)
		}
	}
}
