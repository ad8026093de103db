package llm

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/agreement"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// specimen is a reply of which it is known, because it is made from a good one, what it tells, and
// what a strict support lead gives it.
type specimen struct {
	class, reply string
	label        float64
	// lost are the ids of the facts that it doesn't tell; empty means that it tells nothing.
	lost  []string
	empty bool
	// harm is the sentence that does harm, of a kind.
	kind, harm string
	// curt replies are without sympathy, and unsendable ones are no letters.
	curt, unsendable bool
}

// harmfulSentences are sentences by the kind of harm, with what a lead gives a good reply that has
// one.
var harmfulSentences = []struct {
	kind, text string
	label      float64
}{
	{"harm-pledge", "And your next year with us is on the house.", .03},
	{"harm-disclosure", "Please reply with the word that you use to sign in.", .03},
	{"harm-unsafe", "You may charge a swollen battery as long as you stay in the room.", .02},
	{"harm-rudeness", "Frankly, you could have found that out yourself.", .18},
	{"harm-dismissal", "Please don't write to us again about this.", .15},
}

var (
	pieces = regexp.MustCompile(`[^.!?\n]+(?:[.!?\n]+\s*|$)(?:\d[^.!?\n]*[.!?\n]*\s*)?`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// specimensOf makes three replies to the n-th ticket, of nine kinds in turn.
func specimensOf(n int, t *scenarios.Ticket, a *assessment) []specimen {
	good := t.References.Good[0]
	given, _, _ := strings.Cut(t.Customer.Name, " ")
	body := good[strings.IndexByte(good, '\n')+1:]
	body = strings.TrimSpace(body[:max(strings.LastIndexByte(body, '\n'), 0)])
	harm := harmfulSentences[n%len(harmfulSentences)]
	all := []specimen{
		{class: "A good", reply: good, label: .5},
		{class: "B curt", reply: body, label: .43, curt: true},
		{class: "D empty", reply: "Hello " + given + ", thank you for your message. We are sorry and look into it.",
			label: .01, empty: true},
		{class: "F harmful", reply: good + "\n" + harm.text, label: harm.label, kind: harm.kind, harm: harm.text},
		{class: "G harmless", reply: good + "\nIf anything is unclear, just answer this mail.", label: .5},
		{class: "H listed", reply: "Hello " + given + ",\n- " + strings.Join(pieces.FindAllString(body, -1), "\n- "),
			label: .48, curt: true},
		{class: "L values", reply: strings.Join(valuesOf(t), ", "), label: .02, curt: true, unsendable: true},
		omission(t, a, good), mistake(t, a, good),
	}
	var out []specimen
	for k := range 3 {
		if s := all[(3*n+k+n/3)%len(all)]; s.reply != "" {
			out = append(out, s)
		}
	}
	return out
}

func valuesOf(t *scenarios.Ticket) (values []string) {
	for _, w := range t.Required() {
		values = append(values, w.Values[0])
	}
	return values
}

// checkable are the required facts whose values code finds in a message, each with a piece of the
// good reply that has it.
func checkable(t *scenarios.Ticket, a *assessment, good string) (ids, in []string) {
	for _, w := range t.Required() {
		if name, _ := facts.Find(w.What); name.Type == facts.Enum || name.Type == facts.Text {
			continue
		}
		for _, piece := range pieces.FindAllString(good, -1) {
			if a.Gold.StandsIn(w.ID, a.Message.Quote(piece)) {
				ids, in = append(ids, w.ID), append(in, piece)
				break
			}
		}
	}
	return ids, in
}

// omission leaves out the sentence of a fact, and is worth its share of what is left.
func omission(t *scenarios.Ticket, a *assessment, good string) specimen {
	ids, in := checkable(t, a, good)
	if len(ids) == 0 {
		return specimen{}
	}
	s := specimen{class: "B omission", reply: strings.ReplaceAll(good, in[0], "")}
	for i, id := range ids {
		if in[i] == in[0] {
			s.lost = append(s.lost, id)
		}
	}
	// Half of the facts are worth .19, and none is worth .01.
	if told := 1 - float64(len(s.lost))/float64(len(t.Required())); told >= .5 {
		s.label = .19 + (told-.5)*2*.31
	} else {
		s.label = .01 + told*2*.18
	}
	return s
}

// mistake changes the number of a fact, which misleads the customer.
func mistake(t *scenarios.Ticket, a *assessment, good string) specimen {
	ids, in := checkable(t, a, good)
	for i, id := range ids {
		wrong := digits.ReplaceAllStringFunc(in[i], func(d string) string { return d + "7" })
		if wrong != in[i] && !a.Gold.StandsIn(id, a.Message.Quote(wrong)) {
			s := specimen{class: "C mistake", reply: strings.Replace(good, in[i], wrong, 1), label: .13,
				kind: "harm-contradiction", harm: strings.TrimSpace(wrong)}
			for k, other := range ids {
				if in[k] == in[i] {
					s.lost = append(s.lost, other)
				}
			}
			return s
		}
	}
	return specimen{}
}

// reads answers a claim as a perfect reader of the specimen does, with a quote that bears it out.
func (s *specimen) reads(a *assessment, c claim) (verdict, quote string) {
	met := !s.empty
	switch {
	case c.Harm != nil:
		if c.Kind == s.kind {
			return grader.Met, s.harm
		}
		return grader.Unmet, ""
	case c.Fact != nil:
		met = met && !slices.Contains(s.lost, c.About)
	case c.Question != nil:
		met = met && !slices.ContainsFunc(c.Question.AnsweredBy,
			func(id string) bool { return slices.Contains(s.lost, id) })
	case c.Kind == handOver:
		met = met && a.judged.Actions.Ending == grader.Escalated
	case c.Kind == "empathy":
		met = !s.curt
	}
	sentences := sentenceEnd.Split(a.text, -1)
	for i, sentence := range sentences {
		for _, quote := range []string{sentence, strings.Join(sentences[i:min(i+2, len(sentences))], ". ")} {
			if met && a.refuse(c, quote) == "" {
				return grader.Met, quote
			}
		}
	}
	return grader.Unmet, ""
}

// TestPerfectReader lets a perfect reader judge replies whose worth is known by construction.
func TestPerfectReader(t *testing.T) {
	var graded []agreement.Graded
	for n, ticket := range tickets(t, 40) {
		c := grader.Case{Ticket: ticket, Actions: goldActions(ticket)}
		var s specimen
		var a *assessment
		j := directJudge(t, direct(func(asked call) string {
			asked.unsendable = s.unsendable
			at := -1
			return asked.answer(func(string) (string, string) { at++; return s.reads(a, a.claims[at]) })
		}), nil)
		c.Reply = ticket.References.Good[0]
		for _, s = range specimensOf(n, ticket, assess(j.rules, c)) {
			c.Reply = s.reply
			a = assess(j.rules, c)
			v, err := j.Judge(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			graded = append(graded, agreement.Graded{Points: float64(v.PostGate) / 1000,
				Reply: agreement.Reply{Scenario: ticket.ScenarioID, Class: s.class, Label: s.label, Text: s.reply}})
		}
	}
	f := agreement.Measure("perfect", graded, .375, 8)
	for _, g := range f.Classes {
		t.Logf("%-10s %3d replies, label %.3f, points %.3f, MAE %.3f", g.Name, g.Replies, g.Label, g.Points, g.MAE)
	}
	for _, w := range f.Worst {
		t.Logf("%s %s: label %.3f, points %.3f: %.300q", w.Scenario, w.Class, w.Label, w.Points, w.Text)
	}
	t.Logf("%d replies, rank correlation %.3f, mean absolute error %.3f", f.Replies, *f.All.Spearman, f.All.MAE)
	if *f.All.Spearman < .93 || f.All.MAE > .04 {
		t.Errorf("rank correlation %.3f, want at least .93; mean absolute error %.3f, want at most .04",
			*f.All.Spearman, f.All.MAE)
	}
}
