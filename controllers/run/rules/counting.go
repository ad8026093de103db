package rules

import (
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// countSummaries adds the summaries of the pods that have succeeded to the figures.
func (p *pass) countSummaries() {
	sums, done, err := tally.ReadCounted(p.s.Run)
	if err != nil {
		p.edited = err
		return
	}
	plan, err := p.s.StoredPlan()
	if err == nil {
		p.inputs = p.s.FindInputs()
	} else {
		plan, err = p.recoverPlan(sums.Plan)
	}
	if err != nil {
		p.d.Tally, p.planErr = tally.Result{Sums: sums, Completed: done}, err
		return
	}
	p.d.Tally = tally.FoldSummaries(tally.Expected{Plan: plan, Cipher: p.s.Cipher,
		Sessions: int64(runner.ReadConcurrency(p.s.Run)), Resumed: p.isResumed()}, sums, done,
		p.chooseSummaries(done))
	p.plan = plan
	if made := p.d.Status.Provenance; p.s.Run.Spec.Agent.Container != nil {
		made.AgentImageDigests = pods.ImageDigests(p.s.Succeeded, runner.AgentContainer, made.AgentImageDigests...)
	}
	p.keepScores()
	if p.isStoppedByBudget() {
		p.overBudget = true
		p.d.Tally.AddStopped()
	}
	p.writeCounted()
	p.announceCounted(done.Len())
}

// judgeCounted finds the verdict on the counted episodes, if the run ends with them.
func (p *pass) judgeCounted() {
	if p.edited != nil {
		return
	}
	p.verdict, _ = evaluation.DecideOutcome(p.s.Run, p.d.Status, evaluation.Counted{
		Episodes: p.d.Status.Episodes.Total, Why: evaluation.AllCounted, Mute: p.d.Tally.Sums.Mute,
		Complete: p.d.Tally.Completed.Len() >= int64(p.d.Status.Shards.Total)})
}

// isResumed reports whether the run was suspended after it had begun, or its Job, which somebody
// else may have suspended.
func (p *pass) isResumed() bool {
	began := p.s.Run.Status.StartTime
	c := meta.FindStatusCondition(p.s.Run.Status.Conditions, v1alpha1.ConditionSuspended)
	return c != nil && began != nil && c.LastTransitionTime.After(began.Time) || runner.WasResumed(p.s.Job)
}

// writeCounted writes the figures of what this pass and earlier ones have counted.
func (p *pass) writeCounted() {
	before := p.s.Run.Status
	p.d.Status.Episodes.Unreported = before.Episodes.Unreported
	for _, shard := range p.d.Tally.Counted {
		p.d.Status.Episodes.Unreported += shard.Unreported
	}
	evaluation.WriteFigures(&p.d.Status, p.d.Tally.Sums, p.d.Tally.Completed)
	flawless, err := tally.AddFlawless(before.Shards, p.d.Tally)
	if err != nil {
		p.edited = err
		return
	}
	if flawless != nil {
		p.d.Status.Shards.Flawless = flawless
	}
}

// isStoppedByBudget reports whether the budget leaves the missing shards unplayed: it is used up,
// or all of them have used their share of what the counted ones have left.
func (p *pass) isStoppedByBudget() bool {
	missing, spec := p.d.Tally.Missing(p.d.Status.Shards.Total), &p.s.Run.Spec
	if spec.Budget == nil || missing.Len() == 0 {
		return false
	}
	if !evaluation.HasBudgetLeft(spec, p.d.Tally.UsedTokens()) {
		return true
	}
	return int64(len(p.d.Tally.Stopped)) == missing.Len() && p.isJobCurrent() &&
		runner.FindJobCondition(p.s.Job, batchv1.JobComplete) != nil && p.hasBudget(p.d.Tally.Sums.Tokens)
}

// hasBudget reports whether the runners of the Job share the run's budget without the tokens used.
func (p *pass) hasBudget(used score.Tokens) bool {
	return equality.Semantic.DeepEqual(runner.ReadBudget(p.s.Job), evaluation.BudgetOf(&p.s.Run.Spec, used))
}

// BatchDelay is how long a summary may wait for others, so that one write of the status and one of
// the table counts all of them.
const BatchDelay = 5 * time.Second

// maxWaiting bounds the summaries that wait: more of them are worth a write, and the pods of a
// large run are released while others are played.
const maxWaiting = 32

// chooseSummaries returns the pods whose summaries the pass counts: all or, while they wait for
// others, none.
func (p *pass) chooseSummaries(counted score.IndexSet) []corev1.Pod {
	left := p.findBatchDelay(counted)
	if left <= 0 {
		return p.s.Pods
	}
	p.batching = true
	p.d.wakeAfter(left)
	return nil
}

// findBatchDelay returns how long summaries wait for others. They don't wait once every shard or
// maxWaiting have one, while the Job doesn't play, or if one of them is of a pod that is being
// deleted: its finalizer would delay whoever drains the node. A time in the future is of another
// clock.
func (p *pass) findBatchDelay(counted score.IndexSet) time.Duration {
	if p.hurried || evaluation.IsSuspended(p.s.Run) || !p.isJobCurrent() || !runner.IsJobActive(p.s.Job) {
		return 0
	}
	seen, left := counted.Clone(), BatchDelay
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		shard, err := runner.ReadShard(pod)
		if !runner.HasSucceeded(pod) || err == nil && counted.Contains(int64(shard)) {
			continue
		}
		waited := p.s.Now.Sub(runner.ReadFinishedTime(pod))
		if err != nil || waited < 0 || !pod.DeletionTimestamp.IsZero() {
			return 0
		}
		seen.Add(int64(shard))
		left = min(left, BatchDelay-waited)
	}
	waiting := seen.Len() - counted.Len()
	if waiting == 0 || waiting >= maxWaiting || seen.Len() >= int64(p.d.Status.Shards.Total) {
		return 0
	}
	return left
}

