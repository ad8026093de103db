package transcript

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/scenarios"
)

// reply adds the rows of the criteria, with the facts and questions below theirs.
func (r *Review) reply(t *ticket.Reviewed, v *grader.Verdict, paid *Points) {
	if v == nil {
		v = &grader.Verdict{Criteria: []grader.Criterion{{ID: offline.CriterionFacts}}}
	}
	spec := &t.Ticket.Reply
	for _, c := range v.Criteria {
		row := Row{Criterion: c.Title(), Why: c.Reason}
		if t.Replied && paid != nil {
			row.Points = newPoints(c)
		}
		if c.ID == "Q2" {
			row.Given, row.Gold = metOrNot(c), t.Ticket.NextStep()
		}
		r.add(row)
		switch c.ID {
		case offline.CriterionFacts:
			r.told(t.Ticket.Required(), t.Stated, t.Told)
		case "Q1":
			r.facts(spec.Facts, parseFindings(c), c)
		case "Q3":
			r.questions(spec.Questions, c)
		}
		for _, e := range c.Evidence {
			if !strings.Contains(e.Claim, ".") {
				r.add(Row{Part: true, Criterion: e.Claim, Evidence: &e})
			}
		}
	}
	r.gates(v.Gates)
	row := Row{Criterion: "reply", Given: "sent", Points: paid}
	if !t.Replied {
		row.Given, row.Why = "-", "no reply was sent"
	}
	r.add(row)
	r.Invented, r.Harm = v.Invented, v.Harm
}

// What a model finds about a fact.
const (
	missing = "missing"
	stated  = "stated"
)

func metOrNot(c grader.Criterion) string {
	switch {
	case c.Earned == 0:
		return missing
	case c.Earned < c.Offered:
		return "in part"
	}
	return stated
}

// parseFindings returns how a reply states the facts that its first criterion names, by id. The
// others are stated, unless it has no reason and no points.
func parseFindings(c grader.Criterion) func(id string) string {
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
			return missing
		}
		return stated
	}
}

func (r *Review) facts(facts []scenarios.Fact, finding func(id string) string, c grader.Criterion) {
	for _, f := range facts {
		if !f.Optional {
			r.add(Row{Part: true, Criterion: f.ID + " " + f.Slot, Given: finding(f.ID), Gold: factText(f),
				Evidence: answerTo("Q1."+f.ID, c), texts: listWordings(f, finding(f.ID))})
		}
	}
}

// told adds the rows of the required facts, and of those that were stated and aren't required.
func (r *Review) told(required []facts.Wanted, given []facts.Fact, told *grader.Told) {
	for i, f := range required {
		finding := facts.Missing
		if told != nil {
			finding = told.Facts.Required[i]
		}
		row := Row{Part: true, Criterion: f.ID + " " + f.What, Given: finding.String(), Gold: f.Values[0]}
		if finding == facts.Right {
			row.texts = f.Values
		}
		r.add(row)
	}
	if told == nil {
		return
	}
	for i, f := range given {
		if finding := told.Facts.Stated[i]; finding == facts.Wrong || finding == facts.True {
			r.add(Row{Part: true, Criterion: f.What, Given: f.Value, Why: finding.String()})
		}
	}
}

// listWordings are the texts of which a reply that states a fact may have one.
func listWordings(f scenarios.Fact, finding string) []string {
	if finding != stated {
		return nil
	}
	return f.Right()
}

// factText is the value of a fact.
func factText(f scenarios.Fact) string {
	if f.Negative {
		return "denied: " + f.Value
	}
	return strings.Join(f.Right(), " or ")
}

func (r *Review) questions(questions []scenarios.Question, c grader.Criterion) {
	_, open, _ := strings.Cut(c.Reason, ": ")
	unanswered := strings.Split(open, ", ")
	for _, q := range questions {
		given := "answered"
		if slices.Contains(unanswered, q.ID) || c.Earned == 0 {
			given = "open"
		}
		r.add(Row{Part: true, Criterion: q.ID, Given: given, Gold: q.Text + " " + strings.Join(q.AnsweredBy, ", "),
			Evidence: answerTo("Q3."+q.ID, c)})
	}
}

// answerTo returns a model's answer to a claim, nil if it wasn't asked.
func answerTo(claim string, c grader.Criterion) *grader.Evidence {
	at := slices.IndexFunc(c.Evidence, func(e grader.Evidence) bool { return e.Claim == claim })
	if at < 0 {
		return nil
	}
	return &c.Evidence[at]
}
