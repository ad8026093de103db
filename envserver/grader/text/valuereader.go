package text

import "strings"

// valueReader reads the values that the tokens of a text state.
type valueReader struct {
	tokens []Token
	lex    *Lexicon
}

// readAll reads the values of a text's tokens, in order and without overlap.
func (r *valueReader) readAll() []Value {
	var values []Value
	for i := 0; i < len(r.tokens); {
		c, ok := r.read(i)
		if !ok {
			i++
			continue
		}
		values = append(values, c)
		i = c.At.Hi
	}
	return r.inheritUnits(values)
}

// end stands for the token after the last one.
var end = &Token{Kind: PunctToken}

// at returns token i, or end.
func (r *valueReader) at(i int) *Token {
	if i < len(r.tokens) {
		return &r.tokens[i]
	}
	return end
}

// read reads the value that starts at token i.
func (r *valueReader) read(i int) (Value, bool) {
	switch t := r.at(i); t.Kind {
	case IDToken:
		if c, ok := r.readHourID(t.Text, i); ok {
			return c, true
		}
		return Value{Kind: IDValue, ID: compactID(t.Text), At: Span{i, i + 1}}, true
	case DateToken:
		return Value{Kind: DateValue, Amount: digitDate(t.Text, r.lex.monthFirst),
			Loose: strings.Count(t.Text, "/") == 1,
			At:    Span{i, i + 1}}, true
	case ClockToken:
		return r.readClock(i), true
	case CurrencyToken:
		return r.readPrefixedMoney(i)
	case NumberToken:
		return r.readNumber(i), true
	case WordToken:
		return r.readWord(i)
	case PunctToken:
	}
	return Value{}, false
}

func compactID(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_#", r) {
			return -1
		}
		return r
	}, s)
}

// readPrefixedMoney reads "$1,482".
func (r *valueReader) readPrefixedMoney(i int) (Value, bool) {
	if r.at(i+1).Kind == NumberToken {
		return Value{Kind: MoneyValue, Amount: r.at(i + 1).Value, At: Span{i, i + 2}}, true
	}
	return Value{}, false
}

// readNumber reads what a number at token i counts: money, time, a day of a month, a
// percentage or plain things.
func (r *valueReader) readNumber(i int) Value {
	c := Value{Kind: NumberValue, Amount: r.at(i).Value, ID: r.at(i).Text, At: Span{i, i + 1}}
	if d, ok := r.readDayMonth(i); ok {
		return d
	}
	if d, ok := r.readOrdinal(i); ok {
		return d
	}
	j := r.skipHyphen(i + 1)
	next := r.at(j)
	switch {
	case next.Kind == CurrencyToken && !r.ofNext(j), next.Kind == WordToken && next.Is(Currencies):
		c.Kind, c.At.Hi = MoneyValue, j+1
	case next.Text == "%", next.Is(Percents):
		c.Kind, c.At.Hi = PercentValue, j+1
	case next.IsWord("por", "pour", "per") && r.at(j+1).IsWord("ciento", "cent"):
		c.Kind, c.At.Hi = PercentValue, j+2
	case next.IsWord("am", "pm") || next.IsWord("uhr"):
		return clock(clockMinutes(c.Amount), next.Text, Span{i, j + 1})
	case next.IsWord("a", "p") && r.at(j+2).IsWord("m"):
		return clock(clockMinutes(c.Amount), next.Text+"m", Span{i, j + 3})
	default:
		if d, ok := r.readHour(i, j); ok {
			return d
		}
		if d, ok := r.readDuration(c, j); ok {
			return d
		}
	}
	return c
}

// ofNext reports whether the currency's sign at token j belongs to the number after it: "one of the
// two $82.00 charges".
func (r *valueReader) ofNext(j int) bool {
	return r.at(j+1).Kind == NumberToken && r.at(j+1).glued
}

// clockMinutes reads the hours before "pm" or "Uhr", with the minutes of "10.15" after the point.
func clockMinutes(thousandths int64) int64 { return thousandths/1000*60 + thousandths%1000/10 }

