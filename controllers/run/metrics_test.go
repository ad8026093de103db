package run

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

func TestMetricsOfARun(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.CreationTimestamp = metav1.NewTime(runtest.StartTime().Add(-5 * time.Second))
	w.update(run)
	w.mustPass()
	plan := w.plan()
	message := strings.Replace(runtest.SummaryOf(t, plan, 0, runtest.Playing{Errored: []int64{0}}), `"class":"timeout"`,
		`"class":"made_up"`, 1)
	w.create(runtest.EndPod(runtest.RunnerPod(run, 0), corev1.PodSucceeded, message))
	w.mustPass()
	w.toTheEnd()
	m := w.r.metrics
	for what, tc := range map[string]struct{ got, want float64 }{
		"scored":  {testutil.ToFloat64(m.episodes.WithLabelValues("scored")), 13},
		"errored": {testutil.ToFloat64(m.episodes.WithLabelValues("errored")), 1},
		"other":   {testutil.ToFloat64(m.errored.WithLabelValues(score.OtherClass)), 1},
		"shards":  {testutil.ToFloat64(m.counted), 4},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
	if got := testutil.CollectAndCount(m.lasted); got != 2 {
		t.Errorf("%d series of runs' durations, want one per outcome", got)
	}
}

func TestRunsByState(t *testing.T) {
	over := runtest.NewRun()
	over.Name = "over"
	over.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonCompleted}}
	w := newWorld(t, runtest.NewRun(), over)
	registry := prometheus.NewRegistry()
	elected := make(chan struct{})
	counting := newStateCollector(w.client, elected)
	if n := testutil.CollectAndCount(counting); n != 0 {
		t.Errorf("an operator that waits for the Lease shows %d series", n)
	}
	close(elected)
	registry.MustRegister(counting)
	want := `# HELP csenv_runs EvaluationRuns by state, as kubectl get shows it.
# TYPE csenv_runs gauge
csenv_runs{state="Completed"} 1
csenv_runs{state="New"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
