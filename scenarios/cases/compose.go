package cases

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/scenarios/source"
)

// The splits of cases. Those of the first one use the voices for training, the others the held-out
// ones.
const (
	trainSplit   = "public-train"
	devSplit     = "public-dev"
	testSplit    = "public-test"
	privateSplit = "private"
)

// Composition is a family with modifiers. It is immutable.
type Composition struct {
	// ID is the id of the pack's list, and File its file. Both are "" for a composition without
	// one.
	ID, File    string
	list        string // the id of the list
	Family      string
	Modifiers   []string // ordered
	Language    string
	Split       string
	Difficulty  string // easy, medium or hard
	Tickets     bool   // shown as tickets, not as workflows
	Talks       bool   // the customer answers the agent's messages
	trainVoices bool   // in every split
	family      *family
	modifiers   []*modifier
	specs       map[string]*spec // the family's, changed by the modifiers
	set         *Set
}

// Key names the composition: "return.opened.plus". It is part of the key of the random streams.
func (c *Composition) Key() string {
	return strings.Join(append([]string{c.Family}, c.Modifiers...), ".") + "/" + c.Language
}

// Version changes with the family's.
func (c *Composition) Version() int { return c.family.Metadata.Version }

// Listed are the compositions of the pack's lists, in their order.
func (s *Set) Listed() []*Composition { return s.listed }

// PublicList is the id of the list of the public pack in a language. Its cases have no prefix.
func PublicList(language string) string {
	if language == english {
		return "cases"
	}
	return "cases-" + language
}

// maxID bounds the ids of cases, which are parts of labels and of the keys of scores.
const maxID = 32

// caseID is the id of the n-th case of a family in a list.
func caseID(list, family, language string, n int) string {
	id := family
	if list != PublicList(language) {
		id = list + "-" + family
	}
	if language != english {
		id += "-" + language
	}
	return fmt.Sprintf("%s-%02d", id, n)
}

// listCases reads a list of cases.
func (s *Set) listCases(c *compiler, file string, f *listFile) {
	language := cmp.Or(f.Language, english)
	for _, e := range f.Cases {
		words := strings.Fields(e.Value)
		id := e.Name
		cut := max(strings.LastIndexByte(id, '-'), 0)
		n, err := strconv.Atoi(id[min(cut+1, len(id)):])
		if err != nil || len(words) < 2 || !slices.Contains([]string{"easy", "medium", "hard"}, words[0]) {
			c.failf(e.Pos, "a case is written as \"<family>-<number>: <easy, medium or hard> <split> <modifier> ...\"")
			continue
		}
		family := id[:cut]
		if f.Metadata.ID != PublicList(language) {
			family = strings.TrimPrefix(family, f.Metadata.ID+"-")
		}
		if language != english {
			family = strings.TrimSuffix(family, "-"+language)
		}
		if want := caseID(f.Metadata.ID, family, language, n); id != want || len(id) > maxID {
			c.failf(e.Pos, "the id of this case must be %q and have at most %d characters", want, maxID)
			continue
		}
		composition, err := s.composeCase(family, words[2:], language, f.As != "")
		if err != nil {
			c.failf(e.Pos, "%v", err)
			continue
		}
		composition.ID, composition.File, composition.list = id, file, f.Metadata.ID
		composition.Difficulty, composition.Split = words[0], words[1]
		composition.trainVoices = f.Voices != ""
		if !slices.Contains([]string{trainSplit, devSplit, testSplit, privateSplit}, words[1]) {
			c.failf(e.Pos, "there is no split %q", words[1])
			continue
		}
		if len(composition.listVoices()) == 0 {
			c.failf(e.Pos, "family %s has no text in %q by a voice of split %s", family, language, words[1])
			continue
		}
		s.listed = append(s.listed, composition)
	}
}

// composeCase returns the composition of a family and modifiers. It fails if one doesn't exist, or
// if they don't go together.
func (s *Set) composeCase(familyID string, modifierIDs []string, language string, tickets bool) (*Composition, error) {
	i := slices.IndexFunc(s.families, func(f *family) bool { return f.Metadata.ID == familyID })
	if i < 0 {
		return nil, fmt.Errorf("there is no family %q%s", familyID, source.SuggestWord(familyID, s.Families()))
	}
	f := s.families[i]
	all, names := f.modifiers, f.Modifiers
	if tickets {
		if f.ticket == nil || f.ticket.subjects[language] == nil {
			return nil, fmt.Errorf("family %s has no ticket with subjects in %q", familyID, language)
		}
		all, names = slices.Concat(all, f.ticket.situations), slices.Concat(names, f.Ticket.Situations)
	}
	var chosen []*modifier
	for _, id := range slices.Sorted(slices.Values(modifierIDs)) {
		k := slices.IndexFunc(all, func(m *modifier) bool { return m.Metadata.ID == id })
		if k < 0 {
			return nil, fmt.Errorf("family %s can't be combined with %q: it is one of %s", familyID, id,
				strings.Join(names, ", "))
		}
		chosen = append(chosen, all[k])
	}
	if !isCompatible(chosen) {
		return nil, fmt.Errorf("the modifiers %s change the same things", strings.Join(modifierIDs, ", "))
	}
	if len(f.says[language]) == 0 {
		return nil, fmt.Errorf("family %s has no texts in %q", familyID, language)
	}
	c := s.newComposition(f, chosen, language)
	if len(c.listSpoken()) == 0 {
		return nil, fmt.Errorf("no voice has texts in %q of family %s and of each modifier with texts", language,
			familyID)
	}
	c.Tickets = tickets
	return c, nil
}

func (s *Set) newComposition(f *family, chosen []*modifier, language string) *Composition {
	c := &Composition{Family: f.Metadata.ID, Language: language, Split: trainSplit, family: f, modifiers: chosen,
		specs: maps.Clone(f.specs), set: s}
	for _, m := range chosen {
		maps.Copy(c.specs, m.specs)
		c.Modifiers = append(c.Modifiers, m.Metadata.ID)
	}
	return c
}

// All yields the compositions of all families with up to most modifiers that go together, as far as
// they have texts in the language.
func (s *Set) All(most int, language string) iter.Seq[*Composition] {
	return func(yield func(*Composition) bool) {
		for _, f := range s.families {
			if !s.visitAll(f, language, nil, most, yield) {
				return
			}
		}
	}
}

func (s *Set) visitAll(f *family, language string, chosen []*modifier, most int, yield func(*Composition) bool) bool {
	c := s.newComposition(f, chosen, language)
	if len(c.listSpoken()) == 0 {
		return true
	}
	if !yield(c) {
		return false
	}
	if len(chosen) == most {
		return true
	}
	from := 0
	if len(chosen) > 0 {
		from = slices.Index(f.modifiers, chosen[len(chosen)-1]) + 1
	}
	for _, m := range f.modifiers[from:] {
		next := append(slices.Clone(chosen), m)
		if isCompatible(next) && !s.visitAll(f, language, next, most, yield) {
			return false
		}
	}
	return true
}
