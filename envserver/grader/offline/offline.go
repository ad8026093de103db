package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// OfflineName is the scale of the offline judge's verdicts.
const Name = "offline-v2"

const (
	// unsupportedCap bounds replies that state no required fact, promise what is forbidden or
	// invented, or are copied or stuffed: style alone never pays.
	unsupportedCap = 100
	// inventedCost is what each value costs that nothing the agent could read supports.
	inventedCost = 50
	// maxPrepared is how many tickets a judge keeps ready.
	maxPrepared = 256
)

// Offline judges a reply by matching: facts bound to the ticket's values, promises, invented
// values, copies, stuffing and form. It can't recognise every free paraphrase and doesn't judge
// tact, so it under-scores people; its scale is its own and never mixed with a model's.
type Judge struct {
	libraries map[string]*library

	// ready holds the tickets that were judged last.
	ready *lru.Cache[*scenarios.Ticket, *prepared]
}

var _ grader.Judge = (*Judge)(nil)

// NewOffline makes an offline judge. Making one reads the lexicons, so share it.
func New() *Judge {
	return &Judge{libraries: newLibraries(), ready: newCache[*scenarios.Ticket, *prepared](maxPrepared)}
}

// Name is OfflineName.
func (*Judge) Name() string {
	return Name
}

// Judge grades the reply. It never blocks, ignores the context and fails only without a ticket.
func (o *Judge) Judge(_ context.Context, c grader.Case) (grader.Verdict, error) {
	if c.Ticket == nil {
		return grader.Verdict{Judge: Name, Status: grader.StatusError, Cause: grader.CauseFailed},
			errors.New("judging a reply: the case has no ticket")
	}
	return o.prepared(c.Ticket).judge(c.Reply, c.Actions), nil
}

// prepared returns the ticket made ready.
func (o *Judge) prepared(t *scenarios.Ticket) *prepared {
	return cached(o.ready, t, func(t *scenarios.Ticket) *prepared { return prepare(t, o.libraries) })
}

// reading is a reply as the judge has read it.
type analysis struct {
	*prepared
	// text is the reply normalised.
	text     string
	doc      *document
	copied   bool
	actions  grader.Actions
	findings []finding
	// stated counts the required facts that the reply states.
	stated int
	// found counts the key facts among them.
	found int
	// contradicted counts the required facts that the reply states and takes back.
	contradicted int
	promises     []promise
	verdict      grader.Verdict
}

// judge grades one reply to the ticket.
func (p *prepared) judge(reply string, actions grader.Actions) grader.Verdict {
	return p.readReply(reply, actions).total()
}

// readReply reads one reply to the ticket, for everything but the sum.
func (p *prepared) readReply(reply string, actions grader.Actions) *analysis {
	text, whole := bounded(reply)
	r := &analysis{prepared: p, text: text, actions: actions, verdict: grader.Verdict{Judge: Name, Status: grader.StatusOK,
		Criteria: offers(p.ticket.Reply.Points)}}
	r.doc = parse(fold(text), p.lex)
	if !whole {
		r.trip("overlong", 0, fmt.Sprintf("longer than the %d characters that are read", maxReplyRunes))
		return r
	}
	if r.doc.words(span{0, len(r.doc.tokens)}) == 0 {
		r.trip("empty", 0, "the reply holds no words")
		return r
	}
	r.copied = copied(r.doc, p)
	dropEchoes(r.doc, p)
	r.findFacts()
	r.promises = r.lib.promiseReader(r.doc).promises()
	r.gradeCriteria()
	r.checkClaims()
	r.checkGates()
	return r
}

// findFacts looks for every fact.
func (r *analysis) findFacts() {
	r.findings = make([]finding, len(r.facts))
	for i := range r.facts {
		r.findings[i] = r.facts[i].find(r.doc, r.prepared)
		r.count(&r.facts[i], r.findings[i])
	}
}

// count adds a required fact's finding up.
func (r *analysis) count(f *fact, found finding) {
	switch {
	case f.optional:
	case found == contradicted:
		r.contradicted++
	case found == stated:
		r.stated++
		if f.key {
			r.found++
		}
	}
}

// states tells whether the reply states the fact of the id.
func (r *analysis) states(id string) bool {
	for i := range r.facts {
		if r.facts[i].id == id {
			return r.findings[i] == stated
		}
	}
	return false
}

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

// gradeFacts (Q1) shares the points among the required facts.
func (r *analysis) gradeFacts() (earned, offered int64, reason string) {
	var missed []string
	for i := range r.facts {
		if !r.facts[i].optional && r.findings[i] != stated {
			missed = append(missed, r.facts[i].id+" "+r.findings[i].String())
		}
	}
	return int64(r.stated), int64(r.required), strings.Join(missed, ", ")
}

