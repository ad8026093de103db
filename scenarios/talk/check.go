package talk

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/text"
)

// RefusalKind is why words of a customer are refused.
type RefusalKind string

// The kinds of refusals.
const (
	RefusedLength      RefusalKind = "length"      // no words, or too many for the acts
	RefusedMarkup      RefusalKind = "markup"      // marks, links, roles or letters that no customer writes
	RefusedLanguage    RefusalKind = "language"    // another language than the case's
	RefusedInstruction RefusalKind = "instruction" // the agent's instructions or tools are spoken of
	RefusedQuote       RefusalKind = "quote"       // a text that must stand as it is doesn't
	RefusedValue       RefusalKind = "value"       // an amount, a day, an id or a number that is nobody's
	RefusedName        RefusalKind = "name"        // a name that is nobody's
	RefusedHidden      RefusalKind = "hidden"      // a value that the customer doesn't state yet
	RefusedMissing     RefusalKind = "missing"     // a value of an act isn't stated
	RefusedAct         RefusalKind = "act"         // something is done that no act does
	RefusedOmitted     RefusalKind = "omitted"     // what an act does isn't done
	RefusedUnclear     RefusalKind = "unclear"     // a sentence shows none of the acts
)

// RefusalKinds lists them.
var RefusalKinds = []RefusalKind{RefusedLength, RefusedMarkup, RefusedLanguage, RefusedInstruction, RefusedQuote,
	RefusedValue, RefusedName, RefusedHidden, RefusedMissing, RefusedAct, RefusedOmitted, RefusedUnclear}

// Refusal says why words of a customer are refused.
type Refusal struct {
	Kind RefusalKind
	// Detail is for whoever words the turn again.
	Detail string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Kind, r.Detail) }

func refuse(kind RefusalKind, format string, args ...any) error {
	return &Refusal{kind, fmt.Sprintf(format, args...)}
}

// IsQuoted reports whether the words of an act must stand as they are: it tells something that is
// no value, so that no other words can be compared with it.
func (a *Act) IsQuoted() bool {
	return a.Kind == Tell && (a.Topic == "" || a.Topic == AboutPhoto)
}

// Check returns nil if words say what the acts of a turn say and nothing else, or a *Refusal.
// Values are read strictly: each number, day, amount, id and name must be one of the acts', or said
// before. What is asked, wished, agreed to and ended is read by cues of the language. Words that
// show neither are refused: the worst that happens to honest words is that they are worded again.
func Check(t *Turn, words string) error {
	if words == t.Template() {
		return nil
	}
	if err := checkForm(t, words); err != nil {
		return err
	}
	c := &checker{Turn: t, context: facts.NewContext(t.Language, t.Now)}
	own := strings.Join(strings.Fields(text.Normalise(words)), " ")
	var acts []string
	for i := range t.Acts {
		a := &t.Acts[i]
		quote := strings.TrimRight(strings.Join(strings.Fields(text.Normalise(a.Words)), " "), ".!")
		before, after, found := strings.Cut(own, quote)
		switch {
		case a.IsQuoted() && !found:
			return refuse(RefusedQuote, "these words must stand as they are: %q", quote)
		case a.IsQuoted():
			own = before + "\n\n" + after
			continue
		case found && len(strings.Fields(quote)) > 3: // An act in its own words is as it should be.
			own = before + "\n\n" + after
		default:
			c.open = append(c.open, a)
		}
		acts = append(acts, a.Words)
	}
	c.words, c.template = c.read(own), c.read(strings.Join(acts, " "))
	for _, check := range []func() error{c.checkLanguage, c.checkValues, c.checkNames, c.checkActs, c.checkClear} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// The length of words beyond that of the template, in characters.
const lengthFactor, lengthMore = 3, 160

// marks are what no customer writes: markup, links, roles and tokens of templates of chats.
var marks = regexp.MustCompile("(?i)[<>{}\\[\\]|\\\\`~^=#*_]|https?:|www\\.|\\p{L}/\\S*/|" +
	`(^|\n)\s*[-•]|\b(system|assistant|user|agent|human|customer|tool)\s*:|\p{L}\.(com|org|net|io|de|fr|es|ai)\b`)

func checkForm(t *Turn, words string) error {
	template := t.Template()
	limit := lengthFactor*utf8.RuneCountInString(template) + lengthMore
	switch n := utf8.RuneCountInString(words); {
	case strings.TrimSpace(words) == "":
		return refuse(RefusedLength, "there are no words")
	case n > limit:
		return refuse(RefusedLength, "%d characters are too many, use at most %d", n, limit)
	case !utf8.ValidString(words):
		return refuse(RefusedMarkup, "the words aren't valid UTF-8")
	}
	rest := words
	for _, a := range t.Acts { // whose values may look like markup
		rest = strings.ReplaceAll(rest, a.Words, "")
		for _, v := range a.Values {
			for _, s := range v.Values {
				rest = strings.ReplaceAll(rest, s, "")
			}
		}
	}
	if at := marks.FindString(rest); at != "" {
		return refuse(RefusedMarkup, "write plain words without %q", strings.TrimSpace(at))
	}
	for _, r := range rest {
		if r != '\n' && unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.So) || r > unicode.MaxLatin1 &&
			unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) || r > unicode.MaxLatin1 && unicode.IsNumber(r) {
			return refuse(RefusedMarkup, "write plain words without %q", r)
		}
	}
	return nil
}

