package ticket

import (
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// Observation is the observation that the agent receives. Later steps don't change it. It contains
// no gold label, and no time limit of the first reply, because that follows from the priority.
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
	// Score is the part of the episode's score earned so far. It is null while rewards are held
	// back and in an errored episode.
	Score          *float64  `json:"score"`
	Step           int       `json:"step"`
	MaxSteps       int       `json:"max_steps"`
	AllowedActions []string  `json:"allowed_actions"`
	Feedback       string    `json:"feedback"`
	KnowledgeBase  []Article `json:"knowledge_base"`
	// CustomerMood is the mood of a customer who answers: calm, uneasy, annoyed or angry.
	CustomerMood string `json:"customer_mood,omitempty"`
	// ClockMinutes are the simulated minutes that have passed, where time counts.
	ClockMinutes *int `json:"clock_minutes,omitempty"`
	*QueueStatus
}

// QueueStatus holds the additional fields of a queue's observation.
type QueueStatus struct {
	Queue           []QueuedTicket `json:"queue"`
	MinutesLeft     int            `json:"minutes_left"`
	EscalationsLeft int            `json:"escalations_left"`
}

// QueuedTicket is the summary of a ticket of a queue.
type QueuedTicket struct {
	TicketID     string `json:"ticket_id"`
	Subject      string `json:"subject"`
	AccountLevel string `json:"account_level"`
	Status       string `json:"status"`
	// WaitingMinutes are the minutes without a first reply.
	WaitingMinutes int `json:"waiting_minutes"`
	// MinutesToSLA is the time left for the first reply, by the priority that the agent has set. It
	// is null without a priority and after the reply.
	MinutesToSLA *int `json:"minutes_to_sla"`
}

// Message is an entry of the conversation. Role is customer or agent. Facts are those that the
// agent stated beside the message.
type Message struct {
	Role    string       `json:"role"`
	Content string       `json:"content"`
	Facts   []facts.Fact `json:"facts,omitempty"`
}

// Attachment is a text attached to the ticket.
type Attachment struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Article is an article that a search found.
type Article struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body"`
	// Encoded is the article's JSON, "" if it isn't known.
	Encoded string `json:"-"`
}

// State is the reply to the message "state".
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

// Steps implements episode.Stepped.
func (s State) Steps() int { return s.StepCount }

// WithSteps implements episode.Stepped.
func (s State) WithSteps(steps int) any {
	s.StepCount = steps
	return s
}

func (s *state) observation() Observation {
	t := s.selectedTicket()
	from, customer := t.ticket, t.ticket.Customer
	o := Observation{
		Task: s.task.Name, TicketID: t.id, Now: from.Now, CustomerName: customer.Name, Company: customer.Company,
		CustomerSince: formatDate(customer.Since), AccountLevel: customer.AccountLevel, Language: from.Language,
		Subject: from.Subject, Description: from.Description, Attachments: copyAttachments(from.Attachments),
		ConversationHistory: slices.Clone(t.conversation), Status: t.status, Score: s.score(), Step: s.step,
		MaxSteps: s.task.MaxSteps, AllowedActions: s.allowedActions(), Feedback: s.feedback,
		KnowledgeBase: slices.Clone(s.found), CustomerMood: t.customer.moodName(),
	}
	if s.isTimed() {
		o.ClockMinutes = new(s.clock)
	}
	if s.task.queue {
		o.QueueStatus = s.queueStatus()
	}
	return o
}

func (s *state) queueStatus() *QueueStatus {
	q := &QueueStatus{Queue: make([]QueuedTicket, len(s.tickets)), MinutesLeft: s.minutesLeft(),
		EscalationsLeft: s.slots}
	for i := range s.tickets {
		q.Queue[i] = s.tickets[i].summary(s.clock)
	}
	return q
}

func (t *ticketState) summary(clock int) QueuedTicket {
	q := QueuedTicket{TicketID: t.id, Subject: t.ticket.Subject, AccountLevel: t.ticket.Customer.AccountLevel,
		Status: t.status, WaitingMinutes: t.answered}
	if t.answered == queue.Never {
		q.WaitingMinutes = clock
		if t.priority != "" {
			q.MinutesToSLA = new(queue.ReplyLimit(t.priority) - clock)
		}
	}
	return q
}

func formatDate(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.DateOnly)
}

// score is null while rewards are held back.
func (s *state) score() *float64 {
	if s.outcome == "" && s.mode == episode.Terminal || s.outcome == score.Errored {
		return nil
	}
	return new(float64(s.paid) / 1000)
}

func copyAttachments(from []scenarios.Attachment) []Attachment {
	to := make([]Attachment, len(from))
	for i, a := range from {
		to[i] = Attachment(a)
	}
	return to
}
