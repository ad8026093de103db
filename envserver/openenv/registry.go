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

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/slots"
)

// registry holds the sessions that have a slot, of all transports.
type registry struct {
	slots *slots.Slots
	// perClient is how many sessions one client may have, 0 for any number.
	perClient int

	mu       sync.Mutex
	byID     map[string]*session
	byClient map[string]int
	// unused are the sessions without a socket or an operation since they were opened, the oldest
	// first.
	unused list.List
	// drained is when the drain began, zero before, and atDrain the number of sessions then.
	drained time.Time
	atDrain int
	// empty is closed once the last session of a draining registry has ended.
	empty chan struct{}
}

func newRegistry(slots *slots.Slots, perClient int) *registry {
	return &registry{slots: slots, perClient: perClient, byID: map[string]*session{}, byClient: map[string]int{},
		empty: make(chan struct{})}
}

// newID makes an id that can't be guessed. The prefix names the session's server.
func newID(prefix string) string { return prefix + rand.Text() }

// clientFullError is the error of a client that has its maximum number of sessions.
type clientFullError int

func (e clientFullError) Error() string {
	return fmt.Sprintf("this client has %d sessions here, the maximum of one client", int(e))
}

// admit gives the session a slot, in the order of the calls. The error is one of
// slots.Take or a clientFullError.
func (r *registry) admit(ctx context.Context, s *session) error {
	if err := r.slots.Take(ctx, r.makeRoom); err != nil {
		return err
	}
	if err := r.add(s); err != nil {
		r.slots.Release()
		return err
	}
	return nil
}

func (r *registry) add(s *session) error {
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
	s.unused = r.unused.PushBack(s)
	return nil
}

// admits reports whether the client has fewer sessions than it may have.
func (r *registry) admits(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.perClient == 0 || r.byClient[client] < r.perClient
}

// makeRoom ends the oldest unused session, unless it is new.
func (r *registry) makeRoom() {
	r.mu.Lock()
	oldest := r.unused.Front()
	r.mu.Unlock()
	if oldest == nil {
		return
	}
	if s, ok := oldest.Value.(*session); ok && time.Since(s.opened) >= unusedGrace {
		s.end(endUnused, "")
	}
}

// use records that the session is used.
func (r *registry) use(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetUnused(s)
}

func (r *registry) forgetUnused(s *session) {
	if s.unused != nil {
		r.unused.Remove(s.unused)
		s.unused = nil
	}
}

// release frees the session's slot. It reports false if it was freed before, so that each session
// ends once.
func (r *registry) release(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.id] != s {
		return false
	}
	delete(r.byID, s.id)
	r.forgetUnused(s)
	if r.perClient > 0 {
		if r.byClient[s.client]--; r.byClient[s.client] == 0 {
			delete(r.byClient, s.client)
		}
	}
	r.slots.Release()
	if r.slots.Draining() && len(r.byID) == 0 {
		close(r.empty)
	}
	return true
}

// find returns the session of the id, nil for none.
func (r *registry) find(id string) *session {
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

func (r *registry) active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// all returns the current sessions.
func (r *registry) all() []*session {
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

// add records the end of a session, unless the client requested it or continues elsewhere.
func (p past) add(client string, why ending, details string) {
	if reason := cmp.Or(details, endings[why].told); reason != "" && why != endMoved {
		p.byClient.Add(client, pastSession{time.Now(), reason})
	}
}

// explain adds the reason for the end of the client's last episode to a refused step.
func (p past) explain(client string, r player.Reply) player.Reply {
	if !errors.Is(r.Err, episode.ErrNotReset) {
		return r
	}
	if reason := p.reason(client); reason != "" {
		r.Err = fmt.Errorf("%w; the last session from this address, which may have been another program's, ended: %s",
			r.Err, reason)
	}
	return r
}

// reason says how the client's last session ended, "" if that isn't known.
func (p past) reason(client string) string {
	if e, ok := p.byClient.Get(client); ok && time.Since(e.ended) < pastTTL {
		return e.reason
	}
	return ""
}
