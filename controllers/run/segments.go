package run

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/stats"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// collectInterval is the time between two questions to the pool's servers: well within the time
	// that a drained server waits for its last episodes to be collected.
	collectInterval = 5 * time.Second
	// silentInterval is that time while no server answers, for each question to such a pool takes a
	// while. A server that is told to go waits longer, and a pool that is back says so.
	silentInterval = 30 * time.Second
	// acknowledgeDelay is the time until a server that is going is told that what it handed over is
	// counted, so that it may go.
	acknowledgeDelay = time.Second
	// collectPatience is how long activeDeadlineSeconds waits at its end for servers that don't
	// answer.
	collectPatience = 15 * time.Second
	// mostActive bounds what is believed of one server. It is the greatest spec.sessions.perPod.
	mostActive = 100_000
)

// serverSource takes episodes from the segments of the pool's servers: trainers play them.
type serverSource struct{}

func (serverSource) traits() traits {
	return traits{
		suspended: "spec.suspend is true: nothing is collected. Episodes wait on the servers that play them, as long " +
			"as those have room and live. Set it to false, and the run goes on.",
		resumed: "The run collects again what trainers bring.",
	}
}

// read reads the servers' segments and, until the run has ended, its table.
func (serverSource) read(ctx context.Context, r *Reconciler, s *snapshot) error {
	if s.closing || ended(s.run.Status.Conditions) {
		return nil
	}
	if s.run.Status.Provenance == nil {
		r.readReport(ctx, s)
		return nil
	}
	if err := r.readSegments(ctx, s); err != nil {
		return err
	}
	s.collected = collect(*s)
	completes := s.collected.err == nil && (s.collected.reachesGoal() || deadlineOver(*s))
	return r.readScores(ctx, s, completes)
}

// begin implements source. The status remembers what the pool grades with before a segment is read.
func (serverSource) begin(d *decision, s snapshot) evaluation.Outcome {
	passScore, err := score.ParseDecimal(s.run.Spec.PassScore)
	if err != nil {
		return evaluation.InvalidPlan(fmt.Errorf("reading spec.passScore: %w", err))
	}
	if d.status.Provenance, err = evaluation.NewProvenance(s.run, s.offer()); err != nil {
		return evaluation.InvalidPlan(err)
	}
	sums := &score.Ledger{
		Run: string(s.run.UID), PassScore: passScore, ScenarioDigest: s.report.ScenarioDigest,
		GraderVersion: s.report.GraderVersion, Judge: s.report.Judge,
	}
	d.status.Rollouts = &v1alpha1.Rollouts{Tag: tagOf(s.run), LedgerKey: s.env.Status.LedgerPublicKey}
	if d.status.Rollouts.Ledger, err = encodeLedger(sums); err != nil {
		return evaluation.InvalidPlan(err)
	}
	d.status.StartTime = new(metav1.NewTime(s.now))
	writeCollected(d, s.run, sums)
	d.wake(time.Second)
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonStarted,
		fmt.Sprintf("The run collects from pool %s what trainers tag with it: reset(run=%q).", s.env.Name,
			d.status.Rollouts.Tag))
	return collecting(d, s, collected{})
}

// fold counts the segments that are new.
func (serverSource) fold(d *decision, s snapshot) evaluation.Outcome {
	c := s.collected
	if c.err != nil {
		return changedByHand(c.err)
	}
	text, err := encodeLedger(c.sums)
	if err != nil {
		// The figures stay as they were before this pass: collect has read them.
		before, _, _ := collectedBefore(s.run)
		writeCollected(d, s.run, before)
		return failed(v1alpha1.ReasonLedgerTooLarge,
			fmt.Sprintf("Trainers have played more than the sums of one run hold: %v. The figures have what was "+
				"counted before. Create a run for each part of the scenarios.", err))
	}
	d.folding.refused, d.folding.ledgers, d.folding.errored = c.refused, c.counted, c.errored
	d.status.Rollouts.Ledger, d.status.Rollouts.Servers = text, c.servers
	d.status.Rollouts.Dropped += c.dropped
	writeCollected(d, s.run, c.sums)
	showActive(d, s, *c)
	announceCollected(d, s.run, *c)
	return evaluation.Outcome{}
}

// complete implements source.
func (serverSource) complete(d *decision, s snapshot) (evaluation.Outcome, bool) {
	if !s.collected.reachesGoal() {
		return evaluation.Outcome{}, false
	}
	return completeCollection(d, s, v1alpha1.ReasonCompleted, "As many episodes as are wanted are collected"), true
}

