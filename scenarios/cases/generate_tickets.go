package cases

import "slices"

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
			t := s.composition(f, with, o.Language)
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
		if c.Split = o.split(c); len(c.voices()) == 0 || slices.ContainsFunc(c.modifiers, (*modifier).ofTools) {
			continue
		}
		steps, matters, err := c.measure()
		if err != nil {
			return nil, err
		}
		if c.Difficulty = difficulty(steps); matters {
			out = append(out, c)
		}
	}
	return out, nil
}

// ofTools reports whether the modifier changes only what an agent with tools has to do.
func (m *modifier) ofTools() bool { return m.Hides || len(m.Faults) > 0 }
