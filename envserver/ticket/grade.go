package ticket

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// dimensionTimeliness tells how soon the first replies came, in thousandths of the factor that this
// decides.
const dimensionTimeliness = "timeliness"

// noReply is the verdict on a ticket without a reply: nothing to judge, and nothing earned.
var noReply = grader.Verdict{Status: grader.StatusOK}

// offered is what a rubric offers for a ticket, in milli-points.
func offered(rubric string) (int64, error) {
	parts, err := grader.GradeTicket(&scenarios.Ticket{}, rubric, grader.Decisions{}, noReply)
	if err != nil {
		return 0, fmt.Errorf("reading the rubric of %s: %w", rubric, err)
	}
	var points int64
	for _, p := range parts {
		points += p.Offered
	}
	return points, nil
}

func earned(parts []score.Dimension) int64 {
	var points int64
	for _, p := range parts {
		points += p.Earned
	}
	return points
}

// fullScore is the worth that earns the full score: in a queue that of the best schedule, otherwise
// all that the task offers.
func (s *state) fullScore(optima *queue.Optima) int64 {
	if !s.task.queue {
		return s.task.offered * queue.InTime
	}
	var cases [queue.Size]queue.Case
	for i := range cases {
		cases[i] = queue.CaseOf(s.tickets[i].ticket)
	}
	return optima.Of(cases)
}

// worth is what a ticket adds to the episode: its milli-points times the factor of its first reply
// and, in a queue, its weight.
func (s *state) weightedScore(t *ticketState, points int64) int64 {
	if s.task.queue {
		return queue.WeightedScore(t.ticket.Gold.Priority, points, t.answered)
	}
	return points * s.factor(t)
}

func (s *state) factor(t *ticketState) int64 {
	if !s.timed() {
		return queue.InTime
	}
	return queue.Factor(t.ticket.Gold.Priority, t.answered)
}

// pay moves paid to what the tickets' worth is of the full one, in milli-points, and returns the
// difference: the reward. Rewards of an episode so add up to its score however it is rounded. The
// full worth of a queue is that of the best of the documented schedules. Another one, with the
// replies before the labels say, can be worth more, and more isn't paid.
func (s *state) pay(worth int64) int64 {
	due := min((2*1000*worth+s.optimum)/(2*s.optimum), 1000)
	reward := due - s.paid
	s.paid = due
	return reward
}

// grade ends the books of a step: the reward and, when the episode is over, its final figures. The
// error returned is ctx's, when that ended before the judge did, an *episode.JudgeError, or says
// that the rubric is broken.
func (s *state) grade(ctx context.Context, judge grader.Judge) (int64, *episode.Final, error) {
	if err := s.judge(ctx, judge); err != nil {
		return 0, nil, err
	}
	if s.outcome == "" && !s.dense() {
		return 0, nil, nil
	}
	parts := make([][]score.Dimension, len(s.tickets))
	var worth int64
	for i := range s.tickets {
		t := &s.tickets[i]
		var err error
		if parts[i], err = s.parts(t); err != nil {
			return 0, nil, err
		}
		if !s.withheld(t) {
			worth += s.weightedScore(t, earned(parts[i]))
		}
	}
	reward := s.pay(worth)
	if s.outcome == "" {
		return reward, nil, nil
	}
	final, err := s.scored(parts)
	return reward, final, err
}

// withheld reports whether a ticket's rewards wait. Where minutes count they are the points times
// what the true priority makes of them, so that they tell it: nothing is paid until both labels
// stand, which with dense rewards can't be revised, or nothing more will be done.
func (s *state) withheld(t *ticketState) bool {
	return s.timed() && !s.over(t) && (t.category == "" || t.priority == "")
}

// over reports whether a ticket is graded as a whole: nothing more will be done about it.
func (s *state) over(t *ticketState) bool { return s.outcome != "" || !t.open() }

// parts grades a ticket: its labels alone while it is open, for only the end shows which actions a
// reply may speak of.
func (s *state) parts(t *ticketState) ([]score.Dimension, error) {
	rubric, verdict := grader.TaskClassify, noReply
	if s.over(t) {
		rubric = s.task.rubric
	}
	if t.verdict != nil {
		verdict = *t.verdict
	}
	return grader.GradeTicket(t.ticket, rubric, t.decisions(), verdict)
}

