package prose

import "math/bits"

// hashSet is a set of hashes, in a table with open addressing that is at most half full. A zero
// marks a free slot. The zero value is an empty set.
type hashSet struct {
	slots []uint64
	size  int
}

// newHashSet makes a set with room for n hashes.
func newHashSet(n int) hashSet {
	if n == 0 {
		return hashSet{}
	}
	return hashSet{slots: make([]uint64, 1<<bits.Len(uint(2*n-1)))}
}

// slot returns the index of the hash, or of the free slot for it, in a table that isn't empty.
func (s *hashSet) slot(h uint64) uint64 {
	mask := uint64(len(s.slots) - 1) //nolint:gosec // positive
	i := (h ^ h>>32) & mask
	for s.slots[i] != h && s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	return i
}

func (s *hashSet) add(hashes ...uint64) {
	for _, h := range hashes {
		if h = max(h, 1); 2*(s.size+1) > len(s.slots) {
			s.grow()
		}
		if i := s.slot(h); s.slots[i] == 0 {
			s.slots[i] = h
			s.size++
		}
	}
}

func (s *hashSet) grow() {
	larger := newHashSet(max(2*s.size, 4))
	for _, h := range s.slots {
		if h != 0 {
			larger.slots[larger.slot(h)] = h
		}
	}
	s.slots = larger.slots
}

func (s *hashSet) has(h uint64) bool {
	h = max(h, 1)
	return s.size > 0 && s.slots[s.slot(h)] == h
}
