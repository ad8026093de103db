package transcript

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

// Review is what the agent gave beside the gold, for a ticket or a workflow. Without the gold it is
// a recorded verdict.
type Review struct {
	Heading string
	// TicketID is the ticket's id in observations, "" for a workflow.
	TicketID string
	Rows     []Row
	// Invented are values of the reply without support in any text.
	Invented []string
	// Harm are a model's answers to the claims about harm.
	Harm []grader.Evidence
	// Good is a good reply, "" if there is none.
	Good string
	// Earned are the milli-points of the reply. It is set only for a recorded verdict.
	Earned int64
	// Other is a recorded verdict of an unknown form, decoded, otherwise nil.
	Other any
}

// Row is a criterion.
type Row struct {
	// Part means that the row belongs to the one above that isn't a part.
	Part                   bool
	Criterion, Given, Gold string
	// Points is nil for a row without points of its own.
	Points *Points
	Why    string
	// Evidence is the judge's answer to a claim, or nil.
	Evidence *grader.Evidence
	// Mark is the sentence of the agent on which the criterion rests, nil if there is none.
	Mark *Mark

	// texts are those of which the agent's sentence has one, so that it is found without a quote.
	texts []string
}

// Kind is what points are.
type Kind uint8

// The kinds of points.
const (
	// Earned are of those that were offered.
	Earned Kind = iota
	// Cost are without an offer.
	Cost
	// Bound is the most that can be earned.
	Bound
	// Factor multiplies the points of a ticket.
	Factor
)

// Points are milli-points, or a factor in thousandths.
type Points struct {
	Kind           Kind
	Value, Offered int64
}

// String writes the points, "" for nil.
func (p *Points) String() string {
	if p == nil {
		return ""
	}
	switch p.Kind {
	case Earned:
		return score.FormatThousandths(p.Value) + " of " + score.FormatThousandths(p.Offered)
	case Bound:
		return "at most " + score.FormatThousandths(p.Value)
	case Factor:
		return "times " + score.FormatThousandths(p.Value)
	default:
		return score.FormatThousandths(p.Value)
	}
}

// Share says how much of the offered points is earned: "all", "part" or "none", and "" without an
// offer.
func (p *Points) Share() string {
	switch {
	case p == nil || p.Kind != Earned || p.Offered <= 0:
		return ""
	case p.Value <= 0:
		return "none"
	case p.Value < p.Offered:
		return "part"
	}
	return "all"
}

// ReviewOf reviews the tickets or the workflow of an environment that has played the episode.
func ReviewOf(g record.Grade, env episode.Environment) []Review {
	verdicts := readVerdicts(g.Verdicts)
	if f := workflow.ReviewCase(env); f != nil {
		return []Review{reviewWorkflow(f, verdicts[""])}
	}
	tickets := ticket.ReviewTickets(env)
	reviews := make([]Review, len(tickets))
	for i := range tickets {
		t := &tickets[i]
		reviews[i].Heading, reviews[i].TicketID = "given and gold", t.ID
		if t.Weight > 0 {
			reviews[i].Heading = fmt.Sprintf("ticket %s, %s, weight %d", t.Ticket.ScenarioID, t.ID, t.Weight)
		}
		reviews[i].ticket(t, verdicts[t.ID], g.Outcome != score.Errored)
	}
	return reviews
}

// readVerdicts returns the verdicts with criteria by the id of their ticket, "" for a workflow.
func readVerdicts(raw []json.RawMessage) map[string]*grader.Verdict {
	out := map[string]*grader.Verdict{}
	for _, text := range raw {
		var v struct {
			TicketID string `json:"ticket_id"`
			grader.Verdict
		}
		if json.Unmarshal(text, &v) == nil && len(v.Criteria) > 0 {
			out[v.TicketID] = &v.Verdict
		}
	}
	return out
}

func (r *Review) add(row Row) { r.Rows = append(r.Rows, row) }

func newPoints(c grader.Criterion) *Points { return &Points{Value: c.Earned, Offered: c.Offered} }

func (r *Review) gates(gates []grader.Gate) {
	for _, g := range gates {
		r.add(Row{Criterion: "gate " + g.ID, Points: &Points{Kind: Bound, Value: g.Cap}, Why: g.Reason,
			texts: parseQuotation(g.Reason)})
	}
}

