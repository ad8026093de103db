package ticket

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// dimensionTimeliness measures the delay of the first replies, in thousandths of their factor.
const dimensionTimeliness = "timeliness"

// noReply is the verdict for a ticket without a reply.
var noReply = grader.Verdict{Status: grader.StatusOK}

// sumOffered returns the maximum milli-points of a rubric.
func sumOffered(rubric string) (points int64, err error) {
	parts, err := grader.GradeTicket(&scenarios.Served{}, rubric, grader.Decisions{}, noReply)
	if err != nil {
		return 0, fmt.Errorf("reading the rubric of %s: %w", rubric, err)
	}
	for _, p := range parts {
		points += p.Offered
	}
	return points, nil
}

func sumEarned(parts []score.Dimension) (points int64) {
	for _, p := range parts {
		points += p.Earned
	}
	return points
}

// weightedScore returns a ticket's part of the episode's score: its milli-points times the factor
// of its first reply and, in a queue, its weight.
func (s *state) weightedScore(t *ticketState, points int64) int64 {
	if s.task.queue {
		return queue.WeightedScore(t.ticket.Gold.Priority, points, t.answered)
	}
	return points * s.replyFactor(t)
}

func (s *state) replyFactor(t *ticketState) int64 {
	if !s.isTimed() {
		return queue.InTime
	}
	return queue.ReplyTimeFactor(t.ticket.Gold.Priority, t.answered)
}

// payWeighted sets paid to the weighted score divided by the optimum, in milli-points, and returns
// the increase as the reward, so that the rewards of an episode add up to its score despite
// rounding. A schedule outside the documented ones can exceed the optimum, which counts as the
// optimum.
func (s *state) payWeighted(weighted int64) int64 {
	most := s.optimum.WeightedScore
	due := min((2*1000*weighted+most)/(2*most), 1000)
	reward := due - s.paid
	s.paid = due
	return reward
}

// gradeStep returns the reward of a step and, if the episode has ended, its final figures. An error
// is ctx's, an *episode.JudgeError, or the error of an invalid rubric.
func (s *state) gradeStep(ctx context.Context, judge grader.Judge) (int64, *episode.Final, error) {
	if err := s.judgeReplies(ctx, judge); err != nil {
		return 0, nil, err
	}
	if s.outcome == "" && !s.isDense() {
		return 0, nil, nil
	}
	parts := make([][]score.Dimension, len(s.tickets))
	var weighted int64
	for i := range s.tickets {
		t := &s.tickets[i]
		var err error
		if parts[i], err = s.gradeParts(t); err != nil {
			return 0, nil, err
		}
		if !s.withholdsRewards(t) {
			weighted += s.weightedScore(t, sumEarned(parts[i]))
		}
	}
	reward := s.payWeighted(weighted)
	if s.outcome == "" {
		return reward, nil, nil
	}
	final, err := s.makeFigures(parts)
	return reward, final, err
}

// withholdsRewards reports whether a ticket's rewards are held back. If actions take minutes,
// rewards depend on the true priority and would reveal it, so they are paid after both labels are
// set or the ticket is closed.
func (s *state) withholdsRewards(t *ticketState) bool {
	return s.isTimed() && !s.isOver(t) && !t.isLabelled()
}

// isOver reports whether a ticket is closed, so that all of it is graded.
func (s *state) isOver(t *ticketState) bool { return s.outcome != "" || !t.isOpen() }

// gradeParts grades a ticket. An open ticket is graded only by its labels, because the actions that
// a reply may mention are known only at the end.
func (s *state) gradeParts(t *ticketState) ([]score.Dimension, error) {
	rubric, verdict := tasks.TicketClassify, noReply
	if s.isOver(t) {
		rubric = s.task.rubric
	}
	if t.verdict != nil {
		verdict = *t.verdict
	}
	return grader.GradeTicket(&t.ticket.Served, rubric, t.decisions(), verdict)
}

