package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// AttackRow is the result of one way to get points without an answer.
type AttackRow struct {
	Attack   string
	Episodes int
	// Figures are in thousandths, by name. Workflows have none of replies, which have no points of
	// their own there.
	Figures map[string]int64
	// Limits are empty if the catalogue isn't the complete public pack: others' means can differ.
	Limits []Limit
}

// Limit is the limit of one of an attack's figures.
type Limit struct {
	Figure string
	Bound  int64
	// Least is true if the bound is a minimum.
	Least bool
}

// Kept reports whether a value is within the bound.
func (l Limit) Kept(value int64) bool { return value == l.Bound || l.Least == (value > l.Bound) }

// The figures of attacks: a reply has at most 500 points, an episode 1000.
const (
	LowestReply    = "lowest reply"
	MeanReply      = "reply"
	MeanEpisode    = "episode"
	HighestEpisode = "highest episode"
	PassedShare    = "passed"
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

// attack is a way to play tickets, written workflows or held-out cases.
type attack struct {
	name   string
	limits []Limit
	// tickets returns the episodes to play with a ticket.
	tickets func(*target) []attempt
	// workflows and cases are ways to play them.
	workflows, cases *way
}

// target is an attacked ticket with what the attacker knows.
type target struct {
	ticket *scenarios.Ticket
	// known are instances of the same scenario at other seeds.
	known []*scenarios.Ticket
}

func atMost(figure string, bound int64) []Limit { return []Limit{{Figure: figure, Bound: bound}} }

func listAttacks() []attack {
	rows := []attack{
		{name: "gold (control)", limits: []Limit{{LowestReply, 500, true}}, tickets: goldReplies},
		{name: "right prose without facts", limits: atMost(MeanReply, 0), tickets: proseAlone},
		{name: "right facts without their values", limits: atMost(MeanReply, 50), tickets: factsAlone},
		{name: "enumeration of values", limits: atMost(MeanReply, 150), tickets: enumerateValues},
		{name: "every team", limits: atMost(MeanReply, 25), tickets: sprayTeams},
		{name: "ids and sums of the ticket", limits: atMost(MeanReply, 25), tickets: sprayTicket},
		{name: "always explained", limits: atMost(MeanReply, 25), tickets: alwaysExplained},
		{name: "always finance", limits: atMost(MeanReply, 25), tickets: alwaysFinance},
		{name: "the decision and nothing else", limits: atMost(MeanReply, 60), tickets: decisionAlone},
		// Little more than what the right actions earn with a reply without facts.
		{name: "workflow dump", limits: atMost(MeanEpisode, 300), workflows: &way{playDump, copyFields}},
		{name: "case, nearest neighbour", limits: atMost(MeanEpisode, 50), cases: &way{replayNeighbour, nil}},
		{name: "case, look-ups and a refusal", limits: atMost(HighestEpisode, 40), cases: &way{lookUps, writeRefusal}},
		// Little more than the share of cases in which the hand-over is right.
		{name: "case, look-ups and a hand-over", limits: atMost(MeanEpisode, 150), cases: &way{handOver, promiseTeam}},
		{name: "case, look-ups and every team", limits: atMost(HighestEpisode, 20),
			cases: &way{tryTeams, writeRefusal}},
		{name: "case, records under their names", limits: atMost(MeanEpisode, 50), cases: &way{lookUps, stateRecords}},
	}
	return append(rows, listSequences()...)
}

// The seeds of the attacked instances, and the number of instances that the attacker knows.
const (
	attackedSeeds = 2
	knownSeeds    = 8
)

// PlayAttacks plays the attacks on every ticket and every workflow of the catalogue, and on
// generated cases.
func PlayAttacks(ctx context.Context, c *scenarios.Catalog, judge Judge) ([]AttackRow, error) {
	tickets, err := targetsOf(c)
	if err != nil {
		return nil, err
	}
	players, err := newPlayers(c, judge)
	if err != nil {
		return nil, err
	}
	public := len(c.Only(isPublic).Tickets()) >= publicTickets
	var rows []AttackRow
	for _, a := range listAttacks() {
		t, err := a.play(ctx, judge, tickets, players)
		if err != nil {
			return nil, fmt.Errorf("playing %q: %w", a.name, err)
		}
		if t.episodes == 0 {
			continue
		}
		row := AttackRow{Attack: a.name, Episodes: t.episodes, Figures: t.figures(a.tickets != nil)}
		if public {
			row.Limits = a.limits
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (a attack) play(ctx context.Context, judge Judge, tickets []*target, players *players) (t tally, err error) {
	switch {
	case a.tickets != nil:
		for _, to := range tickets {
			for _, try := range a.tickets(to) {
				if err := t.playTicket(ctx, judge, to.ticket, try); err != nil {
					return t, err
				}
			}
		}
		return t, nil
	case a.workflows != nil:
		return t, players.play(ctx, &t, players.written, a.workflows)
	}
	return t, players.play(ctx, &t, players.heldOut, a.cases)
}

// AttackFindings lists the attacks that exceed their limits.
func AttackFindings(c *scenarios.Catalog, rows []AttackRow) []scenarios.Finding {
	var findings []scenarios.Finding
	for _, r := range rows {
		for _, l := range r.Limits {
			if l.Kept(r.Figures[l.Figure]) {
				continue
			}
			bound := "at most"
			if l.Least {
				bound = "at least"
			}
			findings = append(findings, scenarios.Finding{
				Position: c.Packs()[0].Folder, Rule: ruleAttack,
				Message: fmt.Sprintf("%s: the %s earns %d of 1000, want %s %d", r.Attack, l.Figure,
					r.Figures[l.Figure], bound, l.Bound),
			})
		}
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

// tally sums up episodes. Points of replies are milli-points, scores micro-points.
type tally struct {
	episodes, passed               int
	lowest, points, total, highest int64
}

func (t *tally) add(reply, earned int64, passed bool) {
	if t.episodes == 0 || reply < t.lowest {
		t.lowest = reply
	}
	t.episodes++
	t.points += reply
	t.total += earned
	t.highest = max(t.highest, earned)
	if passed {
		t.passed++
	}
}

// figures returns the figures of at least one episode, in thousandths.
func (t *tally) figures(replies bool) map[string]int64 {
	n := float64(t.episodes)
	figures := map[string]int64{MeanEpisode: toThousandths(float64(t.total) / n / score.One),
		HighestEpisode: toThousandths(float64(t.highest) / score.One),
		PassedShare:    toThousandths(float64(t.passed) / n)}
	if replies {
		figures[LowestReply], figures[MeanReply] = t.lowest, toThousandths(float64(t.points)/n/1000)
	}
	return figures
}

func (t *tally) playTicket(ctx context.Context, judge grader.Judge, ticket *scenarios.Ticket, try attempt) error {
	v, err := judge.Judge(ctx, grader.Case{Ticket: ticket, Reply: try.reply, Stated: try.stated,
		Actions: grader.Actions{Ending: try.Ending, Team: try.Team}})
	if err != nil {
		return fmt.Errorf("judging a reply to %s: %w", ticket.ScenarioID, err)
	}
	dims, err := grader.GradeTicket(&ticket.Served, tasks.TicketResolve, try.Decisions, v)
	if err != nil {
		return err
	}
	earned := grader.EpisodeScore(dims)
	t.add(v.PostGate, earned, earned >= passMark)
	return nil
}
