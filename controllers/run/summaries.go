package run

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// jobSource takes episodes from the summaries that a Job's runners leave.
type jobSource struct{}

func (jobSource) traits() traits {
	return traits{
		runners: true,
		suspended: "spec.suspend is true: runners are stopped, and the shards that they have not finished are played " +
			"again later. Set it to false, and the run goes on.",
		resumed: "The run goes on with the shards that are not in the figures yet.",
	}
}

// read reads the run's ConfigMap and Job and, until the run has ended, its table and the servers'
// counts.
func (jobSource) read(ctx context.Context, r *Reconciler, s *snapshot) error {
	planMap, job := &corev1.ConfigMap{}, &batchv1.Job{}
	if found, err := r.readOwn(ctx, s, planName(s.run), planMap); err != nil {
		return err
	} else if found {
		s.planMap = planMap
	}
	if found, err := r.readOwn(ctx, s, s.run.Name, job); err != nil {
		return err
	} else if found {
		s.job = job
	}
	if s.closing || ended(s.run.Status.Conditions) {
		return nil
	}
	if _, err := storedPlan(*s); err != nil || s.run.Status.Provenance == nil {
		r.readReport(ctx, s)
	}
	if err := r.readScores(ctx, s, len(s.succeeded) > 0); err != nil {
		return err
	}
	return r.readLive(ctx, s)
}

// begin implements source: it fixes the plan.
func (jobSource) begin(d *decision, s snapshot) evaluation.Outcome {
	plan, sums, err := evaluation.Begin(s.run, &d.status, s.offer())
	if err != nil {
		return evaluation.InvalidPlan(err)
	}
	d.status.StartTime = new(metav1.NewTime(s.now))
	d.status.Results = resultsURL(s.run)
	d.status.Shards.Rounds = 1
	d.folding.sums = sums
	d.createPlan, d.createJob = &plan, nextJob(d, s)
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonStarted,
		fmt.Sprintf("Planned %s against pool %s, in %s; up to %s at a time.",
			evaluation.Count(plan.Episodes(), "episode"), s.env.Name, evaluation.Count(int64(plan.Shards), "shard"),
			evaluation.Count(int64(parallelism(s.run, d.status.Shards.Total)), "runner")))
	return inProgress(d, s)
}

// fold counts the summaries of the pods that have succeeded.
func (jobSource) fold(d *decision, s snapshot) evaluation.Outcome {
	sums, done, err := counted(s)
	if err != nil {
		return changedByHand(err)
	}
	plan, err := storedPlan(s)
	if err != nil {
		plan, err = recoverPlan(d, s, sums.Plan)
	}
	if err != nil {
		d.folding = folding{sums: sums, completed: done, planErr: err}
		return evaluation.Outcome{}
	}
	d.folding = fold(plan, sums, done, s.pods)
	d.folding.plan = plan
	keepScores(d, s, plan)
	evaluation.WriteFigures(&d.status, d.folding.sums, d.folding.completed)
	announceFolding(d, s, done)
	return evaluation.Outcome{}
}

func changedByHand(err error) evaluation.Outcome {
	return failed(v1alpha1.ReasonSummaryRefused,
		fmt.Sprintf("The status has been changed by hand: %v. Create the run again.", err))
}

// complete implements source. A refused shard that can't be played again ends the run, too.
func (jobSource) complete(d *decision, s snapshot) (evaluation.Outcome, bool) {
	verdict, over := evaluation.Verdict(s.run, d.status, evaluation.Counted{
		Episodes: d.status.Episodes.Total, Why: evaluation.AllShards,
		Complete: d.folding.completed.Len() >= int64(s.run.Status.Shards.Total),
		Advice:   "See the runners' logs (" + logsCommand(s.run) + ") for the causes, then create the run again.",
	})
	if verdict.State == evaluation.Completed {
		complete(d, s, d.folding.plan)
	}
	if refused := d.folding.refused; !over && len(refused) > 0 && !mayPlayAgain(s.run) {
		return failed(v1alpha1.ReasonSummaryRefused, refusedMessage(refused[0])), true
	}
	return verdict, over
}

