package offline

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxMessageRunes is the length of a message from which it loses the points for form.
	maxMessageRunes = 4000
	// maxReplyRunes is how much of a reply is read: ten such messages and what joins them. Whatever
	// is longer earns nothing, so that nothing hides behind the end of the judge's attention.
	maxReplyRunes = 10*maxMessageRunes + 1000
)

// bounded normalises an untrusted text. One that is too long to be read is cut, and whole is false.
func bounded(s string) (text string, whole bool) {
	runes := 0
	for i := range s {
		if runes++; runes > maxReplyRunes {
			return normalise(s[:i]), false
		}
	}
	return normalise(s), true
}

// normalise makes texts comparable: NFKC, no invisible or control characters, plain quotes and
// hyphens. Invisible characters are how a word is hidden from a matcher yet shown to a person.
func normalise(s string) string {
	// Invisible characters go before composition, which they would keep apart, and after it, as it
	// may leave marks that matchers know otherwise.
	return strings.Map(plain, norm.NFKC.String(strings.Map(plain, strings.ToValidUTF8(s, " "))))
}

// plain maps a rune to the one that matchers know, or to -1 when it is invisible.
func plain(r rune) rune {
	switch {
	case r == '\n', r >= ' ' && r < 0x7f:
		return r
	case r < ' ', r >= 0x7f && r < 0xa0:
		return ' '
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0xfeff, unicode.Is(unicode.Cf, r), unicode.Is(
		unicode.Variation_Selector, r):
		return -1
	case r == '‘', r == '’', r == 'ʼ', r == '´', r == '′':
		return '\''
	case r == '“', r == '”', r == '„', r == '«', r == '»':
		return '"'
	case r == '‐', r == '‑', r == '–', r == '−':
		return '-'
	}
	return r
}

// fold lower-cases a normalised text and strips the diacritics of Latin letters, so that
// "Rückerstattung" and "ruckerstattung" are one word.
func fold(s string) string {
	ascii := true
	for i := 0; i < len(s) && ascii; i++ {
		ascii = s[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range norm.NFD.String(s) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(unicode.ToLower(r))
		case unicode.Is(unicode.Mn, r):
		case r == 'ß':
			b.WriteString("ss")
		case r == 'œ', r == 'Œ':
			b.WriteString("oe")
		case r == 'æ', r == 'Æ':
			b.WriteString("ae")
		default:
			b.WriteRune(latin(unicode.ToLower(r)))
		}
	}
	return b.String()
}

// latin maps a lower-case letter of another script that looks like a Latin one to it, so that no
// word hides behind it.
func latin(r rune) rune {
	const others, twins = "аеорсухіјѕԁһмвткngοαερτυνικ", "aeopcyxijsdhmbtkngoaeptuvik"
	if r < 0x370 || r > 0x52f {
		return r
	}
	at := 0
	for _, o := range others {
		if o == r {
			return rune(twins[at])
		}
		at++
	}
	return r
}

type tokenKind uint8

const (
	wordToken tokenKind = iota
	// numberToken is a decimal number; its value is in thousandths.
	numberToken
	// idToken is what names a thing: INV-104233, KI-118, an e-mail address, a link.
	idToken
	// dateToken and clockToken are written in digits alone: 2026-03-14, 23:59.
	dateToken
	clockToken
	currencyToken
	punctToken
)

// token is a word, a number or a mark of a folded text.
type token struct {
	text    string
	stem    string
	kind    tokenKind
	classes WordClass
	heads   Phrases
	// root is what the lexicon knows of a word's stem, nil for nothing.
	root *root
	// hash is that of a word's text.
	hash      uint64
	prefilter prefilter
	// value is in thousandths: that of a number, or of a word that writes one.
	value int64
	// glued tokens follow their predecessor without a space.
	glued bool
}

// word tells whether the token is one of the given words.
func (t *token) word(words ...string) bool {
	return t.kind == wordToken && slices.Contains(words, t.text)
}

// is tells whether the token is a word of the class.
func (t *token) is(c WordClass) bool {
	return t.classes&c != 0
}

// stemIs tells whether the token is a word whose stem is of the class.
func (t *token) stemIs(c StemClass) bool {
	return t.root != nil && t.root.classes&c != 0
}

// groups are the groups of words of one meaning that a word belongs to.
func (t *token) groups() uint64 {
	if t.root == nil {
		return 0
	}
	return t.root.groups
}

// remedy is what a word stands for, "" for none.
func (t *token) remedy() string {
	if t.root == nil {
		return ""
	}
	return t.root.remedy
}

// among tells whether the token is one of the given marks.
func (t *token) among(marks string) bool {
	return strings.Contains(marks, t.text)
}