// checker checks the words of a turn.
type checker struct {
	*Turn

	context *facts.Context
	// open are the acts whose own words don't stand in the words.
	open []*Act
	// words and template are without what is quoted.
	words, template *reading
	// said are the messages before, own the customer's among them.
	said, own []*reading
}

// reading is a text with its cues.
type reading struct {
	*facts.Message

	original string
	doc      *text.Document
	cues     []cue
}

// cue is a cue in its clause.
type cue struct {
	text.Cue

	// lo and hi are the clause's first token and the one after its last one.
	lo, hi int
	// denied means that the clause says the opposite, tells and feels that it has such a cue.
	denied, tells, feels bool
}

// parse reads a text without its cues.
func (c *checker) parse(s string) *reading {
	m := c.context.NewMessage(s)
	return &reading{Message: m, original: s, doc: m.Document()}
}

func (c *checker) read(s string) *reading {
	r := c.parse(s)
	all := r.doc.Cues()
	for _, found := range all {
		q := cue{Cue: found}
		q.lo, q.hi = r.clauseAt(found.At.Lo)
		for _, o := range all {
			before, after := found.At.Lo-o.At.Hi, o.At.Lo-found.At.Hi
			switch {
			case o.At.Lo < q.lo || o.At.Lo >= q.hi:
			case o.Name == "not deny":
				q.denied = q.denied || before >= 0 && before <= denyBefore || after >= 0 && after <= denyAfter
			case o.Name == "not instead":
				q.denied = q.denied || before >= 0 && before <= denyBefore
			case o.Name == "does tell":
				q.tells = true
			case o.Name == "does feel":
				q.feels = true
			}
		}
		r.cues = append(r.cues, q)
	}
	return r
}

// The most tokens between a negation and what it denies.
const denyBefore, denyAfter = 6, 2

// clauseAt returns the tokens between the marks and conjunctions around a token.
func (r *reading) clauseAt(i int) (lo, hi int) {
	ends := func(k int) bool {
		t := &r.doc.Tokens[k]
		return strings.Contains(".,;:?!\n\"()", t.Text) ||
			t.IsWord("and", "but", "und", "aber", "sondern", "et", "mais", "y", "pero", "sino")
	}
	for lo = i; lo > 0 && !ends(lo-1); lo-- {
	}
	for hi = i; hi < len(r.doc.Tokens) && !ends(hi); hi++ {
	}
	return lo, hi
}

// has reports whether a clause does something.
func (r *reading) has(what string) bool {
	return slices.ContainsFunc(r.cues, func(q cue) bool { return q.does() == what })
}

// does is what a cue does in its clause: to agree to nothing is to refuse, nothing more to tell is
// no end, and getting angry is no promise.
func (q *cue) does() string {
	switch name := strings.TrimPrefix(strings.TrimPrefix(q.Name, "does "), "not "); {
	case name == "yes" && q.At.Lo > q.lo && q.At.Hi == q.At.Lo+1 && !q.denied: // "a fine one"
		return "fill"
	case q.denied && (name == "agree" || name == "yes" || name == "want"):
		return "no"
	case q.tells && name == "end":
		return "know"
	case q.feels && name == "promise":
		return "feel"
	default:
		return name
	}
}

// isAbout reports whether a cue names a subject: a change that settles requests, or a kind of
// request.
func (q *cue) isAbout() bool { return strings.HasPrefix(q.Name, "about ") }

