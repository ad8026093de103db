package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/queue"
)

// queueView is what a policy reads of a queue's observation, beside the selected ticket.
type queueView struct {
	TicketID       string         `json:"ticket_id"`
	Queue          []queuedTicket `json:"queue"`
	AllowedActions []string       `json:"allowed_actions"`
}

type queuedTicket struct {
	TicketID string `json:"ticket_id"`
	Status   string `json:"status"`
}

func (q queuedTicket) closed() bool { return q.Status == "resolved" || q.Status == "escalated" }

func readQueue(observation json.RawMessage) (queueView, error) {
	var v queueView
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

// clear resolves the selected ticket, or turns to an open one.
func (v *queueView) clear() (json.RawMessage, error) {
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

// heuristicQueue is the heuristic for queues: it reads every ticket, takes them in the order of the
// priorities that it reads out of them, and handles each as the heuristic of one ticket does, as far as
// the minutes and escalations go.
type heuristicQueue struct {
	read     []readTicket
	handlers map[string]*heuristicTicket
}

// readTicket is a ticket that the heuristic has looked at, with the rank of its priority.
type readTicket struct {
	id   string
	rank int
}

// Act looks at the tickets that it hasn't seen; then it goes on with the most urgent open one.
func (s *heuristicQueue) Act(_ context.Context, turn Turn) (json.RawMessage, error) {
	v, err := readQueue(turn.Observation)
	if err != nil {
		return nil, err
	}
	var ticket ticketView
	if err := json.Unmarshal(turn.Observation, &ticket); err != nil {
		return nil, fmt.Errorf("reading the ticket: %w", err)
	}
	s.look(v.TicketID, &ticket)
	for _, q := range v.Queue {
		if s.handlers[q.TicketID] == nil {
			return selectTicket(q.TicketID)
		}
	}
	next := s.next(&v)
	if next != v.TicketID {
		return selectTicket(next)
	}
	return s.handlers[next].handle(&ticket)
}

func (s *heuristicQueue) look(id string, ticket *ticketView) {
	if s.handlers == nil {
		s.handlers = map[string]*heuristicTicket{}
	}
	if s.handlers[id] == nil {
		s.handlers[id] = &heuristicTicket{}
		s.read = append(s.read, readTicket{id, slices.Index([]string{"urgent", "high", "medium", "low"},
			priority(ticket.text()))})
		slices.SortStableFunc(s.read, func(a, b readTicket) int { return cmp.Compare(a.rank, b.rank) })
	}
}

// next is the most urgent ticket that is open.
func (s *heuristicQueue) next(v *queueView) string {
	for _, r := range s.read {
		if slices.ContainsFunc(v.Queue, func(q queuedTicket) bool { return q.TicketID == r.id && !q.closed() }) {
			return r.id
		}
	}
	return v.TicketID
}
