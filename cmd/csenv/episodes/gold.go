package episodes

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/authoring"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

// printReview writes what the agent gave beside the gold, with the points of each criterion. The
// environment has played the episode.
func printReview(w io.Writer, g record.Grade, env episode.Environment) {
	verdicts := readVerdicts(g.Verdicts)
	if r := workflow.Review(env); r != nil {
		printWorkflow(w, r, verdicts[""])
		return
	}
	tickets := ticket.Review(env)
	for i := range tickets {
		t := &tickets[i]
		heading := "given and gold"
		if t.Weight > 0 {
			heading = fmt.Sprintf("ticket %s, %s, weight %d", t.Ticket.ScenarioID, t.ID, t.Weight)
		}
		view.Heading(w, heading)
		printTicket(w, t, verdicts[t.ID], g.Outcome != score.Errored)
	}
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

// review is the table of a ticket or a workflow.
type review struct{ view.Section }

func newReview() review {
	return review{view.Section{Header: []string{"criterion", "given", "gold", "points", "why"}}}
}

func (r *review) add(criterion, given, gold, points, why string) {
	r.Rows = append(r.Rows, []string{criterion, given, gold, points, why})
}

func (r *review) print(w io.Writer) {
	view.Document{Sections: []view.Section{r.Section}}.Print(w, "table")
}

// points writes the earned of the offered points.
func points(earned, offered int64) string {
	return view.Thousandths(earned) + " of " + view.Thousandths(offered)
}

// printTicket writes the review of a ticket. Without a grade it has no points.
func printTicket(w io.Writer, t *ticket.Reviewed, v *grader.Verdict, graded bool) {
	r := newReview()
	paid := map[string]string{}
	verdict := grader.Verdict{Status: grader.StatusOK}
	if v != nil {
		verdict = *v
	}
	if parts, err := grader.GradeTicket(t.Ticket, t.Rubric, t.Decisions, verdict); err == nil && graded {
		for _, p := range parts {
			paid[p.Name] = points(p.Earned, p.Offered)
		}
	}
	d, gold := t.Decisions, t.Ticket.Gold
	r.label(grader.DimensionCategory, d.Category, gold.Category, gold.CategoryAlternates, paid)
	r.label(grader.DimensionPriority, d.Priority, gold.Priority, gold.PriorityAlternates, paid)
	if t.Rubric == grader.TaskResolve {
		r.add("decision", ending(d), goldEnding(gold), paid[grader.DimensionEscalation], wrongEnding(d, gold))
		if t.Timed {
			r.firstReply(t)
		}
		r.reply(t, v, paid[grader.DimensionResponse])
	}
	r.print(w)
	if good := t.Ticket.References.Good; t.Rubric == grader.TaskResolve && len(good) > 0 {
		view.Titled(w, "a good reply", good[0])
	}
}

func (r *review) label(name, given, gold string, alternates []scenarios.Alternate, paid map[string]string) {
	why := ""
	switch at := slices.IndexFunc(alternates, func(a scenarios.Alternate) bool { return a.Value == given }); {
	case given == "":
		why = "not set"
	case given == gold:
	case at >= 0:
		why = fmt.Sprintf("arguable: %s of the points", view.Thousandths(alternates[at].Credit))
	default:
		why = "wrong"
	}
	r.add(name, view.OrDash(given), gold, paid[name], why)
}

func ending(d grader.Decisions) string {
	if d.Ending == grader.Escalated && d.Team != "" {
		return "escalate to " + d.Team
	}
	return view.OrDash(string(d.Ending))
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

func (r *review) firstReply(t *ticket.Reviewed) {
	given, why := "-", ""
	if t.Answered != queue.Never {
		given = "minute " + strconv.Itoa(t.Answered)
	}
	if t.Factor < queue.InTime {
		why = "late: all points of the ticket are reduced"
	}
	r.add("first reply", given, fmt.Sprintf("by minute %d", queue.Limit(t.Ticket.Gold.Priority)),
		"times "+view.Thousandths(t.Factor), why)
}

// reply adds the rows of the criteria, with the facts and questions below theirs.
func (r *review) reply(t *ticket.Reviewed, v *grader.Verdict, paid string) {
	if v == nil {
		v = &grader.Verdict{Criteria: []grader.Criterion{{ID: "Q1"}, {ID: "Q2"}, {ID: "Q3"}}}
	}
	spec := &t.Ticket.Reply
	for _, c := range v.Criteria {
		given, gold, earned := "", "", points(c.Earned, c.Offered)
		if !t.Replied || paid == "" {
			earned = ""
		}
		if c.ID == "Q2" {
			given, gold = metOrNot(c), strings.ReplaceAll(spec.Outcome.Value, "_", " ")
		}
		r.add(criterionName(c.ID), given, gold, earned, c.Reason)
		switch c.ID {
		case "Q1":
			r.facts(spec.Facts, findings(c), c)
		case "Q3":
			r.questions(spec.Questions, c)
		}
		for _, e := range c.Evidence {
			if !strings.Contains(e.Claim, ".") {
				r.add("  "+e.Claim, "", "", "", evidence(e))
			}
		}
	}
	for _, g := range v.Gates {
		r.add("gate "+g.ID, "", "", "at most "+view.Thousandths(g.Cap), g.Reason)
	}
	given, why := "sent", ""
	if !t.Replied {
		given, why = "-", "no reply was sent"
	}
	r.add("reply", given, "", paid, why)
	if len(v.Invented) > 0 {
		r.Note = "invented: " + strings.Join(v.Invented, ", ")
	}
}

func metOrNot(c grader.Criterion) string {
	switch {
	case c.Earned == 0:
		return grader.Missing.String()
	case c.Earned < c.Offered:
		return "in part"
	}
	return grader.Stated.String()
}

// findings returns how a reply states the facts that its first criterion names, by id. The others
// are stated, unless it has no reason and no points.
func findings(c grader.Criterion) func(id string) string {
	named := map[string]string{}
	for part := range strings.SplitSeq(c.Reason, ", ") {
		if id, finding, ok := strings.Cut(part, " "); ok {
			named[id] = finding
		}
	}
	return func(id string) string {
		if finding, ok := named[id]; ok {
			return finding
		}
		if c.Earned == 0 && c.Reason == "" {
			return grader.Missing.String()
		}
		return grader.Stated.String()
	}
}

func (r *review) facts(facts []scenarios.Fact, finding func(id string) string, c grader.Criterion) {
	for _, f := range facts {
		if !f.Optional {
			r.add("  "+f.ID+" "+f.Slot, finding(f.ID), factText(f), "", answerTo("Q1."+f.ID, c))
		}
	}
}

// factText is the value of a fact.
func factText(f scenarios.Fact) string {
	if f.Negative {
		return "denied: " + f.Value
	}
	return f.Value
}

func (r *review) questions(questions []scenarios.Question, c grader.Criterion) {
	_, open, _ := strings.Cut(c.Reason, ": ")
	unanswered := strings.Split(open, ", ")
	for _, q := range questions {
		given := "answered"
		if slices.Contains(unanswered, q.ID) || c.Earned == 0 {
			given = "open"
		}
		r.add("  "+q.ID, given, q.Text+" "+strings.Join(q.AnsweredBy, ", "), "", answerTo("Q3."+q.ID, c))
	}
}

// answerTo describes a model's answer to a claim, if it was asked.
func answerTo(claim string, c grader.Criterion) string {
	at := slices.IndexFunc(c.Evidence, func(e grader.Evidence) bool { return e.Claim == claim })
	if at < 0 {
		return ""
	}
	return evidence(c.Evidence[at])
}

// printWorkflow writes the review of a case.
func printWorkflow(w io.Writer, f *workflow.Reviewed, v *grader.Verdict) {
	r := newReview()
	if v == nil {
		v = &grader.Verdict{}
	}
	criterion := func(id string) (paid, why string) {
		for _, c := range v.Criteria {
			if name, _, _ := strings.Cut(c.ID, " "); name == id {
				return points(c.Earned, c.Offered), c.Reason
			}
		}
		return "", ""
	}
	for _, s := range f.Workflow.Steps {
		paid, why := criterion(s.ID)
		r.add(s.ID, sent(f.History, s.Action), authoring.StepText(s), paid, why)
	}
	paid, why := criterion("resolution")
	r.add("resolution", "", "", paid, why)
	for i, fact := range f.Workflow.Facts {
		finding := grader.Missing
		if i < len(f.Told) {
			finding = f.Told[i]
		}
		if !fact.Optional {
			r.add("  "+fact.ID+" "+fact.Slot, finding.String(), factText(fact), "", "")
		}
	}
	for i, goal := range f.Workflow.Goal {
		given := "not met"
		if f.Met[i] {
			given = "met"
		}
		r.add("  goal", given, goal.Source, "", "")
	}
	for _, c := range v.Criteria {
		if action, ok := strings.CutPrefix(c.ID, "action "); ok {
			r.add("action "+action, "", "", view.Thousandths(c.Earned), c.Reason)
		}
	}
	for _, g := range v.Gates {
		r.add("forbidden "+g.ID, "", "", "", g.Reason)
	}
	view.Heading(w, "given and gold")
	r.print(w)
	if good := f.Workflow.References.Good; len(good) > 0 {
		view.Titled(w, "a good reply", good[0])
	}
}

// sent lists the actions of a type, with their payloads except messages.
func sent(history []workflow.Entry, action string) string {
	var all []string
	for _, e := range history {
		if e.ActionType != action {
			continue
		}
		text := "action " + strconv.Itoa(e.Step)
		if action != scenarios.RespondUser {
			text += " " + view.JSON(e.Payload)
		}
		all = append(all, text)
	}
	return view.OrDash(strings.Join(all, "\n"))
}
