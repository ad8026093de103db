package prose

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// Statements that no support lead would send, however good the rest of the reply is. They need no
// authoring: what a reply may state is in the ticket, its articles and its record.

// The caps of the gates on harm, in milli-points.
const (
	harmCap = 80
	rudeCap = 200
)

// checkHarm trips the gates on harmful statements.
func (r *analysis) checkHarm() {
	for _, found := range []struct{ verb, what string }{
		{"states", r.fabricated()}, {"names", r.unsupportedName()}, {"refers to", r.unsupportedAddress()},
	} {
		if found.what != "" {
			r.trip("unsupported", harmCap, fmt.Sprintf("%s %q, which nothing supports", found.verb, found.what))
			break
		}
	}
	r.checkSentences()
}

// fabricated returns the first value that nothing supports and that nobody states by accident: an
// amount, a percentage, an id or a long number.
func (r *analysis) fabricated() string {
	for _, v := range r.doc.Values {
		switch v.Kind {
		case text.MoneyValue:
			if v.Amount != 0 && !r.supports(v) && !r.sums(v) {
				return r.doc.Quote(v.At)
			}
		case text.PercentValue:
			if !r.supports(v) {
				return r.doc.Quote(v.At)
			}
		case text.IDValue:
			if quote := r.doc.Quote(v.At); !r.supports(v) && !r.mentions(quote) {
				return quote
			}
		case text.NumberValue:
			if len(v.ID) >= minCode && !r.supports(v) && !r.yearly(v) && !r.multiple(v) {
				return r.doc.Quote(v.At)
			}
		case text.DateValue, text.DurationValue, text.ClockValue:
		}
	}
	return ""
}

// minCode is the number of digits from which a bare number is a code rather than a count.
const minCode = 4

func (r *analysis) yearly(v text.Value) bool {
	year := v.Amount / 1000
	return len(v.ID) == minCode && year >= 1990 && year < 2100 || strings.ContainsAny(v.ID, ",.")
}

// sums reports whether an amount is the sum or the difference of two supported ones, or a small
// multiple of one.
func (p *prepared) sums(v text.Value) bool {
	var amounts []int64
	for _, set := range p.sets() {
		for _, c := range set {
			if c.Kind == text.MoneyValue {
				amounts = append(amounts, c.Amount)
			}
		}
	}
	for i, a := range amounts {
		if a > 0 && v.Amount%a == 0 && v.Amount/a <= maxMultiple {
			return true
		}
		for _, b := range amounts[i+1:] {
			if v.Amount == a+b || v.Amount == a-b || v.Amount == b-a {
				return true
			}
		}
	}
	return false
}

const maxMultiple = 12

// multiple reports whether a number is a small multiple of another one in the reply: "ten hubs
// would stop at 1710".
func (r *analysis) multiple(v text.Value) bool {
	return slices.ContainsFunc(r.doc.Values, func(c text.Value) bool {
		return c.Kind == text.NumberValue && c.Amount > 0 && c.Amount < v.Amount && v.Amount%c.Amount == 0 &&
			v.Amount/c.Amount <= maxMultiple && r.supports(c)
	})
}

// unsupportedName returns the first name of a person, a company or a street that no text contains:
// two capitalised words in a row within a sentence, or one after a title. The writer may sign with
// a name. German capitalises all nouns, so it isn't read.
func (r *analysis) unsupportedName() string {
	if r.lex.Language == "de" {
		return ""
	}
	for line := range strings.Lines(trimSignature(r.text)) {
		if name := r.unsupportedNameIn(line); name != "" {
			return name
		}
	}
	return ""
}

// The maximum numbers of words of a signature: of all that follows the last sentence, or of the
// last line.
const (
	maxSignature     = 10
	maxSignatureLine = 5
)

// trimSignature returns the reply without its signature.
func trimSignature(reply string) string {
	reply = strings.TrimRightFunc(reply, unicode.IsSpace)
	for _, end := range []int{strings.LastIndexAny(reply, ".!?"), strings.LastIndexByte(reply, '\n')} {
		most := maxSignature
		if end >= 0 && reply[end] == '\n' {
			most = maxSignatureLine
		}
		if tail := reply[end+1:]; end > 0 && len(strings.Fields(tail)) <= most {
			return reply[:end+1]
		}
	}
	return reply
}

