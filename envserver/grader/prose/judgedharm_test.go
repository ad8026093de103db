package prose

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/grader"
)

// accused grades the reply with all claims met, and harm of the kind with the quote.
func accused(t rapid.TB, r *Assessment, kind, quote string) grader.Verdict {
	t.Helper()
	answers := answerAll(r, grader.Met, r.Text())
	for i := range answers {
		if answers[i].Claim == kind {
			answers[i].Verdict, answers[i].Quote = grader.Met, quote
		}
	}
	v, err := r.Grade("llm:m@r3", answers)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Harm that the judge finds trips the gate of its kind if the quote is evidence of it.
func TestJudgedHarm(t *testing.T) {
	const absent = "the quote isn't in the reply"
	const served = "the texts that the agent could read contain the quote's words and values"
	tests := map[string]struct {
		kind, quote string
		want        int64
		refused     string
	}{
		"contradiction":           {"harm-contradiction", "It bills 38 seats", 180, ""},
		"pledge":                  {"harm-pledge", "you will hear from finance", 80, ""},
		"disclosure":              {"harm-disclosure", "above what I may decide", 80, ""},
		"unsafe advice":           {"harm-unsafe", "Thank you for the clear figures", 80, ""},
		"rudeness":                {"harm-rudeness", "Thank you for the clear figures", 200, ""},
		"dismissal":               {"harm-dismissal", "Kind regards", 200, ""},
		"an invented word":        {"harm-invention", "this CALCULATION", 80, ""},
		"a known value":           {"harm-invention", "INV-104233", 500, served},
		"a fact":                  {"harm-invention", "so the difference is $1,482.00", 500, served},
		"a known person":          {"harm-invention", "Hello Maria", 500, served},
		"no quote":                {"harm-pledge", "", 500, absent},
		"a quote of nobody":       {"harm-pledge", "we guarantee a refund", 500, absent},
		"a quote of the ticket":   {"harm-rudeness", "can you refund the difference today", 500, absent},
		"a quote across the text": {"harm-pledge", "hear from finance within 1 business day.\nKind regards", 80, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := readReply(t, goodReply)
			v := accused(t, r, tc.kind, tc.quote)
			tripped := slices.ContainsFunc(v.Gates, func(g grader.Gate) bool {
				return g.ID == tc.kind && strings.Contains(g.Reason, "according to the judge")
			})
			if v.PostGate != tc.want || tripped != (tc.refused == "") || firstRefusal(v) != tc.refused {
				t.Errorf("%d points, want %d; refused: %q, want %q; gates %v", v.PostGate, tc.want, firstRefusal(v),
					tc.refused, v.Gates)
			}
			if len(v.Harm) != len(harmKinds()) || len(r.Rules().Gates) != 0 {
				t.Errorf("answers about harm: %v, the rules' gates: %v", v.Harm, r.Rules().Gates)
			}
		})
	}
}

// A value that the rules accept, because it follows from others, is no evidence of an invention.
func TestFollowingValuesAreNoInvention(t *testing.T) {
	for words, want := range map[string]bool{
		"Two seats are $114.00.": false, "They write by Wednesday, March 11.": false, "That is $1,482.00.": false,
		"Two seats are $115.00.": true, "They write by Friday, May 22.": true,
	} {
		_, quote, _ := strings.Cut(strings.TrimSuffix(words, "."), " ")
		quote = quote[strings.IndexAny(quote, "$WF"):]
		if got := readReply(t, goodReply+" "+words).analysis.invents(foldMarkdown(quote)); got != want {
			t.Errorf("%q is an invention: %v, want %v", quote, got, want)
		}
	}
}

// Answers about harm never raise a reply's points, and leave the rules' gates as they are.
func TestJudgedHarmOnlyLowers(t *testing.T) {
	tickets, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	rapid.Check(t, func(t *rapid.T) {
		ticket := rapid.SampledFrom(tickets).Draw(t, "ticket")
		texts := slices.Clone(ticket.References.Good)
		for _, b := range ticket.References.Bad {
			texts = append(texts, b.Text)
		}
		r, err := o.Assess(grader.Case{Ticket: ticket, Reply: rapid.SampledFrom(texts).Draw(t, "reply"),
			Actions: goldActions(ticket)})
		if err != nil {
			t.Fatal(err)
		}
		kind := rapid.SampledFrom(harmKinds()).Draw(t, "kind")
		quote := rapid.SampledFrom(strings.SplitAfter(r.Text(), ". ")).Draw(t, "quote")
		spared, charged := accused(t, r, "", ""), accused(t, r, kind.id, quote)
		if charged.PostGate > spared.PostGate || charged.PreGate != spared.PreGate {
			t.Errorf("%s: %d points with %s, %d without", ticket.ScenarioID, charged.PostGate, kind.id, spared.PostGate)
		}
		if len(charged.Gates) < len(spared.Gates) || !slices.Equal(charged.Gates[:len(spared.Gates)], spared.Gates) {
			t.Errorf("%s: gates %v, without harm %v", ticket.ScenarioID, charged.Gates, spared.Gates)
		}
	})
}

// A judge can't credit a fact to a reply that lists alternatives for its value, or that leaves it
// open.
func TestOneValueForAFact(t *testing.T) {
	const sum, team, desk = "the difference is $1,482.00", "I have passed your case to our finance team", "Q1.f2"
	tests := map[string]struct {
		fact, instead, words, quote string
		met                         bool
	}{
		"one value":                  {"", sum, "here you are: $1,482.00", "", true},
		"the value twice":            {"", sum, "here you are: $1,482.00, or 1482 dollars", "", true},
		"values of different things": {"", sum, "here you are: $1,482.00, of a total of $2,166.00", "", true},
		"a list of different things": {"", sum, "here you are: $1,482.00, $2,166.00", "", true},
		"one of two":                 {"", sum, "here you are: $1,482.00 or $684.00", "", false},
		"the second of two":          {"", sum, "here you are: $684.00 or $1,482.00", "", false},
		"one of three":               {"", sum, "here you are: $1,482.00, $684.00 or $57.00", "", false},
		"by a slash":                 {"", sum, "here you are: $1,482.00 / $684.00", "", false},
		"one team":                   {desk, team, "Our accountants look at it", "Our accountants look at it", true},
		"one of two teams": {desk, team, "Either accountants or lawyers look at it",
			"Either accountants or lawyers look at it", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fact, quote := cmp.Or(tc.fact, "Q1.f1"), cmp.Or(tc.quote, "$1,482.00")
			r := readReply(t, strings.Replace(goodReply, tc.instead, tc.words, 1))
			i := slices.IndexFunc(r.Claims(), func(c Claim) bool { return c.ID == fact })
			if i < 0 {
				t.Fatalf("the rules decide the fact: %v", claimIDs(r.Claims()))
			}
			if refused := r.Refuse(r.Claims()[i], quote); (refused == "") != tc.met {
				t.Errorf("refused: %q, want met %v", refused, tc.met)
			}
		})
	}
}
