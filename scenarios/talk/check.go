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
	// RefusedLength words are none, or too many for the acts.
	RefusedLength RefusalKind = "length"
	// RefusedMarkup words have marks, links, roles or letters that no customer writes.
	RefusedMarkup RefusalKind = "markup"
	// RefusedLanguage words are in another language than the case.
	RefusedLanguage RefusalKind = "language"
	// RefusedInstruction words speak of the agent's instructions or tools.
	RefusedInstruction RefusalKind = "instruction"
	// RefusedQuote words lack a text that must stand as it is.
	RefusedQuote RefusalKind = "quote"
	// RefusedValue words state an amount, a day, an id or a number that is nobody's.
	RefusedValue RefusalKind = "value"
	// RefusedName words have a name that is nobody's.
	RefusedName RefusalKind = "name"
	// RefusedHidden words state what the customer doesn't say yet.
	RefusedHidden RefusalKind = "hidden"
	// RefusedMissing words lack a value of an act.
	RefusedMissing RefusalKind = "missing"
	// RefusedAct words do something that no act does.
	RefusedAct RefusalKind = "act"
	// RefusedOmitted words don't do what an act does.
	RefusedOmitted RefusalKind = "omitted"
	// RefusedUnclear words have a sentence that shows none of the acts.
	RefusedUnclear RefusalKind = "unclear"
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

// Check returns nil if words say what the acts of a turn say and nothing else, or a *Refusal. Values
// are read strictly: each number, day, amount, id and name must be one of the acts', or said before.
// What is asked, wished, agreed to and ended is read by cues of the language. Words that show
// neither are refused: the worst that happens to honest words is that they are worded again.
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
		if !a.IsQuoted() {
			acts = append(acts, a.Words)
			continue
		}
		quote := strings.TrimRight(strings.Join(strings.Fields(text.Normalise(a.Words)), " "), ".!")
		before, after, found := strings.Cut(own, quote)
		if !found {
			return refuse(RefusedQuote, "these words must stand as they are: %q", quote)
		}
		own = before + "\n\n" + after
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
var marks = regexp.MustCompile("(?i)[<>{}\\[\\]|\\\\`~^=#*_]|https?:|www\\.|\\S/\\S*/|" +
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
		if r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r > unicode.MaxLatin1 &&
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
	// denied means that the clause says the opposite.
	denied bool
}

func (c *checker) read(s string) *reading {
	r := &reading{Message: c.context.NewMessage(s), original: s}
	r.doc = r.Document()
	all := r.doc.Cues()
	for _, found := range all {
		lo, hi := r.clauseAt(found.At.Lo)
		r.cues = append(r.cues, cue{Cue: found, lo: lo, hi: hi, denied: slices.ContainsFunc(all, func(o text.Cue) bool {
			if o.Name != "does deny" || o.At.Lo < lo || o.At.Lo >= hi {
				return false
			}
			before, after := found.At.Lo-o.At.Hi, o.At.Lo-found.At.Hi
			return before >= 0 && before <= denyBefore || after >= 0 && after <= denyAfter
		})})
	}
	return r
}

// The most tokens between a negation and what it denies.
const denyBefore, denyAfter = 4, 2

// clauseAt returns the tokens between the marks around a token.
func (r *reading) clauseAt(i int) (lo, hi int) {
	ends := func(k int) bool { return strings.Contains(".,;:?!\n\"()", r.doc.Tokens[k].Text) }
	for lo = i; lo > 0 && !ends(lo-1); lo-- {
	}
	for hi = i; hi < len(r.doc.Tokens) && !ends(hi); hi++ {
	}
	return lo, hi
}

// has reports whether a clause does something. What agrees and is denied refuses.
func (r *reading) has(what string) bool {
	return slices.ContainsFunc(r.cues, func(q cue) bool { return q.does() == what })
}

// does is what a cue does with what is denied in mind.
func (q *cue) does() string {
	name := strings.TrimPrefix(q.Name, "does ")
	if q.denied && (name == "agree" || name == "yes") {
		return "no"
	}
	return name
}

// isAbout reports whether a cue names a subject: a change that settles requests, or a kind of
// request.
func (q *cue) isAbout() bool { return strings.HasPrefix(q.Name, "about ") }

func (r *reading) about(name string, denied bool) bool {
	return slices.ContainsFunc(r.cues, func(q cue) bool { return q.Name == name && q.denied == denied })
}

// checkLanguage wants the language's own words to be the commonest ones.
func (c *checker) checkLanguage() error {
	counts := c.words.doc.CommonWords()
	own := counts[c.words.doc.Lexicon.Language]
	for language, n := range counts {
		if n > own && n > 1 || c.words.Foreign {
			return refuse(RefusedLanguage, "write %s, not %s", c.Language, language)
		}
	}
	return nil
}

// checkValues wants all values of the acts, and no others than these and what was said.
func (c *checker) checkValues() error {
	var of []facts.Wanted
	for i := range c.Acts {
		if c.Acts[i].IsQuoted() {
			continue
		}
		for _, v := range c.Acts[i].Values {
			of = append(of, v)
			if !c.words.States(v) {
				return refuse(RefusedMissing, "%s must be stated: %s", strings.ReplaceAll(v.What, "_", " "), v.Values[0])
			}
		}
	}
	known := []*facts.Message{c.template.Message}
	for i, s := range c.Said {
		said := c.read(s)
		if known = append(known, said.Message); i%2 == 0 {
			c.own = append(c.own, said)
		}
		c.said = append(c.said, said)
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
			if q.Name == "does deny" && q.At.Hi < q.hi && c.words.Quote(c.words.doc.Quote(
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
// writes all nouns with one: there, only words without an article or an adjective before them may be
// names.
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
	before := ""
	for _, at := range word.FindAllStringIndex(c.words.original, -1) {
		w := c.words.original[at[0]:at[1]]
		folded, previous := text.Fold(w), before
		before = folded
		first, _ := utf8.DecodeRuneInString(w)
		lead := strings.TrimRight(c.words.original[:at[0]], " \"'¿¡(„“«-")
		switch {
		case !unicode.IsUpper(first), said[folded], known[folded], len(folded) < 2:
		case lead == "", strings.ContainsAny(lead[len(lead)-1:], ".!?:\n"):
		case german && (nounBefore.MatchString(previous) || nounEnd.MatchString(folded)):
		default:
			return refuse(RefusedName, "%q was not said before", w)
		}
	}
	return nil
}

// nounBefore are the ends of German articles and adjectives, and nounEnd those of nouns.
var (
	nounBefore = regexp.MustCompile(`(e[nmrs]?|as|am|im|zum|zur|vom|beim|ein|kein|mein|ihr|sein)$`)
	nounEnd    = regexp.MustCompile(`(ung|heit|keit|schaft|tion|nis|tat)(en|s|e)?$`)
)
