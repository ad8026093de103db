package offline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// Assessment is a reply as the rules have read it, for judges that understand more language than
// the rules. The rules decide the gates, the price of invented values, the facts stated in plain
// words, form and consistency. Claims returns the rest, and Grade adds up the answers. Answers can
// only add what the rules couldn't find. They lift no gate but the one on replies without facts,
// and only by a fact whose value is in the reply.
type Assessment struct {
	analysis *analysis
	folded   string // the reply with single spaces, for quotes
}

// Claim is a statement about a reply that the rules leave to a judge of language. Fact is set if
// Criterion is Q1, Question if it is Q3.
type Claim struct {
	ID        string // the criterion and what it is about: "Q1.f2", "Q3.q1", "Q5"
	Criterion string
	Fact      *scenarios.Fact
	Question  *scenarios.Question
}

// Assess reads the reply as Judge does. It fails only without a ticket.
func (o *Judge) Assess(c grader.Case) (*Assessment, error) {
	if c.Ticket == nil {
		return nil, errors.New("reading a reply: the case has no ticket")
	}
	r := o.prepared(c.Ticket).readReply(c.Reply, c.Actions)
	return &Assessment{analysis: r, folded: singleSpaced(r.text)}, nil
}

// singleSpaced folds a text for comparing quotes: case, diacritics and white space don't count.
func singleSpaced(s string) string { return strings.Join(strings.Fields(text.Fold(s)), " ") }

// Text is the reply normalised: what the customer sees, without invisible characters.
func (r *Assessment) Text() string { return r.analysis.text }

// Rules is the verdict of the rules alone.
func (r *Assessment) Rules() grader.Verdict { return r.analysis.total() }

// Claims returns the statements that are left to ask, in the order of the criteria. There are none
// if the reply earns nothing in any case.
func (r *Assessment) Claims() []Claim {
	if r.worthless() {
		return nil
	}
	spec := &r.analysis.ticket.Reply
	var claims []Claim
	if r.offers(0) {
		for i := range spec.Facts {
			if f := &spec.Facts[i]; !f.Optional && r.analysis.findings[i] == missing {
				claims = append(claims, Claim{ID: "Q1." + f.ID, Criterion: "Q1", Fact: f})
			}
		}
	}
	if r.offers(1) {
		claims = append(claims, Claim{ID: "Q2", Criterion: "Q2"})
	}
	if r.offers(2) {
		for i := range spec.Questions {
			claims = append(claims, Claim{ID: "Q3." + spec.Questions[i].ID, Criterion: "Q3",
				Question: &spec.Questions[i]})
		}
	}
	if r.offers(3) && r.untimed() {
		claims = append(claims, Claim{ID: "Q4", Criterion: "Q4"})
	}
	if r.offers(4) && !r.blames() {
		claims = append(claims, Claim{ID: "Q5", Criterion: "Q5"})
	}
	if r.offers(5) && r.analysis.verdict.Criteria[5].Earned > 0 {
		claims = append(claims, Claim{ID: "Q6", Criterion: "Q6"})
	}
	return claims
}

func (r *Assessment) offers(criterion int) bool {
	return r.analysis.verdict.Criteria[criterion].Offered > 0
}

// worthless reports whether the permanent gates and the invented values leave nothing to earn.
func (r *Assessment) worthless() bool {
	limit := int64(grader.ResponsePoints)
	for _, g := range r.analysis.verdict.Gates {
		if g.ID != noFacts {
			limit = min(limit, g.Cap)
		}
	}
	return limit <= inventedCost*int64(len(r.analysis.verdict.Invented))
}

// untimed reports whether the rules found neither a time frame nor one that is taken back.
func (r *Assessment) untimed() bool {
	for i := range r.analysis.facts {
		if r.analysis.facts[i].timed() && r.analysis.findings[i] == contradicted {
			return false
		}
	}
	return r.analysis.verdict.Criteria[3].Earned == 0
}

func (r *Assessment) blames() bool {
	return r.analysis.doc.AnyPhrase(text.Blame, r.analysis.doc.Whole())
}

