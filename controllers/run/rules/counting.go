package rules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// replayNote lists the suspect shards, "" if there are none. The figures are correct nevertheless:
// only the first end of an episode is counted.
func replayNote(counted []tally.Shard, run *v1alpha1.EvaluationRun) string {
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
	return fmt.Sprintf("In shards %s, %d episodes ended again and %d more were begun than the runners report. "+
		"Only the first end of an episode is counted. A runner that failed and was restarted explains this: see "+
		"`kubectl get pods -n %s -l %s=%s`. Otherwise another client plays the run's episodes: check which clients "+
		"can reach the pool.",
		pods.Quote(shards.String()), replayed, unreported, run.Namespace, v1alpha1.LabelRun, run.Name)
}

// jobSource takes episodes from the summaries that a Job's runners leave.
type jobSource struct{}

func (jobSource) traits() traits {
	return traits{
		suspended: "spec.suspend is true: runners are stopped, and shards that have not ended will be played again. " +
			"Set it to false to continue.",
		resumed: "The run continues with the shards that are not counted yet.",
	}
}

// begin makes the plan.
func (jobSource) begin(d *Decision, s observe.Snapshot) evaluation.Outcome {
	plan, sums, err := evaluation.Begin(s.Run, &d.Status, s.Offer())
	if err != nil {
		return evaluation.InvalidPlan(err)
	}
	d.Status.StartTime = new(metav1.NewTime(s.Now))
	d.Status.Results = runner.LocateResults(s.Run)
	d.Status.Shards.Rounds = 1
	d.Tally.Sums = sums
	d.CreatePlan = &plan
	d.CreateJob = nextJob(d, s)
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonStarted,
		fmt.Sprintf("Planned %s against pool %s, in %s; up to %s at a time.",
			evaluation.Count(plan.Episodes(), "episode"), s.Env.Name, evaluation.Count(int64(plan.Shards), "shard"),
			evaluation.Count(int64(runner.LimitParallelism(s.Run, d.Status.Shards.Total)), "runner")))
	return inProgress(d, s)
}

// advance implements source. A complete run keeps its figures, even if the pool has changed since.
func (jobSource) advance(d *Decision, s observe.Snapshot) evaluation.Outcome {
	noteAdmission(d, s)
	return inOrder(d, s, foldSummaries, allCounted, budget, revoked, planChanged, activeDeadline, jobFailure,
		continueJob)
}

// foldSummaries adds the summaries of the pods that have succeeded to the figures.
func foldSummaries(d *Decision, s observe.Snapshot) evaluation.Outcome {
	sums, done, err := tally.ReadCounted(s.Run)
	if err != nil {
		return changedByHand(err)
	}
	plan, err := s.StoredPlan()
	if err != nil {
		plan, err = recoverPlan(d, s, sums.Plan)
	}
	if err != nil {
		d.Tally, d.planErr = tally.Result{Sums: sums, Completed: done}, err
		return evaluation.Outcome{}
	}
	d.Tally = tally.FoldSummaries(plan, sums, done, s.Pods)
	d.plan = plan
	if made := d.Status.Provenance; s.Run.Spec.Agent.Container != nil {
		made.AgentImageDigests = pods.ImageDigests(s.Succeeded, runner.AgentContainer, made.AgentImageDigests...)
	}
	keepScores(d, s, plan)
	evaluation.WriteFigures(&d.Status, d.Tally.Sums, d.Tally.Completed)
	flawless, err := tally.AddFlawless(s.Run.Status.Shards, d.Tally)
	if err != nil {
		return changedByHand(err)
	}
	if flawless != nil {
		d.Status.Shards.Flawless = flawless
	}
	announceFolding(d, s, done)
	return evaluation.Outcome{}
}

func changedByHand(err error) evaluation.Outcome {
	return failed(v1alpha1.ReasonSummaryRefused,
		fmt.Sprintf("The status has been changed by hand: %v. Create the run again.", err))
}

// budget fails a run whose counted episodes have cost more than it may.
func budget(d *Decision, s observe.Snapshot) evaluation.Outcome {
	why := evaluation.OverBudget(&s.Run.Spec, d.Status.Tokens)
	if why == "" {
		return evaluation.Outcome{}
	}
	return evaluation.BudgetExceeded(why, fmt.Sprintf("%s To go on, raise the budget and %s.", shardsMessage(d),
		evaluation.HowToResume(s.Run)))
}

