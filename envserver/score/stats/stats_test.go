package stats

import "testing"

// Adding a constant to all scores doesn't change the standard error. The squares of these sums
// exceed 2^63.
func TestLargeSumsStayExact(t *testing.T) {
	sums := func(shift int64) *Clusters {
		c := &Clusters{}
		for i := range int64(60) {
			c.Add(1000, 0, 1000*(shift+i%3))
		}
		return c
	}
	low, high := sums(0), sums(900_000)
	if a, b := low.standardError(), high.standardError(); a != b || a == 0 {
		t.Errorf("standard errors %v and %v, want equal ones above 0", a, b)
	}
	if mean := high.Estimate().Mean; mean != 900_001 {
		t.Errorf("mean %d", mean)
	}
}
