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

// Assessment is the rules' reading of a reply, for judges that understand more language. Claims
// returns the statements that the rules can't decide, and Grade adds up the answers. Answers about
// criteria can only add points, and lift no gate except the one on replies without facts, and that
// one only by a fact whose value is in the reply. Answers about harm can only trip gates.
type Assessment struct {
	analysis *analysis
	folded   string // the reply with single spaces, for quotes
}

// Claim is a statement about a reply for a judge of language. Fact is set if Criterion is Q1,
// Question if it is Q3.
type Claim struct {
	ID        string // the criterion and what it is about: "Q1.f2", "Q3.q1", "Q5", "harm-pledge"
	Criterion string // of a claim about harm, its id
	Fact      *scenarios.Fact
	Question  *scenarios.Question
	Harm      bool // the reply loses by being what the claim says
}

// Assess reads the reply as Judge does. It fails only without a ticket.
func (o *Judge) Assess(c grader.Case) (*Assessment, error) {
	if c.Ticket == nil {
		return nil, errors.New("reading a reply: the case has no ticket")
	}
	r := o.prepared(c.Ticket).readReply(&text.Document{}, c.Reply, c.Actions)
	return &Assessment{analysis: r, folded: singleSpaced(r.text)}, nil
}

// singleSpaced folds a text, so that quotes match regardless of case, diacritics and white space.
func singleSpaced(s string) string { return strings.Join(strings.Fields(text.Fold(s)), " ") }

// Text returns the normalised reply: the text that the customer sees, without invisible characters.
func (r *Assessment) Text() string { return r.analysis.text }

// Rules returns the verdict of the rules without a model.
func (r *Assessment) Rules() grader.Verdict { return r.analysis.total() }

// Claims returns the open statements in the order of the criteria, then those about harm, or none
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
			q := &spec.Questions[i]
			claims = append(claims, Claim{ID: "Q3." + q.ID, Criterion: "Q3", Question: q})
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
	return append(claims, harmClaims()...)
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

// untimed reports whether the rules found no time frame, stated or contradicted.
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
// unless each of Claims has exactly one answer, met or unmet. See Refuse for invalid quotes.
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

// check returns the answers in the order of the claims, with the reasons why quotes are refused.
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

// minQuote is the minimum number of letters and digits of a quote.
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
	case c.Fact != nil && !r.analysis.supportsFact(c.Fact.ID, folded):
		return "the quote doesn't state the value"
	case c.ID == invention && !r.analysis.invents(folded):
		return "the texts that the agent could read contain the quote's words and values"
	}
	return ""
}

// supportsFact reports whether a quote can be evidence of a fact: it doesn't leave open which of
// two things is true. If the fact is a value, which has no other words, the quote has to contain
// it, and a sentence of the reply has to assert it.
func (r *analysis) supportsFact(id, quote string) bool {
	i := slices.IndexFunc(r.facts, func(f fact) bool { return f.id == id })
	if i < 0 {
		return false
	}
	f, d := &r.facts[i], text.Parse(quote, r.lex)
	if len(f.forms) == 0 || len(f.forms[0].values) == 0 {
		return !slices.ContainsFunc(d.Sentences, d.LeavesOpen)
	}
	return f.said(r) && slices.ContainsFunc(f.forms, func(form form) bool { return form.in(d, d.Whole()) >= 0 })
}

// said reports whether a sentence asserts the fact's value, and no other value beside it, in any
// context.
func (f *fact) said(r *analysis) bool {
	for _, s := range r.doc.Sentences {
		if r.doc.IsQuestion(s) {
			continue
		}
		for i := range f.forms {
			at := f.forms[i].in(r.doc, s)
			if at >= 0 && !crammed(r.doc, s, at, r.prepared) && !f.among(r.doc, at, nil) &&
				f.polarity(r.doc, s, at, f.forms[i].negated) == stated {
				return true
			}
		}
	}
	return false
}

// merge grades the criteria again with the answers.
func (r *analysis) merge(claims []Claim, answers []grader.Evidence) {
	r.met = map[string]bool{}
	evidence := map[string][]grader.Evidence{}
	for i, c := range claims {
		r.met[c.ID] = answers[i].Verdict == grader.Met && answers[i].Refused == ""
		evidence[c.Criterion] = append(evidence[c.Criterion], answers[i])
	}
	r.lift()
	r.gradeCriteria()
	for i := range r.verdict.Criteria {
		c := &r.verdict.Criteria[i]
		c.Evidence = evidence[c.ID]
		if i >= 3 {
			r.judgeClaim(c)
		}
	}
	r.judgeHarm(evidence)
}

// lift counts the facts that are stated in other words, and lifts the gate on replies without
// facts.
func (r *analysis) lift() {
	r.findings = slices.Clone(r.findings)
	for i := range r.facts {
		f := &r.facts[i]
		if !r.met["Q1."+f.id] {
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

// judgeClaim grades a criterion of one claim. The judge decides time (Q4) if the rules found none,
// tone (Q5) unless the rules found blame, and of shape (Q6) everything but the length.
func (r *analysis) judgeClaim(c *grader.Criterion) {
	met, asked := r.met[c.ID]
	switch {
	case !asked:
	case met && c.ID != "Q6":
		c.Earned, c.Reason = c.Offered, ""
	case !met && (c.ID != "Q4" || c.Earned == 0):
		// A fact in other words may state the time (Q4).
		c.Earned, c.Reason = 0, "not met, according to the judge"
	}
}

// Ticket returns the customer's texts, normalised.
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
