package score

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
)

// tagPattern matches the tags of trainers' episodes: the name of an EvaluationRun, with its
// namespace if that is not the pool's.
var tagPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z]([-a-z0-9]{0,48}[a-z0-9])?$`)

// ValidTag reports whether a text can be a tag: NAME or NAMESPACE/NAME of an EvaluationRun.
func ValidTag(text string) bool { return tagPattern.MatchString(text) }

// CollectRequest asks for the episodes of a tag: it is the query of /rollouts.
type CollectRequest struct {
	// Tag is the tag of the episodes, Run the UID of the run that collects them.
	Tag, Run string
	// PassScore is the run's, in micro-points.
	PassScore int64
	// Ack is the number of the last segment of Instance that is stored in the run's status, 0 for
	// none.
	Instance string
	Ack      int64
	// Done reports that the run has ended and collects no more segments.
	Done bool
}

// Query encodes the request.
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
		return c, fmt.Errorf("run is the UID of an EvaluationRun, and instance the instance of a segment, of at most "+
			"%d bytes each", maxRunUID)
	}
	return c, nil
}

// maxRunUID bounds, in bytes, the UID of a run and the id of an instance.
const maxRunUID = 64

// Segment has the tagged episodes of a run that have ended on a server since the segment before. It
// is the reply of /rollouts.
//
// A server keeps the bytes of a segment until the run has acknowledged it, and makes the next one
// afterwards. So a lost reply loses nothing, and a repeated one is recognised by its number.
type Segment struct {
	// Pod is the name of the server's pod: its address may have passed to another pod.
	Pod string `json:"pod"`
	// Instance is a random id that changes when the server restarts or evicts the tag. Numbers
	// count from 1 within it.
	Instance string `json:"instance"`
	// Number is the ledger's, 0 without one.
	Number int64 `json:"segment"`
	// Ledger is nil while no episode has ended. Its run is SegmentRun, and its shard is Number. It
	// opened as many episodes as have ended, so those that are neither scored nor failed have
	// errored.
	Ledger *SignedLedger `json:"ledger"`
	// Dropped counts episodes of the segment for which the ledger had no room.
	Dropped int64 `json:"dropped"`
	// Forked counts ended episodes that are in no figure, because they were forked.
	Forked int64 `json:"forked,omitempty"`
	// Active counts the episodes that are being played.
	Active int64 `json:"active"`
}

// SegmentRun is the run in the ledger of a segment. It is unique to a run, a pod and an instance.
func SegmentRun(run, pod, instance string) string { return run + "@" + pod + "/" + instance }

// Verify checks the signature, the run and the pod, and decodes the ledger. An error wraps
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
	if s.Number < 1 || s.Dropped < 0 || s.Dropped > maxCount || s.Forked < 0 || s.Forked > maxCount ||
		l.Opened < l.Scored+l.Failed || s.Instance == "" || len(s.Instance) > maxRunUID {
		return nil, fmt.Errorf("%w: segment %d of instance %.64q, %d dropped, %d forked, %d of %d ended", ErrMalformed,
			s.Number, s.Instance, s.Dropped, s.Forked, l.Scored+l.Failed, l.Opened)
	}
	return l, nil
}

// Merge adds the sums of another ledger of any run and shard. The order of merging doesn't change
// the sums. If the other ledger was not graded alike, Merge fails with ErrGrader and changes
// nothing.
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
		l.addTask(o.Tasks[i].Name).merge(o.Tasks[i])
	}
	for _, from := range o.Scenarios {
		s := l.addScenario(from)
		for _, row := range from.Tasks {
			s.merge(row)
		}
	}
	return nil
}

// Tally adds up episodes before their pass score is known, and keeps every score until then. The
// zero value is empty. It is not safe for concurrent use.
type Tally struct {
	// sums have the pass score 0, with which every episode passes that was right.
	sums Ledger
	ends []tallied
}

// tallied is the score of an episode in a tally.
type tallied struct {
	of    pair
	score int64
	wrong bool
}

// Remembered is the number of episodes whose scores the tally keeps: all but errored ones.
func (t *Tally) Remembered() int { return len(t.ends) }

// Empty reports whether no episode has ended.
func (t *Tally) Empty() bool { return t.sums.Opened == 0 }

// Add counts the end of an episode. Errored ones are in no sum.
func (t *Tally) Add(ep PlannedEpisode, e Episode) error {
	if e.Outcome != Errored {
		if err := t.sums.Add(ep, e); err != nil {
			return err
		}
		t.ends = append(t.ends, tallied{pair{ep.Task, ep.Scenario}, e.Score, e.Wrong})
	}
	t.sums.Opened++
	return nil
}

// Ledger returns the tally's sums as a ledger with the run, shard and grading of another one, and
// empties the tally.
func (t *Tally) Ledger(of Ledger) *Ledger {
	l, ends := t.sums, t.ends
	*t = Tally{}
	l.Run, l.Shard, l.PassScore = of.Run, of.Shard, of.PassScore
	l.ScenarioDigest, l.GraderVersion, l.Judge = of.ScenarioDigest, of.GraderVersion, of.Judge
	for _, end := range ends {
		if !end.wrong && end.score < l.PassScore {
			l.addTask(end.of.task).Passes--
			l.addScenario(ScenarioSums{ID: end.of.scenario}).merge(ScenarioTaskSums{Task: end.of.task, Passes: -1})
		}
	}
	return &l
}