// change implements source.
func (serverSource) change(_ *decision, s snapshot) string {
	return cmp.Or(environmentChange(s, s.run.Status.Rollouts.LedgerKey), graderChange(s, *s.collected))
}

// graderChange describes a server that grades otherwise than the pool did when the run began, which
// the pool's status doesn't show yet.
func graderChange(s snapshot, c collected) string {
	for _, r := range c.refused {
		if r.reason == refusedGrader {
			return fmt.Sprintf("Server %s of pool %s grades otherwise than the pool did when the run began: %v. "+
				"Scores of two graders are never mixed. Create the run again.", r.pod.Name, poolKeyOf(
				s.run).Name, r.err)
		}
	}
	return ""
}

// overdue ends a run with the episodes that it has. Silent servers get some time to answer.
func (serverSource) overdue(d *decision, s snapshot) (evaluation.Outcome, bool) {
	c := s.collected
	over, known := deadlineOf(s.run)
	if !known {
		return evaluation.Outcome{}, false
	}
	if left := over.Sub(s.now); left > 0 {
		d.wake(left)
		return evaluation.Outcome{}, false
	}
	if c.silent > 0 && s.now.Before(over.Add(collectPatience)) {
		d.wake(acknowledgeDelay)
		return evaluation.Outcome{}, false
	}
	if c.sums.Opened == 0 {
		return failed(v1alpha1.ReasonDeadlineExceeded,
			fmt.Sprintf("No episode was collected within %d seconds (activeDeadlineSeconds). Check that trainers "+
				"reach pool %s and tag their sessions with reset(run=%q), then create the run again.",
				*s.run.Spec.ActiveDeadlineSeconds, poolKeyOf(s.run).Name, d.status.Rollouts.Tag)), true
	}
	return completeCollection(d, s, v1alpha1.ReasonCollectionEnded,
		fmt.Sprintf("The %d seconds of activeDeadlineSeconds are over", *s.run.Spec.ActiveDeadlineSeconds)), true
}

// proceed asks again soon, at once if a draining server waits for its segment to be acknowledged.
func (serverSource) proceed(d *decision, s snapshot) evaluation.Outcome {
	c := s.collected
	switch {
	case suspended(s.run):
	case c.silent > 0 && c.silent == len(s.segments):
		d.wake(silentInterval)
	default:
		d.wake(collectInterval)
	}
	if c.awaited {
		d.wake(acknowledgeDelay)
	}
	return collecting(d, s, *c)
}

// end turns the collected sums into those of a run that has one shard, as other runs compare with.
func (serverSource) end(d *decision, s snapshot) {
	if s.collected == nil || s.collected.err != nil {
		return
	}
	progressed := d.status.Progress
	d.folding.completed.Add(0)
	d.status.Shards = &v1alpha1.Shards{Total: 1}
	evaluation.WriteFigures(&d.status, d.folding.sums, d.folding.completed)
	d.status.Progress = progressed
	d.status.Rollouts.Ledger, d.status.Rollouts.LedgerKey, d.status.Rollouts.Servers = "", "", nil
}

// goal is the number of episodes that a run wants of trainers, 0 for as many as they bring.
func goal(run *v1alpha1.EvaluationRun) int64 {
	return ptr.Deref(ptr.Deref(run.Spec.Agent.External, v1alpha1.ExternalAgentSpec{}).Episodes, 0)
}

// tagOf is what trainers tag their episodes with: the run's name, after its namespace where that
// isn't the pool's.
func tagOf(run *v1alpha1.EvaluationRun) string {
	if poolKeyOf(run).Namespace == run.Namespace {
		return run.Name
	}
	return run.Namespace + "/" + run.Name
}

// collected is what a pass makes of the servers' replies.
type collected struct {
	run  *v1alpha1.EvaluationRun
	key  ed25519.PublicKey
	sums *score.Ledger
	// servers are ordered by pod.
	servers []v1alpha1.RolloutServer
	// counted are the ledgers of the segments that were added to the sums.
	counted []*score.Ledger
	// errored and dropped are numbers of episodes in those segments, missing is the number of
	// segments that went to somebody else, or were sealed for somebody else's question. Those
	// before the first can have gone to a run of the same name.
	errored, dropped, missing int64
	active                    int64
	// silent is the number of servers that didn't answer, refusing the first that answered with an
	// error. Awaited is true when one that is going plays no more for the run, and waits to hear
	// that its segment is counted.
	silent   int
	refusing *segmentReply
	awaited  bool
	refused  []refusal
	// err means that the status can't be read.
	err error
}

