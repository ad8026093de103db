package ledger

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxTags bounds the tags of a server. A tag that is not collected is deleted for a new one,
	// first those that no run ever requested: any client may invent tags, which must not evict
	// collected ones, unless a namespace has more of these than its share.
	maxTags = 64
	// maxUncollected bounds the uncollected episodes, about ten megabytes, and maxUncollectedOfTag
	// the uncollected episodes of one tag.
	maxUncollected      = 1 << 18
	maxUncollectedOfTag = 1 << 16
	// collectorSilence is how long after its last request a run counts as collecting.
	collectorSilence = time.Minute
	drainPoll        = 100 * time.Millisecond
)

// Rollouts has the episodes of runs of type External, by the tag that names the run, until the run
// collects them. It is safe for concurrent use.
//
// A run collects numbered and signed segments of the episodes that ended since the previous
// segment. The same segment is served until the run acknowledges it, so that a lost message neither
// loses an episode nor counts it twice.
type Rollouts struct {
	pod    string
	graded score.Ledger // the scenarios, grader and judge of every segment
	key    ed25519.PrivateKey
	log    *slog.Logger

	mu         sync.Mutex
	byTag      map[string]*tagged
	remembered int

	counted, errored, dropped, forked int64
}

// tagged holds the rollouts of one tag.
type tagged struct {
	// instance identifies the tag until this process deletes it. Segment numbers count within it.
	instance string
	// open has the episodes since the last segment, dropped the number that exceeded a bound, and
	// forked the number of episodes that were forked.
	open            score.Tally
	dropped, forked int64
	// run is the UID of the collecting run, "" for none, and asked the time of its last request.
	run   string
	asked time.Time
	// number is the number of the last segment of any run. sealed is this segment, with the scores
	// of so many episodes, until it is acknowledged.
	number   int64
	sealed   *score.Segment
	episodes int
	touched  time.Time
}

// NewRollouts makes the rollouts of an environment. The key signs segments.
func NewRollouts(kind episode.Kind, pod string, key ed25519.PrivateKey, log *slog.Logger) *Rollouts {
	return &Rollouts{
		pod: pod, key: key, log: log, byTag: map[string]*tagged{},
		graded: score.Ledger{ScenarioDigest: kind.ScenarioDigest(), GraderVersion: kind.GraderVersion(),
			Judge: kind.Judge()},
	}
}

// SegmentRecorder counts the episodes of one tag.
type SegmentRecorder struct {
	store *Rollouts
	tag   string
}

// Open returns the recorder of a tag, which it makes on first use. It refuses a further tag while
// maxTags are being collected.
func (s *Rollouts) Open(tag string) (SegmentRecorder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.openTag(tag)
	return SegmentRecorder{s, tag}, err
}

// openTag returns a tag's rollouts, which it makes on first use.
func (s *Rollouts) openTag(tag string) (*tagged, error) {
	now := time.Now()
	r := s.byTag[tag]
	if r == nil {
		if len(s.byTag) >= maxTags && !s.evictUncollected(now) && !s.evictShare(now, namespaceOf(tag)) {
			return nil, fmt.Errorf("this server has the maximum of %d collected tags: tag episodes with fewer runs "+
				"at a time", maxTags)
		}
		r = &tagged{instance: uuid.NewString()}
		s.byTag[tag] = r
	}
	r.touched = now
	return r, nil
}

// evictUncollected deletes the first of the tags that are not collected. It reports false if there
// is none.
func (s *Rollouts) evictUncollected(now time.Time) bool {
	first := ""
	for tag, r := range s.byTag {
		if !r.isCollected(now) && (first == "" || r.goesBefore(s.byTag[first])) {
			first = tag
		}
	}
	if first == "" {
		return false
	}
	s.deleteTag(first)
	return true
}

// evictShare deletes the collected tag that was used least recently of the namespace that has most,
// for a new tag of another one that has fewer. It reports false if there is none.
func (s *Rollouts) evictShare(now time.Time, forNamespace string) bool {
	counts := map[string]int{}
	for tag, r := range s.byTag {
		if r.isCollected(now) {
			counts[namespaceOf(tag)]++
		}
	}
	giver, first := findGiver(counts, forNamespace), ""
	for tag, r := range s.byTag {
		if giver != forNamespace && r.isCollected(now) && namespaceOf(tag) == giver &&
			(first == "" || r.touched.Before(s.byTag[first].touched)) {
			first = tag
		}
	}
	if first == "" {
		return false
	}
	s.deleteTag(first)
	return true
}

// findGiver returns the namespace that has most places, to give one up for a new one of the asking
// namespace. It returns the asking one if no other then has at least as many as that.
func findGiver(places map[string]int, asking string) string {
	giver := asking
	for _, namespace := range slices.Sorted(maps.Keys(places)) {
		if places[namespace] > max(places[giver], places[asking]+1) {
			giver = namespace
		}
	}
	return giver
}

// namespaceOf is the namespace of the run that a tag names, "" for the pool's own.
func namespaceOf(tag string) string {
	namespace, _, named := strings.Cut(tag, "/")
	if !named {
		return ""
	}
	return namespace
}

// goesBefore orders tags for eviction: those that no run requested first, then by last use.
func (r *tagged) goesBefore(o *tagged) bool {
	if unasked := r.run == ""; unasked != (o.run == "") {
		return unasked
	}
	return r.touched.Before(o.touched)
}

