package ticket

import (
	"context"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// What each part of a ticket offers, in milli-points.
const (
	categoryPoints   = 200
	priorityPoints   = 100
	escalationPoints = 200
	responsePoints   = 500
	// wrongTeamPoints are left of escalationPoints when a ticket rightly escalated went to a wrong team.
	wrongTeamPoints = 100
)

// fullCredit is an exact answer's credit, in thousandths.
const fullCredit = 1000

// rules grades category, priority and decision as they stand. A task offers only the parts that it asks for.
func (d *desk) rules() []score.Dimension {
	gold := &d.ticket.Gold
	parts := []score.Dimension{
		{Name: "category", Earned: categoryPoints * credit(d.category, gold.Category, gold.CategoryAlternates) / fullCredit, Offered: categoryPoints},
		{Name: "priority", Earned: priorityPoints * credit(d.priority, gold.Priority, gold.PriorityAlternates) / fullCredit, Offered: priorityPoints},
	}
	if d.task.decision {
		parts = append(parts, score.Dimension{Name: "escalation", Earned: d.decisionPoints(), Offered: escalationPoints}, score.Dimension{Name: "response", Offered: responsePoints})
	}
	return parts
}

// credit is the credit of an answer in thousandths.
func credit(answer, gold string, alternates []scenarios.Alternate) int64 {
	if answer == "" {
		return 0
	}
	if answer == gold {
		return fullCredit
	}
	for _, a := range alternates {
		if answer == a.Value {
			return a.Credit
		}
	}
	return 0
}

func (d *desk) decisionPoints() int64 {
	gold := &d.ticket.Gold
	decided := d.status == statusResolved || d.status == statusEscalated
	switch {
	case !decided || (d.status == statusEscalated) != gold.Escalate:
		return 0
	case d.team != "" && !isTeam(d.team, gold):
		return wrongTeamPoints
	default:
		return escalationPoints
	}
}

func isTeam(team string, gold *scenarios.TicketGold) bool {
	name := teamName(team)
	if name == teamName(gold.Team) {
		return true
	}
	for _, alternate := range gold.TeamAlternates {
		if name == teamName(alternate) {
			return true
		}
	}
	return false
}

// teamName reads "Trade-Compliance team" and "trade compliance" as the same team.
func teamName(team string) string {
	folded := strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToLower(team))
	words := strings.Fields(folded)
	if n := len(words); n > 1 && (words[n-1] == "team" || words[n-1] == "desk") {
		words = words[:n-1]
	}
	return strings.Join(words, " ")
}

// pay moves paid to what the parts have earned and returns the difference: the reward. Rewards of an episode so add up to its score however it is rounded.
func (d *desk) pay(parts []score.Dimension) int64 {
	if d.outcome == "" && d.mode == episode.Terminal {
		return 0
	}
	var earned, offered int64
	for _, p := range parts {
		earned, offered = earned+p.Earned, offered+p.Offered
	}
	total := (2*1000*earned + offered) / (2 * offered)
	reward := total - d.paid
	d.paid = total
	return reward
}

// grade ends the books of a step: the reward and, when the episode is over, its final figures. A reply that the judge can't grade makes the episode errored. The error
// returned is ctx's, when that ended before the judge did.
func (d *desk) grade(ctx context.Context, judge Judge) (int64, *episode.Final, error) {
	parts := d.rules()
	if d.outcome == "" {
		return d.pay(parts), nil, nil
	}
	final := &episode.Final{Task: d.task.name, Scenario: d.ticket.ScenarioID, Category: d.ticket.Gold.Category, Judge: d.task.judgeScale}
	if d.task.decision && len(d.replies) > 0 {
		points, err := judge.Judge(ctx, d.judged())
		if ctx.Err() != nil {
			return 0, nil, fmt.Errorf("judging the reply: %w", ctx.Err())
		}
		if err != nil {
			d.outcome = score.Errored
			d.feedback = "The episode could not be scored: the judge failed. Reset to play it again."
			final.Outcome = score.Errored
			return 0, final, nil
		}
		parts[len(parts)-1].Earned = points
	}
	reward := d.pay(parts)
	final.Outcome, final.Score, final.Dimensions = d.outcome, d.paid*score.One/1000, parts
	return reward, final, nil
}

func (d *desk) judged() Reply {
	return Reply{
		Ticket: d.ticket, Text: strings.Join(d.replies, "\n\n"), Escalated: d.status == statusEscalated, Resolved: d.status == statusResolved,
	}
}
