package score

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
)

// tagPattern is what trainers tag their episodes with: the name of an EvaluationRun, after that of
// its namespace where the pool is in another.
var tagPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z]([-a-z0-9]{0,48}[a-z0-9])?$`)

// ValidTag says whether a text can be a tag: NAME or NAMESPACE/NAME of an EvaluationRun.
func ValidTag(text string) bool { return tagPattern.MatchString(text) }

// CollectRequest asks for the episodes of a tag: it is the query of /rollouts.
type CollectRequest struct {
	// Tag is what the episodes are tagged with, Run the UID of the run that collects them.
	Tag, Run string
	// PassScore is the run's, in micro-points.
	PassScore int64
	// Ack is the number of the last segment of Instance that is in the run's figures for good, 0
	// for none.
	Instance string
	Ack      int64
	// Done says that the run has ended: it wants nothing any more.
	Done bool
}

// Query writes the question.
func (c CollectRequest) Query() url.Values {
	return url.Values{
		"tag": {c.Tag}, "run": {c.Run}, "pass_score": {strconv.FormatInt(c.PassScore, 10)}, "instance": {c.Instance},
		"ack":  {strconv.FormatInt(c.Ack, 10)},
		"done": {strconv.FormatBool(c.Done)},
	}
}

// ParseCollectRequest reads what Query wrote.
func ParseCollectRequest(query url.Values) (CollectRequest, error) {
	c := CollectRequest{Tag: query.Get("tag"), Run: query.Get("run"), Instance: query.Get("instance"),
		Done: query.Get("done") == "true"}
	var errs [2]error
	c.PassScore, errs[0] = strconv.ParseInt(query.Get("pass_score"), 10, 64)
	c.Ack, errs[1] = strconv.ParseInt(query.Get("ack"), 10, 64)
	switch {
	case errors.Join(errs[:]...) != nil || c.PassScore < 0 || c.PassScore > One || c.Ack < 0:
		return c,
			errors.New("pass_score is a number of micro-points, from 0 to 1000000, and ack the number of a segment")
	case !ValidTag(c.Tag):
		return c, fmt.Errorf("tag %.128q is not NAME or NAMESPACE/NAME of an EvaluationRun", c.Tag)
	case c.Run == "" || len(c.Run) > maxRunUID || len(c.Instance) > maxRunUID:
		return c, fmt.Errorf("run is the UID of an EvaluationRun, and instance what a segment says, of at most %d "+
			"bytes each", maxRunUID)
	}
	return c, nil
}

// maxRunUID bounds, in bytes, the UID of a run and the id of an instance.
const maxRunUID = 64

// Segment is what a pod hands to a run of the episodes that trainers tagged with its name: those
// that have ended since the run took the segment before. It is the wire of /rollouts.
//
// A pod keeps a segment, byte by byte, until the run has acknowledged it, and only then makes the
// next one. So a lost answer loses nothing, and the number tells a repeated one.
type Segment struct {
	// Pod is the name of the pod: whoever asks an address may be answered by another pod that has
	// it by now.
	Pod string `json:"pod"`
	// Instance is the random id of what the pod keeps of the tag: another process has another, and
	// so has one that forgot the tag meanwhile. Numbers count from 1 within it.
	Instance string `json:"instance"`
	// Number is that of the ledger, 0 without one.
	Number int64 `json:"segment"`
	// Ledger is nil while nothing has ended. Its run is SegmentRun, its shard the number. It opened
	// as many episodes as have ended, so those that are neither scored nor failed have errored.
	Ledger *SignedLedger `json:"ledger"`
	// Dropped are episodes of the segment that are in no ledger, for want of room.
	Dropped int64 `json:"dropped"`
	// Active are the episodes that are being played now.
	Active int64 `json:"active"`
}

// SegmentRun is the run in the ledger of a segment: no other run, no other pod, and no other
// instance, has its like.
func SegmentRun(run, pod, instance string) string { return run + "@" + pod + "/" + instance }

// Verify checks the signature and whose segment it is, and decodes the ledger. An error wraps
// ErrSignature, ErrMalformed or ErrForeign.
func (s Segment) Verify(run, pod string, pub ed25519.PublicKey) (*Ledger, error) {
	l, err := s.Ledger.Verify(pub)
	if err != nil {
		return nil, err
	}
	if want := SegmentRun(run, pod, s.Instance); l.Run != want || int64(l.Shard) != s.Number {
		return nil, fmt.Errorf("%w: run %q segment %d, not run %q segment %d", ErrForeign, l.Run, l.Shard, want,
			s.Number)
	}
	if s.Number < 1 || s.Dropped < 0 || s.Dropped > maxCount || l.Opened < l.Scored+l.Failed || s.Instance == "" ||
		len(s.Instance) > maxRunUID {
		return nil, fmt.Errorf("%w: segment %d of instance %.64q, %d dropped, %d of %d ended", ErrMalformed, s.Number,
			s.Instance, s.Dropped, l.Scored+l.Failed, l.Opened)
	}
	return l, nil
}

// Merge adds the figures of another ledger, of whatever run and shard: ledgers come to the same
// sums in whatever order and parts they are merged. It fails with ErrGrader, and changes nothing,
// if the other was graded otherwise.
func (l *Ledger) Merge(o *Ledger) error {
	if o.grading() != l.grading() {
		return fmt.Errorf("%w: %s; before they were %s", ErrGrader, o.grading(), l.grading())
	}
	l.Opened += o.Opened
	l.Replayed += o.Replayed
	l.Scored += o.Scored
	l.Failed += o.Failed
	l.Digest.AddSet(o.Digest)
	for i := range o.Tasks {
		l.task(o.Tasks[i].Name).merge(o.Tasks[i])
	}
	for _, from := range o.Scenarios {
		s := l.scenario(from)
		for _, row := range from.Tasks {
			s.merge(row)
		}
	}
	return nil
}

// Tally adds up episodes before it is known from which score on they pass, and remembers every
// score until then. The zero value is empty. It is not safe for concurrent use.
type Tally struct {
	// sums have the pass score 0, with which every episode passes.
	sums Ledger
	ends []tallied
}

// tallied is what a tally remembers of an episode.
type tallied struct {
	of    pair
	score int64
}

// Remembered is the number of episodes whose scores the tally remembers: all but errored ones.
func (t *Tally) Remembered() int { return len(t.ends) }

// Empty says whether no episode has ended.
func (t *Tally) Empty() bool { return t.sums.Opened == 0 }

// Add counts the end of an episode. An errored one is in no figure.
func (t *Tally) Add(ep PlannedEpisode, e Episode) error {
	if e.Outcome != Errored {
		if err := t.sums.Add(ep, e); err != nil {
			return err
		}
		t.ends = append(t.ends, tallied{pair{ep.Task, ep.Scenario}, e.Score})
	}
	t.sums.Opened++
	return nil
}

// Ledger makes a ledger of the tally, with everything but the sums taken from another one. The
// tally is empty afterwards.
func (t *Tally) Ledger(of Ledger) *Ledger {
	l, ends := t.sums, t.ends
	*t = Tally{}
	l.Run, l.Shard, l.PassScore = of.Run, of.Shard, of.PassScore
	l.ScenarioDigest, l.GraderVersion, l.Judge = of.ScenarioDigest, of.GraderVersion, of.Judge
	for _, end := range ends {
		if end.score < l.PassScore {
			l.task(end.of.task).Passes--
			l.scenario(ScenarioSums{ID: end.of.scenario}).merge(ScenarioTaskSums{Task: end.of.task, Passes: -1})
		}
	}
	return &l
}
