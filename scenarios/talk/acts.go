package talk

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
)

// What clauses do, by the names of the cues. Names with several words are joined by "|".
type rule struct {
	// shows are cues one of which each act of the kind has. permits are those that it may have
	// besides.
	shows, permits []string
}

// rules say how acts of each kind are worded.
var rules = map[Kind]rule{
	Request:   {nil, []string{"yes", "ask", "want", "change", "no", "promise"}},
	Tell:      {nil, []string{"yes"}},
	Evade:     {[]string{"ask", "deny", "no"}, []string{"ask", "no"}},
	Correct:   {nil, []string{"yes", "no"}},
	Rethink:   {nil, []string{"yes", "want", "no"}},
	Insist:    {[]string{"want", "no", "deny", "ask", "again", "insist"}, []string{"want", "no", "ask"}},
	Accept:    {[]string{"yes", "agree"}, []string{"yes", "agree"}},
	Decline:   {[]string{"no", "deny"}, []string{"no"}},
	Confirm:   {[]string{"yes", "agree"}, []string{"yes", "agree"}},
	Deny:      {[]string{"no", "deny"}, []string{"no"}},
	Remind:    {[]string{"ask", "note", "yes"}, []string{"yes", "ask"}},
	Exhausted: {[]string{"know", "deny", "no"}, []string{"yes", "no"}},
	Close:     {[]string{"end", "no", "deny"}, []string{"yes", "end", "no"}},
}

// yielding is the rule of giving in to a refusal.
var yielding = rule{[]string{"yield", "agree"}, []string{"yield", "agree", "yes", "no", "promise", "end"}}

// either is what shows that a customer has no wish.
const either = "either"

// restricted are the cues that words have only if an act permits them.
var restricted = []string{"yes", "agree", "no", "end", "yield", "ask", "want", "promise"}

// subjects are the cues of what changes are about.
var subjects = map[string]string{desk.Refunding: "about refund", desk.Crediting: "about credit",
	desk.Replacing: "about replacement", desk.Cancelling: "about cancelling", desk.Readdressing: "about address",
	desk.Escalating: "about others"}