// allCounted ends a run when every shard is counted, or when a refused one can't be played again.
func allCounted(d *Decision, s observe.Snapshot) evaluation.Outcome {
	verdict, over := evaluation.Verdict(s.Run, d.Status, evaluation.Counted{
		Episodes: d.Status.Episodes.Total, Why: evaluation.AllCounted, Mute: d.Tally.Sums.Mute,
		Complete: d.Tally.Completed.Len() >= int64(s.Run.Status.Shards.Total),
		Advice: "See the runners' logs (" + logsCommand(s.Run) + ") for the causes, then " +
			evaluation.HowToResume(s.Run) + ".",
	})
	if verdict.State == evaluation.Completed {
		d.Status.Shards.Flawless = nil
		complete(d, s, d.plan)
	}
	if over || mayPlayAgain(s.Run) {
		return verdict
	}
	// A refusal of an earlier Job is no reason: its shard is being played again.
	for _, r := range d.Tally.Refused {
		if r.Pod.Annotations[runner.AnnotationJobAttempt] == strconv.Itoa(int(d.Status.Shards.Rounds)) {
			return failed(v1alpha1.ReasonSummaryRefused, refusedMessage(r, s.Run))
		}
	}
	return verdict
}

// planChanged fails a run if the pool no longer offers what the run began with.
func planChanged(d *Decision, s observe.Snapshot) evaluation.Outcome {
	switch {
	case s.Env == nil:
		return evaluation.Outcome{}
	case errors.Is(d.planErr, errPlanDiffers):
		return failed(v1alpha1.ReasonEnvironmentChanged, fmt.Sprintf("The scenarios or the ledger key of pool %s "+
			"changed during the run. Create the run again.", s.Env.Name))
	case d.planErr != nil:
		return environmentChange(s, s.Env.Status.LedgerPublicKey)
	default:
		return environmentChange(s, d.plan.LedgerKey)
	}
}

// continueJob has the missing shards played.
func continueJob(d *Decision, s observe.Snapshot) evaluation.Outcome {
	if err := d.planErr; err != nil {
		d.wake(waitDelay)
		return running(v1alpha1.ReasonRunning, fmt.Sprintf("The plan in ConfigMap %s is missing and can't be created "+
			"again yet: %s.", runner.PlanName(s.Run), strings.TrimSuffix(err.Error(), ".")))
	}
	keepJob(d, s)
	showLive(d, s)
	o := inProgress(d, s)
	if notBegun(d, s, o) {
		if late := startDeadline(d, s, o); late.Ended() {
			return late
		}
	}
	return o
}

func (jobSource) end(*Decision, observe.Snapshot) {}

// announceFolding announces what the pass has counted and refused.
func announceFolding(d *Decision, s observe.Snapshot, before score.IndexSet) {
	for _, r := range d.Tally.Refused {
		d.Events = append(d.Events, Event{
			Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonSummaryRefused, About: r.Pod,
			Note: refusedSummary(r),
		})
	}
	if note := replayNote(d.Tally.Counted, s.Run); note != "" {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonEpisodesReplayed, note)
	}
	announceProgress(d, before.Len(), d.Tally.Completed.Len(), int64(s.Run.Status.Shards.Total), shardsMessage(d))
}

// announceProgress announces each quarter of a total.
func announceProgress(d *Decision, before, now, total int64, message string) {
	const quarters = 4
	quarter := now * quarters / total
	if quarter > before*quarters/total && quarter < quarters {
		d.Events = append(d.Events, Event{
			Kind: corev1.EventTypeNormal, Reason: v1alpha1.ReasonProgress,
			Action: fmt.Sprintf("Count%dPercent", quarter*100/quarters),
			Note:   fmt.Sprintf("%s The mean score so far is %s.", message, evaluation.MeanScore(d.Status)),
		})
	}
}

func refusedSummary(r tally.Refusal) string {
	return fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.Pod.Name, r.Err)
}

func refusedMessage(r tally.Refusal, run *v1alpha1.EvaluationRun) string {
	advice := "Check that the runners' image is the operator's own, then "
	if r.Reason == tally.RefusedMalformed {
		advice = "See the pod's log, then "
	}
	advice += evaluation.HowToResume(run) + "."
	return refusedSummary(r) +
		" retries.shardBackoffLimit doesn't allow its shard to be played again. Shards counted " +
		"before stay in the figures. " + advice
}

// recoverPlan makes the plan again: it is a function of the spec, of the pool's scenarios and of
// the number of shards.
func recoverPlan(d *Decision, s observe.Snapshot, fingerprint string) (score.Plan, error) {
	if s.PlanMap != nil {
		d.RemovePlan = true
		return score.Plan{}, errors.New("its content was changed")
	}
	if s.Report == nil {
		return score.Plan{}, errors.Join(s.ReportErr, errors.New(environmentCondition(s).Message))
	}
	plan, err := evaluation.NewPlan(s.Run, s.Offer(), int(s.Run.Status.Shards.Total))
	var got string
	if err == nil {
		got, err = plan.Fingerprint()
	}
	if err == nil {
		err = observe.MatchFingerprint(got, fingerprint)
	}
	if err != nil {
		return plan, fmt.Errorf("%w: %w", errPlanDiffers, err)
	}
	if len(s.Taken) == 0 {
		d.CreatePlan = &plan
	}
	return plan, nil
}

// errPlanDiffers means that the pool's scenarios no longer make the plan that the run began with.
var errPlanDiffers = errors.New("the pool's scenarios make another plan")
