package episodes

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
)

// observer prints observations: all of the first one, then only new content.
type observer struct {
	out io.Writer
	// ticketID is the ticket printed last, said the number of its printed messages.
	ticketID string
	said     int
	entries  int
	begun    bool
}

// show prints an observation of either environment.
func (o *observer) show(observation any) {
	switch seen := observation.(type) {
	case ticket.Observation:
		o.ticket(seen)
	case workflow.Observation:
		o.workflow(seen)
	}
	o.begun = true
}

func (o *observer) ticket(seen ticket.Observation) {
	if seen.QueueStatus != nil {
		o.queue(seen)
	}
	if seen.TicketID != o.ticketID {
		o.ticketID, o.said = seen.TicketID, 0
		o.openTicket(seen)
	}
	for _, m := range seen.ConversationHistory[min(o.said, len(seen.ConversationHistory)):] {
		view.Titled(o.out, m.Role, m.Content)
	}
	o.said = len(seen.ConversationHistory)
	for _, a := range seen.KnowledgeBase {
		view.Titled(o.out, "article "+a.ID+", "+a.Title, a.Body)
	}
	if seen.KnowledgeBase != nil && len(seen.KnowledgeBase) == 0 {
		fmt.Fprintln(o.out, "\n  no article found")
	}
	o.standing(seen)
}

func (o *observer) openTicket(seen ticket.Observation) {
	fmt.Fprintln(o.out)
	view.Field(o.out, "ticket", seen.TicketID)
	view.Field(o.out, "task", seen.Task)
	view.Field(o.out, "customer", view.Customer(seen.CustomerName, seen.Company, seen.CustomerSince))
	view.Field(o.out, "account level", seen.AccountLevel)
	view.Field(o.out, "now", seen.Now.Format(view.ClockTime))
	view.Field(o.out, "language", seen.Language)
	view.Field(o.out, "subject", seen.Subject)
	fmt.Fprintln(o.out)
	view.Paragraph(o.out, "  ", seen.Description)
	for _, a := range seen.Attachments {
		view.Titled(o.out, "attachment "+a.Name, a.Content)
	}
}

func (o *observer) standing(seen ticket.Observation) {
	fmt.Fprintln(o.out)
	view.Paragraph(o.out, "  > ", seen.Feedback)
	line := fmt.Sprintf("step %d of %d, %s", seen.Step, seen.MaxSteps, seen.Status)
	if seen.CustomerMood != "" {
		line += ", the customer is " + seen.CustomerMood
	}
	if seen.ClockMinutes != nil {
		line += fmt.Sprintf(", minute %d", *seen.ClockMinutes)
	}
	if seen.Score != nil {
		line += ", score so far " + strconv.FormatFloat(*seen.Score, 'f', 3, 64)
	}
	view.Paragraph(o.out, "  > ", line)
}

func (o *observer) queue(seen ticket.Observation) {
	s := view.Section{
		Heading: fmt.Sprintf("  %d minutes and %d escalations left", seen.MinutesLeft, seen.EscalationsLeft),
		Header:  []string{" ", "#", "ticket", "subject", "level", "status", "waiting", "to SLA"},
	}
	for i, q := range seen.Queue {
		mark, left := " ", "?"
		if q.TicketID == seen.TicketID {
			mark = ">"
		}
		if q.MinutesToSLA != nil {
			left = strconv.Itoa(*q.MinutesToSLA)
		}
		s.Rows = append(s.Rows, []string{mark, strconv.Itoa(i + 1), q.TicketID, q.Subject, q.AccountLevel, q.Status,
			strconv.Itoa(q.WaitingMinutes), left})
	}
	fmt.Fprintln(o.out)
	view.Document{Sections: []view.Section{s}}.Print(o.out, "table")
}

func (o *observer) workflow(seen workflow.Observation) {
	if !o.begun {
		fmt.Fprintln(o.out)
		view.Field(o.out, "task", seen.Task)
		view.Field(o.out, "customer", seen.CustomerName)
		view.Field(o.out, "account level", seen.AccountLevel)
		view.Field(o.out, "now", seen.Now.Format(view.ClockTime))
		view.Field(o.out, "language", seen.Language)
		fmt.Fprintln(o.out)
		view.Paragraph(o.out, "  ", seen.UserQuery)
	}
	for _, e := range seen.History[min(o.entries, len(seen.History)):] {
		view.Titled(o.out, e.ActionType+" "+view.JSON(e.Payload)+" answers", view.YAML(e.Result))
	}
	o.entries = len(seen.History)
	status := []string{fmt.Sprintf("step %d of %d", seen.Step, seen.MaxSteps)}
	if seen.OrderStatus != nil {
		status = append(status, "order "+*seen.OrderStatus)
	}
	if seen.PaymentStatus != nil {
		status = append(status, "payment "+*seen.PaymentStatus)
	}
	fmt.Fprintln(o.out)
	view.Paragraph(o.out, "  > ", strings.Join(status, ", "))
}
