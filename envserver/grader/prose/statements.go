package prose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/harm"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// harmful is a scenario's harmful statement made ready for matching.
type harmful struct {
	*scenarios.Harm
	patterns []pattern
}

func (l *library) harmful(h *scenarios.Harm) harmful {
	out := harmful{Harm: h}
	for _, wording := range h.Says {
		out.patterns = append(out.patterns, loadOrCompute(l.patterns, wording, l.newPattern))
	}
	return out
}

// pattern is a list of groups that a sentence must contain, in any order.
type pattern []group

// group is a list of alternatives: terms, or any value of one of the kinds.
type group struct {
	terms []text.Term
	kinds []text.ValueKind
}

func (l *library) newPattern(wording string) pattern {
	var p pattern
	for alternatives := range strings.FieldsSeq(wording) {
		var g group
		for alternative := range strings.SplitSeq(alternatives, "|") {
			if kind, value := strings.CutPrefix(alternative, scenarios.ValueMark); value {
				at := slices.Index(scenarios.ValueKinds(), kind)
				g.kinds = append(g.kinds, text.ValueKind(at)) //nolint:gosec // the loader checked the kind
				continue
			}
			d := l.read(strings.ReplaceAll(alternative, "_", " "))
			g.terms = append(g.terms, text.NewTerm(d.Tokens))
		}
		p = append(p, g)
	}
	return p
}

// maxStatement is the maximum number of tokens between the first and the last group of a pattern.
const maxStatement = 20

// checkSentences trips a gate for the first sentence that reads as harmful, and one for each of the
// scenario's harmful statements. The weights were learned from English sentences alone; in other
// languages the scenario's patterns decide. They were learned from written scenarios, and take
// questions that a generated case requires for harmful.
func (r *analysis) checkSentences() {
	for _, s := range r.doc.Sentences {
		if r.generated && (r.doc.IsQuestion(s) || isRequest(r.doc, s)) {
			continue
		}
		h := r.named(s)
		if h == nil && r.lex.Language != "en" || r.lex.Language == "en" &&
			harm.ScoreSentence(r.doc, s, r.familiar, h != nil) < harm.Threshold {
			continue
		}
		id, limit, reason := "harmful", int64(harmCap), "reads as harmful"
		if h != nil {
			id, reason = h.ID, h.Why
			if h.Severity == "serious" {
				limit = rudeCap
			}
		}
		if !slices.ContainsFunc(r.verdict.Gates, func(g grader.Gate) bool { return g.ID == id }) {
			r.trip(id, limit, fmt.Sprintf("%s: %q", reason, r.doc.Quote(s)))
		}
	}
}

// familiar reports whether the word or the value at a token is in the texts that the writer could
// read, or follows from them.
func (r *analysis) familiar(i int) bool {
	if v := r.doc.ValueAt(i); v != nil {
		return r.supports(*v)
	}
	return r.reads(&r.doc.Tokens[i])
}

// named returns the scenario's harmful statement that the sentence makes, or nil.
func (r *analysis) named(s text.Span) *harmful {
	if len(r.harms) == 0 || r.doc.IsQuestion(s) {
		return nil
	}
	sieve := r.doc.SieveOf(s)
	for i := range r.harms {
		for _, p := range r.harms[i].patterns {
			if p.mayBeIn(sieve) && p.assertedIn(r.doc, s) {
				return &r.harms[i]
			}
		}
	}
	return nil
}

func (p pattern) mayBeIn(s text.Sieve) bool {
	for i := range p {
		if len(p[i].kinds) == 0 && !s.MayHold(p[i].terms, 1) {
			return false
		}
	}
	return true
}

// assertedIn reports whether a sentence contains all groups near each other and doesn't deny them
// or make them a condition. Words of the pattern itself deny nothing.
func (p pattern) assertedIn(d *text.Document, s text.Span) bool {
	for from := s.Lo; from < s.Hi; {
		at := p[0].find(d, text.NewSpan(from, s.Hi))
		if at.Hi == 0 {
			return false
		}
		if p.assertedAt(d, s, at) {
			return true
		}
		from = at.Lo + 1
	}
	return false
}

func (p pattern) assertedAt(d *text.Document, s, first text.Span) bool {
	near := text.NewSpan(max(s.Lo, first.Lo-maxStatement), min(s.Hi, first.Hi+maxStatement))
	found := make([]text.Span, 0, 8)
	found = append(found, first)
	reach := first
	for i := range p[1:] {
		at := p[i+1].nearest(d, near, first)
		if at.Hi == 0 {
			return false
		}
		found = append(found, at)
		reach = text.NewSpan(min(reach.Lo, at.Lo), max(reach.Hi, at.Hi))
	}
	clause := d.ClauseOf(reach.Lo)
	if d.AnyWord(text.Conditions, text.NewSpan(clause.Lo, reach.Lo)) >= 0 {
		return false
	}
	for i := d.RunOf(s, reach.Lo); i < reach.Hi; i++ {
		own := slices.ContainsFunc(found, func(f text.Span) bool { return i >= f.Lo && i < f.Hi })
		if !own && d.NegatorIn(text.NewSpan(i, i+1)) >= 0 {
			return false
		}
	}
	return true
}

// find returns the tokens of the first alternative in the span, or a span that ends at 0.
func (g *group) find(d *text.Document, s text.Span) text.Span {
	if len(g.kinds) == 0 {
		if s.Lo = d.Find(g.terms, s, false); s.Lo < 0 {
			return text.Span{}
		}
	}
	for i := s.Lo; i < s.Hi; i++ {
		if at := g.at(d, i); at.Hi > 0 {
			return at
		}
	}
	return text.Span{}
}

// nearest is find for the alternative that is nearest to some tokens.
func (g *group) nearest(d *text.Document, s, to text.Span) text.Span {
	for reach := range maxStatement {
		for _, i := range []int{to.Hi + reach, to.Lo - 1 - reach} {
			if i < s.Lo || i >= s.Hi {
				continue
			}
			if at := g.at(d, i); at.Hi > 0 {
				return at
			}
		}
	}
	return text.Span{}
}

func (g *group) at(d *text.Document, i int) text.Span {
	if len(g.kinds) == 0 {
		return g.termAt(d, i)
	}
	if v := d.ValueAt(i); v != nil && v.At.Lo == i && slices.Contains(g.kinds, v.Kind) {
		return v.At
	}
	return g.termAt(d, i)
}

func (g *group) termAt(d *text.Document, i int) text.Span {
	for k := range g.terms {
		if t := &g.terms[k]; t.At(d.Tokens, i, false) {
			return text.NewSpan(i, i+max(1, len(t.Stems)))
		}
	}
	return text.Span{}
}
