// Package grader turns the end of an episode into points.
//
// The agent's decisions (category, priority, escalation) are compared with the scenario's gold. The
// reply is graded by a [Judge], whose [Verdict] lists every criterion and every gate, so that a
// score can be explained and a rubric re-weighted later.
//
// Points are milli-points (thousandths of a ticket's full score); an episode's score is the ratio
// of the points earned to those its task offers, in micro-points.
package grader

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// GraderVersion must change if the same episode can get another score. Scores of different versions
// are not comparable, and a runner refuses a server whose version differs from its plan's.
const GraderVersion = "v8"

// The dimensions of a ticket, in the order in which they are reported.
const (
	DimensionCategory   = "category"
	DimensionPriority   = "priority"
	DimensionEscalation = "escalation"
	DimensionResponse   = "response"
)

// The maximum of each dimension, in milli-points.
const (
	categoryPoints   = 200
	priorityPoints   = 100
	escalationPoints = 200
	wrongTeamPoints  = 100
	ResponsePoints   = 500
)

// ErrUnjudged means that a task requires a reply and its verdict isn't a score. The episode is
// errored: it has no points, which is not the same as zero points.
var ErrUnjudged = errors.New("the reply has no verdict: judge it again, don't score the episode")

// Ending is how an agent ended a ticket.
type Ending string

const (
	// Open tickets were not ended by a decision.
	Open Ending = ""
	// Resolved tickets were closed by the agent.
	Resolved Ending = "resolve"
	// Escalated tickets were passed to a team.
	Escalated Ending = "escalate"
)

// Decisions are an agent's final decisions on a ticket. Missing decisions are zero.
type Decisions struct {
	Category string
	Priority string
	Ending   Ending
	// Team is the team of an escalated ticket, or "" if the agent named none.
	Team string
}

// GradeTicket grades an ended ticket in the dimensions that the task offers. It returns ErrUnjudged
// if the task asks for a reply and the verdict isn't a score, and an error for an unknown task.
func GradeTicket(t *scenarios.Served, task string, d Decisions, v Verdict) ([]score.Dimension, error) {
	dims := []score.Dimension{
		{Name: DimensionCategory, Offered: categoryPoints,
			Earned: choicePoints(categoryPoints, d.Category, t.Gold.Category, t.Gold.CategoryAlternates)},
		{Name: DimensionPriority, Offered: priorityPoints,
			Earned: choicePoints(priorityPoints, d.Priority, t.Gold.Priority, t.Gold.PriorityAlternates)},
	}
	switch task {
	case tasks.TicketClassify:
		return dims, nil
	case tasks.TicketResolve:
		if !v.Scored() {
			return nil, fmt.Errorf("grading %s: %w", t.ScenarioID, ErrUnjudged)
		}
		return append(dims,
			score.Dimension{Name: DimensionEscalation, Earned: gradeEscalation(t.Gold, d), Offered: escalationPoints},
			score.Dimension{Name: DimensionResponse, Earned: min(max(v.PostGate, 0), ResponsePoints),
				Offered: ResponsePoints},
		), nil
	}
	return nil, fmt.Errorf("grading %s: no rules for task %q", t.ScenarioID, task)
}

// choicePoints gives all points for the gold value and an alternate's credit, in thousandths. Near
// misses earn nothing, so that always answering "medium" doesn't pay.
func choicePoints(offered int64, got, gold string, alternates []scenarios.Alternate) int64 {
	if got == "" {
		return 0
	}
	if got == gold {
		return offered
	}
	for _, a := range alternates {
		if got == a.Value {
			return offered * min(max(a.Credit, 0), 1000) / 1000
		}
	}
	return 0
}

// gradeEscalation gives all points for the right decision, and half of them if the ticket had to be
// escalated but went to the wrong team or to none.
func gradeEscalation(gold scenarios.TicketGold, d Decisions) int64 {
	switch {
	case d.Ending == Open, (d.Ending == Escalated) != gold.Escalate:
		return 0
	case !gold.Escalate, rightTeam(gold, d.Team):
		return escalationPoints
	}
	return wrongTeamPoints
}

// IsRightDecision reports whether a ticket was resolved or escalated to the team as it should be.
func IsRightDecision(gold scenarios.TicketGold, d Decisions) bool {
	return gradeEscalation(gold, d) == escalationPoints
}

func rightTeam(gold scenarios.TicketGold, team string) bool {
	return team == gold.Team || slices.Contains(gold.TeamAlternates, team) ||
		gold.Team != "" && facts.TeamOf(team) == gold.Team
}

// EpisodeScore returns earned points divided by offered points, in micro-points, rounded half away
// from zero and clamped to [0, score.One]. Without offered points it is 0.
func EpisodeScore(dims []score.Dimension) int64 {
	var earned, offered int64
	for _, d := range dims {
		earned += d.Earned
		offered += d.Offered
	}
	if earned <= 0 || offered <= 0 {
		return 0
	}
	return min((2*earned*score.One+offered)/(2*offered), score.One)
}