// span is a half-open range of token indexes.
type span struct{ lo, hi int }

// document is a text made ready for matching: tokens, sentences, the clauses within them, and the
// claims it makes.
type document struct {
	lex       *lexicon
	text      string
	tokens    []token
	sentences []span
	// echoes are sentences set apart because they repeat the customer's.
	echoes  []span
	clauses []span
	// read are the clauses in the order of their spans, nil before they are asked for.
	read   []clause
	claims []claim
	// mood is that of the sentence last asked for.
	mood mood
}

// parse reads a folded text in the language of the lexicon.
func parse(text string, lex *lexicon) *document {
	d := &document{lex: lex, text: text, tokens: make([]token, 0, len(text)/4+8)}
	s := scanner{text: text, lex: lex}
	for s.next() {
		d.tokens = append(d.tokens, s.tok)
	}
	d.claims = (&valueReader{d.tokens, lex}).extractClaims()
	d.segment()
	return d
}

// segment finds sentences and clauses. A sentence ends at a full stop, a question or exclamation
// mark, a blank line or a list item; a clause also at other punctuation and before a conjunction.
func (d *document) segment() {
	sentence, clause := 0, 0
	endClause := func(at int) {
		if at > clause {
			d.clauses = append(d.clauses, span{clause, at})
		}
		clause = at
	}
	for i, t := range d.tokens {
		switch {
		case d.endsSentence(i):
			endClause(i + 1)
			if i > sentence {
				d.sentences = append(d.sentences, span{sentence, i + 1})
			}
			sentence = i + 1
		case t.kind == punctToken && (t.among(",;:()\"—") || t.text == "-" && !t.glued):
			endClause(i + 1)
		case t.kind == wordToken && t.is(Conjunctions):
			endClause(i)
		}
	}
	endClause(len(d.tokens))
	if sentence < len(d.tokens) {
		d.sentences = append(d.sentences, span{sentence, len(d.tokens)})
	}
}

// endsSentence tells whether token i ends a sentence. A full stop doesn't after an abbreviation,
// inside "e.g." or in the German "14. März".
func (d *document) endsSentence(i int) bool {
	t := d.tokens[i]
	if t.kind != punctToken || !t.among(".!?\n") {
		return false
	}
	if t.text != "." || i == 0 || i+1 == len(d.tokens) {
		return true
	}
	before, after := d.tokens[i-1], d.tokens[i+1]
	switch {
	case after.glued && after.kind != punctToken, before.kind == wordToken && before.is(Abbreviations):
		return false
	case before.kind == numberToken && d.lex.months[after.text] != 0:
		return false
	}
	return true
}

// clauseOf returns the clause that holds the token.
func (d *document) clauseOf(at int) span {
	return spanOf(d.clauses, at)
}

// sentenceOf returns the sentence that holds the token.
func (d *document) sentenceOf(at int) span {
	return spanOf(d.sentences, at)
}

// wholeSentenceOf returns the sentence that holds the token, be it an echo of the customer's.
func (d *document) wholeSentenceOf(at int) span {
	if s := spanOf(d.echoes, at); s.hi > at+1 || s.lo < at {
		return s
	}
	return d.sentenceOf(at)
}

// spanOf returns the one of the spans, which are in order, that holds the token, or the token
// alone.
func spanOf(spans []span, at int) span {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].hi > at })
	if i < len(spans) && at >= spans[i].lo {
		return spans[i]
	}
	return span{at, at + 1}
}

// claimsWithin returns the claims that the span holds whole. Claims are in order and apart.
func (d *document) claimsWithin(s span) []claim {
	lo := sort.Search(len(d.claims), func(i int) bool { return d.claims[i].at.lo >= s.lo })
	hi := lo
	for hi < len(d.claims) && d.claims[hi].at.hi <= s.hi {
		hi++
	}
	return d.claims[lo:hi]
}

// claimAt returns the claim that token i is part of, or nil.
func (d *document) claimAt(i int) *claim {
	k := sort.Search(len(d.claims), func(k int) bool { return d.claims[k].at.hi > i })
	if k < len(d.claims) && d.claims[k].at.lo <= i {
		return &d.claims[k]
	}
	return nil
}

// words counts the words, numbers and ids of a span.
func (d *document) words(s span) int {
	n := 0
	for _, t := range d.tokens[s.lo:s.hi] {
		if t.kind != punctToken && t.kind != currencyToken {
			n++
		}
	}
	return n
}

// question tells whether a sentence ends in a question mark.
func (d *document) question(s span) bool {
	return d.tokens[s.hi-1].text == "?"
}
