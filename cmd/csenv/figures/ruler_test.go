package figures

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
)

func TestRulers(t *testing.T) {
	made := func(name string, policy v1alpha1.BuiltinPolicy, rate string, day int) *source.LoadedRun {
		run := &v1alpha1.EvaluationRun{}
		run.Name, run.UID = name, types.UID(name)
		run.CreationTimestamp = metav1.NewTime(time.Date(2026, 5, day, 0, 0, 0, 0, time.UTC))
		run.Spec.Tasks = []v1alpha1.TaskSelection{{Name: "refund"}}
		if policy != "" {
			run.Spec.Agent.Builtin = &v1alpha1.BuiltinAgentSpec{Policy: policy}
		}
		run.Status = v1alpha1.EvaluationRunStatus{PassRate: rate, PassScore: "0.75",
			Score:      &v1alpha1.Score{Mean: "0.9"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}}
		return &source.LoadedRun{EvaluationRun: run}
	}
	run := made("mine", "", "0.5000", 1)
	run.Status.PassRateCI95 = &v1alpha1.Interval{Low: "0.4000", High: "0.6000"}
	run.Status.Baseline = &v1alpha1.BaselineResult{Name: "earlier", Delta: "0.1"}
	run.Spec.Thresholds = []v1alpha1.Threshold{{Metric: v1alpha1.PassRateMetric, Min: v1alpha1.Number{Text: "0.6"}},
		{Metric: v1alpha1.PassRateMetric, Task: "refund", Min: v1alpha1.Number{Text: "0.1"}}}
	elsewhere := made("elsewhere", v1alpha1.RandomPolicy, "0.2", 9)
	elsewhere.Spec.Tasks[0].Scenarios = &v1alpha1.ScenarioSelection{IDs: []string{"B01"}}
	unfinished := made("unfinished", v1alpha1.RandomPolicy, "0.3", 9)
	unfinished.Status.Conditions = nil
	others := []*source.LoadedRun{run, made("earlier", "", "0.4000", 1), made("old", v1alpha1.OraclePolicy, "0.8", 2),
		made("new", v1alpha1.OraclePolicy, "1.0000", 3), elsewhere, unfinished,
		made("noop", v1alpha1.NullPolicy, "0", 1)}
	drawn := drawRulers(run.EvaluationRun, others)
	var got []string
	for _, r := range drawn {
		for _, k := range r.Keys {
			got = append(got, fmt.Sprintf("%s: %s %s %s", r.Name, k.Kind, k.Name, k.Text))
		}
		if svg := string(r.SVG()); !strings.Contains(svg, `aria-label="`+r.Name+` from 0 to 1: this run `) {
			t.Errorf("the drawing has no text: %s", svg)
		}
	}
	want := `pass rate: run this run 
pass rate: open threshold 0.60
pass rate: baseline baseline earlier 0.40
pass rate: noop the agent noop 0.00
pass rate: oracle the agent oracle 1.00
mean score: run this run 
mean score: baseline baseline earlier 0.90
mean score: noop the agent noop 0.90
mean score: oracle the agent oracle 0.90`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if alone := drawRulers(run.EvaluationRun, nil); len(alone) != 1 {
		t.Errorf("without other runs and thresholds a measure is drawn: %+v", alone)
	}
}
