// Package rules decides from a Snapshot what a pass over a run writes. It is pure.
//
// A pass over a run that has not ended goes through stages. The steps of a stage change the
// decision: they count, keep the Job as it should be, and show progress. Then the rules of the
// stage are asked in the order of Rules, and the first that holds is the state of the run. It ends
// the pass: what would follow depends on it.
package rules

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
)

// Decide derives what to write from the snapshot of a run that exists.
func Decide(s observe.Snapshot) Decision {
	p := newPass(s)
	switch {
	case s.Closing:
		// Kubernetes deletes a namespace's pods before its Jobs, but the Job controller keeps the
		// last failed pod of an index until it has created another, which it no longer can.
		p.d.Rule, p.d.Status.ObservedGeneration = "NamespaceDeleted", s.Run.Status.ObservedGeneration
		p.d.Release, p.d.DeleteJob = s.Pods, runner.IsJobActive(s.Job)
	case evaluation.Resumes(s.Run):
		p.d.Rule = v1alpha1.ReasonResumed
		p.resume()
	case evaluation.Ended(s.Run.Status.Conditions):
		p.d.Rule = "Ended"
		p.repeatEnd()
	default:
		p.proceed()
	}
	return p.d
}

// part is a part of a pass over a run that has not ended: its steps, and the stage that it reaches.
type part struct {
	asked Stage
	steps []func(*pass)
}

// listParts are the parts of a pass, until a rule of one holds.
func listParts(external, begun bool) []part {
	switch {
	case external && begun:
		return []part{
			{Reading, nil},
			{Collected, []func(*pass){(*pass).nameAgent, (*pass).countSegments}},
			{Collecting, nil},
		}
	case external:
		return []part{
			{Reading, nil},
			{Beginning, []func(*pass){(*pass).nameAgent}},
			{Planned, []func(*pass){(*pass).planCollection}},
			{Collecting, []func(*pass){(*pass).startCollection}},
		}
	case begun:
		return []part{
			{Reading, nil},
			{Counted, []func(*pass){(*pass).nameAgent, (*pass).noteAdmission, (*pass).countSummaries}},
			{Playing, []func(*pass){(*pass).playAgain, (*pass).keepJob, (*pass).showLive}},
		}
	default:
		return []part{
			{Reading, nil},
			{Beginning, []func(*pass){(*pass).nameAgent}},
			{Planned, []func(*pass){(*pass).planRun}},
			{Playing, []func(*pass){(*pass).startRun}},
		}
	}
}

// proceed finds the state of a run that has not ended.
func (p *pass) proceed() {
	for _, part := range listParts(observe.IsExternal(p.s.Run), p.s.Run.Status.Provenance != nil) {
		for _, step := range part.steps {
			step(p)
		}
		facts := p.gatherFacts(part.asked)
		rule, o, holds := askRules(part.asked, facts)
		if !holds {
			continue
		}
		p.d.Rule = rule.Reason
		if o.Ended() {
			p.end(o)
		} else {
			p.hold(part.asked, rule, facts, o)
		}
		return
	}
}

// hold writes the state of a run that has not ended.
func (p *pass) hold(asked Stage, rule Rule, facts Facts, o evaluation.Outcome) {
	p.setConditions(o)
	if asked == Reading {
		p.d.wake(waitDelay) // the pods keep their summaries until an operator can add them
		return
	}
	p.d.Release, p.d.Lost = p.findReleasable(), p.findLostPods()
	if rule.holdsUpStart(facts) {
		p.d.wake(max(facts.Start.Left, 0))
	}
	for _, alarm := range listAlarms(asked) {
		p.d.wake(alarm(p, facts))
	}
}

// end writes the end of a run.
func (p *pass) end(o evaluation.Outcome) {
	if o.State == evaluation.Completed {
		p.publishScores()
	}
	p.d.Status.CompletionTime = new(metav1.NewTime(p.s.Now))
	p.d.stopWork()
	p.closeCollection()
	p.d.hideLive()
	p.setConditions(o)
	p.cleanUp()
}

// resume opens a failed run again. Shards with errored episodes are played again: their errors may
// be why the run failed. The next pass replaces the Job, whose number is that of an earlier one.
func (p *pass) resume() {
	message, state := p.reopen(), evaluation.Running
	o := evaluation.Outcome{State: state, Reason: v1alpha1.ReasonRunning, Message: message}
	if p.d.Status.Provenance == nil {
		o.State, o.Reason = evaluation.Waiting, v1alpha1.ReasonWaitingForEnvironment
	}
	p.d.announce(corev1.EventTypeNormal, v1alpha1.ReasonResumed, o.Message)
	p.replaceVerdict(o)
	p.d.wake(waitDelay)
}

// repeatEnd repeats what the last pass of an ended run may not have completed.
func (p *pass) repeatEnd() {
	for i := range p.d.Status.Conditions {
		p.d.Status.Conditions[i].ObservedGeneration = p.s.Run.Generation
	}
	p.compareLate()
	p.cleanUp()
}