// parseQuotation is the quotation in a reason, if it has one.
func parseQuotation(reason string) []string {
	_, rest, found := strings.Cut(reason, `"`)
	if !found {
		return nil
	}
	literal, err := strconv.QuotedPrefix(`"` + rest)
	if err != nil {
		return nil
	}
	text, err := strconv.Unquote(literal)
	if err != nil || text == "" {
		return nil
	}
	return []string{text}
}

// ticket reviews a ticket. Without a grade it has no points.
func (r *Review) ticket(t *ticket.Reviewed, v *grader.Verdict, graded bool) {
	paid := map[string]*Points{}
	verdict := grader.Verdict{Status: grader.StatusOK}
	if v != nil {
		verdict = *v
	}
	if parts, err := grader.GradeTicket(&t.Ticket.Served, t.Rubric, t.Decisions, verdict); err == nil && graded {
		for _, p := range parts {
			paid[p.Name] = &Points{Value: p.Earned, Offered: p.Offered}
		}
	}
	d, gold := t.Decisions, t.Ticket.Gold
	r.label(grader.DimensionCategory, d.Category, gold.Category, gold.CategoryAlternates, paid)
	r.label(grader.DimensionPriority, d.Priority, gold.Priority, gold.PriorityAlternates, paid)
	if t.Rubric != tasks.TicketResolve {
		return
	}
	r.add(Row{Criterion: "decision", Given: describeEnding(d), Gold: goldEnding(gold),
		Points: paid[grader.DimensionEscalation], Why: wrongEnding(d, gold)})
	if t.Timed {
		r.firstReply(t)
	}
	r.reply(t, v, paid[grader.DimensionResponse])
	r.good(t.Ticket.References)
}

func (r *Review) good(references scenarios.References) {
	if len(references.Good) > 0 {
		r.Good = references.Good[0]
	}
}

func (r *Review) label(name, given, gold string, alternates []scenarios.Alternate, paid map[string]*Points) {
	why := ""
	switch at := slices.IndexFunc(alternates, func(a scenarios.Alternate) bool { return a.Value == given }); {
	case given == "":
		why = "not set"
	case given == gold:
	case at >= 0:
		why = fmt.Sprintf("arguable: %s of the points", score.FormatThousandths(alternates[at].Credit))
	default:
		why = "wrong"
	}
	r.add(Row{Criterion: name, Given: orDash(given), Gold: gold, Points: paid[name], Why: why})
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func describeEnding(d grader.Decisions) string {
	if d.Ending == grader.Escalated && d.Team != "" {
		return "escalate to " + d.Team
	}
	return orDash(string(d.Ending))
}

func goldEnding(g scenarios.TicketGold) string {
	if !g.Escalate {
		return "resolve"
	}
	return "escalate to " + g.Team
}

// wrongEnding returns what is wrong with a decision, or "".
func wrongEnding(d grader.Decisions, g scenarios.TicketGold) string {
	switch {
	case d.Ending == grader.Open:
		return "neither resolved nor escalated"
	case d.Ending == grader.Escalated && !g.Escalate:
		return "an agent may settle it"
	case d.Ending == grader.Resolved && g.Escalate:
		return fmt.Sprintf("it exceeds an agent's authority: %s, %s", g.ReasonCode, g.Policy)
	case d.Ending == grader.Resolved || d.Team == g.Team || slices.Contains(g.TeamAlternates, d.Team):
		return ""
	case d.Team == "":
		return "no team is named"
	}
	return "another team is responsible"
}

func (r *Review) firstReply(t *ticket.Reviewed) {
	given, why := "-", ""
	if t.Answered != queue.Never {
		given = "minute " + strconv.Itoa(t.Answered)
	}
	if t.Factor < queue.InTime {
		why = "late: all points of the ticket are reduced"
	}
	r.add(Row{Criterion: "first reply", Given: given,
		Gold:   fmt.Sprintf("by minute %d", queue.ReplyLimit(t.Ticket.Gold.Priority)),
		Points: &Points{Kind: Factor, Value: t.Factor}, Why: why})
}

// DescribeEvidence describes a model's answer to a claim.
func DescribeEvidence(e grader.Evidence) string {
	text := "the judge: " + e.Verdict
	if e.Quote != "" {
		text += fmt.Sprintf(", by %q", e.Quote)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Refused != "" {
		text += " (rejected by code: " + e.Refused + ")"
	}
	return text
}