// change implements source.
func (jobSource) change(d *decision, s snapshot) string {
	switch {
	case s.env == nil:
		return ""
	case errors.Is(d.folding.planErr, errPlanDiffers):
		return fmt.Sprintf("Pool %s offers other scenarios, or has another ledger key, than when the run began. "+
			"Create the run again.", s.env.Name)
	case d.folding.planErr != nil:
		return environmentChange(s, s.env.Status.LedgerPublicKey)
	default:
		return environmentChange(s, d.folding.plan.LedgerKey)
	}
}

// overdue reports whether the deadline is over or the Job can't complete.
func (jobSource) overdue(d *decision, s snapshot) (evaluation.Outcome, bool) {
	if o, over := activeDeadline(d, s); over {
		return o, true
	}
	if reason, message := jobFailure(d, s); reason != "" {
		return failed(reason, message), true
	}
	return evaluation.Outcome{}, false
}

// proceed keeps the Job as the spec asks for.
func (jobSource) proceed(d *decision, s snapshot) evaluation.Outcome {
	if err := d.folding.planErr; err != nil {
		d.wake(waitDelay)
		return running(v1alpha1.ReasonRunning,
			fmt.Sprintf("The plan in ConfigMap %s is gone, and making it again has to wait: %v.", planName(s.run), err))
	}
	keepJob(d, s)
	showLive(d, s)
	return inProgress(d, s)
}

func (jobSource) end(*decision, snapshot) {}

// announceFolding announces what the pass has counted, and what it refused.
func announceFolding(d *decision, s snapshot, before score.IndexSet) {
	for _, r := range d.folding.refused {
		d.events = append(d.events, event{
			kind: corev1.EventTypeWarning, reason: v1alpha1.ReasonSummaryRefused, about: r.pod,
			note: fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.pod.Name, r.err),
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

// counted is what the status holds of the shards so far.
func counted(s snapshot) (score.Accumulator, score.IndexSet, error) {
	var sums score.Accumulator
	shards := ptr.Deref(s.run.Status.Shards, v1alpha1.Shards{})
	if err := sums.UnmarshalText([]byte(shards.Accumulator)); err != nil {
		return sums, score.IndexSet{}, fmt.Errorf("reading status.shards.accumulator: %w", err)
	}
	done, err := score.ParseIndexSet(shards.CompletedIndexes)
	if err != nil {
		return sums, done, fmt.Errorf("reading status.shards.completedIndexes: %w", err)
	}
	return sums, done, nil
}

func refusedMessage(r refusal) string {
	advice := "Check that the runners' image is the operator's own, then create the run again."
	if r.reason == refusedMalformed {
		advice = "See the pod's log, then create the run again."
	}
	return fmt.Sprintf("The summary of runner pod %s is not counted: %v. retries.shardBackoffLimit doesn't let its "+
		"shard be played once more. Shards counted before stay in the figures. %s",
		r.pod.Name, r.err, advice)
}

// storedPlan is the plan in the run's ConfigMap, if it has the fingerprint that the status holds:
// the ConfigMap is anybody's in the namespace.
func storedPlan(s snapshot) (score.Plan, error) {
	if s.planMap == nil {
		return score.Plan{}, errors.New("there is no such ConfigMap")
	}
	plan, err := score.ParsePlan([]byte(s.planMap.Data[planKey]))
	if err != nil {
		return plan, err
	}
	sums, _, err := counted(s)
	if err != nil {
		return plan, err
	}
	return plan, matches(plan, sums.Plan)
}

func matches(plan score.Plan, fingerprint string) error {
	got, err := plan.Fingerprint()
	if err == nil && got != fingerprint {
		err = fmt.Errorf("the plan's fingerprint is %s, not %s", got, fingerprint)
	}
	return err
}

// recoverPlan makes the plan again from what the pool offers: it is a function of the spec, of the
// pool's scenarios and of the number of shards.
func recoverPlan(d *decision, s snapshot, fingerprint string) (score.Plan, error) {
	if s.planMap != nil {
		d.removePlan = true
		return score.Plan{}, errors.New("its content was changed")
	}
	if s.report == nil {
		return score.Plan{}, errors.Join(s.reportErr, errors.New(environmentCondition(s).Message))
	}
	plan, err := evaluation.NewPlan(s.run, s.offer(), int(s.run.Status.Shards.Total))
	if err == nil {
		err = matches(plan, fingerprint)
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
