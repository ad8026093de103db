package source

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/rollout"
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
	// Counts is set if the episode has a valid receipt, which Planned and Episode are of.
	Counts bool
	// Claimed is set if the record has a score and no valid receipt. Nobody vouches for it, so it
	// is in no figure.
	Claimed bool
	// Mute is set if no answer of the agent was an action, and Counted has its answers.
	Mute    bool
	Counted score.Counts
	Planned score.PlannedEpisode
	Episode score.Episode
	// Lost are the points that a counted episode lost.
	Lost []Lost
}

// Checker checks the receipts of a plan's episodes.
type Checker struct {
	key   ed25519.PublicKey
	index *score.PlanIndex
}

// NewChecker returns the checker of a stored plan, which may be of anybody's making.
func NewChecker(plan score.Plan) (*Checker, error) {
	key, err := score.ParsePublicKey(plan.LedgerKey)
	if err != nil {
		return nil, fmt.Errorf("reading the key of run %s: %w", plan.Run, err)
	}
	return &Checker{key, plan.NewIndex()}, nil
}

// Count counts an episode as its receipt says, if that is signed with the plan's key and of the
// planned episode. Without a checker, no receipt is valid.
func (c *Checker) Count(e record.Episode) Counted {
	counted := Counted{Index: e.Index, Attempts: e.Attempts, DurationMS: e.DurationMS}
	if e.Tokens != nil {
		counted.Tokens = *e.Tokens
	}
	if e.Outcome == score.Errored {
		counted.Errored, counted.Class = true, e.Class
		return counted
	}
	if c != nil {
		r, err := score.VerifyReceipt(e.Receipt, c.key)
		if err == nil && r.Planned.Index == e.Index {
			if counted.Planned, err = c.index.Accepts(r); err == nil {
				counted.Counts, counted.Episode = true, r.Episode
				counted.Counted = rollout.CountAnswers(r.Episode.Outcome, e.Turns, e.Verdicts, e.Customer)
				counted.Mute = rollout.IsMute(r.Episode.Outcome, e.Turns)
				counted.Lost = listLostPoints(e, counted.Planned, r.Episode.Dimensions)
				return counted
			}
		}
	}
	// The score of a replayed episode that counts was lost on its way.
	counted.Claimed = e.Score != nil && !e.Replayed
	return counted
}

// Sum contains the sums of a run's stored episodes. Its JSON has all of them.
type Sum struct {
	Ledger *score.Ledger
	// Errored are the indexes of errored episodes by class.
	Errored   map[string]*score.IndexSet
	Retried   int64
	Tokens    score.Tokens
	Durations stats.Durations
	// Claimed counts the episodes that have a score and no valid receipt. They are in no figure.
	Claimed int
	// Mute counts the episodes in which no answer of the agent was an action.
	Mute   int64
	Counts score.Counts
	// Lost are the points that were lost, by reason.
	Lost map[string]tally
	// Broken counts the lines that aren't records, and Problem is about the first. An index has
	// them beside its sums.
	Broken  int   `json:"-"`
	Problem error `json:"-"`
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
	if c.Claimed {
		s.Claimed++
		return nil
	}
	s.Durations.Observe(c.DurationMS)
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

// summing sums up the runs of a store by reading all their episodes.
type summing struct{ *results.Store }

// Sum sums up the episodes of a run.
func (s summing) Sum(ctx context.Context, run string, plan score.Plan) (*Sum, error) {
	checker, err := NewChecker(plan)
	if err != nil {
		return nil, err
	}
	sum := NewSum(plan)
	for e, err := range s.Episodes(ctx, run) {
		if errors.Is(err, record.ErrNotRecord) {
			sum.Broken, sum.Problem = sum.Broken+1, cmp.Or(sum.Problem, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := sum.Add(checker.Count(e)); err != nil {
			return nil, err
		}
	}
	return sum, nil
}
