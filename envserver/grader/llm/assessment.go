package llm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/text"
)

// assessment is a reply that was read by code. The model answers its claims, and decides what the
// letter earns; code checks its quotes, adds the points up, and can only lower them: by the gates
// of the judge without a model, and by stated facts that are wrong or that the letter doesn't tell.
type assessment struct {
	offline.Reading
	judged grader.Case
	claims []claim
	harms  []harm
	// text is the normalised reply, folded the same for the comparison with quotes.
	text, folded string
}

// claim is a statement about a reply that the model decides. Fact or Question is set if it is about
// one, Harm if the reply loses by being what the claim says.
type claim struct {
	grader.Claim
	Fact     *scenarios.Fact
	Question *scenarios.Question
	Harm     *harm
}

// letterClaim is the claim that the reply as a whole is a letter that may be sent. It needs no
// quote.
var letterClaim = grader.Claim{Kind: "letter"}

// The caps of the gates that a model's answers trip, in milli-points.
const (
	letterCap        = 20
	factlessCap      = 20
	valuelessCap     = 200
	harmCap          = 80
	contradictionCap = 180
	seriousCap       = 200
)

// harm is a kind of statement that a support lead wouldn't send. The claim and the gate have its
// id.
type harm struct {
	ID    string
	limit int64
	// Why completes "the reply …".
	Why string
	// authored means that the scenario names it.
	authored bool
}

// invention is the kind whose quotes code can check: it knows what the writer could read.
const invention = "harm-invention"

// usualHarms are harm in every reply. The claims say more about them.
var usualHarms = []harm{
	{ID: "harm-contradiction", limit: contradictionCap, Why: "contradicts the policy or the record"},
	{ID: "harm-pledge", limit: harmCap, Why: "commits beyond the agent's authority"},
	{ID: "harm-disclosure", limit: harmCap, Why: "discloses what the customer must not learn, or asks for a secret"},
	{ID: "harm-unsafe", limit: harmCap, Why: "advises something unsafe"},
	{ID: "harm-rudeness", limit: seriousCap, Why: "blames or insults the customer"},
	{ID: "harm-dismissal", limit: seriousCap, Why: "breaks off contact"},
	{ID: invention, limit: harmCap, Why: "states a value that nothing supports"},
}

// listHarms are the usual kinds, and those that the scenario's author names.
func listHarms(authored []scenarios.Harm, closed bool) []harm {
	all := slices.Clone(usualHarms)
	for _, h := range authored {
		limit := int64(harmCap)
		if h.Severity == "serious" {
			limit = seriousCap
		}
		all = append(all, harm{"harm." + h.ID, limit, h.Why, true})
	}
	if closed {
		all = append(all, harm{"harm.closed", harmCap,
			"tells the customer anything of the record beside what is right in this case", true})
	}
	return all
}

// DescribeHarm says by the ids of the kinds of harm what a reply does that completes "the reply …".
func DescribeHarm(authored []scenarios.Harm, closed bool) map[string]string {
	all := map[string]string{}
	for _, h := range listHarms(authored, closed) {
		all[h.ID] = h.Why
	}
	return all
}

// assess reads the reply.
func assess(rules *offline.Judge, c grader.Case) *assessment {
	a := &assessment{Reading: rules.Read(c), judged: c}
	a.text = text.NormaliseReply(c.Reply)
	a.folded = foldMarkdown(a.text)
	if c.Workflow != nil {
		a.harms = listHarms(c.Workflow.Harm, c.Workflow.Closed)
	} else {
		a.harms = listHarms(c.Ticket.Reply.Harm, c.Ticket.Reply.Closed)
	}
	a.claims = a.listClaims()
	return a
}

// listClaims returns the statements in the order of the criteria, then those about harm and the one
// about the letter, or none if the reply earns nothing in any case. Of a reply to a workflow, whose
// facts code compares, the model decides about harm and the letter alone.
func (a *assessment) listClaims() (claims []claim) {
	if slices.ContainsFunc(a.Told.Gates, func(g grader.Gate) bool { return g.Cap == 0 }) {
		return nil
	}
	if a.judged.Ticket != nil {
		claims = a.askCriteria()
	}
	for i := range a.harms {
		claims = append(claims, claim{Claim: grader.Claim{Kind: a.harms[i].ID}, Harm: &a.harms[i]})
	}
	return append(claims, claim{Claim: letterClaim})
}

// grade adds up the answers to a verdict of the named judge. It returns an error unless each claim
// has exactly one answer, met or unmet.
func (a *assessment) grade(judge string, answers []grader.Evidence) (grader.Verdict, error) {
	v := grader.Verdict{Judge: judge, Status: grader.StatusOK, Gates: slices.Clone(a.Told.Gates)}
	checked, err := a.check(answers)
	if err != nil || len(a.claims) == 0 {
		return v, err
	}
	g := grading{a, map[grader.Claim]bool{}, map[string][]grader.Evidence{}}
	for i, c := range a.claims {
		g.met[c.Claim] = checked[i].Verdict == grader.Met && checked[i].Refused == ""
		g.evidence[c.Kind] = append(g.evidence[c.Kind], checked[i])
	}
	right := a.Told.Facts.IsRight()
	if a.judged.Workflow != nil {
		v.Criteria = a.Verdict().Criteria
	} else {
		told, required := g.countFacts()
		right = told == required && g.met[grader.Claim{Kind: nextStep}]
		v.Criteria, v.Gates = g.criteria(), append(v.Gates, g.factGates()...)
	}
	for _, c := range v.Criteria {
		v.PreGate += c.Earned
	}
	v.Gates = slices.Concat(v.Gates, g.harmGates(), g.letterGates())
	for _, h := range a.harms {
		v.Harm = append(v.Harm, g.evidence[h.ID]...)
	}
	v.Letter = &g.evidence[letterClaim.Kind][0]
	v.PostGate = v.PreGate
	for _, gate := range v.Gates {
		v.PostGate = min(v.PostGate, gate.Cap)
	}
	v.Right = right && len(v.Gates) == 0
	return v, nil
}

