package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

// AttackRow is the result of one way to get points without an answer to the ticket, on average, in
// thousandths of the score of an episode.
type AttackRow struct {
	Attack   string
	Episodes int
	// Reply is the points of the reply, at most 500. It is nil for workflows, whose reply has no
	// points of its own.
	Reply *int64
	// Episode is the score of the whole episode.
	Episode int64
	// Passed is the share of passed episodes.
	Passed int64
	// Limit is nil if the catalogue isn't the complete public pack: the means of others can differ.
	Limit *Limit
}

// Limit is the limit of one of an attack's figures.
type Limit struct {
	// Figure is lowest reply, reply, episode, highest episode or passed.
	Figure string
	Value  int64
	Bound  int64
	// Least is true if the bound is a minimum.
	Least bool
}

// Kept reports whether the figure is within the bound.
func (l Limit) Kept() bool { return l.Value == l.Bound || l.Least == (l.Value > l.Bound) }

// The figures that can have a limit.
const (
	lowestReply    = "lowest reply"
	meanReply      = "reply"
	wholeEpisode   = "episode"
	highestEpisode = "highest episode"
	passedShare    = "passed"
)

// Judge grades the replies to tickets, and reads those to workflows.
type Judge interface {
	grader.Judge
	workflow.Reader
}

// attempt is what an attack sends: the decisions and the reply.
type attempt struct {
	grader.Decisions
	reply  string
	stated []facts.Fact
}

// attack is a way to play tickets.
type attack struct {
	name  string
	limit Limit
	// attempts returns the episodes to play with a ticket.
	attempts func(*target) []attempt
}

// target is an attacked ticket with what the attacker knows.
type target struct {
	ticket *scenarios.Ticket
	// known are instances of the same scenario at other seeds.
	known []*scenarios.Ticket
}

func listAttacks() []attack {
	return []attack{
		{"gold (control)", Limit{Figure: lowestReply, Bound: 500, Least: true}, goldReplies},
		{"right prose without facts", Limit{Figure: meanReply, Bound: 0}, proseAlone},
		{"right facts without their values", Limit{Figure: meanReply, Bound: 50}, factsAlone},
		{"enumeration of values", Limit{Figure: meanReply, Bound: 150}, enumerateValues},
		{"every team", Limit{Figure: meanReply, Bound: 25}, sprayTeams},
		{"ids and sums of the ticket", Limit{Figure: meanReply, Bound: 25}, sprayTicket},
		{"always explained", Limit{Figure: meanReply, Bound: 25}, alwaysExplained},
		{"always finance", Limit{Figure: meanReply, Bound: 25}, alwaysFinance},
		{"the decision and nothing else", Limit{Figure: meanReply, Bound: 60}, decisionAlone},
	}
}

// The seeds of the attacked instances, and the number of instances that the attacker knows.
const (
	attackedSeeds = 2
	knownSeeds    = 8
)

// PlayAttacks plays the attacks on every ticket and every workflow of the catalogue, and on
// generated cases.
func PlayAttacks(ctx context.Context, c *scenarios.Catalog, judge Judge) ([]AttackRow, error) {
	targets, err := targetsOf(c)
	if err != nil {
		return nil, err
	}
	var rows []AttackRow
	for _, a := range listAttacks() {
		var t ticketTally
		for _, to := range targets {
			for _, try := range a.attempts(to) {
				if err := t.play(ctx, judge, to.ticket, try); err != nil {
					return nil, fmt.Errorf("playing %q: %w", a.name, err)
				}
			}
		}
		if t.episodes > 0 {
			rows = append(rows, t.row(a))
		}
	}
	dumps, err := playDump(c, judge)
	if err != nil {
		return nil, err
	}
	cases, err := playCases(c, judge)
	if err != nil {
		return nil, err
	}
	rows = append(append(rows, dumps...), cases...)
	if n := len(c.Tickets()); n < publicTickets || len(c.Only(isPublic).Tickets()) < n {
		for i := range rows {
			rows[i].Limit = nil
		}
	}
	return rows, nil
}

// AttackFindings lists the attacks that exceed their limits.
func AttackFindings(c *scenarios.Catalog, rows []AttackRow) []scenarios.Finding {
	var findings []scenarios.Finding
	for _, r := range rows {
		if r.Limit == nil || r.Limit.Kept() {
			continue
		}
		bound := "at most"
		if r.Limit.Least {
			bound = "at least"
		}
		findings = append(findings, scenarios.Finding{
			Position: c.Packs()[0].Folder, Rule: ruleAttack,
			Message: fmt.Sprintf("%s: the %s earns %d of 1000, want %s %d", r.Attack, r.Limit.Figure, r.Limit.Value,
				bound, r.Limit.Bound),
		})
	}
	return findings
}

// targetsOf draws the attacked instances and what the attacker knows about them.
func targetsOf(c *scenarios.Catalog) ([]*target, error) {
	var targets []*target
	for _, s := range c.Tickets() {
		var known []*scenarios.Ticket
		for seed := range int64(attackedSeeds + knownSeeds) {
			t, err := s.Instantiate(seed)
			if err != nil {
				return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
			}
			if seed >= attackedSeeds {
				known = append(known, t)
				continue
			}
			targets = append(targets, &target{ticket: t})
		}
		for _, t := range targets[len(targets)-attackedSeeds:] {
			t.known = known
		}
	}
	return targets, nil
}

func goldDecisions(t *scenarios.Ticket) grader.Decisions {
	return makeDecisions(instance{ticket: t}, t.Gold.Category, t.Gold.Priority, t.Gold.Escalate)
}

func greetingOf(t *scenarios.Ticket) string {
	given, _, _ := strings.Cut(t.Customer.Name, " ")
	return "Hello " + given + ", thank you for your message."
}

// ticketTally sums up episodes with tickets. Points are milli-points, scores micro-points.
type ticketTally struct {
	episodes, passed      int
	lowest, points, total int64
}

func (t *ticketTally) play(ctx context.Context, judge grader.Judge, ticket *scenarios.Ticket, try attempt) error {
	v, err := judge.Judge(ctx, grader.Case{Ticket: ticket, Reply: try.reply, Stated: try.stated,
		Actions: grader.Actions{Ending: try.Ending, Team: try.Team}})
	if err != nil {
		return fmt.Errorf("judging a reply to %s: %w", ticket.ScenarioID, err)
	}
	dims, err := grader.GradeTicket(&ticket.Served, tasks.TicketResolve, try.Decisions, v)
	if err != nil {
		return err
	}
	if t.episodes == 0 || v.PostGate < t.lowest {
		t.lowest = v.PostGate
	}
	earned := grader.EpisodeScore(dims)
	t.episodes++
	t.points += v.PostGate
	t.total += earned
	if earned >= passMark {
		t.passed++
	}
	return nil
}

// row returns the figures of at least one episode.
func (t *ticketTally) row(a attack) AttackRow {
	n := float64(t.episodes)
	reply := toThousandths(float64(t.points) / n / 1000)
	r := AttackRow{Attack: a.name, Episodes: t.episodes, Reply: &reply,
		Episode: toThousandths(float64(t.total) / n / score.One), Passed: toThousandths(float64(t.passed) / n),
		Limit: &a.limit}
	switch a.limit.Figure {
	case lowestReply:
		r.Limit.Value = t.lowest
	case meanReply:
		r.Limit.Value = reply
	case passedShare:
		r.Limit.Value = r.Passed
	default:
		r.Limit.Value = r.Episode
	}
	return r
}
