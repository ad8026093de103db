package figures

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/view"
)

const secret = "the customer's words"

// viewed is a run of a cluster with a condition Complete.
func viewed(status metav1.ConditionStatus, reason string) *v1alpha1.EvaluationRun {
	run := &v1alpha1.EvaluationRun{}
	run.Name, run.Namespace, run.ResourceVersion = "gpt", "team", "7"
	run.Spec.EnvironmentRef.Name = "pool"
	run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: status, Reason: reason,
		Message: secret}}
	return run
}

func TestRunViewStates(t *testing.T) {
	failed := viewed(metav1.ConditionFalse, "Running")
	failed.Status.Conditions = append(failed.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTooManyErrored, Message: secret},
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonTooManyErrored, Message: secret})
	missed := viewed(metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	missed.Status.Conditions = append(missed.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionThresholdsMet, Status: metav1.ConditionFalse, Reason: "ThresholdsMissed"},
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "ThresholdsMissed"},
		metav1.Condition{Type: v1alpha1.ConditionCompared, Status: metav1.ConditionTrue, Reason: "Compared"})
	awaits := viewed(metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	awaits.Status.Conditions = append(awaits.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionCompared,
		Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonBaselineNotFound, Message: "There is none."},
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
			Reason: v1alpha1.ReasonBaselineNotFound, Message: "There is none."})
	stored := viewed(metav1.ConditionFalse, v1alpha1.ReasonRunning)
	stored.Namespace, stored.ResourceVersion = "", ""
	for name, tt := range map[string]struct {
		run             *v1alpha1.EvaluationRun
		states          string
		advice, command string
	}{
		"nobody has seen it": {&v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}},
			"Pending busy", "check that the operator runs", ""},
		"plays":     {viewed(metav1.ConditionFalse, v1alpha1.ReasonRunning), "Running busy", "", ""},
		"completed": {viewed(metav1.ConditionTrue, v1alpha1.ReasonCompleted), "Completed good", "", ""},
		"suspended": {viewed(metav1.ConditionFalse, v1alpha1.ReasonSuspended), "Suspended busy", "",
			"kubectl -n team patch evalrun gpt"},
		"waits for capacity": {viewed(metav1.ConditionFalse, v1alpha1.ReasonWaitingForCapacity),
			"WaitingForCapacity busy", "wait, or raise the replicas: ", "kubectl -n team edit cse pool"},
		"failed":                   {failed, "TooManyErrored bad", "correct the cause, then: ", "csenv run --resume gpt"},
		"misses a threshold":       {missed, "ThresholdsMissed bad", "", ""},
		"awaits its baseline":      {awaits, "BaselineNotFound ", "create or finish that run", ""},
		"is stored and incomplete": {stored, "Running busy", "The same csenv eval command", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := NewRunView(tt.run, ViewOptions{})
			var states []string
			for _, s := range v.States {
				states = append(states, s.Text+" "+s.Kind)
			}
			if got := strings.Join(states, ", "); got != tt.states || !strings.HasPrefix(v.Advice, tt.advice) ||
				!strings.HasPrefix(v.Command, tt.command) || (v.Advice == "") != (tt.advice == "") {
				t.Errorf("states %q, advice %q, command %q", got, v.Advice, v.Command)
			}
		})
	}
}

func TestPublicRunView(t *testing.T) {
	run := viewed(metav1.ConditionFalse, v1alpha1.ReasonWaitingForCapacity)
	run.Status.Baseline = &v1alpha1.BaselineResult{Name: "other", Message: secret}
	run.Status.Results = "s3://" + secret
	for _, public := range []bool{false, true} {
		if text := view.FormatYAML(NewRunView(run, ViewOptions{Public: public})); !strings.Contains(text, run.Name) ||
			strings.Contains(text, secret) == public {
			t.Errorf("public %v: %s", public, text)
		}
	}
	if run.Status.Conditions[0].Message != secret || run.Status.Baseline.Message != secret {
		t.Error("the run itself was changed")
	}
}

func TestProgress(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(before time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-before))) }
	episodes := &v1alpha1.RunEpisodes{Total: 40, Scored: 17, Failed: 2, Errored: 1, Active: new(int64(4))}
	for name, tt := range map[string]struct {
		status v1alpha1.EvaluationRunStatus
		want   []string
	}{
		"not begun": {v1alpha1.EvaluationRunStatus{}, []string{"", "", "", ""}},
		"no start":  {v1alpha1.EvaluationRunStatus{Episodes: episodes}, []string{"", "", "", ""}},
		"plays": {v1alpha1.EvaluationRunStatus{Episodes: episodes, StartTime: at(2 * time.Minute),
			EstimatedCompletionTime: at(-2 * time.Minute)}, []string{"2026-05-04 11:58:00 UTC", "2m0s",
			"10.0 episodes per minute", "2026-05-04 12:02:00 UTC"}},
		"resumed": {v1alpha1.EvaluationRunStatus{Episodes: episodes, StartTime: at(time.Hour),
			AttemptTime: at(time.Minute)}, []string{"2026-05-04 11:00:00 UTC", "1m0s", "", ""}},
		"ended": {v1alpha1.EvaluationRunStatus{Episodes: episodes, StartTime: at(time.Hour),
			CompletionTime: at(50 * time.Minute)}, []string{"2026-05-04 11:00:00 UTC", "10m0s",
			"2.0 episodes per minute", ""}},
		"a clock that is behind": {v1alpha1.EvaluationRunStatus{Episodes: episodes, StartTime: at(-time.Minute)},
			[]string{"2026-05-04 12:01:00 UTC", "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgress(&v1alpha1.EvaluationRun{Status: tt.status}, now)
			if got := []string{p.Started, p.Took, p.Rate, p.Ends}; !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.status.Episodes != nil && (p.Done != 20 || p.Counted() != 19 || p.Playing() != 4) {
				t.Errorf("%+v", p)
			}
		})
	}
}
