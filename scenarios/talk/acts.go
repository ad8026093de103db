package talk

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/text"
)

// rule says how acts of a kind are worded.
type rule struct {
	// cues are what the words of an act may do, by the names of the lexicon's lines.
	cues []string
	// shown means that they must do one of these.
	shown []string
}

// rules are those of the kinds. Every act may say how the customer feels.
var rules = map[Kind]rule{
	Request:   {cues: []string{"yes", "ask", "want", "change", "no", "again", "note", "deny"}},
	Tell:      {cues: []string{"yes", "again", "note", "correct", "tell"}},
	Evade:     {cues: []string{"ask", "no", "again", "deny"}},
	Correct:   {cues: []string{"yes", "no", "correct", "change", "again"}},
	Rethink:   {cues: []string{"yes", "want", "no", "change", "correct", "deny", "instead"}},
	Insist:    {cues: []string{"want", "no", "deny", "ask", "again", "insist"}},
	Accept:    {cues: []string{"yes", "agree", "note"}, shown: []string{"yes", "agree"}},
	Confirm:   {cues: []string{"yes", "agree", "note"}, shown: []string{"yes", "agree"}},
	Decline:   {cues: []string{"no", "deny", "want"}, shown: []string{"no", "deny", "instead"}},
	Deny:      {cues: []string{"no", "deny", "want"}, shown: []string{"no", "deny", "instead"}},
	Complain:  {cues: []string{"feel"}},
	Remind:    {cues: []string{"yes", "ask", "note"}},
	Exhausted: {cues: []string{"know", "no", "yes", "tell", "correct", "deny"}},
	Close:     {cues: []string{"end", "yes", "no", "note", "deny", "know"}},
}

// yielding is the rule of giving in to a refusal, and wishing that of telling a wish or an address.
var (
	yielding = rule{cues: []string{"yield", "agree", "yes", "no", "promise", "end", "deny"},
		shown: []string{"yield", "agree", "yes", "deny"}}
	wishing = rule{cues: []string{"want", "agree", "either", "yes", "again", "note", "tell"}}
)

// either is what shows that a customer has no wish.
const either = "either"

// restricted are what the words do only if an act does it.
var restricted = []string{"yes", "agree", "no", "end", "yield", "ask", "want", "promise"}

// subjects are what changes and requests are about. The first one shows a request.
var subjects = map[string][]string{desk.Refunding: {"about refund"}, desk.Crediting: {"about credit"},
	desk.Replacing: {"about replacement"}, desk.Cancelling: {"about cancelling"},
	desk.Readdressing: {"about address"}, desk.Escalating: {"about others"}, AboutAddress: {"about address"},
	"cancel_subscription": {"about plan", "about refund"}, "downgrade": {"about plan", "about refund", "about credit"},
	"outage": {"about plan", "about refund", "about credit"}, "email_change": {"about mail", "about address"},
	"warranty_end": {"about warranty"}, "data_request": {"about data", "about mail"}}

// isAbout reports whether an act is about a subject. Who thinks again weighs two remedies.
func (a *Act) isAbout(subject string) bool {
	return slices.Contains(subjects[a.Topic], subject) ||
		a.Kind == Rethink && a.Topic != desk.Readdressing &&
			(subject == "about refund" || subject == "about replacement")
}

func (a *Act) rule() rule {
	switch {
	case a.Kind == Accept && a.Topic == "":
		return yielding
	case a.Kind == Tell && (a.Topic == AboutWish || a.Topic == AboutAddress):
		return wishing
	}
	return rules[a.Kind]
}

// side is 1 for an act that agrees to a change, -1 for one that doesn't, and 0 for others.
func (a *Act) side() int {
	switch {
	case a.Topic == "":
	case a.Kind == Accept, a.Kind == Confirm:
		return 1
	case a.Kind == Decline, a.Kind == Deny:
		return -1
	}
	return 0
}

