package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/runtest"
)

func TestEveryRuleIsWhole(t *testing.T) {
	for _, r := range Table {
		if r.Reason == "" || r.When == "" || r.Check == nil || r.Stage == 0 || r.State == 0 ||
			r.State == evaluation.Failed && r.Advice == "" || r.Event != "" && r.State == evaluation.Failed {
			t.Errorf("%s lacks something: %+v", r.Reason, r)
		}
	}
}

// idle is a pass over a run of which nothing is known but that its pool is ready.
func idle() *pass {
	p := newPass(snap())
	p.s.Run.Spec.ActiveDeadlineSeconds, p.s.Run.Spec.Budget = new(int32(60)), &v1alpha1.Budget{MaxCost: "2"}
	return p
}

// Without facts, only the last rules hold: a fact that is missing is no reason by accident.
func TestNoFactIsNoReason(t *testing.T) {
	for stage := Reading; stage <= Playing; stage <<= 1 {
		if r, f := rule.First(Table, stage, idle()); (r != nil) != (stage == Playing) {
			t.Errorf("stage %b: %v", stage, f)
		}
	}
}

// The first rule that holds decides, whatever else does.
func TestTheFirstRuleDecides(t *testing.T) {
	p := idle()
	p.s.Run.Status.StartTime, p.s.Run.Status.Provenance = new(metav1.NewTime(p.s.Now)), &v1alpha1.Provenance{
		Judge: "offline-v0"}
	p.overBudget, p.s.Revoked, p.s.Now = true, true, p.s.Now.Add(time.Hour)
	for _, step := range []struct {
		reason string
		remove func()
	}{
		{v1alpha1.ReasonBudgetExceeded, func() { p.overBudget = false }},
		{v1alpha1.ReasonNamespaceNotAllowed, func() { p.s.Revoked = false }},
		{v1alpha1.ReasonEnvironmentChanged, func() { p.s.Env = nil }},
		{v1alpha1.ReasonDeadlineExceeded, func() { p.s.Now = runtest.StartTime() }},
	} {
		if r, _ := rule.First(Table, Counted, p); r == nil || r.Reason != step.reason || r.State != evaluation.Failed {
			t.Errorf("%+v decides, want %s", r, step.reason)
		}
		step.remove()
	}
	if r, _ := rule.First(Table, Counted, p); r != nil {
		t.Errorf("%s holds without a fact", r.Reason)
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