// readHour reads a time of day with an "h" at token j after the number i: "à 13 h", "13 h 15".
func (r *valueReader) readHour(i, j int) (Value, bool) {
	hour := r.at(i).Value
	if !r.at(j).IsWord("h") || r.lex.Language == "en" || r.lex.Language == "de" || hour%1000 != 0 || hour >= 24_000 {
		return Value{}, false
	}
	c := Value{Kind: ClockValue, Amount: hour / 1000 * 60, At: Span{i, j + 1}}
	if r.at(j+1).Kind == NumberToken && len(r.at(j+1).Text) == 2 &&
		r.at(j+1).Value < 60_000 {
		c.Amount += r.at(j+1).Value / 1000
		c.At.Hi++
		return c, true
	}
	return c, i > 0 && r.at(i-1).IsWord("a")
}

// readHourID reads "17h30", which looks like an id.
func (r *valueReader) readHourID(s string, i int) (Value, bool) {
	h, m, ok := strings.Cut(s, "h")
	if !ok || r.lex.Language == "en" || r.lex.Language == "de" || digits(h) != len(h) || len(h) > 2 || digits(m) != 2 ||
		len(m) != 2 || h == "" || atoi(h) > 23 || atoi(m) > 59 {
		return Value{}, false
	}
	return Value{Kind: ClockValue, Amount: 60*atoi(h) + atoi(m), At: Span{i, i + 1}}, true
}

// skipHyphen steps over the hyphen of "30-day".
func (r *valueReader) skipHyphen(j int) int {
	if r.at(j).Text == "-" && r.at(j).glued {
		return j + 1
	}
	return j
}

// readDuration reads the unit of the number c at token j, with the words that make days business
// days.
func (r *valueReader) readDuration(c Value, j int) (Value, bool) {
	business := false
	if r.at(j).Is(Extra) {
		j++
	}
	if r.at(j).Kind == WordToken && r.at(j).Is(Business) {
		business = true
		// "Werktage" is the unit too.
		if _, whole := r.lex.units[r.at(j).Text]; !whole {
			j = r.skipHyphen(j + 1)
		}
	}
	if r.at(j).Kind != WordToken {
		return Value{}, false
	}
	u, ok := r.lex.units[r.at(j).Text]
	if !ok {
		return Value{}, false
	}
	j++
	if r.at(j).Kind == WordToken && r.at(j).Is(Business) {
		business = true
		j++
	}
	if k := r.readHalf(j); k > j {
		c.Amount += 500
		j = k
	}
	c.Kind, c.At.Hi = DurationValue, j
	c.Amount, c.Unit = u.convert(c.Amount, business)
	return c, true
}

// readHalf reads the "and a half" that may follow a number or a unit. It returns the token after
// it, j for none.
func (r *valueReader) readHalf(j int) int {
	k := j
	if !r.at(k).Is(NumberJoins) {
		return j
	}
	if k++; r.at(k).Is(Articles) {
		k++
	}
	if r.lex.fractions[r.at(k).Text] == 500 {
		return k + 1
	}
	return j
}

// timeUnit is a named unit: its length in thousandths of seconds or of months.
type timeUnit struct {
	length int64
	unit   Unit
}

// SecondsPerDay is the number of seconds of a day.
const SecondsPerDay = 24 * 60 * 60

// convert turns a number of units, in thousandths, into the units that durations are compared in.
func (u timeUnit) convert(thousandths int64, business bool) (int64, Unit) {
	if business && u.length == SecondsPerDay {
		return thousandths, BusinessDays
	}
	return thousandths % 1_000_000_000 * u.length, u.unit
}

// readClock reads "23:59" or "5:30 pm".
func (r *valueReader) readClock(i int) Value {
	h, m, _ := strings.Cut(r.at(i).Text, ":")
	minutes := 60*atoi(h) + atoi(m)
	if r.at(i+1).IsWord("am", "pm") {
		return clock(minutes, r.at(i+1).Text, Span{i, i + 2})
	}
	return Value{Kind: ClockValue, Amount: minutes, At: Span{i, i + 1}}
}

