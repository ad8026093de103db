package scenarios

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/expr"
)

// DrawTickets draws tickets that one agent has before it at the same time: at one now, and with one
// text of each article. The first ticket draws now as it does alone, and each param of an article
// is drawn by the first ticket that has it; the others take these values. If the constraints of one
// ticket forbid that, the next ticket draws first. If no order succeeds within the bound of tries,
// the tickets are what Draw returns.
func DrawTickets(tickets []*TicketScenario, seed int64) ([]*DrawnTicket, error) {
	written, err := openWritten(tickets)
	if err != nil {
		return nil, err
	}
	if vals := drawTogether(written, seed); vals != nil {
		if drawn, err := buildTickets(tickets, func(i int) (*DrawnTicket, error) {
			b, err := written[i].renderTicket(seed, drawnVariant, vals[i])
			if err != nil {
				return nil, err
			}
			return b.completeLater(), nil
		}); err == nil {
			return drawn, nil
		}
	}
	return buildTickets(tickets, func(i int) (*DrawnTicket, error) { return tickets[i].Draw(seed) })
}

// openWritten returns the compiled tickets, nil if one is generated.
func openWritten(tickets []*TicketScenario) ([]*writtenTicket, error) {
	if slices.ContainsFunc(tickets, (*TicketScenario).Generated) {
		return nil, nil
	}
	return buildTickets(tickets, func(i int) (*writtenTicket, error) {
		t, err := tickets[i].template()
		written, _ := t.(*writtenTicket)
		return written, err
	})
}

func buildTickets[T any](tickets []*TicketScenario, build func(i int) (*T, error)) ([]*T, error) {
	out := make([]*T, len(tickets))
	for i, s := range tickets {
		t, err := build(i)
		if err != nil {
			return nil, fmt.Errorf("instantiating ticket %s: %w", s.ID, err)
		}
		out[i] = t
	}
	return out, nil
}

// joinTries bounds the draws of a ticket that takes the values of another: after that it is cheaper
// to let another ticket draw first.
const joinTries = 20

// drawTogether draws the variables of the tickets, or returns nil if their constraints forbid it.
// All draws together have the bound of as many single tickets.
func drawTogether(tickets []*writtenTicket, seed int64) []expr.Values {
	if len(tickets) < 2 {
		return nil
	}
	tries := len(tickets) * expr.MaxTries
	for round := 0; tries > 0; round++ {
		if vals := drawRound(tickets, seed, round, &tries); vals != nil {
			return vals
		}
	}
	return nil
}

// drawRound lets one ticket draw first. It returns nil if another one can't take its values.
func drawRound(tickets []*writtenTicket, seed int64, round int, tries *int) []expr.Values {
	n := len(tickets)
	shared, vals := expr.Values{}, make([]expr.Values, n)
	// The second turn draws those tickets again that have a param that a later one drew.
	for turn := range 2 * n {
		i := (round + turn) % n
		s := tickets[i]
		r := s.drawRequest(seed)
		if r.Fixed = s.shelf.pickShared(shared); turn >= n && hasSameValues(r.Fixed, vals[i]) {
			continue
		}
		if r.Tries = min(joinTries, *tries); turn == 0 {
			r.Tries, r.Round = min(expr.MaxTries, *tries), round/n
		}
		drawn, used, err := s.file.Draw(r)
		if *tries -= used; err != nil || *tries <= 0 {
			return nil
		}
		vals[i] = drawn
		shared["now"] = drawn["now"]
		for name := range s.shelf.own {
			shared[name] = drawn[name]
		}
	}
	return vals
}

// hasSameValues reports whether a ticket has been drawn with the values.
func hasSameValues(fixed, drawn expr.Values) bool {
	for name, v := range fixed {
		if drawn[name].Equal(v) != types.True {
			return false
		}
	}
	return true
}
