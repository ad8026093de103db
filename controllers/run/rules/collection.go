package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// CollectInterval is the time between two requests to the pool's servers: well within the time
	// that a draining server waits for its last episodes to be collected.
	CollectInterval = 5 * time.Second
	// SilentInterval is that time while no server replies, because requests to such a pool take
	// long. A draining server waits longer, and a pool that is back wakes its runs.
	SilentInterval = 30 * time.Second
	// AcknowledgeDelay is the time until the segment of a draining server is acknowledged, so that
	// it can end.
	AcknowledgeDelay = time.Second
	// CollectPatience is how long a run that reached activeDeadlineSeconds waits for servers that
	// don't reply.
	CollectPatience = 15 * time.Second
)

// serverSource takes episodes from the segments of the pool's servers: trainers play them.
type serverSource struct{}

func (serverSource) traits() traits {
	return traits{
		suspended: "spec.suspend is true: no episodes are collected. Servers keep them while they run and have " +
			"capacity. Set it to false to continue.",
		resumed: "The run collects episodes again.",
	}
}

// begin stores what the pool grades with, before a segment is read.
func (serverSource) begin(d *Decision, s observe.Snapshot) evaluation.Outcome {
	passScore, err := evaluation.PassScore(s.Run)
	if err != nil {
		return evaluation.InvalidPlan(err)
	}
	if err := evaluation.Permitted(s.Run, s.Offer()); err != nil {
		return evaluation.InvalidPlan(err)
	}
	if o := trainersRefused(d, s); o.Ended() {
		return o
	}
	if d.Status.Provenance, err = evaluation.NewProvenance(s.Run, s.Offer()); err != nil {
		return evaluation.InvalidPlan(err)
	}
	sums := &score.Ledger{
		Run: string(s.Run.UID), PassScore: passScore, ScenarioDigest: s.Report.ScenarioDigest,
		GraderVersion: s.Report.GraderVersion, Judge: s.Report.Judge,
	}
	d.Status.Rollouts = &v1alpha1.Rollouts{Tag: tagOf(s.Run), LedgerKey: s.Env.Status.LedgerPublicKey}
	if d.Status.Rollouts.Ledger, err = tally.EncodeLedger(sums); err != nil {
		return evaluation.InvalidPlan(err)
	}
	d.Status.StartTime, d.Status.PassScore = new(metav1.NewTime(s.Now)), score.Exact(passScore)
	writeCollected(d, s.Run, sums)
	d.wake(time.Second)
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonStarted, fmt.Sprintf("Collecting the episodes of pool %s that "+
		"trainers tag with reset(run=%q).", s.Env.Name, d.Status.Rollouts.Tag))
	return collecting(d, s)
}

// advance implements source. Segments of another grader end a run only if it isn't complete.
func (serverSource) advance(d *Decision, s observe.Snapshot) evaluation.Outcome {
	return inOrder(d, s, foldSegments, goalReached, revoked, trainersRefused, graderChanged, collectionDeadline,
		collecting)
}

// trainersRefused fails a run whose pool refuses to play outside of runners.
func trainersRefused(_ *Decision, s observe.Snapshot) evaluation.Outcome {
	if s.Env == nil || s.Env.Spec.Access.Play != v1alpha1.RunsOnlyPlay {
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonTrainersNotAllowed, fmt.Sprintf("Pool %s refuses trainers, because its "+
		"access.play is RunsOnly: only runners have a run's credential. Use a pool with access.play Open and create "+
		"the run again.", s.Env.Name))
}

// foldSegments adds the new segments to the figures.
func foldSegments(d *Decision, s observe.Snapshot) evaluation.Outcome {
	d.collected = tally.CollectSegments(s.Run, s.Segments, s.Gone)
	c := d.collected
	if c.Err != nil {
		return changedByHand(c.Err)
	}
	text, err := tally.EncodeLedger(c.Sums)
	if err != nil {
		// The figures stay as they were before this pass: collect has read them.
		before, _, _ := tally.ReadCollected(s.Run)
		writeCollected(d, s.Run, before)
		return failed(v1alpha1.ReasonLedgerTooLarge, fmt.Sprintf("The collected episodes exceed what the sums of one "+
			"run can hold: %v. The figures contain those counted before. Create a run for each part of the scenarios.",
			err))
	}
	d.Tally.Refused, d.Tally.Ledgers, d.Tally.Errored = c.Refused, c.Counted, c.Errored
	d.Status.Rollouts.Ledger, d.Status.Rollouts.Servers = text, c.Servers
	d.Status.Rollouts.Dropped += c.Dropped
	d.Status.Rollouts.Forked += c.Forked
	writeCollected(d, s.Run, c.Sums)
	showActive(d, s, *c)
	announceCollected(d, s.Run, *c)
	return evaluation.Outcome{}
}

