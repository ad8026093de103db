package expr

import (
	"testing"

	"pgregory.net/rapid"
)

// The vectors of SplitMix64 from state 1234567 are those of its reference implementation. The
// others were computed by an independent implementation in Python.
func TestStreamVectors(t *testing.T) {
	s := Stream{state: 1234567}
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := s.next(); got != want {
			t.Errorf("number %d from state 1234567 = %d, want %d", i, got, want)
		}
	}
	tests := map[string]struct {
		salt, scenario string
		version        int
		seed           int64
		variable       string
		want           [2]uint64
	}{
		"all empty":       {"", "", 0, 0, "", [2]uint64{0x913605eb7fc3b855, 0xee0d1c78c3fbeba2}},
		"seed 0":          {"csenv/public", "B07", 1, 0, "seats", [2]uint64{0x88511742d13c310c, 0xa3e71da7241428a6}},
		"seed 42":         {"csenv/public", "B07", 1, 42, "seats", [2]uint64{0x60764a6f823febc7, 0x1c84347f3835a664}},
		"seed -1":         {"csenv/public", "B07", 1, -1, "now", [2]uint64{0xc6803b3a5c7e49ec, 0xba28b51e8104dcb3}},
		"no text borders": {"csenv/public", "B0", 71, 0, "é", [2]uint64{0x449b99cbe1e9d593, 0x26bba1f68e2f4e8b}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewStreamKey(tt.salt, tt.scenario, tt.version, tt.seed).Stream(tt.variable)
			if got := [2]uint64{s.next(), s.next()}; got != tt.want {
				t.Errorf("first numbers %#x, want %#x", got, tt.want)
			}
		})
	}
}

func TestBelowStaysBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Stream{state: rapid.Uint64().Draw(t, "state")}
		n := rapid.Uint64Min(1).Draw(t, "n")
		if got := s.Below(n); got >= n {
			t.Fatalf("below(%d) = %d", n, got)
		}
	})
}

func TestBelowIsUniform(t *testing.T) {
	const n, draws = 7, 70_000
	s := Stream{state: 1}
	var counts [n]float64
	for range draws {
		counts[s.Below(n)]++
	}
	chi2 := 0.0
	for _, c := range counts {
		chi2 += (c - draws/n) * (c - draws/n) / (draws / n)
	}
	if chi2 > 22.46 { // the 99.9 % point of chi-squared with 6 degrees of freedom
		t.Errorf("chi-squared = %.1f over %v", chi2, counts)
	}
}