// Expire deletes tags that were not used for ledgerTTL.
func (s *Rollouts) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, r := range s.byTag {
		if now.Sub(r.touched) >= ledgerTTL {
			s.deleteTag(tag)
		}
	}
}

func (s *Rollouts) deleteTag(tag string) {
	r := s.byTag[tag]
	waiting := r.open.Remembered()
	s.remembered -= waiting
	s.dropped += int64(waiting)
	if r.sealed != nil {
		s.dropped += int64(r.episodes)
	}
	delete(s.byTag, tag)
}

// isCollected reports whether a run collects the tag's episodes.
func (r *tagged) isCollected(now time.Time) bool {
	return r.run != "" && now.Sub(r.asked) < collectorSilence
}

// hasWaiting reports whether there are episodes for another segment.
func (r *tagged) hasWaiting() bool { return !r.open.Empty() || r.dropped > 0 || r.forked > 0 }

// Begin does nothing, because trainers may abandon episodes.
func (b SegmentRecorder) Begin() {}

// Finish counts the end of an episode in the open segment. Trainers get no receipts.
func (b SegmentRecorder) Finish(planned score.PlannedEpisode, e score.Episode) (*score.Receipt, error) {
	s := b.store
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.openTag(b.tag)
	if err != nil {
		s.dropped++
		return nil, err
	}
	if e.Outcome != score.Errored && !s.hasCapacity(r) {
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

// Forked returns the recorder of an episode whose beginning another session has, too. Trainers
// that search choose the best of several continuations, so it is counted but not scored.
func (b SegmentRecorder) Forked() Recorder { return forkedRecorder(b) }

type forkedRecorder SegmentRecorder

// Begin does nothing, as for other episodes of trainers.
func (b forkedRecorder) Begin() {}

// Finish counts the end of an episode.
func (b forkedRecorder) Finish(score.PlannedEpisode, score.Episode) (*score.Receipt, error) {
	s := b.store
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.openTag(b.tag)
	if err == nil {
		r.forked++
		s.forked++
	}
	return nil, err
}

// hasCapacity reports whether another episode of a tag can be kept. Tags that are collected evict
// those that aren't.
func (s *Rollouts) hasCapacity(r *tagged) bool {
	for now := time.Now(); s.remembered >= maxUncollected && r.isCollected(now) && s.evictUncollected(now); {
	}
	return s.remembered < maxUncollected && r.open.Remembered() < maxUncollectedOfTag
}

// Collect returns the segment that the run has not acknowledged, or the next one, without a ledger
// if no episode has ended. Episodes that end after the run is done are kept for another run of its
// name. A request for an unknown tag doesn't create it.
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
		// A new run of this name begins with the open episodes. Numbers continue, so that a run
		// detects that another run got a segment.
		r.run, r.sealed = request.Run, nil
	case r.sealed != nil && request.Instance == r.instance && request.Ack >= r.sealed.Number:
		r.sealed = nil
	}
	r.asked = r.touched
	if r.sealed == nil && r.hasWaiting() {
		var err error
		if r.sealed, err = s.sealSegment(r, request.PassScore); err != nil {
			return score.Segment{}, err
		}
	}
	if r.sealed == nil {
		return score.Segment{Pod: s.pod, Instance: r.instance}, nil
	}
	return *r.sealed, nil
}

// sealSegment makes the next segment.
func (s *Rollouts) sealSegment(r *tagged, passScore int64) (*score.Segment, error) {
	r.number++
	identity := s.graded
	identity.Run, identity.Shard = score.SegmentRun(r.run, s.pod, r.instance), int(r.number)
	identity.PassScore = passScore
	r.episodes = r.open.Remembered()
	s.remembered -= r.episodes
	segment := &score.Segment{Pod: s.pod, Instance: r.instance, Number: r.number}
	ledger := r.open.Ledger(identity)
	signed, err := ledger.Sign(s.key)
	if err != nil {
		// The segment has too many scenarios for a ledger. Drop its episodes, so that later
		// segments can be collected.
		s.log.Error("A segment of rollouts can't be signed, its episodes are dropped", "run", r.run, "error", err)
		r.dropped += ledger.Scored + ledger.Failed
		identity.Opened = ledger.Opened - ledger.Scored - ledger.Failed
		if signed, err = identity.Sign(s.key); err != nil {
			return nil, fmt.Errorf("signing a segment of rollouts: %w", err)
		}
	}
	segment.Ledger, segment.Dropped, segment.Forked = &signed, r.dropped, r.forked
	r.dropped, r.forked = 0, 0
	return segment, nil
}

// hasUncollected reports whether a collecting run has not acknowledged all episodes.
func (s *Rollouts) hasUncollected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range s.byTag {
		if r.isCollected(now) && (r.sealed != nil || r.hasWaiting()) {
			return true
		}
	}
	return false
}

// WaitDrained waits until the collecting runs have acknowledged all episodes or are silent, or the
// context ends.
func (s *Rollouts) WaitDrained(ctx context.Context) {
	for s.hasUncollected() {
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return
		}
	}
}

// RolloutFigures are the values of the metrics.
type RolloutFigures struct {
	Tags                              int
	Counted, Errored, Dropped, Forked int64
}

// Figures returns the current figures.
func (s *Rollouts) Figures() RolloutFigures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return RolloutFigures{Tags: len(s.byTag), Counted: s.counted, Errored: s.errored, Dropped: s.dropped,
		Forked: s.forked}
}
