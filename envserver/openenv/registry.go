package openenv

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/slots"
)

// unusedGrace is how long a session that nothing has used is kept when its slot is needed, and
// unbegunGrace how long one with a socket is that has begun no episode.
const (
	unusedGrace  = 5 * time.Second
	unbegunGrace = time.Minute
)

// registry holds the sessions that have a slot, of all transports.
type registry struct {
	slots *slots.Slots
	// perClient is how many sessions one client may have, 0 for any number.
	perClient int
	// runsOnly is true if only runs can begin an episode.
	runsOnly bool

	mu       sync.Mutex
	byID     map[string]*session
	byClient map[string]int
	// unbegun are the sessions that have begun no episode, the oldest first, and unbegunOf their
	// number by client. They are the first to go when the server is full.
	unbegun   list.List
	unbegunOf map[string]int
	// drained is when the drain began, zero before, and atDrain the number of sessions then.
	drained time.Time
	atDrain int
	// empty is closed once the last session of a draining registry has ended.
	empty chan struct{}
}

func newRegistry(slots *slots.Slots, perClient int, runsOnly bool) *registry {
	return &registry{slots: slots, perClient: perClient, runsOnly: runsOnly, byID: map[string]*session{},
		byClient: map[string]int{}, unbegunOf: map[string]int{}, empty: make(chan struct{})}
}

// newID makes an id that can't be guessed. The prefix names the session's server.
func newID(prefix string) string { return prefix + rand.Text() }

// clientFullError is the error of a client that has its maximum number of sessions.
type clientFullError int

func (e clientFullError) Error() string {
	return fmt.Sprintf("this client has %d sessions here, the maximum of one client", int(e))
}

// admitSession gives the session a slot, in the order of the calls. The error is one of
// slots.Take or a clientFullError.
func (r *registry) admitSession(ctx context.Context, s *session) error {
	if err := r.slots.Take(ctx, func() bool { return r.makeRoom(s.client) }); err != nil {
		return err
	}
	if err := r.addSession(s); err != nil {
		r.slots.Release()
		return err
	}
	return nil
}

func (r *registry) addSession(s *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots.Draining() {
		return slots.ErrDraining
	}
	if r.perClient > 0 {
		if r.byClient[s.client] >= r.perClient {
			return clientFullError(r.perClient)
		}
		r.byClient[s.client]++
	}
	r.byID[s.id] = s
	s.unbegun = r.unbegun.PushBack(s)
	r.unbegunOf[s.client]++
	return nil
}

// hasRoom reports whether the client has fewer sessions than it may have.
func (r *registry) hasRoom(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.perClient == 0 || r.byClient[client] < r.perClient
}

// makeRoom ends a session that has begun no episode, so that a client gets its slot. It reports
// whether there was one.
func (r *registry) makeRoom(client string) bool {
	r.mu.Lock()
	s := r.firstToGo(client, time.Now())
	if s != nil {
		r.removeSession(s)
	}
	r.mu.Unlock()
	if s == nil {
		return false
	}
	// Its peer may not read.
	s.server.spawn(func() { s.conclude(endUnused, "another client needs its slot, and it began no episode") })
	return true
}

// firstToGo chooses among the sessions that have begun no episode: of the client that has most of
// them, an unused one, else the oldest. It returns nil if all are too new.
func (r *registry) firstToGo(client string, now time.Time) (first *session) {
	for e := r.unbegun.Front(); e != nil; e = e.Next() {
		s := e.Value.(*session) //nolint:forcetypeassert // the list has no other values
		more := first == nil || r.unbegunOf[s.client] > r.unbegunOf[first.client]
		better := first != nil && s.client == first.client && first.used.Load() && !s.used.Load()
		if (more || better) && now.Sub(s.opened) >= r.gracePeriod(s, client) {
			first = s
		}
	}
	return first
}

// gracePeriod is how long a session that has begun no episode is kept when a client needs its slot.
func (r *registry) gracePeriod(s *session, client string) time.Duration {
	switch fair := r.unbegunOf[s.client] > r.unbegunOf[client]; {
	case fair && r.runsOnly:
		return 0 // a runner begins at once
	case fair || !s.used.Load():
		return unusedGrace
	}
	return unbegunGrace
}

// noteEpisode records that the session has begun an episode.
func (r *registry) noteEpisode(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetUnbegun(s)
}

func (r *registry) forgetUnbegun(s *session) {
	if s.unbegun == nil {
		return
	}
	r.unbegun.Remove(s.unbegun)
	s.unbegun = nil
	if r.unbegunOf[s.client]--; r.unbegunOf[s.client] == 0 {
		delete(r.unbegunOf, s.client)
	}
}

// releaseSlot frees the session's slot. It reports false if it was freed before, so that each
// session ends once.
func (r *registry) releaseSlot(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.id] != s {
		return false
	}
	r.removeSession(s)
	r.slots.Release()
	return true
}

// removeSession removes a session whose slot is freed or handed over.
func (r *registry) removeSession(s *session) {
	delete(r.byID, s.id)
	r.forgetUnbegun(s)
	if r.perClient > 0 {
		if r.byClient[s.client]--; r.byClient[s.client] == 0 {
			delete(r.byClient, s.client)
		}
	}
	if r.slots.Draining() && len(r.byID) == 0 {
		close(r.empty)
	}
}

// findSession returns the session of the id, nil for none.
func (r *registry) findSession(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// drain refuses new sessions. The channel is closed when the last session has ended.
func (r *registry) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.slots.Draining() {
		r.drained, r.atDrain = time.Now(), len(r.byID)
		if len(r.byID) == 0 {
			close(r.empty)
		}
		r.slots.Drain()
	}
	return r.empty
}

func (r *registry) countActive() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// countOccupied is the number of slots that no new session can get: all active ones, but on a
// server for runs those with an episode.
func (r *registry) countOccupied() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runsOnly {
		return len(r.byID) - r.unbegun.Len()
	}
	return len(r.byID)
}

// listSessions returns the current sessions.
func (r *registry) listSessions() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.byID))
}

// past stores the reason for the end of each client's last session, for clients that connect again
// without informing their user.
type past struct {
	byClient *lru.Cache[string, pastSession]
}

type pastSession struct {
	ended  time.Time
	reason string
}

const (
	maxPast = 4096
	pastTTL = time.Hour
)

func newPast() past {
	byClient, err := lru.New[string, pastSession](maxPast)
	if err != nil {
		panic(err) // the size is positive
	}
	return past{byClient}
}

// addEnd records the end of a session, unless the client requested it or continues elsewhere.
func (p past) addEnd(client string, why ending, details string) {
	if reason := cmp.Or(details, endings[why].told); reason != "" && why != endMoved {
		p.byClient.Add(client, pastSession{time.Now(), reason})
	}
}

// explainEnd adds the reason for the end of the client's last episode to a refused step.
func (p past) explainEnd(client string, r player.Reply) player.Reply {
	if !errors.Is(r.Err, episode.ErrNotReset) {
		return r
	}
	if reason := p.endReason(client); reason != "" {
		r.Err = fmt.Errorf("%w; the last session from this address, which may have been another program's, ended: %s",
			r.Err, reason)
	}
	return r
}

// endReason says how the client's last session ended, "" if that isn't known.
func (p past) endReason(client string) string {
	if e, ok := p.byClient.Get(client); ok && time.Since(e.ended) < pastTTL {
		return e.reason
	}
	return ""
}

// freeSlots is the number of slots that a new session can get.
func (r *registry) freeSlots() int { return r.slots.Capacity - r.countOccupied() }
