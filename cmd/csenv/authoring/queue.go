package authoring

import (
	"slices"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/scenarios"
)

// queued is a queue: the tickets of one shift.
type queued struct {
	queue.Queue
	tickets []ticket
	seed    int64
}

func queueOf(c *scenarios.Catalog, id string) (queue.Queue, bool) {
	queues := queue.ComposeQueues(c)
	at := slices.IndexFunc(queues, func(q queue.Queue) bool { return q.ID == id })
	if at < 0 {
		return queue.Queue{}, false
	}
	return queues[at], true
}

func newQueue(c *scenarios.Catalog, q queue.Queue, seed int64) (queued, error) {
	out := queued{Queue: q, seed: seed}
	drawn, err := q.Instantiate(c, seed)
	for _, t := range drawn {
		s, _ := c.Ticket(t.ScenarioID)
		out.tickets = append(out.tickets, ticket{scenario: s, Ticket: t})
	}
	return out, err
}

func (q queued) encode(gold bool) object {
	return object{"id", q.ID, "kind", kindQueue, "split", q.Split, "language", q.Language, "seed", q.seed,
		"tickets", view.MapItems(q.tickets, func(t ticket) object { return t.encode(gold) })}
}
