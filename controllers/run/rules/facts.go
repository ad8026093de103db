package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/access"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/bitstream"
)

// Facts are what the rules are asked about: what the pass has read, and what it has counted so far.
type Facts struct {
	Run      *v1alpha1.EvaluationRun // as it was read
	Pool     PoolFacts
	Start    StartFacts
	Plan     PlanFacts
	Counts   CountFacts
	Deadline DeadlineFacts
	Job      JobFacts
	Servers  ServerFacts
	asked    Stage
}

// PoolFacts are about the run's pool.
type PoolFacts struct {
	Name     string // "" if there is no pool
	Waits    bool   // it isn't as runs need it, for which Message is the reason
	Message  string
	Ungraded bool   // its judge can't grade
	Revoked  bool   // it no longer admits the run's namespace
	RunsOnly bool   // it refuses trainers
	Change   string // what it grades differently from when the run began
}

// StartFacts are about startDeadlineSeconds.
type StartFacts struct {
	Limited bool
	Left    time.Duration
}

// PlanFacts are about the plan.
type PlanFacts struct {
	Forbidden error // what the spec refers to may not be read by its author
	Invalid   error // there is no plan for the spec
	Missing   error // the plan in the ConfigMap can't be used, or made again
}

// CountFacts are about the figures.
type CountFacts struct {
	Newer, Edited error              // why the figures in the status can't be added to
	TooLarge      error              // the sums can't be stored
	Progress      string             // for messages
	Shards        int64              // that are counted
	Verdict       evaluation.Outcome // on the figures, if they end the run
	Refused       *tally.Refusal     // of the present job attempt
	OverBudget    bool               // the budget leaves shards unplayed
	Used          score.Tokens
}

// DeadlineFacts are about activeDeadlineSeconds.
type DeadlineFacts struct {
	Over    bool               // and servers that don't reply aren't waited for
	Verdict evaluation.Outcome // on an External run's figures
}

// JobFacts are about the Job and its pods.
type JobFacts struct {
	Taken         string // objects of others with names that the run needs
	Pods          int
	Refusal       string         // the message that the API server refuses an object
	Invalid       bool           // it always will, because of what the spec says
	PodRefusal    string         // why it refuses the pods
	FailureReason string         // if the Job has failed
	Failure       string         // how
	Advice        string         // about the failure, "" if nothing is known
	LastFailure   string         // of a runner that its pod's spec ended, whose shard is played again
	Trouble       runner.Trouble // why a runner can't start
	LostNode      string
	Stuck         bool           // it couldn't for stuckDeadline
	Incomplete    bool           // the Job is complete, and the shards Unplayed are missing for good
	Unplayed      score.IndexSet // shards that aren't counted
	MayPlayAgain  bool
	Held          bool // by Queue
	Queue         string
	Unscheduled   string
	Sidecar       string // that keeps a pod
	WaitReason    string // why runners play nothing
	Wait          string
}

// ServerFacts are about the segments of the pool's servers.
type ServerFacts struct {
	Tag      string
	Ended    int64 // episodes that are collected
	Refused  *tally.Refusal
	Refusing *tally.Reply
}

// Stage is a set of stages of a pass. The rules of a stage are asked after its steps.
type Stage uint

// The stages of passes.
const (
	Reading    Stage = 1 << iota // what has been read
	Beginning                    // a run that has not begun
	Planned                      // its plan has been made
	Counted                      // the summaries of a Job's runners are in the figures
	Playing                      // the Job is as it should be
	Refused                      // the API server has refused an object that the pass writes
	Collected                    // the segments of trainers' episodes are in the figures
	Collecting                   // more of them are requested
)

func (p *pass) gatherFacts(stage Stage) Facts {
	if stage == Reading {
		return Facts{Run: p.s.Run, Counts: CountFacts{Newer: findNewer(p.s.Run)}}
	}
	return Facts{
		Run: p.s.Run, Pool: p.gatherPool(), Start: gatherStart(p.s.Run, p.s.Now),
		Plan: p.gatherPlan(), Counts: p.gatherCounts(), Deadline: p.gatherDeadline(), Job: p.gatherJob(),
		Servers: gatherServers(p.d.Status.Rollouts, p.collected),
	}
}

