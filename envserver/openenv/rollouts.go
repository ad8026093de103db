package openenv

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/google/uuid"
)

const (
	// maxTags bounds the tags that a server keeps. One that nobody collects makes room for another,
	// those that no run ever asked for first: anybody may make tags up, and must not push out those
	// that are collected.
	maxTags = 64
	// maxUncollected bounds the episodes that are remembered until they are collected, and
	// maxUncollectedOfTag those of one tag: some ten megabytes in all.
	maxUncollected      = 1 << 18
	maxUncollectedOfTag = 1 << 16
	// collectorSilence is how long after its last question a run counts as one that collects.
	collectorSilence = time.Minute
	// settlePoll is how often a server that waits for runs to collect looks whether they have.
	settlePoll = 100 * time.Millisecond
)

// rollouts are the episodes that trainers bring, by the tag that says which run is to count them.
// They wait until that run collects them, which may come to be after they have ended. It is safe
// for concurrent use.
//
// A run collects in segments: what has ended since the one before, sealed, numbered and signed. A
// segment is handed out again and again, and nothing after it, until the run says that it is in its
// figures. So nothing is counted twice and nothing is lost, whichever message is.
type rollouts struct {
	// pod is the name of the server's pod. graded has the scenarios, grader and judge of every
	// segment.
	pod    string
	graded score.Ledger
	key    ed25519.PrivateKey
	log    *slog.Logger

	mu         sync.Mutex
	byTag      map[string]*rollout
	remembered int

	counted, errored, dropped int64
}

// rollout is what is kept of one tag.
type rollout struct {
	// instance tells what is kept here from what another process kept, or this one before it forgot
	// the tag: numbers count within it.
	instance string
	// open is what has ended since the last segment, dropped what there was no room for.
	open    score.Tally
	dropped int64
	// run is the UID of the run that collects, "" before one does, and asked when it last did.
	run   string
	asked time.Time
	// number is that of the last segment, whichever run it was for, and sealed the segment itself,
	// with the scores of so many episodes, until it is acknowledged.
	number   int64
	sealed   *score.Segment
	episodes int
	touched  time.Time
}

func newRollouts(kind episode.Kind, pod string, key ed25519.PrivateKey, log *slog.Logger) *rollouts {
	return &rollouts{
		pod: pod, key: key, log: log, byTag: map[string]*rollout{},
		graded: score.Ledger{ScenarioDigest: kind.ScenarioDigest(), GraderVersion: kind.GraderVersion(),
			Judge: kind.Judge()},
	}
}

// rolloutBook counts the episodes of one tag.
type rolloutBook struct {
	store *rollouts
	tag   string
}

// open finds the book of a tag, made on first use. It refuses a further tag while maxTags are being
// collected.
func (s *rollouts) open(tag string) (rolloutBook, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.find(tag)
	return rolloutBook{s, tag}, err
}

// find finds a tag's rollouts, made on first use.
func (s *rollouts) find(tag string) (*rollout, error) {
	now := time.Now()
	r := s.byTag[tag]
	if r == nil {
		if len(s.byTag) >= maxTags && !s.evict(now) {
			return nil, fmt.Errorf("this server counts the episodes of %d runs, which are all being collected, and "+
				"of no more: tag episodes with fewer runs at a time", maxTags)
		}
		r = &rollout{instance: uuid.NewString()}
		s.byTag[tag] = r
	}
	r.touched = now
	return r, nil
}

// evict forgets a tag that nobody collects, if there is one: one that no run has asked for before
// one whose run is silent, and of these the one that was touched longest ago.
func (s *rollouts) evict(now time.Time) bool {
	first := ""
	for tag, r := range s.byTag {
		if !r.collected(now) && (first == "" || r.goesBefore(s.byTag[first])) {
			first = tag
		}
	}
	if first == "" {
		return false
	}
	s.forget(first)
	return true
}

// goesBefore says which of two tags that nobody collects is forgotten.
func (r *rollout) goesBefore(o *rollout) bool {
	if unasked := r.run == ""; unasked != (o.run == "") {
		return unasked
	}
	return r.touched.Before(o.touched)
}

// expire forgets the tags that nobody has touched for ledgerTTL.
func (s *rollouts) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, r := range s.byTag {
		if now.Sub(r.touched) >= ledgerTTL {
			s.forget(tag)
		}
	}
}

func (s *rollouts) forget(tag string) {
	r := s.byTag[tag]
	waiting := r.open.Remembered()
	s.remembered -= waiting
	s.dropped += int64(waiting)
	if r.sealed != nil {
		s.dropped += int64(r.episodes)
	}
	delete(s.byTag, tag)
}