// collect adds the servers' segments to the sums of the status.
func collect(s snapshot) *collected {
	sums, key, err := collectedBefore(s.run)
	if err != nil {
		return &collected{err: err}
	}
	c := &collected{run: s.run, key: key, sums: sums, servers: slices.Clone(s.run.Status.Rollouts.Servers)}
	for _, reply := range s.segments {
		c.count(reply)
	}
	c.servers = slices.DeleteFunc(c.servers, func(server v1alpha1.RolloutServer) bool {
		return slices.Contains(s.gone, server.Pod)
	})
	return c
}

// reachesGoal reports whether trainers have brought as many episodes as the run asks for.
func (c *collected) reachesGoal() bool { return goal(c.run) > 0 && c.sums.Opened >= goal(c.run) }

// errReplayed means that a segment is in the figures.
var errReplayed = errors.New("the segment has been counted before")

// count adds a server's segment to the sums, if it proves what it is and isn't in them.
func (c *collected) count(h segmentReply) {
	if h.err != nil {
		c.silent++
		if _, answered := errors.AsType[*stats.StatusError](h.err); (answered || errors.Is(h.err, errOtherPod)) &&
			c.refusing == nil {
			c.refusing = &h
		}
		return
	}
	c.active += min(max(0, h.segment.Active), mostActive)
	if h.segment.Ledger == nil {
		return
	}
	at, found := slices.BinarySearchFunc(c.servers, h.pod.Name,
		func(server v1alpha1.RolloutServer, pod string) int { return cmp.Compare(server.Pod, pod) })
	last, known := int64(0), found && c.servers[at].Instance == h.segment.Instance
	if known {
		last = c.servers[at].Segment
	}
	ledger, err := h.segment.Verify(string(c.run.UID), h.pod.Name, c.key)
	if err == nil && h.segment.Number <= last {
		err = fmt.Errorf("%w: %d, and %d is the last", errReplayed, h.segment.Number, last)
	}
	// Whoever reaches a server can have it seal a segment with another pass score. That is no other
	// grader, and what such a segment has can't be known for the run's own.
	stray := err == nil && ledger.PassScore != c.sums.PassScore
	if err == nil && !stray {
		err = c.sums.Merge(ledger)
	}
	if err != nil {
		c.refused = append(c.refused, refusal{pod: h.pod, reason: refusalReason(err), err: err})
		return
	}
	now := v1alpha1.RolloutServer{Pod: h.pod.Name, Instance: h.segment.Instance, Segment: h.segment.Number}
	if found {
		c.servers[at] = now
	} else {
		c.servers = slices.Insert(c.servers, at, now)
	}
	if known {
		c.missing += h.segment.Number - last - 1
	}
	c.awaited = c.awaited || !h.pod.DeletionTimestamp.IsZero() && h.segment.Active == 0
	if stray {
		c.missing++
		return
	}
	c.counted = append(c.counted, ledger)
	c.errored += ledger.Opened - ledger.Scored - ledger.Failed
	c.dropped += h.segment.Dropped
}

// collectedBefore is what the status holds of the segments so far, and the key with which they are
// signed.
func collectedBefore(run *v1alpha1.EvaluationRun) (*score.Ledger, ed25519.PublicKey, error) {
	rollouts := ptr.Deref(run.Status.Rollouts, v1alpha1.Rollouts{})
	key, err := score.ParsePublicKey(rollouts.LedgerKey)
	if err != nil {
		return nil, nil, fmt.Errorf("reading status.rollouts.ledgerKey: %w", err)
	}
	data, err := base64.StdEncoding.DecodeString(rollouts.Ledger)
	if err != nil {
		return nil, nil, fmt.Errorf("reading status.rollouts.ledger: %w", err)
	}
	sums := &score.Ledger{}
	if err := sums.UnmarshalBinary(data); err != nil {
		return nil, nil, fmt.Errorf("reading status.rollouts.ledger: %w", err)
	}
	return sums, key, nil
}

func encodeLedger(sums *score.Ledger) (string, error) {
	data, err := sums.MarshalBinary()
	return base64.StdEncoding.EncodeToString(data), err
}