// clock makes a time of day in minutes of a twelve-hour or twenty-four-hour time.
func clock(minutes int64, half string, at Span) Value {
	switch {
	case half == "pm" && minutes < 12*60:
		minutes += 12 * 60
	case half == "am" && minutes >= 12*60:
		minutes -= 12 * 60
	}
	return Value{Kind: ClockValue, Amount: minutes, At: at}
}

// readDayMonth reads "14 March 2026", "the 14th of March", "14. März", "14 de marzo de 2026", "1er
// avril".
func (r *valueReader) readDayMonth(i int) (Value, bool) {
	day := r.at(i).Value
	if day%1000 != 0 || day < 1000 || day > 31_000 {
		return Value{}, false
	}
	j := i + 1
	for j < i+4 && (r.at(j).Is(Ordinals) || r.at(j).Text == "." && r.at(j).glued) {
		j++
	}
	if r.lex.months[r.at(j).Text] == 0 {
		return Value{}, false
	}
	month := r.lex.months[r.at(j).Text]
	year, hi := r.readYear(j + 1)
	return Value{Kind: DateValue, Amount: year*10000 + month*100 + day/1000, At: Span{i, hi}}, true
}

// readOrdinal reads the day of "the 14th", of any month.
func (r *valueReader) readOrdinal(i int) (Value, bool) {
	day := r.at(i).Value
	if r.lex.Language != "en" || day%1000 != 0 || day < 1000 || day > 31_000 || !r.at(i+1).glued ||
		!r.at(i+1).IsWord("st", "nd", "rd", "th") {
		return Value{}, false
	}
	return Value{Kind: DateValue, Amount: day / 1000, Loose: true, At: Span{i, i + 2}}, true
}

// readYear reads the year that follows a day and a month, or 0. It returns the token after it.
func (r *valueReader) readYear(j int) (year int64, hi int) {
	k := j
	for k < j+2 && (r.at(k).Text == "," || r.at(k).IsWord("de", "del")) {
		k++
	}
	if r.at(k).Kind == NumberToken && digits(r.at(k).Text) == 4 && len(r.at(k).Text) == 4 {
		return r.at(k).Value / 1000, k + 1
	}
	return 0, j
}

// readWord reads a value that starts with a word: a month's name, a written number, or the
// article of "within an hour".
func (r *valueReader) readWord(i int) (Value, bool) {
	if month := r.lex.months[r.at(i).Text]; month != 0 {
		return r.readMonthDay(i, month)
	}
	if r.at(i).Text == "usd" || r.at(i).Text == "eur" {
		return r.readPrefixedMoney(i)
	}
	if part := r.lex.fractions[r.at(i).Text]; part > 0 {
		return r.readPart(i, part)
	}
	if r.at(i).Is(Articles) {
		return r.readArticle(i)
	}
	if r.at(i).Value == 0 {
		return Value{}, false
	}
	value, hi := r.readNumberWords(i)
	if part := r.partAt(r.skipHyphen(hi)); part > 0 {
		c, ok := r.readPart(r.skipHyphen(hi), value/1000*part)
		c.At.Lo = i
		return c, ok
	}
	if k := r.readHalf(hi); k > hi {
		value, hi = value+500, k
	}
	written := append([]Token{{Kind: NumberToken, Value: value}}, r.tokens[hi:min(hi+4, len(r.tokens))]...)
	c := (&valueReader{written, r.lex}).readNumber(0)
	c.At = Span{i, c.At.Hi + hi - 1}
	return c, true
}

// readArticle reads the one unit of "within an hour", "one day" and "an hour and a half".
func (r *valueReader) readArticle(i int) (Value, bool) {
	c, ok := r.readDuration(Value{Amount: 1000, At: Span{i, i + 1}}, r.skipHyphen(i+1))
	if r.at(i).Value > 0 || ok && c.At.Hi > i+3 && r.lex.fractions[r.at(c.At.Hi-1).Text] == 500 {
		return c, ok
	}
	return c, ok && i > 0 && r.at(i-1).Is(Within) && !r.idle(i)
}

// partAt is the part of a unit that the word at token j counts, as in "three quarters of an hour",
// or 0.
func (r *valueReader) partAt(j int) int64 {
	if r.at(j).Kind != WordToken {
		return 0
	}
	return r.lex.fractions[r.at(j).Text]
}

