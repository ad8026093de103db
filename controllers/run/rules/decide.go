// Package rules decides from a Snapshot what a pass over a run writes. It is pure.
//
// A pass over a run that has not ended goes through stages. The steps of a stage change the
// decision: they count, keep the Job as it should be, and show progress. Then the rules of the
// stage are asked in the order of Table, and the first that holds is the state of the run. It ends
// the pass.
package rules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/rule"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// DecideRun derives what to write from the snapshot of a run that exists.
func DecideRun(s snapshot.Snapshot) Decision {
	p := newPass(s)
	switch {
	case s.Closing:
		// Kubernetes deletes a namespace's pods before its Jobs, but the Job controller keeps the
		// last failed pod of an index until it has created another, which it no longer can.
		p.d.Rule, p.d.Status.ObservedGeneration = "NamespaceDeleted", s.Run.Status.ObservedGeneration
		p.d.Release, p.d.DeleteJob = s.Pods, runner.IsJobActive(s.Job)
	case evaluation.HasNewAttempt(s.Run):
		p.d.Rule = v1alpha1.ReasonResumed
		p.resumeRun()
	case evaluation.HasEnded(s.Run.Status.Conditions):
		p.d.Rule = "Ended"
		p.repeatEnd()
	default:
		p.findState()
		if p.batching && evaluation.HasEnded(p.d.Status.Conditions) {
			// A run doesn't end while summaries of it wait.
			p = newPass(s)
			p.hurried = true
			p.findState()
		}
	}
	evaluation.NameFlaw(p.d.Status.Conditions)
	return p.d
}

// findState finds the state of a run that has not ended, in the first stage with a rule that
// holds. What would follow depends on it.
func (p *pass) findState() {
	if p.settleStage(Reading) {
		return
	}
	p.nameAgent()
	external, begun := evaluation.IsExternal(p.s.Run), p.s.Run.Status.Provenance != nil
	switch {
	case !begun && p.settleStage(Beginning):
	case external && begun:
		p.countSegments()
		p.judgeCollected()
		if !p.settleStage(Collected) {
			p.settleStage(Collecting)
		}
	case external:
		if p.planCollection(); !p.settleStage(Planned) {
			p.startCollection()
			p.settleStage(Collecting)
		}
	case begun:
		p.noteAdmission()
		p.countSummaries()
		p.judgeCounted()
		if !p.settleStage(Counted) {
			p.playAgain()
			p.keepJob()
			p.showLive()
			p.settleStage(Playing)
		}
	default:
		if p.planRun(); !p.settleStage(Planned) {
			p.startRun()
			p.settleStage(Playing)
		}
	}
}

// settleStage asks the rules of a stage, and writes the state of the run if one holds.
func (p *pass) settleStage(stage rule.Stage) bool {
	p.asked |= stage
	r, f := rule.First(Table, stage, p)
	if r == nil {
		return false
	}
	startsIn, limited := p.findStartDeadline()
	if f.HoldsStart && limited && startsIn <= 0 {
		p.heldUp = r.Message(p, f)
		r, f = rule.First(Table, stage, p)
	}
	p.d.Rule = r.Reason
	o := evaluation.Outcome{State: r.State, Reason: r.Reason, Message: r.Message(p, f)}
	if o.Ended() {
		p.writeEnd(o)
		return true
	}
	p.setConditions(o, r.Event)
	if stage == Reading {
		p.d.wakeAfter(waitDelay) // the pods keep their summaries until an operator can add them
		return true
	}
	if stage == Playing && r.Reason != v1alpha1.ReasonRunning {
		p.d.Status.EstimatedCompletionTime = nil // it would only move on
	}
	p.d.Release, p.d.Lost = p.findReleasable(), p.findLostPods()
	if f.HoldsStart {
		p.d.wakeAfter(max(startsIn, 0))
	}
	for _, r := range Table {
		if r.Stage&p.asked != 0 && r.Requeue != nil {
			p.d.wakeAfter(r.Requeue(p))
		}
	}
	return true
}

// findReleasable finds the pods whose summary is counted or refused, or that will leave none. A pod
// that is being deleted keeps its finalizer while its runner may still leave a summary.
func (p *pass) findReleasable() []corev1.Pod {
	var done []corev1.Pod
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		shard, err := runner.ReadShard(pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed, p.d.Tally.Refuses(pod),
			runner.HasSucceeded(pod) && tally.LacksSummary(pod),
			runner.HasSucceeded(pod) && err == nil && p.d.Tally.Completed.Contains(int64(shard)):
			done = append(done, *pod)
		case runner.HasSucceeded(pod) || pod.DeletionTimestamp.IsZero():
		case pod.Spec.NodeName == "" || !p.s.Now.Before(pod.DeletionTimestamp.Add(snapshot.DeleteGrace)):
			done = append(done, *pod)
		default:
			p.d.wakeAfter(pod.DeletionTimestamp.Add(snapshot.DeleteGrace).Sub(p.s.Now))
		}
	}
	return done
}

