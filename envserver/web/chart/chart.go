// Package chart draws figures: as SVG for pages and reports, and as text for terminals.
//
// Drawings have classes and no styles, which csenv.css gives them. Figures are decimals as in a
// run's status, for example "0.7312"; "" means that a figure is not known.
package chart

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/web/template"
)

// ParseDecimal parses a decimal figure, 0 if it is not known.
func ParseDecimal(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// Interval is a figure with its confidence interval.
type Interval struct {
	// Low and High are "" if the interval is not known.
	Low, Middle, High string
	// Difference draws the figures from -1 to 1 instead of from 0 to 1.
	Difference bool
}

// The SVG drawings of intervals have an axis of this length, and a margin at its ends, so that
// those below each other share one axis.
const (
	axis   = 200.0
	margin = 6.0
)

// place returns where a figure is on the axis.
func (i Interval) place(figure string) float64 {
	share := ParseDecimal(figure)
	if i.Difference {
		share = (share + 1) / 2
	}
	return margin + axis*min(max(share, 0), 1)
}

// SVG draws the interval over an axis.
func (i Interval) SVG() template.HTML {
	label, low := i.Middle, i.Low != "" && i.High != ""
	if low {
		label = fmt.Sprintf("%s, %s to %s", i.Middle, i.Low, i.High)
	}
	b := beginSVG("img", "interval", axis+2*margin, 16, label)
	fmt.Fprintf(b, `<line class="axis" x1="%g" y1="8" x2="%g" y2="8"/>`, margin, margin+axis)
	for _, share := range []float64{0, .5, 1} {
		fmt.Fprintf(b, `<line class="axis" x1="%[1]g" y1="2" x2="%[1]g" y2="14"/>`, margin+axis*share)
	}
	if low {
		fmt.Fprintf(b, `<line class="range" x1="%.2f" y1="8" x2="%.2f" y2="8"/>`, i.place(i.Low), i.place(i.High))
	}
	if i.Middle != "" {
		fmt.Fprintf(b, `<circle class="dot" cx="%.2f" cy="8" r="4"/>`, i.place(i.Middle))
	}
	return endSVG(b)
}

// Scale draws the numbers of the axis, for the head of a column of intervals.
func (i Interval) Scale() template.HTML {
	numbers := [3]string{"0", "0.5", "1"}
	if i.Difference {
		numbers = [3]string{"−1", "0", "1"}
	}
	b := beginSVG("img", "interval", axis+2*margin, 14, "axis from "+numbers[0]+" to "+numbers[2])
	for at, anchor := range []string{"start", "middle", "end"} {
		fmt.Fprintf(b, `<text x="%g" y="11" text-anchor="%s">%s</text>`,
			[3]float64{0, margin + axis/2, axis + 2*margin}[at], anchor, numbers[at])
	}
	return endSVG(b)
}

// Text draws an interval between 0 and 1 in that many characters.
func (i Interval) Text(width int) string {
	at := func(figure string) int { return min(max(int(ParseDecimal(figure)*float64(width)), 0), width-1) }
	line := []rune(strings.Repeat("·", width))
	if i.Low != "" && i.High != "" {
		for column := at(i.Low); column <= at(i.High); column++ {
			line[column] = '─'
		}
	}
	line[at(i.Middle)] = '●'
	return string(line)
}

// Bar is the earned part of the offered points.
type Bar struct{ Earned, Offered string }

// share is from 0 to 1, and 0 if nothing is offered.
func (b Bar) share() float64 {
	if most := ParseDecimal(b.Offered); most > 0 {
		return min(max(ParseDecimal(b.Earned)/most, 0), 1)
	}
	return 0
}

// SVG draws the bar.
func (b Bar) SVG() template.HTML {
	const width = 160.0
	out := beginSVG("img", "share", width, 10, fmt.Sprintf("%.0f %%", 100*b.share()))
	fmt.Fprintf(out, `<rect class="track" width="%g" height="10" rx="3"/>`, width)
	fmt.Fprintf(out, `<rect class="bar" width="%.2f" height="10" rx="3"/>`, width*b.share())
	return endSVG(out)
}

// Text draws the bar in that many characters.
func (b Bar) Text(width int) string {
	full := int(b.share()*float64(width) + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// beginSVG starts a drawing that scales with its place. Screen readers read the label; they ignore
// what is inside a drawing with the role img, but not inside one with the role group.
func beginSVG(role, class string, width, height float64, label string) *strings.Builder {
	b := &strings.Builder{}
	label = template.EscapeHTML(label)
	fmt.Fprintf(b, `<svg class="%s" viewBox="0 0 %g %g" role="%s" aria-label="%s"><title>%s</title>`, class, width,
		height, role, label, label)
	return b
}

// endSVG returns the drawing as markup: its texts are escaped, and all else is from this package.
func endSVG(b *strings.Builder) template.HTML {
	b.WriteString("</svg>")
	return template.HTML(b.String())
}
