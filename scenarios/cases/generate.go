package cases

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// Options choose the cases of a list.
type Options struct {
	// Families are the ids of the families, all if empty.
	Families []string
	// List is the id of the list. The ids of its cases begin with it, except in the public list.
	List string
	// Salt changes which compositions are chosen and how they are split.
	Salt string
	// Language is the language of the texts. Families without texts in it are left out.
	Language string
	// PerDifficulty is the maximum number of cases of each family and difficulty.
	PerDifficulty int
	// Private puts every case into the split "private".
	Private bool
	// TrainVoices means that the texts of every split are in the voices for training, so that the
	// splits differ in compositions alone.
	TrainVoices bool
	// Tickets is the number of tickets, about as many of each category, 0 for cases of the workflow
	// environment.
	Tickets int
}

// maxModifiers is the maximum number of modifiers of a generated composition, and sampled the
// number of seeds that its difficulty is measured with.
const maxModifiers, sampled = 4, 8

// maxMeasured bounds the compositions of a family that are measured.
const maxMeasured = 700

// Difficulties in ascending order. A case is hard from hardSteps required steps on, by the median
// of its sample, and easy up to easySteps.
const easySteps, hardSteps = 6, 10

// distracting is the number of cases of a family among which one has a modifier that changes
// nothing about what is right. Without such cases, agents could infer that every stated fact
// matters.
const distracting = 10

// Generate chooses compositions. In most of them each modifier changes what is right to do for some
// of the sampled seeds; in one of ten, some modifiers change nothing about it.
func (s *Set) Generate(o Options) ([]*Composition, error) {
	for _, id := range o.Families {
		if !slices.Contains(s.Families(), id) {
			return nil, fmt.Errorf("there is no family %q: it is one of %s", id, strings.Join(s.Families(), ", "))
		}
	}
	families := slices.DeleteFunc(slices.Clone(s.families), func(f *family) bool {
		return len(o.Families) > 0 && !slices.Contains(o.Families, f.Metadata.ID) || len(f.says[o.Language]) == 0
	})
	if o.Tickets > 0 {
		return s.generateTickets(families, o)
	}
	var out []*Composition
	for _, f := range families {
		chosen, err := s.generate(f, o)
		if err != nil {
			return nil, err
		}
		out = append(out, chosen...)
	}
	return out, nil
}

// generateTickets chooses compositions of the families with tickets. The families of a category
// share its part of the number. Each family goes through its situations in turn, one of which is to
// have none. A case and a ticket with the same modifiers, apart from the situation, are in the same
// split.
func (s *Set) generateTickets(families []*family, o Options) ([]*Composition, error) {
	families = slices.DeleteFunc(families, func(f *family) bool {
		return f.ticket == nil || f.ticket.subjects[o.Language] == nil
	})
	sharing := map[string]int{}
	for _, f := range families {
		sharing[f.Ticket.Category]++
	}
	var out []*Composition
	for i, f := range families {
		parts := len(sharing) * sharing[f.Ticket.Category]
		chosen, err := s.ticketsOf(f, o, (o.Tickets+parts-1)/parts, i)
		if err != nil {
			return nil, err
		}
		out = append(out, chosen...)
	}
	return out, nil
}

// ticketsOf makes up to most tickets of a family: each of its chosen compositions with a situation,
// then again with the next ones. The first one has the situation after turn others.
func (s *Set) ticketsOf(f *family, o Options, most, turn int) ([]*Composition, error) {
	chosen, err := s.shownAsTickets(f, o, most)
	if err != nil {
		return nil, err
	}
	situations := append([]*modifier{nil}, f.ticket.situations...)
	var out []*Composition
	for round := range situations {
		for i, c := range chosen {
			if len(out) == most {
				break
			}
			with := slices.Clone(c.modifiers)
			if m := situations[(i+round+turn)%len(situations)]; m != nil {
				with = append(with, m)
			}
			t := s.newComposition(f, with, o.Language)
			t.Split, t.Difficulty, t.Tickets = c.Split, c.Difficulty, true
			out = append(out, t)
		}
	}
	return out, o.number(out)
}

// shownAsTickets chooses up to most compositions without what only an agent with tools notices.
func (s *Set) shownAsTickets(f *family, o Options, most int) ([]*Composition, error) {
	var out []*Composition
	for i, c := range s.candidates(f, o) {
		if i == maxMeasured || len(out) == most {
			break
		}
		if c.Split = o.split(c); len(c.listVoices()) == 0 || slices.ContainsFunc(c.modifiers, (*modifier).ofTools) {
			continue
		}
		m, err := c.measureCase()
		if err != nil {
			return nil, err
		}
		if c.Difficulty = rateDifficulty(m.steps); m.matters {
			out = append(out, c)
		}
	}
	return out, nil
}

// ofTools reports whether the modifier changes only what an agent with tools has to do.
func (m *modifier) ofTools() bool { return m.Hides || len(m.Faults) > 0 }

// candidates are the compositions of a family in an order without a pattern, the family itself
// first.
func (s *Set) candidates(f *family, o Options) []*Composition {
	var all []*Composition
	s.visitAll(f, o.Language, nil, maxModifiers, func(c *Composition) bool {
		all = append(all, c)
		return true
	})
	order := make(map[*Composition]string, len(all))
	for _, c := range all {
		order[c] = o.order(c)
	}
	slices.SortStableFunc(all, func(a, b *Composition) int {
		if plain := min(len(a.Modifiers), 1) - min(len(b.Modifiers), 1); plain != 0 {
			return plain
		}
		return strings.Compare(order[a], order[b])
	})
	return all
}