// findLostPods finds the pods that nothing else ends, because their node doesn't report that they
// have stopped. The Job controller replaces a pod only after it has ended.
func (p *pass) findLostPods() []corev1.Pod {
	var lost []corev1.Pod
	for _, pod := range p.s.OverduePods() {
		if p.s.LostNodes[pod.Spec.NodeName] {
			lost = append(lost, pod)
		} else {
			p.d.wakeAfter(waitDelay) // its node may be lost later
		}
	}
	return lost
}

// writeEnd writes the end of a run.
func (p *pass) writeEnd(o evaluation.Outcome) {
	if o.State == evaluation.Completed {
		p.publishScores()
	} else if len(p.d.Tally.Stopped) > 0 {
		p.d.Tally.AddStopped()
		p.writeCounted()
	}
	p.d.Status.CompletionTime = new(metav1.NewTime(p.s.Now))
	p.d.stopWork()
	p.closeCollection()
	p.d.hideLive()
	p.setConditions(o, "")
	p.cleanUp()
}

// stopWork leaves the run's objects as they are.
func (d *Decision) stopWork() {
	d.RemovePlan, d.CreatePlan, d.CreateJob, d.ChangeJob, d.DeleteJob = false, nil, nil, JobChange{}, false
	d.CreateCredential = false
	d.Again = 0
}

// publishScores publishes the table and the comparison of a complete run.
func (p *pass) publishScores() {
	if p.collected != nil {
		p.publishTable(p.fillTable())
		return
	}
	p.d.Status.Shards.Flawless = nil
	table := tally.ReadTable(p.s.Scores)
	if p.d.Scores != nil && table.UnmarshalText([]byte(*p.d.Scores)) != nil {
		table = &score.ScenarioTable{}
	}
	table.Keep(p.plan, p.d.Tally.Completed)
	p.publishTable(table)
}

// closeCollection turns the collected sums into the sums of a run with one shard, which other
// runs compare with.
func (p *pass) closeCollection() {
	if p.collected == nil || p.edited != nil {
		return
	}
	progressed := p.d.Status.Progress
	p.d.Tally.Completed.Add(0)
	p.d.Status.Shards = &v1alpha1.Shards{Total: 1}
	evaluation.WriteFigures(&p.d.Status, p.d.Tally.Sums, p.d.Tally.Completed)
	p.d.Status.Progress = progressed
	p.d.Status.Rollouts.Ledger, p.d.Status.Rollouts.LedgerKey, p.d.Status.Rollouts.Servers = "", "", nil
}

// resumeRun opens a failed run again. Shards with errored episodes are played again: their errors
// may be why the run failed. The next pass replaces the Job, which is an earlier attempt's.
func (p *pass) resumeRun() {
	message, state := p.reopenRun(), evaluation.Running
	o := evaluation.Outcome{State: state, Reason: v1alpha1.ReasonRunning, Message: message}
	if p.d.Status.Provenance == nil {
		o.State, o.Reason = evaluation.Waiting, v1alpha1.ReasonWaitingForEnvironment
	}
	p.d.addEvent(corev1.EventTypeNormal, v1alpha1.ReasonResumed, o.Message)
	p.replaceVerdict(o)
	p.d.wakeAfter(waitDelay)
}

// reopenRun begins another attempt at a failed run, and says what is played again.
func (p *pass) reopenRun() string {
	status := &p.d.Status
	status.Attempt, status.AttemptTime = *p.s.Run.Spec.Attempt, new(metav1.NewTime(p.s.Now))
	status.CompletionTime, status.AdmissionTime = nil, nil
	message := "The run begins again."
	if shards := status.Shards; shards != nil {
		shards.JobAttemptsBefore = shards.JobAttempts
		shards.JobAttempts++
		if err := p.dropFlawed(); err != nil {
			// The next pass fails the run with the same error.
			message = err.Error()
		} else {
			message = describeShards(p.d.Tally.Completed, shards) + " The others are played again."
		}
	}
	return fmt.Sprintf("This is attempt %d. %s", status.Attempt, message)
}