// judgeReplies calls the judge for the replies of every closed ticket without a verdict, all within
// the time of one judgement. A verdict without a score is a failure of the judge.
func (s *state) judgeReplies(ctx context.Context, judge grader.Judge) error {
	limited := ctx
	if b, ok := judge.(grader.Bounded); ok && b.Timeout() > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, b.Timeout())
		defer cancel()
	}
	for i := range s.tickets {
		t := &s.tickets[i]
		if !s.task.Replies || !s.isOver(t) || len(t.replies) == 0 || t.verdict != nil {
			continue
		}
		judged, err := t.makeCase()
		var verdict grader.Verdict
		if err == nil {
			verdict, err = judge.Judge(limited, judged)
		}
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

// countJudged counts the tickets that were judged.
func (s *state) countJudged() (count int) {
	for i := range s.tickets {
		if s.tickets[i].verdict != nil {
			count++
		}
	}
	return count
}

func (s *state) final() *episode.Final {
	return &episode.Final{Task: s.task.Name, Scenario: s.scenario, Category: s.category, Outcome: s.outcome,
		Judge: s.task.scale}
}

// makeFigures returns the final figures of an episode whose tickets earned the parts.
func (s *state) makeFigures(parts [][]score.Dimension) (*episode.Final, error) {
	final := s.final()
	final.Score = s.paid * score.One / 1000
	final.Dimensions, final.Wrong = s.averageParts(parts), s.isWrong()
	var err error
	final.Verdicts, err = s.encodeVerdicts()
	return final, err
}

// isWrong reports whether a ticket is handled wrongly or left, in a queue an urgent or high one, of
// which as much may be left as the best schedules leave. It compares weights, so that an equally
// good choice isn't wrong. A task without replies is right or wrong by its score alone.
func (s *state) isWrong() bool {
	var left int64
	for i := range s.tickets {
		t := &s.tickets[i]
		priority := t.ticket.Gold.Priority
		switch {
		case !s.task.Replies || s.task.queue && !queue.IsPressing(priority):
		case t.isMishandled():
			return true
		case t.verdict == nil || t.isOpen():
			left += queue.PriorityWeight(priority)
		}
	}
	return left > s.optimum.Left
}

// isMishandled reports whether a ticket was closed by a wrong decision, or its reply is wrong.
func (t *ticketState) isMishandled() bool {
	return !t.isOpen() && !grader.IsRightDecision(t.ticket.Gold, t.decisions()) ||
		t.verdict != nil && !t.verdict.Right
}

// encodeVerdicts returns the JSON of each ticket's verdict.
func (s *state) encodeVerdicts() (all []json.RawMessage, err error) {
	for i := range s.tickets {
		t := &s.tickets[i]
		if t.verdict == nil {
			continue
		}
		text, err := json.Marshal(ticketVerdict{t.id, *t.verdict})
		if err != nil {
			return nil, fmt.Errorf("writing the verdict: %w", err)
		}
		all = append(all, text)
	}
	return all, nil
}

// ticketVerdict is the JSON of a verdict at the end of an episode.
type ticketVerdict struct {
	TicketID string `json:"ticket_id"`
	grader.Verdict
}

// averageParts returns the weighted means of the tickets' parts and, if actions take minutes, the
// timeliness.
func (s *state) averageParts(parts [][]score.Dimension) []score.Dimension {
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
			weight = queue.PriorityWeight(t.ticket.Gold.Priority)
		}
		weights += weight
		for k, part := range parts[i] {
			means[k].Earned += weight * part.Earned
		}
		late.Earned += weight * (s.replyFactor(t) - queue.TooLate)
	}
	if s.isTimed() {
		late.Name, late.Offered = dimensionTimeliness, queue.InTime-queue.TooLate
		means = append(means, late)
	}
	for k := range means {
		means[k].Earned = (2*means[k].Earned + weights) / (2 * weights)
	}
	return means
}