// Grade adds up the rules and the answers to a verdict of the named judge. It returns an error
// unless each of Claims has exactly one answer, met or unmet. A claim isn't met if its quote isn't
// in the reply or lacks the fact's value.
func (r *Assessment) Grade(judge string, answers []grader.Evidence) (grader.Verdict, error) {
	claims := r.Claims()
	checked, err := r.check(claims, answers)
	if err != nil {
		return grader.Verdict{}, err
	}
	m := *r.analysis
	m.verdict.Judge, m.verdict.Status = judge, grader.StatusOK
	m.verdict.Criteria = slices.Clone(m.verdict.Criteria)
	if len(claims) > 0 {
		m.merge(claims, checked)
	}
	return m.total(), nil
}

// check returns the answers in the order of the claims, those without evidence turned into unmet.
func (r *Assessment) check(claims []Claim, answers []grader.Evidence) ([]grader.Evidence, error) {
	byClaim := make(map[string]grader.Evidence, len(answers))
	for _, a := range answers {
		if _, twice := byClaim[a.Claim]; twice {
			return nil, fmt.Errorf("two answers to claim %s", a.Claim)
		}
		if a.Verdict != grader.Met && a.Verdict != grader.Unmet {
			return nil, fmt.Errorf("claim %s is %q: want %s or %s", a.Claim, a.Verdict, grader.Met, grader.Unmet)
		}
		byClaim[a.Claim] = a
	}
	checked := make([]grader.Evidence, len(claims))
	for i, c := range claims {
		a, ok := byClaim[c.ID]
		if !ok {
			return nil, fmt.Errorf("no answer to claim %s", c.ID)
		}
		delete(byClaim, c.ID)
		if a.Refused = ""; a.Verdict == grader.Met {
			a.Refused = r.Refuse(c, a.Quote)
		}
		checked[i] = a
	}
	for id := range byClaim {
		return nil, fmt.Errorf("an answer to %q, which was not asked", id)
	}
	return checked, nil
}

// minQuote is how many letters and digits make a quote.
const minQuote = 4

// Refuse returns the reason why a quote is no evidence of a claim, or "".
func (r *Assessment) Refuse(c Claim, quote string) string {
	folded := singleSpaced(text.Normalise(quote))
	letters := 0
	for _, char := range folded {
		if unicode.IsLetter(char) || unicode.IsDigit(char) {
			letters++
		}
	}
	switch {
	case utf8.RuneCountInString(folded) > text.MaxMessageRunes, letters < minQuote, !strings.Contains(r.folded, folded):
		return "the quote isn't in the reply"
	case c.Fact != nil && !r.analysis.bears(c.Fact.ID, folded):
		return "the quote doesn't state the value"
	}
	return ""
}

// bears reports whether a quote can be evidence of a fact: if the value is measured, the quote has
// to contain it, and a sentence of the reply has to assert it.
func (r *analysis) bears(id, quote string) bool {
	f := r.fact(id)
	if f == nil || !f.measured() {
		return f != nil
	}
	d := text.Parse(quote, r.lex)
	return f.said(r) && slices.ContainsFunc(f.forms,
		func(form form) bool { return form.in(d, d.Whole()) >= 0 })
}

func (r *analysis) fact(id string) *fact {
	i := slices.IndexFunc(r.facts, func(f fact) bool { return f.id == id })
	if i < 0 {
		return nil
	}
	return &r.facts[i]
}

// measured reports whether the value is an amount, a date, a duration, a number or an id, which has
// no other words.
func (f *fact) measured() bool { return len(f.forms) > 0 && len(f.forms[0].values) > 0 }

// said reports whether a sentence asserts the fact's value, in any context.
func (f *fact) said(r *analysis) bool {
	for _, s := range r.doc.Sentences {
		if r.doc.IsQuestion(s) {
			continue
		}
		for i := range f.forms {
			at := f.forms[i].in(r.doc, s)
			if at >= 0 && !crammed(r.doc, s, at, r.prepared) && f.polarity(r.doc, s, at, f.forms[i].negated) == stated {
				return true
			}
		}
	}
	return false
}