func (s *Set) generate(f *family, o Options) ([]*Composition, error) {
	count, distracted := map[string]int{}, 0
	var out []*Composition
	for i, c := range s.candidates(f, o) {
		if c.Split = o.split(c); len(c.listVoices()) == 0 {
			continue
		}
		if i == maxMeasured || min(count["easy"], count["medium"], count["hard"]) == o.PerDifficulty {
			break
		}
		m, err := c.measureCase()
		if err != nil {
			return nil, err
		}
		c.Difficulty = rateDifficulty(m.steps)
		distracts := m.distracts && distracting*distracted+distracting/2 < len(out)
		if (m.matters || distracts) && count[c.Difficulty] < o.PerDifficulty {
			count[c.Difficulty]++
			out = append(out, c)
			if !m.matters {
				distracted++
			}
		}
	}
	return out, o.number(out)
}

// number sorts the compositions of a family and gives them ids.
func (o Options) number(all []*Composition) error {
	slices.SortStableFunc(all, func(a, b *Composition) int { return len(a.Modifiers) - len(b.Modifiers) })
	for i, c := range all {
		c.ID = caseID(o.List, c.Family, c.Language, i+1)
		if len(c.ID) > maxID {
			return fmt.Errorf("the id %s has more than %d characters: choose a shorter name", c.ID, maxID)
		}
	}
	return nil
}

func rateDifficulty(steps int) string {
	switch {
	case steps <= easySteps:
		return "easy"
	case steps < hardSteps:
		return "medium"
	}
	return "hard"
}

// measured is what a sample of seeds shows about a composition.
type measured struct {
	steps int // the median number of required steps
	// matters means that each modifier changes what is right to do, or makes a tool fail; distracts
	// that some modifiers do and the others change no value of a decision.
	matters, distracts bool
}

func (c *Composition) measureCase() (measured, error) {
	var counts []int
	changes, differs := make([]bool, len(c.modifiers)), make([]bool, len(c.modifiers))
	for seed := range int64(sampled) {
		key := expr.NewStreamKey("measure", c.Family, 0, seed)
		whole, err := c.drawWorld(key)
		if err != nil {
			return measured{}, err
		}
		counts = append(counts, len(whole.Decision.Reads)+len(whole.Decision.Effects)+1)
		for i := range c.modifiers {
			less := c.set.newComposition(c.family, slices.Delete(slices.Clone(c.modifiers), i, i+1), c.Language)
			less.Split = c.Split
			other, err := less.decide(less.newWorld(key))
			if err != nil {
				return measured{}, err
			}
			changes[i] = changes[i] || len(c.modifiers[i].Faults) > 0 ||
				BuildSignature(&whole.Decision) != BuildSignature(&other.Decision)
			differs[i] = differs[i] || changes[i] || !reflect.DeepEqual(whole.Decision, other.Decision)
		}
	}
	slices.Sort(counts)
	return measured{steps: counts[len(counts)/2], matters: !slices.Contains(changes, false),
		distracts: slices.Equal(changes, differs)}, nil
}

// BuildSignature describes what is right to do about a case, without its values: the outcome, the
// look-ups, the changes and the rules. Cases with other signatures need another way of acting.
func BuildSignature(d *desk.Decision) string {
	var b strings.Builder
	b.WriteString(d.Outcome)
	for _, r := range d.Reads {
		b.WriteString(" " + r.Tool)
		if r.Tool == desk.LookUpPolicy || r.Tool == desk.AskCustomer {
			b.WriteString(":" + r.Key)
		}
	}
	for _, e := range d.Effects {
		b.WriteString(" " + e.Tool + ":" + e.Team)
	}
	return b.String() + " " + strings.Join(d.Rules, " ")
}

// order is a key by which neighbours have nothing in common.
func (o Options) order(c *Composition) string { return o.hash("order", c) }

// split holds out three tenths of the compositions, and some families as a whole.
func (o Options) split(c *Composition) string {
	if o.Private {
		return privateSplit
	}
	part := binary.BigEndian.Uint32([]byte(o.hash("split", c))) % 10
	switch {
	case c.family.HeldOut || part >= 8:
		return testSplit
	case part == 7:
		return devSplit
	}
	return trainSplit
}

func (o Options) hash(what string, c *Composition) string {
	sum := sha256.Sum256([]byte(o.Salt + "\x00" + what + "\x00" + c.Key()))
	return string(sum[:])
}

// WriteList writes a list of cases as a file of a pack.
func WriteList(w io.Writer, canary string, o Options, all []*Composition) error {
	options := ""
	if o.Tickets > 0 {
		options = "as: tickets\n"
	}
	if o.TrainVoices {
		options += "voices: train\n"
	}
	_, err := fmt.Fprintf(w, "apiVersion: csenv/v1\nkind: CaseList\nmetadata: {id: %s, version: 1, canary: %q}\n"+
		"language: %s\n%scases:\n", o.List, canary, o.Language, options)
	for _, c := range all {
		if err != nil {
			break
		}
		_, err = fmt.Fprintf(w, "  %s: %s\n", c.ID,
			strings.Join(append([]string{c.Difficulty, c.Split}, c.Modifiers...), " "))
	}
	return err
}