// gradeOutcome (Q2) wants the facts that make up the next step, and one of its phrasings.
func (r *analysis) gradeOutcome() (earned, offered int64, reason string) {
	for _, id := range r.ticket.Reply.Outcome.Facts {
		if !r.states(id) {
			return 0, 1, "the next step lacks fact " + id
		}
	}
	if len(r.outcome) == 0 {
		return min(int64(r.stated), 1), 1, ""
	}
	for i := range r.outcome {
		if r.statesForm(&r.outcome[i]) {
			return 1, 1, ""
		}
	}
	// Whoever states everything, and hands over what has to be, has named the next step in words of
	// their own.
	if r.stated == r.required || r.ticket.Gold.Escalate && len(r.ticket.Reply.Outcome.Facts) > 0 &&
		handedOver(r.doc, r.prepared, true) {
		return 1, 1, ""
	}
	return 0, 1, "the next step isn't named"
}

// statesForm tells whether a sentence states the form without denying it or leaving it open.
func (r *analysis) statesForm(f *form) bool {
	for _, s := range r.doc.sentences {
		at := f.in(r.doc, s)
		if at < 0 || open(r.doc, s) {
			continue
		}
		if f.negated == (r.doc.negatorIn(s) >= 0) || !f.negated && !deniedAt(r.doc, s, at, nil) {
			return true
		}
	}
	return false
}

// gradeQuestions (Q3) pays half a question for some of its answer's facts and all of it for all.
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
		switch {
		case n > 0 && n == len(q.AnsweredBy):
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

// gradeTime (Q4) wants one of the facts that say when or who. Where the scenario has none, a
// supported time will do, or all of its facts: the matter is settled then.
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
	return 0, 1, "no time frame or owner"
}

func (r *analysis) supportedTime() bool {
	for _, c := range r.doc.claims {
		if (c.kind == durationClaim || c.kind == dateClaim || c.kind == clockClaim) && r.supports(c) {
			return true
		}
	}
	return false
}

// gradeTone (Q5) wants the customer's situation taken up, and nobody blamed.
func (r *analysis) gradeTone() (earned, offered int64, reason string) {
	switch {
	case r.doc.anyPhrase(Blame, span{0, len(r.doc.tokens)}):
		return 0, 1, "blames the customer"
	case placeholder(r.doc.text):
		return 0, 1, "a placeholder is left"
	case !acknowledges(r.doc, r.prepared):
		return 0, 1, "doesn't acknowledge the situation"
	}
	return 1, 1, ""
}

// gradeShape (Q6) loses points evenly from the longest good length to twice as much, and below half
// of the shortest one, where only words to the point count.
func (r *analysis) gradeShape() (earned, offered int64, reason string) {
	lo, hi := int64(r.ticket.Reply.MinWords), int64(r.ticket.Reply.MaxWords)
	n := int64(r.doc.words(span{0, len(r.doc.tokens)}))
	if utf8.RuneCountInString(r.doc.text) > maxMessageRunes {
		return 0, 1, fmt.Sprintf("longer than %d characters", maxMessageRunes)
	}
	if placeholder(r.doc.text) {
		return 0, 1, "a placeholder is left"
	}
	if hi > 0 && n > hi {
		return 2*hi - n, hi, fmt.Sprintf("%d words, at most %d wanted", n, hi)
	}
	if relevant := int64(relevantWords(r.doc, r.prepared)); 2*relevant < lo {
		return 2 * relevant, lo, fmt.Sprintf("%d words to the point, about %d wanted", relevant, lo)
	}
	return 1, 1, ""
}

// gradeAddress (Q7) wants the customer's language, no gaps of a template, and for its second half
// the customer's name.
func (r *analysis) gradeAddress() (earned, offered int64, reason string) {
	switch {
	case !rightLanguage(r.doc):
		return 0, 2, "not in the customer's language"
	case placeholder(r.doc.text):
		return 0, 2, "a placeholder is left"
	case !addressed(r.doc, r.names):
		return 1, 2, "doesn't name the customer"
	}
	return 2, 2, ""
}

// gradeConsistency (Q8) wants the reply to tell of a hand-over exactly when there was one.
func (r *analysis) gradeConsistency() (earned, offered int64, reason string) {
	switch escalated := r.actions.Ending == grader.Escalated; {
	case !escalated && handedOver(r.doc, r.prepared, true):
		return 0, 1, "speaks of a hand-over that didn't happen"
	case escalated && !handedOver(r.doc, r.prepared, false):
		return 0, 1, "doesn't tell of the hand-over"
	}
	return 1, 1, ""
}

// maxInvented is how many invented values are listed. Together they cost all that a reply can earn.
const maxInvented = grader.ResponsePoints / inventedCost

// checkClaims lists the values that nothing supports, and gates a promise that is made of one.
func (r *analysis) checkClaims() {
	promised := false
	for _, c := range r.doc.claims {
		if c.soft() || r.supports(c) {
			continue
		}
		if len(r.verdict.Invented) < maxInvented {
			r.verdict.Invented = append(r.verdict.Invented, r.quote(c.at))
		}
		if !promised && r.promisedIn(r.doc.sentenceOf(c.at.lo)) {
			promised = true
			r.trip("invented-promise", unsupportedCap, fmt.Sprintf("promises %q, which nothing supports",
				r.quote(c.at)))
		}
	}
}

