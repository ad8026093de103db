package episodes

import (
	"fmt"
	"io"
	"strconv"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// printItems writes what an agent sees after an action.
func printItems(w io.Writer, items []transcript.Item) {
	for _, item := range items {
		switch {
		case item.Queue != nil:
			printQueue(w, item.Queue)
		case item.Opened != nil:
			printOpened(w, item.Opened)
		case item.Message != nil:
			view.Titled(w, item.Message.Role, item.Message.Content)
		case item.Call != nil:
			view.Titled(w, item.Call.Action+" "+view.JSON(item.Call.Payload)+" answers", view.YAML(item.Call.Result))
		case item.Article != nil:
			view.Titled(w, "article "+item.Article.ID+", "+item.Article.Title, item.Article.Body)
		case item.Nothing:
			fmt.Fprintln(w, "\n  no article found")
		case item.Standing != nil:
			fmt.Fprintln(w)
			if item.Standing.Feedback != "" {
				view.Paragraph(w, "  > ", item.Standing.Feedback)
			}
			view.Paragraph(w, "  > ", item.Standing.String())
		}
	}
}

func printOpened(w io.Writer, o *transcript.Opened) {
	fmt.Fprintln(w)
	view.Field(w, "ticket", o.TicketID)
	view.Field(w, "task", o.Task)
	view.Field(w, "customer", view.Customer(o.Name, o.Company, o.Since))
	view.Field(w, "account level", o.Level)
	view.Field(w, "now", o.Now.Format(view.ClockTime))
	view.Field(w, "language", o.Language)
	view.Field(w, "subject", o.Subject)
	fmt.Fprintln(w)
	view.Paragraph(w, "  ", o.Text)
	for _, a := range o.Attachments {
		view.Titled(w, "attachment "+a.Name, a.Content)
	}
}

func printQueue(w io.Writer, q *transcript.Queue) {
	s := view.Section{
		Heading: fmt.Sprintf("  %d minutes and %d escalations left", q.MinutesLeft, q.EscalationsLeft),
		Header:  []string{" ", "#", "ticket", "subject", "level", "status", "waiting", "to SLA"},
	}
	for i, t := range q.Queue {
		mark, left := " ", "?"
		if t.TicketID == q.TicketID {
			mark = ">"
		}
		if t.MinutesToSLA != nil {
			left = strconv.Itoa(*t.MinutesToSLA)
		}
		s.Rows = append(s.Rows, []string{mark, strconv.Itoa(i + 1), t.TicketID, t.Subject, t.AccountLevel, t.Status,
			strconv.Itoa(t.WaitingMinutes), left})
	}
	fmt.Fprintln(w)
	view.Document{Sections: []view.Section{s}}.Print(w, "table")
}

// printAction writes the members of an action, one per line.
func printAction(w io.Writer, a transcript.Action) {
	if a.Raw != "" {
		view.Paragraph(w, "  ", a.Raw)
		return
	}
	view.Field(w, "action", a.Type)
	for _, f := range a.Fields {
		view.Field(w, f.Name, f.Value)
	}
}
