package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/web/template"
)

// The kinds of marks. A built-in agent's kind is its name.
const (
	RunMark      = "run"
	MetMark      = "met"    // a threshold that the run meets
	MissedMark   = "missed" // a threshold that it misses
	OpenMark     = "open"   // a threshold whose result isn't final
	BaselineMark = "baseline"
)

// Mark is a figure on a ruler.
type Mark struct{ Kind, Name, Figure string }

// Ruler draws the figures of several runs and thresholds on one axis from 0 to 1.
type Ruler struct {
	// Name is the name of the measure, and Low and High are the interval of the mark of the run.
	Name, Low, High string
	Marks           []Mark
}

// The ruler's axis, and the lanes above it in which the marks of others stand.
const (
	rulerAxis = 300.0
	laneSize  = 13.0
)

// SVG draws the ruler. Thresholds cross the axis, the run is on it, and others are above it, one
// above the other if they have almost the same figure.
func (r Ruler) SVG() template.HTML {
	at := func(figure string) float64 { return margin + rulerAxis*min(max(ParseDecimal(figure), 0), 1) }
	lanes := make([]int, len(r.Marks))
	for i, m := range r.Marks {
		for j := range i {
			other := r.Marks[j]
			if shapes[m.Kind] != "" && shapes[other.Kind] != "" && lanes[i] <= lanes[j] &&
				math.Abs(at(m.Figure)-at(other.Figure)) < laneSize {
				lanes[i] = lanes[j] + 1
			}
		}
	}
	line := float64(slices.Max(append(lanes, 0))+2) * laneSize
	b := beginSVG("img", "ruler", rulerAxis+2*margin, line+22, r.label())
	fmt.Fprintf(b, `<line class="axis" x1="%g" y1="%g" x2="%g" y2="%[2]g"/>`, margin, line, margin+rulerAxis)
	for i, number := range []struct{ text, anchor string }{{"0", "start"}, {"0.25", "middle"}, {"0.5", "middle"},
		{"0.75", "middle"}, {"1", "end"}} {
		x := margin + rulerAxis*float64(i)/4
		fmt.Fprintf(b, `<line class="axis" x1="%g" y1="%g" x2="%[1]g" y2="%[3]g"/>`, x, line-5, line+5)
		fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="%s">%s</text>`, x, line+18, number.anchor, number.text)
	}
	if r.Low != "" && r.High != "" {
		fmt.Fprintf(b, `<line class="range" x1="%.2f" y1="%g" x2="%.2f" y2="%[2]g"/>`, at(r.Low), line, at(r.High))
	}
	for i, m := range r.Marks {
		b.WriteString(m.shape(at(m.Figure), line-float64(lanes[i]+1)*laneSize, line))
	}
	return endSVG(b)
}

// label says what the drawing shows.
func (r Ruler) label() string {
	parts := make([]string, len(r.Marks))
	for i, m := range r.Marks {
		parts[i] = m.Name + " " + m.Figure
		if m.Kind == RunMark && r.Low != "" && r.High != "" {
			parts[i] += ", from " + r.Low + " to " + r.High
		}
	}
	return r.Name + " from 0 to 1: " + strings.Join(parts, "; ")
}

// shapes are drawn around a point, so that marks differ without colours too.
var shapes = map[string]string{
	"oracle":     "M0 -5L5 4H-5Z",
	"heuristic":  "M-4 -4H4V4H-4Z",
	"random":     "M-1.5 -5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5V-1.5H-1.5Z",
	"noop":       "M0 5L5 -4H-5Z",
	BaselineMark: "M0 -6L6 0L0 6L-6 0Z",
}

// shape draws the mark at a place of the axis: in a lane, or on the line.
func (m Mark) shape(x, lane, line float64) string {
	switch m.Kind {
	case RunMark:
		return fmt.Sprintf(`<circle class="dot" cx="%.2f" cy="%g" r="5"/>`, x, line)
	case MetMark, MissedMark, OpenMark:
		return fmt.Sprintf(`<line class="bound %s" x1="%.2f" y1="%g" x2="%.2[2]f" y2="%[4]g"/>`, m.Kind, x, line-9,
			line+9)
	}
	return fmt.Sprintf(`<path class="other" d="%s" transform="translate(%.2f %g)"/>`, shapes[m.Kind], x, lane)
}

// Symbol draws the mark alone, for the list that names the marks.
func (m Mark) Symbol() template.HTML {
	return template.HTML(`<svg class="symbol" viewBox="-8 -8 16 16" aria-hidden="true">` + m.shape(0, 0, 0) + `</svg>`)
}
