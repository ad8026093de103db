package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// jobSource takes episodes from the summaries that a Job's runners leave.
type jobSource struct{}

func (jobSource) traits() traits {
	return traits{
		suspended: "spec.suspend is true: runners are stopped, and shards that have not ended will be played again. " +
			"Set it to false to continue.",
		resumed: "The run continues with the shards that are not counted yet.",
	}
}

// readJob reads the run's Job and, until the run has ended, its plan, its table and the servers'
// counts.
func (r *Reader) readJob(ctx context.Context, s *snapshot) error {
	planMap, job := &corev1.ConfigMap{}, &batchv1.Job{}
	if found, err := r.readOwn(ctx, s, s.run.Name, job); err != nil {
		return err
	} else if found {
		s.job = job
	}
	if s.closing || evaluation.Ended(s.run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if found, err := r.readOwn(ctx, s, planName(s.run), planMap); err != nil {
		return err
	} else if found {
		s.planMap = planMap
	}
	if err := errors.Join(r.readRefusal(ctx, s), r.readLostNodes(ctx, s)); err != nil {
		return err
	}
	if _, err := s.storedPlan(); err != nil || s.run.Status.Provenance == nil {
		if err := r.readReport(ctx, s); err != nil {
			return err
		}
	}
	if err := r.readScores(ctx, s, len(s.succeeded) > 0); err != nil {
		return err
	}
	return r.readLive(ctx, s)
}

// begin makes the plan.
func (jobSource) begin(d *decision, s snapshot) evaluation.Outcome {
	plan, sums, err := evaluation.Begin(s.run, &d.status, s.offer())
	if err != nil {
		return evaluation.InvalidPlan(err)
	}
	d.status.StartTime = new(metav1.NewTime(s.now))
	d.status.Results = resultsURL(s.run)
	d.status.Shards.Rounds = 1
	d.folding.sums = sums
	d.createPlan = &plan
	d.createJob = nextJob(d, s)
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonStarted,
		fmt.Sprintf("Planned %s against pool %s, in %s; up to %s at a time.",
			evaluation.Count(plan.Episodes(), "episode"), s.env.Name, evaluation.Count(int64(plan.Shards), "shard"),
			evaluation.Count(int64(parallelism(s.run, d.status.Shards.Total)), "runner")))
	return inProgress(d, s)
}

// advance implements source. A complete run keeps its figures, even if the pool has changed since.
func (jobSource) advance(d *decision, s snapshot) evaluation.Outcome {
	noteAdmission(d, s)
	return inOrder(d, s, foldSummaries, allCounted, budget, revoked, planChanged, activeDeadline, jobFailure,
		continueJob)
}

// foldSummaries adds the summaries of the pods that have succeeded to the figures.
func foldSummaries(d *decision, s snapshot) evaluation.Outcome {
	sums, done, err := counted(s.run)
	if err != nil {
		return changedByHand(err)
	}
	plan, err := s.storedPlan()
	if err != nil {
		plan, err = recoverPlan(d, s, sums.Plan)
	}
	if err != nil {
		d.folding, d.planErr = folding{sums: sums, completed: done}, err
		return evaluation.Outcome{}
	}
	d.folding = fold(plan, sums, done, s.pods)
	d.plan = plan
	if made := d.status.Provenance; s.run.Spec.Agent.Container != nil {
		made.AgentImageDigests = pods.ImageDigests(s.succeeded, agentContainer, made.AgentImageDigests...)
	}
	keepScores(d, s, plan)
	evaluation.WriteFigures(&d.status, d.folding.sums, d.folding.completed)
	flawless, err := keepFlawless(s.run.Status.Shards, d.folding)
	if err != nil {
		return changedByHand(err)
	}
	if flawless != nil {
		d.status.Shards.Flawless = flawless
	}
	announceFolding(d, s, done)
	return evaluation.Outcome{}
}

func changedByHand(err error) evaluation.Outcome {
	return failed(v1alpha1.ReasonSummaryRefused,
		fmt.Sprintf("The status has been changed by hand: %v. Create the run again.", err))
}

// budget fails a run whose counted episodes have cost more than it may.
func budget(d *decision, s snapshot) evaluation.Outcome {
	why := evaluation.OverBudget(&s.run.Spec, d.status.Tokens)
	if why == "" {
		return evaluation.Outcome{}
	}
	return evaluation.BudgetExceeded(why, fmt.Sprintf("%s To go on, raise the budget and %s.", shardsMessage(d),
		evaluation.HowToResume(s.run)))
}

// allCounted ends a run when every shard is counted, or when a refused one can't be played again.
func allCounted(d *decision, s snapshot) evaluation.Outcome {
	verdict, over := evaluation.Verdict(s.run, d.status, evaluation.Counted{
		Episodes: d.status.Episodes.Total, Why: evaluation.AllCounted, Mute: d.folding.sums.Mute,
		Complete: d.folding.completed.Len() >= int64(s.run.Status.Shards.Total),
		Advice: "See the runners' logs (" + logsCommand(s.run) + ") for the causes, then " +
			evaluation.HowToResume(s.run) + ".",
	})
	if verdict.State == evaluation.Completed {
		d.status.Shards.Flawless = nil
		complete(d, s, d.plan)
	}
	if over || mayPlayAgain(s.run) {
		return verdict
	}
	// A refusal of an earlier Job is no reason: its shard is being played again.
	for _, r := range d.folding.refused {
		if r.pod.Annotations[annotationAttempt] == strconv.Itoa(int(d.status.Shards.Rounds)) {
			return failed(v1alpha1.ReasonSummaryRefused, refusedMessage(r, s.run))
		}
	}
	return verdict
}

