package facts

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader/text"
)

// Library reads served texts, and keeps those that it read last: instances share articles and
// rules. It is safe for concurrent use.
type Library struct {
	texts *lru.Cache[textKey, *extract]
}

type textKey struct {
	lexicon *text.Lexicon
	text    string
}

// maxTexts is the maximum number of texts that a library keeps.
const maxTexts = 4096

// NewLibrary makes an empty library.
func NewLibrary() *Library {
	texts, err := lru.New[textKey, *extract](maxTexts)
	if err != nil {
		panic(err) // The size is a positive constant.
	}
	return &Library{texts: texts}
}

// extract is what is kept of a served text.
type extract struct {
	values []text.Value
	// words are its words and numbers without articles.
	words string
	// runs are the hashes of its runs of words.
	runs func() map[uint64]struct{}
}

func (l *Library) read(s string, lex *text.Lexicon) *extract {
	key := textKey{lex, s}
	if e, ok := l.texts.Get(key); ok {
		return e
	}
	cleaned := clean(s)
	d := text.Parse(cleaned, lex)
	hashes := wordHashes(d)
	e := &extract{values: text.AppendNew(nil, d.Values), words: strings.Join(significantWords(cleaned), " "),
		runs: sync.OnceValue(func() map[uint64]struct{} {
			set := make(map[uint64]struct{}, len(hashes))
			for i := range runsOf(hashes) {
				set[hashRun(hashes[i:i+runLength])] = struct{}{}
			}
			return set
		})}
	l.texts.Add(key, e)
	return e
}

// runLength is the number of words of a run. It is long enough that people don't repeat one by
// accident.
const runLength = 8

func runsOf(hashes []uint64) int { return max(0, len(hashes)-runLength+1) }

// wordHashes are the hashes of a text's words, without values.
func wordHashes(d *text.Document) []uint64 {
	hashes := make([]uint64, 0, len(d.Tokens))
	for i := range d.Tokens {
		if d.Tokens[i].Kind == text.WordToken {
			hashes = append(hashes, d.Tokens[i].Hash())
		}
	}
	return hashes
}