// goalReached completes a run that has as many episodes as its spec asks for.
func goalReached(d *Decision, s observe.Snapshot) evaluation.Outcome {
	if !d.collected.ReachesGoal() {
		return evaluation.Outcome{}
	}
	return completeCollection(d, s, v1alpha1.ReasonCompleted, "All requested episodes are collected")
}

// graderChanged fails a run whose pool, or a server of it, grades differently from when it began.
// The pool's status may show the change later than its servers.
func graderChanged(d *Decision, s observe.Snapshot) evaluation.Outcome {
	if o := environmentChange(s, s.Run.Status.Rollouts.LedgerKey); o.Ended() {
		return o
	}
	for _, r := range d.collected.Refused {
		if r.Reason == tally.RefusedGrader {
			return failed(v1alpha1.ReasonEnvironmentChanged, fmt.Sprintf("Server %s of pool %s grades differently "+
				"from the pool when the run began: %v. Scores of different graders are never mixed. Create the run "+
				"again.", r.Pod.Name, evaluation.PoolOf(s.Run).Name, r.Err))
		}
	}
	return evaluation.Outcome{}
}

// collectionDeadline ends a run with the episodes that it has. It waits for silent servers a while.
func collectionDeadline(d *Decision, s observe.Snapshot) evaluation.Outcome {
	c := d.collected
	over, left := observe.FindDeadline(s.Run, s.Job, s.Now)
	switch {
	case over.IsZero():
		return evaluation.Outcome{}
	case left > 0:
		d.wake(left)
		return evaluation.Outcome{}
	case c.Silent > 0 && left > -CollectPatience:
		d.wake(AcknowledgeDelay)
		return evaluation.Outcome{}
	case c.Sums.Opened == 0:
		return failed(v1alpha1.ReasonDeadlineExceeded,
			fmt.Sprintf("No episode was collected within %d seconds (activeDeadlineSeconds). Check that trainers "+
				"reach pool %s and tag their sessions with reset(run=%q), then create the run again.",
				*s.Run.Spec.ActiveDeadlineSeconds, evaluation.PoolOf(s.Run).Name, d.Status.Rollouts.Tag))
	}
	return completeCollection(d, s, v1alpha1.ReasonCollectionEnded,
		fmt.Sprintf("The %d seconds of activeDeadlineSeconds are over", *s.Run.Spec.ActiveDeadlineSeconds))
}

// end turns the collected sums into those of a run with one shard, which other runs compare with.
func (serverSource) end(d *Decision, s observe.Snapshot) {
	if d.collected == nil || d.collected.Err != nil {
		return
	}
	progressed := d.Status.Progress
	d.Tally.Completed.Add(0)
	d.Status.Shards = &v1alpha1.Shards{Total: 1}
	evaluation.WriteFigures(&d.Status, d.Tally.Sums, d.Tally.Completed)
	d.Status.Progress = progressed
	d.Status.Rollouts.Ledger, d.Status.Rollouts.LedgerKey, d.Status.Rollouts.Servers = "", "", nil
}

// tagOf is the tag of the run's episodes: its name, after its namespace if that isn't the pool's.
func tagOf(run *v1alpha1.EvaluationRun) string {
	if evaluation.PoolOf(run).Namespace == run.Namespace {
		return run.Name
	}
	return run.Namespace + "/" + run.Name
}

