package prose

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
)

// gradeCriteria fills in Q1 to Q8.
func (r *analysis) gradeCriteria() {
	for i, grade := range []func() (earned, offered int64, reason string){
		r.gradeFacts, r.gradeOutcome, r.gradeQuestions, r.gradeTime, r.gradeTone, r.gradeShape, r.gradeAddress,
		r.gradeConsistency,
	} {
		c := &r.verdict.Criteria[i]
		earned, offered, reason := grade()
		if offered > 0 {
			c.Earned = c.Offered * min(max(earned, 0), offered) / offered
		}
		c.Reason = reason
	}
}

// gradeFacts (Q1) divides the points among the required facts.
func (r *analysis) gradeFacts() (earned, offered int64, reason string) {
	var missed []string
	for i := range r.facts {
		if !r.facts[i].optional && r.findings[i] != stated {
			missed = append(missed, r.facts[i].id+" "+r.findings[i].String())
		}
	}
	return int64(r.stated), int64(r.required), strings.Join(missed, ", ")
}

// gradeOutcome (Q2) requires the next step, and pays it in proportion to the facts that make it up.
func (r *analysis) gradeOutcome() (earned, offered int64, reason string) {
	facts := r.ticket.Reply.Outcome.Facts
	offered = int64(1 + len(facts))
	if !r.statesOutcome() {
		return 0, offered, "the next step isn't stated"
	}
	var missed []string
	for _, id := range facts {
		if !r.states(id) {
			missed = append(missed, id)
		}
	}
	switch {
	case len(missed) == 0:
		return offered, offered, ""
	case len(missed) == len(facts):
		return 0, offered, "the next step lacks its facts " + strings.Join(missed, ", ")
	}
	return offered - int64(len(missed)), offered, "the next step lacks fact " + strings.Join(missed, ", ")
}

// statesOutcome reports whether the reply states the next step: by one of its phrasings, by all
// facts, by a due hand-over, or according to the judge of language.
func (r *analysis) statesOutcome() bool {
	switch {
	case r.met != nil:
		return r.met["Q2"]
	case len(r.outcome) == 0:
		return r.stated > 0
	case r.stated == r.required,
		r.ticket.Gold.Escalate && len(r.ticket.Reply.Outcome.Facts) > 0 && handedOver(r.doc, r.prepared, true):
		return true
	}
	return slices.ContainsFunc(r.outcome, func(f form) bool { return r.statesForm(&f) })
}

// gradeQuestions (Q3) pays half a question if some of its answer's facts are stated, and all of it
// if all are and a judge of language, if there is one, agrees.
func (r *analysis) gradeQuestions() (earned, offered int64, reason string) {
	questions := r.ticket.Reply.Questions
	if len(questions) == 0 {
		return int64(r.stated), int64(r.required), ""
	}
	var open []string
	for _, q := range questions {
		n := 0
		for _, id := range q.AnsweredBy {
			if r.states(id) {
				n++
			}
		}
		agreed := n > 0
		if r.met != nil {
			agreed = r.met["Q3."+q.ID]
		}
		switch {
		case agreed && n == len(q.AnsweredBy):
			earned += 2
		case n > 0:
			earned++
			fallthrough
		default:
			open = append(open, q.ID)
		}
	}
	if len(open) > 0 {
		reason = "not answered in full: " + strings.Join(open, ", ")
	}
	return earned, 2 * int64(len(questions)), reason
}

// gradeTime (Q4) requires one of the facts that state a time or an owner. If the scenario has none,
// a supported time is enough, or all of its facts.
func (r *analysis) gradeTime() (earned, offered int64, reason string) {
	timed, met := false, false
	for i := range r.facts {
		if !r.facts[i].timed() {
			continue
		}
		timed = true
		met = met || r.findings[i] == stated
		if r.findings[i] == contradicted {
			return 0, 1, "contradicts itself about " + r.facts[i].id
		}
	}
	if met || !timed && r.stated > 0 && (r.stated == r.required || r.supportedTime()) {
		return 1, 1, ""
	}
	return 0, 1, "states no time frame or owner"
}

