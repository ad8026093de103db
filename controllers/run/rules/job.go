package rules

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// isJobCurrent reports whether the Job belongs to the present job attempt.
func (p *pass) isJobCurrent() bool {
	return p.s.Job != nil && p.d.Status.Shards != nil &&
		runner.ReadJobAttempt(p.s.Job) == p.d.Status.Shards.JobAttempts
}

// findStuck returns how long a runner may still fail to start, false if none fails.
func (p *pass) findStuck() (left time.Duration, stuck bool) {
	trouble := p.findTrouble()
	return trouble.Since.Add(stuckDeadline).Sub(p.s.Now), trouble.Why != ""
}

func (p *pass) findTrouble() runner.Trouble {
	return runner.FindStartTrouble(p.s.Pods, runner.SelectFailed(p.s.Failed, p.s.Job), p.s.Now)
}

// findLost returns how long the summaries of a complete Job are waited for, false if the Job isn't
// complete.
func (p *pass) findLost() (wait time.Duration, ended bool) {
	c := runner.FindJobCondition(p.s.Job, batchv1.JobComplete)
	if c == nil {
		return 0, false
	}
	if p.findMissing().removed == 0 {
		return 0, true
	}
	return c.LastTransitionTime.Add(lostDeadline).Sub(p.s.Now), true
}

const (
	// stuckDeadline is how long a runner may fail to start for a reason that rarely resolves
	// itself, such as an image that can't be pulled.
	stuckDeadline = 10 * time.Minute
	// lostDeadline is how long after its Job's completion a run waits for summaries that no pod
	// contains. Caches don't lag longer than that.
	lostDeadline = 2 * time.Minute
)

// planRun makes the plan.
func (p *pass) planRun() {
	plan, sums, err := evaluation.BeginRun(p.s.Run, &p.d.Status, p.s.Offer())
	p.plan, p.d.Tally.Sums, p.invalid = plan, sums, err
}

// startRun has the plan played.
func (p *pass) startRun() {
	p.d.Status.StartTime = new(metav1.NewTime(p.s.Now))
	p.d.Status.Results = runner.LocateResults(p.s.Run)
	p.d.Status.Shards.JobAttempts = 1
	p.createJob(p.makeNextJob())
}

// noteAdmission notes when the queue first admitted a Job of the run.
func (p *pass) noteAdmission() {
	job := p.s.Job
	if job != nil && runner.IsQueuedJob(job) && !ptr.Deref(job.Spec.Suspend, false) && p.d.Status.AdmissionTime == nil {
		p.d.Status.AdmissionTime = new(metav1.NewTime(p.s.Now))
	}
}

// playAgain begins another job attempt if the Job has completed while shards are missing: they have
// used their share of the budget, their summaries were refused or lost, or their pods were removed
// by force before they were read. The attempts are counted in the status, before the next Job is
// created, so that a crash in between counts none twice.
func (p *pass) playAgain() {
	if !p.isJobCurrent() {
		return
	}
	if wait, ended := p.findLost(); !ended || wait > 0 {
		return
	}
	shards, why := p.d.Status.Shards, p.findMissing()
	shards.JobAttempts++
	kind, cost := corev1.EventTypeNormal, "That is no attempt of retries.shardBackoffLimit."
	if why.isFree(shards.JobAttempts) {
		shards.JobAttemptsBefore++
	} else {
		kind, cost = corev1.EventTypeWarning, fmt.Sprintf("This is job attempt %d of at most %d, because "+
			"retries.shardBackoffLimit is %d.", shards.JobAttempts-shards.JobAttemptsBefore,
			runner.ReadBackoffLimit(p.s.Run)+1,
			runner.ReadBackoffLimit(p.s.Run))
	}
	p.d.addEvent(kind, v1alpha1.ReasonShardsPlayedAgain, fmt.Sprintf("Shards %s are played again: the summaries of %d "+
		"of them were refused, the pods of %d were removed, the runners of %d left no summary, as when a node fails, "+
		"and %d have used their share of the budget and get what others left. %s",
		pods.QuoteMessage(why.shards.String()), why.refused, why.removed, why.unwritten, why.stopped, cost))
}

// missing are the shards that a complete Job leaves, and how many of them are missing why.
type missing struct {
	shards                               score.IndexSet
	refused, removed, unwritten, stopped int64
}

func (p *pass) findMissing() missing {
	m := missing{shards: p.d.Tally.Missing(p.d.Status.Shards.Total), stopped: int64(len(p.d.Tally.Stopped))}
	m.removed = runner.CountUnseen(m.shards, p.s.Job, p.s.Succeeded)
	without := slices.DeleteFunc(slices.Clone(p.s.Succeeded), func(pod corev1.Pod) bool {
		return !tally.LacksSummary(&pod)
	})
	m.unwritten = m.shards.Len() - runner.CountUnseen(m.shards, p.s.Job, without)
	m.refused = m.shards.Len() - m.removed - m.unwritten - m.stopped
	return m
}

// maxFreeAttempts bounds the job attempts of a run in which runners may leave no summary without
// that being an attempt of retries.shardBackoffLimit.
const maxFreeAttempts = 20

