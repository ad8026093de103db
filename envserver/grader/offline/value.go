package offline

import "strings"

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
