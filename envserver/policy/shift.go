package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// shiftView is what a policy reads of a queue's observation, beside the selected ticket.
type shiftView struct {
	TicketID       string         `json:"ticket_id"`
	Queue          []queuedTicket `json:"queue"`
	AllowedActions []string       `json:"allowed_actions"`
}

type queuedTicket struct {
	TicketID string `json:"ticket_id"`
	Status   string `json:"status"`
}

func (q queuedTicket) closed() bool { return q.Status == "resolved" || q.Status == "escalated" }

func readShift(observation json.RawMessage) (shiftView, error) {
	var v shiftView
	if err := json.Unmarshal(observation, &v); err != nil {
		return v, fmt.Errorf("reading the queue: %w", err)
	}
	if len(v.Queue) != queue.Size {
		return v, fmt.Errorf("reading the queue: it has %d tickets, not %d", len(v.Queue), queue.Size)
	}
	return v, nil
}

func selectTicket(id string) (json.RawMessage, error) {
	return action("select_ticket", map[string]any{"ticket_id": id})
}

// shiftOracle plays the best schedule of a queue with gold answers.
type shiftOracle struct {
	tickets []*scenarios.Ticket
	acts    []queue.Act
}

func newShiftOracle(catalog *scenarios.Catalog, queues []queue.Queue,
	planned score.PlannedEpisode) (*shiftOracle, error) {
	at := slices.IndexFunc(queues, func(q queue.Queue) bool { return q.ID == planned.Scenario })
	if at < 0 {
		return nil, fmt.Errorf("the catalogue makes no queue %s", planned.Scenario)
	}
	o := &shiftOracle{}
	var cases [queue.Size]queue.Case
	for i, id := range queues[at].Tickets {
		ticket, err := goldTicket(catalog, id, planned.Seed)
		if err != nil {
			return nil, fmt.Errorf("writing the gold actions of %s: %w", planned.Scenario, err)
		}
		o.tickets = append(o.tickets, ticket)
		cases[i] = queue.CaseOf(ticket)
	}
	o.acts = queue.Best(cases).Acts
	return o, nil
}

// Act plays the schedule's next act. What is left over when it has been played is resolved, which
// earns nothing.
func (o *shiftOracle) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := readShift(turn.Observation)
	if err != nil {
		return nil, err
	}
	if len(o.acts) == 0 {
		return v.clear()
	}
	next := o.acts[0]
	if id := v.Queue[next.Ticket].TicketID; id != v.TicketID {
		return selectTicket(id)
	}
	o.acts = o.acts[1:]
	ticket := o.tickets[next.Ticket]
	switch next.Kind {
	case queue.Category:
		return action("classify", map[string]any{"category": ticket.Gold.Category})
	case queue.Priority:
		return action("classify", map[string]any{"priority": ticket.Gold.Priority})
	case queue.Reply:
		return action("respond", map[string]any{"message": ticket.References.Good[0]})
	default:
		return goldEnd(ticket)
	}
}

// clear resolves the selected ticket, or turns to an open one.
func (v *shiftView) clear() (json.RawMessage, error) {
	open := func(q queuedTicket) bool { return !q.closed() }
	if at := slices.IndexFunc(v.Queue, func(q queuedTicket) bool {
		return open(q) &&
			q.TicketID == v.TicketID
	}); at >= 0 {
		return action("resolve", nil)
	}
	at := slices.IndexFunc(v.Queue, open)
	if at < 0 {
		return nil, fmt.Errorf("every ticket of the queue is closed and the episode goes on")
	}
	return selectTicket(v.Queue[at].TicketID)
}

// shiftClerk is the heuristic for queues: it reads every ticket, takes them in the order of the
// priorities that it reads out of them, and handles each as the clerk of one ticket does, as far as
// the minutes and escalations go.
type shiftClerk struct {
	read  []readTicket
	clerk map[string]*ticketClerk
}

// readTicket is a ticket that the clerk has looked at, with the rank of its priority.
type readTicket struct {
	id   string
	rank int
}

// Act looks at the tickets that it hasn't seen; then it goes on with the most urgent open one.
func (s *shiftClerk) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := readShift(turn.Observation)
	if err != nil {
		return nil, err
	}
	var ticket ticketView
	if err := json.Unmarshal(turn.Observation, &ticket); err != nil {
		return nil, fmt.Errorf("reading the ticket: %w", err)
	}
	s.look(v.TicketID, &ticket)
	for _, q := range v.Queue {
		if s.clerk[q.TicketID] == nil {
			return selectTicket(q.TicketID)
		}
	}
	next := s.next(&v)
	if next != v.TicketID {
		return selectTicket(next)
	}
	return s.clerk[next].handle(&ticket)
}

func (s *shiftClerk) look(id string, ticket *ticketView) {
	if s.clerk == nil {
		s.clerk = map[string]*ticketClerk{}
	}
	if s.clerk[id] == nil {
		s.clerk[id] = &ticketClerk{}
		s.read = append(s.read, readTicket{id, slices.Index([]string{"urgent", "high", "medium", "low"},
			priority(ticket.text()))})
		slices.SortStableFunc(s.read, func(a, b readTicket) int { return cmp.Compare(a.rank, b.rank) })
	}
}

// next is the most urgent ticket that is open.
func (s *shiftClerk) next(v *shiftView) string {
	for _, r := range s.read {
		if slices.ContainsFunc(v.Queue, func(q queuedTicket) bool { return q.TicketID == r.id && !q.closed() }) {
			return r.id
		}
	}
	return v.TicketID
}
