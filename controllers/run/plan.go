package run

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// waitDelay is how long a run waits for what nothing in the cluster tells: a pool that can't be
// read, a name that is taken.
const waitDelay = 15 * time.Second

// decision is what a pass is going to write, in the order of the fields.
type decision struct {
	scores  *string // the table of scenarios, if it differs
	status  v1alpha1.EvaluationRunStatus
	events  []event
	folding folding

	removePlan bool        // the ConfigMap isn't the plan
	createPlan *score.Plan // there is no ConfigMap
	deleteJob  bool
	createJob  *jobWish
	changeJob  jobChange

	lift      []corev1.Pod
	deleteRun bool
	again     time.Duration
}

// jobChange is what is to be changed about a Job, nil what is to stay.
type jobChange struct {
	parallelism *int32
	suspend     *bool
	// deadline, in seconds, ends a Job and leaves the pods that have ended.
	deadline *int64
}

// event is told about the run and, where another object has to do with it, about that. Events of
// one reason and action are told as one that happens again, with the note of the first.
type event struct {
	kind, reason, note string
	action             string
	about              *corev1.Pod
}

func (d *decision) tell(kind, reason, note string) {
	d.events = append(d.events, event{kind: kind, reason: reason, note: note})
}

// wake shortens the time until the next pass.
func (d *decision) wake(after time.Duration) {
	if d.again == 0 || after < d.again {
		d.again = max(after, time.Second)
	}
}

// decide says what follows from a snapshot of a run that exists.
func decide(s snapshot) decision {
	d := decision{status: *s.run.Status.DeepCopy()}
	if s.closing {
		vacate(&d, s)
		return d
	}
	d.status.ObservedGeneration = s.run.Generation
	if ended(s.run.Status.Conditions) {
		leave(&d, s)
		return d
	}
	d.status.Agent = evaluation.AgentName(s.run.Spec.Agent)
	var p evaluation.Outcome
	switch {
	case d.status.Provenance == nil:
		p = begin(&d, s)
	case isExternal(s.run):
		p = collect(&d, s)
	default:
		p = proceed(&d, s)
	}
	conclude(&d, s, p)
	return d
}

// conclude writes the conditions and what follows from an end, and lets go of pods.
func conclude(d *decision, s snapshot, p evaluation.Outcome) {
	if p.Ended() {
		d.status.CompletionTime = new(metav1.NewTime(s.now))
		d.removePlan, d.createPlan, d.createJob, d.changeJob, d.deleteJob = false, nil, nil, jobChange{}, false
		d.again = 0
		forget(d)
		setConditions(d, s, p)
		retire(d, s)
		return
	}
	setConditions(d, s, p)
	d.lift = liftable(d, s)
}

// begin fixes the plan of a run that has none, as soon as the pool is there. The status remembers
// what the plan was made with before anything is played.
func begin(d *decision, s snapshot) evaluation.Outcome {
	if suspended(s.run) {
		return waiting(v1alpha1.ReasonSuspended,
			"The run is suspended before it has begun. Set spec.suspend to false, and it begins.")
	}
	p := obstacle(s)
	switch {
	case p.State != evaluation.Waiting && isExternal(s.run):
		return openCollection(d, s)
	case p.State != evaluation.Waiting:
		return fixPlan(d, s)
	}
	if late, over := startDeadline(d, s, p); over {
		return late
	}
	d.wake(waitDelay)
	return p
}

// obstacle is what keeps a run from beginning, if something does.
func obstacle(s snapshot) evaluation.Outcome {
	if c := environmentCondition(s); c.Status != metav1.ConditionTrue {
		return waiting(v1alpha1.ReasonWaitingForEnvironment, c.Message)
	}
	if len(s.taken) > 0 {
		return waiting(v1alpha1.ReasonNameTaken,
			fmt.Sprintf("%s belongs to something else. Delete it, or give the run another name.",
				strings.Join(s.taken, ", ")))
	}
	return evaluation.Outcome{State: evaluation.Running}
}

func fixPlan(d *decision, s snapshot) evaluation.Outcome {
	plan, sums, err := evaluation.Begin(s.run, &d.status, s.offer())
	if err != nil {
		return evaluation.InvalidPlan(err)
	}
	d.status.StartTime = new(metav1.NewTime(s.now))
	d.status.Results = resultsURL(s.run)
	d.status.Shards.Rounds = 1
	d.folding.sums = sums
	d.createPlan, d.createJob = &plan, nextJob(d, s)
	d.tell(corev1.EventTypeNormal, v1alpha1.ReasonStarted,
		fmt.Sprintf("Planned %s against pool %s, in %s; up to %s side by side.",
			evaluation.Count(plan.Episodes(), "episode"), s.env.Name, evaluation.Count(int64(plan.Shards), "shard"), evaluation.Count(
				int64(parallelism(s.run, d.status.Shards.Total)), "runner")))
	return inProgress(d, s)
}

