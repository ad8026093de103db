package audit

import (
	"fmt"
	"strings"

	"github.com/csenv/csenv/scenarios"
)

// dumpRecord answers a generated ticket with every line of the record that has a number. The
// decisions are the right ones.
func dumpRecord(to *target) []attempt {
	if to.ticket.Decision == nil {
		return nil
	}
	var reply strings.Builder
	reply.WriteString(greetingOf(to.ticket))
	for _, a := range to.ticket.Attachments {
		for line := range strings.Lines(a.Content) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if ok && strings.ContainsAny(value, "0123456789") {
				fmt.Fprintf(&reply, " The %s is %s.", name, value)
			}
		}
	}
	return []attempt{{goldDecisions(to.ticket), reply.String()}}
}

// echoRules answers a generated ticket with the rules that decide it, as far as they fit in a
// reply. The decisions are the right ones.
func echoRules(to *target) []attempt {
	if to.ticket.Decision == nil {
		return nil
	}
	words := wordsOf(greetingOf(to.ticket))
	var reply strings.Builder
	reply.WriteString(greetingOf(to.ticket))
	for _, rule := range to.ticket.Decision.Rules {
		for _, a := range to.ticket.Articles {
			_, rest, ok := strings.Cut(a.Body, "- **"+rule+"** ")
			if !ok || len(words) > echoWords {
				continue
			}
			line, _, _ := strings.Cut(rest, "\n")
			words = append(words, wordsOf(line)...)
			reply.WriteString(" " + line)
		}
	}
	return []attempt{{goldDecisions(to.ticket), reply.String()}}
}

func greetingOf(t *scenarios.Ticket) string {
	given, _, _ := strings.Cut(t.Customer.Name, " ")
	return "Hello " + given + ", thank you for your message."
}
