package llm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
)

// criteria grades Q1 to Q8: by the model's answers, but for the reply's length and form.
func (g *grading) criteria() []grader.Criterion {
	p := g.judged.Ticket.Reply.Points
	all := []grader.Criterion{g.gradeFacts(p.Q1), g.gradeClaim("Q2", p.Q2), g.gradeQuestions(p.Q3),
		g.gradeClaim("Q4", p.Q4), g.gradeClaim("Q5", p.Q5), g.gradeShape(p.Q6), g.gradeForm(p.Q7),
		g.gradeHandOver(p.Q8)}
	for i := range all {
		all[i].Evidence = g.evidence[all[i].ID]
	}
	return all
}

// portion is a criterion that earns a part of its points.
func portion(id string, offered, earned, of int64, reason string) grader.Criterion {
	return grader.Criterion{ID: id, Offered: offered, Earned: offered * min(max(earned, 0), of) / of, Reason: reason}
}

// gradeFacts (Q1) divides the points among the facts that must be told.
func (g *grading) gradeFacts(offered int64) grader.Criterion {
	var missed []string
	for _, f := range g.judged.Ticket.Reply.Facts {
		if !f.Optional && !g.met["Q1."+f.ID] {
			missed = append(missed, f.ID+" missing")
		}
	}
	told, required := g.countFacts()
	return portion("Q1", offered, int64(told), int64(max(required, 1)), strings.Join(missed, ", "))
}

// gradeQuestions (Q3) pays half a question if some of its answer's facts are told, and all of it if
// all are and the model finds the answer. Without questions the facts count.
func (g *grading) gradeQuestions(offered int64) grader.Criterion {
	questions := g.judged.Ticket.Reply.Questions
	if len(questions) == 0 {
		c := g.gradeFacts(offered)
		c.ID = "Q3"
		return c
	}
	var open []string
	earned := int64(0)
	for _, q := range questions {
		told, needed := g.countFacts(q.AnsweredBy...)
		if g.met["Q3."+q.ID] && told == needed {
			earned += 2
			continue
		}
		if open = append(open, q.ID); told > 0 {
			earned++
		}
	}
	reason := ""
	if len(open) > 0 {
		reason = "not answered in full: " + strings.Join(open, ", ")
	}
	return portion("Q3", offered, earned, 2*int64(len(questions)), reason)
}

// gradeClaim pays for a claim that is met: the next step (Q2), a time frame or an owner (Q4),
// empathy (Q5).
func (g *grading) gradeClaim(id string, offered int64) grader.Criterion {
	if g.met[id] {
		return portion(id, offered, 1, 1, "")
	}
	return portion(id, offered, 0, 1, "not met, according to the judge")
}

// gradeShape (Q6) is paid for a reply that is to the point. It deducts points linearly between the
// maximum length and twice that length.
func (g *grading) gradeShape(offered int64) grader.Criterion {
	most, words := int64(g.judged.Ticket.Reply.MaxWords), int64(g.Message.Words())
	switch {
	case g.isOverlong():
		return portion("Q6", offered, 0, 1, fmt.Sprintf("longer than %d characters", text.MaxMessageRunes))
	case !g.met["Q6"] || most <= 0 || words <= most:
		return g.gradeClaim("Q6", offered)
	}
	return portion("Q6", offered, 2*most-words, most, fmt.Sprintf("%d words, at most %d wanted", words, most))
}

func (a *assessment) isOverlong() bool { return utf8.RuneCountInString(a.text) > text.MaxMessageRunes }

// placeholders are those of templates: {{name}}, {name}, [NAME], <order id>, XXXX.
var placeholders = regexp.MustCompile(`\{\{|xxxx|____|[{<\[][a-z][^}>\]@:/]{0,39}[}>\]]`)

// gradeForm (Q7) requires the customer's language without placeholders, and for its second half the
// customer's name.
func (g *grading) gradeForm(offered int64) grader.Criterion {
	switch {
	case g.Message.Foreign:
		return portion("Q7", offered, 0, 2, "not in the customer's language")
	case placeholders.MatchString(text.Fold(g.text)):
		return portion("Q7", offered, 0, 2, "contains a placeholder")
	case !g.hasSalutation():
		return portion("Q7", offered, 1, 2, "doesn't address the customer by name")
	}
	return portion("Q7", offered, 2, 2, "")
}

// greeting is the number of words within which the customer has to be addressed. A later name may
// be a quoted signature.
const greeting = 10

// hasSalutation reports whether the reply begins by addressing the customer by name.
func (g *grading) hasSalutation() bool {
	customer := g.judged.Ticket.Customer
	names := strings.Fields(text.Fold(text.Normalise(customer.Name + " " + customer.Company)))
	words := strings.FieldsFunc(g.folded, func(r rune) bool { return strings.ContainsRune(" ,.:;!()", r) })
	return slices.ContainsFunc(words[:min(greeting, len(words))],
		func(w string) bool { return slices.Contains(names, w) })
}

// gradeHandOver (Q8) requires that the reply mentions a hand-over if and only if there was one.
func (g *grading) gradeHandOver(offered int64) grader.Criterion {
	switch escalated := g.judged.Actions.Ending == grader.Escalated; {
	case escalated && !g.met["Q8"]:
		return portion("Q8", offered, 0, 1, "doesn't mention the hand-over")
	case !escalated && g.met["Q8"]:
		return portion("Q8", offered, 0, 1, "mentions a hand-over that didn't happen")
	}
	return portion("Q8", offered, 1, 1, "")
}
