package view

import (
	"strconv"
	"strings"
)

// Bar draws the earned part of the offered points.
func Bar(earned, offered string) string {
	const width = 20
	most, share := Decimal(offered), 0.0
	if most > 0 {
		share = min(max(Decimal(earned)/most, 0), 1)
	}
	full := int(share*width + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// Decimal parses a decimal of the API, 0 if it is empty.
func Decimal(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// Interval draws an interval between 0 and 1 and its middle.
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
