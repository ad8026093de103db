package offline

import "strings"

// valueReader reads the values that the tokens of a text state.
type valueReader struct {
	tokens []token
	lex    *lexicon
}

// extractClaims reads the claims of a text's tokens, in order and without overlap.
func (r *valueReader) extractClaims() []claim {
	var claims []claim
	for i := 0; i < len(r.tokens); {
		c, ok := r.readClaim(i)
		if !ok {
			i++
			continue
		}
		claims = append(claims, c)
		i = c.at.hi
	}
	return r.inheritUnits(claims)
}

// readClaim reads the claim that starts at token i.
func (r *valueReader) readClaim(i int) (claim, bool) {
	switch t := r.tokens[i]; t.kind {
	case idToken:
		if c, ok := r.readHourID(t.text, i); ok {
			return c, true
		}
		return claim{kind: idClaim, id: compactID(t.text), at: span{i, i + 1}}, true
	case dateToken:
		return claim{kind: dateClaim, value: digitDate(t.text, r.lex.monthFirst), loose: strings.Count(t.text, "/") == 1,
			at: span{i, i + 1}}, true
	case clockToken:
		return r.readClock(i), true
	case currencyToken:
		return r.readPrefixedMoney(i)
	case numberToken:
		return r.readNumberClaim(i), true
	case wordToken:
		return r.readWordClaim(i)
	case punctToken:
	}
	return claim{}, false
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
func (r *valueReader) readPrefixedMoney(i int) (claim, bool) {
	if i+1 < len(r.tokens) && r.tokens[i+1].kind == numberToken {
		return claim{kind: moneyClaim, value: r.tokens[i+1].value, at: span{i, i + 2}}, true
	}
	return claim{}, false
}

// readNumberClaim reads what a number at token i counts: money, time, a day of a month, a
// percentage or plain things.
func (r *valueReader) readNumberClaim(i int) claim {
	c := claim{kind: numberClaim, value: r.tokens[i].value, id: r.tokens[i].text, at: span{i, i + 1}}
	if d, ok := r.readDayMonth(i); ok {
		return d
	}
	if d, ok := r.readOrdinal(i); ok {
		return d
	}
	j := r.skipHyphen(i + 1)
	if j >= len(r.tokens) {
		return c
	}
	next := &r.tokens[j]
	switch {
	case next.kind == currencyToken && !r.ofNext(j), next.kind == wordToken && next.is(Currencies):
		c.kind, c.at.hi = moneyClaim, j+1
	case next.text == "%", next.is(Percents):
		c.kind, c.at.hi = percentClaim, j+1
	case next.word("por", "pour", "per") && j+1 < len(r.tokens) && r.tokens[j+1].word("ciento", "cent"):
		c.kind, c.at.hi = percentClaim, j+2
	case next.word("am", "pm") || next.word("uhr"):
		return clock(clockMinutes(c.value), next.text, span{i, j + 1})
	case next.word("a", "p") && j+2 < len(r.tokens) && r.tokens[j+2].word("m"):
		return clock(clockMinutes(c.value), next.text+"m", span{i, j + 3})
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

// ofNext tells whether the currency's sign at token j belongs to the number after it: "one of the
// two $82.00 charges".
func (r *valueReader) ofNext(j int) bool {
	return j+1 < len(r.tokens) && r.tokens[j+1].kind == numberToken && r.tokens[j+1].glued
}

// clockMinutes reads the hours before "pm" or "Uhr", with the minutes of "10.15" after the point.
func clockMinutes(thousandths int64) int64 {
	return thousandths/1000*60 + thousandths%1000/10
}

// readHour reads a time of day with an "h" at token j after the number i: "à 13 h", "13 h 15".
func (r *valueReader) readHour(i, j int) (claim, bool) {
	hour := r.tokens[i].value
	if !r.tokens[j].word("h") || r.lex.language == "en" || r.lex.language == "de" || hour%1000 != 0 || hour >= 24_000 {
		return claim{}, false
	}
	c := claim{kind: clockClaim, value: hour / 1000 * 60, at: span{i, j + 1}}
	if j+1 < len(r.tokens) && r.tokens[j+1].kind == numberToken && len(r.tokens[j+1].text) == 2 &&
		r.tokens[j+1].value < 60_000 {
		c.value += r.tokens[j+1].value / 1000
		c.at.hi++
		return c, true
	}
	return c, i > 0 && r.tokens[i-1].word("a")
}

// readHourID reads "17h30", which looks like an id.
func (r *valueReader) readHourID(s string, i int) (claim, bool) {
	h, m, ok := strings.Cut(s, "h")
	if !ok || r.lex.language == "en" || r.lex.language == "de" || digits(h) != len(h) || len(h) > 2 || digits(m) != 2 ||
		len(m) != 2 || h == "" || atoi(h) > 23 || atoi(m) > 59 {
		return claim{}, false
	}
	return claim{kind: clockClaim, value: 60*atoi(h) + atoi(m), at: span{i, i + 1}}, true
}

// skipHyphen steps over the hyphen of "30-day".
func (r *valueReader) skipHyphen(j int) int {
	if j < len(r.tokens) && r.tokens[j].text == "-" && r.tokens[j].glued {
		return j + 1
	}
	return j
}

// readDuration reads the unit of the number c at token j, with the words that make days business
// days.
func (r *valueReader) readDuration(c claim, j int) (claim, bool) {
	business := false
	if j < len(r.tokens) && r.tokens[j].is(Extra) {
		j++
	}
	if j < len(r.tokens) && r.tokens[j].kind == wordToken && r.tokens[j].is(Business) {
		business = true
		// "Werktage" is the unit too.
		if _, whole := r.lex.units[r.tokens[j].text]; !whole {
			j = r.skipHyphen(j + 1)
		}
	}
	if j >= len(r.tokens) || r.tokens[j].kind != wordToken {
		return claim{}, false
	}
	u, ok := r.lex.units[r.tokens[j].text]
	if !ok {
		return claim{}, false
	}
	j++
	if j < len(r.tokens) && r.tokens[j].kind == wordToken && r.tokens[j].is(Business) {
		business = true
		j++
	}
	if k := r.readHalf(j); k > j {
		c.value += 500
		j = k
	}
	c.kind, c.at.hi = durationClaim, j
	c.value, c.unit = u.convert(c.value, business)
	return c, true
}

// readHalf reads the "and a half" that may follow a number or a unit. It returns the token after
// it, j for none.
func (r *valueReader) readHalf(j int) int {
	k := j
	if k >= len(r.tokens) || !r.tokens[k].is(NumberJoins) {
		return j
	}
	if k++; k < len(r.tokens) && r.tokens[k].is(Articles) {
		k++
	}
	if k < len(r.tokens) && r.lex.fractions[r.tokens[k].text] == 500 {
		return k + 1
	}
	return j
}

// timeUnit is a unit's name read: its length in thousandths of seconds or of months.
type timeUnit struct {
	length int64
	unit   unit
}

const secondsPerDay = 24 * 60 * 60

// convert turns a number of units, in thousandths, into the units that durations are compared in.
func (u timeUnit) convert(thousandths int64, business bool) (int64, unit) {
	if business && u.length == secondsPerDay {
		return thousandths, businessDays
	}
	return thousandths % 1_000_000_000 * u.length, u.unit
}

// readClock reads "23:59" or "5:30 pm".
func (r *valueReader) readClock(i int) claim {
	h, m, _ := strings.Cut(r.tokens[i].text, ":")
	minutes := 60*atoi(h) + atoi(m)
	if i+1 < len(r.tokens) && r.tokens[i+1].word("am", "pm") {
		return clock(minutes, r.tokens[i+1].text, span{i, i + 2})
	}
	return claim{kind: clockClaim, value: minutes, at: span{i, i + 1}}
}

// clock makes a time of day in minutes of a twelve-hour or twenty-four-hour time.
func clock(minutes int64, half string, at span) claim {
	switch {
	case half == "pm" && minutes < 12*60:
		minutes += 12 * 60
	case half == "am" && minutes >= 12*60:
		minutes -= 12 * 60
	}
	return claim{kind: clockClaim, value: minutes, at: at}
}

// readDayMonth reads "14 March 2026", "the 14th of March", "14. März", "14 de marzo de 2026", "1er
// avril".
func (r *valueReader) readDayMonth(i int) (claim, bool) {
	day := r.tokens[i].value
	if day%1000 != 0 || day < 1000 || day > 31_000 {
		return claim{}, false
	}
	j := i + 1
	for j < len(r.tokens) && j < i+4 && (r.tokens[j].is(Ordinals) || r.tokens[j].text == "." && r.tokens[j].glued) {
		j++
	}
	if j >= len(r.tokens) || r.lex.months[r.tokens[j].text] == 0 {
		return claim{}, false
	}
	month := r.lex.months[r.tokens[j].text]
	year, hi := r.readYear(j + 1)
	return claim{kind: dateClaim, value: year*10000 + month*100 + day/1000, at: span{i, hi}}, true
}

// readOrdinal reads the day of "the 14th", of whatever month.
func (r *valueReader) readOrdinal(i int) (claim, bool) {
	day := r.tokens[i].value
	if r.lex.language != "en" || day%1000 != 0 || day < 1000 || day > 31_000 || i+1 == len(r.tokens) ||
		!r.tokens[i+1].glued || !r.tokens[i+1].word("st", "nd", "rd", "th") {
		return claim{}, false
	}
	return claim{kind: dateClaim, value: day / 1000, loose: true, at: span{i, i + 2}}, true
}

// readYear reads the year that follows a day and a month, or 0. It returns the token after it.
func (r *valueReader) readYear(j int) (year int64, hi int) {
	k := j
	for k < len(r.tokens) && k < j+2 && (r.tokens[k].text == "," || r.tokens[k].word("de", "del")) {
		k++
	}
	if k < len(r.tokens) && r.tokens[k].kind == numberToken && digits(r.tokens[k].text) == 4 && len(r.tokens[k].text) == 4 {
		return r.tokens[k].value / 1000, k + 1
	}
	return 0, j
}

// readWordClaim reads a claim that starts with a word: a month's name, a written number, or the
// article of "within an hour".
func (r *valueReader) readWordClaim(i int) (claim, bool) {
	if month := r.lex.months[r.tokens[i].text]; month != 0 {
		return r.readMonthDay(i, month)
	}
	if r.tokens[i].text == "usd" || r.tokens[i].text == "eur" {
		return r.readPrefixedMoney(i)
	}
	if part := r.lex.fractions[r.tokens[i].text]; part > 0 {
		return r.readPart(i, part)
	}
	if r.tokens[i].is(Articles) {
		return r.readArticle(i)
	}
	if r.tokens[i].value == 0 {
		return claim{}, false
	}
	value, hi := r.readNumberWords(i)
	if part := r.partAt(r.skipHyphen(hi)); part > 0 {
		c, ok := r.readPart(r.skipHyphen(hi), value/1000*part)
		c.at.lo = i
		return c, ok
	}
	if k := r.readHalf(hi); k > hi {
		value, hi = value+500, k
	}
	written := append([]token(nil), token{kind: numberToken, value: value})
	written = append(written, r.tokens[hi:min(hi+4, len(r.tokens))]...)
	c := (&valueReader{written, r.lex}).readNumberClaim(0)
	c.at = span{i, c.at.hi + hi - 1}
	return c, true
}

// readArticle reads the one unit of "within an hour", "one day" and "an hour and a half".
func (r *valueReader) readArticle(i int) (claim, bool) {
	c, ok := r.readDuration(claim{value: 1000, at: span{i, i + 1}}, r.skipHyphen(i+1))
	if r.tokens[i].value > 0 || ok && c.at.hi > i+3 && r.lex.fractions[r.tokens[c.at.hi-1].text] == 500 {
		return c, ok
	}
	return c, ok && i > 0 && r.tokens[i-1].is(Within) && !r.idle(i)
}

// partAt is the part of a unit that the word at token j counts, as in "three quarters of an hour",
// or 0.
func (r *valueReader) partAt(j int) int64 {
	if j >= len(r.tokens) || r.tokens[j].kind != wordToken {
		return 0
	}
	return r.lex.fractions[r.tokens[j].text]
}

// idle tells whether the article at token i begins no measure of time but a manner of speaking: "in
// a minute".
func (r *valueReader) idle(i int) bool {
	return r.tokens[i-1].word("in") && i+1 < len(r.tokens) && r.tokens[i+1].word("minute", "min", "second", "sec")
}

// readPart reads "half an hour", "a quarter of an hour", "demi-heure".
func (r *valueReader) readPart(i int, part int64) (claim, bool) {
	j := i + 1
	for j < len(r.tokens) && j < i+4 && (r.tokens[j].is(Articles) || r.tokens[j].word("of", "de", "d") ||
		r.tokens[j].text == "-") {
		j++
	}
	return r.readDuration(claim{value: part, at: span{i, i + 1}}, j)
}

// readMonthDay reads "March 14", "March 14th, 2026".
func (r *valueReader) readMonthDay(i int, month int64) (claim, bool) {
	j := i + 1
	if j < len(r.tokens) && (r.tokens[j].text == "the" || r.tokens[j].text == ".") {
		j++
	}
	if j >= len(r.tokens) || r.tokens[j].kind != numberToken || r.tokens[j].value%1000 != 0 || r.tokens[j].value < 1000 ||
		r.tokens[j].value > 31_000 {
		return claim{}, false
	}
	day := r.tokens[j].value / 1000
	j++
	if j < len(r.tokens) && r.tokens[j].glued && r.tokens[j].is(Ordinals) {
		j++
	}
	year, hi := r.readYear(j)
	return claim{kind: dateClaim, value: year*10000 + month*100 + day, at: span{i, hi}}, true
}

// readNumberWords adds up "forty-eight", "one hundred and thirty-seven", "cuarenta y ocho", "vingt
// et un", "quatre-vingt-dix". It returns the value in thousandths and the token after it.
func (r *valueReader) readNumberWords(i int) (value int64, hi int) {
	value, hi = r.tokens[i].value, i+1
	for hi < len(r.tokens) {
		j := hi
		for j < len(r.tokens) && j < hi+1 && (r.tokens[j].text == "-" || r.tokens[j].is(NumberJoins)) {
			j++
		}
		if j >= len(r.tokens) || r.tokens[j].kind != wordToken || r.tokens[j].value == 0 {
			break
		}
		sum := r.joinNumbers(value, r.tokens[j].value)
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
	french := r.lex.language == "fr"
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
func (r *valueReader) inheritUnits(claims []claim) []claim {
	for i := 0; i+1 < len(claims); i++ {
		a, b := &claims[i], claims[i+1]
		gap := b.at.lo - a.at.hi
		if a.kind != numberClaim || gap != 1 || b.kind != durationClaim && b.kind != percentClaim {
			continue
		}
		if !r.tokens[a.at.hi].word("to", "or", "bis", "a", "o", "oder", "ou") && r.tokens[a.at.hi].text != "-" {
			continue
		}
		per := r.tokens[b.at.lo].value
		if r.tokens[b.at.lo].kind == wordToken {
			per, _ = r.readNumberWords(b.at.lo)
		}
		if per == 0 {
			continue
		}
		a.kind, a.unit = b.kind, b.unit
		a.value = scale(a.value, b.value, per)
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
