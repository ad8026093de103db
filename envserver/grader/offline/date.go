package offline

import (
	"strconv"
	"strings"
	"time"
)

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
