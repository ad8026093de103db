package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
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
	// startDelay is the time until the first request.
	startDelay = time.Second
)

// planCollection finds out what the pool grades with, before a segment is read.
func (p *pass) planCollection() {
	var passScore int64
	if passScore, p.invalid = evaluation.PassScore(p.s.Run); p.invalid != nil {
		return
	}
	if p.invalid = evaluation.CheckLimits(p.s.Run, p.s.Offer()); p.invalid != nil {
		return
	}
	made, err := evaluation.NewProvenance(p.s.Run, p.s.Offer())
	if err != nil {
		p.invalid = err
		return
	}
	p.collectable = &score.Ledger{
		Run: string(p.s.Run.UID), PassScore: passScore, ScenarioDigest: p.s.Report.ScenarioDigest,
		GraderVersion: p.s.Report.GraderVersion, Judge: p.s.Report.Judge,
	}
	p.provenance = made
}

// startCollection stores it.
func (p *pass) startCollection() {
	text, err := tally.EncodeLedger(p.collectable)
	if err != nil {
		// An empty ledger can always be encoded.
		panic(fmt.Sprintf("encoding an empty ledger: %v", err))
	}
	p.d.Status.Provenance = p.provenance
	p.d.Status.Rollouts = &v1alpha1.Rollouts{Tag: chooseTag(p.s.Run), LedgerKey: p.s.Env.Status.LedgerPublicKey,
		Ledger: text}
	p.d.Status.StartTime = new(metav1.NewTime(p.s.Now))
	p.d.Status.PassScore = score.FormatExact(p.collectable.PassScore)
	p.writeCollected(p.collectable)
}

// chooseTag returns the tag of the run's episodes: its name, after its namespace if that isn't the
// pool's.
func chooseTag(run *v1alpha1.EvaluationRun) string {
	if evaluation.PoolOf(run).Namespace == run.Namespace {
		return run.Name
	}
	return run.Namespace + "/" + run.Name
}

// countSegments adds the new segments to the figures.
func (p *pass) countSegments() {
	c := tally.CollectSegments(p.s.Run, p.s.Segments, p.s.Gone)
	p.collected = c
	if p.edited = c.Err; p.edited != nil {
		return
	}
	text, err := tally.EncodeLedger(c.Sums)
	if err != nil {
		// The figures stay as they were before this pass, which has read them already.
		before, _, _ := tally.ReadCollected(p.s.Run)
		p.writeCollected(before)
		p.tooLarge = err
		return
	}
	p.d.Tally.Refused, p.d.Tally.Ledgers, p.d.Tally.Errored = c.Refused, c.Counted, c.Errored
	p.d.Status.Rollouts.Ledger, p.d.Status.Rollouts.Servers = text, c.Servers
	p.d.Status.Rollouts.Dropped += c.Dropped
	p.d.Status.Rollouts.Forked += c.Forked
	for _, lost := range p.s.Lost {
		p.d.Status.Rollouts.Lost += lost.Active + lost.Largest
	}
	p.writeCollected(c.Sums)
	p.showActive()
	p.announceCollected()
}

// showActive writes the number of active episodes and the estimated end, which are indicative only,
// when the status is written anyway, or when playing begins or ends.
func (p *pass) showActive() {
	c := p.collected
	before := ptr.Deref(ptr.Deref(p.s.Run.Status.Episodes, v1alpha1.RunEpisodes{}).Active, 0)
	if evaluation.IsSuspended(p.s.Run) {
		p.d.hideLive()
		return
	}
	if len(c.Counted) == 0 && (before > 0) == (c.Active > 0) {
		return
	}
	p.d.Status.Episodes.Active = new(c.Active)
	if tally.ReadGoal(p.s.Run) > 0 {
		p.d.Status.EstimatedCompletionTime = estimateEnd(p.s.Run.Status.StartTime.Time, p.s.Now, c.Sums.Opened,
			p.d.Status.Episodes.Total)
	}
}

// writeCollected writes the figures of the sums.
func (p *pass) writeCollected(sums *score.Ledger) {
	goal := tally.ReadGoal(p.s.Run)
	p.d.Tally.Sums = tally.SumCollected(sums)
	if p.d.Status.Episodes == nil {
		p.d.Status.Episodes = &v1alpha1.RunEpisodes{}
	}
	p.d.Status.Episodes.Total = max(goal, sums.Opened)
	evaluation.WriteTotals(&p.d.Status, p.d.Tally.Sums.Figures())
	if goal == 0 {
		p.d.Status.Progress = fmt.Sprint(sums.Opened)
	}
}

// announceCollected announces what the pass has counted and refused.
func (p *pass) announceCollected() {
	c := p.collected
	for _, r := range c.Refused {
		p.d.Events = append(p.d.Events, Event{Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRolloutsRefused,
			About: r.Pod, Action: "Collect", Note: describeRefusedSegment(r)})
	}
	for _, lost := range p.s.Lost {
		note := fmt.Sprintf("Server %s ended without its last episodes: %d were being played %s before, and up to %d "+
			"may have ended since. They are in no figure. Servers that are told to end wait until theirs are "+
			"collected.", lost.Pod, lost.Active, p.s.Now.Sub(lost.Seen).Round(time.Second), lost.Largest)
		p.d.Events = append(p.d.Events, Event{Kind: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRolloutsLost,
			Action: "Lose" + lost.Pod, Note: note})
	}
	if c.Dropped > 0 {
		p.d.addEvent(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsDropped, fmt.Sprintf("%d episodes are not "+
			"counted: their servers had no capacity to keep them until they were collected. Possible causes are a "+
			"suspended run, an operator that was down, too many tags, or more scenarios than one segment can hold.",
			c.Dropped))
	}
	if c.Missing > 0 {
		p.d.addEvent(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsMissing, fmt.Sprintf("%d segments of episodes "+
			"are not counted: a client other than this run has requested them. Check which clients can reach port %d "+
			"of the servers.", c.Missing, v1alpha1.OperationsPort))
	}
	if goal := tally.ReadGoal(p.s.Run); goal > 0 {
		before := ptr.Deref(p.s.Run.Status.Episodes, v1alpha1.RunEpisodes{})
		p.announceProgress(before.Scored+before.Failed+before.Errored, c.Sums.Opened, goal,
			describeCollected(*p.d.Status.Episodes, goal))
	}
}

// awaitsSilent reports whether a run whose deadline is over waits for servers that don't reply.
func (p *pass) awaitsSilent() bool {
	_, left := p.s.Deadline()
	return p.collected.Silent > 0 && left > -CollectPatience
}

// judgeCollected finds the verdicts on the collected episodes: of as many as the run asks for, and
// of those at its deadline.
func (p *pass) judgeCollected() {
	if p.edited != nil || p.tooLarge != nil {
		return
	}
	judge := func(reason, why string) evaluation.Outcome {
		o, _ := evaluation.DecideOutcome(p.s.Run, p.d.Status, evaluation.Counted{Episodes: p.collected.Sums.Opened,
			Complete: true, Reason: reason, Why: why})
		return o
	}
	if p.collected.ReachesGoal() {
		p.verdict = judge(v1alpha1.ReasonCompleted, "All requested episodes are collected")
	}
	if p.isCollectionOver() && p.collected.Sums.Opened > 0 {
		p.verdictAtDeadline = judge(v1alpha1.ReasonCollectionEnded, fmt.Sprintf(
			"The %d seconds of activeDeadlineSeconds are over", *p.s.Run.Spec.ActiveDeadlineSeconds))
	}
}