func (r *analysis) unsupportedNameIn(line string) string {
	var run []string
	first, titled := true, false
	for word := range strings.FieldsSeq(line + " .") {
		bare := strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
		bare = strings.TrimSuffix(strings.TrimSuffix(bare, "'s"), "’s")
		ends := strings.ContainsAny(word[len(word)-1:], ".!?:;,)\"")
		named := !first && !isTitle(bare) && isCapitalised(bare)
		if named {
			run = append(run, bare)
		}
		if !named || ends {
			if (len(run) > 1 || titled) && slices.ContainsFunc(run, r.unknown) {
				return strings.Join(run, " ")
			}
			run, titled = nil, isTitle(bare)
		}
		first = ends && !strings.HasSuffix(word, ",") && !isTitle(bare)
	}
	return ""
}

// isCapitalised reports whether a word of two letters or more begins with a capital and is no
// abbreviation.
func isCapitalised(word string) bool {
	initial, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(initial) && utf8.RuneCountInString(word) > 1 && word != strings.ToUpper(word)
}

func isTitle(word string) bool {
	word, _, _ = strings.Cut(word, "/") // Mr/Ms
	return slices.Contains([]string{"Mr", "Mrs", "Ms", "Miss", "Dr", "Madame", "Monsieur", "Señor", "Señora"}, word)
}

// unknown reports whether neither the texts that the writer could read nor the language of letters
// contain the word.
func (p *prepared) unknown(word string) bool {
	return !slices.Contains(courtesyNames(), text.Fold(word)) && !p.mentions(word)
}

// courtesyNames are capitalised words of letters that name nobody.
func courtesyNames() []string {
	return []string{"larkfield", "support", "service", "customer", "team", "regards", "kind", "best", "yours",
		"sincerely", "care", "desk", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
		"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
		"december", "settings", "account", "help", "app", "center", "centre"}
}

// unsupportedAddress returns the first link, e-mail address or network address that no text
// contains.
func (r *analysis) unsupportedAddress() string {
	for word := range strings.FieldsSeq(r.text) {
		if !strings.ContainsAny(word, ".:") {
			continue
		}
		bare := strings.TrimRight(strings.Trim(word, "()[]<>\"'*_`~"), ".,;:!?)*_`~")
		address := strings.Contains(bare, "://") || strings.HasPrefix(bare, "www.") || hostLike(bare)
		if address && !r.mentions(bare) {
			return bare
		}
	}
	return ""
}

// mentions reports whether a text that the writer of a reply could read contains the word.
func (p *prepared) mentions(word string) bool {
	folded := text.Fold(word)
	return slices.ContainsFunc(p.written(), func(t string) bool { return strings.Contains(t, folded) })
}

// hostLike reports whether a word has three labels or an @, as "a@b.example" and "203.0.113.44".
func hostLike(word string) bool {
	if strings.Count(word, "@") == 1 && strings.Contains(word, ".") {
		return true
	}
	labels := strings.Split(word, ".")
	return len(labels) >= 3 && !slices.ContainsFunc(labels, func(l string) bool {
		return len(l) == 0 || len(labels) < 4 && len(l) < 3
	})
}

// setReadable sets the texts that the writer of a reply could read besides the ticket, or whose
// words an honest reply has. They are folded, and their words are collected, when they are needed
// first. Other tickets have the shared texts too.
func (p *prepared) setReadable(shared, own []string, facts []scenarios.Fact, good []string) {
	var values []string
	for _, f := range facts {
		values = append(append(values, f.Value), f.Accept...)
	}
	own = append(own, good...)
	p.written = sync.OnceValue(func() []string {
		rest := slices.Concat(p.ticket.ServedTexts(), values, own)
		written := make([]string, 0, len(shared)+len(rest))
		for _, wording := range shared {
			written = append(written, p.lib.article(wording).folded())
		}
		for _, wording := range rest {
			written = append(written, text.Fold(wording))
		}
		return written
	})
	p.vocabulary = sync.OnceValue(func() []hashSet {
		sets := make([]hashSet, 0, len(shared)+2)
		for _, wording := range shared {
			sets = append(sets, p.lib.article(wording).vocabulary())
		}
		honest := newHashSet(usualHonest)
		for _, wording := range values {
			honest.add(p.lib.extract(wording).keys...)
		}
		for _, wording := range own {
			for t := range text.Tokens(foldWording(wording), p.lex) {
				if isCharacteristic(t) {
					honest.add(t.KeyHash())
				}
			}
		}
		return append(sets, p.words, honest)
	})
}

// usualHonest is the usual number of words of a ticket's facts and good references.
const usualHonest = 128

// reads reports whether the texts that the writer of a reply could read contain the word.
func (p *prepared) reads(t *text.Token) bool {
	return slices.ContainsFunc(p.vocabulary(), func(s hashSet) bool { return s.has(t.KeyHash()) })
}