func (r *reading) about(name string, denied bool) bool {
	return slices.ContainsFunc(r.cues, func(q cue) bool { return q.Name == name && q.denied == denied })
}

// checkLanguage wants no sentence of which another language knows more words.
func (c *checker) checkLanguage() error {
	if c.words.Foreign {
		return refuse(RefusedLanguage, "write %s", c.Language)
	}
	d := c.words.doc
	for _, language := range text.Languages() {
		if language == d.Lexicon.Language {
			continue
		}
		other := facts.NewContext(language, c.Now).NewMessage(c.words.original).Document()
		for at := (text.Span{}); at.Hi < min(len(d.Tokens), len(other.Tokens)); {
			at = c.words.sentenceAt(at.Hi)
			if other.CountKnown(at) > d.CountKnown(at) {
				return refuse(RefusedLanguage, "write %s, not %s: %q", c.Language, language, d.Quote(at))
			}
		}
	}
	return nil
}

// checkValues wants all values of the acts, and no others than these and what was said.
func (c *checker) checkValues() error {
	var of []facts.Wanted
	for i := range c.Acts {
		a := &c.Acts[i]
		of = append(of, a.Values...)
		if !slices.Contains(c.open, a) {
			continue
		}
		for _, v := range a.Values {
			if !c.words.States(v) {
				what := strings.ReplaceAll(v.What, "_", " ")
				return refuse(RefusedMissing, "%s must be stated: %s", what, v.Values[0])
			}
		}
	}
	known := []*facts.Message{c.template.Message}
	for i, s := range c.Said {
		if i%2 == 0 {
			c.own = append(c.own, c.read(s))
			c.said = append(c.said, c.own[i/2])
		} else {
			c.said = append(c.said, c.parse(s))
		}
		known = append(known, c.said[i].Message)
	}
	if stray := c.words.Stray(of, known); stray != "" {
		return refuse(RefusedValue, "%q is none of the values to state", stray)
	}
	for _, h := range c.Hidden {
		same := func(r *reading) bool { return r.States(h) }
		if c.words.States(h) && !c.template.States(h) && !slices.ContainsFunc(c.own, same) {
			return refuse(RefusedHidden, "%q isn't said yet", h.Values[0])
		}
	}
	return c.checkDenied(of)
}

// checkDenied wants no value of an act to be denied: "LD-1, not LD-2".
func (c *checker) checkDenied(of []facts.Wanted) error {
	for _, v := range of {
		for _, q := range c.words.cues {
			if q.Name == "not deny" && q.At.Hi < q.hi && c.words.Quote(c.words.doc.Quote(
				text.Span{Lo: q.At.Hi, Hi: min(q.At.Hi+denyBefore, q.hi)})).States(v) && !c.template.has("deny") {
				return refuse(RefusedAct, "%s is denied", v.Values[0])
			}
		}
	}
	return nil
}

// word finds words of a text as they are written.
var word = regexp.MustCompile(`\p{L}+`)

// checkNames wants no word with a capital that is neither known to the language nor said. German
// writes all nouns with one: there, only words without an article or an adjective before them may
// be names.
func (c *checker) checkNames() error {
	said := map[string]bool{}
	for _, r := range append([]*reading{c.template}, c.said...) {
		for _, w := range word.FindAllString(r.original, -1) {
			said[text.Fold(w)] = true
		}
	}
	known := map[string]bool{}
	for i, t := range c.words.doc.Tokens {
		known[t.Text] = known[t.Text] || c.words.doc.IsKnown(i)
	}
	german := c.words.doc.Lexicon.Language == "de"
	var before [2]string
	for _, at := range word.FindAllStringIndex(c.words.original, -1) {
		w := c.words.original[at[0]:at[1]]
		folded, last := text.Fold(w), before
		before = [2]string{last[1], folded}
		first, _ := utf8.DecodeRuneInString(w)
		lead := strings.TrimRight(c.words.original[:at[0]], " \"'¿¡(„“«-")
		switch {
		case !unicode.IsUpper(first), said[folded], known[folded], len(folded) < 2:
		case lead == "", strings.ContainsAny(lead[len(lead)-1:], ".!?:\n"):
		case german && (article.MatchString(last[1]) || nounEnd.MatchString(folded) ||
			article.MatchString(last[0]) && adjective.MatchString(last[1])):
		default:
			return refuse(RefusedName, "%q was not said before", w)
		}
	}
	return nil
}

