package offline

import (
	"strconv"
	"strings"
	"time"
)

type claimKind uint8

const (
	// moneyClaim is an amount; its value is in thousandths of the currency's unit.
	moneyClaim claimKind = iota
	dateClaim
	durationClaim
	clockClaim
	percentClaim
	numberClaim
	idClaim
)

// claim is a value that a text states, in a form in which "$1,482.00" equals "1482 dollars" and "48
// h" equals "two days".
type claim struct {
	kind claimKind
	// value is in thousandths for money, percentages and numbers, in minutes for clocks, in unit
	// for durations, and yyyymmdd for dates (0 for an unknown year or month).
	value int64
	unit  unit
	// id is an id without its punctuation, or a bare number as it was written.
	id string
	// slack is how many minutes a time of day may differ.
	slack int64
	// loose claims may mean something else: "the 2nd", "1/2".
	loose bool
	// at are the tokens that state the claim.
	at span
}

// unit is what a duration is counted in. Units that are a fixed multiple of another are converted,
// so few remain.
type unit uint8

const (
	noUnit unit = iota
	seconds
	businessDays
	months
)

// equal tells whether two claims state the same value. A date without a year or a month equals that
// day of any, and an id equals its bare number.
func (c claim) equal(o claim) bool {
	if c.kind != o.kind {
		if c.kind == moneyClaim && o.kind == numberClaim || c.kind == numberClaim && o.kind == moneyClaim {
			return c.value == o.value && (c.cents() || o.cents())
		}
		return (c.kind == idClaim && o.kind == numberClaim || c.kind == numberClaim && o.kind == idClaim) &&
			sameID(c.id, o.id)
	}
	if c.kind == dateClaim {
		return sameDate(c.value, o.value) || c.loose && sameDate(swapped(c.value), o.value) || o.loose &&
			sameDate(c.value, swapped(o.value))
	}
	if c.kind == idClaim {
		return sameID(c.id, o.id)
	}
	if slack := max(c.slack, o.slack); slack > 0 {
		return clocksMeet(c.value, o.value, slack)
	}
	return c.value == o.value && c.unit == o.unit
}

// cents tells whether a bare number is written as amounts are, with two digits after the mark:
// "8.40".
func (c claim) cents() bool {
	n := len(c.id)
	return c.kind == numberClaim && n > 3 && (c.id[n-3] == '.' || c.id[n-3] == ',') && digits(c.id[n-2:]) == 2
}

// swapped reads a day and a month without a year the other way round, as the other half of the
// English-speaking world does.
func swapped(date int64) int64 {
	if date < 100 || date >= 10000 {
		return date
	}
	return date%100*100 + date/100
}

func sameDate(a, b int64) bool {
	if a < 100 || b < 100 {
		return a%100 == b%100
	}
	if a%10000 != b%10000 {
		return false
	}
	return a/10000 == b/10000 || a < 10000 || b < 10000
}

// sameID lets a customer's number stand without its prefix, once it is long enough not to be an
// accident.
func sameID(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || len(a) >= 5 && digits(a) == len(a) && strings.HasSuffix(b, a)
}

// soft claims are values that a reply may state without support: a bare number may count steps or
// attempts.
func (c claim) soft() bool {
	return c.kind == numberClaim || c.loose
}

// containsClaim tells whether the set holds a claim equal to c.
func containsClaim(set []claim, c claim) bool {
	for _, s := range set {
		if s.equal(c) {
			return true
		}
	}
	return false
}

// appendNew appends the claims that the set lacks.
func appendNew(set []claim, claims []claim) []claim {
	for _, c := range claims {
		if !containsClaim(set, c) {
			c.id = strings.Clone(c.id)
			set = append(set, c)
		}
	}
	return set
}

// extractClaims reads the claims of a text's tokens, in order and without overlap.
func extractClaims(tokens []token, lex *lexicon) []claim {
	var claims []claim
	for i := 0; i < len(tokens); {
		c, ok := readClaim(tokens, i, lex)
		if !ok {
			i++
			continue
		}
		claims = append(claims, c)
		i = c.at.hi
	}
	return inheritUnits(tokens, claims, lex)
}

