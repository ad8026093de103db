package chart

import (
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/template"
)

// Histogram counts episodes by score: bin i has the scores from i/score.Bins up to
// (i+1)/score.Bins, the last one also the full score.
type Histogram struct {
	Counts [score.Bins]int64
	// Link returns the path of a list of the episodes with scores from low to high, two decimals of
	// three digits. If it is nil, bars have no links.
	Link func(low, high string) string
}

// SVG draws a bar for each bin that has episodes.
func (h Histogram) SVG() template.HTML {
	const (
		step, bar, left, top, height = 12.0, 11.0, 12.0, 16.0, 120.0
		floor                        = top + height
	)
	most, total := slices.Max(h.Counts[:]), int64(0)
	for _, n := range h.Counts {
		total += n
	}
	label := fmt.Sprintf("%s by score, at most %d in a bar", formatEpisodes(total), most)
	role := "img"
	if h.Link != nil {
		role = "group"
	}
	b := beginSVG(role, "histogram", 2*left+step*score.Bins, floor+20, label)
	fmt.Fprintf(b, `<text x="%g" y="11">%d</text>`, left, most)
	fmt.Fprintf(b, `<line class="axis" x1="%g" y1="%g" x2="%g" y2="%[2]g"/>`, left, top, left+step*score.Bins)
	for i, n := range h.Counts {
		if n == 0 {
			continue
		}
		low, high := float64(i)/score.Bins, float64(i+1)/score.Bins
		tall := max(height*float64(n)/float64(most), 2)
		name := fmt.Sprintf("%s with %.2f to %.2f", formatEpisodes(n), low, high)
		if h.Link != nil {
			fmt.Fprintf(b, `<a href="%s" aria-label="%s">`, template.EscapeHTML(
				h.Link(fmt.Sprintf("%.3f", low), fmt.Sprintf("%.3f", high))), name)
		}
		fmt.Fprintf(b, `<rect class="bar" x="%g" y="%.2f" width="%g" height="%.2f"><title>%s</title></rect>`,
			left+step*float64(i), floor-tall, bar, tall, name)
		if h.Link != nil {
			b.WriteString("</a>")
		}
	}
	fmt.Fprintf(b, `<line class="axis" x1="%g" y1="%g" x2="%g" y2="%[2]g"/>`, left, floor, left+step*score.Bins)
	for at, number := range []string{"0", "0.5", "1"} {
		fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="%s">%s</text>`, left+step*score.Bins*float64(at)/2, floor+15,
			[]string{"start", "middle", "end"}[at], number)
	}
	return endSVG(b)
}

func formatEpisodes(n int64) string {
	if n == 1 {
		return "1 episode"
	}
	return fmt.Sprintf("%d episodes", n)
}
