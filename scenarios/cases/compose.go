package cases

import (
	"hash/fnv"
	"slices"
	"strings"
)

// The splits of generated cases.
const (
	trainSplit = "public-train"
	devSplit   = "public-dev"
	testSplit  = "public-test"
)

// The difficulties.
const (
	Easy   = "easy"
	Medium = "medium"
	Hard   = "hard"
)

// perFamily is the number of compositions of each family and difficulty in the catalogue.
func perFamily() map[string]int { return map[string]int{Easy: 8, Medium: 12, Hard: 16} }

// difficulty is the difficulty of a case with that many modifiers.
func difficulty(modifiers int) string {
	switch {
	case modifiers <= 1:
		return Easy
	case modifiers == 2:
		return Medium
	}
	return Hard
}

// maxModifiers is the maximum number of modifiers of a composition.
const maxModifiers = 4

// Compositions lists the compositions of the catalogue: for every family and difficulty a number of
// the compatible ones, chosen by their hash, in four languages where the family has texts.
func (s *Set) Compositions() []*Composition {
	var out []*Composition
	for _, f := range s.families {
		out = append(out, s.compositionsOf(f)...)
	}
	return out
}

func (s *Set) compositionsOf(f *family) []*Composition {
	byDifficulty := map[string][]*Composition{}
	var visit func(from int, chosen []*modifier)
	visit = func(from int, chosen []*modifier) {
		c := s.composition(f, chosen)
		byDifficulty[c.Difficulty] = append(byDifficulty[c.Difficulty], c)
		if len(chosen) == maxModifiers {
			return
		}
		for i := from; i < len(f.modifiers); i++ {
			if next := append(slices.Clone(chosen), f.modifiers[i]); compatible(next) {
				visit(i+1, next)
			}
		}
	}
	visit(0, nil)
	var out []*Composition
	for _, d := range []string{Easy, Medium, Hard} {
		all := byDifficulty[d]
		slices.SortStableFunc(all, func(a, b *Composition) int {
			if plain := len(a.Modifiers) - len(b.Modifiers); d == Easy && plain != 0 {
				return plain // the family itself is always in the catalogue
			}
			return strings.Compare(order(a), order(b))
		})
		out = append(out, all[:min(len(all), perFamily()[d])]...)
	}
	return out
}

func (s *Set) composition(f *family, chosen []*modifier) *Composition {
	c := &Composition{Family: f.Metadata.ID, Language: "en", Difficulty: difficulty(len(chosen)), family: f,
		modifiers: chosen, set: s}
	for _, m := range chosen {
		c.Modifiers = append(c.Modifiers, m.Metadata.ID)
	}
	slices.Sort(c.Modifiers)
	c.Split = c.split()
	return c
}

// split holds out some compositions of every family, and some families as a whole.
func (c *Composition) split() string {
	h := hash(c.ID()) % 10
	switch {
	case c.family.HeldOut || h >= 8:
		return testSplit
	case h >= 7:
		return devSplit
	}
	return trainSplit
}

// order is a key in which neighbours have nothing in common.
func order(c *Composition) string {
	h := hash("order " + c.ID())
	return string([]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)})
}

func hash(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s)) //nolint:errcheck // it never fails
	return h.Sum32()
}