func (p *pass) gatherPool() PoolFacts {
	facts := PoolFacts{Waits: p.environment.Status != metav1.ConditionTrue, Message: p.environment.Message,
		Ungraded: p.environment.Reason == v1alpha1.ReasonJudgeNotReady, Revoked: p.s.Revoked, Change: p.findChange()}
	if p.s.Env != nil {
		facts.Name, facts.RunsOnly = p.s.Env.Name, p.s.Env.Spec.Access.Play == v1alpha1.RunsOnlyPlay
	}
	return facts
}

// findChange returns what the pool grades differently from when the run began, "" if it grades
// alike or nothing is known.
func (p *pass) findChange() string {
	began, env := p.s.Run.Status.Provenance, p.s.Env
	switch {
	case began == nil:
		return ""
	case p.s.Run.Status.Rollouts != nil:
		change := describeChange(*began, p.s.Run.Status.Rollouts.LedgerKey, env)
		if change == "" && p.collected != nil {
			change = describeGrader(p.collected.Refused, evaluation.PoolOf(p.s.Run).Name)
		}
		return change
	case env == nil:
		return ""
	case errors.Is(p.planErr, errPlanDiffers):
		return fmt.Sprintf("The scenarios or the ledger key of pool %s changed during the run. Create the run again.",
			env.Name)
	case p.planErr != nil:
		return describeChange(*began, env.Status.LedgerPublicKey, env)
	default:
		return describeChange(*began, p.plan.LedgerKey, env)
	}
}

// describeGrader returns which server grades differently from the pool when the run began. The
// pool's status may show the change later than its servers.
func describeGrader(refused []tally.Refusal, pool string) string {
	for _, r := range refused {
		if r.Reason == tally.RefusedGrader {
			return fmt.Sprintf("Server %s of pool %s grades differently from the pool when the run began: %v. Scores "+
				"of different graders are never mixed. Create the run again.", r.Pod.Name, pool, r.Err)
		}
	}
	return ""
}

// gatherStart starts the time again when the run is resumed.
func gatherStart(run *v1alpha1.EvaluationRun, now time.Time) StartFacts {
	deadline := run.Spec.StartDeadlineSeconds
	if deadline == nil {
		return StartFacts{}
	}
	since := now
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSuspended); c != nil &&
		c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	if resumed := run.Status.AttemptTime; resumed != nil && resumed.After(since) {
		since = resumed.Time
	}
	return StartFacts{Limited: true, Left: since.Add(convertSeconds(*deadline)).Sub(now)}
}

func (p *pass) gatherPlan() PlanFacts {
	facts := PlanFacts{Invalid: p.invalid, Missing: p.planErr}
	if p.s.Run.Status.Provenance == nil {
		facts.Forbidden = access.CheckReferences(p.s.Run, p.s.Pools)
	}
	return facts
}

func (p *pass) gatherCounts() CountFacts {
	facts := CountFacts{Edited: p.edited, TooLarge: p.tooLarge, Shards: p.d.Tally.Completed.Len()}
	if facts.Edited != nil || facts.TooLarge != nil {
		return facts
	}
	switch {
	case p.d.Status.Rollouts != nil:
		facts.Progress = describeCollected(*p.d.Status.Episodes, tally.ReadGoal(p.s.Run))
		if p.collected != nil && p.collected.ReachesGoal() {
			facts.Verdict = p.judgeCollection(v1alpha1.ReasonCompleted, "All requested episodes are collected")
		}
	case p.d.Status.Shards != nil:
		facts.Progress = describeShards(p.d.Tally.Completed, p.d.Status.Shards)
		facts.OverBudget, facts.Used = p.overBudget, p.d.Tally.Sums.Tokens
		facts.Verdict, _ = evaluation.DecideOutcome(p.s.Run, p.d.Status, evaluation.Counted{
			Episodes: p.d.Status.Episodes.Total, Why: evaluation.AllCounted, Mute: p.d.Tally.Sums.Mute,
			Complete: p.d.Tally.Completed.Len() >= int64(p.d.Status.Shards.Total),
			Advice: "See the runners' logs (" + writeLogsCommand(p.s.Run) + ") for the causes, then " +
				evaluation.HowToResume(p.s.Run) + ".",
		})
		facts.Refused = findRefused(p.d.Tally.Refused, p.d.Status.Shards.Rounds)
	}
	return facts
}

// judgeCollection is the verdict on the collected episodes if the run ends with them.
func (p *pass) judgeCollection(reason, why string) evaluation.Outcome {
	o, _ := evaluation.DecideOutcome(p.s.Run, p.d.Status, evaluation.Counted{Episodes: p.collected.Sums.Opened,
		Complete: true, Reason: reason, Why: why,
		Advice: "See the servers' logs for the causes, then create the run again."})
	return o
}

