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
	// collectInterval is the time between two requests to the pool's servers: well within the time
	// that a draining server waits for its last episodes to be collected.
	collectInterval = 5 * time.Second
	// silentInterval is that time while no server replies, because requests to such a pool take
	// long. A draining server waits longer, and a pool that is back wakes its runs.
	silentInterval = 30 * time.Second
	// acknowledgeDelay is the time until the segment of a draining server is acknowledged, so that
	// it can end.
	acknowledgeDelay = time.Second
	// collectPatience is how long a run that reached activeDeadlineSeconds waits for servers that
	// don't reply.
	collectPatience = 15 * time.Second
)

// mostActive bounds the active episodes that are accepted from one server. It is the maximum of
// spec.sessions.perPod.
const mostActive = 100_000

// serverSource takes episodes from the segments of the pool's servers: trainers play them.
type serverSource struct{}

func (serverSource) traits() traits {
	return traits{
		suspended: "spec.suspend is true: no episodes are collected. Servers keep them while they run and have " +
			"capacity. Set it to false to continue.",
		resumed: "The run collects episodes again.",
	}
}

// readCollection reads the servers' segments and, until the run has ended, its table.
func (r *Reader) readCollection(ctx context.Context, s *snapshot) error {
	if s.closing || evaluation.Ended(s.run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if s.run.Status.Provenance == nil {
		return r.readReport(ctx, s)
	}
	if err := r.readSegments(ctx, s); err != nil {
		return err
	}
	completes := goal(s.run) > 0 && mostCollected(s.run, s.segments) >= goal(s.run) || deadlineOver(s.run, s.job, s.now)
	return r.readScores(ctx, s, completes)
}

// begin stores what the pool grades with, before a segment is read.
func (serverSource) begin(d *decision, s snapshot) evaluation.Outcome {
	passScore, err := evaluation.PassScore(s.run)
	if err != nil {
		return evaluation.InvalidPlan(err)
	}
	if err := evaluation.Permitted(s.run, s.offer()); err != nil {
		return evaluation.InvalidPlan(err)
	}
	if o := trainersRefused(d, s); o.Ended() {
		return o
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
	d.status.StartTime, d.status.PassScore = new(metav1.NewTime(s.now)), score.Exact(passScore)
	writeCollected(d, s.run, sums)
	d.wake(time.Second)
	d.announce(corev1.EventTypeNormal, v1alpha1.ReasonStarted, fmt.Sprintf("Collecting the episodes of pool %s that "+
		"trainers tag with reset(run=%q).", s.env.Name, d.status.Rollouts.Tag))
	return collecting(d, s)
}

// advance implements source. Segments of another grader end a run only if it isn't complete.
func (serverSource) advance(d *decision, s snapshot) evaluation.Outcome {
	return inOrder(d, s, foldSegments, goalReached, revoked, trainersRefused, graderChanged, collectionDeadline,
		collecting)
}

// trainersRefused fails a run whose pool refuses to play outside of runners.
func trainersRefused(_ *decision, s snapshot) evaluation.Outcome {
	if s.env == nil || s.env.Spec.Access.Play != v1alpha1.RunsOnlyPlay {
		return evaluation.Outcome{}
	}
	return failed(v1alpha1.ReasonTrainersNotAllowed, fmt.Sprintf("Pool %s refuses trainers, because its "+
		"access.play is RunsOnly: only runners have a run's credential. Use a pool with access.play Open and create "+
		"the run again.", s.env.Name))
}

// foldSegments adds the new segments to the figures.
func foldSegments(d *decision, s snapshot) evaluation.Outcome {
	d.collected = collect(s.run, s.segments, s.gone)
	c := d.collected
	if c.err != nil {
		return changedByHand(c.err)
	}
	text, err := encodeLedger(c.sums)
	if err != nil {
		// The figures stay as they were before this pass: collect has read them.
		before, _, _ := collectedBefore(s.run)
		writeCollected(d, s.run, before)
		return failed(v1alpha1.ReasonLedgerTooLarge, fmt.Sprintf("The collected episodes exceed what the sums of one "+
			"run can hold: %v. The figures contain those counted before. Create a run for each part of the scenarios.",
			err))
	}
	d.folding.refused, d.folding.ledgers, d.folding.errored = c.refused, c.counted, c.errored
	d.status.Rollouts.Ledger, d.status.Rollouts.Servers = text, c.servers
	d.status.Rollouts.Dropped += c.dropped
	d.status.Rollouts.Forked += c.forked
	writeCollected(d, s.run, c.sums)
	showActive(d, s, *c)
	announceCollected(d, s.run, *c)
	return evaluation.Outcome{}
}

// goalReached completes a run that has as many episodes as its spec asks for.
func goalReached(d *decision, s snapshot) evaluation.Outcome {
	if !d.collected.reachesGoal() {
		return evaluation.Outcome{}
	}
	return completeCollection(d, s, v1alpha1.ReasonCompleted, "All requested episodes are collected")
}

// graderChanged fails a run whose pool, or a server of it, grades differently from when it began.
// The pool's status may show the change later than its servers.
func graderChanged(d *decision, s snapshot) evaluation.Outcome {
	if o := environmentChange(s, s.run.Status.Rollouts.LedgerKey); o.Ended() {
		return o
	}
	for _, r := range d.collected.refused {
		if r.reason == refusedGrader {
			return failed(v1alpha1.ReasonEnvironmentChanged, fmt.Sprintf("Server %s of pool %s grades differently "+
				"from the pool when the run began: %v. Scores of different graders are never mixed. Create the run "+
				"again.", r.pod.Name, evaluation.PoolOf(s.run).Name, r.err))
		}
	}
	return evaluation.Outcome{}
}

// collectionDeadline ends a run with the episodes that it has. It waits for silent servers a while.
func collectionDeadline(d *decision, s snapshot) evaluation.Outcome {
	c := d.collected
	over, left := deadlineOf(s.run, s.job, s.now)
	switch {
	case over.IsZero():
		return evaluation.Outcome{}
	case left > 0:
		d.wake(left)
		return evaluation.Outcome{}
	case c.silent > 0 && left > -collectPatience:
		d.wake(acknowledgeDelay)
		return evaluation.Outcome{}
	case c.sums.Opened == 0:
		return failed(v1alpha1.ReasonDeadlineExceeded,
			fmt.Sprintf("No episode was collected within %d seconds (activeDeadlineSeconds). Check that trainers "+
				"reach pool %s and tag their sessions with reset(run=%q), then create the run again.",
				*s.run.Spec.ActiveDeadlineSeconds, evaluation.PoolOf(s.run).Name, d.status.Rollouts.Tag))
	}
	return completeCollection(d, s, v1alpha1.ReasonCollectionEnded,
		fmt.Sprintf("The %d seconds of activeDeadlineSeconds are over", *s.run.Spec.ActiveDeadlineSeconds))
}

// end turns the collected sums into those of a run with one shard, which other runs compare with.
func (serverSource) end(d *decision, s snapshot) {
	if d.collected == nil || d.collected.err != nil {
		return
	}
	progressed := d.status.Progress
	d.folding.completed.Add(0)
	d.status.Shards = &v1alpha1.Shards{Total: 1}
	evaluation.WriteFigures(&d.status, d.folding.sums, d.folding.completed)
	d.status.Progress = progressed
	d.status.Rollouts.Ledger, d.status.Rollouts.LedgerKey, d.status.Rollouts.Servers = "", "", nil
}

// goal is the number of episodes that a run collects, 0 for no limit.
func goal(run *v1alpha1.EvaluationRun) int64 {
	return ptr.Deref(ptr.Deref(run.Spec.Agent.External, v1alpha1.ExternalAgentSpec{}).Episodes, 0)
}

// tagOf is the tag of the run's episodes: its name, after its namespace if that isn't the pool's.
func tagOf(run *v1alpha1.EvaluationRun) string {
	if evaluation.PoolOf(run).Namespace == run.Namespace {
		return run.Name
	}
	return run.Namespace + "/" + run.Name
}

// collected is the result of the servers' replies.
type collected struct {
	run     *v1alpha1.EvaluationRun
	key     ed25519.PublicKey
	sums    *score.Ledger
	servers []v1alpha1.RolloutServer // ordered by pod
	counted []*score.Ledger          // of the segments that were added to the sums
	refused []refusal

	// errored, dropped and forked are numbers of episodes in those segments. missing is the number
	// of segments that another client acknowledged or had sealed. It doesn't include those before
	// a server's first, which may belong to an earlier run of the same name.
	errored, dropped, forked, missing int64
	active                            int64

	silent   int           // servers that didn't reply, or with an error
	refusing *segmentReply // the first reply with an error
	awaited  bool          // a draining server without active episodes waits for an acknowledgement
	err      error         // the status can't be read
}

// collect adds the servers' segments to the sums of the status.
// The numbers of servers that are gone are forgotten.
func collect(run *v1alpha1.EvaluationRun, replies []segmentReply, gone []string) *collected {
	sums, key, err := collectedBefore(run)
	if err != nil {
		return &collected{err: err}
	}
	c := &collected{run: run, key: key, sums: sums, servers: slices.Clone(run.Status.Rollouts.Servers)}
	for _, reply := range replies {
		c.count(reply)
	}
	c.servers = slices.DeleteFunc(c.servers, func(server v1alpha1.RolloutServer) bool {
		return slices.Contains(gone, server.Pod)
	})
	return c
}

// mostCollected is an upper bound of the episodes that collect finds: it verifies nothing.
func mostCollected(run *v1alpha1.EvaluationRun, replies []segmentReply) int64 {
	before := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
	most := before.Scored + before.Failed + before.Errored
	for _, reply := range replies {
		var ledger score.Ledger
		if reply.err == nil && reply.segment.Ledger != nil && ledger.UnmarshalBinary(reply.segment.Ledger.Payload) == nil {
			most += max(0, ledger.Opened)
		}
	}
	return most
}

// reachesGoal reports whether as many episodes are collected as the run asks for.
func (c *collected) reachesGoal() bool { return goal(c.run) > 0 && c.sums.Opened >= goal(c.run) }

// errReplayed means that a segment is in the figures already.
var errReplayed = errors.New("the segment has been counted before")

// count adds a server's segment to the sums, if it is authentic and new.
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
	// Any client of a server can have it seal a segment with another pass score. That isn't another
	// grader, and the segment's episodes may not be the run's own.
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
	c.forked += h.segment.Forked
}

// collectedBefore reads the sums of the status, and the key that signs the segments.
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

// totalOf are the sums of collected episodes as those of a run.
func totalOf(sums *score.Ledger) score.Accumulator {
	total := score.Accumulator{}
	total.Fold(sums)
	total.Errored = sums.Opened - sums.Scored - sums.Failed
	return total
}

// writeCollected writes the figures of the sums.
func writeCollected(d *decision, run *v1alpha1.EvaluationRun, sums *score.Ledger) {
	total := totalOf(sums)
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

func collectedMessage(d *decision, run *v1alpha1.EvaluationRun) string {
	ended := d.status.Episodes.Scored + d.status.Episodes.Failed + d.status.Episodes.Errored
	if wanted := goal(run); wanted > 0 {
		return fmt.Sprintf("%d of %d episodes are collected.", ended, wanted)
	}
	return fmt.Sprintf("%d episodes are collected.", ended)
}

// announceCollected announces what the pass has counted and refused.
func announceCollected(d *decision, run *v1alpha1.EvaluationRun, c collected) {
	for _, r := range c.refused {
		d.events = append(d.events, event{kind: corev1.EventTypeWarning, reason: v1alpha1.ReasonRolloutsRefused,
			about: r.pod, action: "Collect", note: refusedSegment(r)})
	}
	if c.dropped > 0 {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsDropped, fmt.Sprintf("%d episodes are not counted: "+
			"their servers had no capacity to keep them until they were collected. Possible causes are a suspended "+
			"run, an operator that was down, too many tags, or more scenarios than one segment can hold.", c.dropped))
	}
	if c.missing > 0 {
		d.announce(corev1.EventTypeWarning, v1alpha1.ReasonRolloutsMissing, fmt.Sprintf("%d segments of episodes are "+
			"not counted: a client other than this run has requested them. Check which clients can reach port %d of "+
			"the servers.", c.missing, v1alpha1.OperationsPort))
	}
	if wanted := goal(run); wanted > 0 {
		before := ptr.Deref(run.Status.Episodes, v1alpha1.RunEpisodes{})
		announceProgress(d, before.Scored+before.Failed+before.Errored, c.sums.Opened, wanted, collectedMessage(d, run))
	}
}

func refusedSegment(r refusal) string {
	return fmt.Sprintf("The segment of server %s is not counted: %v.", r.pod.Name, r.err)
}

// completeCollection completes a run with its figures, or fails it if too many episodes errored.
func completeCollection(d *decision, s snapshot, reason, why string) evaluation.Outcome {
	sums := d.collected.sums
	p, _ := evaluation.Verdict(s.run, d.status, evaluation.Counted{Episodes: sums.Opened, Complete: true,
		Reason: reason, Why: why, Advice: "See the servers' logs for the causes, then create the run again."})
	if p.State == evaluation.Failed {
		return p
	}
	table := &score.ScenarioTable{}
	table.Fold(sums)
	text, err := table.MarshalText()
	if err != nil || s.scoresTaken {
		table = &score.ScenarioTable{}
	} else {
		writeTable(d, s, string(text))
	}
	publish(d, s, table)
	return p
}

// collecting is the outcome of a run that has not ended. It requests the next segments soon, at
// once if a draining server waits for its segment to be acknowledged.
func collecting(d *decision, s snapshot) evaluation.Outcome {
	message := collectedMessage(d, s.run)
	c := ptr.Deref(d.collected, collected{})
	if c.awaited {
		d.wake(acknowledgeDelay)
	}
	if isSuspended(s.run) {
		return running(v1alpha1.ReasonSuspended, message+" Set spec.suspend to false to continue.")
	}
	if c.silent > 0 && c.silent == len(s.segments) {
		d.wake(silentInterval)
	} else {
		d.wake(collectInterval)
	}
	message += fmt.Sprintf(" Trainers tag their sessions with reset(run=%q). To end the run with the collected "+
		"episodes, set spec.activeDeadlineSeconds to 1.", d.status.Rollouts.Tag)
	if len(c.refused) > 0 {
		message += " " + refusedSegment(c.refused[0])
	}
	if c.refusing != nil {
		message += fmt.Sprintf(" Server %s returns no segment: %v. See its log, and check that the pool's image is of "+
			"the operator's release.", c.refusing.pod.Name, c.refusing.err)
	}
	return running(v1alpha1.ReasonRunning, message)
}
