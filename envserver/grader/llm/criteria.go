package llm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/text"
)

// criterion is a row of the rubric for replies to tickets.
type criterion struct {
	// id names the criterion in verdicts, its claims, and their template.
	id      string
	offered func(p *scenarios.Points) int64
	// ask lists what the model is asked, nil if code decides alone.
	ask func(a *assessment, id string) []claim
	// grade returns the part of the points that is earned, and what is missing.
	grade func(g *grading, id string) (earned, of int64, missing string)
}

// The criteria that code names.
const (
	factsTold = offline.CriterionFacts
	nextStep  = "next step"
	handOver  = "hand-over"
)

// rubric has the criteria in the order of verdicts. Code measures the reply's length and form.
var rubric = []criterion{
	{factsTold, func(p *scenarios.Points) int64 { return p.Q1 }, (*assessment).askFacts, (*grading).gradeFacts},
	{nextStep, func(p *scenarios.Points) int64 { return p.Q2 }, (*assessment).askOnce, (*grading).gradeClaim},
	{"questions answered", func(p *scenarios.Points) int64 { return p.Q3 }, (*assessment).askQuestions,
		(*grading).gradeQuestions},
	{"time frame", func(p *scenarios.Points) int64 { return p.Q4 }, (*assessment).askOnce, (*grading).gradeClaim},
	{"empathy", func(p *scenarios.Points) int64 { return p.Q5 }, (*assessment).askOnce, (*grading).gradeClaim},
	{"to the point", func(p *scenarios.Points) int64 { return p.Q6 }, (*assessment).askShort, (*grading).gradeShape},
	{"form", func(p *scenarios.Points) int64 { return p.Q7 }, nil, (*grading).gradeForm},
	{handOver, func(p *scenarios.Points) int64 { return p.Q8 }, (*assessment).askOnce, (*grading).gradeHandOver},
}

// askCriteria returns the statements about a ticket's criteria that offer points, and those about
// the facts in any case: other criteria and gates depend on them.
func (a *assessment) askCriteria() (claims []claim) {
	for _, c := range rubric {
		if c.ask != nil && (c.id == factsTold || c.offered(&a.judged.Ticket.Reply.Points) > 0) {
			claims = append(claims, c.ask(a, c.id)...)
		}
	}
	return claims
}

func (a *assessment) askFacts(id string) (claims []claim) {
	for i := range a.judged.Ticket.Reply.Facts {
		if f := &a.judged.Ticket.Reply.Facts[i]; !f.Optional {
			claims = append(claims, claim{Claim: grader.Claim{Kind: id, About: f.ID}, Fact: f})
		}
	}
	return claims
}

func (a *assessment) askQuestions(id string) (claims []claim) {
	for i := range a.judged.Ticket.Reply.Questions {
		q := &a.judged.Ticket.Reply.Questions[i]
		claims = append(claims, claim{Claim: grader.Claim{Kind: id, About: q.ID}, Question: q})
	}
	return claims
}

func (a *assessment) askOnce(id string) []claim { return []claim{{Claim: grader.Claim{Kind: id}}} }

// askShort asks once, unless the reply is too long anyway.
func (a *assessment) askShort(id string) []claim {
	if a.isOverlong() {
		return nil
	}
	return a.askOnce(id)
}

// criteria grades the rubric by the model's answers.
func (g *grading) criteria() []grader.Criterion {
	all := make([]grader.Criterion, len(rubric))
	for i, c := range rubric {
		offered := c.offered(&g.judged.Ticket.Reply.Points)
		earned, of, missing := c.grade(g, c.id)
		all[i] = grader.Criterion{ID: c.id, Offered: offered, Earned: offered * min(max(earned, 0), of) / of,
			Reason: missing, Evidence: g.evidence[c.id]}
	}
	return all
}

// gradeFacts divides the points among the facts that must be told.
func (g *grading) gradeFacts(string) (earned, of int64, missing string) {
	told, required := g.countFacts()
	if told < required {
		missing = fmt.Sprintf("%d of %d are missing", required-told, required)
	}
	return int64(told), int64(max(required, 1)), missing
}

// gradeQuestions pays half a question if some of its answer's facts are told, and all of it if all
// are and the model finds the answer. Without questions the facts count.
func (g *grading) gradeQuestions(id string) (earned, of int64, missing string) {
	questions := g.judged.Ticket.Reply.Questions
	if len(questions) == 0 {
		return g.gradeFacts(id)
	}
	open := 0
	for _, q := range questions {
		told, needed := g.countFacts(q.AnsweredBy...)
		if g.met[grader.Claim{Kind: id, About: q.ID}] && told == needed {
			earned += 2
			continue
		}
		if open++; told > 0 {
			earned++
		}
	}
	if open > 0 {
		missing = fmt.Sprintf("%d of %d aren't answered in full", open, len(questions))
	}
	return earned, 2 * int64(len(questions)), missing
}

// gradeClaim pays for a claim that is met.
func (g *grading) gradeClaim(id string) (earned, of int64, missing string) {
	if g.met[grader.Claim{Kind: id}] {
		return 1, 1, ""
	}
	return 0, 1, "not met, according to the judge"
}

// gradeShape pays for a reply that is to the point. It deducts points linearly between the maximum
// length and twice that length.
func (g *grading) gradeShape(id string) (earned, of int64, missing string) {
	most, words := int64(g.judged.Ticket.Reply.MaxWords), int64(g.Message.Words())
	switch {
	case g.isOverlong():
		return 0, 1, fmt.Sprintf("longer than %d characters", text.MaxMessageRunes)
	case !g.met[grader.Claim{Kind: id}] || most <= 0 || words <= most:
		return g.gradeClaim(id)
	}
	return 2*most - words, most, fmt.Sprintf("%d words, at most %d wanted", words, most)
}

func (a *assessment) isOverlong() bool { return utf8.RuneCountInString(a.text) > text.MaxMessageRunes }

// placeholders are what templates leave to be filled in: {{name}}, {name}, [NAME], <order id>,
// XXXX.
var placeholders = regexp.MustCompile(`\{\{|xxxx|____|[{<\[][a-z][^}>\]@:/]{0,39}[}>\]]`)

// gradeForm requires the customer's language without placeholders, and for its second half the
// customer's name.
func (g *grading) gradeForm(string) (earned, of int64, missing string) {
	switch {
	case g.Message.Foreign:
		return 0, 2, "not in the customer's language"
	case placeholders.MatchString(text.Fold(g.text)):
		return 0, 2, "contains a placeholder"
	case !g.hasSalutation():
		return 1, 2, "doesn't address the customer by name"
	}
	return 2, 2, ""
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

// gradeHandOver requires that the reply mentions a hand-over if and only if there was one.
func (g *grading) gradeHandOver(id string) (earned, of int64, missing string) {
	switch escalated, met := g.judged.Actions.Ending == grader.Escalated, g.met[grader.Claim{Kind: id}]; {
	case escalated && !met:
		return 0, 1, "doesn't mention the hand-over"
	case !escalated && met:
		return 0, 1, "mentions a hand-over that didn't happen"
	}
	return 1, 1, ""
}
