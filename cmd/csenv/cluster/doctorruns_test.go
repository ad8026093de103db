package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/view"
)

func TestCheckRun(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "Words."}
	}
	waits := func(reason string) []metav1.Condition {
		return []metav1.Condition{condition(v1alpha1.ConditionComplete, metav1.ConditionFalse, reason)}
	}
	fails := append(waits(v1alpha1.ReasonShardsFailed), condition(v1alpha1.ConditionFailed, metav1.ConditionTrue,
		v1alpha1.ReasonShardsFailed))
	complete := condition(v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	unready := func(reason string) []metav1.Condition {
		return append(waits(v1alpha1.ReasonWaitingForEnvironment),
			condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, reason))
	}
	for name, tt := range map[string]struct {
		conditions []metav1.Condition
		agent      v1alpha1.AgentType
		level      string
		found      string
		advice     string
	}{
		"new":       {level: view.LevelBad, found: "not yet reconciled", advice: "operator runs"},
		"plays":     {conditions: waits(v1alpha1.ReasonRunning)},
		"complete":  {conditions: []metav1.Condition{complete}},
		"suspended": {waits(v1alpha1.ReasonSuspended), "", view.LevelNote, "Suspended: Words.", `"suspend":false`},
		"queued":    {waits(v1alpha1.ReasonQueued), "", view.LevelNote, "Queued", "kubectl -n lab get workloads"},
		"full pool": {waits(v1alpha1.ReasonWaitingForCapacity), "", view.LevelNote, "WaitingForCapacity",
			"kubectl -n lab edit cse support"},
		"pool starts": {unready(v1alpha1.ReasonEnvironmentNotAvailable), "", view.LevelNote, "WaitingForEnvironment",
			"kubectl -n lab describe cse support"},
		"no pool": {unready(v1alpha1.ReasonEnvironmentNotFound), "", view.LevelBad, "WaitingForEnvironment",
			"kubectl -n lab describe cse support"},
		"quota": {waits(v1alpha1.ReasonJobRefused), "", view.LevelBad, "JobRefused", "describe evalrun gpt"},
		"image": {waits(v1alpha1.ReasonRunnersNotStarted), "", view.LevelBad, "RunnersNotStarted",
			"kubectl -n lab describe pods -l csenv.dev/run=gpt"},
		"failed":       {fails, "", view.LevelNote, "ShardsFailed: Words.", "csenv run --resume gpt -n lab"},
		"of a trainer": {fails, v1alpha1.ExternalAgent, view.LevelNote, "ShardsFailed", "create another run"},
		"not compared": {[]metav1.Condition{complete, condition(v1alpha1.ConditionCompared, metav1.ConditionUnknown,
			v1alpha1.ReasonBaselineNotFound)}, "", view.LevelNote, "BaselineNotFound", "create or finish that run"},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Name: "gpt", Namespace: "lab"}}
			run.Spec.EnvironmentRef.Name, run.Spec.Agent.Type = "support", tt.agent
			run.Status.Conditions = tt.conditions
			got := checkRun(run)
			if got.Level != tt.level || !strings.Contains(got.Found, tt.found) ||
				!strings.Contains(got.Advice, tt.advice) || (tt.found == "") != (got == finding{}) {
				t.Errorf("%+v, want %s: %s, %s", got, tt.level, tt.found, tt.advice)
			}
		})
	}
}
