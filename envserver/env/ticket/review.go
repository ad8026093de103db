package ticket

import (
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// Reviewed is a ticket with its gold and what the agent did with it. It is for tools of people who
// have the catalogue; no server sends it.
type Reviewed struct {
	// ID is the ticket's id in observations.
	ID        string
	Ticket    *scenarios.Ticket
	Decisions grader.Decisions
	// Rubric is the grader's name of the task.
	Rubric string
	// Replied reports whether the agent wrote to the customer.
	Replied bool
	// Stated are the facts beside the replies, and Told is what both tell the customer, nil without
	// a reply.
	Stated []facts.Fact
	Told   *grader.Told
	// Timed reports whether the time of the first reply counts. Answered is its simulated minute,
	// or queue.Never, and Factor is what the ticket's points are multiplied by, in thousandths.
	Timed    bool
	Answered int
	Factor   int64
	// Weight is the ticket's weight in a queue, otherwise 1. The sum over all tickets of weight,
	// factor and points, divided by Best, is the score.
	Weight, Best int64
}

// ReviewTickets returns the tickets of the current episode, or nil if the environment is another
// one.
func ReviewTickets(env episode.Environment) []Reviewed {
	e, ok := env.(*environment)
	if !ok || e.state == nil {
		return nil
	}
	s := e.state
	out := make([]Reviewed, len(s.tickets))
	for i := range s.tickets {
		t := &s.tickets[i]
		whole, err := t.ticket.Complete()
		if err != nil { // then the episode couldn't be judged either
			whole = &scenarios.Ticket{Served: t.ticket.Served}
		}
		out[i] = Reviewed{ID: t.id, Ticket: whole, Decisions: t.decisions(), Rubric: s.task.rubric,
			Replied: len(t.replies) > 0, Timed: s.isTimed(), Answered: t.answered, Factor: s.replyFactor(t),
			Weight: 1, Best: s.optimum.WeightedScore}
		if out[i].Stated = t.stated; out[i].Replied && err == nil {
			told := e.kind.reader.TellTicket(whole, t.joinReplies(), t.stated)
			out[i].Told = &told
		}
		if s.task.queue {
			out[i].Weight = queue.PriorityWeight(t.ticket.Gold.Priority)
		}
	}
	return out
}
