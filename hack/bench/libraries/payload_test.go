package bench

import "strings"

type observation struct {
	Task           string    `json:"task"`
	TicketID       string    `json:"ticket_id"`
	CustomerName   string    `json:"customer_name"`
	AccountLevel   string    `json:"account_level"`
	Subject        string    `json:"subject"`
	Description    string    `json:"description"`
	History        []message `json:"conversation_history"`
	Status         string    `json:"status"`
	Score          float64   `json:"score"`
	Step           int       `json:"step"`
	MaxSteps       int       `json:"max_steps"`
	AllowedActions []string  `json:"allowed_actions"`
	Feedback       *string   `json:"feedback"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type action struct {
	ActionType string  `json:"action_type"`
	Category   *string `json:"category"`
	Priority   *string `json:"priority"`
	Message    *string `json:"message"`
	Team       *string `json:"team"`
	Reason     *string `json:"reason"`
	Query      *string `json:"query"`
	TicketID   *string `json:"ticket_id"`
}

func sampleObservation() observation {
	return observation{
		Task: "ticket-resolve", TicketID: "T-48210", CustomerName: "Zoë Brandt", AccountLevel: "premium",
		Subject:     "Charged twice for invoice #48210 & no answer",
		Description: strings.Repeat("I was charged twice for the same order and need one payment back. ", 6),
		History: []message{
			{Role: "customer", Content: strings.Repeat("Please check the invoice of last week. ", 4)},
			{Role: "agent", Content: strings.Repeat("Thank you, we are looking at the payments. ", 4)},
		},
		Status: "open", Score: 0.2, Step: 2, MaxSteps: 8,
		AllowedActions: []string{"classify", "respond", "resolve", "escalate", "search_knowledge_base", "submit"},
	}
}

const stepFrame = `{"type":"step","data":{"action_type":"respond","category":null,"priority":null,"message":"Dear Zoë, I am sorry about the double charge on invoice 48210. ` +
	`The second payment of $148.20 goes back to your card within five business days. Nothing else is needed from you.","team":null,"reason":null}}`
