package view

import (
	"strconv"
	"strings"
)

// Bar draws what was earned of what was offered.
func Bar(earned, offered string) string {
	const width = 20
	most, share := Decimal(offered), 0.0
	if most > 0 {
		share = min(max(Decimal(earned)/most, 0), 1)
	}
	full := int(share*width + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// Decimal reads one of the API's decimals, 0 for none.
func Decimal(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// Interval draws an interval from 0 to 1 with its middle.
func Interval(low, middle, high string, width int) string {
	at := func(text string) int { return min(max(int(Decimal(text)*float64(width)), 0), width-1) }
	line := []rune(strings.Repeat("·", width))
	if low != "" && high != "" {
		for i := at(low); i <= at(high); i++ {
			line[i] = '─'
		}
	}
	line[at(middle)] = '●'
	return string(line)
}