// writeCollected writes what the sums come to.
func writeCollected(d *decision, run *v1alpha1.EvaluationRun, sums *score.Ledger) {
	total := score.Accumulator{}
	total.Fold(sums)
	total.Errored = sums.Opened - sums.Scored - sums.Failed
	d.folding.sums = total
	if d.status.Episodes == nil {
		d.status.Episodes = &v1alpha1.RunEpisodes{}
	}
	d.status.Episodes.Total = max(goal(run), sums.Opened)
	evaluation.WriteTotals(&d.status, total.Figures())
	if goal(run) == 0 {
		d.status.Progress = fmt.Sprint(sums.Opened)
	}
}

// deadlineOf is when activeDeadlineSeconds is over for a run that has begun, false where there is
// none.
func deadlineOf(run *v1alpha1.EvaluationRun) (time.Time, bool) {
	if run.Spec.ActiveDeadlineSeconds == nil || run.Status.StartTime == nil {
		return time.Time{}, false
	}
	return run.Status.StartTime.Add(seconds32(*run.Spec.ActiveDeadlineSeconds)), true
}

func deadlineOver(s snapshot) bool {
	over, known := deadlineOf(s.run)
	return known && !s.now.Before(over)
}

func collectedMessage(d *decision, run *v1alpha1.EvaluationRun) string {
	ended := d.status.Episodes.Scored + d.status.Episodes.Failed + d.status.Episodes.Errored
	if wanted := goal(run); wanted > 0 {
		return fmt.Sprintf("%d of %d episodes are collected.", ended, wanted)
	}
	return fmt.Sprintf("%d episodes are collected.", ended)
}

// announceCollected announces what the pass has counted, and what it refused.
func announceCollected(d *decision, run *v1alpha1.EvaluationRun, c collected) {
	for _, r := range c.refused {
		d.events = append(d.events, event{
			kind: corev1.EventTypeWarning, reason: v1alpha1.ReasonRolloutsRefused, about: r.pod, action: "Collect",
			note: fmt.Sprintf("What server %s hands over is not counted: %v.", r.pod.Name, r.err),
		})
	}
	if c.dropped > 0 {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsDropped, fmt.Sprintf(
			"%d episodes are in no figure: their servers had no room for them until they were collected. That comes "+
				"of a suspended run, of an operator that was away, of very many tags, or of more scenarios than the "+
				"sums of one segment hold.", c.dropped))
	}
	if c.missing > 0 {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsMissing, fmt.Sprintf(
			"%d segments of episodes are in no figure: something else than this run has asked for them. Find out who "+
				"may reach the servers' port %d.", c.missing, v1alpha1.OperationsPort))
	}
	if wanted := goal(run); wanted > 0 {
		before := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
		announceProgress(d, before.Scored+before.Failed+before.Errored, c.sums.Opened, wanted, collectedMessage(d, run))
	}
}

// completeCollection ends a run with its figures, unless too many episodes errored.
func completeCollection(d *decision, s snapshot, reason, why string) evaluation.Outcome {
	sums := s.collected.sums
	p, _ := evaluation.Verdict(s.run, d.status, evaluation.Counted{Episodes: sums.Opened, Complete: true,
		Reason: reason, Why: why,
		Advice: "See the servers' logs for the causes, then create the run again."})
	if p.State == evaluation.Failed {
		return p
	}
	table := &score.ScenarioTable{}
	table.Fold(sums)
	text, err := table.MarshalText()
	if err != nil || s.scoresTaken {
		table = &score.ScenarioTable{}
	} else if s.scores == nil || s.scores.Data[v1alpha1.ScoresKey] != string(text) {
		d.scores = new(string(text))
	}
	publish(d, s, table)
	return p
}

// collecting is the outcome of a run that goes on.
func collecting(d *decision, s snapshot, c collected) evaluation.Outcome {
	message := collectedMessage(d, s.run)
	if suspended(s.run) {
		return running(v1alpha1.ReasonSuspended, message+" Set spec.suspend to false, and the run goes on.")
	}
	message += fmt.Sprintf(" Trainers tag their sessions with reset(run=%q). Set spec.activeDeadlineSeconds to 1 to "+
		"end the run with what it has.", d.status.Rollouts.Tag)
	if len(c.refused) > 0 {
		message += fmt.Sprintf(" What server %s hands over is not counted: %v.", c.refused[0].pod.Name,
			c.refused[0].err)
	}
	if c.refusing != nil {
		message += fmt.Sprintf(" Server %s hands nothing over: %v. See its log, and whether the pool's image is of "+
			"the operator's release.", c.refusing.pod.Name, c.refusing.err)
	}
	return running(v1alpha1.ReasonRunning, message)
}