// idle reports whether the article at token i begins a figure of speech: "in a minute".
func (r *valueReader) idle(i int) bool {
	return r.at(i-1).IsWord("in") && r.at(i+1).IsWord("minute", "min", "second", "sec")
}

// readPart reads "half an hour", "a quarter of an hour", "demi-heure".
func (r *valueReader) readPart(i int, part int64) (Value, bool) {
	j := i + 1
	for j < i+4 && (r.at(j).Is(Articles) || r.at(j).IsWord("of", "de", "d") ||
		r.at(j).Text == "-") {
		j++
	}
	return r.readDuration(Value{Amount: part, At: Span{i, i + 1}}, j)
}

// readMonthDay reads "March 14", "March 14th, 2026".
func (r *valueReader) readMonthDay(i int, month int64) (Value, bool) {
	j := i + 1
	if r.at(j).Text == "the" || r.at(j).Text == "." {
		j++
	}
	if r.at(j).Kind != NumberToken || r.at(j).Value%1000 != 0 || r.at(j).Value < 1000 ||
		r.at(j).Value > 31_000 {
		return Value{}, false
	}
	day := r.at(j).Value / 1000
	j++
	if r.at(j).glued && r.at(j).Is(Ordinals) {
		j++
	}
	year, hi := r.readYear(j)
	return Value{Kind: DateValue, Amount: year*10000 + month*100 + day, At: Span{i, hi}}, true
}

// readNumberWords adds up "forty-eight", "one hundred and thirty-seven", "cuarenta y ocho", "vingt
// et un", "quatre-vingt-dix". It returns the value in thousandths and the token after it.
func (r *valueReader) readNumberWords(i int) (value int64, hi int) {
	value, hi = r.at(i).Value, i+1
	for {
		j := hi
		for j < hi+1 && (r.at(j).Text == "-" || r.at(j).Is(NumberJoins)) {
			j++
		}
		if r.at(j).Kind != WordToken || r.at(j).Value == 0 {
			break
		}
		sum := r.joinNumbers(value, r.at(j).Value)
		if sum == 0 {
			break
		}
		value, hi = sum, j+1
	}
	return value, hi
}

// joinNumbers is the number that two number words in a row make, 0 when they are two numbers.
func (r *valueReader) joinNumbers(value, next int64) int64 {
	tail := value % 100_000
	french := r.lex.Language == "fr"
	switch {
	case next == 100_000 && value < 10_000:
		return value * 100
	case french && tail == 4_000 && next == 20_000:
		return value - tail + 80_000
	case tail == 0 && next < 100_000, tail >= 20_000 && tail%10_000 == 0 && next < 10_000, french &&
		(tail == 60_000 || tail == 80_000) && next < 20_000:
		return value + next
	}
	return 0
}

// inheritUnits gives the first number of a range the unit of the second: "3 to 5 business days",
// "3-5 days".
func (r *valueReader) inheritUnits(claims []Value) []Value {
	for i := 0; i+1 < len(claims); i++ {
		a, b := &claims[i], claims[i+1]
		gap := b.At.Lo - a.At.Hi
		if a.Kind != NumberValue || gap != 1 || b.Kind != DurationValue && b.Kind != PercentValue {
			continue
		}
		if !r.at(a.At.Hi).IsWord("to", "or", "bis", "a", "o", "oder", "ou") && r.at(a.At.Hi).Text != "-" {
			continue
		}
		per := r.at(b.At.Lo).Value
		if r.at(b.At.Lo).Kind == WordToken {
			per, _ = r.readNumberWords(b.At.Lo)
		}
		if per == 0 {
			continue
		}
		a.Kind, a.Unit = b.Kind, b.Unit
		a.Amount = scale(a.Amount, b.Amount, per)
	}
	return claims
}

// scale computes value·total/per without overflow for the small numbers of ranges, and gives up on
// others.
func scale(value, total, per int64) int64 {
	const bound = 1 << 31
	if value > bound || total/per > bound {
		return value
	}
	return value * (total / per)
}
