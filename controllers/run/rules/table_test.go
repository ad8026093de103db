package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runtest"
)

func TestEveryRuleIsWhole(t *testing.T) {
	for _, rule := range ListRules() {
		if rule.Reason == "" || rule.When == "" || rule.check == nil || rule.asked == 0 || rule.State == 0 ||
			rule.State == evaluation.Failed && rule.Advice == "" {
			t.Errorf("%s lacks something: %+v", rule.Reason, rule)
		}
		if rule.holdsStart != nil && rule.asked&(Beginning|Playing) == 0 {
			t.Errorf("%s holds the start of a run in a stage that doesn't ask for startDeadlineSeconds", rule.Reason)
		}
	}
}

// Without facts, only the last rules hold: a fact that is missing is no reason by accident.
func TestNoFactIsNoReason(t *testing.T) {
	facts := Facts{Run: runtest.NewRun()}
	for stage := Reading; stage <= Collecting; stage <<= 1 {
		rule, o, holds := askRules(stage, facts)
		if last := stage == Playing || stage == Collecting; holds != last || holds && o.State != evaluation.Running {
			t.Errorf("stage %b: %s holds %v with %+v", stage, rule.Reason, holds, o)
		}
	}
}

// The first rule that holds decides, whatever else does.
func TestTheFirstRuleDecides(t *testing.T) {
	facts := Facts{Run: runtest.NewRun(), Counts: CountFacts{OverBudget: true},
		Pool: PoolFacts{Revoked: true, Change: "The judge changed."}, Deadline: DeadlineFacts{Over: true}}
	for _, step := range []struct {
		reason string
		remove func()
	}{
		{v1alpha1.ReasonBudgetExceeded, func() { facts.Counts.OverBudget = false }},
		{v1alpha1.ReasonNamespaceNotAllowed, func() { facts.Pool.Revoked = false }},
		{v1alpha1.ReasonEnvironmentChanged, func() { facts.Pool.Change = "" }},
		{v1alpha1.ReasonDeadlineExceeded, func() { facts.Deadline.Over = false }},
	} {
		facts.Run.Spec.ActiveDeadlineSeconds, facts.Run.Spec.Budget = new(int32(60)), &v1alpha1.Budget{MaxCost: "2"}
		if rule, o, _ := askRules(Counted, facts); rule.Reason != step.reason || o.Reason != step.reason ||
			o.State != evaluation.Failed {
			t.Errorf("%s decides with %+v, want %s", rule.Reason, o, step.reason)
		}
		step.remove()
	}
	if rule, _, holds := askRules(Counted, facts); holds {
		t.Errorf("%s holds without a fact", rule.Reason)
	}
}

// A run that collects has no shards when the API server refuses its table.
func TestRefusedTableOfACollection(t *testing.T) {
	s := snap()
	s.Run.Spec.Agent = v1alpha1.Agent{Type: v1alpha1.ExternalAgent}
	d := ReportRefusal(s, Decision{Status: v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{Scored: 3}}},
		"ConfigMap baseline-scores", errors.New("exceeded quota"))
	if c := completeOf(d); c.Reason != v1alpha1.ReasonJobRefused ||
		!strings.HasPrefix(c.Message, "3 episodes are collected. The API server refuses ConfigMap baseline-scores") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}