// readClaim reads the claim that starts at token i.
func readClaim(tokens []token, i int, lex *lexicon) (claim, bool) {
	switch t := tokens[i]; t.kind {
	case idToken:
		if c, ok := readHourID(t.text, i, lex); ok {
			return c, true
		}
		return claim{kind: idClaim, id: compactID(t.text), at: span{i, i + 1}}, true
	case dateToken:
		return claim{kind: dateClaim, value: digitDate(t.text, lex.monthFirst), loose: strings.Count(t.text, "/") == 1,
			at: span{i, i + 1}}, true
	case clockToken:
		return readClock(tokens, i), true
	case currencyToken:
		return readPrefixedMoney(tokens, i)
	case numberToken:
		return readNumberClaim(tokens, i, lex), true
	case wordToken:
		return readWordClaim(tokens, i, lex)
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
func readPrefixedMoney(tokens []token, i int) (claim, bool) {
	if i+1 < len(tokens) && tokens[i+1].kind == numberToken {
		return claim{kind: moneyClaim, value: tokens[i+1].value, at: span{i, i + 2}}, true
	}
	return claim{}, false
}

// readNumberClaim reads what a number at token i counts: money, time, a day of a month, a
// percentage or plain things.
func readNumberClaim(tokens []token, i int, lex *lexicon) claim {
	c := claim{kind: numberClaim, value: tokens[i].value, id: tokens[i].text, at: span{i, i + 1}}
	if d, ok := readDayMonth(tokens, i, lex); ok {
		return d
	}
	if d, ok := readOrdinal(tokens, i, lex); ok {
		return d
	}
	j := skipHyphen(tokens, i+1)
	if j >= len(tokens) {
		return c
	}
	next := &tokens[j]
	switch {
	case next.kind == currencyToken && !ofNext(tokens, j), next.kind == wordToken && next.is(lex.currencies):
		c.kind, c.at.hi = moneyClaim, j+1
	case next.text == "%", next.is(lex.percents):
		c.kind, c.at.hi = percentClaim, j+1
	case next.word("por", "pour", "per") && j+1 < len(tokens) && tokens[j+1].word("ciento", "cent"):
		c.kind, c.at.hi = percentClaim, j+2
	case next.word("am", "pm") || next.word("uhr"):
		return clock(clockMinutes(c.value), next.text, span{i, j + 1})
	case next.word("a", "p") && j+2 < len(tokens) && tokens[j+2].word("m"):
		return clock(clockMinutes(c.value), next.text+"m", span{i, j + 3})
	default:
		if d, ok := readHour(tokens, i, j, lex); ok {
			return d
		}
		if d, ok := readDuration(tokens, c, j, lex); ok {
			return d
		}
	}
	return c
}

// ofNext tells whether the currency's sign at token j belongs to the number after it: "one of the
// two $82.00 charges".
func ofNext(tokens []token, j int) bool {
	return j+1 < len(tokens) && tokens[j+1].kind == numberToken && tokens[j+1].glued
}

// clockMinutes reads the hours before "pm" or "Uhr", with the minutes of "10.15" after the point.
func clockMinutes(thousandths int64) int64 {
	return thousandths/1000*60 + thousandths%1000/10
}

// readHour reads a time of day with an "h" at token j after the number i: "à 13 h", "13 h 15".
func readHour(tokens []token, i, j int, lex *lexicon) (claim, bool) {
	hour := tokens[i].value
	if !tokens[j].word("h") || lex.language == "en" || lex.language == "de" || hour%1000 != 0 || hour >= 24_000 {
		return claim{}, false
	}
	c := claim{kind: clockClaim, value: hour / 1000 * 60, at: span{i, j + 1}}
	if j+1 < len(tokens) && tokens[j+1].kind == numberToken && len(tokens[j+1].text) == 2 &&
		tokens[j+1].value < 60_000 {
		c.value += tokens[j+1].value / 1000
		c.at.hi++
		return c, true
	}
	return c, i > 0 && tokens[i-1].word("a")
}

// readHourID reads "17h30", which looks like an id.
func readHourID(s string, i int, lex *lexicon) (claim, bool) {
	h, m, ok := strings.Cut(s, "h")
	if !ok || lex.language == "en" || lex.language == "de" || digits(h) != len(h) || len(h) > 2 || digits(m) != 2 ||
		len(m) != 2 || h == "" || atoi(h) > 23 || atoi(m) > 59 {
		return claim{}, false
	}
	return claim{kind: clockClaim, value: 60*atoi(h) + atoi(m), at: span{i, i + 1}}, true
}

// skipHyphen steps over the hyphen of "30-day".
func skipHyphen(tokens []token, j int) int {
	if j < len(tokens) && tokens[j].text == "-" && tokens[j].glued {
		return j + 1
	}
	return j
}

// readDuration reads the unit of the number c at token j, with the words that make days business
// days.
func readDuration(tokens []token, c claim, j int, lex *lexicon) (claim, bool) {
	business := false
	if j < len(tokens) && tokens[j].is(lex.extra) {
		j++
	}
	if j < len(tokens) && tokens[j].kind == wordToken && tokens[j].is(lex.business) {
		business = true
		// "Werktage" is the unit too.
		if _, whole := lex.units[tokens[j].text]; !whole {
			j = skipHyphen(tokens, j+1)
		}
	}
	if j >= len(tokens) || tokens[j].kind != wordToken {
		return claim{}, false
	}
	u, ok := lex.units[tokens[j].text]
	if !ok {
		return claim{}, false
	}
	j++
	if j < len(tokens) && tokens[j].kind == wordToken && tokens[j].is(lex.business) {
		business = true
		j++
	}
	if k := readHalf(tokens, j, lex); k > j {
		c.value += 500
		j = k
	}
	c.kind, c.at.hi = durationClaim, j
	c.value, c.unit = u.convert(c.value, business)
	return c, true
}

// readHalf reads the "and a half" that may follow a number or a unit. It returns the token after
// it, j for none.
func readHalf(tokens []token, j int, lex *lexicon) int {
	k := j
	if k >= len(tokens) || !tokens[k].is(lex.numberJoins) {
		return j
	}
	if k++; k < len(tokens) && tokens[k].is(lex.articles) {
		k++
	}
	if k < len(tokens) && lex.fractions[tokens[k].text] == 500 {
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
func readClock(tokens []token, i int) claim {
	h, m, _ := strings.Cut(tokens[i].text, ":")
	minutes := 60*atoi(h) + atoi(m)
	if i+1 < len(tokens) && tokens[i+1].word("am", "pm") {
		return clock(minutes, tokens[i+1].text, span{i, i + 2})
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
func readDayMonth(tokens []token, i int, lex *lexicon) (claim, bool) {
	day := tokens[i].value
	if day%1000 != 0 || day < 1000 || day > 31_000 {
		return claim{}, false
	}
	j := i + 1
	for j < len(tokens) && j < i+4 && (tokens[j].is(lex.ordinals) || tokens[j].text == "." && tokens[j].glued) {
		j++
	}
	if j >= len(tokens) || lex.months[tokens[j].text] == 0 {
		return claim{}, false
	}
	month := lex.months[tokens[j].text]
	year, hi := readYear(tokens, j+1)
	return claim{kind: dateClaim, value: year*10000 + month*100 + day/1000, at: span{i, hi}}, true
}

// readOrdinal reads the day of "the 14th", of whatever month.
func readOrdinal(tokens []token, i int, lex *lexicon) (claim, bool) {
	day := tokens[i].value
	if lex.language != "en" || day%1000 != 0 || day < 1000 || day > 31_000 || i+1 == len(tokens) ||
		!tokens[i+1].glued || !tokens[i+1].word("st", "nd", "rd", "th") {
		return claim{}, false
	}
	return claim{kind: dateClaim, value: day / 1000, loose: true, at: span{i, i + 2}}, true
}

// readYear reads the year that follows a day and a month, or 0. It returns the token after it.
func readYear(tokens []token, j int) (year int64, hi int) {
	k := j
	for k < len(tokens) && k < j+2 && (tokens[k].text == "," || tokens[k].word("de", "del")) {
		k++
	}
	if k < len(tokens) && tokens[k].kind == numberToken && digits(tokens[k].text) == 4 && len(tokens[k].text) == 4 {
		return tokens[k].value / 1000, k + 1
	}
	return 0, j
}

// readWordClaim reads a claim that starts with a word: a month's name, a written number, or the
// article of "within an hour".
func readWordClaim(tokens []token, i int, lex *lexicon) (claim, bool) {
	if month := lex.months[tokens[i].text]; month != 0 {
		return readMonthDay(tokens, i, month, lex)
	}
	if tokens[i].text == "usd" || tokens[i].text == "eur" {
		return readPrefixedMoney(tokens, i)
	}
	if part := lex.fractions[tokens[i].text]; part > 0 {
		return readPart(tokens, i, part, lex)
	}
	if tokens[i].is(lex.articles) {
		return readArticle(tokens, i, lex)
	}
	if tokens[i].value == 0 {
		return claim{}, false
	}
	value, hi := readNumberWords(tokens, i, lex)
	if part := partAt(tokens, skipHyphen(tokens, hi), lex); part > 0 {
		c, ok := readPart(tokens, skipHyphen(tokens, hi), value/1000*part, lex)
		c.at.lo = i
		return c, ok
	}
	if k := readHalf(tokens, hi, lex); k > hi {
		value, hi = value+500, k
	}
	written := append([]token(nil), token{kind: numberToken, value: value})
	written = append(written, tokens[hi:min(hi+4, len(tokens))]...)
	c := readNumberClaim(written, 0, lex)
	c.at = span{i, c.at.hi + hi - 1}
	return c, true
}

// readArticle reads the one unit of "within an hour", "one day" and "an hour and a half".
func readArticle(tokens []token, i int, lex *lexicon) (claim, bool) {
	c, ok := readDuration(tokens, claim{value: 1000, at: span{i, i + 1}}, skipHyphen(tokens, i+1), lex)
	if tokens[i].value > 0 || ok && c.at.hi > i+3 && lex.fractions[tokens[c.at.hi-1].text] == 500 {
		return c, ok
	}
	return c, ok && i > 0 && tokens[i-1].is(lex.within) && !idle(tokens, i)
}

// partAt is the part of a unit that the word at token j counts, as in "three quarters of an hour",
// or 0.
func partAt(tokens []token, j int, lex *lexicon) int64 {
	if j >= len(tokens) || tokens[j].kind != wordToken {
		return 0
	}
	return lex.fractions[tokens[j].text]
}

// idle tells whether the article at token i begins no measure of time but a manner of speaking: "in
// a minute".
func idle(tokens []token, i int) bool {
	return tokens[i-1].word("in") && i+1 < len(tokens) && tokens[i+1].word("minute", "min", "second", "sec")
}

// readPart reads "half an hour", "a quarter of an hour", "demi-heure".
func readPart(tokens []token, i int, part int64, lex *lexicon) (claim, bool) {
	j := i + 1
	for j < len(tokens) && j < i+4 && (tokens[j].is(lex.articles) || tokens[j].word("of", "de", "d") ||
		tokens[j].text == "-") {
		j++
	}
	return readDuration(tokens, claim{value: part, at: span{i, i + 1}}, j, lex)
}

// readMonthDay reads "March 14", "March 14th, 2026".
func readMonthDay(tokens []token, i int, month int64, lex *lexicon) (claim, bool) {
	j := i + 1
	if j < len(tokens) && (tokens[j].text == "the" || tokens[j].text == ".") {
		j++
	}
	if j >= len(tokens) || tokens[j].kind != numberToken || tokens[j].value%1000 != 0 || tokens[j].value < 1000 ||
		tokens[j].value > 31_000 {
		return claim{}, false
	}
	day := tokens[j].value / 1000
	j++
	if j < len(tokens) && tokens[j].glued && tokens[j].is(lex.ordinals) {
		j++
	}
	year, hi := readYear(tokens, j)
	return claim{kind: dateClaim, value: year*10000 + month*100 + day, at: span{i, hi}}, true
}

// readNumberWords adds up "forty-eight", "one hundred and thirty-seven", "cuarenta y ocho", "vingt
// et un", "quatre-vingt-dix". It returns the value in thousandths and the token after it.
func readNumberWords(tokens []token, i int, lex *lexicon) (value int64, hi int) {
	value, hi = tokens[i].value, i+1
	for hi < len(tokens) {
		j := hi
		for j < len(tokens) && j < hi+1 && (tokens[j].text == "-" || tokens[j].is(lex.numberJoins)) {
			j++
		}
		if j >= len(tokens) || tokens[j].kind != wordToken || tokens[j].value == 0 {
			break
		}
		sum := joinNumbers(value, tokens[j].value, lex)
		if sum == 0 {
			break
		}
		value, hi = sum, j+1
	}
	return value, hi
}

// joinNumbers is the number that two number words in a row make, 0 when they are two numbers.
func joinNumbers(value, next int64, lex *lexicon) int64 {
	tail := value % 100_000
	french := lex.language == "fr"
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
func inheritUnits(tokens []token, claims []claim, lex *lexicon) []claim {
	for i := 0; i+1 < len(claims); i++ {
		a, b := &claims[i], claims[i+1]
		gap := b.at.lo - a.at.hi
		if a.kind != numberClaim || gap != 1 || b.kind != durationClaim && b.kind != percentClaim {
			continue
		}
		if !tokens[a.at.hi].word("to", "or", "bis", "a", "o", "oder", "ou") && tokens[a.at.hi].text != "-" {
			continue
		}
		per := tokens[b.at.lo].value
		if tokens[b.at.lo].kind == wordToken {
			per, _ = readNumberWords(tokens, b.at.lo, lex)
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

// digitDate reads a date in digits, with the month first where the language writes it so and the
// number can be a month. It returns 0 for what can't be a date, and for a day that its month lacks
// unless a full year shows that a date is meant: "3.0." and "31.2." number versions and sections.
func digitDate(s string, monthFirst bool) int64 {
	parts := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("-./", r) })
	if len(parts[0]) == 4 {
		return dateOf(atoi(parts[0]), atoi(parts[1]), atoi(parts[2]), 31)
	}
	day, month := atoi(parts[0]), atoi(parts[1])
	if strings.Contains(s, "/") && (monthFirst && day <= 12 || month > 12) {
		day, month = month, day
	}
	if len(parts) == 3 && len(parts[2]) == 4 {
		return dateOf(atoi(parts[2]), month, day, 31)
	}
	var year int64
	if len(parts) == 3 {
		year = 2000 + atoi(parts[2])
	}
	return dateOf(year, month, day, lastDay(month))
}

// dateOf makes a date of its parts, or 0 when they can't be one. A day that the month lacks passes
// where the caller's last day lets it: plainly meant as a date, it is a false one rather than none.
func dateOf(year, month, day, last int64) int64 {
	if month < 1 || month > 12 || day < 1 || day > last {
		return 0
	}
	return year*10000 + month*100 + day
}

// lastDay returns the last day of a month in any year.
func lastDay(month int64) int64 {
	switch month {
	case 2:
		return 29
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// dayClaim is the claim that a date makes.
func dayClaim(t time.Time) claim {
	return claim{kind: dateClaim, value: int64(t.Year())*10000 + int64(t.Month())*100 + int64(t.Day())}
}

// atoi reads at most four digits.
func atoi(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
