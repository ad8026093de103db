// Package audit measures the scores of shortcuts on a catalogue: policies that understand nothing
// and use constants, keywords, the customer's tone or account level. A catalogue is useless if a
// shortcut scores near the pass line. Shortcuts are given knowledge that they would need, such as
// the right team, so every figure is an upper bound.
package audit

import (
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// Figures are the average earnings of a shortcut as shares of the maximum, in thousandths.
type Figures struct {
	Policy string
	// Category, Priority and Escalation are the shares of the three decisions.
	Category   int64
	Priority   int64
	Escalation int64
	// Classify is the score of ticket-classify.
	Classify int64
	// Rules is the share that the three decisions earn in ticket-resolve, of 1000 with the reply.
	Rules int64
}

// Reader returns the category that a ticket seems to belong to.
type Reader func(*scenarios.Ticket) string

// NewCueReader reads the cues of the files of a catalogue. Those of generated tickets are their
// keywords.
func NewCueReader(c *scenarios.Catalog) Reader {
	return func(t *scenarios.Ticket) string {
		s, ok := c.Ticket(t.ScenarioID)
		switch {
		case !ok:
			return ""
		case s.Generated():
			return scenarios.ReadKeywords(t)
		}
		return s.Cue
	}
}

// GradeShortcuts grades the shortcuts on all wordings of all tickets at the seeds, with the
// reader's category. Every ticket has the same weight.
func GradeShortcuts(c *scenarios.Catalog, read Reader, seeds ...int64) ([]Figures, error) {
	cases, err := instantiateTickets(c, read, seeds)
	if err != nil || len(cases) == 0 {
		return nil, err
	}
	var out []Figures
	for _, s := range listShortcuts() {
		f, err := s.figures(cases)
		if err != nil {
			return nil, fmt.Errorf("grading %q: %w", s.name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// instance is a ticket with its cue.
type instance struct {
	ticket *scenarios.Ticket
	cue    string
	weight float64 // gives all scenarios the same weight
}

func instantiateTickets(c *scenarios.Catalog, read Reader, seeds []int64) ([]instance, error) {
	var out []instance
	for _, s := range c.Tickets() {
		for _, seed := range seeds {
			tickets, err := s.Variants(seed)
			if err != nil {
				return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
			}
			for _, t := range tickets {
				out = append(out, instance{t, read(t), 1 / float64(len(tickets)*len(seeds)*len(c.Tickets()))})
			}
		}
	}
	return out, nil
}

// shortcut is a policy. Some shortcuts are first fitted to the answers of all cases.
type shortcut struct {
	name string
	// candidates are the deciders. Each figure is the best one's.
	candidates func(cases []instance) []decider
}

type decider func(instance) grader.Decisions

func (s shortcut) figures(cases []instance) (Figures, error) {
	best := Figures{Policy: s.name}
	for _, decide := range s.candidates(cases) {
		f, err := figuresOf(cases, decide)
		if err != nil {
			return best, err
		}
		best.Category, best.Priority = max(best.Category, f.Category), max(best.Priority, f.Priority)
		best.Escalation = max(best.Escalation, f.Escalation)
		best.Classify, best.Rules = max(best.Classify, f.Classify), max(best.Rules, f.Rules)
	}
	return best, nil
}

// figuresOf grades one decider, without a reply.
func figuresOf(cases []instance, decide decider) (Figures, error) {
	var classify, rules float64
	shares := map[string]float64{}
	for _, in := range cases {
		noReply := grader.Verdict{Status: grader.StatusOK}
		dims, err := grader.GradeTicket(&in.ticket.Served, tasks.TicketResolve, decide(in), noReply)
		if err != nil {
			return Figures{}, err
		}
		var offered, earned int64
		for _, d := range dims {
			shares[d.Name] += in.weight * float64(d.Earned) / float64(d.Offered)
			offered, earned = offered+d.Offered, earned+d.Earned
		}
		rules += in.weight * float64(earned) / float64(offered)
		dims, err = grader.GradeTicket(&in.ticket.Served, tasks.TicketClassify, decide(in), grader.Verdict{})
		if err != nil {
			return Figures{}, err
		}
		classify += in.weight * float64(grader.EpisodeScore(dims)) / 1e6
	}
	return Figures{
		Category:   toThousandths(shares[grader.DimensionCategory]),
		Priority:   toThousandths(shares[grader.DimensionPriority]),
		Escalation: toThousandths(shares[grader.DimensionEscalation]),
		Classify:   toThousandths(classify), Rules: toThousandths(rules),
	}, nil
}

func toThousandths(share float64) int64 { return int64(share*1000 + 0.5) }

// makeDecisions makes decisions. An escalation goes to the right team.
func makeDecisions(in instance, category, priority string, escalate bool) grader.Decisions {
	d := grader.Decisions{Category: category, Priority: priority, Ending: grader.Resolved}
	if escalate {
		d.Ending, d.Team = grader.Escalated, in.ticket.Gold.Team
	}
	return d
}

func fixedShortcut(name string, f decider) shortcut {
	return shortcut{name, func([]instance) []decider { return []decider{f} }}
}

func listShortcuts() []shortcut {
	byTone := map[string]string{"angry": "urgent", "worried": "high", "neutral": "medium", "calm": "low"}
	byLevel := map[string]string{"enterprise": "urgent", "premium": "medium", "basic": "low"}
	tone := func(in instance) string { return in.ticket.Tone }
	level := func(in instance) string { return in.ticket.Customer.AccountLevel }
	cue := func(in instance) string { return in.cue }
	return []shortcut{
		{"best constant answer", func([]instance) []decider { return constantDeciders() }},
		fixedShortcut("keyword category, always medium, resolve",
			func(in instance) grader.Decisions { return makeDecisions(in, in.cue, "medium", false) }),
		fixedShortcut("keyword + tone -> priority, escalate if angry", func(in instance) grader.Decisions {
			return makeDecisions(in, in.cue, byTone[tone(in)], tone(in) == "angry")
		}),
		fixedShortcut("keyword + level -> priority, escalate enterprise", func(in instance) grader.Decisions {
			return makeDecisions(in, in.cue, byLevel[level(in)], level(in) == "enterprise")
		}),
		{"best map fitted on level", func(cases []instance) []decider { return fitDeciders(cases, level) }},
		{"best map fitted on tone", func(cases []instance) []decider { return fitDeciders(cases, tone) }},
		{"best map fitted on cue", func(cases []instance) []decider { return fitDeciders(cases, cue) }},
		fixedShortcut("true priority, keyword category, escalate iff high/urgent", func(in instance) grader.Decisions {
			p := in.ticket.Gold.Priority
			return makeDecisions(in, in.cue, p, p == "high" || p == "urgent")
		}),
		fixedShortcut("oracle", func(in instance) grader.Decisions {
			g := in.ticket.Gold
			return makeDecisions(in, g.Category, g.Priority, g.Escalate)
		}),
	}
}

func constantDeciders() []decider {
	out := make([]decider, 0, 32)
	for _, c := range scenarios.Categories {
		for _, p := range scenarios.Priorities {
			for _, escalate := range []bool{false, true} {
				out = append(out, func(in instance) grader.Decisions { return makeDecisions(in, c, p, escalate) })
			}
		}
	}
	return out
}

// fitDeciders returns the best map from a feature to the three decisions, fitted to the cases that
// it is graded on.
func fitDeciders(cases []instance, feature func(instance) string) []decider {
	type answer struct {
		category, priority string
		escalate           bool
	}
	answers := map[string]answer{}
	for _, in := range cases {
		answers[feature(in)] = answer{}
	}
	for value := range answers {
		of := slices.DeleteFunc(slices.Clone(cases), func(in instance) bool { return feature(in) != value })
		answers[value] = answer{
			category: bestOf(scenarios.Categories, of, func(g scenarios.TicketGold) string { return g.Category }),
			priority: bestOf(scenarios.Priorities, of, func(g scenarios.TicketGold) string { return g.Priority }),
			escalate: bestOf([]bool{false, true}, of, func(g scenarios.TicketGold) bool { return g.Escalate }),
		}
	}
	return []decider{func(in instance) grader.Decisions {
		a := answers[feature(in)]
		return makeDecisions(in, a.category, a.priority, a.escalate)
	}}
}

// bestOf returns the first of the values that is right for cases with the largest total weight.
func bestOf[T comparable](values []T, cases []instance, gold func(scenarios.TicketGold) T) T {
	weights := map[T]float64{}
	for _, in := range cases {
		weights[gold(in.ticket.Gold)] += in.weight
	}
	return slices.MaxFunc(values, func(a, b T) int {
		switch x, y := weights[a], weights[b]; {
		case x > y+1e-9:
			return 1
		case y > x+1e-9:
			return -1
		}
		return 0
	})
}