// promisedIn tells whether the sentence promises a remedy. Promises are in order.
func (r *analysis) promisedIn(s span) bool {
	_, found := slices.BinarySearchFunc(r.promises, s.lo, func(p promise, lo int) int { return p.sentence.lo - lo })
	return found
}

// quote spells a span of the reply out.
func (r *analysis) quote(s span) string {
	var b strings.Builder
	for i, t := range r.doc.tokens[s.lo:s.hi] {
		if i > 0 && !t.glued {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// trip records a gate.
func (r *analysis) trip(id string, limit int64, reason string) {
	r.verdict.Gates = append(r.verdict.Gates, grader.Gate{ID: id, Cap: limit, Reason: reason})
}

// noFacts is the gate on replies that state no fact of the ticket.
const noFacts = "no-facts"

// factless is the cap on a reply that states nothing of this ticket's own: the less of what the
// customer wrote and an article says it takes up, the lower.
func (r *analysis) factless() int64 {
	const least = 20
	return least + min((unsupportedCap-least)*2*int64(r.stated)/int64(max(r.required, 1)), unsupportedCap-least)
}

// checkGates trips the gates that every ticket has, then the scenario's own.
func (r *analysis) checkGates() {
	if phrase := r.aimedAtGrader(r.doc); phrase != "" {
		r.trip("aimed-at-grader", 0, fmt.Sprintf("%q speaks to whoever grades", phrase))
	}
	if r.found == 0 {
		r.trip(noFacts, r.factless(), "states no required fact that is this ticket's own and not the customer's words")
	}
	for _, g := range []struct {
		tripped    bool
		id, reason string
	}{
		{2*r.contradicted >= max(r.required, 2), "contradictory",
			"takes back or leaves open half of what it has to state"},
		{r.copied, "copied", "more than half of it stands in the ticket, an article or the rubric"},
		{monotonous(r.doc), "monotonous", "repeats itself"},
		{dense(r.doc, r.prepared), "stuffed", "strings together what the rubric looks for"},
		{verbless(r.doc, r.prepared, 2*r.stated >= r.required), "verbless", "isn't made of sentences"},
	} {
		if g.tripped {
			r.trip(g.id, unsupportedCap, g.reason)
		}
	}
	for i := range r.gates {
		if reason := r.tripped(&r.gates[i]); reason != "" {
			r.trip(r.gates[i].ID, r.gates[i].Cap, reason)
		}
	}
}

// tripped says why the reply trips one of the scenario's gates, "" when it doesn't.
func (r *analysis) tripped(g *gate) string {
	switch g.Kind {
	case "commitment":
		return r.promisedOf(g)
	case "amount_not_in":
		for _, c := range r.doc.claims {
			if c.kind == moneyClaim && !containsClaim(g.allowed, c) {
				return "names the amount " + r.quote(c.at)
			}
		}
	case "disclosure":
		for i := range g.values {
			if r.discloses(&g.values[i]) {
				return fmt.Sprintf("discloses %q", g.Values[i])
			}
		}
	case "missing_safety":
		for i := range g.values {
			if r.statesForm(&g.values[i]) {
				return ""
			}
		}
		return "lacks the safety instruction"
	}
	return ""
}

// promisedOf says which of the gate's remedies the reply promises.
func (r *analysis) promisedOf(g *gate) string {
	for i := range g.remedies {
		m := &g.remedies[i]
		if m.name == "" {
			if r.lib.promiseReader(r.doc).promised(&m.term) {
				return "promises: " + strings.Join(m.term.stems, " ")
			}
			continue
		}
		for _, p := range r.promises {
			if p.name == m.name {
				return "promises: " + r.quote(p.clause)
			}
		}
	}
	return ""
}

func (r *analysis) discloses(f *form) bool {
	for _, s := range r.doc.sentences {
		if f.in(r.doc, s) >= 0 {
			return true
		}
	}
	return false
}

// total adds up the criteria under the lowest cap, less the price of invented values. The price
// comes after the cap: below it, a reply that states another ticket's values would otherwise earn
// as much as one that states none.
func (r *analysis) total() grader.Verdict {
	v := r.verdict
	for _, c := range v.Criteria {
		v.PreGate += c.Earned
	}
	v.PostGate = v.PreGate
	for _, g := range v.Gates {
		v.PostGate = min(v.PostGate, g.Cap)
	}
	price := inventedCost * int64(len(v.Invented))
	v.PreGate = min(max(v.PreGate-price, 0), grader.ResponsePoints)
	v.PostGate = min(max(v.PostGate-price, 0), grader.ResponsePoints)
	return v
}
