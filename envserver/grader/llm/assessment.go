package llm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
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

// claim is a statement about a reply that the model decides. Fact is set if Criterion is Q1,
// Question if it is Q3, Harm if the reply loses by being what the claim says.
type claim struct {
	ID        string // the criterion and what it is about: "Q1.f2", "Q3.q1", "Q5", "harm-pledge"
	Criterion string
	Fact      *scenarios.Fact
	Question  *scenarios.Question
	Harm      *harm
}

// letterClaim is the id of the claim that the reply as a whole is a letter that may be sent. It
// needs no quote.
const letterClaim = "letter"

// The caps of the gates that a model's answers trip, in milli-points.
const (
	letterCap        = 20
	factlessCap      = 20
	valuelessCap     = 200
	harmCap          = 80
	contradictionCap = 180
	seriousCap       = 200
)

// harm is a kind of statement that a support lead wouldn't send. Its id is that of the claim and of
// the gate.
type harm struct {
	ID    string
	limit int64
	// Why completes "the reply …".
	Why string
}

// invention is the kind whose quotes code can check: it knows what the writer could read.
const invention = "harm-invention"

// usualHarms are harm in every reply. The claims say more about them.
var usualHarms = []harm{
	{"harm-contradiction", contradictionCap, "contradicts the policy or the record"},
	{"harm-pledge", harmCap, "commits beyond the agent's authority"},
	{"harm-disclosure", harmCap, "discloses what the customer must not learn, or asks for a secret"},
	{"harm-unsafe", harmCap, "advises something unsafe"},
	{"harm-rudeness", seriousCap, "blames or insults the customer"},
	{"harm-dismissal", seriousCap, "breaks off contact"},
	{invention, harmCap, "states a value that nothing supports"},
}

// listHarms are the usual kinds, and those that the scenario's author names.
func listHarms(authored []scenarios.Harm, closed bool) []harm {
	all := slices.Clone(usualHarms)
	for _, h := range authored {
		limit := int64(harmCap)
		if h.Severity == "serious" {
			limit = seriousCap
		}
		all = append(all, harm{"harm." + h.ID, limit, h.Why})
	}
	if closed {
		all = append(all, harm{"harm.closed", harmCap,
			"tells the customer anything of the record beside what is right in this case"})
	}
	return all
}

// assess reads the reply.
func assess(rules *offline.Judge, c grader.Case) *assessment {
	a := &assessment{Reading: rules.Read(c), judged: c}
	a.text, _ = text.NormaliseReply(c.Reply)
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
		claims = a.listCriteria()
	}
	for i := range a.harms {
		claims = append(claims, claim{ID: a.harms[i].ID, Criterion: a.harms[i].ID, Harm: &a.harms[i]})
	}
	return append(claims, claim{ID: letterClaim, Criterion: letterClaim})
}

// listCriteria returns the statements about a ticket's criteria.
func (a *assessment) listCriteria() (claims []claim) {
	spec := &a.judged.Ticket.Reply
	for i := range spec.Facts { // whatever Q1 offers: other criteria and gates depend on them
		if f := &spec.Facts[i]; !f.Optional {
			claims = append(claims, claim{ID: "Q1." + f.ID, Criterion: "Q1", Fact: f})
		}
	}
	for _, c := range []struct {
		id      string
		offered int64
	}{{"Q2", spec.Points.Q2}, {"Q3", spec.Points.Q3}, {"Q4", spec.Points.Q4}, {"Q5", spec.Points.Q5},
		{"Q6", spec.Points.Q6}, {"Q8", spec.Points.Q8}} {
		switch {
		case c.offered == 0, c.id == "Q6" && a.isOverlong():
		case c.id == "Q3":
			for i := range spec.Questions {
				q := &spec.Questions[i]
				claims = append(claims, claim{ID: "Q3." + q.ID, Criterion: "Q3", Question: q})
			}
		default:
			claims = append(claims, claim{ID: c.id, Criterion: c.id})
		}
	}
	return claims
}