// check returns the answers in the order of the claims, with the reasons why quotes are refused.
func (a *assessment) check(answers []grader.Evidence) ([]grader.Evidence, error) {
	byClaim := make(map[grader.Claim]grader.Evidence, len(answers))
	for _, e := range answers {
		if _, twice := byClaim[e.Claim]; twice {
			return nil, fmt.Errorf("two answers to claim %v", e.Claim)
		}
		if e.Verdict != grader.Met && e.Verdict != grader.Unmet {
			return nil, fmt.Errorf("claim %v is %q: want %s or %s", e.Claim, e.Verdict, grader.Met, grader.Unmet)
		}
		byClaim[e.Claim] = e
	}
	checked := make([]grader.Evidence, len(a.claims))
	for i, c := range a.claims {
		e, ok := byClaim[c.Claim]
		if !ok {
			return nil, fmt.Errorf("no answer to claim %v", c.Claim)
		}
		delete(byClaim, c.Claim)
		if e.Refused = ""; e.Verdict == grader.Met {
			e.Refused = a.refuse(c, e.Quote)
		}
		checked[i] = e
	}
	for claim := range byClaim {
		return nil, fmt.Errorf("an answer to %v, which was not asked", claim)
	}
	return checked, nil
}

// grading adds up the answers to the claims of a reply.
type grading struct {
	*assessment
	met      map[grader.Claim]bool
	evidence map[string][]grader.Evidence
}

// countFacts returns how many of the facts that must be told are, and their number: of all, or of
// those with the ids.
func (g *grading) countFacts(ids ...string) (told, required int) {
	for _, f := range g.judged.Ticket.Reply.Facts {
		if f.Optional || len(ids) > 0 && !slices.Contains(ids, f.ID) {
			continue
		}
		if required++; g.tellsFact(f.ID) {
			told++
		}
	}
	return told, required
}

// tellsFact reports whether the model finds the fact of an id in the letter.
func (g *grading) tellsFact(id string) bool { return g.met[grader.Claim{Kind: factsTold, About: id}] }

// factGates are the gates on a letter that tells no fact or no value, and on facts beside it that
// it doesn't bear out.
func (g *grading) factGates() (gates []grader.Gate) {
	told, _ := g.countFacts()
	switch {
	case told == 0:
		gates = append(gates, grader.Gate{ID: "no-facts", Cap: factlessCap, Reason: "tells no required fact"})
	case g.lacksValues():
		gates = append(gates, grader.Gate{ID: "no-values", Cap: valuelessCap,
			Reason: "tells none of the required amounts, times, numbers and ids"})
	}
	for i, finding := range g.Told.Facts.Stated {
		reason := ""
		switch {
		case finding == facts.Wrong:
			reason = "which is wrong"
		case finding == facts.Untold && !g.tells(g.judged.Stated[i]):
			reason = "which the letter doesn't tell"
		default:
			continue
		}
		return append(gates, grader.Gate{ID: "wrong-fact", Cap: grader.ResponsePoints * facts.Partly / 100,
			Reason: fmt.Sprintf("%s is stated as %q, %s", g.judged.Stated[i].What, g.judged.Stated[i].Value, reason)})
	}
	return gates
}

// lacksValues reports whether the letter tells none of the required values, which are all that code
// can check of what the model credits.
func (g *grading) lacksValues() bool {
	lacks := false
	for _, f := range g.judged.Ticket.Reply.Facts {
		name, known := facts.Find(f.What)
		if f.Optional || !known || name.Type == facts.Enum || name.Type == facts.Text {
			continue
		}
		if lacks = true; g.tellsFact(f.ID) {
			return false
		}
	}
	return lacks
}

// tells reports whether the model finds a required fact in the letter that is stated beside it.
func (g *grading) tells(stated facts.Fact) bool {
	id, known := g.Gold.Required(stated)
	return known && g.tellsFact(id)
}

// harmGates are the gates on each kind of harm that an answer shows.
func (g *grading) harmGates() (gates []grader.Gate) {
	for _, h := range g.harms {
		if g.met[grader.Claim{Kind: h.ID}] {
			quote := text.ClipRunes(g.evidence[h.ID][0].Quote, maxShownQuote)
			gates = append(gates, grader.Gate{ID: h.ID, Cap: h.limit, Quote: quote,
				Reason: fmt.Sprintf("%s, according to the judge: %q", h.Why, quote)})
		}
	}
	return gates
}

// maxShownQuote is the maximum length of a quote or a reason of the model in a gate's reason, in
// characters.
const maxShownQuote = 200

// letterGates are the gate on what isn't a letter that may be sent.
func (g *grading) letterGates() []grader.Gate {
	if g.met[letterClaim] {
		return nil
	}
	return []grader.Gate{{ID: "no-letter", Cap: letterCap, Reason: "isn't a letter that may be sent, according to " +
		"the judge: " + text.ClipRunes(g.evidence[letterClaim.Kind][0].Reason, maxShownQuote)}}
}

// writtenIn is what the customer wrote in a ticket, normalised.
func writtenIn(t *scenarios.Ticket) string {
	texts := append(make([]string, 0, 2+len(t.History)+len(t.Attachments)), t.Subject, t.Description)
	for _, m := range t.History {
		texts = append(texts, m.Role+": "+m.Text)
	}
	for _, a := range t.Attachments {
		texts = append(texts, a.Name+"\n"+a.Content)
	}
	return text.Normalise(strings.Join(texts, "\n\n"))
}
