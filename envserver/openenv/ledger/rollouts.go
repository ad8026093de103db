package ledger

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
	// collectorSilence is how long after its last request a run counts as one that collects.
	collectorSilence = time.Minute
	// drainPoll is how often a server that waits for runs to collect looks whether they have.
	drainPoll = 100 * time.Millisecond
)

// Rollouts are the episodes that trainers bring, by the tag that says which run is to count them.
// They wait until that run collects them, which may come to be after they have ended. It is safe
// for concurrent use.
//
// A run collects in segments: what has ended since the one before, sealed, numbered and signed. A
// segment is handed out again and again, and nothing after it, until the run says that it is in its
// figures. So nothing is counted twice and nothing is lost, whichever message is.
type Rollouts struct {
	// pod is the name of the server's pod. graded has the scenarios, grader and judge of every
	// segment.
	pod    string
	graded score.Ledger
	key    ed25519.PrivateKey
	log    *slog.Logger

	mu         sync.Mutex
	byTag      map[string]*tagged
	remembered int

	counted, errored, dropped int64
}

// tagged is what is kept of one tag.
type tagged struct {
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

func NewRollouts(kind episode.Kind, pod string, key ed25519.PrivateKey, log *slog.Logger) *Rollouts {
	return &Rollouts{
		pod: pod, key: key, log: log, byTag: map[string]*tagged{},
		graded: score.Ledger{ScenarioDigest: kind.ScenarioDigest(), GraderVersion: kind.GraderVersion(),
			Judge: kind.Judge()},
	}
}

// segmentRecorder counts the episodes of one tag.
type segmentRecorder struct {
	store *Rollouts
	tag   string
}

// Open finds the recorder of a tag, made on first use. It refuses a further tag while maxTags are
// being collected.
func (s *Rollouts) Open(tag string) (segmentRecorder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.find(tag)
	return segmentRecorder{s, tag}, err
}

// find finds a tag's rollouts, made on first use.
func (s *Rollouts) find(tag string) (*tagged, error) {
	now := time.Now()
	r := s.byTag[tag]
	if r == nil {
		if len(s.byTag) >= maxTags && !s.evict(now) {
			return nil, fmt.Errorf("this server counts the episodes of %d runs, which are all being collected, and "+
				"of no more: tag episodes with fewer runs at a time", maxTags)
		}
		r = &tagged{instance: uuid.NewString()}
		s.byTag[tag] = r
	}
	r.touched = now
	return r, nil
}

// evict forgets a tag that nobody collects, if there is one: one that no run has asked for before
// one whose run is silent, and of these the one that was touched longest ago.
func (s *Rollouts) evict(now time.Time) bool {
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
func (r *tagged) goesBefore(o *tagged) bool {
	if unasked := r.run == ""; unasked != (o.run == "") {
		return unasked
	}
	return r.touched.Before(o.touched)
}

// Expire forgets the tags that nobody has touched for ledgerTTL.
func (s *Rollouts) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, r := range s.byTag {
		if now.Sub(r.touched) >= ledgerTTL {
			s.forget(tag)
		}
	}
}

func (s *Rollouts) forget(tag string) {
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
func (r *tagged) collected(now time.Time) bool {
	return r.run != "" && now.Sub(r.asked) < collectorSilence
}

// waits says whether something has ended that no segment has.
func (r *tagged) waits() bool { return !r.open.Empty() || r.dropped > 0 }

// Begin counts nothing: trainers abandon episodes as they like.
func (b segmentRecorder) Begin() {}

// Finish counts the end of an episode, in the segment that is open. There is no receipt: trainers
// have no use for one.
func (b segmentRecorder) Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error) {
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
func (s *Rollouts) hasRoom(r *tagged) bool {
	for now := time.Now(); s.remembered >= maxUncollected && r.collected(now) && s.evict(now); {
	}
	return s.remembered < maxUncollected && r.open.Remembered() < maxUncollectedOfTag
}

// Collect hands a run the segment that it has not acknowledged, or the next one, which holds
// everything that has ended until now; or one without a ledger where there is nothing. What ends
// after the run is done waits for another run of its name. Asking for a tag that nothing is tagged
// with makes none: runs that nobody plays for take no room from others.
func (s *Rollouts) Collect(request score.CollectRequest) (score.Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byTag[request.Tag]
	if r == nil {
		return score.Segment{Pod: s.pod}, nil
	}
	r.touched = time.Now()
	switch {
	case request.Done:
		if request.Run == r.run {
			r.run, r.sealed = "", nil
		}
		return score.Segment{Pod: s.pod, Instance: r.instance}, nil
	case request.Run != r.run:
		// A run that was made again under its name begins with what is open: what the one before
		// was handed is that one's own. Numbers go on, so that a run whose segment went to another
		// notices.
		r.run, r.sealed = request.Run, nil
	case r.sealed != nil && request.Instance == r.instance && request.Ack >= r.sealed.Number:
		r.sealed = nil
	}
	r.asked = r.touched
	if r.sealed == nil && r.waits() {
		var err error
		if r.sealed, err = s.seal(r, request.PassScore); err != nil {
			return score.Segment{}, err
		}
	}
	if r.sealed == nil {
		return score.Segment{Pod: s.pod, Instance: r.instance}, nil
	}
	return *r.sealed, nil
}

// seal makes the next segment of what is open.
func (s *Rollouts) seal(r *tagged, passScore int64) (*score.Segment, error) {
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
func (s *Rollouts) uncollected() bool {
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

// WaitDrained waits until the runs that collect have acknowledged everything, or have fallen
// silent, or the context ends. What nobody collects holds nothing up.
func (s *Rollouts) WaitDrained(ctx context.Context) {
	for s.uncollected() {
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return
		}
	}
}

// RolloutFigures are the counters that the metrics show.
type RolloutFigures struct {
	Tags                      int
	Counted, Errored, Dropped int64
}

func (s *Rollouts) Figures() RolloutFigures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return RolloutFigures{Tags: len(s.byTag), Counted: s.counted, Errored: s.errored, Dropped: s.dropped}
}