// writeCollected writes the figures of the sums.
func writeCollected(d *Decision, run *v1alpha1.EvaluationRun, sums *score.Ledger) {
	total := tally.SumCollected(sums)
	d.Tally.Sums = total
	if d.Status.Episodes == nil {
		d.Status.Episodes = &v1alpha1.RunEpisodes{}
	}
	d.Status.Episodes.Total = max(tally.ReadGoal(run), sums.Opened)
	evaluation.WriteTotals(&d.Status, total.Figures())
	if tally.ReadGoal(run) == 0 {
		d.Status.Progress = fmt.Sprint(sums.Opened)
	}
}

func collectedMessage(d *Decision, run *v1alpha1.EvaluationRun) string {
	ended := d.Status.Episodes.Scored + d.Status.Episodes.Failed + d.Status.Episodes.Errored
	if wanted := tally.ReadGoal(run); wanted > 0 {
		return fmt.Sprintf("%d of %d episodes are collected.", ended, wanted)
	}
	return fmt.Sprintf("%d episodes are collected.", ended)
}

// announceCollected announces what the pass has counted and refused.
func announceCollected(d *Decision, run *v1alpha1.EvaluationRun, c tally.Collection) {
	for _, r := range c.Refused {
		d.Events = append(d.Events, Event{Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRolloutsRefused,
			About: r.Pod, Action: "Collect", Note: refusedSegment(r)})
	}
	if c.Dropped > 0 {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsDropped, fmt.Sprintf("%d episodes are not counted: "+
			"their servers had no capacity to keep them until they were collected. Possible causes are a suspended "+
			"run, an operator that was down, too many tags, or more scenarios than one segment can hold.", c.Dropped))
	}
	if c.Missing > 0 {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsMissing, fmt.Sprintf("%d segments of episodes are "+
			"not counted: a client other than this run has requested them. Check which clients can reach port %d of "+
			"the servers.", c.Missing, v1alpha1.OperationsPort))
	}
	if wanted := tally.ReadGoal(run); wanted > 0 {
		before := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
		announceProgress(d, before.Scored+before.Failed+before.Errored, c.Sums.Opened, wanted, collectedMessage(d, run))
	}
}

func refusedSegment(r tally.Refusal) string {
	return fmt.Sprintf("The segment of server %s is not counted: %v.", r.Pod.Name, r.Err)
}

// completeCollection completes a run with its figures, or fails it if too many episodes errored.
func completeCollection(d *Decision, s observe.Snapshot, reason, why string) evaluation.Outcome {
	sums := d.collected.Sums
	p, _ := evaluation.Verdict(s.Run, d.Status, evaluation.Counted{Episodes: sums.Opened, Complete: true,
		Reason: reason, Why: why, Advice: "See the servers' logs for the causes, then create the run again."})
	if p.State == evaluation.Failed {
		return p
	}
	table := &score.ScenarioTable{}
	table.Fold(sums)
	text, err := table.MarshalText()
	if err != nil || s.ScoresTaken {
		table = &score.ScenarioTable{}
	} else {
		writeTable(d, s, string(text))
	}
	publish(d, s, table)
	return p
}

// collecting is the outcome of a run that has not ended. It requests the next segments soon, at
// once if a draining server waits for its segment to be acknowledged.
func collecting(d *Decision, s observe.Snapshot) evaluation.Outcome {
	message := collectedMessage(d, s.Run)
	c := ptr.Deref(d.collected, tally.Collection{})
	if c.Awaited {
		d.wake(AcknowledgeDelay)
	}
	if observe.IsSuspended(s.Run) {
		return running(v1alpha1.ReasonSuspended, message+" Set spec.suspend to false to continue.")
	}
	if c.Silent > 0 && c.Silent == len(s.Segments) {
		d.wake(SilentInterval)
	} else {
		d.wake(CollectInterval)
	}
	message += fmt.Sprintf(" Trainers tag their sessions with reset(run=%q). To end the run with the collected "+
		"episodes, set spec.activeDeadlineSeconds to 1.", d.Status.Rollouts.Tag)
	if len(c.Refused) > 0 {
		message += " " + refusedSegment(c.Refused[0])
	}
	if c.Refusing != nil {
		message += fmt.Sprintf(" Server %s returns no segment: %v. See its log, and check that the pool's image is of "+
			"the operator's release.", c.Refusing.Pod.Name, c.Refusing.Err)
	}
	return running(v1alpha1.ReasonRunning, message)
}
