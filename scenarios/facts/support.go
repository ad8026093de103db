package facts

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/scenarios/text"
)

// Library reads served texts, and keeps those that it read last: instances share articles and
// rules. It is safe for concurrent use.
type Library struct {
	*lru.Cache[string, *extract]
}

// maxTexts is the maximum number of texts that a library keeps.
const maxTexts = 4096

// NewLibrary makes an empty library.
func NewLibrary() Library {
	cache, err := lru.New[string, *extract](maxTexts)
	if err != nil {
		panic(err) // The size is a positive constant.
	}
	return Library{cache}
}

// extract is what is kept of a served text. Each part is read when it is first needed.
type extract struct {
	cleaned string
	// words are its words and numbers without articles, and marks has a bit for each run of them.
	words func() string
	marks func() *marks

	mu sync.Mutex
	// values are its values by the lexicon that they are read with, each once.
	values map[*text.Lexicon][]text.Value
}

func (l Library) extract(s string) *extract {
	if e, ok := l.Get(s); ok {
		return e
	}
	e := &extract{cleaned: clean(s), values: map[*text.Lexicon][]text.Value{}}
	e.words = sync.OnceValue(func() string { return strings.Join(significantWords(e.cleaned), " ") })
	e.marks = sync.OnceValue(func() *marks {
		var m marks
		for run := range runsOf(e.words()) {
			m.add(hashRun(run))
		}
		return &m
	})
	l.Add(s, e)
	return e
}

// hasRun reports whether a text has a run of words with a hash.
func (e *extract) hasRun(run string, hash uint64) bool {
	return e.marks().mayHave(hash) && hasWords(e.words(), run)
}

// marks is a set of hashes that tells most of those apart that it lacks.
type marks [64]uint64

func (m *marks) add(hash uint64)          { m[hash/64%64] |= 1 << (hash % 64) }
func (m *marks) mayHave(hash uint64) bool { return m[hash/64%64]&(1<<(hash%64)) != 0 }

var hashSeed = maphash.MakeSeed()

func hashRun(run string) uint64 { return maphash.String(hashSeed, run) }

// valuesIn returns the values that a text has in the language of a lexicon.
func (e *extract) valuesIn(lex *text.Lexicon) []text.Value {
	e.mu.Lock()
	defer e.mu.Unlock()
	values, known := e.values[lex]
	if !known {
		values = text.AppendNew(nil, text.Parse(e.cleaned, lex).Values)
		e.values[lex] = values
	}
	return values
}

// runLength is the number of words of a run. It is long enough that people don't repeat one by
// accident.
const runLength = 8

// runsOf yields the runs of words, in order.
func runsOf(words string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var starts []int
		from := 0
		for end := range len(words) + 1 {
			if end < len(words) && words[end] != ' ' {
				continue
			}
			starts = append(starts, from)
			if n := len(starts); n >= runLength && !yield(words[starts[n-runLength]:end]) {
				return
			}
			from = end + 1
		}
	}
}

// Served is what an agent was served in an instance: texts, and values that it may state besides.
type Served struct{ Texts, Values []string }

// read reads what was served when it is first needed: most messages state values of the instance's
// facts alone.
func (g *Gold) read(l Library, served Served) {
	g.texts = sync.OnceValue(func() []*extract {
		var all []*extract
		for _, t := range served.Texts {
			for part := range strings.SplitSeq(t, "\n\n") { // instances share paragraphs
				all = append(all, l.extract(part))
			}
		}
		return all
	})
	g.support = sync.OnceValue(func() *support {
		today := g.context.today
		u := &support{context: g.context, seen: map[text.Value]struct{}{},
			days: []time.Time{today, today.AddDate(0, 0, 1)}}
		u.reached = sync.OnceValue(u.reach)
		u.add(g.requiredValues...)
		u.add(g.listedValues()...)
		texts := slices.Clip(g.texts())
		for _, v := range served.Values {
			texts = append(texts, l.extract(v))
		}
		for _, e := range texts {
			for _, lex := range g.context.lexicons {
				u.add(e.valuesIn(lex)...)
			}
		}
		return u
	})
}