// merge grades the criteria again with the answers.
func (r *analysis) merge(claims []Claim, answers []grader.Evidence) {
	met := map[string]bool{}
	evidence := map[string][]grader.Evidence{}
	for i, c := range claims {
		met[c.ID] = answers[i].Verdict == grader.Met && answers[i].Refused == ""
		evidence[c.Criterion] = append(evidence[c.Criterion], answers[i])
	}
	r.lift(met)
	r.gradeCriteria()
	for i, grade := range []func(met map[string]bool){nil, r.judgeOutcome, r.judgeQuestions, r.judgeClaim(3),
		r.judgeClaim(4), r.judgeClaim(5)} {
		if grade != nil {
			grade(met)
		}
		r.verdict.Criteria[i].Evidence = evidence[r.verdict.Criteria[i].ID]
	}
}

// lift counts the facts that are stated in other words.
func (r *analysis) lift(met map[string]bool) {
	r.findings = slices.Clone(r.findings)
	for i := range r.facts {
		f := &r.facts[i]
		if !met["Q1."+f.id] {
			continue
		}
		r.findings[i] = stated
		r.stated++
		if f.discriminating && f.said(r) {
			r.discriminated++
		}
	}
	if r.discriminated > 0 {
		r.verdict.Gates = slices.DeleteFunc(slices.Clone(r.verdict.Gates),
			func(g grader.Gate) bool { return g.ID == noFacts })
	}
}

// judgeOutcome (Q2) requires the facts that make up the next step, by the rules, and the next step
// itself, by the judge.
func (r *analysis) judgeOutcome(met map[string]bool) {
	c := &r.verdict.Criteria[1]
	for _, id := range r.ticket.Reply.Outcome.Facts {
		if !r.states(id) {
			set(c, 0, 1, "the next step lacks fact "+id)
			return
		}
	}
	if met["Q2"] {
		set(c, 1, 1, "")
		return
	}
	set(c, 0, 1, "the next step isn't stated")
}

// judgeQuestions (Q3) pays a question in full if it is answered and the facts of its answer are
// stated, and half of it for some of the facts or for the facts alone.
func (r *analysis) judgeQuestions(met map[string]bool) {
	questions := r.ticket.Reply.Questions
	var earned int64
	open := make([]string, 0, len(questions))
	for _, q := range questions {
		n := 0
		for _, id := range q.AnsweredBy {
			if r.states(id) {
				n++
			}
		}
		taken := met["Q3."+q.ID]
		switch {
		case taken && n == len(q.AnsweredBy):
			earned += 2
			continue
		case n > 0:
			earned++
		}
		open = append(open, q.ID)
	}
	if len(questions) > 0 {
		set(&r.verdict.Criteria[2], earned, 2*int64(len(questions)), "")
	}
	if len(open) > 0 {
		r.verdict.Criteria[2].Reason = "not answered in full: " + strings.Join(open, ", ")
	}
}

// judgeClaim grades a criterion of one claim. The judge decides time (Q4) if the rules found none,
// tone (Q5) unless the rules found blame, and of shape (Q6) everything but the length.
func (r *analysis) judgeClaim(i int) func(met map[string]bool) {
	return func(met map[string]bool) {
		c := &r.verdict.Criteria[i]
		verdict, asked := met[c.ID]
		switch {
		case !asked:
		case !verdict && c.ID == "Q4" && c.Earned > 0:
			// A fact in other words states the time.
		case !verdict:
			set(c, 0, 1, "not met, according to the judge")
		case c.ID != "Q6":
			set(c, 1, 1, "")
		}
	}
}

func set(c *grader.Criterion, earned, offered int64, reason string) {
	c.Earned, c.Reason = c.Offered*earned/offered, reason
}

// Ticket is what the customer wrote, normalised.
func (r *Assessment) Ticket() string {
	t := r.analysis.ticket
	texts := append(make([]string, 0, 2+len(t.History)+len(t.Attachments)), t.Subject, t.Description)
	for _, m := range t.History {
		texts = append(texts, m.Role+": "+m.Text)
	}
	for _, a := range t.Attachments {
		texts = append(texts, a.Name+"\n"+a.Content)
	}
	return text.Normalise(strings.Join(texts, "\n\n"))
}
