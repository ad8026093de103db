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

// fullWorth is the worth that earns the full score: in a queue that of the best schedule, otherwise
// all that the task offers.
func (d *desk) fullWorth(pars *queue.Pars) int64 {
	if !d.task.queue {
		return d.task.offered * queue.InTime
	}
	var cases [queue.Size]queue.Case
	for i := range cases {
		cases[i] = queue.CaseOf(d.matters[i].ticket)
	}
	return pars.Of(cases)
}

// worth is what a ticket adds to the episode: its milli-points times the factor of its first reply
// and, in a queue, its weight.
func (d *desk) worth(m *matter, points int64) int64 {
	if d.task.queue {
		return queue.Worth(m.ticket.Gold.Priority, points, m.answered)
	}
	return points * d.factor(m)
}

func (d *desk) factor(m *matter) int64 {
	if !d.timed() {
		return queue.InTime
	}
	return queue.Factor(m.ticket.Gold.Priority, m.answered)
}

// pay moves paid to what the tickets' worth is of the full one, in milli-points, and returns the
// difference: the reward. Rewards of an episode so add up to its score however it is rounded. The
// full worth of a queue is that of the best of the documented schedules. Another one, with the
// replies before the labels say, can be worth more, and more isn't paid.
func (d *desk) pay(worth int64) int64 {
	due := min((2*1000*worth+d.par)/(2*d.par), 1000)
	reward := due - d.paid
	d.paid = due
	return reward
}

// grade ends the books of a step: the reward and, when the episode is over, its final figures. The
// error returned is ctx's, when that ended before the judge did, an *episode.JudgeError, or says
// that the rubric is broken.
func (d *desk) grade(ctx context.Context, judge grader.Judge) (int64, *episode.Final, error) {
	if err := d.judge(ctx, judge); err != nil {
		return 0, nil, err
	}
	if d.outcome == "" && !d.dense() {
		return 0, nil, nil
	}
	parts := make([][]score.Dimension, len(d.matters))
	var worth int64
	for i := range d.matters {
		m := &d.matters[i]
		var err error
		if parts[i], err = d.parts(m); err != nil {
			return 0, nil, err
		}
		if !d.withheld(m) {
			worth += d.worth(m, earned(parts[i]))
		}
	}
	reward := d.pay(worth)
	if d.outcome == "" {
		return reward, nil, nil
	}
	final, err := d.scored(parts)
	return reward, final, err
}

// withheld reports whether a ticket's rewards wait. Where minutes count they are the points times
// what the true priority makes of them, so that they tell it: nothing is paid until both labels
// stand, which with dense rewards can't be revised, or nothing more will be done.
func (d *desk) withheld(m *matter) bool {
	return d.timed() && !d.over(m) && (m.category == "" || m.priority == "")
}

// over reports whether a ticket is graded as a whole: nothing more will be done about it.
func (d *desk) over(m *matter) bool { return d.outcome != "" || !m.open() }

// parts grades a ticket: its labels alone while it is open, for only the end shows which actions a
// reply may speak of.
func (d *desk) parts(m *matter) ([]score.Dimension, error) {
	rubric, verdict := grader.TaskClassify, noReply
	if d.over(m) {
		rubric = d.task.rubric
	}
	if m.verdict != nil {
		verdict = *m.verdict
	}
	return grader.GradeTicket(m.ticket, rubric, m.decisions(), verdict)
}

// judge has the replies of every ticket judged that is over and hasn't been. A verdict that is no
// score is a failure to judge.
func (d *desk) judge(ctx context.Context, judge grader.Judge) error {
	for i := range d.matters {
		m := &d.matters[i]
		if !d.task.reply || !d.over(m) || len(m.replies) == 0 || m.verdict != nil {
			continue
		}
		judged := m.judged()
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
		m.verdict = &verdict
	}
	return nil
}

// judged is what the judge reads: everything that the agent wrote to the customer, in order,
// because what was once promised stays promised.
func (m *matter) judged() grader.Case {
	return grader.Case{Ticket: m.ticket, Reply: m.written(), Actions: grader.Actions{Ending: m.ending(), Team: m.team}}
}

func (m *matter) written() string { return strings.Join(m.replies, "\n\n") }

// verdicts is the number of tickets that the judge has read.
func (d *desk) verdicts() int {
	count := 0
	for i := range d.matters {
		if d.matters[i].verdict != nil {
			count++
		}
	}
	return count
}

// final begins the end of the episode.
func (d *desk) final() *episode.Final {
	return &episode.Final{Task: d.task.name, Scenario: d.scenario, Category: d.category, Outcome: d.outcome,
		Judge: d.task.scale}
}

// giveUp ends the episode without a score.
func (d *desk) giveUp(unjudged *episode.JudgeError) *episode.Final {
	d.outcome = score.Errored
	d.feedback = "The episode could not be scored: the judge failed. Reset to play it again."
	final := d.final()
	final.Cause = unjudged.Cause
	return final
}

// scored is the end of an episode whose tickets earned the parts.
func (d *desk) scored(parts [][]score.Dimension) (*episode.Final, error) {
	final := d.final()
	final.Score = d.paid * score.One / 1000
	final.Dimensions = d.dimensions(parts)
	for i := range d.matters {
		verdict, err := d.matters[i].served()
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
func (d *desk) dimensions(parts [][]score.Dimension) []score.Dimension {
	means := slices.Clone(parts[0])
	for k := range means {
		means[k].Earned = 0
	}
	var late score.Dimension
	var weights int64
	for i := range d.matters {
		m := &d.matters[i]
		weight := int64(1)
		if d.task.queue {
			weight = queue.Weight(m.ticket.Gold.Priority)
		}
		weights += weight
		for k, part := range parts[i] {
			means[k].Earned += weight * part.Earned
		}
		late.Earned += weight * (d.factor(m) - queue.TooLate)
	}
	if d.timed() {
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
func (m *matter) served() (json.RawMessage, error) {
	if m.verdict == nil {
		return nil, nil
	}
	text, err := json.Marshal(servedVerdict{m.id, *m.verdict})
	if err != nil {
		return nil, fmt.Errorf("writing the verdict: %w", err)
	}
	return text, nil
}
