package ticket

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// noReply is the verdict on a ticket without a reply: nothing to judge, and nothing earned.
var noReply = grader.Verdict{Status: grader.StatusOK}

// offered is what a task offers in all, in milli-points.
func offered(task string) (int64, error) {
	parts, err := grader.GradeTicket(&scenarios.Ticket{}, task, grader.Decisions{}, noReply)
	if err != nil {
		return 0, fmt.Errorf("reading the rubric of %s: %w", task, err)
	}
	var total int64
	for _, p := range parts {
		total += p.Offered
	}
	return total, nil
}

func (d *desk) decisions() grader.Decisions {
	return grader.Decisions{Category: d.category, Priority: d.priority, Ending: d.ending(), Team: d.team}
}

func (d *desk) ending() grader.Ending {
	switch d.status {
	case statusResolved:
		return grader.Resolved
	case statusEscalated:
		return grader.Escalated
	default:
		return grader.Open
	}
}

// pay moves paid to what the parts have earned and returns the difference: the reward. Rewards of an episode so add up to its score however it is rounded.
func (d *desk) pay(parts []score.Dimension) int64 {
	var earned int64
	for _, p := range parts {
		earned += p.Earned
	}
	total := (2*1000*earned + d.task.offered) / (2 * d.task.offered)
	reward := total - d.paid
	d.paid = total
	return reward
}

// grade ends the books of a step: the reward and, when the episode is over, its final figures. The error returned is ctx's, when that ended before the judge did, an
// *episode.JudgeError, or says that the rubric is broken.
func (d *desk) grade(ctx context.Context, judge grader.Judge) (int64, *episode.Final, error) {
	if d.outcome != "" {
		return d.gradeEnd(ctx, judge)
	}
	if !d.dense() {
		return 0, nil, nil
	}
	labels, err := grader.GradeTicket(d.ticket, grader.TaskClassify, d.decisions(), noReply)
	if err != nil {
		return 0, nil, err
	}
	return d.pay(labels), nil, nil
}

// final begins the end of the episode.
func (d *desk) final() *episode.Final {
	return &episode.Final{Task: d.task.name, Scenario: d.ticket.ScenarioID, Category: d.ticket.Gold.Category, Outcome: d.outcome, Judge: d.task.scale}
}

// giveUp ends the episode without a score.
func (d *desk) giveUp(unjudged *episode.JudgeError) *episode.Final {
	d.outcome = score.Errored
	d.feedback = "The episode could not be scored: the judge failed. Reset to play it again."
	final := d.final()
	final.Cause = unjudged.Cause
	return final
}

// gradeEnd grades the whole episode.
func (d *desk) gradeEnd(ctx context.Context, judge grader.Judge) (int64, *episode.Final, error) {
	final := d.final()
	verdict, err := d.verdict(ctx, judge)
	if err != nil {
		return 0, nil, err
	}
	if final.Verdicts, err = d.served(verdict); err != nil {
		return 0, nil, err
	}
	parts, err := grader.GradeTicket(d.ticket, d.task.name, d.decisions(), verdict)
	if err != nil {
		return 0, nil, err
	}
	reward := d.pay(parts)
	final.Score, final.Dimensions = d.paid*score.One/1000, parts
	return reward, final, nil
}

// verdict is the judge's on the reply. A verdict that is no score is a failure to judge.
func (d *desk) verdict(ctx context.Context, judge grader.Judge) (grader.Verdict, error) {
	if !d.task.reply || len(d.replies) == 0 {
		return noReply, nil
	}
	verdict, err := judge.Judge(ctx, d.judged())
	switch {
	case ctx.Err() != nil:
		return verdict, fmt.Errorf("judging the reply: %w", ctx.Err())
	case err == nil && !verdict.Scored():
		err = fmt.Errorf("the verdict's status is %q", verdict.Status)
	}
	if err != nil {
		return verdict, &episode.JudgeError{Cause: string(cmp.Or(verdict.Cause, grader.CauseFailed)), Err: err}
	}
	return verdict, nil
}

// servedVerdict is a verdict as the end of an episode serves it.
type servedVerdict struct {
	TicketID string `json:"ticket_id"`
	grader.Verdict
}

// served is the verdict as JSON; there is none where nothing was judged.
func (d *desk) served(v grader.Verdict) ([]json.RawMessage, error) {
	if !d.task.reply || len(d.replies) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(servedVerdict{d.id, v})
	if err != nil {
		return nil, fmt.Errorf("writing the verdict: %w", err)
	}
	return []json.RawMessage{text}, nil
}

// judged is what the judge reads: everything that the agent wrote to the customer, in order, because what was once promised stays promised.
func (d *desk) judged() grader.Case {
	return grader.Case{
		Ticket: d.ticket, Reply: strings.Join(d.replies, "\n\n"), Actions: grader.Actions{Ending: d.ending(), Team: d.team},
	}
}
