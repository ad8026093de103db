package score

import (
	"cmp"
	"slices"
)

// OtherGroup is the group that takes those beyond the number that figures list. A group may bear
// the name itself.
const OtherGroup = OtherClass

// As many groups as a run's status lists.
const (
	maxCategories   = 32
	maxDifficulties = 16
	maxLanguages    = 16
	maxClasses      = 16
)

// groups are sums by name, ordered by name and at most a fixed number of them. Beyond that, those
// with the first names are kept and the others are added up as OtherGroup. A name that doesn't make
// it into a part of the sums doesn't make it into the whole, so the parts may be added in any
// order.
type groups[T any] []group[T]

type group[T any] struct {
	name string
	sums T
}

// at finds the sums of a name, made on first use. Adding to what it returned before is adding to
// nothing.
func (g *groups[T]) at(name string) *T {
	at, found := slices.BinarySearchFunc(*g, name,
		func(g group[T], name string) int { return cmp.Compare(g.name, name) })
	if !found {
		*g = slices.Insert(*g, at, group[T]{name: name})
	}
	return &(*g)[at].sums
}

// limit adds the last groups to OtherGroup until there are no more than most.
func (g *groups[T]) limit(most int, add func(into, from *T)) {
	for len(*g) > most {
		last := len(*g) - 1
		if (*g)[last].name == OtherGroup {
			last--
		}
		from := (*g)[last].sums
		*g = slices.Delete(*g, last, last+1)
		add(g.at(OtherGroup), &from)
	}
}

func (g *groups[T]) merge(o groups[T], most int, add func(into, from *T)) {
	for i := range o {
		add(g.at(o[i].name), &o[i].sums)
		g.limit(most, add)
	}
}