// Before a German noun stands an article, and maybe an adjective. Ends make nouns of other words.
var (
	article = regexp.MustCompile(`^(d(er|ie|as|en|em|es)|am|im|zum|zur|vom|beim|ins|ans|` +
		`(k?ein|[mds]ein|unser|euer|ihr|dies|jed|welch)(e|er|es|en|em)?)$`)
	adjective = regexp.MustCompile(`e[nmrs]?$`)
	nounEnd   = regexp.MustCompile(`(ung|heit|keit|schaft|tion|nis|tat)(en|s|e)?$`)
)

// The most words of a sentence that neither the language's lexicon nor the conversation has, and
// those of a phrase, such as a greeting, that shows nothing.
const maxUnknown, maxPhrase = 4, 3

// checkClear wants each sentence to show one of the acts by a value or a cue, or to be a phrase of
// known words. Each act that complains, knows nothing or says no may have one that shows nothing
// but a negation, or not even that, if no other sentence shows it.
func (c *checker) checkClear() error {
	known, left, dark := c.listKnown(), 0, 0
	var free []*Act // that may have such a sentence
	for _, a := range c.open {
		switch {
		case a.Kind == Complain, a.Kind == Exhausted:
			left, dark = left+1, dark+1
		case a.Kind == Evade:
			left, dark = left+2, dark+1
		case slices.Contains(a.rule().cues, "deny"):
			left++
		default:
			continue
		}
		free = append(free, a)
	}
	var unclear []text.Span
	d := c.words.doc
	for i := 0; i < len(d.Tokens); {
		at := c.words.sentenceAt(i)
		unknown, words, shown, denies := 0, 0, false, false
		for ; i < at.Hi; i++ {
			t := &d.Tokens[i]
			if t.Kind != text.WordToken {
				shown = shown || t.Kind != text.PunctToken || t.Text == "?"
				continue
			}
			words++
			inActs, isKnown := known[stem(t.Text)]
			if shown = shown || inActs; len(t.Text) > 2 && !isKnown && !d.IsKnown(i) {
				unknown++
			}
		}
		answers := false
		for _, q := range c.words.cues {
			if q.At.Lo < at.Lo || q.At.Lo >= at.Hi {
				continue
			}
			denies = denies || q.Name == "not deny"
			mine := q.isAbout() && c.mayName(&q, true) || q.Name != "not deny" && c.shows(q.does())
			shown = shown || mine
			answers = answers || mine && slices.ContainsFunc(free, func(a *Act) bool {
				return a.isAbout(q.Name) || slices.Contains(a.rule().cues, q.does()) && q.does() != "yes"
			})
		}
		switch {
		case unknown > maxUnknown, unknown > 2 && 2*unknown > words:
			return refuse(RefusedUnclear, "say it more simply: %q", d.Quote(at))
		case shown:
			if answers || strings.Contains(d.Quote(at), "?") && hasKind(free, Evade) {
				left--
			}
		case words > maxPhrase || unknown > 0 && words == maxPhrase || denies:
			if unclear = append(unclear, at); !denies {
				dark--
			}
		}
	}
	if len(unclear) > 0 && (len(unclear) > left || dark < 0) {
		return refuse(RefusedUnclear, "say it more simply: %q", d.Quote(unclear[len(unclear)-1]))
	}
	return nil
}

func hasKind(acts []*Act, kind Kind) bool {
	return slices.ContainsFunc(acts, func(a *Act) bool { return a.Kind == kind })
}

// listKnown lists the stems of the conversation's words, and whether they are of the acts' values.
func (c *checker) listKnown() map[string]bool {
	known := map[string]bool{}
	for _, r := range append([]*reading{c.template}, c.said...) {
		for _, t := range r.doc.Tokens {
			known[stem(t.Text)] = false
		}
	}
	for _, a := range c.open {
		for _, v := range a.Values {
			for _, w := range word.FindAllString(v.Values[0], -1) {
				known[stem(text.Fold(w))] = true
			}
		}
	}
	return known
}

// sentenceAt returns the tokens of the sentence at a token.
func (r *reading) sentenceAt(i int) text.Span {
	lo, hi := i, i+1
	for ; !r.doc.StartsSentence(lo); lo-- {
	}
	for ; hi < len(r.doc.Tokens) && !r.doc.StartsSentence(hi); hi++ {
	}
	return text.Span{Lo: lo, Hi: hi}
}

// stem is the beginning of a word, which its forms share.
func stem(s string) string { return s[:min(len(s), 5)] }
