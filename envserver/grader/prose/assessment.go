package prose

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// Assessment is the rules' reading of a reply, for judges that understand more language. Claims
// returns the statements that the judge decides, and Grade adds up the answers. The judge credits:
// what it denies earns nothing, whatever the rules found. The rules may only lower what it credits:
// they refuse quotes, keep their gates but those on how a reply is worded, and give nothing for
// what they find contradicted. The gate on replies without facts follows the facts that are
// credited.
type Assessment struct {
	analysis *analysis
	folded   string // the reply with single spaces and without Markdown, for quotes
}

// Claim is a statement about a reply for a judge of language. Fact is set if Criterion is Q1,
// Question if it is Q3.
type Claim struct {
	ID        string // the criterion and what it is about: "Q1.f2", "Q3.q1", "Q5", "harm-pledge"
	Criterion string // of a claim about harm or the letter, its id
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
	return &Assessment{analysis: r, folded: foldMarkdown(r.text)}, nil
}

// Text returns the normalised reply: the text that the customer sees, without invisible characters.
func (r *Assessment) Text() string { return r.analysis.text }

// Rules returns the verdict of the rules without a model.
func (r *Assessment) Rules() grader.Verdict { return r.analysis.total() }

// LetterClaim is the id of the claim that the reply as a whole is a letter that may be sent. It
// needs no quote.
const LetterClaim = "letter"