// findNewer returns an error if a newer release of the operator has written the figures.
func findNewer(run *v1alpha1.EvaluationRun) error {
	var err error
	switch {
	case run.Status.Rollouts != nil:
		_, _, err = tally.ReadCollected(run)
	case run.Status.Shards != nil:
		_, _, err = tally.ReadCounted(run)
	}
	if other, is := errors.AsType[*bitstream.VersionError](err); is && other.Got > other.Newest {
		return err
	}
	return nil
}

// findRefused returns a summary of a job attempt that is refused. Of an earlier attempt, the shard
// is being played again.
func findRefused(refused []tally.Refusal, jobAttempt int32) *tally.Refusal {
	return pods.FindFirst(refused, func(r tally.Refusal) bool {
		return r.Pod.Annotations[runner.AnnotationJobAttempt] == strconv.Itoa(int(jobAttempt))
	})
}

func (p *pass) gatherDeadline() DeadlineFacts {
	if !p.s.IsDeadlineOver() {
		return DeadlineFacts{}
	}
	c := p.collected
	if c == nil || c.Err != nil || p.tooLarge != nil {
		return DeadlineFacts{Over: !evaluation.IsExternal(p.s.Run)}
	}
	facts := DeadlineFacts{Over: !p.awaitsSilent()}
	if c.Sums.Opened > 0 {
		facts.Verdict = p.judgeCollection(v1alpha1.ReasonCollectionEnded, fmt.Sprintf(
			"The %d seconds of activeDeadlineSeconds are over", *p.s.Run.Spec.ActiveDeadlineSeconds))
	}
	return facts
}

func (p *pass) gatherJob() JobFacts {
	facts := JobFacts{Taken: strings.Join(p.s.Taken, ", "), Pods: len(p.s.Pods), PodRefusal: p.s.PodsRefused,
		Refusal: p.findRefusal(), Unscheduled: describeUnscheduled(p.s.Pods, p.s.Now),
		LostNode: describeLostNode(p.s.Pods), Trouble: p.findTrouble(), Held: runner.IsHeldByQueue(p.s.Job)}
	if facts.Held {
		facts.Queue = p.s.Job.Labels[runner.LabelQueue]
	}
	if kept, _ := runner.FindOutlived(p.s.Succeeded, p.s.Now); len(kept) > 0 {
		facts.Sidecar = runner.DescribeSidecar(&kept[0])
	}
	facts.WaitReason, facts.Wait = p.findWait()
	facts.MayPlayAgain = p.s.Run.Status.Shards == nil || mayPlayAgain(p.s.Run)
	if p.s.Run.Status.Shards == nil || !p.isJobCurrent() {
		return facts
	}
	if c := runner.FindJobCondition(p.s.Job, batchv1.JobFailed); c != nil {
		facts.FailureReason, facts.Failure, facts.Advice = explainFailure(p.s.Job, c, p.s.Failed)
	}
	if failed := runner.SelectFailed(p.s.Failed, p.s.Job); runner.AdviseFailure(failed) != "" {
		facts.LastFailure = runner.QuoteLastFailure(failed)
	}
	left, stuck := p.findStuck()
	facts.Stuck = stuck && left <= 0
	facts.Unplayed = p.d.Tally.Missing(p.d.Status.Shards.Total)
	wait, ended := p.findLost()
	facts.Incomplete = ended && wait <= 0
	facts.MayPlayAgain = facts.MayPlayAgain ||
		facts.Incomplete && p.findMissing().isFree(p.s.Run.Status.Shards.Rounds+1)
	return facts
}

// explainFailure describes the failure of the Job, with what to do if that is known.
func explainFailure(job *batchv1.Job, c *batchv1.JobCondition,
	failed []corev1.Pod) (reason, message, advice string) {
	reason, message = v1alpha1.ReasonShardsFailed, fmt.Sprintf("Job %s failed: %s", job.Name,
		strings.TrimSuffix(c.Message, "."))
	if indexes := ptr.Deref(job.Status.FailedIndexes, ""); indexes != "" {
		message = fmt.Sprintf("Shards %s failed more often than retries.shardBackoffLimit allows",
			runner.ListShards(job, indexes))
	}
	if last := runner.FindLastFailure(failed); last != nil {
		switch pods.FindTerminatedState(last, runner.Container).ExitCode {
		case score.ExitAgentRefused:
			reason, message = v1alpha1.ReasonAgentRefused, "The agent's endpoint refuses every request"
		case score.ExitAgentUnavailable:
			reason = v1alpha1.ReasonAgentUnavailable
		}
		advice = runner.AdviseFailure(failed)
	}
	return reason, message + runner.QuoteLastFailure(failed), advice
}