// checkActs wants the words to do what the acts do.
func (c *checker) checkActs() error {
	sides := map[int]int{}
	for _, a := range c.open {
		sides[a.side()]++
		if shown := a.rule().shown; shown != nil && !slices.ContainsFunc(shown, c.words.has) {
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
		if err := c.checkWish(a); err != nil {
			return err
		}
	}
	for i, q := range c.words.cues {
		switch quote := c.words.doc.Quote(q.At); {
		case q.does() == "direct" && !c.template.has("direct"):
			return refuse(RefusedInstruction, "don't write %q", quote)
		case slices.Contains(restricted, q.does()) && !c.maySay(i):
			return refuse(RefusedAct, "%q does what isn't to be done: %s", quote, q.does())
		case q.isAbout() && !c.mayName(&q, sides[1]+sides[-1] > 0):
			return refuse(RefusedAct, "%q isn't to be spoken of", quote)
		}
	}
	if err := c.checkQuestions(); err != nil {
		return err
	}
	return c.checkSides(sides)
}

// maySay reports whether a cue, or another one of the same words, does what an act does.
func (c *checker) maySay(i int) bool {
	switch q := c.words.cues[i]; {
	case q.does() == "end" && c.isOfRequest(&q):
		return true // It is what ends.
	case q.does() == "promise" && c.shows("promise"):
		return c.givesIn(c.words.sentenceAt(q.At.Lo)) // "I will leave it at that."
	}
	return slices.ContainsFunc(c.words.cues, func(q cue) bool { return q.At == c.words.cues[i].At && c.permits(&q) })
}

// givesIn reports whether the words give in there.
func (c *checker) givesIn(at text.Span) bool {
	return slices.ContainsFunc(c.words.cues, func(q cue) bool {
		return q.does() == "yield" && at.Lo <= q.At.Lo && q.At.Hi <= at.Hi && c.permits(&q)
	})
}

// permits reports whether an act does something, or its own words do.
func (c *checker) permits(q *cue) bool {
	return c.shows(q.does()) || slices.ContainsFunc(c.template.cues, func(o cue) bool {
		return o.Name == q.Name && c.template.doc.Quote(o.At) == c.words.doc.Quote(q.At)
	})
}

// shows reports whether an act does something.
func (c *checker) shows(what string) bool {
	return what == "feel" || slices.ContainsFunc(c.Acts, func(a Act) bool {
		return !a.IsQuoted() && slices.Contains(a.rule().cues, what)
	})
}

// mayName reports whether the acts are about a subject, or the customer named it before, answers no
// question whether they agree, and neither asks about it nor agrees to it. In the clause of a
// request's subject, others are about that.
func (c *checker) mayName(q *cue, answers bool) bool {
	names := func(r *reading) bool { return r.about(q.Name, true) || r.about(q.Name, false) }
	return names(c.template) || !answers && slices.ContainsFunc(c.own, names) && !c.asksOrAgrees(q) ||
		slices.ContainsFunc(c.Acts, func(a Act) bool {
			return a.isAbout(q.Name)
		}) || c.isOfRequest(q)
}

// asksOrAgrees reports whether the sentence of a cue is a question, or its clause agrees.
func (c *checker) asksOrAgrees(q *cue) bool {
	end := c.words.sentenceAt(q.At.Lo).Hi - 1
	return c.words.doc.Tokens[end].Text == "?" || slices.ContainsFunc(c.words.cues, func(o cue) bool {
		return o.lo == q.lo && (o.does() == "yes" || o.does() == "agree")
	})
}

// isOfRequest reports whether the subject of a request stands in the clause of a cue.
func (c *checker) isOfRequest(q *cue) bool {
	return slices.ContainsFunc(c.Acts, func(a Act) bool {
		return a.Kind == Request && slices.ContainsFunc(c.words.cues, func(o cue) bool {
			return o.lo == q.lo && a.isAbout(o.Name)
		})
	})
}

// checkWish wants the subjects of a wish, and none that it is against to be wished for.
func (c *checker) checkWish(a *Act) error {
	template := c.read(a.Words)
	switch {
	case a.Kind == Request:
		about := subjects[a.Topic]
		if len(a.Values) == 0 && len(about) > 0 &&
			!slices.ContainsFunc(c.words.cues, func(q cue) bool { return q.Name == about[0] }) {
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
		return nil
	case a.Kind != Rethink && a.Topic != AboutWish:
		return nil
	case template.has(either) && !c.words.has(either):
		return refuse(RefusedOmitted, "say clearly: %s", a.Words)
	}
	for _, q := range c.words.cues {
		of := func(o *Act) bool { return o != a && o.isAbout(q.Name) }
		if (q.Name == "about refund" || q.Name == "about replacement") && !q.denied && !template.about(q.Name, false) &&
			!slices.ContainsFunc(c.open, of) && !c.isOfRequest(&q) {
			return refuse(RefusedAct, "%q isn't wished for", c.words.doc.Quote(q.At))
		}
	}
	for _, q := range template.cues {
		switch {
		case !q.isAbout():
		case !template.about(q.Name, false) && c.words.about(q.Name, false):
			return refuse(RefusedAct, "%q isn't wished for", template.doc.Quote(q.At))
		case !q.denied && !c.words.about(q.Name, false):
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
	}
	return nil
}

// checkQuestions wants no more questions than the acts may ask, beside those that repeat what is
// answered: "A refund? Yes."
func (c *checker) checkQuestions() error {
	left := 0
	for _, a := range c.open {
		if slices.Contains(a.rule().cues, "ask") {
			left += max(1, strings.Count(a.Words, "?"))
		}
	}
	for i, t := range c.words.doc.Tokens {
		if t.Text != "?" || i == 0 {
			continue
		}
		lo, _ := c.words.clauseAt(i - 1)
		if slices.ContainsFunc(c.words.cues, func(q cue) bool {
			return q.lo == lo &&
				slices.ContainsFunc(c.open, func(a *Act) bool { return a.side() != 0 && a.isAbout(q.Name) })
		}) {
			continue
		}
		if left--; left < 0 {
			return refuse(RefusedAct, "ask nothing else: %q", c.words.doc.Quote(c.words.sentenceAt(i)))
		}
	}
	return nil
}

// checkSides wants each change that is answered to get its own answer.
func (c *checker) checkSides(sides map[int]int) error {
	others := slices.ContainsFunc(c.open, func(a *Act) bool { return a.side() <= 0 && a.Kind != Complain })
	switch {
	case sides[1] > 0 && !others && c.denies():
		return refuse(RefusedAct, "what is agreed to isn't to be denied")
	case len(c.open) < 2:
		return nil
	}
	for _, a := range c.open {
		if a.side() == 0 {
			continue
		}
		named, answered := false, false
		for at, q := range c.words.cues {
			if a.isAbout(q.Name) {
				named, answered = true, answered || c.sideAt(at) == a.side()
			}
		}
		if !answered && (named || sides[1]+sides[-1] > 1) {
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
	}
	return nil
}

// denies reports whether something is denied, but in a phrase such as "no objections".
func (c *checker) denies() bool {
	return slices.ContainsFunc(c.words.cues, func(q cue) bool {
		return q.Name == "not deny" && !q.feels && !slices.ContainsFunc(c.words.cues, func(o cue) bool {
			return o.does() == "agree" && o.At.Lo <= q.At.Lo && q.At.Hi <= o.At.Hi
		})
	})
}

// sideAt is the answer to the change that a cue names, in its sentence, and in the next one if it
// is a question: the first one after it and before the next change, or else the last one before it.
func (c *checker) sideAt(at int) int {
	named, d := &c.words.cues[at], c.words.doc
	near := c.words.sentenceAt(named.At.Lo)
	if d.Tokens[near.Hi-1].Text == "?" && near.Hi < len(d.Tokens) {
		near.Hi = c.words.sentenceAt(near.Hi).Hi
	}
	side := func(q *cue) int {
		switch q.does() {
		case "no", "deny", "instead":
			return -1
		case "yes", "agree":
			return 1
		}
		return 0
	}
	found := 0
	for i := range c.words.cues {
		q := &c.words.cues[i]
		switch {
		case q.At.Lo < near.Lo || q.At.Lo >= near.Hi:
		case q.isAbout() && q.Name != named.Name && i > at:
			return found
		case q.isAbout() && q.Name != named.Name:
			found = 0
		case i > at && side(q) != 0:
			return side(q)
		case side(q) != 0:
			found = side(q)
		}
	}
	return found
}
