package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestStrip(t *testing.T) {
	many := Strip{Rewards: make([]float64, 10_000), Refused: make([]bool, 10_000)}
	many.Rewards[0], many.Refused[41] = 0.5, true
	for name, tt := range map[string]struct {
		strip Strip
		bars  int
		want  []string
	}{
		"no steps": {Strip{}, 0, nil},
		"three steps": {Strip{Rewards: []float64{0.2, -0.1, 0}, Refused: []bool{false, false, true}}, 3,
			[]string{`class="good"`, "<title>step 1: +0.200</title>", "<title>step 2: -0.100</title>",
				"step 3: +0.000, refused", "3 steps, bars from -0.100 to +0.200"}},
		"no rewards": {Strip{Rewards: []float64{0, 0}}, 2, []string{`class="track"`, "2 steps"}},
		"very many steps": {many, maxBars, []string{"10000 steps", "steps 1 to 41: +0.500",
			"steps 42 to 83: +0.000, 1 refused"}},
		"rewards of any size": {Strip{Rewards: []float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64}}, 3,
			[]string{"step 1: +1000.000"}},
	} {
		svg := string(tt.strip.SVG())
		if bars := strings.Count(svg, "<rect "); bars != tt.bars || strings.Contains(svg, "NaN") ||
			strings.Contains(svg, "Inf") {
			t.Errorf("%s: %d bars in %s", name, bars, svg)
		}
		for _, want := range tt.want {
			if !strings.Contains(svg, want) {
				t.Errorf("%s: %q is missing in %s", name, want, svg)
			}
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v in %s", name, err, svg)
			}
		}
	}
}
