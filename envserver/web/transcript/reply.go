package transcript

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// reply adds the row of the reply and below it the criteria, with the facts and questions below
// theirs.
func (r *Review) reply(t *ticket.Reviewed, v *grader.Verdict, paid *Points) {
	row := Row{Criterion: grader.DimensionResponse, Points: paid}
	if !t.Replied {
		row.Given = "none"
		r.lose(paid, "no reply to the customer")
	}
	r.add(row)
	if v == nil {
		v = &grader.Verdict{Criteria: []grader.Criterion{{ID: offline.CriterionFacts}}}
	}
	found := replyFaults{gates: v.Gates}
	for _, c := range v.Criteria {
		row := Row{Depth: 1, Criterion: c.ID, Why: c.Reason}
		if t.Replied && paid != nil {
			row.Points = newPoints(c)
		}
		at := len(r.Rows)
		r.add(row)
		switch {
		case c.ID != offline.CriterionFacts && c.Earned < c.Offered:
			found.unmet = append(found.unmet, c.ID)
		case c.ID == offline.CriterionFacts && len(c.Evidence) == 0:
			r.told(t.Ticket.Required(), t.Stated, t.Told, &found)
		}
		for i := range c.Evidence {
			r.evidence(&t.Ticket.Reply, at, &c.Evidence[i], &found)
		}
	}
	r.gates(v.Gates)
	if t.Replied {
		r.lose(paid, found.String())
	}
	r.harm(v, t.Ticket.Reply.Harm, t.Ticket.Reply.Closed)
}

// evidence adds a model's answer: to the row of its criterion, or as a row of the fact or question
// that it is about.
func (r *Review) evidence(spec *scenarios.ReplySpec, criterion int, e *grader.Evidence, found *replyFaults) {
	met := acceptedQuote(e) != ""
	for _, f := range spec.Facts {
		if e.Kind != offline.CriterionFacts || e.About != f.ID {
			continue
		}
		row := newFactRow(f.Slot, f.What, strings.Join(f.Right(), " or "))
		if row.Evidence, row.Given, row.Met = e, "told", met; f.Negative {
			row.Gold = "denied: " + f.Value
		}
		if !met {
			row.Given = "not told"
			found.missing = append(found.missing, row.Criterion+" ("+row.Gold+")")
		}
		r.add(row)
		return
	}
	for _, q := range spec.Questions {
		if e.About == q.ID {
			row := Row{Depth: 2, Criterion: q.Text, Given: "answered", Met: met, Evidence: e}
			if !met {
				row.Given = "open"
			}
			r.add(row)
			return
		}
	}
	r.Rows[criterion].Evidence, r.Rows[criterion].Why = e, ""
}

// newFactRow is the row of a fact by its name in the vocabulary, or else by the scenario's.
func newFactRow(slot, what, gold string) Row {
	row := Row{Depth: 2, Criterion: inWords(what), Gold: gold}
	if name, known := facts.Find(what); known {
		row.About = name.Meaning
		if name.Type == facts.Enum {
			row.Gold = inWords(gold)
		}
	} else {
		row.Criterion = inWords(slot)
	}
	return row
}

// notStated is what is given of a fact that isn't among those beside the message.
const notStated = "not stated"

// told adds the rows of the required facts, and of those that were stated and aren't required.
func (r *Review) told(required []facts.Wanted, given []facts.Fact, told *grader.Told, found *replyFaults) {
	shown := make([]bool, len(given))
	for i, f := range required {
		finding, gold := facts.Missing, f.Values
		if told != nil {
			finding = told.Facts.Required[i]
		}
		if finding == facts.Right {
			gold = gold[:1]
		}
		row := newFactRow("", f.What, strings.Join(gold, " or "))
		wanted := row.Criterion + " " + row.Gold
		at := slices.IndexFunc(given, func(g facts.Fact) bool { return g.What == f.What })
		switch finding {
		case facts.Right:
			row.Given, row.Met, row.texts = "right", true, f.Values
			if at >= 0 {
				row.Given = inWords(given[at].Value)
				row.Gold = row.Given // one of several right values
			}
		case facts.Untold:
			row.Given, row.Why = row.Gold, "the message lacks it"
			found.untold = append(found.untold, wanted)
		default:
			row.Given = notStated
			if told == nil || at < 0 || shown[at] || told.Facts.Stated[at] != facts.Wrong {
				found.missing = append(found.missing, wanted)
				if name, known := facts.Find(f.What); known && name.Type != facts.Enum {
					row.texts = f.Values
				}
				break
			}
			shown[at], row.Given = true, inWords(given[at].Value)
			found.wrong = append(found.wrong, fmt.Sprintf("%s %s (right: %s)", row.Criterion, row.Given, row.Gold))
		}
		r.add(row)
	}
	for i, f := range given {
		if told == nil || shown[i] {
			continue
		}
		row := newFactRow("", f.What, "")
		switch row.Given = inWords(f.Value); told.Facts.Stated[i] {
		case facts.Wrong:
			row.Why = "wrong: nothing of the kind is right here"
			found.wrong = append(found.wrong, row.Criterion+" "+row.Given)
		case facts.True:
			row.Why = "true, but not asked for"
		default:
			continue
		}
		r.add(row)
	}
}

// harm adds a model's answers to the claims about harm.
func (r *Review) harm(v *grader.Verdict, authored []scenarios.Harm, closed bool) {
	why := llm.DescribeHarm(authored, closed)
	for _, e := range v.Harm {
		claim := why[e.Kind]
		if claim == "" {
			claim = e.Kind
		}
		r.Harm = append(r.Harm, Answer{claim, e})
	}
}

// replyFaults is what is wrong with a reply, in words.
type replyFaults struct {
	missing, untold, wrong, unmet []string
	gates                         []grader.Gate
}

// maxListed bounds what a sentence names of a kind.
const maxListed = 2

// String says what is wrong with the reply.
func (f *replyFaults) String() string {
	var parts []string
	add := func(verb string, list []string) {
		if len(list) > maxListed {
			list = append(slices.Clone(list[:maxListed]), fmt.Sprintf("and %d more", len(list)-maxListed))
		}
		if len(list) > 0 {
			parts = append(parts, verb+strings.Join(list, ", "))
		}
	}
	add("the reply doesn't state ", f.missing)
	add("states wrongly ", f.wrong)
	add("states beside the message, but not in it, ", f.untold)
	add("fails in ", f.unmet)
	for _, g := range f.gates {
		parts = append(parts, g.Reason)
	}
	if len(parts) > 0 && len(f.missing) == 0 {
		parts[0] = "the reply " + parts[0]
	}
	return strings.Join(parts, ", ")
}
