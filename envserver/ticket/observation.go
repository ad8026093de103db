package ticket

import (
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/scenarios"
)

// Observation is what the agent sees. It shares nothing with the episode's state that later steps
// change, and holds no gold label: not even the time to the first reply that the customer was
// promised, which follows from the priority.
type Observation struct {
	Task                string       `json:"task"`
	TicketID            string       `json:"ticket_id"`
	Now                 time.Time    `json:"now"`
	CustomerName        string       `json:"customer_name"`
	Company             string       `json:"company"`
	CustomerSince       string       `json:"customer_since"`
	AccountLevel        string       `json:"account_level"`
	Language            string       `json:"language"`
	Subject             string       `json:"subject"`
	Description         string       `json:"description"`
	Attachments         []Attachment `json:"attachments"`
	ConversationHistory []Message    `json:"conversation_history"`
	Status              string       `json:"status"`
	// Score is the part of the episode's score earned so far, null while rewards are held back and
	// where no score could be given.
	Score          *float64  `json:"score"`
	Step           int       `json:"step"`
	MaxSteps       int       `json:"max_steps"`
	AllowedActions []string  `json:"allowed_actions"`
	Feedback       string    `json:"feedback"`
	KnowledgeBase  []Article `json:"knowledge_base"`
	// CustomerMood is how a customer who answers feels: calm, uneasy, annoyed or angry.
	CustomerMood string `json:"customer_mood,omitempty"`
	// ClockMinutes are the simulated minutes that have passed, where time counts.
	ClockMinutes *int `json:"clock_minutes,omitempty"`
	*Shift
}

// Shift is what a queue's observation has beside the selected ticket.
type Shift struct {
	Queue           []QueuedTicket `json:"queue"`
	MinutesLeft     int            `json:"minutes_left"`
	EscalationsLeft int            `json:"escalations_left"`
}

// QueuedTicket is a ticket of a queue at a glance.
type QueuedTicket struct {
	TicketID     string `json:"ticket_id"`
	Subject      string `json:"subject"`
	AccountLevel string `json:"account_level"`
	Status       string `json:"status"`
	// WaitingMinutes are the minutes without a first reply.
	WaitingMinutes int `json:"waiting_minutes"`
	// MinutesToSLA are left for the first reply by the priority that the agent has set; null before
	// that and after the reply.
	MinutesToSLA *int `json:"minutes_to_sla"`
}

// Message is one entry of the conversation. Role is customer or agent.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Attachment is a text that came with the ticket.
type Attachment struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Article is an article that a search found.
type Article struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body"`
}

// State is what the state message reports.
type State struct {
	EpisodeID      *string            `json:"episode_id"`
	StepCount      int                `json:"step_count"`
	Seed           int64              `json:"seed"`
	Task           string             `json:"task"`
	TicketID       string             `json:"ticket_id"`
	Status         string             `json:"status"`
	Done           bool               `json:"done"`
	MaxSteps       int                `json:"max_steps"`
	RewardMode     episode.RewardMode `json:"reward_mode"`
	InvalidActions int                `json:"invalid_actions"`
	Pressure       bool               `json:"pressure"`
	ClockMinutes   int                `json:"clock_minutes"`
}

func (d *desk) observation() Observation {
	m := d.selected()
	t := m.ticket
	o := Observation{
		Task: d.task.name, TicketID: m.id, Now: t.Now, CustomerName: t.Customer.Name, Company: t.Customer.Company,
		CustomerSince: date(t.Customer.Since), AccountLevel: t.Customer.AccountLevel, Language: t.Language,
		Subject: t.Subject, Description: t.Description, Attachments: attachments(t.Attachments),
		ConversationHistory: slices.Clone(m.conversation),
		Status:              m.status, Score: d.score(), Step: d.step, MaxSteps: d.task.maxSteps, AllowedActions: d.allowed(),
		Feedback: d.feedback, KnowledgeBase: articles(d.found), CustomerMood: m.customer.feels(),
	}
	if d.timed() {
		clock := d.clock
		o.ClockMinutes = &clock
	}
	if d.task.queue {
		o.Shift = d.shift()
	}
	return o
}

func (d *desk) shift() *Shift {
	s := &Shift{Queue: make([]QueuedTicket, len(d.matters)), MinutesLeft: d.minutesLeft(), EscalationsLeft: d.slots}
	for i := range d.matters {
		s.Queue[i] = d.matters[i].glance(d.clock)
	}
	return s
}

func (m *matter) glance(clock int) QueuedTicket {
	q := QueuedTicket{TicketID: m.id, Subject: m.ticket.Subject, AccountLevel: m.ticket.Customer.AccountLevel,
		Status: m.status, WaitingMinutes: m.answered}
	if m.answered == queue.Never {
		q.WaitingMinutes = clock
		if m.priority != "" {
			left := queue.Limit(m.priority) - clock
			q.MinutesToSLA = &left
		}
	}
	return q
}

func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.DateOnly)
}

// score is null while rewards are held back.
func (d *desk) score() *float64 {
	if d.outcome == "" && d.mode == episode.Terminal || d.errored() {
		return nil
	}
	points := float64(d.paid) / 1000
	return &points
}

func attachments(from []scenarios.Attachment) []Attachment {
	to := make([]Attachment, len(from))
	for i, a := range from {
		to[i] = Attachment(a)
	}
	return to
}

// articles keeps "no search" (null) apart from "nothing found" (empty).
func articles(from []scenarios.Article) []Article {
	if from == nil {
		return nil
	}
	to := make([]Article, len(from))
	for i, a := range from {
		to[i] = Article(a)
	}
	return to
}
