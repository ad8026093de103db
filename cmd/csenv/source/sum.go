package source

import (
	"context"
	"crypto/ed25519"
	"fmt"

	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// Counted is what the figures of a run need of one stored episode.
type Counted struct {
	Index      int64
	Attempts   int
	Tokens     score.Tokens
	DurationMS int64
	// Errored episodes have a class and are in no sum of scores.
	Errored bool
	Class   string
	// Counts is set if Planned and Episode count: as in the receipt or, if Claimed, as in the
	// record itself.
	Counts, Claimed bool
	// Mute is set if no answer of the agent was an action, and Counts has its answers.
	Mute    bool
	Counted score.Counts
	Planned score.PlannedEpisode
	Episode score.Episode
	// Lost are the points that a counted episode lost.
	Lost []Lost
}

// CountEpisode checks the receipt of an episode of a plan. An episode without a valid receipt
// counts as in its own record.
func CountEpisode(e record.Episode, plan score.Plan, key ed25519.PublicKey) Counted {
	c := Counted{Index: e.Index, Attempts: e.Attempts, DurationMS: e.DurationMS}
	if e.Tokens != nil {
		c.Tokens = *e.Tokens
	}
	if e.Outcome == score.Errored {
		c.Errored, c.Class = true, e.Class
		return c
	}
	if r, err := score.VerifyReceipt(e.Receipt, key); err == nil && r.Run == plan.Run && r.Planned.Index == e.Index {
		c.Counts, c.Planned, c.Episode = true, r.Planned, r.Episode
		c.explain(e)
		return c
	}
	// The score of a replayed episode that counts was lost on its way.
	if e.Score != nil && !e.Replayed {
		c.Counts, c.Claimed = true, true
		c.Planned, c.Episode = readClaim(e)
		c.explain(e)
	}
	return c
}

// explain adds what the record says of the score that counts.
func (c *Counted) explain(e record.Episode) {
	c.Counted = rollout.CountAnswers(c.Episode.Outcome, e.Turns, e.Verdicts)
	c.Mute, c.Lost = rollout.IsMute(c.Episode.Outcome, e.Turns), listLostPoints(e, c.Planned.Task, c.Episode.Dimensions)
}

// readClaim is what the record of an episode with a score says of it.
func readClaim(e record.Episode) (score.PlannedEpisode, score.Episode) {
	return score.PlannedEpisode{Index: e.Index, Task: e.Task, Scenario: e.Scenario, Trial: e.Trial, Seed: e.Seed,
			Pressure: e.Pressure}, score.Episode{Outcome: e.Outcome, Score: ToMicroPoints(*e.Score),
			Dimensions: e.Dimensions}
}

// Sum contains the sums of a run's stored episodes. Its JSON has all of them.
type Sum struct {
	Ledger *score.Ledger
	// Errored are the indexes of errored episodes by class.
	Errored   map[string]*score.IndexSet
	Retried   int64
	Tokens    score.Tokens
	Durations stats.Durations
	// Claimed counts the episodes that count without a receipt.
	Claimed int
	// Mute counts the episodes in which no answer of the agent was an action.
	Mute   int64
	Counts score.Counts
	// Lost are the points that were lost, by reason.
	Lost map[string]tally
}

// NewSum is the sum of no episode of a plan.
func NewSum(plan score.Plan) *Sum {
	return &Sum{Errored: map[string]*score.IndexSet{}, Lost: map[string]tally{},
		Ledger: &score.Ledger{Run: plan.Run, PassScore: plan.PassScore,
			ScenarioDigest: plan.ScenarioDigest, GraderVersion: plan.GraderVersion, Judge: plan.Judge}}
}

// Add adds an episode. The first one of a scenario decides its category, difficulty and language.
func (s *Sum) Add(c Counted) error {
	s.Retried += int64(max(c.Attempts-1, 0))
	s.Tokens.Add(c.Tokens)
	if c.Errored {
		if s.Errored[c.Class] == nil {
			s.Errored[c.Class] = &score.IndexSet{}
		}
		s.Errored[c.Class].Add(c.Index)
		return nil
	}
	s.Durations.Observe(c.DurationMS)
	if c.Claimed {
		s.Claimed++
	}
	if !c.Counts {
		return nil
	}
	s.Counts.Add(c.Counted)
	if c.Mute {
		s.Mute++
	}
	s.addLost(c.Lost)
	return s.Ledger.Add(c.Planned, c.Episode)
}

// addLost adds what an episode lost.
func (s *Sum) addLost(lost []Lost) {
	for _, l := range lost {
		t, known := s.Lost[l.Reason]
		if !known && len(s.Lost) >= maxReasons {
			continue
		}
		s.Lost[l.Reason] = tally{t.Episodes + 1, t.Points + l.Points}
	}
}

// LedgerKey is the key that signs the receipts of a plan's episodes.
func LedgerKey(plan score.Plan) (ed25519.PublicKey, error) {
	key, err := score.ParsePublicKey(plan.LedgerKey)
	if err != nil {
		return nil, fmt.Errorf("reading the key of run %s: %w", plan.Run, err)
	}
	return key, nil
}

// summing sums up the runs of a store by reading all their episodes.
type summing struct{ *results.Store }

// Sum sums up the episodes of a run.
func (s summing) Sum(ctx context.Context, run string, plan score.Plan) (*Sum, error) {
	key, err := LedgerKey(plan)
	if err != nil {
		return nil, err
	}
	sum := NewSum(plan)
	for e, err := range s.Episodes(ctx, run) {
		if err != nil {
			return nil, err
		}
		if err := sum.Add(CountEpisode(e, plan, key)); err != nil {
			return nil, err
		}
	}
	return sum, nil
}
