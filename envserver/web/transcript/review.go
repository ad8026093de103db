package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// Review is what the agent gave beside the gold, for a ticket or a workflow. Without the gold it is
// a recorded verdict.
type Review struct {
	Heading string
	// TicketID is the ticket's id in observations, "" for a workflow.
	TicketID string
	Rows     []Row
	// Totals say how the points of the rows add up.
	Totals []Total
	// Harm are a model's answers to the claims about harm, by what they claim.
	Harm []Answer
	// Rules are those of the policy that decide a generated case, in words.
	Rules []string
	// Good is a good reply, "" if there is none. Language is the customer's language.
	Good, Language string
	// Earned are the milli-points of the reply. It is set only for a recorded verdict.
	Earned int64
	// Other is a recorded verdict of an unknown form, decoded, otherwise nil.
	Other any

	// name is the name of a ticket among several.
	name   string
	losses []loss
	// counts is what the ticket adds to the sum of the episode, in micro-points.
	counts int64
}

// Row is a line of a review.
type Row struct {
	// Depth is 0 if the row's points are added up, 1 if it explains the row of depth 0 above it,
	// and 2 for what a criterion is about.
	Depth                  int
	Criterion, Given, Gold string
	// Met means that a part of a criterion is as it should be.
	Met bool
	// About says what the criterion means, "" if its name does.
	About string
	// Points is nil for a row without points of its own.
	Points *Points
	Why    string
	// Evidence is the judge's answer to a claim, or nil.
	Evidence *grader.Evidence
	// Mark is the sentence of the agent on which the criterion rests, nil if there is none.
	Mark *Mark

	// texts are looked for in the agent's sentence, which contains one of them, if there is no
	// quote.
	texts []string
}

// Total is a line below the rows: what is computed, and its result.
type Total struct{ Name, Value string }

// Answer is a model's answer to a claim in words.
type Answer struct {
	Claim string
	grader.Evidence
}

// loss is what was lost, in words, and its points in millionths of the episode's sum.
type loss struct {
	text   string
	points int64
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

// ReviewOf reviews the tickets or the workflow of an environment that has played the episode. The
// totals say how the tickets of a queue add up.
func ReviewOf(g record.Grade, env episode.Environment) (reviews []Review, totals []Total) {
	verdicts := readVerdicts(g.Verdicts)
	if f := workflow.ReviewCase(env); f != nil {
		return []Review{reviewWorkflow(f, verdicts[""])}, nil
	}
	tickets := ticket.ReviewTickets(env)
	reviews = make([]Review, len(tickets))
	var sum int64
	for i := range tickets {
		t, r := &tickets[i], &reviews[i]
		r.Heading, r.TicketID = "given and gold", t.ID
		if len(tickets) > 1 {
			r.name = fmt.Sprintf("ticket %s (%s)", t.ID, t.Ticket.Gold.Priority)
			r.Heading = r.name + ": " + t.Ticket.Subject
		}
		r.ticket(t, verdicts[t.ID], g.Outcome != score.Errored && g.Score != nil)
		sum += r.counts
		if r.Totals != nil {
			totals = append(totals, Total{r.name, score.FormatExact(r.counts)})
		}
	}
	if len(totals) == 0 {
		return reviews, nil
	}
	best := tickets[0].Best
	divided := Total{fmt.Sprintf("score: %s of %s", score.FormatExact(sum), score.FormatExact(best)),
		score.FormatThousandths(min((2*1000*sum+best)/(2*best), 1000))}
	if len(tickets) == 1 {
		reviews[0].Totals = append(reviews[0].Totals, divided)
		return reviews, nil
	}
	divided.Name += ", which the best schedule earns"
	return reviews, append(totals, Total{"sum", score.FormatExact(sum)}, divided)
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
		row := Row{Depth: 1, Criterion: "the reply " + g.Reason, Points: &Points{Kind: Bound, Value: g.Cap}}
		if g.Quote != "" {
			row.texts = []string{g.Quote}
		}
		r.add(row)
	}
}

// lose notes what was lost with points, unless all were earned.
func (r *Review) lose(p *Points, text string) {
	if p != nil && text != "" && p.Value < p.Offered {
		r.losses = append(r.losses, loss{text, 1000 * (p.Offered - p.Value)})
	}
}

