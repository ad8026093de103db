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

// matter is a ticket as it is being handled.
type matter struct {
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

func newMatter(ticket *scenarios.Ticket, id string) matter {
	m := matter{
		ticket: ticket, id: id, status: statusOpen, conversation: make([]Message, len(ticket.History)),
		customer: newCustomer(ticket), answered: queue.Never,
	}
	for i, h := range ticket.History {
		m.conversation[i] = Message{Role: h.Role, Content: h.Text}
	}
	return m
}

// open reports whether the agent may still do something about the ticket.
func (m *matter) open() bool { return m.status != statusResolved && m.status != statusEscalated }

// begin says that work on the ticket has begun; a ticket that waits for the customer goes on
// waiting.
func (m *matter) begin() {
	if m.status == statusOpen {
		m.status = statusInProgress
	}
}

// labelled reports whether the action sets a label that stands. Dense rewards tell whether a label
// was right, so there it can't be revised.
func (m *matter) labelled(a episode.Action) bool {
	return a.Get("category") != "" && m.category != "" || a.Get("priority") != "" && m.priority != ""
}

func (m *matter) label(a episode.Action) {
	if category := a.Get("category"); category != "" {
		m.category = category
	}
	if priority := a.Get("priority"); priority != "" {
		m.priority = priority
	}
}

// reply keeps a message of the agent's.
func (m *matter) reply(message string, clock int) {
	m.replies = append(m.replies, message)
	m.conversation = append(m.conversation, Message{Role: "agent", Content: message})
	if m.answered == queue.Never {
		m.answered = clock
	}
}

// hear keeps a message of the customer's.
func (m *matter) hear(message string) {
	m.conversation = append(m.conversation, Message{Role: "customer", Content: message})
}

func (m *matter) decisions() grader.Decisions {
	return grader.Decisions{Category: m.category, Priority: m.priority, Ending: m.ending(), Team: m.team}
}

func (m *matter) ending() grader.Ending {
	switch m.status {
	case statusResolved:
		return grader.Resolved
	case statusEscalated:
		return grader.Escalated
	default:
		return grader.Open
	}
}
