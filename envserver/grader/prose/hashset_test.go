package prose

import (
	"math/rand/v2"
	"testing"
)

// TestHashSet compares the set with a map, with hashes that share slots and with zero.
func TestHashSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, room := range []int{0, 1, 100} {
		set, want := newHashSet(room), map[uint64]bool{}
		for range 500 {
			h := random.Uint64N(64) << (8 * random.IntN(8))
			if set.has(h) != (want[h] || h == 0 && want[1] || h == 1 && want[0]) {
				t.Fatalf("has(%d) is %t with room for %d", h, set.has(h), room)
			}
			if random.IntN(2) == 0 {
				set.add(h)
				want[h] = true
			}
		}
	}
}
