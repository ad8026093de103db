package score

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// IndexSet is a set of non-negative indexes below 2^53, kept as ranges. Its text is "0-12,14", as
// in a Job's completedIndexes. The zero value is empty.
type IndexSet struct {
	ranges []indexRange // sorted, disjoint and not adjacent
}

type indexRange struct{ first, last int64 }

// ParseIndexSet reads the text of a set. It accepts only what String writes: sorted ranges that
// neither overlap nor touch.
func ParseIndexSet(text string) (IndexSet, error) {
	if text == "" {
		return IndexSet{}, nil
	}
	parts := strings.Split(text, ",")
	s := IndexSet{ranges: make([]indexRange, 0, len(parts))}
	for _, part := range parts {
		r, err := parseRange(part)
		if err != nil {
			return IndexSet{}, err
		}
		if n := len(s.ranges); n > 0 && r.first <= s.ranges[n-1].last+1 {
			return IndexSet{}, fmt.Errorf("index set: %q does not come after %s with a gap between", part,
				s.ranges[n-1])
		}
		s.ranges = append(s.ranges, r)
	}
	return s, nil
}

func parseRange(text string) (indexRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	lo, err := parseIndex(first)
	if err != nil || !isRange {
		return indexRange{lo, lo}, err
	}
	hi, err := parseIndex(last)
	if err == nil && hi <= lo {
		err = fmt.Errorf("index set: range %q does not ascend", text)
	}
	return indexRange{lo, hi}, err
}

func parseIndex(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > MaxSeed || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("index set: %q is not an index", text)
	}
	return n, nil
}

func (r indexRange) String() string {
	if r.first == r.last {
		return strconv.FormatInt(r.first, 10)
	}
	return strconv.FormatInt(r.first, 10) + "-" + strconv.FormatInt(r.last, 10)
}

// Add adds an index to the set.
func (s *IndexSet) Add(index int64) {
	at, found := s.findRange(index)
	if found {
		return
	}
	joinsLeft := at > 0 && s.ranges[at-1].last == index-1
	joinsRight := at < len(s.ranges) && s.ranges[at].first == index+1
	switch {
	case joinsLeft && joinsRight:
		s.ranges[at-1].last = s.ranges[at].last
		s.ranges = slices.Delete(s.ranges, at, at+1)
	case joinsLeft:
		s.ranges[at-1].last = index
	case joinsRight:
		s.ranges[at].first = index
	default:
		s.ranges = slices.Insert(s.ranges, at, indexRange{index, index})
	}
}

// Contains reports whether an index is in the set.
func (s IndexSet) Contains(index int64) bool {
	_, found := s.findRange(index)
	return found
}

// findRange returns the position of the range that holds the index, or of the first range after it.
func (s IndexSet) findRange(index int64) (at int, found bool) {
	at = sort.Search(len(s.ranges), func(i int) bool { return index <= s.ranges[i].last })
	return at, at < len(s.ranges) && s.ranges[at].first <= index
}

// All yields the indexes in ascending order.
func (s IndexSet) All(yield func(int64) bool) {
	for _, r := range s.ranges {
		for index := r.first; index <= r.last; index++ {
			if !yield(index) {
				return
			}
		}
	}
}

// At is the n-th index of the set in ascending order, from 0. It reports false beyond the end.
func (s IndexSet) At(n int64) (int64, bool) {
	for _, r := range s.ranges {
		if length := r.last - r.first + 1; n >= length {
			n -= length
			continue
		}
		return r.first + n, n >= 0
	}
	return 0, false
}

// Len is the number of indexes in the set.
func (s IndexSet) Len() int64 {
	var n int64
	for _, r := range s.ranges {
		n += r.last - r.first + 1
	}
	return n
}

// Equal reports whether two sets hold the same indexes.
func (s IndexSet) Equal(o IndexSet) bool { return slices.Equal(s.ranges, o.ranges) }

// Clone copies the set, so that adding to one leaves the other alone.
func (s IndexSet) Clone() IndexSet { return IndexSet{ranges: slices.Clone(s.ranges)} }

// String is the set's text, "" for the empty set.
func (s IndexSet) String() string {
	parts := make([]string, len(s.ranges))
	for i, r := range s.ranges {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}

// MarshalText writes the set's text.
func (s IndexSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the set's text as ParseIndexSet does.
func (s *IndexSet) UnmarshalText(text []byte) (err error) {
	*s, err = ParseIndexSet(string(text))
	return err
}