// support is what the values that an agent was served support. It is immutable.
type support struct {
	context *Context
	values  []text.Value
	seen    map[text.Value]struct{}
	// amounts are in thousandths, percents as well.
	amounts, percents []int64
	durations         []text.Value
	days              []time.Time
	// reached are the days that a known duration leads to from a known day.
	reached func() map[time.Time]struct{}
}

// add adds values that the agent may state.
func (s *support) add(values ...text.Value) {
	for _, v := range values {
		v.At, v.Number, v.Measure = text.Span{}, 0, ""
		if _, known := s.seen[v]; known {
			continue
		}
		s.seen[v] = struct{}{}
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

// supportsFact reports whether what was served supports a stated value.
func (g *Gold) supportsFact(v *value) bool {
	if v.of.Type == Text || v.of.Type == ID {
		if v.key != "" && g.holds(v) {
			return true
		}
	}
	return slices.ContainsFunc(v.readings, g.supports)
}

// holds reports whether a served text has the words of a text, or the id.
func (g *Gold) holds(v *value) bool {
	if v.of.Type == Text {
		return slices.ContainsFunc(g.texts(), func(e *extract) bool { return hasWords(e.words(), v.key) })
	}
	keys := idKeys(v.cleaned)
	return slices.ContainsFunc(g.support().values, func(o text.Value) bool {
		return o.Kind >= text.NumberValue &&
			slices.ContainsFunc(keys, func(key string) bool { return text.SameID(text.LettersAndDigits(o.ID), key) })
	})
}

// holdsID reports whether a value is an id that a served text has, with or without a prefix.
func (g *Gold) holdsID(v text.Value) bool {
	return v.Kind == text.IDValue && g.holds(&value{of: Name{Type: ID}, cleaned: v.ID, key: v.ID})
}

// supports reports whether what was served, or what follows from it, has the value.
func (g *Gold) supports(v text.Value) bool {
	return text.Contains(g.requiredValues, v) || text.Contains(g.listedValues(), v) || g.support().supports(v)
}

// maxCount is the greatest number that needs no support, because it may count anything.
const maxCount = 12_000

func (s *support) supports(v text.Value) bool {
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
func (s *support) amountFollows(amount int64) bool {
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
func (s *support) dayFollows(day time.Time) bool {
	if slices.ContainsFunc(s.days, func(known time.Time) bool { return daysBetween(day, known) <= nearDays }) {
		return true
	}
	_, ok := s.reached()[day]
	return ok
}

func (s *support) reach() map[time.Time]struct{} {
	reached := map[time.Time]struct{}{}
	for i, from := range s.days {
		for _, d := range s.durations {
			for _, sign := range []int{1, -1} {
				end, ok := d.Shift(from, sign)
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
func (s *support) clockFollows(minutes int64) bool {
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
func (s *support) durationFollows(d text.Value) bool {
	for _, known := range s.durations {
		if known.Unit == d.Unit && (known.Amount == 2*d.Amount || 2*known.Amount == d.Amount) {
			return true
		}
	}
	for i, a := range s.days {
		if end, ok := d.Shift(a, 1); ok && slices.ContainsFunc(s.days, end.Equal) {
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

// Unsupported returns the first amount, date or id of a message that nothing supports, as it is
// written, or "".
func (g *Gold) Unsupported(m *Message) string {
	for _, v := range m.doc.Values {
		if isClaim(v) && !g.supports(v) && !g.holdsID(v) {
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

// IsCopy reports whether more than half of a message's words are in runs of words of a served text.
func (g *Gold) IsCopy(m *Message) bool {
	words := strings.Count(m.words, " ") + 1
	copied, end, i := 0, 0, 0
	for run := range runsOf(m.words) {
		hash := hashRun(run)
		if slices.ContainsFunc(g.texts(), func(e *extract) bool { return e.hasRun(run, hash) }) {
			copied += i + runLength - max(end, i)
			end = i + runLength
		}
		i++
		if left := words - max(end, i); 2*(copied+left) <= words {
			return false
		}
	}
	return 2*copied > words
}
