package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
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

// beginRequest waits until a request may begin, which end ends. It returns errSpent if none may.
func (m *Meter) beginRequest(ctx context.Context) error {
	if m == nil {
		return nil
	}
	for {
		m.mu.Lock()
		changed := m.changed
		spent, begins := !m.limit.Leaves(m.used), m.active == 0 || m.answered && m.fitsBudget(m.active+1)
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

// fitsBudget reports whether so many requests at a time are within the limit, if each costs as much
// as the largest so far.
func (m *Meter) fitsBudget(requests int64) bool {
	return m.limit.Allows(score.Tokens{Prompt: m.used.Prompt + requests*m.largest.Prompt,
		Completion: m.used.Completion + requests*m.largest.Completion})
}

// endRequest counts the tokens of a request that has ended.
func (m *Meter) endRequest(t score.Tokens, answered bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active--
	m.answered = m.answered || answered
	m.used.Add(t)
	m.largest.Prompt, m.largest.Completion = max(m.largest.Prompt, t.Prompt), max(m.largest.Completion, t.Completion)
	close(m.changed)
	m.changed = make(chan struct{})
}

// isSpent reports whether the budget is used up, so that no episode may go on.
func (s *shard) isSpent() bool {
	_, spent := s.Meter.Spent()
	return spent
}

// abandonJob leaves an episode unplayed that the budget doesn't let go on.
func (s *shard) abandonJob(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	s.wake.Broadcast()
}

// usageOf returns the tokens that an agent has used, none if it doesn't count them.
func usageOf(agent policy.Policy) score.Tokens {
	if metered, ok := agent.(policy.Metered); ok {
		return metered.Usage()
	}
	return score.Tokens{}
}

// askAgent has the agent act within the budget, and counts what it uses.
func (w *worker) askAgent(ctx context.Context, agent policy.Policy, turn policy.Turn) (json.RawMessage, error) {
	s := w.shard
	if err := s.Meter.beginRequest(ctx); err != nil {
		return nil, err
	}
	began := s.Clock.Now()
	action, err := agent.Act(ctx, turn)
	w.asked = s.Clock.Now().Sub(began)
	all := usageOf(agent)
	used := score.Tokens{Prompt: all.Prompt - w.counted.Prompt, Completion: all.Completion - w.counted.Completion}
	w.counted = all
	s.mu.Lock()
	s.tokens.Add(used)
	s.mu.Unlock()
	s.Meter.endRequest(used, err == nil)
	s.reportUsed(ctx)
	return action, err
}

// reportTimeout bounds the report of used tokens to the shard's server.
const reportTimeout = 5 * time.Second

// reportUsed tells the shard's server how many tokens its runners have used, so that a runner that
// takes this one's place gets only what is left. A stopped runner still does.
func (s *shard) reportUsed(ctx context.Context) {
	if s.Meter == nil || s.Credential == "" {
		return // nothing is limited, or the server knows nothing of other runners
	}
	s.mu.Lock()
	used := s.tokens
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if err := client.ReportUsed(ctx, s.pod, s.Plan.Run, s.Shard, used, s.clientOptions()); err != nil {
		s.Log.Warn("The used tokens could not be reported", "shard", s.Shard, "pod", s.pod, "error", err)
	}
}
