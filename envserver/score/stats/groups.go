package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// OtherGroup is the group of all names beyond the number that figures list. A name may also be
// "other" itself.
const OtherGroup = "other"

// Groups are sums by name, ordered by name, with a fixed maximum number. Beyond that number the
// first names are kept and the others are summed up as OtherGroup. A name that is not kept in a
// part is not kept in the whole either, so parts may be added in any order.
type Groups[T any] []Group[T]

// Group is the sums of one name.
type Group[T any] struct {
	Name string
	Sums T
}

// At returns the sums of a name, made on first use. The pointer is valid until the next call.
func (g *Groups[T]) At(name string) *T {
	at, found := slices.BinarySearchFunc(*g, name,
		func(g Group[T], name string) int { return cmp.Compare(g.Name, name) })
	if !found {
		*g = slices.Insert(*g, at, Group[T]{Name: name})
	}
	return &(*g)[at].Sums
}

// Limit merges the last groups into OtherGroup until at most that many groups remain.
func (g *Groups[T]) Limit(most int, merge func(into, from *T)) {
	for len(*g) > most {
		last := len(*g) - 1
		if (*g)[last].Name == OtherGroup {
			last--
		}
		from := (*g)[last].Sums
		*g = slices.Delete(*g, last, last+1)
		merge(g.At(OtherGroup), &from)
	}
}

// Code describes the encoding, and code encodes each group's sums.
func (g *Groups[T]) Code(s *bitstream.Stream, code func(*T, *bitstream.Stream)) {
	bitstream.CodeList(s, (*[]Group[T])(g), bitstream.MinTextBits, func(group *Group[T]) {
		s.Text(&group.Name)
		code(&group.Sums, s)
	})
}

// Validate refuses more than most groups, names out of order, and sums that validate refuses.
func (g Groups[T]) Validate(most int, validate func(*T) error) error {
	if len(g) > most {
		return fmt.Errorf("%d groups are more than %d", len(g), most)
	}
	for i := range g {
		if i > 0 && g[i-1].Name >= g[i].Name {
			return fmt.Errorf("group %q is out of order", g[i].Name)
		}
		if err := validate(&g[i].Sums); err != nil {
			return err
		}
	}
	return nil
}
