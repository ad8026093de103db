package text

import (
	"strconv"
	"strings"
	"time"
)

// digitDate reads a date in digits, with the month first if the language writes it so. It returns 0
// for no date, and for a day that its month lacks unless a full year follows: "3.0." and "31.2."
// are versions and sections.
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

// dateOf returns the date of its parts, or 0 if they can't be one. A day past the month's end is a
// wrong date rather than none if last allows it.
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

// DayValue is the value that a date makes.
func DayValue(t time.Time) Value {
	return Value{Kind: DateValue, Amount: int64(t.Year())*10000 + int64(t.Month())*100 + int64(t.Day())}
}

// atoi reads at most four digits.
func atoi(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// maxDerivedDays bounds the durations that days are counted from.
const maxDerivedDays = 1100

const MinutesPerDay = 24 * 60

// Days returns the days that a date value may mean: all three of the years around now where it
// names none.
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

// Shift moves a day by a duration of whole days or months, forwards or backwards. It fails for
// other values and for spans beyond years.
func (c Value) Shift(from time.Time, sign int) (time.Time, bool) {
	n := int(c.Amount / 1000)
	switch {
	case c.Kind != DurationValue || n <= 0 || c.Amount/1000 > maxDerivedDays*SecondsPerDay:
	case c.Unit == Months && n <= maxDerivedDays/30:
		return from.AddDate(0, sign*n, 0), true
	case c.Unit == BusinessDays && n <= maxDerivedDays/7*5:
		for n > 0 {
			from = from.AddDate(0, 0, sign)
			if w := from.Weekday(); w != time.Saturday && w != time.Sunday {
				n--
			}
		}
		return from, true
	case c.Unit == Seconds && n%SecondsPerDay == 0:
		return from.AddDate(0, 0, sign*n/SecondsPerDay), true
	}
	return time.Time{}, false
}

// Minutes is the length of a duration of less than two days, 0 for any other value.
func (c Value) Minutes() int64 {
	if c.Kind != DurationValue || c.Unit != Seconds || c.Amount > 2*SecondsPerDay*1000 {
		return 0
	}
	return c.Amount / 60_000
}

// ClocksMeet reports whether two times are near, on a dial of twelve hours.
func ClocksMeet(a, b, near int64) bool {
	const dial = MinutesPerDay / 2
	gap := ((a-b)%dial + dial) % dial
	return min(gap, dial-gap) <= near
}
