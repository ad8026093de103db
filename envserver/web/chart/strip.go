package chart

import (
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/web/template"
)

// Strip draws the reward of each step of an episode as a bar. If there are many steps, a bar is the
// sum of several.
type Strip struct {
	// Rewards are the rewards of the steps, from step 1.
	Rewards []float64
	// Refused reports for each step whether its action was refused.
	Refused []bool
}

const (
	stripWidth, stripHeight = 720, 48
	// maxBars bounds the bars, barWidth the width of one.
	maxBars  = 240
	barWidth = 36
	// maxReward bounds what is drawn: a record may have any number.
	maxReward = 1000
	// leastBar is the height of a bar without a reward.
	leastBar = 1
)

// stripBar is the sum of some steps.
type stripBar struct {
	first, last, refused int
	reward               float64
}

// bars sums the steps.
func (s Strip) bars() []stripBar {
	n := min(len(s.Rewards), maxBars)
	bars := make([]stripBar, n)
	for i := range bars {
		b := &bars[i]
		b.first, b.last = i*len(s.Rewards)/n+1, (i+1)*len(s.Rewards)/n
		for step := b.first; step <= b.last; step++ {
			b.reward += min(max(s.Rewards[step-1], -maxReward), maxReward)
			if step <= len(s.Refused) && s.Refused[step-1] {
				b.refused++
			}
		}
	}
	return bars
}

// title says what a bar stands for.
func (b stripBar) title() string {
	text := fmt.Sprintf("step %d: %+.3f", b.first, b.reward)
	if b.last > b.first {
		text = fmt.Sprintf("steps %d to %d: %+.3f", b.first, b.last, b.reward)
	}
	switch {
	case b.refused == 0:
		return text
	case b.last == b.first:
		return text + ", refused"
	}
	return fmt.Sprintf("%s, %d refused", text, b.refused)
}

func (b stripBar) class() string {
	switch {
	case b.reward < 0 || b.reward == 0 && b.refused > 0:
		return "bad"
	case b.reward > 0:
		return "good"
	}
	return "track"
}

// SVG draws the strip, nothing without steps.
func (s Strip) SVG() template.HTML {
	bars := s.bars()
	if len(bars) == 0 {
		return ""
	}
	least, most := 0.0, 0.0
	for _, b := range bars {
		least, most = min(least, b.reward), max(most, b.reward)
	}
	scale := 0.0
	if most > least {
		scale = stripHeight / (most - least)
	}
	zero := most * scale
	if scale == 0 {
		zero = stripHeight
	}
	step := min(float64(stripWidth)/float64(len(bars)), barWidth)
	width := step * 0.8
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="strip" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-label="Reward by step: %d steps, bars from %+.3f to %+.3f">`, stripWidth, stripHeight+2, stripWidth,
		stripHeight+2, len(s.Rewards), least, most)
	fmt.Fprintf(&out, `<line class="axis" x1="0" y1="%.1f" x2="%d" y2="%.1f"/>`, zero+1, stripWidth, zero+1)
	for i, b := range bars {
		top, height := zero-max(b.reward, 0)*scale, max(b.reward, -b.reward)*scale
		if height < leastBar {
			top, height = zero-leastBar, 2*leastBar
		}
		fmt.Fprintf(&out, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
			b.class(), float64(i)*step, top+1, width, height, b.title())
	}
	out.WriteString("</svg>")
	return template.HTML(out.String()) // it has only numbers and words of this file
}
