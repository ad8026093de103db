package text

import (
	"slices"
	"strings"
	"unicode"
)

// ValueKind is the kind of a value.
type ValueKind uint8

// The kinds of values.
const (
	MoneyValue ValueKind = iota // an amount, in thousandths of the currency's unit
	DateValue
	DurationValue
	ClockValue
	PercentValue
	NumberValue
	IDValue
)

// Value is a value that a text states, in a form in which "48 h" equals "two days".
type Value struct {
	Kind ValueKind
	// Amount is in thousandths for money, percentages and numbers, in minutes for clocks, in unit
	// for durations, and yyyymmdd for dates (0 for an unknown year or month).
	Amount int64
	Unit   Unit
	ID     string // an id's letters and digits, or a bare number as it was written
	Loose  bool   // the value may mean something else: "the 2nd", "1/2"
	Number int64  // the number before the unit, in thousandths
	// Measure is the unit of a bare number, as "kg", or HourMeasure.
	Measure string
	// Completes is set if the value only completes another one that stands beside it.
	Completes Completion
	At        Span // the tokens that state the value
}

// HourMeasure is the measure of a value that may be a time of day or a number of hours: "20 h".
const HourMeasure = "h"

// Completion is what a value only completes.
type Completion uint8

// The completions: a day that completes another day or a duration ("3 days from today"), and "free"
// beside a sum.
const (
	CompletesNothing Completion = iota
	CompletesDay
	CompletesSpan
	CompletesSum
)

// Unit is the unit of a duration. Hours, weeks and years are converted to one of the units.
type Unit uint8

// The units of durations.
const (
	NoUnit Unit = iota
	Seconds
	BusinessDays
	Months
)

// Equal reports whether two values are the same. A date without a year or a month equals that day
// of any, and an id equals its bare number.
func (c Value) Equal(o Value) bool {
	switch lo, hi := min(c.Kind, o.Kind), max(c.Kind, o.Kind); {
	case lo == MoneyValue && hi == NumberValue:
		return c.Amount == o.Amount && (c.cents() || o.cents())
	case lo >= NumberValue && hi == IDValue:
		return SameID(c.ID, o.ID)
	case lo != hi:
		return false
	case lo == DateValue:
		return sameDate(c.Amount, o.Amount) || c.Loose && sameDate(swapDayMonth(c.Amount), o.Amount) ||
			o.Loose && sameDate(c.Amount, swapDayMonth(o.Amount))
	}
	return c.Amount == o.Amount && c.Unit == o.Unit
}

// cents reports whether a bare number is written like an amount, with two decimals: "8.40".
func (c Value) cents() bool {
	n := len(c.ID)
	return c.Kind == NumberValue && n > 3 && (c.ID[n-3] == '.' || c.ID[n-3] == ',') && countDigits(c.ID[n-2:]) == 2
}

// swapDayMonth returns a day and a month without a year in the other order, as American and British
// English differ.
func swapDayMonth(date int64) int64 {
	if date < 100 || date >= 10000 {
		return date
	}
	return date%100*100 + date/100
}

func sameDate(a, b int64) bool {
	if a < 100 || b < 100 {
		return a%100 == b%100
	}
	return a%10000 == b%10000 && (a/10000 == b/10000 || a < 10000 || b < 10000)
}

// SameID compares the letters and digits of ids. A number of at least five digits may lack its
// prefix.
func SameID(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && (a == b || len(a) >= 5 && countDigits(a) == len(a) && strings.HasSuffix(b, a))
}

// LettersAndDigits returns the letters and digits of a text.
func LettersAndDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// Timed reports whether the value is a day, a time of day or a duration.
func (c Value) Timed() bool {
	return c.Kind == DateValue || c.Kind == ClockValue || c.Kind == DurationValue
}

// Contains reports whether the set contains a value equal to c.
func Contains(set []Value, c Value) bool { return slices.ContainsFunc(set, c.Equal) }

// AppendNew appends the values that the set lacks.
func AppendNew(set, claims []Value) []Value {
	for _, c := range claims {
		if !Contains(set, c) {
			c.ID = strings.Clone(c.ID)
			set = append(set, c)
		}
	}
	return set
}
