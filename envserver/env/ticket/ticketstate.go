package ticket

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// The values of status.
const (
	statusOpen       = "open"
	statusInProgress = "in_progress"
	statusPending    = "pending_customer"
	statusResolved   = "resolved"
	statusEscalated  = "escalated"
)

// ticketState is a ticket and the actions on it so far.
type ticketState struct {
	ticket *scenarios.DrawnTicket
	// id is the ticket's id on the wire.
	id           string
	status       string
	conversation []Message
	customer     customer
	// pages are the ticket's articles, nil before the first search.
	pages []*page

	category, priority string
	replies            []string
	// stated are the facts beside the replies and the closing action.
	stated []facts.Fact
	team   string
	// answered is the simulated minute of the first reply, or queue.Never.
	answered int
	// verdict is the judge's verdict on the replies, nil until they are judged.
	verdict *grader.Verdict
}

func newTicketState(ticket *scenarios.DrawnTicket, id string) ticketState {
	t := ticketState{
		ticket: ticket, id: id, status: statusOpen, conversation: make([]Message, len(ticket.History)),
		customer: newCustomer(ticket), answered: queue.Never,
	}
	for i, h := range ticket.History {
		t.conversation[i] = Message{Role: h.Role, Content: h.Text}
	}
	return t
}

// isOpen reports whether the agent may still act on the ticket.
func (t *ticketState) isOpen() bool { return t.status != statusResolved && t.status != statusEscalated }

// markInProgress marks an open ticket as in progress; a ticket that waits for the customer stays
// pending.
func (t *ticketState) markInProgress() {
	if t.status == statusOpen {
		t.status = statusInProgress
	}
}

func (t *ticketState) isLabelled() bool { return t.category != "" && t.priority != "" }

func (t *ticketState) setLabels(a episode.Action) {
	t.category = cmp.Or(a.Get("category"), t.category)
	t.priority = cmp.Or(a.Get("priority"), t.priority)
}

// addMessage adds a message to the conversation. It copies the conversation, which forks of the
// episode share.
func (t *ticketState) addMessage(m Message) { t.conversation = append(slices.Clip(t.conversation), m) }

// addReply sends the action's message to the customer, if there is one, and keeps the facts stated.
func (t *ticketState) addReply(a episode.Action, clock int) {
	t.stated = facts.Join(t.stated, a.Facts())
	message := a.Get("message")
	if message == "" {
		return
	}
	t.replies = append(slices.Clip(t.replies), message)
	t.addMessage(Message{Role: "agent", Content: message, Facts: a.Facts()})
	if t.answered == queue.Never {
		t.answered = clock
	}
}

func (t *ticketState) joinReplies() string { return strings.Join(t.replies, "\n\n") }

// makeCase returns the case for the judge. It contains every reply, because a promise in an earlier
// reply remains valid.
func (t *ticketState) makeCase() (grader.Case, error) {
	whole, err := t.ticket.Complete()
	return grader.Case{Ticket: whole, Reply: t.joinReplies(), Stated: t.stated,
		Actions: grader.Actions{Ending: t.ending(), Team: t.team}}, err
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