func (r *analysis) supportedTime() bool {
	return slices.ContainsFunc(r.doc.Values, func(c text.Value) bool {
		return c.Timed() && r.supports(c)
	})
}

// gradeTone (Q5) requires that the reply acknowledges the customer's situation and doesn't blame
// the customer.
func (r *analysis) gradeTone() (earned, offered int64, reason string) {
	switch {
	case r.doc.AnyPhrase(text.Blame, r.doc.Whole()):
		return 0, 1, "blames the customer"
	case hasPlaceholder(r.doc.Text):
		return 0, 1, "contains a placeholder"
	case !hasAcknowledgement(r.doc, r.prepared) && r.upset:
		return 1, 2, "doesn't acknowledge the situation"
	}
	return 1, 1, ""
}

// gradeShape (Q6) deducts points linearly between the maximum length and twice that length, and
// below half of the minimum length, for which only relevant words count.
func (r *analysis) gradeShape() (earned, offered int64, reason string) {
	lo, hi := int64(r.ticket.Reply.MinWords), int64(r.ticket.Reply.MaxWords)
	n := int64(r.doc.CountWords(r.doc.Whole()))
	if utf8.RuneCountInString(r.doc.Text) > text.MaxMessageRunes {
		return 0, 1, fmt.Sprintf("longer than %d characters", text.MaxMessageRunes)
	}
	if hasPlaceholder(r.doc.Text) {
		return 0, 1, "contains a placeholder"
	}
	if hi > 0 && n > hi {
		return 2*hi - n, hi, fmt.Sprintf("%d words, at most %d wanted", n, hi)
	}
	if relevant := int64(relevantWords(r.doc, r.prepared)); 2*relevant < lo {
		return 2 * relevant, lo, fmt.Sprintf("%d words to the point, about %d wanted", relevant, lo)
	}
	return 1, 1, ""
}

// gradeAddress (Q7) requires the customer's language without placeholders, and for its second half
// the customer's name.
func (r *analysis) gradeAddress() (earned, offered int64, reason string) {
	switch {
	case !r.doc.InLanguage():
		return 0, 2, "not in the customer's language"
	case hasPlaceholder(r.doc.Text):
		return 0, 2, "contains a placeholder"
	case !hasSalutation(r.doc, r.names):
		return 1, 2, "doesn't address the customer by name"
	}
	return 2, 2, ""
}

// gradeConsistency (Q8) requires that the reply mentions a hand-over if and only if there was one.
func (r *analysis) gradeConsistency() (earned, offered int64, reason string) {
	switch escalated := r.actions.Ending == grader.Escalated; {
	case !escalated && handedOver(r.doc, r.prepared, true):
		return 0, 1, "mentions a hand-over that didn't happen"
	case escalated && !handedOver(r.doc, r.prepared, false):
		return 0, 1, "doesn't mention the hand-over"
	}
	return 1, 1, ""
}

// greeting is the number of tokens within which the customer has to be addressed. A later name may
// be a quoted signature.
const greeting = 12

// hasSalutation reports whether the reply begins by addressing the customer by name.
func hasSalutation(d *text.Document, names wordSet) bool {
	return slices.ContainsFunc(d.Tokens[:min(greeting, len(d.Tokens))],
		func(t text.Token) bool { return t.Kind == text.WordToken && names.has(t.Text) })
}

// hasPlaceholder reports whether the reply contains a placeholder of a template: {name}, [NAME],
// <order id>, XXXX.
func hasPlaceholder(reply string) bool {
	return strings.Contains(reply, "{{") || strings.Contains(reply, "xxxx") || strings.Contains(reply, "____") ||
		hasBracketed(reply, '{', '}') || hasBracketed(reply, '[', ']') || hasBracketed(reply, '<', '>')
}

// maxGap is the maximum length of a placeholder.
const maxGap = 40

