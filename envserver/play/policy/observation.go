package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	// It decodes as encoding/json does, in a third of the time.
	json "github.com/go-json-experiment/json/v1"

	"github.com/csenv/csenv/envserver/env/queue"
)

// decodeObservation decodes the fields of an observation that a policy reads.
func decodeObservation[T any](turn Turn) (T, error) {
	var v T
	if err := json.Unmarshal(turn.Observation, &v); err != nil {
		return v, fmt.Errorf("reading the observation %.200s: %w", turn.Observation, err)
	}
	return v, nil
}

// ticketView contains the fields of the ticket environment's observation that built-in policies
// read.
type ticketView struct {
	TicketID       string    `json:"ticket_id"`
	CustomerName   string    `json:"customer_name"`
	Subject        string    `json:"subject"`
	Description    string    `json:"description"`
	KnowledgeBase  []article `json:"knowledge_base"`
	AllowedActions []string  `json:"allowed_actions"`
	Attachments    []struct {
		Content string `json:"content"`
	} `json:"attachments"`
	History []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"conversation_history"`
	// Queue are the tickets of a queue, empty for a single ticket.
	Queue []queuedTicket `json:"queue"`
}

type article struct {
	Body string `json:"body"`
}

type queuedTicket struct {
	TicketID string `json:"ticket_id"`
	Subject  string `json:"subject"`
	Status   string `json:"status"`
}

func (q queuedTicket) isClosed() bool { return q.Status == "resolved" || q.Status == "escalated" }

// observedQueue decodes the observation of a queue.
func observedQueue(turn Turn) (ticketView, error) {
	v, err := decodeObservation[ticketView](turn)
	if err == nil && len(v.Queue) != queue.Size {
		err = fmt.Errorf("reading the queue: it has %d tickets, not %d", len(v.Queue), queue.Size)
	}
	return v, err
}

func (v *ticketView) allows(action string) bool { return slices.Contains(v.AllowedActions, action) }

// joinTexts returns all texts of the customer, as splitWords does.
func (v *ticketView) joinTexts() string {
	texts := make([]string, 0, 2+len(v.Attachments)+len(v.History))
	texts = append(texts, v.Subject, v.Description)
	for _, a := range v.Attachments {
		texts = append(texts, a.Content)
	}
	for _, m := range v.History {
		if m.Role == "customer" {
			texts = append(texts, m.Content)
		}
	}
	return splitWords(strings.Join(texts, "\n"))
}

// workflowView contains the fields of the workflow environment's observation that built-in policies
// read.
type workflowView struct {
	CustomerName string      `json:"customer_name"`
	UserQuery    string      `json:"user_query"`
	LastResult   *toolResult `json:"last_result"`
}

// toolResult is a tool's answer. Amounts are in dollars, unchanged.
type toolResult struct {
	OK     bool   `json:"ok"`
	Answer string `json:"answer"`
	Order  *struct {
		Delivered *time.Time `json:"delivered"`
		Carrier   string     `json:"carrier"`
		Tracking  string     `json:"tracking"`
	} `json:"order"`
	Payments []struct {
		Status string      `json:"status"`
		Amount json.Number `json:"amount"`
	} `json:"payments"`
	Refunds []struct {
		Amount json.Number `json:"amount"`
	} `json:"refunds"`
}
