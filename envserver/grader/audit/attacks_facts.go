package audit

import (
	"regexp"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// letterOf is a message that has every value of the facts.
func letterOf(t *scenarios.Ticket, stated []facts.Fact) string {
	var message strings.Builder
	message.WriteString(greetingOf(t))
	for _, f := range stated {
		message.WriteString(" " + f.Value + ".")
	}
	return message.String()
}

// goldReplies are the good references with the right decisions and facts.
func goldReplies(to *target) []attempt {
	out := make([]attempt, 0, len(to.ticket.References.Good))
	for _, reply := range to.ticket.References.Good {
		out = append(out, attempt{goldDecisions(to.ticket), reply, facts.Stated(to.ticket.Required())})
	}
	return out
}

// proseAlone are the good references without facts.
func proseAlone(to *target) []attempt {
	all := goldReplies(to)
	for i := range all {
		all[i].stated = nil
	}
	return all
}

// factsAlone states the right facts beside a message that has none of their values.
func factsAlone(to *target) []attempt {
	return []attempt{{goldDecisions(to.ticket), greetingOf(to.ticket), facts.Stated(to.ticket.Required())}}
}

// enumerateValues states the right facts, each followed by its values at other seeds: "2 or 3 or 4
// business days".
func enumerateValues(to *target) []attempt {
	stated := facts.Stated(to.ticket.Required())
	for i, f := range stated {
		values := []string{f.Value}
		for _, other := range to.known {
			for _, g := range facts.Stated(other.Required()) {
				if g.What == f.What && !slices.Contains(values, g.Value) && len(values) <= maxAlternatives {
					values = append(values, g.Value)
				}
			}
		}
		stated[i].Value = strings.Join(values, " or ")
	}
	return []attempt{{goldDecisions(to.ticket), letterOf(to.ticket, stated), stated}}
}

// maxAlternatives is the number of alternatives to a value in an enumeration.
const maxAlternatives = 3

// sprayTeams decides rightly, and states as many teams as fit, with the most frequent time.
func sprayTeams(to *target) []attempt {
	team, _ := facts.Find("team")
	stated := []facts.Fact{{What: "answer_by", Value: "2 business days"}}
	for _, v := range team.Values[:facts.MaxStated-1] {
		stated = append(stated, facts.Fact{What: "team", Value: v})
	}
	return []attempt{{goldDecisions(to.ticket), letterOf(to.ticket, stated), stated}}
}

// namedValue matches an amount, or an id with a digit.
var namedValue = regexp.MustCompile(`\$[0-9][0-9,.]*[0-9]|\b[A-Z]{2,}-?[0-9]{3,}\b`)

// sprayTicket decides rightly, and states the amounts and ids of the ticket.
func sprayTicket(to *target) []attempt {
	var stated []facts.Fact
	for _, v := range namedValue.FindAllString(strings.Join(to.ticket.ServedTexts(), " "), facts.MaxStated) {
		what := "reference"
		if strings.HasPrefix(v, "$") {
			what = "charged_amount"
		}
		stated = append(stated, facts.Fact{What: what, Value: v})
	}
	return []attempt{{goldDecisions(to.ticket), letterOf(to.ticket, stated), stated}}
}

// alwaysExplained resolves every ticket and says that it explained something.
func alwaysExplained(to *target) []attempt {
	stated := []facts.Fact{{What: "next_step", Value: "explained"}}
	return []attempt{{grader.Decisions{Ending: grader.Resolved}, letterOf(to.ticket, stated), stated}}
}

// alwaysFinance hands every ticket over to finance with its usual time.
func alwaysFinance(to *target) []attempt {
	stated := []facts.Fact{{What: "team", Value: "finance"}, {What: "answer_by", Value: "2 business days"}}
	return []attempt{{grader.Decisions{Ending: grader.Escalated, Team: "finance"}, letterOf(to.ticket, stated), stated}}
}

// decisionAlone decides rightly and states only what was decided.
func decisionAlone(to *target) []attempt {
	gold := goldDecisions(to.ticket)
	stated := []facts.Fact{{What: "team", Value: gold.Team}}
	if gold.Ending == grader.Resolved {
		stated = facts.Stated(slices.DeleteFunc(to.ticket.Required(),
			func(w facts.Wanted) bool { return w.What != "next_step" }))
	}
	return []attempt{{gold, letterOf(to.ticket, stated), stated}}
}
