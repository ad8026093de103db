package ticket

import (
	"context"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// Prove checks that the gold of a ticket earns 1 in both tasks of one ticket, and that an
// episode without any decision earns 0. It returns the number of graded episodes and what is wrong.
func Prove(ctx context.Context, t *scenarios.Ticket, judge grader.Judge) (tried int, faults []string, err error) {
	gold := grader.Decisions{Category: t.Gold.Category, Priority: t.Gold.Priority, Ending: grader.Resolved}
	if t.Gold.Escalate {
		gold.Ending, gold.Team = grader.Escalated, t.Gold.Team
	}
	for _, reply := range t.References.Good {
		v, err := judge.Judge(ctx, grader.Case{Ticket: t, Reply: reply, Stated: facts.Stated(t.Required()),
			Actions: grader.Actions{Ending: gold.Ending, Team: gold.Team}})
		if err != nil {
			return 0, nil, fmt.Errorf("judging the reply to %s: %w", t.ScenarioID, err)
		}
		if v.PostGate != grader.ResponsePoints {
			faults = append(faults, fmt.Sprintf("the right reply earns %d of %d: %s", v.PostGate,
				grader.ResponsePoints, strings.Join(listLosses(v), "; ")))
		}
	}
	for _, task := range []string{tasks.TicketClassify, tasks.TicketResolve} {
		for _, try := range []struct {
			what    string
			d       grader.Decisions
			points  int64
			awarded int64
		}{
			{"the gold", gold, grader.ResponsePoints, score.One},
			{"an episode without a decision", grader.Decisions{}, 0, 0},
		} {
			dims, err := grader.GradeTicket(&t.Served, task, try.d, grader.Verdict{Status: grader.StatusOK,
				PostGate: try.points})
			if err != nil {
				return 0, nil, err
			}
			tried++
			if got := grader.EpisodeScore(dims); got != try.awarded {
				faults = append(faults, fmt.Sprintf("%s earns %d of %d in %s", try.what, got, int64(score.One), task))
			}
		}
	}
	return tried, faults, nil
}

// listLosses lists the criteria that didn't earn all of their points, and the gates.
func listLosses(v grader.Verdict) []string {
	var out []string
	for _, c := range v.Criteria {
		if c.Earned < c.Offered {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %d of %d %s", c.ID, c.Earned, c.Offered, c.Reason)))
		}
	}
	for _, g := range v.Gates {
		out = append(out, g.ID+" "+g.Reason)
	}
	return out
}
