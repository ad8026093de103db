package episode_test

import (
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
)

// The vectors fix the draws. A change would give other scenarios to published seeds.
func TestDrawVectors(t *testing.T) {
	for seed, want := range map[int64]int{0: 24, 1: 7, 42: 8, 1<<53 - 1: 19} {
		if got := episode.DrawIndex(seed, 40); got != want {
			t.Errorf("Draw(%d, 40) = %d, want %d", seed, got, want)
		}
	}
}

func TestDrawReachesEveryChoice(t *testing.T) {
	const choices, seeds = 5, 1000
	counts := make([]int, choices)
	for seed := range int64(seeds) {
		counts[episode.DrawIndex(seed, choices)]++
	}
	for choice, n := range counts {
		if n < seeds/choices*3/4 || n > seeds/choices*5/4 {
			t.Errorf("choice %d was drawn %d times of %d", choice, n, seeds)
		}
	}
}

func TestOpaqueID(t *testing.T) {
	if got, want := episode.OpaqueID("T", "", 42), "T-GYJITKG5"; got != want {
		t.Errorf("OpaqueID() = %q, want %q", got, want)
	}
	seen := map[string]bool{}
	for seed := range int64(10_000) {
		seen[episode.OpaqueID("T", "", seed)] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("10000 seeds gave %d ids", len(seen))
	}
}
