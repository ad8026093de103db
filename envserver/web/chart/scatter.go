package chart

import (
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/web/template"
)

// Scatter draws figures from 0 to 1 against something else, such as costs or dates.
type Scatter struct {
	// Name says what is drawn. Low and High are the ends of the horizontal axis in words.
	Name, Low, High string
	Points          []Point
	// Joined draws a line through the points, which are in order.
	Joined bool
}

// Point is a figure of something by name. X is its place on the horizontal axis, from 0 to 1; At is
// that place in words.
type Point struct {
	Name, Y, At string
	X           float64
}

const (
	scatterLeft, scatterTop, scatterWidth, scatterHeight = 28.0, 10.0, 400.0, 150.0
	// maxNamed is the number of points up to which their names are written beside them, and maxName
	// the letters of a name.
	maxNamed, maxName = 6, 24
)

// SVG draws the points.
func (s Scatter) SVG() template.HTML {
	at := func(p Point) (x, y float64) {
		return scatterLeft + scatterWidth*min(max(p.X, 0), 1),
			scatterTop + scatterHeight*(1-min(max(ParseDecimal(p.Y), 0), 1))
	}
	label, path := make([]string, len(s.Points)), make([]string, len(s.Points))
	for i, p := range s.Points {
		x, y := at(p)
		label[i], path[i] = fmt.Sprintf("%s: %s at %s", p.Name, p.Y, p.At), fmt.Sprintf("%.1f,%.1f", x, y)
	}
	bottom, right := scatterTop+scatterHeight, scatterLeft+scatterWidth
	b := beginSVG("img", "scatter", right+scatterTop, bottom+18, s.Name+". "+strings.Join(label, "; "))
	for i, number := range []string{"0", "0.5", "1"} {
		y := bottom - scatterHeight*float64(i)/2
		fmt.Fprintf(b, `<line class="axis" x1="%g" y1="%g" x2="%g" y2="%g"/><text x="%g" y="%g" `+
			`text-anchor="end">%s</text>`, scatterLeft, y, right, y, scatterLeft-6, y+4, number)
	}
	fmt.Fprintf(b, `<text x="%g" y="%g">%s</text><text x="%g" y="%g" text-anchor="end">%s</text>`, scatterLeft,
		bottom+15, template.EscapeHTML(s.Low), right, bottom+15, template.EscapeHTML(s.High))
	if s.Joined {
		fmt.Fprintf(b, `<polyline class="line" points="%s"/>`, strings.Join(path, " "))
	}
	for i, p := range s.Points {
		x, y := at(p)
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="4"><title>%s</title></circle>`, x, y,
			template.EscapeHTML(label[i]))
		if s.Joined || len(s.Points) > maxNamed {
			continue
		}
		anchor, beside := "start", x+8
		if p.X > .5 {
			anchor, beside = "end", x-8
		}
		name := []rune(p.Name)
		if len(name) > maxName {
			name = append(name[:maxName-1], '…')
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, beside, y+4, anchor,
			template.EscapeHTML(string(name)))
	}
	return endSVG(b)
}