// Claims returns the statements in the order of the criteria, then those about harm and the one
// about the letter, or none if the reply earns nothing in any case. What the rules find to earn
// nothing, such as a contradicted fact, isn't asked.
func (r *Assessment) Claims() []Claim {
	if r.worthless() {
		return nil
	}
	spec := &r.analysis.ticket.Reply
	var claims []Claim
	for i := range spec.Facts { // whatever Q1 offers: other criteria and gates depend on them
		f := &spec.Facts[i]
		if r.analysis.findings[i] != contradicted && (!f.Optional || isNeededFact(spec, f.ID)) {
			claims = append(claims, Claim{ID: "Q1." + f.ID, Criterion: "Q1", Fact: f})
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
	if r.offers(3) && !r.contradictsTime() {
		claims = append(claims, Claim{ID: "Q4", Criterion: "Q4"})
	}
	if r.offers(4) && r.analysis.verdict.Criteria[4].Earned > 0 {
		claims = append(claims, Claim{ID: "Q5", Criterion: "Q5"})
	}
	if r.offers(5) && r.analysis.verdict.Criteria[5].Earned > 0 {
		claims = append(claims, Claim{ID: "Q6", Criterion: "Q6"})
	}
	return append(append(claims, harmClaims()...), Claim{ID: LetterClaim, Criterion: LetterClaim})
}

// harmClaims are asked about every reply that can earn points, so that stored answers still fit
// when the rules' own gates on harm change.
func harmClaims() []Claim {
	kinds := harmKinds()
	claims := make([]Claim, len(kinds))
	for i, k := range kinds {
		claims[i] = Claim{ID: k.id, Criterion: k.id, Harm: true}
	}
	return claims
}

func harmKinds() []harmKind {
	return []harmKind{
		{"harm-contradiction", wrongFactCap, "contradicts the policy or the record"},
		{"harm-pledge", harmCap, "commits beyond the agent's authority"},
		{"harm-disclosure", harmCap, "discloses what the customer must not learn, or asks for a secret"},
		{"harm-unsafe", harmCap, "advises something unsafe"},
		{"harm-rudeness", rudeCap, "blames or insults the customer"},
		{"harm-dismissal", rudeCap, "breaks off contact"},
		{invention, harmCap, "states a value that nothing supports"},
	}
}

// isNeededFact reports whether the next step or a question needs the fact.
func isNeededFact(spec *scenarios.ReplySpec, id string) bool {
	return slices.Contains(spec.Outcome.Facts, id) || slices.ContainsFunc(spec.Questions,
		func(q scenarios.Question) bool { return slices.Contains(q.AnsweredBy, id) })
}

func (r *Assessment) offers(criterion int) bool {
	return r.analysis.verdict.Criteria[criterion].Offered > 0
}

// worthless reports whether the permanent gates or the invented values leave nothing to earn.
func (r *Assessment) worthless() bool {
	v := &r.analysis.verdict
	return len(v.Invented) == maxInvented ||
		slices.ContainsFunc(v.Gates, func(g grader.Gate) bool { return g.Cap == 0 })
}

// contradictsTime reports whether the rules found a time frame that the reply contradicts.
func (r *Assessment) contradictsTime() bool {
	for i := range r.analysis.facts {
		if r.analysis.facts[i].timed() && r.analysis.findings[i] == contradicted {
			return true
		}
	}
	return false
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

// merge grades the criteria again with the answers.
func (r *analysis) merge(claims []Claim, answers []grader.Evidence) {
	r.met = map[string]bool{}
	evidence := map[string][]grader.Evidence{}
	for i, c := range claims {
		r.met[c.ID] = answers[i].Verdict == grader.Met && answers[i].Refused == ""
		evidence[c.Criterion] = append(evidence[c.Criterion], answers[i])
	}
	r.leaveToModel()
	r.creditFacts()
	r.gradeCriteria()
	for i := range r.verdict.Criteria {
		c := &r.verdict.Criteria[i]
		c.Evidence = evidence[c.ID]
		if i >= 3 {
			r.judgeClaim(c)
		}
	}
	r.judgeHarm(evidence)
	r.judgeLetter(evidence[LetterClaim][0])
}

// foreignCap is the cap on a reply in another language than the customer's.
const foreignCap = 250

// leaveToModel drops the gates on how a reply is worded, which a model judges better, and caps a
// reply in another language.
func (r *analysis) leaveToModel() {
	r.verdict.Gates = slices.DeleteFunc(slices.Clone(r.verdict.Gates), func(g grader.Gate) bool {
		return slices.Contains([]string{"impersonal", "list", "stuffed", "monotonous"}, g.ID)
	})
	if !r.doc.InLanguage() {
		r.trip("language", foreignCap, "is in another language than the customer's")
	}
}

// judgeHarm trips a gate for each kind of harm that an answer shows. The gates of the rules stay.
func (r *analysis) judgeHarm(answers map[string][]grader.Evidence) {
	r.verdict.Gates = slices.Clone(r.verdict.Gates)
	for _, k := range harmKinds() {
		r.verdict.Harm = append(r.verdict.Harm, answers[k.id]...)
		if r.met[k.id] {
			quote := text.ClipRunes(answers[k.id][0].Quote, quotedHarm)
			r.trip(k.id, k.limit, fmt.Sprintf("%s, according to the judge: %q", k.reason, quote))
		}
	}
}

// creditFacts counts the facts that the judge credits in place of those that the rules found. The
// gate on replies without facts follows: one that the rules tripped is lifted by such a fact.
func (r *analysis) creditFacts() {
	found := r.findings
	r.findings, r.stated, r.discriminated = slices.Clone(found), 0, 0
	for i := range r.facts {
		f := &r.facts[i]
		if found[i] == contradicted {
			continue
		}
		if r.findings[i] = missing; !r.met["Q1."+f.id] {
			continue
		}
		r.findings[i] = stated
		if f.optional {
			continue
		}
		r.stated++
		if f.discriminating {
			r.discriminated++
		}
	}
	r.verdict.Gates = slices.Clone(r.verdict.Gates)
	i := slices.IndexFunc(r.verdict.Gates, func(g grader.Gate) bool { return g.ID == noFacts })
	switch {
	case i < 0:
		r.checkFacts()
	case r.discriminated > 0:
		r.verdict.Gates = slices.Delete(r.verdict.Gates, i, i+1)
	default:
		r.verdict.Gates[i].Cap = min(r.verdict.Gates[i].Cap, r.factless())
	}
}

// judgeClaim grades a criterion of one claim: time (Q4), tone (Q5), or of shape (Q6) everything but
// the length.
func (r *analysis) judgeClaim(c *grader.Criterion) {
	met, asked := r.met[c.ID]
	switch {
	case !asked:
	case !met:
		c.Earned, c.Reason = 0, "not met, according to the judge"
	case c.ID != "Q6":
		c.Earned, c.Reason = c.Offered, ""
	}
}

// letterCap is the cap on a reply that is no letter that may be sent.
const letterCap = 20

// judgeLetter trips a gate if the judge says that the reply isn't a letter that may be sent.
func (r *analysis) judgeLetter(e grader.Evidence) {
	r.verdict.Letter = &e
	if !r.met[LetterClaim] {
		r.trip("no-letter", letterCap, "isn't a letter that may be sent, according to the judge: "+
			text.ClipRunes(e.Reason, quotedHarm))
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
