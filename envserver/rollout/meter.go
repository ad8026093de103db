package rollout

import (
	"context"
	"errors"
	"sync"

	"github.com/csenv/csenv/envserver/score"
)

// errSpent means that the budget is used up, so that no further request may begin.
var errSpent = errors.New("the budget is used up")

// Meter lets requests to a model begin while they leave something of a limit. Shards that one
// program plays share it. A nil Meter lets every request begin.
//
// A request may cost more than what is left, which isn't known before. So the first one is made
// alone, and others begin beside it only if all fit that cost as much as the largest so far. The
// limit is then exceeded by one request at most, unless requests become larger.
type Meter struct {
	limit score.Limit

	mu            sync.Mutex
	used, largest score.Tokens
	answered      bool
	active        int64
	changed       chan struct{} // closed when a request ends
}

// NewMeter makes a meter that nothing has been used of.
func NewMeter(limit score.Limit) *Meter { return &Meter{limit: limit, changed: make(chan struct{})} }

// Use counts tokens that were used before.
func (m *Meter) Use(t score.Tokens) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used.Add(t)
}

// Spent returns the tokens that were used, and whether they leave nothing of the limit.
func (m *Meter) Spent() (used score.Tokens, spent bool) {
	if m == nil {
		return used, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, !m.limit.Leaves(m.used)
}

// begin waits until a request may begin, which end ends. It returns errSpent if none may.
func (m *Meter) begin(ctx context.Context) error {
	for {
		m.mu.Lock()
		changed := m.changed
		spent, begins := !m.limit.Leaves(m.used), m.active == 0 || m.answered && m.fits(m.active+1)
		if begins && !spent {
			m.active++
		}
		m.mu.Unlock()
		switch {
		case spent:
			return errSpent
		case begins:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fits reports whether so many requests at a time are within the limit, if each costs as much as
// the largest so far.
func (m *Meter) fits(requests int64) bool {
	return m.limit.Allows(score.Tokens{Prompt: m.used.Prompt + requests*m.largest.Prompt,
		Completion: m.used.Completion + requests*m.largest.Completion})
}

// end counts the tokens of a request that has ended.
func (m *Meter) end(t score.Tokens, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active--
	m.answered = m.answered || answered
	m.used.Add(t)
	m.largest.Prompt, m.largest.Completion = max(m.largest.Prompt, t.Prompt), max(m.largest.Completion, t.Completion)
	close(m.changed)
	m.changed = make(chan struct{})
}
