package text

import (
	"strconv"
	"strings"
	"time"
)

// readDate reads the date in digits that s starts with: 2026-03-14, 14.03.2026, 3/14/2026, 3/14,
// and in German 14.3. It returns the date's length and value, or 0.
func (lex *Lexicon) readDate(s string) (n int, date int64) {
	a := countDigits(s)
	if a == 0 || a == 3 || a > 4 || a == len(s) || strings.IndexByte("-./", s[a]) < 0 {
		return 0, 0
	}
	sep := s[a]
	n = a + 1 + countDigits(s[a+1:])
	if n == a+1 || n > a+3 {
		return 0, 0
	}
	c := -1
	if n < len(s) && s[n] == sep {
		c = countDigits(s[n+1:])
	}
	if date = lex.dateIn(s, a, n, c); date == 0 {
		return 0, 0
	}
	return n + 1 + c, date
}

// readNamedDate reads the date that s starts with if hyphens join a day, a month's name and a year:
// "29-sep-2026", "sep-29-2026". It returns the date's length and value, or 0.
func (lex *Lexicon) readNamedDate(s string) (n int, date int64) {
	first, rest, ok := strings.Cut(s, "-")
	second, rest, both := strings.Cut(rest, "-")
	if !ok || !both || countDigits(rest) != 4 {
		return 0, 0
	}
	day, month := first, lex.months[second]
	if month == 0 {
		day, month = second, lex.months[first]
	}
	if month == 0 || len(day) > 2 || countDigits(day) != len(day) {
		return 0, 0
	}
	return len(first) + len(second) + 6, dateOf(parseDigits(rest[:4]), month, parseDigits(day), true)
}

// dateIn returns the date that s starts with, or 0. Its first part has a digits, its second part
// ends at n, and its third part has c digits, or c is -1.
func (lex *Lexicon) dateIn(s string, a, n, c int) (date int64) {
	sep, first, second, third := s[a], parseDigits(s[:a]), parseDigits(s[a+1:n]), int64(0)
	if c > 0 {
		third = parseDigits(s[n+1 : n+1+min(c, 4)])
	}
	day, month := first, second
	if sep == '/' && (lex.monthFirst && day <= 12 || month > 12) {
		day, month = month, day
	}
	switch {
	case a == 4 && (c == 1 || c == 2):
		date = dateOf(first, second, third, true)
	case a == 4: // a year needs a month and a day
	case c == 4:
		date = dateOf(third, month, day, true)
	case c == 2:
		date = dateOf(2000+third, month, day, false)
	case c == 0 && sep == '.' && lex.Language == "de", c < 0 && sep == '/' && s[:n] != "24/7" &&
		(n == len(s) || s[n] != '-' && CountLetters(s[n:]) == 0):
		date = dateOf(0, month, day, false)
	}
	return date
}

// dateOf returns the date of its parts, or 0. A day that its month lacks makes a date only if the
// year is written in full: "3.0." and "31.2." are versions and sections.
func dateOf(year, month, day int64, full bool) int64 {
	if month < 1 || month > 12 || day < 1 || day > 31 ||
		!full && int(day) > time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() {
		return 0
	}
	return year*10000 + month*100 + day
}

// DayValue returns the value of a date.
func DayValue(t time.Time) Value {
	return Value{Kind: DateValue, Amount: int64(t.Year())*10000 + int64(t.Month())*100 + int64(t.Day())}
}

func parseDigits(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

const (
	// MinutesPerDay is the number of minutes of a day.
	MinutesPerDay = 24 * 60
	// maxDerivedDays bounds the durations by which a day is shifted.
	maxDerivedDays = 1100
)

// Days returns the days that a date may mean. A date without a year may be in the year before now,
// of now, or after.
func (c Value) Days(now time.Time) []time.Time {
	if c.Kind != DateValue || c.Amount < 100 {
		return nil
	}
	year, month, dom := int(c.Amount/10000), time.Month(c.Amount/100%100), int(c.Amount%100)
	if year > 0 {
		return []time.Time{time.Date(year, month, dom, 0, 0, 0, 0, time.UTC)}
	}
	out := make([]time.Time, 0, 3)
	for y := now.Year() - 1; y <= now.Year()+1; y++ {
		out = append(out, time.Date(y, month, dom, 0, 0, 0, 0, time.UTC))
	}
	return out
}

// Shift moves a day by a duration of whole days, business days or months, forwards (sign 1) or
// backwards (-1). A period of months ends on the same day of a month, or on the last day of a
// shorter one. It fails for other values and for durations of years.
func (c Value) Shift(from time.Time, sign int) (time.Time, bool) {
	n := int(c.Amount / 1000)
	switch {
	case c.Kind != DurationValue || n <= 0 || c.Amount/1000 > maxDerivedDays*SecondsPerDay:
	case c.Unit == Months && n <= maxDerivedDays/30:
		end := from.AddDate(0, sign*n, 0)
		if end.Day() != from.Day() {
			end = end.AddDate(0, 0, -end.Day())
		}
		return end, true
	case c.Unit == BusinessDays && n <= maxDerivedDays/7*5:
		return AddBusinessDays(from, sign*n), true
	case c.Unit == Seconds && n%SecondsPerDay == 0:
		return from.AddDate(0, 0, sign*n/SecondsPerDay), true
	}
	return time.Time{}, false
}

// AddBusinessDays returns the time that is so many business days, Monday to Friday, after a time,
// or before it if days is negative.
func AddBusinessDays(t time.Time, days int) time.Time {
	step := 1
	if days < 0 {
		step, days = -1, -days
	}
	weeks := max(days-1, 0) / 5
	t = t.AddDate(0, 0, step*7*weeks)
	for days -= 5 * weeks; days > 0; {
		t = t.AddDate(0, 0, step)
		if t.Weekday() != time.Saturday && t.Weekday() != time.Sunday {
			days--
		}
	}
	return t
}

// StartOfDay returns the beginning of a time's day in UTC.
func StartOfDay(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// Minutes returns the length of a duration of at most two days, or 0 for any other value.
func (c Value) Minutes() int64 {
	if c.Kind != DurationValue || c.Unit != Seconds || c.Amount > 2*SecondsPerDay*1000 {
		return 0
	}
	return c.Amount / 60_000
}

// ClocksMeet reports whether two times differ by at most near minutes, on a dial of twelve hours.
func ClocksMeet(a, b, near int64) bool {
	const dial = MinutesPerDay / 2
	gap := ((a-b)%dial + dial) % dial
	return min(gap, dial-gap) <= near
}