// keepScores adds the shards that this pass counts to the table of scenarios. The table is written
// before the status: after a crash in between it has additional rows, which are replaced when their
// shards are counted. Rows of other shards are never removed, since the status of this pass may be
// old.
func (p *pass) keepScores() {
	if len(p.d.Tally.Ledgers) == 0 || p.s.ScoresTaken {
		return
	}
	// A table that is too large is left out, which publish reports.
	if text, err := tally.AddRows(tally.ReadTable(p.s.Scores), p.plan, p.d.Tally).MarshalText(); err == nil {
		p.writeTable(string(text))
	}
}

// announceCounted announces what the pass has counted and refused.
func (p *pass) announceCounted(before int64) {
	for _, r := range p.d.Tally.Refused {
		p.d.Events = append(p.d.Events, Event{Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonSummaryRefused,
			About: r.Pod, Note: describeRefusedSummary(r)})
	}
	if note := describeReplayed(p.d.Tally.Counted, p.s.Run); note != "" {
		p.d.addEvent(corev1.EventTypeWarning, v1alpha1.ReasonEpisodesReplayed, note)
	}
	p.announceProgress(before, p.d.Tally.Completed.Len(), int64(p.d.Status.Shards.Total),
		describeShards(p.d.Tally.Completed, p.d.Status.Shards))
}

// describeReplayed lists the suspect shards, "" if there are none. The figures are correct
// nevertheless: only the first end of an episode is counted.
func describeReplayed(counted []tally.Shard, run *v1alpha1.EvaluationRun) string {
	var shards score.IndexSet
	var replayed, unreported int64
	for _, shard := range counted {
		if shard.IsSuspect() {
			shards.Add(int64(shard.Index))
			replayed += shard.Replayed
			unreported += shard.Unreported
		}
	}
	if shards.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("In shards %s, %d more episodes were begun than the runners report, and %d ended again, which "+
		"were not graded again. Another client may have the run's credential: check who can read Secret %s in "+
		"namespace %s.", pods.QuoteMessage(shards.String()), unreported, replayed, runner.NameCredential(run),
		run.Namespace)
}

// ProgressAfter is how long a run lasts before its progress and its completion are announced. A
// shorter one has them in its status, and an event is a write.
const ProgressAfter = time.Minute

func (p *pass) lasts() bool {
	return p.s.Now.Sub(ptr.Deref(p.s.Run.Status.StartTime, metav1.NewTime(p.s.Now)).Time) >= ProgressAfter
}

// announceProgress announces each quarter of a total.
func (p *pass) announceProgress(before, now, total int64, message string) {
	const quarters = 4
	quarter := now * quarters / total
	if quarter > before*quarters/total && quarter < quarters && p.lasts() {
		if !p.s.Withheld {
			message += fmt.Sprintf(" The mean score so far is %s.", evaluation.MeanScore(p.d.Status))
		}
		p.d.Events = append(p.d.Events, Event{
			Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonProgress,
			Action: fmt.Sprintf("Count%dPercent", quarter*100/quarters), Note: message,
		})
	}
}

// recoverPlan makes the plan again: it is a function of the spec, of the pool's scenarios and of
// the number of shards.
func (p *pass) recoverPlan(fingerprint string) (score.Plan, error) {
	if p.s.PlanMap != nil {
		p.d.RemovePlan = true
		return score.Plan{}, errors.New("its content was changed")
	}
	if p.s.Report == nil {
		return score.Plan{}, errors.Join(p.s.ReportErr, errors.New(p.poolCondition.Message))
	}
	plan, err := evaluation.NewPlan(p.s.Run, p.s.Offer(), int(p.s.Run.Status.Shards.Total))
	var got string
	if err == nil {
		got, err = plan.Fingerprint()
	}
	if err == nil {
		err = snapshot.MatchFingerprint(got, fingerprint)
	}
	if err != nil {
		return plan, fmt.Errorf("%w: %w", errPlanDiffers, err)
	}
	return plan, nil
}

// errPlanDiffers means that the pool's scenarios no longer make the plan that the run began with.
var errPlanDiffers = errors.New("the pool's scenarios make another plan")
