package ticket

import (
	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/scenarios"
)

// The values of status.
const (
	statusOpen       = "open"
	statusInProgress = "in_progress"
	statusPending    = "pending_customer"
	statusResolved   = "resolved"
	statusEscalated  = "escalated"
)

// ticketState is a ticket as it is being handled.
type ticketState struct {
	ticket *scenarios.Ticket
	// id is the ticket's on the wire.
	id           string
	status       string
	conversation []Message
	customer     customer

	category, priority string
	replies            []string
	team               string
	// answered is the simulated minute of the first reply, queue.Never before it.
	answered int
	// verdict is the judge's on the replies, nil until they are judged.
	verdict *grader.Verdict
}

func newTicketState(ticket *scenarios.Ticket, id string) ticketState {
	m := ticketState{
		ticket: ticket, id: id, status: statusOpen, conversation: make([]Message, len(ticket.History)),
		customer: newCustomer(ticket), answered: queue.Never,
	}
	for i, h := range ticket.History {
		m.conversation[i] = Message{Role: h.Role, Content: h.Text}
	}
	return m
}

// open reports whether the agent may still do something about the ticket.
func (t *ticketState) open() bool { return t.status != statusResolved && t.status != statusEscalated }

// begin says that work on the ticket has begun; a ticket that waits for the customer goes on
// waiting.
func (t *ticketState) begin() {
	if t.status == statusOpen {
		t.status = statusInProgress
	}
}

// labelled reports whether the action sets a label that stands. Dense rewards tell whether a label
// was right, so there it can't be revised.
func (t *ticketState) labelled(a episode.Action) bool {
	return a.Get("category") != "" && t.category != "" || a.Get("priority") != "" && t.priority != ""
}

func (t *ticketState) label(a episode.Action) {
	if category := a.Get("category"); category != "" {
		t.category = category
	}
	if priority := a.Get("priority"); priority != "" {
		t.priority = priority
	}
}

// reply keeps a message of the agent's.
func (t *ticketState) reply(message string, clock int) {
	t.replies = append(t.replies, message)
	t.conversation = append(t.conversation, Message{Role: "agent", Content: message})
	if t.answered == queue.Never {
		t.answered = clock
	}
}

// hear keeps a message of the customer's.
func (t *ticketState) hear(message string) {
	t.conversation = append(t.conversation, Message{Role: "customer", Content: message})
}

func (t *ticketState) decisions() grader.Decisions {
	return grader.Decisions{Category: t.category, Priority: t.priority, Ending: t.ending(), Team: t.team}
}

func (t *ticketState) ending() grader.Ending {
	switch t.status {
	case statusResolved:
		return grader.Resolved
	case statusEscalated:
		return grader.Escalated
	default:
		return grader.Open
	}
}