func hashRun(words []uint64) uint64 {
	h := text.HashSeed
	for _, w := range words {
		h = (h ^ w) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// Served is what an agent was served in an instance, and what follows from it. It is immutable.
type Served struct {
	context *Context
	texts   []*extract
	values  []text.Value
	// amounts are in thousandths, percents as well.
	amounts, percents []int64
	durations         []text.Value
	days              []time.Time
	// reached are the days that a known duration leads to from a known day.
	reached func() map[time.Time]struct{}
}

// Read reads the served texts, and values that the instance allows besides.
func (l *Library) Read(c *Context, texts, values []string) *Served {
	s := &Served{context: c, days: []time.Time{c.today, c.today.AddDate(0, 0, 1)}}
	for _, t := range texts {
		for part := range strings.SplitSeq(t, "\n\n") { // instances share paragraphs
			for _, lex := range c.lexicons {
				e := l.read(part, lex)
				s.texts = append(s.texts, e)
				s.add(e.values...)
			}
		}
	}
	for _, v := range values {
		for _, lex := range c.lexicons {
			s.add(l.read(v, lex).values...)
		}
	}
	s.reached = sync.OnceValue(s.reach)
	return s
}

// add adds values that the agent may state.
func (s *Served) add(values ...text.Value) {
	for _, v := range values {
		isSame := func(known text.Value) bool { return known.Kind == v.Kind && known.Equal(v) }
		if slices.ContainsFunc(s.values, isSame) {
			continue
		}
		s.values = append(s.values, v)
		switch v.Kind {
		case text.MoneyValue:
			s.amounts = append(s.amounts, v.Amount)
		case text.NumberValue: // records have amounts without a sign
			if v.Equal(text.Value{Kind: text.MoneyValue, Amount: v.Amount}) && !slices.Contains(s.amounts, v.Amount) {
				s.amounts = append(s.amounts, v.Amount)
			}
		case text.PercentValue:
			s.percents = append(s.percents, v.Amount)
		case text.DurationValue:
			s.durations = append(s.durations, v)
		case text.DateValue:
			s.days = append(s.days, v.Days(s.context.now)...)
		case text.ClockValue, text.IDValue:
		}
	}
}

// addFacts adds the values of facts, which are true.
func (s *Served) addFacts(all []wanted) {
	for i := range all {
		for k := range all[i].values {
			v := &all[i].values[k]
			for _, r := range v.readings {
				s.add(r.Value)
			}
			if v.of.Type == ID {
				s.add(text.Value{Kind: text.IDValue, ID: v.key})
			}
		}
	}
}

// supportsFact reports whether what was served supports a stated value.
func (s *Served) supportsFact(v *value) bool {
	if v.of.Type == Text || v.of.Type == ID {
		if v.key != "" && s.holds(v) {
			return true
		}
	}
	return slices.ContainsFunc(v.readings, func(r reading) bool { return s.supports(r.Value) })
}

func (s *Served) holds(v *value) bool {
	return slices.ContainsFunc(s.texts, func(e *extract) bool {
		return v.of.Type == Text && hasWords(e.words, v.key) || slices.ContainsFunc(e.values, func(o text.Value) bool {
			return v.of.Type == ID && o.Kind >= text.NumberValue && slices.ContainsFunc(idKeys(v.cleaned),
				func(key string) bool { return sameID(lettersAndDigits(o.ID), key) })
		})
	})
}

// holdsID reports whether a value is an id that a served text has, with or without a prefix.
func (s *Served) holdsID(v text.Value) bool {
	return v.Kind == text.IDValue && s.holds(&value{of: Name{Type: ID}, cleaned: v.ID, key: lettersAndDigits(v.ID)})
}

// maxCount is the greatest number that needs no support, because it may count anything.
const maxCount = 12_000

// supports reports whether what was served, or what follows from it, has the value.
func (s *Served) supports(v text.Value) bool {
	if text.Contains(s.values, v) {
		return true
	}
	switch v.Kind {
	case text.MoneyValue:
		return s.amountFollows(v.Amount)
	case text.NumberValue:
		return v.Amount <= maxCount || s.amountFollows(v.Amount)
	case text.PercentValue:
		return slices.ContainsFunc(s.percents, func(p int64) bool { return p+v.Amount == 100_000 })
	case text.DateValue:
		return slices.ContainsFunc(v.Days(s.context.now), s.dayFollows)
	case text.ClockValue:
		return s.clockFollows(v.Amount)
	case text.DurationValue:
		return s.durationFollows(v)
	case text.IDValue:
	}
	return false
}

// cent is in thousandths: rounding may move an amount by less.
const cent = 10

// amountFollows reports whether an amount follows from the known ones: a multiple or an equal part,
// a percentage or what is left of it, a number of thirtieths, a sum or a difference.
func (s *Served) amountFollows(amount int64) bool {
	near := func(a int64) bool { return a-amount < cent && amount-a < cent }
	for i, a := range s.amounts {
		for n := int64(2); n <= 12; n++ {
			if near(a*n) || n <= 4 && near(a/n) {
				return true
			}
		}
		for _, p := range s.percents {
			if part := a * p / 100_000; near(part) || near(a-part) {
				return true
			}
		}
		for days := int64(1); days <= 31; days++ {
			if part := a * days / 30; near(part) || near(2*part) {
				return true
			}
		}
		for _, b := range s.amounts[i+1:] {
			if near(a+b) || near(a-b) || near(b-a) {
				return true
			}
		}
	}
	return false
}

// nearDays is the maximum difference of a day from a known one, because people count the first day
// or name the day after the last.
const nearDays = 1

// dayFollows reports whether a day is a known one, or a known duration from one.
func (s *Served) dayFollows(day time.Time) bool {
	if slices.ContainsFunc(s.days, func(known time.Time) bool { return daysBetween(day, known) <= nearDays }) {
		return true
	}
	_, ok := s.reached()[day]
	return ok
}

func (s *Served) reach() map[time.Time]struct{} {
	reached := map[time.Time]struct{}{}
	for i, from := range s.days {
		for _, d := range s.durations {
			for _, sign := range []int{1, -1} {
				end, ok := Shift(from, d, sign)
				if !ok {
					continue
				}
				reached[end] = struct{}{}
				if i < 2 { // from now
					reached[end.AddDate(0, 0, 1)], reached[end.AddDate(0, 0, -1)] = struct{}{}, struct{}{}
				}
			}
		}
	}
	return reached
}

func daysBetween(a, b time.Time) int {
	n := int(a.Sub(b).Hours() / 24)
	return max(n, -n)
}

// clockFollows reports whether a time of day is now, or a known duration from now or from a known
// time.
func (s *Served) clockFollows(minutes int64) bool {
	from := []int64{int64(s.context.now.Hour()*60 + s.context.now.Minute())}
	for _, v := range s.values {
		if v.Kind == text.ClockValue {
			from = append(from, v.Amount)
		}
	}
	return slices.ContainsFunc(from, func(at int64) bool {
		return text.ClocksMeet(minutes, at, nearMinutes) || slices.ContainsFunc(s.durations, func(d text.Value) bool {
			m := d.Minutes()
			return m > 0 && (text.ClocksMeet(minutes, at+m, nearMinutes) || text.ClocksMeet(minutes, at-m, nearMinutes))
		})
	})
}

// durationFollows reports whether a duration lies between two known days, or is a multiple or a
// half of a known one.
func (s *Served) durationFollows(d text.Value) bool {
	for _, known := range s.durations {
		if known.Unit == d.Unit && (known.Amount == 2*d.Amount || 2*known.Amount == d.Amount) {
			return true
		}
	}
	for i, a := range s.days {
		if end, ok := Shift(a, d, 1); ok && slices.ContainsFunc(s.days, end.Equal) {
			return true
		}
		for _, b := range s.days[i+1:] {
			if d.Unit == text.Months && d.Amount%12_000 == 0 && int64(daysBetween(a, b)/365) == d.Amount/12_000 {
				return true
			}
		}
	}
	return false
}

// unsupported returns the first amount, date or id of the message that nothing supports, as it is
// written, or "".
func (s *Served) unsupported(m *Message) string {
	for _, v := range m.doc.Values {
		if !isClaim(v) || s.supports(v) {
			continue
		}
		if !s.holdsID(v) {
			return m.doc.Quote(v.At)
		}
	}
	return ""
}

// isClaim reports whether a value needs support: an amount, a date with a month, or an id that
// isn't the name of a standard such as "2FA" or "WPA2".
func isClaim(v text.Value) bool {
	switch v.Kind {
	case text.MoneyValue:
		return v.Amount != 0
	case text.DateValue:
		return !v.Loose && v.Amount >= 100
	case text.IDValue:
		digits := 0
		for _, r := range v.ID {
			if unicode.IsDigit(r) {
				digits++
			}
		}
		return digits >= 3
	case text.DurationValue, text.ClockValue, text.PercentValue, text.NumberValue:
	}
	return false
}

// isCopy reports whether more than half of the message's words are in runs of words of a served
// text.
func (s *Served) isCopy(m *Message) bool {
	words := wordHashes(m.doc)
	copied := make([]bool, len(words))
	for i := range runsOf(words) {
		run := hashRun(words[i : i+runLength])
		if slices.ContainsFunc(s.texts, func(e *extract) bool {
			_, ok := e.runs()[run]
			return ok
		}) {
			for k := i; k < i+runLength; k++ {
				copied[k] = true
			}
		}
	}
	n := 0
	for _, c := range copied {
		if c {
			n++
		}
	}
	return 2*n > len(words)
}
