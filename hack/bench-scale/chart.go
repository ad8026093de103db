package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The size of the chart's four panels, in pixels.
const (
	panelWidth, panelHeight = 380, 220
	marginLeft, marginTop   = 62, 34
	marginRight, marginLow  = 14, 40
)

// colours are those of the numbers of servers, and are told apart without red and green.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"}

// panel is one measure of the growth.
type panel struct {
	title string
	value func(cell) float64
}

var panels = []panel{
	{"steps per second", func(c cell) float64 { return c.rate }},
	{"step p99, ms", func(c cell) float64 { return float64(c.p99.Microseconds()) / 1000 }},
	{"servers' CPU per step, µs", func(c cell) float64 { return float64(c.cpu.Nanoseconds()) / 1000 }},
	{"resident KiB per session", func(c cell) float64 {
		if !c.fills() {
			return 0
		}
		return c.bytes / 1024
	}},
}

// chartOf draws the growth: both axes of each panel are logarithmic.
func chartOf(cells []cell) string {
	var b strings.Builder
	width, height := 2*panelWidth, 2*panelHeight+30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	b.WriteString("<title>Growth over servers and sessions</title>\n")
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height)
	for i, p := range panels {
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\">\n", i%2*panelWidth, i/2*panelHeight)
		p.draw(&b, cells)
		b.WriteString("</g>\n")
	}
	for i, servers := range serversOf(cells) {
		x := marginLeft + i*110
		fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%d %s</text>\n", x,
			height-16, pickColour(i), x+10, height-12, servers, pluraliseServer(servers))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func pluraliseServer(servers int) string {
	if servers == 1 {
		return "server"
	}
	return "servers"
}

func pickColour(i int) string { return colours[i%len(colours)] }

func serversOf(cells []cell) []int {
	var servers []int
	for _, c := range cells {
		if !slices.Contains(servers, c.servers) {
			servers = append(servers, c.servers)
		}
	}
	return servers
}

// axis maps values to pixels, by powers of ten.
type axis struct{ low, high, from, to float64 }

// axisOf covers the positive values with whole powers of ten.
func axisOf(values []float64, from, to float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
		}
	}
	if math.IsInf(low, 1) {
		low, high = 0, 1
	}
	if low == high {
		high++
	}
	return axis{low, high, from, to}
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// powers are the labelled values of the axis.
func (a axis) powers() []float64 {
	var powers []float64
	for e := a.low; e <= a.high; e++ {
		powers = append(powers, math.Pow(10, e))
	}
	return powers
}

func (p panel) draw(b *strings.Builder, cells []cell) {
	sessions, values := make([]float64, len(cells)), make([]float64, len(cells))
	for i, c := range cells {
		sessions[i], values[i] = float64(c.sessions), p.value(c)
	}
	x := axisOf(sessions, marginLeft, panelWidth-marginRight)
	y := axisOf(values, panelHeight-marginLow, marginTop)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"20\" font-weight=\"bold\">%s</text>\n", marginLeft, html.EscapeString(p.title))
	for _, v := range y.powers() {
		fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"+
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", x.from, x.to, y.at(v), y.at(v), marginLeft-6,
			y.at(v)+4, v)
	}
	for _, v := range x.powers() {
		fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"+
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x.at(v), x.at(v), y.from, y.to, x.at(v),
			panelHeight-marginLow+16, v)
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\" fill=\"#555\">sessions</text>\n", x.to,
		panelHeight-marginLow+31)
	for i, servers := range serversOf(cells) {
		p.line(b, cells, servers, pickColour(i), x, y)
	}
}

// line draws the measure of one number of servers.
func (p panel) line(b *strings.Builder, cells []cell, servers int, colour string, x, y axis) {
	var points []string
	for _, c := range cells {
		v := p.value(c)
		if c.servers != servers || v <= 0 {
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(float64(c.sessions)), y.at(v)))
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>%d %s, %d sessions: %.4g</title>"+
			"</circle>\n", x.at(float64(c.sessions)), y.at(v), colour, servers, pluraliseServer(servers), c.sessions, v)
	}
	if len(points) > 1 {
		fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
			strings.Join(points, " "), colour)
	}
}