// collected says whether a run collects the tag's episodes.
func (r *rollout) collected(now time.Time) bool {
	return r.run != "" && now.Sub(r.asked) < collectorSilence
}

// waits says whether something has ended that no segment has.
func (r *rollout) waits() bool { return !r.open.Empty() || r.dropped > 0 }

// begin counts nothing: trainers abandon episodes as they like.
func (b rolloutBook) begin() {}

// finish counts the end of an episode, in the segment that is open. There is no receipt: trainers
// have no use for one.
func (b rolloutBook) finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error) {
	s := b.store
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(b.tag)
	if err != nil {
		s.dropped++
		return nil, err
	}
	if e.Outcome != score.Errored && !s.hasRoom(r) {
		r.dropped++
		s.dropped++
		return nil, nil
	}
	before := r.open.Remembered()
	if err := r.open.Add(planned, e); err != nil {
		return nil, err
	}
	if r.open.Remembered() == before {
		s.errored++
		return nil, nil
	}
	s.remembered++
	s.counted++
	return nil, nil
}

// hasRoom says whether another episode of a tag can be remembered. Tags that are collected take the
// room of those that aren't.
func (s *rollouts) hasRoom(r *rollout) bool {
	for now := time.Now(); s.remembered >= maxUncollected && r.collected(now) && s.evict(now); {
	}
	return s.remembered < maxUncollected && r.open.Remembered() < maxUncollectedOfTag
}

// collect hands a run the segment that it has not acknowledged, or the next one, which holds
// everything that has ended until now; or one without a ledger where there is nothing. What ends
// after the run is done waits for another run of its name. Asking for a tag that nothing is tagged
// with makes none: runs that nobody plays for take no room from others.
func (s *rollouts) collect(question score.Collection) (score.Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byTag[question.Tag]
	if r == nil {
		return score.Segment{Pod: s.pod}, nil
	}
	r.touched = time.Now()
	switch {
	case question.Done:
		if question.Run == r.run {
			r.run, r.sealed = "", nil
		}
		return score.Segment{Pod: s.pod, Instance: r.instance}, nil
	case question.Run != r.run:
		// A run that was made again under its name begins with what is open: what the one before
		// was handed is that one's own. Numbers go on, so that a run whose segment went to another
		// notices.
		r.run, r.sealed = question.Run, nil
	case r.sealed != nil && question.Instance == r.instance && question.Ack >= r.sealed.Number:
		r.sealed = nil
	}
	r.asked = r.touched
	if r.sealed == nil && r.waits() {
		var err error
		if r.sealed, err = s.seal(r, question.PassScore); err != nil {
			return score.Segment{}, err
		}
	}
	if r.sealed == nil {
		return score.Segment{Pod: s.pod, Instance: r.instance}, nil
	}
	return *r.sealed, nil
}

// seal makes the next segment of what is open.
func (s *rollouts) seal(r *rollout, passScore int64) (*score.Segment, error) {
	r.number++
	identity := s.graded
	identity.Run, identity.Shard, identity.PassScore = score.SegmentRun(r.run, s.pod, r.instance), int(
		r.number), passScore
	r.episodes = r.open.Remembered()
	s.remembered -= r.episodes
	segment := &score.Segment{Pod: s.pod, Instance: r.instance, Number: r.number}
	ledger := r.open.Ledger(identity)
	signed, err := ledger.Sign(s.key)
	if err != nil {
		// More scenarios than a ledger has room for. That they aren't counted has to show, and must
		// not keep others from it.
		s.log.Error("A segment of rollouts can't be signed, its episodes are dropped", "run", r.run, "error", err)
		r.dropped += ledger.Scored + ledger.Failed
		identity.Opened = ledger.Opened - ledger.Scored - ledger.Failed
		if signed, err = identity.Sign(s.key); err != nil {
			return nil, fmt.Errorf("signing a segment of rollouts: %w", err)
		}
	}
	segment.Ledger, segment.Dropped = &signed, r.dropped
	r.dropped = 0
	return segment, nil
}

// uncollected says whether a run that collects has yet to acknowledge something.
func (s *rollouts) uncollected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range s.byTag {
		if r.collected(now) && (r.sealed != nil || r.waits()) {
			return true
		}
	}
	return false
}

// settle waits until the runs that collect have acknowledged everything, or have fallen silent, or
// the context ends. What nobody collects holds nothing up.
func (s *rollouts) settle(ctx context.Context) {
	for s.uncollected() {
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return
		}
	}
}

// rolloutFigures are the counters that the metrics show.
type rolloutFigures struct {
	tags                      int
	counted, errored, dropped int64
}

func (s *rollouts) figures() rolloutFigures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rolloutFigures{tags: len(s.byTag), counted: s.counted, errored: s.errored, dropped: s.dropped}
}