// isFree reports whether the shards are played again in a job attempt that isn't limited: nobody
// has tampered with them.
func (m missing) isFree(jobAttempt int32) bool {
	return m.refused <= 0 && m.removed == 0 && (m.unwritten == 0 || jobAttempt <= maxFreeAttempts)
}

// keepJob makes the Job match the spec. A Job that has completed while shards are missing, or that
// can't go on because of sidecars, is deleted; the next pass creates another, which plays the
// missing ones.
//
// A run in a queue is suspended by deleting its Job, since only the queue may change whether its
// Job is suspended. The run so loses its place in the queue.
func (p *pass) keepJob() {
	if p.planErr != nil {
		return
	}
	p.storePlan()
	p.d.CreateCredential = p.s.NoCredential
	next, job, suspended := p.makeNextJob(), p.s.Job, evaluation.IsSuspended(p.s.Run)
	switch {
	case job == nil:
		if next != nil {
			next.Continues = true
			p.d.wakeAfter(waitDelay)
		}
		p.createJob(next)
	case !job.DeletionTimestamp.IsZero():
	case !p.isJobCurrent(), next == nil && runner.IsJobActive(job), runner.IsJobActive(job) && p.changesBudget(),
		suspended && runner.IsQueuedJob(job) && runner.IsJobActive(job),
		runner.IsHeldByQueue(job) && runner.ReadRequestedQueue(job) != p.s.Run.Labels[runner.LabelQueue]:
		// A Job that waits in a queue is replaced when its run's label names another queue or none.
		p.deleteJob()
	case runner.HasJobEnded(job):
	case runner.IsBlockedBySidecars(job, p.findKept()):
		p.deleteJob()
	default:
		wanted := runner.LimitParallelism(p.s.Run, ptr.Deref(job.Spec.Completions, 1))
		if ptr.Deref(job.Spec.Parallelism, 0) != wanted {
			p.d.ChangeJob.Parallelism = &wanted
		}
		if ptr.Deref(job.Spec.Suspend, false) != suspended && !runner.IsQueuedJob(job) {
			p.d.ChangeJob.Suspend = &suspended
		}
	}
}

// changesBudget reports whether the spec's budget isn't the one that the Job's runners share.
func (p *pass) changesBudget() bool {
	return !p.hasBudget(ptr.Deref(runner.ReadBudget(p.s.Job), score.Budget{}).Used)
}

// storePlan makes the ConfigMap again that the pods of the Job read.
func (p *pass) storePlan() {
	if p.s.Job != nil && p.s.Job.DeletionTimestamp.IsZero() && runner.ReadInputs(&p.s.Job.Spec.Template) == nil {
		p.keepInputs()
	}
}

// deleteJob deletes the Job, and first stores a plan that only the Job has: the next one plays it
// too.
func (p *pass) deleteJob() {
	p.d.DeleteJob = true
	p.keepInputs()
}

// keepInputs has a ConfigMap made of the inputs of runners, unless there is one.
func (p *pass) keepInputs() {
	if p.s.PlanMap == nil && len(p.s.Taken) == 0 {
		p.d.CreatePlan = p.gatherInputs()
	}
}

// findKept finds the pods that sidecars keep running.
func (p *pass) findKept() []corev1.Pod {
	kept, _ := runner.FindOutlived(p.s.Succeeded, p.s.Now)
	return kept
}

// makeNextJob makes the Job that plays the missing shards, nil while there should be none. None is
// created for a suspended run: admission may put it into a queue, which would start it.
func (p *pass) makeNextJob() *runner.JobSpec {
	if evaluation.IsSuspended(p.s.Run) && (p.s.Job == nil || runner.IsQueued(p.s.Run)) {
		return nil
	}
	return &runner.JobSpec{JobAttempt: p.d.Status.Shards.JobAttempts,
		Budget: evaluation.BudgetOf(&p.s.Run.Spec, p.d.Tally.Sums.Tokens),
		Shards: p.d.Tally.Missing(p.d.Status.Shards.Total), Suspended: runner.IsQueued(p.s.Run)}
}

// createJob creates the Job, nil for none. It contains what its runners read, unless there is a
// ConfigMap or it is too large.
func (p *pass) createJob(next *runner.JobSpec) {
	if next == nil || len(p.s.Taken) > 0 {
		return
	}
	inputs := p.gatherInputs()
	switch {
	case p.planErr != nil:
		return
	case p.s.PlanMap != nil:
	case runner.FitsJob(inputs):
		next.Inputs = inputs
	default:
		p.d.CreatePlan = inputs
	}
	next.Digest = runner.DigestInputs(inputs)
	p.d.CreateJob = next
}

// gatherInputs returns the stored inputs of the runners, which an earlier release may have written.
// If none are stored, it makes them of the plan.
func (p *pass) gatherInputs() map[string]string {
	if p.inputs == nil {
		p.inputs, p.planErr = runner.MakeInputs(p.s.Run, p.plan)
	}
	return p.inputs
}