// proceed counts what has been played, and keeps the Job as it should be.
func proceed(d *decision, s snapshot) evaluation.Outcome {
	sums, done, err := counted(s)
	if err != nil {
		return failed(v1alpha1.ReasonSummaryRefused,
			fmt.Sprintf("The status has been changed by hand: %v. Create the run again.", err))
	}
	d.folding = folding{sums: sums, completed: done}
	plan, err := storedPlan(s)
	if err != nil {
		plan, err = recoverPlan(d, s, sums.Plan)
	}
	if err == nil {
		d.folding = fold(plan, sums, done, s.pods)
		keepScores(d, s, plan)
		evaluation.WriteFigures(&d.status, d.folding.sums, d.folding.completed)
		tellFolding(d, s, done)
	}
	if p, ended := outcome(d, s, plan, err); ended {
		return p
	}
	if err != nil {
		d.wake(waitDelay)
		return running(v1alpha1.ReasonRunning,
			fmt.Sprintf("The plan in ConfigMap %s is gone, and making it again has to wait: %v.", planName(s.run), err))
	}
	keepJob(d, s)
	showLive(d, s)
	return inProgress(d, s)
}

// tellFolding announces what the pass has counted, and what it hasn't.
func tellFolding(d *decision, s snapshot, before score.IndexSet) {
	for _, r := range d.folding.refused {
		d.events = append(d.events, event{
			kind: corev1.EventTypeWarning, reason: v1alpha1.ReasonSummaryRefused, about: r.pod,
			note: fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.pod.Name, r.err),
		})
	}
	if note := replayNote(d.folding.counted, s.run); note != "" {
		d.tell(corev1.EventTypeWarning, v1alpha1.ReasonEpisodesReplayed, note)
	}
	total := int64(s.run.Status.Shards.Total)
	const quarters = 4
	quarter := d.folding.completed.Len() * quarters / total
	if quarter > before.Len()*quarters/total && quarter < quarters {
		d.events = append(d.events, event{
			kind: corev1.EventTypeNormal, reason: v1alpha1.ReasonProgress,
			action: fmt.Sprintf("Count%dPercent", quarter*100/quarters),
			note:   fmt.Sprintf("%s The mean score so far is %s.", shardsMessage(d), evaluation.MeanScore(d.status)),
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

// outcome says whether the run has ended, and how. The order is the specification: figures that are
// complete stand, whatever became of the pool or the Job since.
func outcome(d *decision, s snapshot, plan score.Plan, planErr error) (evaluation.Outcome, bool) {
	verdict, over := evaluation.Verdict(s.run, d.status, evaluation.Counted{
		Episodes: d.status.Episodes.Total, Why: evaluation.AllShards,
		Complete: d.folding.completed.Len() >= int64(s.run.Status.Shards.Total),
		Advice:   "See the runners' logs (" + logsCommand(s.run) + ") for the causes, then create the run again.",
	})
	if verdict.State == evaluation.Completed {
		complete(d, s, plan)
	}
	if over {
		return verdict, true
	}
	if refused := d.folding.refused; len(refused) > 0 && !mayPlayAgain(s.run) {
		return failed(v1alpha1.ReasonSummaryRefused, refusedMessage(refused[0])), true
	}
	if s.revoked {
		return accessRevoked(), true
	}
	if change := planChange(s, plan, planErr); change != "" {
		return failed(v1alpha1.ReasonEnvironmentChanged, change), true
	}
	if p, over := activeDeadline(d, s); over {
		return p, true
	}
	if reason, message := jobFailure(d, s); reason != "" {
		return failed(reason, message), true
	}
	return evaluation.Outcome{}, false
}

func accessRevoked() evaluation.Outcome {
	return failed(v1alpha1.ReasonNamespaceNotAllowed, "The pool no longer admits runs of this namespace. "+
		"Ask its owner to admit the namespace in access.allowedNamespaces, then create the run again.")
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

// planChange says what of the pool is no longer what the plan was made with, "" if nothing is, or
// if the pool doesn't tell.
func planChange(s snapshot, plan score.Plan, planErr error) string {
	switch {
	case s.env == nil:
		return ""
	case errors.Is(planErr, errPlanDiffers):
		return fmt.Sprintf("Pool %s offers other scenarios, or has another ledger key, than when the run began. "+
			"Create the run again.", s.env.Name)
	case planErr != nil:
		return environmentChange(s, s.env.Status.LedgerPublicKey)
	default:
		return environmentChange(s, plan.LedgerKey)
	}
}

// environmentChange says what of the pool is no longer what the run began with, "" if nothing is,
// or if the pool doesn't tell.
func environmentChange(s snapshot, key string) string {
	if s.env == nil {
		return ""
	}
	began := s.run.Status.Provenance
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, s.env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, s.env.Status.GraderVersion},
		{"judge", began.Judge, s.env.Status.Judge},
		{"ledger key", key, s.env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return fmt.Sprintf("The %s of pool %s changed from %s to %s while the run was going on: scores of two "+
				"graders are never mixed. Create the run again.",
				field.what, s.env.Name, field.began, field.now)
		}
	}
	return ""
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
