package ticket

import (
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios"
)

// The values of action_type.
const (
	classify = "classify"
	respond  = "respond"
	resolve  = "resolve"
	escalate = "escalate"
	search   = "search_knowledge_base"
	submit   = "submit"

	selectTicket = "select_ticket"
)

// The maximum lengths of an action's texts, in characters.
const (
	maxMessage = 4000
	maxReason  = 2000
	maxQuery   = 400
	maxTeam    = 64
	maxID      = 32
)

// actionForm is the shape of the environment's actions.
var actionForm = episode.NewForm("TicketAction", []episode.Field{
	{Name: "category", Enum: scenarios.Categories,
		Description: "What the ticket is about."},
	{Name: "priority", Enum: scenarios.Priorities,
		Description: "How soon the ticket must be handled."},
	{Name: "message", MaxLength: maxMessage, Description: "What to write to the customer."},
	{Name: "team", MaxLength: maxTeam, Description: "The team that takes the ticket over."},
	{Name: "reason", MaxLength: maxReason, Description: "Why the ticket is escalated, for that team; the customer " +
		"doesn't see it."},
	{Name: "query", MaxLength: maxQuery, Description: "A few words to look for in the knowledge base."},
	{Name: "ticket_id", MaxLength: maxID, Description: "A ticket of the queue."},
	{Name: "decision", Enum: []string{resolve, escalate}, Description: "How the ticket ends."},
	episode.FactsField(),
}, []episode.Variant{
	{Type: classify, Description: "sets the category, the priority or both.",
		Optional: []string{"category", "priority"}, AnyOf: []string{"category", "priority"}},
	{Type: respond, Description: "sends a reply to the customer; the ticket stays open.",
		Required: []string{"message"}, Optional: []string{"facts"}},
	{Type: resolve, Description: "ends the ticket as resolved, with a last reply if a message is given.",
		Optional: []string{"message", "facts"}},
	{Type: escalate, Description: "ends the ticket by handing it to a team, with a last reply if a message is given.",
		Optional: []string{"team", "reason", "message", "facts"}},
	{Type: search, Description: "looks for articles of the knowledge base.", Required: []string{"query"}},
	{Type: selectTicket,
		Description: "turns to another ticket of a queue; the other actions are about the selected one.",
		Required:    []string{"ticket_id"}},
	{Type: submit, Description: "does everything at once and ends the ticket.",
		Optional: []string{"category", "priority", "message", "decision", "team", "reason", "facts"}},
})
