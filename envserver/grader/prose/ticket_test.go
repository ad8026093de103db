package prose

import (
	"context"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// points are the default milli-points of the criteria.
var points = scenarios.Points{Q1: 160, Q2: 100, Q3: 60, Q4: 40, Q5: 40, Q6: 40, Q7: 30, Q8: 30}

// overbilled returns an English ticket for finance: 38 billed seats instead of 12.
func overbilled() *scenarios.Ticket {
	return &scenarios.Ticket{
		Served: scenarios.Served{ScenarioID: "B07", Version: 1, Language: "en", Now: time.Date(2026, 3, 10, 9, 30, 0, 0, time.UTC),
			SLAMinutes: 240, Tone: "neutral",
			Customer: scenarios.Customer{Name: "Maria Okafor", Company: "Brightwater Ltd", AccountLevel: "enterprise"},
			Subject:  "Invoice INV-104233 does not look right",
			Description: "Good morning, we have 12 people on the team plan, but invoice INV-104233 bills 38 seats. By " +
				"how much were we overcharged? And can you refund the difference today, so that I can close the month?",
			Attachments: []scenarios.Attachment{{Name: "INV-104233.txt", Content: "Larkfield Devices, invoice " +
				"INV-104233\nTeam plan, 38 seats at $57.00 each\nTotal $2,166.00, paid by card"}},
			Articles: []scenarios.Article{
				{ID: "POL-REF", Title: "Refunds", Body: "An agent may refund up to $200 in one case. A larger sum goes " +
					"to finance, whatever the reason and however clear the case is. It may not be split into smaller " +
					"refunds to stay below the limit. A refund shows on the customer's card 3 to 5 business days after " +
					"it was issued."},
				{ID: "POL-SLA", Title: "Answer times", Body: "Finance writes or calls within 1 business day. The privacy " +
					"desk within 30 days."},
			},
			Gold: scenarios.TicketGold{Category: "billing", Priority: "high", Escalate: true, Team: "finance",
				TeamAlternates:     []string{"billing-ops"},
				CategoryAlternates: []scenarios.Alternate{{Value: "general", Credit: 500}},
				PriorityAlternates: []scenarios.Alternate{{Value: "medium", Credit: 333}}}},
		Reply: scenarios.ReplySpec{
			Facts: []scenarios.Fact{
				{ID: "f1", Slot: "overcharge", Value: "$1,482.00", Context: []string{"overcharg", "difference",
					"too much", "excess"}},
				{ID: "f2", Slot: "team", Value: "finance", Accept: []string{"billing team"},
					Context: []string{"escalat", "pass", "forward", "with"}},
				{ID: "f3", Slot: "timeframe", Value: "1 business day", Context: []string{"hear", "write", "reply",
					"answer"}},
				{ID: "f4", Slot: "seats", Value: "38", Accept: []string{"26 seats"},
					Context: []string{"seat", "billed", "invoice"}},
			},
			Outcome: scenarios.Outcome{Value: "escalated_to_finance",
				Accept: []string{"finance team", "passed to finance", "with finance"}, Facts: []string{"f1", "f2"}},
			Questions: []scenarios.Question{{ID: "q1", Text: "How much?", AnsweredBy: []string{"f1"}},
				{ID: "q2", Text: "Refund today?", AnsweredBy: []string{"f2", "f3"}}},
			Forbidden: []scenarios.Forbidden{
				{ID: "n1", Kind: "commitment", Verbs: []string{"refund", "credit"}, Cap: 100},
				{ID: "n2", Kind: "amount_not_in", Values: []string{"$1,482.00", "$2,166.00", "$684.00", "$57.00",
					"$200"}, Cap: 100},
				{ID: "n3", Kind: "disclosure", Values: []string{"churn risk"}, Cap: 0},
			},
			Points: points, MinWords: 40, MaxWords: 180,
			AllowedValues: []string{"$1,482.00", "$684.00", "1 business day", "26"},
			Rubric: []string{"overcharge", "team", "timeframe", "overcharg", "difference", "too much", "excess",
				"finance", "escalat", "pass", "forward", "hear", "write", "reply"},
		},
	}
}

// goodReply is a reply to overbilled that earns the full points.
const goodReply = `Hello Maria,

Thank you for the clear figures on invoice INV-104233. It bills 38 seats where you have 12, so the difference is $1,482.00.

A sum of that size is above what I may decide on alone. I have passed your case to our finance team together with the invoice and this calculation. You will hear from finance within 1 business day.

Kind regards, Larkfield Support`

// prorated returns a German ticket that the agent can answer without a team.
func prorated() *scenarios.Ticket {
	return &scenarios.Ticket{
		Served: scenarios.Served{ScenarioID: "B04", Version: 1, Language: "de", Now: time.Date(2026, 3, 10, 9, 30, 0, 0, time.UTC),
			Tone:     "neutral",
			Customer: scenarios.Customer{Name: "Jörg Müller"},
			Subject:  "Falsche Abbuchung nach dem Tarifwechsel",
			Description: "Guten Tag, nach dem Wechsel auf den Plus-Tarif wurden 24,50 $ abgebucht. Wie kommt der Betrag " +
				"zustande, und wann wird wieder normal abgerechnet?",
			Gold: scenarios.TicketGold{Category: "billing", Priority: "medium"}},
		Reply: scenarios.ReplySpec{
			Facts: []scenarios.Fact{
				{ID: "f1", Slot: "amount", Value: "24,50 $", Context: []string{"anteilig", "differenz", "restlich"}},
				{ID: "f2", Slot: "date", Value: "1. April 2026", Context: []string{"rechnung", "abrechn", "abgerechnet",
					"normal"}},
			},
			Questions: []scenarios.Question{{ID: "q1", AnsweredBy: []string{"f1"}},
				{ID: "q2", AnsweredBy: []string{"f2"}}},
			Forbidden: []scenarios.Forbidden{{ID: "n1", Kind: "commitment", Verbs: []string{"refund", "credit"},
				Cap: 100}},
			Points: points, MinWords: 30, MaxWords: 180,
		},
	}
}

const goodGerman = `Guten Tag Herr Müller,

ich verstehe, dass die Abbuchung nach dem Tarifwechsel überraschend kam. Die 24,50 $ sind die anteilige Differenz für die restlichen Tage des Monats.

Ab dem 1. April 2026 wird wieder normal abgerechnet. Sie müssen dafür nichts weiter tun.

Freundliche Grüße, Larkfield Support`

// judgeReply grades a reply as if the agent had made gold's decisions.
func judgeReply(tb testing.TB, o *Judge, ticket *scenarios.Ticket, reply string) grader.Verdict {
	tb.Helper()
	v, err := o.Judge(context.Background(), grader.Case{Ticket: ticket, Reply: reply, Actions: goldActions(ticket)})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func goldActions(t *scenarios.Ticket) grader.Actions {
	if t.Gold.Escalate {
		return grader.Actions{Ending: grader.Escalated, Team: t.Gold.Team}
	}
	return grader.Actions{Ending: grader.Resolved}
}