// ticket reviews a ticket. Without a grade it has no points.
func (r *Review) ticket(t *ticket.Reviewed, v *grader.Verdict, graded bool) {
	paid := map[string]*Points{}
	verdict := grader.Verdict{Status: grader.StatusOK}
	if v != nil {
		verdict = *v
	}
	var sum Points
	if parts, err := grader.GradeTicket(&t.Ticket.Served, t.Rubric, t.Decisions, verdict); err == nil && graded {
		for _, p := range parts {
			paid[p.Name] = &Points{Value: p.Earned, Offered: p.Offered}
			sum.Value, sum.Offered = sum.Value+p.Earned, sum.Offered+p.Offered
		}
	}
	d, gold := t.Decisions, t.Ticket.Gold
	r.label(grader.DimensionCategory, d.Category, gold.Category, gold.CategoryAlternates, paid)
	r.label(grader.DimensionPriority, d.Priority, gold.Priority, gold.PriorityAlternates, paid)
	if t.Rubric == tasks.TicketResolve {
		row := Row{Criterion: grader.DimensionEscalation, Given: describeEnding(d), Gold: goldEnding(gold),
			Points: paid[grader.DimensionEscalation], Why: wrongEnding(d, t.Ticket)}
		if row.Why == "" {
			row.Gold = row.Given // one of several right teams
		}
		r.add(row)
		r.lose(row.Points, fmt.Sprintf("ending %s, right: %s", row.Given, row.Gold))
		r.reply(t, v, paid[grader.DimensionResponse])
		r.good(t.Ticket.References, t.Ticket.Language)
	}
	for i := range r.losses {
		r.losses[i].points = r.losses[i].points * t.Weight * t.Factor / queue.InTime
	}
	if t.Timed && t.Rubric == tasks.TicketResolve {
		r.firstReply(t, sum.Value)
	}
	if sum.Offered > 0 {
		r.add(Row{Criterion: "sum", Points: &sum})
		r.count(t, sum.Value)
	}
}

// count adds up what a ticket counts in its episode.
func (r *Review) count(t *ticket.Reviewed, points int64) {
	r.counts, r.Totals = t.Weight*points*t.Factor, []Total{}
	name := score.FormatThousandths(points)
	if t.Factor != queue.InTime {
		name += " × " + score.FormatThousandths(t.Factor) + " for the time of the first reply"
	}
	if t.Weight != 1 {
		name += fmt.Sprintf(" × %d, the weight of a ticket with priority %s", t.Weight, t.Ticket.Gold.Priority)
	}
	if t.Factor != queue.InTime || t.Weight != 1 {
		r.Totals = append(r.Totals, Total{"counts: " + name, score.FormatExact(r.counts)})
	}
}

func (r *Review) good(references scenarios.References, language string) {
	if len(references.Good) > 0 {
		r.Good, r.Language = references.Good[0], language
	}
}

func (r *Review) label(name, given, gold string, alternates []scenarios.Alternate, paid map[string]*Points) {
	if given != gold {
		for _, a := range alternates {
			gold += fmt.Sprintf(", or %s for %s of the points", a.Value, score.FormatThousandths(a.Credit))
		}
	}
	given = cmp.Or(given, "not set")
	r.add(Row{Criterion: name, Given: given, Gold: gold, Points: paid[name]})
	r.lose(paid[name], fmt.Sprintf("%s %s, right: %s", name, given, gold))
}

func describeEnding(d grader.Decisions) string {
	if d.Ending == grader.Escalated && d.Team != "" {
		return "escalate to " + d.Team
	}
	return cmp.Or(string(d.Ending), "none")
}

func goldEnding(g scenarios.TicketGold) string {
	if !g.Escalate {
		return "resolve"
	}
	return "escalate to " + strings.Join(append([]string{g.Team}, g.TeamAlternates...), " or ")
}

// wrongEnding returns what is wrong with a decision, or "".
func wrongEnding(d grader.Decisions, t *scenarios.Ticket) string {
	g := t.Gold
	switch {
	case d.Ending == grader.Open:
		return "neither resolved nor escalated"
	case d.Ending == grader.Escalated && !g.Escalate:
		return "an agent may settle it"
	case d.Ending == grader.Resolved && g.Escalate:
		return "it exceeds an agent's authority: " + inWords(strings.ToLower(g.ReasonCode)) + describePolicy(t)
	case d.Ending == grader.Resolved || d.Team == g.Team || slices.Contains(g.TeamAlternates, d.Team):
		return ""
	case d.Team == "":
		return "no team is named"
	}
	return "another team is responsible"
}

// describePolicy names the article that decides a ticket, by its title if the ticket has it.
func describePolicy(t *scenarios.Ticket) string {
	id, _, _ := strings.Cut(t.Gold.Policy, "#")
	at := slices.IndexFunc(t.Articles, func(a scenarios.Article) bool { return a.ID == id })
	if at < 0 {
		return ", " + t.Gold.Policy
	}
	return fmt.Sprintf(", by the article %q (%s)", t.Articles[at].Title, t.Gold.Policy)
}

// inWords is a name of a closed list in words.
func inWords(name string) string { return strings.ReplaceAll(name, "_", " ") }

// firstReply adds the factor for the time of the first reply, of a ticket that has earned points.
func (r *Review) firstReply(t *ticket.Reviewed, points int64) {
	limit := queue.ReplyLimit(t.Ticket.Gold.Priority)
	row := Row{Criterion: "first reply", Given: "none", Gold: fmt.Sprintf("by minute %d", limit),
		Points: &Points{Kind: Factor, Value: t.Factor}}
	text := "no reply"
	if t.Answered != queue.Never {
		row.Given = "minute " + strconv.Itoa(t.Answered)
		text = fmt.Sprintf("first reply in minute %d, due by minute %d", t.Answered, limit)
	}
	if t.Factor < queue.InTime {
		row.Why = "late: all points of the ticket are reduced"
		r.losses = append(r.losses, loss{text, t.Weight * points * (queue.InTime - t.Factor)})
	}
	r.add(row)
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