func (a *Act) rule() rule {
	if a.Kind == Accept && a.Topic == "" {
		return yielding
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
	permitted := []string{}
	sides := map[int]int{}
	for i := range c.Acts {
		a := &c.Acts[i]
		if a.IsQuoted() {
			continue
		}
		sides[a.side()]++
		r := a.rule()
		permitted = append(permitted, r.permits...)
		if len(r.shows) > 0 && !slices.ContainsFunc(r.shows, c.words.does) {
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
		if err := c.checkWish(a); err != nil {
			return err
		}
	}
	for _, q := range c.words.cues {
		what := q.does()
		switch {
		case what == "direct" && !c.template.has(what):
			return refuse(RefusedInstruction, "don't write %q", c.words.doc.Quote(q.At))
		case slices.Contains(restricted, what) && !slices.Contains(permitted, what) && !c.template.does(what):
			return refuse(RefusedAct, "%q does what isn't to be done (%s)", c.words.doc.Quote(q.At), what)
		case q.isAbout() && !c.mayName(q.Name, sides[1]+sides[-1] > 0):
			return refuse(RefusedAct, "%q isn't to be spoken of", c.words.doc.Quote(q.At))
		}
	}
	if err := c.checkQuestions(permitted); err != nil {
		return err
	}
	return c.checkSides(sides)
}

// does reports whether the words do something.
func (r *reading) does(what string) bool {
	return r.has(what) || what == "ask" && strings.Contains(r.original, "?")
}

// mayName reports whether the acts are about a subject, or the customer named it before and answers
// no question whether they agree.
func (c *checker) mayName(subject string, answers bool) bool {
	names := func(r *reading) bool { return r.about(subject, true) || r.about(subject, false) }
	return names(c.template) || slices.ContainsFunc(c.Acts, func(a Act) bool { return subjects[a.Topic] == subject }) ||
		!answers && slices.ContainsFunc(c.own, names)
}

// checkWish wants the subjects of a wish, and none that it is against to be wished for.
func (c *checker) checkWish(a *Act) error {
	if a.Kind != Rethink && a.Kind != Request && a.Topic != AboutWish {
		return nil
	}
	template := c.read(a.Words)
	for _, q := range template.cues {
		switch {
		case !q.isAbout():
		case a.Kind == Request && (c.words.about(q.Name, true) || c.words.about(q.Name, false)):
			return nil
		case a.Kind == Request:
		case !template.about(q.Name, false) && c.words.about(q.Name, false):
			return refuse(RefusedAct, "%q isn't wished for", template.doc.Quote(q.At))
		case !q.denied && !c.words.about(q.Name, false):
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
	}
	if a.Kind == Request || a.Kind == Tell && template.has(either) && !c.words.has(either) {
		return refuse(RefusedOmitted, "say clearly: %s", a.Words)
	}
	return nil
}

// checkQuestions wants no question but those of the acts, and those that repeat what is answered: "A
// refund? Yes."
func (c *checker) checkQuestions(permitted []string) error {
	if slices.Contains(permitted, "ask") {
		return nil
	}
	for i, t := range c.words.doc.Tokens {
		if t.Text != "?" || i == 0 {
			continue
		}
		lo, _ := c.words.clauseAt(i - 1)
		if !slices.ContainsFunc(c.words.cues, func(q cue) bool {
			return q.lo == lo && slices.ContainsFunc(c.Acts, func(a Act) bool { return a.side() != 0 && subjects[a.Topic] == q.Name })
		}) {
			return refuse(RefusedAct, "ask nothing")
		}
	}
	return nil
}

// checkSides wants each change that is answered to get its own answer.
func (c *checker) checkSides(sides map[int]int) error {
	others := slices.ContainsFunc(c.Acts, func(a Act) bool { return a.side() <= 0 && a.Kind != Complain })
	switch {
	case sides[1] > 0 && !others && c.words.has("deny"):
		return refuse(RefusedAct, "what is agreed to isn't to be denied")
	case sides[1]+sides[-1] < 2:
		return nil
	}
	for i := range c.Acts {
		a := &c.Acts[i]
		if a.side() == 0 {
			continue
		}
		at := slices.IndexFunc(c.words.cues, func(q cue) bool { return q.Name == subjects[a.Topic] })
		if at < 0 || sides[1] > 0 && sides[-1] > 0 && c.sideAt(at) != a.side() {
			return refuse(RefusedOmitted, "say clearly: %s", a.Words)
		}
	}
	return nil
}

// sideAt is the answer to the change that a cue names: the first one after it and before the next
// change, or else the last one before it in its sentence.
func (c *checker) sideAt(at int) int {
	side := func(q *cue) int {
		switch what := q.does(); {
		case what == "no", what == "deny":
			return -1
		case what == "yes", what == "agree":
			return 1
		}
		return 0
	}
	named := c.words.cues[at].Name
	for i := at + 1; i < len(c.words.cues); i++ {
		q := &c.words.cues[i]
		if q.isAbout() && q.Name != named {
			break
		}
		if s := side(q); s != 0 {
			return s
		}
	}
	for i := at - 1; i >= 0 && !c.words.cues[i].isAbout(); i-- {
		if s := side(&c.words.cues[i]); s != 0 {
			return s
		}
	}
	return 0
}

// maxUnknown is the most words of a sentence that neither the language's lexicon nor the
// conversation has, maxUnshown the most of one that shows no act.
const maxUnknown, maxUnshown = 4, 1

// checkClear wants each sentence to show one of the acts, or to be of known words.
func (c *checker) checkClear() error {
	known := map[string]bool{}
	for _, r := range append([]*reading{c.template}, c.said...) {
		for _, t := range r.doc.Tokens {
			known[stem(t.Text)] = true
		}
	}
	unknown, shown := []string{}, false
	d := c.words.doc
	for i := range d.Tokens {
		if d.StartsSentence(i) {
			unknown, shown = nil, false
		}
		t := &d.Tokens[i]
		if len(t.Text) > 2 && t.Value == 0 && !known[stem(t.Text)] && !d.IsKnown(i) && !c.words.inCue(i) &&
			strings.Trim(t.Text, "abcdefghijklmnopqrstuvwxyz") == "" {
			unknown = append(unknown, t.Text)
		}
		shown = shown || t.Value > 0 || c.words.inCue(i)
		if len(unknown) > maxUnknown || len(unknown) > maxUnshown && !shown && (i+1 == len(d.Tokens) || d.StartsSentence(i+1)) {
			return refuse(RefusedUnclear, "say it more simply, without %q", strings.Join(unknown, ", "))
		}
	}
	return nil
}

// inCue reports whether a cue that does something stands at token i.
func (r *reading) inCue(i int) bool {
	return slices.ContainsFunc(r.cues, func(q cue) bool { return q.At.Lo <= i && i < q.At.Hi && q.Name != "does fill" })
}

// stem is the beginning of a word, which its forms share.
func stem(s string) string { return s[:min(len(s), 5)] }