// dropFlawed takes the shards with errored episodes out of the figures.
func (p *pass) dropFlawed() error {
	status := &p.d.Status
	kept := ptr.Deref(status.Shards.Flawless, v1alpha1.CountedShards{
		CompletedIndexes: status.Shards.CompletedIndexes, Accumulator: status.Shards.Accumulator})
	sums, done, err := tally.ParseCounted(kept)
	if err != nil {
		return err
	}
	evaluation.ClearScores(status)
	status.Durations, status.ScoresRef, status.Baseline, status.Shards.Flawless = nil, nil, nil, nil
	p.d.Tally.Sums, p.d.Tally.Completed = sums, done
	evaluation.WriteFigures(status, sums, done)
	return nil
}

// restoreFigures corrects figures of an ended run that don't follow from its sums: somebody has
// changed them by hand. The release that a run began with may have written some differently, so
// only those are compared that every release writes alike.
func (p *pass) restoreFigures() {
	status := &p.d.Status
	if status.Shards == nil || status.Episodes == nil {
		return
	}
	sums, done, err := tally.ReadCounted(p.s.Run)
	if err != nil {
		failed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed)
		if findNewer(p.s.Run) == nil && failed != nil && failed.Reason != v1alpha1.ReasonSummaryRefused {
			p.noteEdited(fmt.Sprintf("%v. The figures can't be checked.", err))
		}
		return
	}
	progressed, restored := status.Progress, status.DeepCopy()
	evaluation.WriteFigures(restored, sums, done)
	restored.Progress = progressed
	evaluation.WriteCosts(restored, &p.s.Run.Spec)
	if changed := evaluation.CompareFigures(*status, *restored); len(changed) > 0 {
		p.d.Status = *restored
		p.noteEdited(fmt.Sprintf("%s had other values than follow from status.shards.accumulator, and are restored.",
			strings.Join(changed, ", ")))
	}
}

// noteEdited says that the status of an ended run was changed by hand.
func (p *pass) noteEdited(what string) {
	c := evaluation.NewCondition(v1alpha1.ConditionUnedited, metav1.ConditionFalse, v1alpha1.ReasonEditedByHand,
		"The status was changed by hand after the end of the run: "+what)
	before := meta.FindStatusCondition(p.s.Run.Status.Conditions, c.Type)
	if before == nil || before.Message != c.Message {
		p.d.addEvent(corev1.EventTypeWarning, c.Reason, c.Message)
	}
	p.set(c)
}

// restoreScores writes the table of a complete run again that was deleted, or else says so.
func (p *pass) restoreScores() {
	if !p.s.ScoresGone {
		return
	}
	name := p.d.Status.ScoresRef.Name
	sums, _, err := tally.ReadCounted(p.s.Run)
	if err == nil && p.s.ScoresKept != nil && sums.Holds(tally.ReadTable(p.s.ScoresKept)) {
		p.writeTable(p.s.ScoresKept.Data[v1alpha1.ScoresKey])
		return
	}
	p.d.Status.ScoresRef = nil
	p.noteEdited(fmt.Sprintf("ConfigMap %s was deleted, so there is no table of the scenarios' scores any more. Other "+
		"runs can't be compared with this one; the figures are not affected.", name))
}

// repeatEnd repeats what the last pass of an ended run may not have completed.
func (p *pass) repeatEnd() {
	for i := range p.d.Status.Conditions {
		p.d.Status.Conditions[i].ObservedGeneration = p.s.Run.Generation
	}
	p.restoreFigures()
	p.restoreScores()
	p.compareLate()
	p.compareCounts()
	p.cleanUp()
}

// compareLate compares a complete run that waits for its baseline, and checks its thresholds again.
func (p *pass) compareLate() {
	complete := meta.FindStatusCondition(p.d.Status.Conditions, v1alpha1.ConditionComplete)
	sums, _, err := tally.ReadCounted(p.s.Run)
	if complete == nil || err != nil || !evaluation.AwaitsBaseline(p.d.Status.Conditions) {
		return // a status that was changed by hand keeps its figures
	}
	p.d.Tally.Sums = sums
	table := tally.ReadTable(p.s.Scores)
	if !sums.Holds(table) {
		table = nil
	}
	p.compareWithBaseline(table)
	p.replaceVerdict(evaluation.Outcome{State: evaluation.Completed, Reason: complete.Reason,
		Message: complete.Message})
	if c := meta.FindStatusCondition(p.d.Status.Conditions, v1alpha1.ConditionThresholdsMet); c != nil &&
		c.Status == metav1.ConditionFalse {
		p.d.addEvent(corev1.EventTypeWarning, c.Reason, c.Message)
	}
}