// judge has the replies of every ticket judged that is over and hasn't been. A verdict that is no
// score is a failure to judge.
func (s *state) judge(ctx context.Context, judge grader.Judge) error {
	for i := range s.tickets {
		t := &s.tickets[i]
		if !s.task.reply || !s.over(t) || len(t.replies) == 0 || t.verdict != nil {
			continue
		}
		judged := t.judged()
		verdict, err := judge.Judge(ctx, judged)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("judging the reply: %w", ctx.Err())
		case err == nil && !verdict.Scored():
			err = fmt.Errorf("the verdict's status is %q", verdict.Status)
		}
		if err != nil {
			return &episode.JudgeError{Cause: string(cmp.Or(verdict.Cause, grader.CauseFailed)), Err: err}
		}
		verdict.Case = judged.Digest()
		t.verdict = &verdict
	}
	return nil
}

// judged is what the judge reads: everything that the agent wrote to the customer, in order,
// because what was once promised stays promised.
func (t *ticketState) judged() grader.Case {
	return grader.Case{Ticket: t.ticket, Reply: t.written(), Actions: grader.Actions{Ending: t.ending(), Team: t.team}}
}

func (t *ticketState) written() string { return strings.Join(t.replies, "\n\n") }

// verdicts is the number of tickets that the judge has read.
func (s *state) verdicts() int {
	count := 0
	for i := range s.tickets {
		if s.tickets[i].verdict != nil {
			count++
		}
	}
	return count
}

// final begins the end of the episode.
func (s *state) final() *episode.Final {
	return &episode.Final{Task: s.task.name, Scenario: s.scenario, Category: s.category, Outcome: s.outcome,
		Judge: s.task.scale}
}

// giveUp ends the episode without a score.
func (s *state) giveUp(unjudged *episode.JudgeError) *episode.Final {
	s.outcome = score.Errored
	s.feedback = "The episode could not be scored: the judge failed. Reset to play it again."
	final := s.final()
	final.Cause = unjudged.Cause
	return final
}

// scored is the end of an episode whose tickets earned the parts.
func (s *state) scored(parts [][]score.Dimension) (*episode.Final, error) {
	final := s.final()
	final.Score = s.paid * score.One / 1000
	final.Dimensions = s.dimensions(parts)
	for i := range s.tickets {
		verdict, err := s.tickets[i].served()
		if err != nil {
			return nil, err
		}
		if verdict != nil {
			final.Verdicts = append(final.Verdicts, verdict)
		}
	}
	return final, nil
}

// dimensions are the weighted means of the tickets' parts and, where time counts, of their
// timeliness.
func (s *state) dimensions(parts [][]score.Dimension) []score.Dimension {
	means := slices.Clone(parts[0])
	for k := range means {
		means[k].Earned = 0
	}
	var late score.Dimension
	var weights int64
	for i := range s.tickets {
		t := &s.tickets[i]
		weight := int64(1)
		if s.task.queue {
			weight = queue.Weight(t.ticket.Gold.Priority)
		}
		weights += weight
		for k, part := range parts[i] {
			means[k].Earned += weight * part.Earned
		}
		late.Earned += weight * (s.factor(t) - queue.TooLate)
	}
	if s.timed() {
		late.Name, late.Offered = dimensionTimeliness, queue.InTime-queue.TooLate
		means = append(means, late)
	}
	for k := range means {
		means[k].Earned = (2*means[k].Earned + weights) / (2 * weights)
	}
	return means
}

// servedVerdict is a verdict as the end of an episode serves it.
type servedVerdict struct {
	TicketID string `json:"ticket_id"`
	grader.Verdict
}

// served is the verdict as JSON, nil where nothing was judged.
func (t *ticketState) served() (json.RawMessage, error) {
	if t.verdict == nil {
		return nil, nil
	}
	text, err := json.Marshal(servedVerdict{t.id, *t.verdict})
	if err != nil {
		return nil, fmt.Errorf("writing the verdict: %w", err)
	}
	return text, nil
}