// grade adds up the answers to a verdict of the named judge. It returns an error unless each claim
// has exactly one answer, met or unmet.
func (a *assessment) grade(judge string, answers []grader.Evidence) (grader.Verdict, error) {
	v := grader.Verdict{Judge: judge, Status: grader.StatusOK, Gates: slices.Clone(a.Told.Gates)}
	checked, err := a.check(answers)
	if err != nil || len(a.claims) == 0 {
		return v, err
	}
	g := grading{a, map[string]bool{}, map[string][]grader.Evidence{}}
	for i, c := range a.claims {
		g.met[c.ID] = checked[i].Verdict == grader.Met && checked[i].Refused == ""
		g.evidence[c.Criterion] = append(g.evidence[c.Criterion], checked[i])
	}
	right := a.Told.Facts.IsRight()
	if a.judged.Workflow != nil {
		v.Criteria = a.Verdict().Criteria
	} else {
		told, required := g.countFacts()
		right = told == required && g.met["Q2"]
		v.Criteria, v.Gates = g.criteria(), append(v.Gates, g.factGates()...)
	}
	for _, c := range v.Criteria {
		v.PreGate += c.Earned
	}
	v.Gates = slices.Concat(v.Gates, g.harmGates(), g.letterGates())
	for _, h := range a.harms {
		v.Harm = append(v.Harm, g.evidence[h.ID]...)
	}
	v.Letter = &g.evidence[letterClaim][0]
	v.PostGate = v.PreGate
	for _, gate := range v.Gates {
		v.PostGate = min(v.PostGate, gate.Cap)
	}
	v.Right = right && len(v.Gates) == 0
	return v, nil
}

// check returns the answers in the order of the claims, with the reasons why quotes are refused.
func (a *assessment) check(answers []grader.Evidence) ([]grader.Evidence, error) {
	byClaim := make(map[string]grader.Evidence, len(answers))
	for _, e := range answers {
		if _, twice := byClaim[e.Claim]; twice {
			return nil, fmt.Errorf("two answers to claim %s", e.Claim)
		}
		if e.Verdict != grader.Met && e.Verdict != grader.Unmet {
			return nil, fmt.Errorf("claim %s is %q: want %s or %s", e.Claim, e.Verdict, grader.Met, grader.Unmet)
		}
		byClaim[e.Claim] = e
	}
	checked := make([]grader.Evidence, len(a.claims))
	for i, c := range a.claims {
		e, ok := byClaim[c.ID]
		if !ok {
			return nil, fmt.Errorf("no answer to claim %s", c.ID)
		}
		delete(byClaim, c.ID)
		if e.Refused = ""; e.Verdict == grader.Met {
			e.Refused = a.refuse(c, e.Quote)
		}
		checked[i] = e
	}
	for id := range byClaim {
		return nil, fmt.Errorf("an answer to %q, which was not asked", id)
	}
	return checked, nil
}

// grading adds up the answers to the claims of a reply.
type grading struct {
	*assessment
	met      map[string]bool
	evidence map[string][]grader.Evidence
}

// countFacts returns how many of the facts that must be told are, and their number: of all, or of
// those with the ids.
func (g *grading) countFacts(ids ...string) (told, required int) {
	for _, f := range g.judged.Ticket.Reply.Facts {
		if f.Optional || len(ids) > 0 && !slices.Contains(ids, f.ID) {
			continue
		}
		if required++; g.met["Q1."+f.ID] {
			told++
		}
	}
	return told, required
}

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
		if lacks = true; g.met["Q1."+f.ID] {
			return false
		}
	}
	return lacks
}

// tells reports whether the model finds a required fact in the letter that is stated beside it.
func (g *grading) tells(stated facts.Fact) bool {
	id, known := g.Gold.Required(stated)
	return known && g.met["Q1."+id]
}

// harmGates are the gates on each kind of harm that an answer shows.
func (g *grading) harmGates() (gates []grader.Gate) {
	for _, h := range g.harms {
		if g.met[h.ID] {
			quote := text.ClipRunes(g.evidence[h.ID][0].Quote, maxShownQuote)
			gates = append(gates, grader.Gate{ID: h.ID, Cap: h.limit,
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
		"the judge: " + text.ClipRunes(g.evidence[letterClaim][0].Reason, maxShownQuote)}}
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