// describeUnscheduled returns why a pod can't be scheduled, and what to do, "" if each can.
func describeUnscheduled(list []corev1.Pod, now time.Time) string {
	for i := range list {
		pod := &list[i]
		if c := pods.FindCondition(pod, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonUnschedulable {
			return fmt.Sprintf("Runner pod %s can't be scheduled: %s. %s", pod.Name,
				strings.TrimSuffix(pods.QuoteMessage(c.Message), "."),
				endSentence(pods.Advise(pods.Runner, pods.Scheduler, c.Message)))
		}
		if pods.IsUnclaimed(pod) && now.Sub(pod.CreationTimestamp.Time) >= pods.CreationPatience {
			return fmt.Sprintf("Scheduler %s hasn't looked at runner pod %s for more than %s. Run that scheduler, or "+
				"delete the run and create it again with another spec.template.schedulerName.", pod.Spec.SchedulerName,
				pod.Name, pods.CreationPatience)
		}
	}
	return ""
}

// describeLostNode returns which node of a runner doesn't answer, "" if each does.
func describeLostNode(list []corev1.Pod) string {
	for i := range list {
		if node := pods.FindLostNode(&list[i]); node != "" {
			return fmt.Sprintf("Node %s of runner pod %s doesn't answer. If it comes back, the runner goes on. "+
				"Otherwise its shard is played again after the tolerance for unreachable nodes, or as soon as the "+
				"node is deleted: `kubectl delete node %s`.", node, list[i].Name, node)
		}
	}
	return ""
}

// endSentence adds the full stop to an advice, if there is one.
func endSentence(advice string) string {
	if advice == "" {
		return ""
	}
	return advice + "."
}

// mayPlayAgain reports whether shards may be played by another Job.
func mayPlayAgain(run *v1alpha1.EvaluationRun) bool {
	return run.Status.Shards.Rounds-run.Status.Shards.RoundsBefore <= runner.ReadBackoffLimit(run)
}

// findRefusal returns the message of an object that was refused by the last pass and is tried again
// by this one.
func (p *pass) findRefusal() string {
	last := meta.FindStatusCondition(p.s.Run.Status.Conditions, v1alpha1.ConditionComplete)
	tried := p.d.CreateJob != nil || p.d.CreatePlan != nil || p.d.ChangeJob != (JobChange{}) || p.d.Scores != nil
	if !tried || last == nil || last.Reason != v1alpha1.ReasonJobRefused {
		return ""
	}
	return last.Message
}

// findWait returns what runners wait for that run but play nothing, "" if they play or nothing is
// known.
func (p *pass) findWait() (reason, why string) {
	isRunning := func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
	live := p.s.Live
	if live == nil || !live.Known || live.Idle < idleAfter || !slices.ContainsFunc(p.s.Pods, isRunning) {
		return "", ""
	}
	if n := live.Sessions; n.Capacity > 0 && n.Active >= n.Capacity {
		return v1alpha1.ReasonWaitingForCapacity, fmt.Sprintf("The runners wait for a free session: all %d of pool %s "+
			"are in use.", n.Capacity, p.s.Run.Spec.EnvironmentRef.Name)
	}
	if p.environment.Status == metav1.ConditionTrue {
		return "", ""
	}
	reason = v1alpha1.ReasonWaitingForEnvironment
	if p.environment.Reason == v1alpha1.ReasonJudgeNotReady {
		reason = v1alpha1.ReasonJudgeNotReady
	}
	return reason, "The runners wait for the pool. " + p.environment.Message
}

func gatherServers(rollouts *v1alpha1.Rollouts, c *tally.Collection) ServerFacts {
	facts := ServerFacts{Tag: ptr.Deref(rollouts, v1alpha1.Rollouts{}).Tag}
	if c == nil || c.Err != nil {
		return facts
	}
	facts.Ended, facts.Refusing = c.Sums.Opened, c.Refusing
	if len(c.Refused) > 0 {
		facts.Refused = &c.Refused[0]
	}
	return facts
}