// planChanged fails a run if the pool no longer offers what the run began with.
func planChanged(d *decision, s snapshot) evaluation.Outcome {
	switch {
	case s.env == nil:
		return evaluation.Outcome{}
	case errors.Is(d.planErr, errPlanDiffers):
		return failed(v1alpha1.ReasonEnvironmentChanged, fmt.Sprintf("The scenarios or the ledger key of pool %s "+
			"changed during the run. Create the run again.", s.env.Name))
	case d.planErr != nil:
		return environmentChange(s, s.env.Status.LedgerPublicKey)
	default:
		return environmentChange(s, d.plan.LedgerKey)
	}
}

// continueJob has the missing shards played.
func continueJob(d *decision, s snapshot) evaluation.Outcome {
	if err := d.planErr; err != nil {
		d.wake(waitDelay)
		return running(v1alpha1.ReasonRunning, fmt.Sprintf("The plan in ConfigMap %s is missing and can't be created "+
			"again yet: %s.", planName(s.run), strings.TrimSuffix(err.Error(), ".")))
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

func (jobSource) end(*decision, snapshot) {}

// announceFolding announces what the pass has counted and refused.
func announceFolding(d *decision, s snapshot, before score.IndexSet) {
	for _, r := range d.folding.refused {
		d.events = append(d.events, event{
			kind: corev1.EventTypeWarning, reason: v1alpha1.ReasonSummaryRefused, about: r.pod,
			note: refusedSummary(r),
		})
	}
	if note := replayNote(d.folding.counted, s.run); note != "" {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonEpisodesReplayed, note)
	}
	announceProgress(d, before.Len(), d.folding.completed.Len(), int64(s.run.Status.Shards.Total), shardsMessage(d))
}

// announceProgress announces each quarter of a total.
func announceProgress(d *decision, before, now, total int64, message string) {
	const quarters = 4
	quarter := now * quarters / total
	if quarter > before*quarters/total && quarter < quarters {
		d.events = append(d.events, event{
			kind: corev1.EventTypeNormal, reason: v1alpha1.ReasonProgress,
			action: fmt.Sprintf("Count%dPercent", quarter*100/quarters),
			note:   fmt.Sprintf("%s The mean score so far is %s.", message, evaluation.MeanScore(d.status)),
		})
	}
}

// counted reads the sums and the counted shards from the status.
func counted(run *v1alpha1.EvaluationRun) (score.Accumulator, score.IndexSet, error) {
	shards := ptr.Deref(run.Status.Shards, v1alpha1.Shards{})
	return parseCounted(v1alpha1.CountedShards{CompletedIndexes: shards.CompletedIndexes,
		Accumulator: shards.Accumulator})
}

func refusedSummary(r refusal) string {
	return fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.pod.Name, r.err)
}

func refusedMessage(r refusal, run *v1alpha1.EvaluationRun) string {
	advice := "Check that the runners' image is the operator's own, then "
	if r.reason == refusedMalformed {
		advice = "See the pod's log, then "
	}
	advice += evaluation.HowToResume(run) + "."
	return refusedSummary(r) +
		" retries.shardBackoffLimit doesn't allow its shard to be played again. Shards counted " +
		"before stay in the figures. " + advice
}

// storedPlan reads the plan in the run's ConfigMap. Any user of the namespace may write to it, so
// the plan must have the fingerprint in the status, and the agent must be the run's.
func (s snapshot) storedPlan() (score.Plan, error) {
	if s.planMap == nil {
		return score.Plan{}, errors.New("there is no such ConfigMap")
	}
	sums, _, err := counted(s.run)
	if err != nil {
		return score.Plan{}, err
	}
	data := []byte(s.planMap.Data[planKey])
	if err := matchFingerprint(score.FingerprintOf(data), sums.Plan); err != nil {
		return score.Plan{}, err
	}
	plan, err := score.ParsePlan(data)
	if err != nil {
		return plan, err
	}
	return plan, agentChanged(s.run, s.planMap, s.job)
}

// matchFingerprint returns an error if a plan has another fingerprint.
func matchFingerprint(got, fingerprint string) error {
	if got != fingerprint {
		return fmt.Errorf("the plan's fingerprint is %s, not %s", got, fingerprint)
	}
	return nil
}

// recoverPlan makes the plan again: it is a function of the spec, of the pool's scenarios and of
// the number of shards.
func recoverPlan(d *decision, s snapshot, fingerprint string) (score.Plan, error) {
	if s.planMap != nil {
		d.removePlan = true
		return score.Plan{}, errors.New("its content was changed")
	}
	if s.report == nil {
		return score.Plan{}, errors.Join(s.reportErr, errors.New(environmentCondition(s).Message))
	}
	plan, err := evaluation.NewPlan(s.run, s.offer(), int(s.run.Status.Shards.Total))
	var got string
	if err == nil {
		got, err = plan.Fingerprint()
	}
	if err == nil {
		err = matchFingerprint(got, fingerprint)
	}
	if err != nil {
		return plan, fmt.Errorf("%w: %w", errPlanDiffers, err)
	}
	if len(s.taken) == 0 {
		d.createPlan = &plan
	}
	return plan, nil
}

// errPlanDiffers means that the pool's scenarios no longer make the plan that the run began with.
var errPlanDiffers = errors.New("the pool's scenarios make another plan")
