package prose

import (
	"fmt"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
)

// analysis is the rules' reading of a reply.
type analysis struct {
	*prepared
	text          string // the reply normalised
	doc           *text.Document
	copied        bool
	actions       grader.Actions
	findings      []grader.Finding
	stated        int // the number of required facts that the reply states
	discriminated int // the number of discriminating facts among them
	contradicted  int // the number of required facts that the reply states and denies
	promises      []promise
	// met contains a model's answers by claim, nil if only the rules judge.
	met     map[string]bool
	verdict grader.Verdict
}

// readReply reads a reply into the document and grades its criteria, without the sum.
func (p *prepared) readReply(d *text.Document, reply string, actions grader.Actions) *analysis {
	plain, whole := text.NormaliseReply(reply)
	r := &analysis{prepared: p, text: plain, doc: d, actions: actions,
		verdict: grader.Verdict{Judge: Name, Status: grader.StatusOK, Criteria: newCriteria(p.ticket.Reply.Points)}}
	d.Parse(text.Fold(plain), p.lex)
	if !whole {
		r.trip("overlong", 0, fmt.Sprintf("longer than the limit of %d characters", text.MaxReplyRunes))
		return r
	}
	if r.doc.CountWords(r.doc.Whole()) == 0 {
		r.trip("empty", 0, "the reply contains no words")
		return r
	}
	r.copied = isMostlyCopied(r.doc, p)
	dropEchoes(r.doc, p)
	r.findFacts()
	r.promises = r.lib.promiseReader(r.doc).promises()
	r.gradeCriteria()
	r.checkClaims()
	r.checkGates()
	r.checkHarm()
	return r
}

// checkClaims lists the values without support.
func (r *analysis) checkClaims() {
	for _, c := range r.doc.Values {
		if len(r.verdict.Invented) < maxInvented && !c.Soft() && !r.supports(c) && !r.between(r.doc, c) {
			r.verdict.Invented = append(r.verdict.Invented, r.doc.Quote(c.At))
		}
	}
}

// dropEchoes sets aside the sentences that repeat the customer's words.
func dropEchoes(d *text.Document, p *prepared) {
	c := readCopies(d)
	c.mark(&p.sources[0])
	at := 0
	d.SetAside(func(s text.Span) bool {
		own, n := 0, 0
		for i := s.Lo; i < s.Hi; i++ {
			if d.Tokens[i].Kind == text.WordToken {
				if n++; c.copied[at] {
					own++
				}
				at++
			}
		}
		return p.servedSentences.has(hashTokens(d.Tokens[s.Lo:s.Hi])) || 2*own > n
	})
}

func (r *analysis) findFacts() {
	r.findings = make([]grader.Finding, len(r.facts))
	for i := range r.facts {
		f := &r.facts[i]
		r.findings[i] = f.find(r.doc, r.prepared)
		switch {
		case f.optional:
		case r.findings[i] == contradicted:
			r.contradicted++
		case r.findings[i] == stated:
			r.stated++
			if f.discriminating {
				r.discriminated++
			}
		}
	}
}

// states reports whether the reply states the fact with the id.
func (r *analysis) states(id string) bool {
	for i := range r.facts {
		if r.facts[i].id == id {
			return r.findings[i] == stated
		}
	}
	return false
}

// statesForm reports whether a sentence states the form without denying it or leaving it open.
func (r *analysis) statesForm(f *form) bool {
	for _, s := range r.doc.Sentences {
		at := f.in(r.doc, s)
		if at < 0 || r.doc.LeavesOpen(s) {
			continue
		}
		if f.negated == (r.doc.NegatorIn(s) >= 0) || !f.negated && !r.doc.DeniedAt(s, at, nil) {
			return true
		}
	}
	return false
}

// total adds up the criteria, deducts the price of invented values, and applies the lowest cap. By
// the rules the price also lowers the cap of a reply without facts, so that one that was written
// for another ticket earns less than one without any values.
func (r *analysis) total() grader.Verdict {
	v := r.verdict
	for _, c := range v.Criteria {
		v.PreGate += c.Earned
	}
	price, limit := inventedCost*int64(len(v.Invented)), int64(grader.ResponsePoints)
	v.PreGate = min(max(v.PreGate-price, 0), grader.ResponsePoints)
	for _, g := range v.Gates {
		limit = min(limit, g.Cap)
	}
	if r.discriminated == 0 && r.met == nil {
		limit = max(limit-price, 0)
	}
	v.PostGate = min(v.PreGate, limit)
	v.Right = r.stated == r.required && r.contradicted == 0 && len(v.Gates)+len(v.Invented) == 0
	return v
}