// hasBracketed reports whether a short text that starts with a letter is between the marks.
func hasBracketed(reply string, left, right byte) bool {
	for {
		i := strings.IndexByte(reply, left)
		if i < 0 {
			return false
		}
		reply = reply[i+1:]
		j := strings.IndexByte(reply, right)
		if j > 0 && j <= maxGap && text.CountLetters(reply) > 0 && !strings.Contains(reply[:j], "@") &&
			!strings.HasPrefix(reply, "http") {
			return true
		}
	}
}

// hasAcknowledgement reports whether a sentence of the reply acknowledges the customer's situation:
// an apology or empathy, or thanks if the customer isn't upset. A courtesy that fits every ticket
// doesn't count.
func hasAcknowledgement(d *text.Document, p *prepared) bool {
	courtesies := text.Apology
	if !p.upset {
		courtesies |= text.Thanks
	}
	return slices.ContainsFunc(d.Sentences, func(s text.Span) bool {
		return d.AnyStem(text.Empathy, s) >= 0 || d.AnyPhrase(text.Recognise, s) ||
			d.AnyStem(courtesies, s) >= 0 && !isCourtesyOnly(d, s, p)
	})
}

// isCourtesyOnly reports whether a sentence contains only courtesies.
func isCourtesyOnly(d *text.Document, s text.Span, p *prepared) bool {
	for _, t := range d.Tokens[s.Lo:s.Hi] {
		switch {
		case t.Kind == text.PunctToken, t.Is(text.Stopwords | text.Articles), p.names.has(t.Text):
		case t.StemIs(text.Courtesy | text.Apology | text.Thanks | text.Empathy):
		default:
			return false
		}
	}
	return true
}

// relevantWords counts the words of the distinct relevant sentences.
func relevantWords(d *text.Document, p *prepared) int {
	n := 0
	seen := map[uint64]bool{}
	for _, s := range d.Sentences {
		if !isRelevant(d, s, p) {
			continue
		}
		if h := hashTokens(d.Tokens[s.Lo:s.Hi]); !seen[h] {
			seen[h] = true
			n += d.CountWords(s)
		}
	}
	return n
}

// isRelevant reports whether the span states a value, or at least two of its words are about the
// ticket.
func isRelevant(d *text.Document, s text.Span, p *prepared) bool {
	n := 0
	for i := s.Lo; i < s.Hi && n < 2; i++ {
		if d.Tokens[i].Kind == text.WordToken && p.topic.has(d.Tokens[i].KeyHash()) {
			n++
		}
	}
	return n == 2 || len(d.ValuesWithin(s)) > 0
}

func hashTokens(tokens []text.Token) uint64 {
	h := uint64(0)
	for i := range tokens {
		if tokens[i].Kind != text.PunctToken {
			h = h*1099511628211 ^ tokens[i].Hash()
		}
	}
	return h
}

// handedOver reports whether the reply states that the ticket goes to a team: by a verb of handing
// over or, unless plain is set, by the name of the right team.
func handedOver(d *text.Document, p *prepared, plain bool) bool {
	clauses := d.Clauses()
	for i := range clauses {
		c := clauses[i].Span
		named := d.Find(p.teams, c, false) >= 0
		given := d.AnyStem(text.Handover, c) >= 0 && (named || d.AnyStem(text.Teams, c) >= 0)
		given = given || d.AnyPhrase(text.Handed, c) && p.namesTeam(d)
		if !given && (plain || !named) {
			continue
		}
		s := d.SentenceOf(c.Lo)
		if d.NegatorIn(text.NewSpan(d.RunOf(s, c.Lo), c.Hi)) < 0 &&
			d.AnyWord(text.Conditions, text.NewSpan(d.PartOf(s, c.Lo), c.Hi)) < 0 && !d.LeavesOpen(s) {
			return true
		}
	}
	return false
}

// namesTeam reports whether the reply names a team that the ticket may go to, which "them" may
// refer to.
func (p *prepared) namesTeam(d *text.Document) bool {
	whole := d.Whole()
	return d.Find(p.teams, whole, false) >= 0 || d.AnyStem(text.Teams, whole) >= 0
}
