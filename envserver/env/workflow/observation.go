package workflow

import (
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
)

// Observation is the observation that the agent receives. Later steps don't change it.
type Observation struct {
	Task         string    `json:"task"`
	Now          time.Time `json:"now"`
	CustomerName string    `json:"customer_name"`
	AccountLevel string    `json:"account_level"`
	Language     string    `json:"language"`
	UserQuery    string    `json:"user_query"`
	// OrderStatus and PaymentStatus are null until they are looked up.
	OrderStatus   *string  `json:"order_status"`
	PaymentStatus *string  `json:"payment_status"`
	History       []Entry  `json:"history"`
	LastResult    document `json:"last_result"`
	Step          int      `json:"step"`
	MaxSteps      int      `json:"max_steps"`
	// MinutesUsed is the sum of the actions' simulated minutes. It is not graded.
	MinutesUsed int `json:"minutes_used"`
}

// Entry is an action of the episode and its result.
type Entry struct {
	Step       int      `json:"step"`
	ActionType string   `json:"action_type"`
	Payload    document `json:"payload"`
	Result     document `json:"result"`
}

// State is the reply to the message "state".
type State struct {
	EpisodeID      *string            `json:"episode_id"`
	StepCount      int                `json:"step_count"`
	Seed           int64              `json:"seed"`
	Task           string             `json:"task"`
	Done           bool               `json:"done"`
	MaxSteps       int                `json:"max_steps"`
	RewardMode     episode.RewardMode `json:"reward_mode"`
	InvalidActions int                `json:"invalid_actions"`
}

// Steps implements episode.Stepped.
func (s State) Steps() int { return s.StepCount }

// WithSteps implements episode.Stepped.
func (s State) WithSteps(steps int) any {
	s.StepCount = steps
	return s
}

func (s *state) observation() Observation {
	w := s.workflow
	return Observation{
		Task: s.task.Name, Now: w.Now, CustomerName: w.Customer.Name, AccountLevel: w.Customer.AccountLevel,
		Language: w.Language, UserQuery: w.Query,
		OrderStatus: statusOrNil(s.orderStatus), PaymentStatus: statusOrNil(s.paymentStatus),
		History: append([]Entry{}, s.history...), LastResult: s.last,
		Step: s.step, MaxSteps: w.MaxSteps, MinutesUsed: s.minutes,
	}
}

func statusOrNil(status string) *string {
	if status == "" {
		return nil
	}
	return &status
}
