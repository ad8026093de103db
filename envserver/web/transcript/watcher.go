package transcript

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/scenarios/facts"
)

// Item is a part of an observation. One of its fields is set.
type Item struct {
	Queue   *Queue
	Opened  *Opened
	Message *Message
	Call    *Call
	Article *ticket.Article
	// Nothing means that a search found no article.
	Nothing  bool
	Standing *Standing
}

// Queue is the list of the tickets of a shift.
type Queue struct {
	ticket.QueueStatus
	// TicketID is the selected ticket.
	TicketID string
}

// Opened is a ticket or a case at which the agent looks.
type Opened struct {
	// TicketID is "" for a case.
	TicketID, Task              string
	Name, Company, Since, Level string
	Now                         time.Time
	Language, Subject, Text     string
	Attachments                 []ticket.Attachment
	// Again means that the agent returns to a ticket.
	Again bool
}

// Message is a message of the conversation. Role is customer or agent.
type Message struct {
	ticket.Message
	// Language is that of the ticket, as a BCP-47 tag.
	Language string
	// Again means that an earlier item has the message: the agent returned to its ticket. Before
	// means that it was written before the ticket, not by the agent that is graded.
	Again, Before bool
}

// IsReply reports whether the graded agent sends the message with the step that shows it.
func (m *Message) IsReply() bool { return m != nil && m.Role == "agent" && !m.Again && !m.Before }

// Note says what is particular about the message, or "".
func (m *Message) Note() string {
	if m.Before {
		return "in an earlier conversation, before this ticket"
	}
	return ""
}

// Call is an action of a workflow and its answer.
type Call struct {
	Action          string
	Payload, Result json.RawMessage
	// Voice is set if the customer's answer is in the words of a model.
	Voice string
}

// Standing is the state after an action. Feedback is "" for a workflow.
type Standing struct {
	Feedback       string
	Step, MaxSteps int
	// Parts are other facts.
	Parts []string
}

// String is the state in a line, without the feedback.
func (s *Standing) String() string {
	return strings.Join(append([]string{fmt.Sprintf("step %d of %d", s.Step, s.MaxSteps)}, s.Parts...), ", ")
}

// Watcher turns observations into items: all of the first one, then only what is new. The zero
// value is ready.
type Watcher struct {
	// ticketID is the ticket seen last, said the number of its messages that were seen since it was
	// opened, and seen the most messages that were seen of each ticket.
	ticketID string
	said     int
	seen     map[string]int
	entries  int
	begun    bool
}

// See returns the new items of an observation, none for nil.
func (w *Watcher) See(observation any) []Item {
	var items []Item
	switch seen := observation.(type) {
	case ticket.Observation:
		items = w.ticket(&seen)
	case workflow.Observation:
		items = w.workflow(&seen)
	}
	w.begun = true
	return items
}

func (w *Watcher) ticket(seen *ticket.Observation) []Item {
	var items []Item
	if seen.QueueStatus != nil {
		items = append(items, Item{Queue: &Queue{*seen.QueueStatus, seen.TicketID}})
	}
	before := false
	if seen.TicketID != w.ticketID {
		w.ticketID, w.said = seen.TicketID, 0
		_, again := w.seen[seen.TicketID]
		before = !again
		items = append(items, Item{Opened: &Opened{TicketID: seen.TicketID, Task: seen.Task, Name: seen.CustomerName,
			Company: seen.Company, Since: seen.CustomerSince, Level: seen.AccountLevel, Now: seen.Now,
			Language: seen.Language, Subject: seen.Subject, Text: seen.Description, Attachments: seen.Attachments,
			Again: again}})
	}
	for ; w.said < len(seen.ConversationHistory); w.said++ {
		items = append(items, Item{Message: &Message{seen.ConversationHistory[w.said], seen.Language,
			w.said < w.seen[w.ticketID], before}})
	}
	if w.seen == nil {
		w.seen = map[string]int{}
	}
	w.said = len(seen.ConversationHistory)
	w.seen[w.ticketID] = max(w.seen[w.ticketID], w.said)
	for i := range seen.KnowledgeBase {
		items = append(items, Item{Article: &seen.KnowledgeBase[i]})
	}
	if seen.KnowledgeBase != nil && len(seen.KnowledgeBase) == 0 {
		items = append(items, Item{Nothing: true})
	}
	return append(items, Item{Standing: newStanding(seen)})
}

func newStanding(seen *ticket.Observation) *Standing {
	parts := []string{seen.Status}
	if seen.CustomerMood != "" {
		parts = append(parts, "the customer is "+seen.CustomerMood)
	}
	if seen.ClockMinutes != nil {
		parts = append(parts, fmt.Sprintf("minute %d", *seen.ClockMinutes))
	}
	if seen.Score != nil {
		parts = append(parts, "score so far "+strconv.FormatFloat(*seen.Score, 'f', 3, 64))
	}
	return &Standing{seen.Feedback, seen.Step, seen.MaxSteps, parts}
}

func (w *Watcher) workflow(seen *workflow.Observation) []Item {
	var items []Item
	if !w.begun {
		items = append(items, Item{Opened: &Opened{Task: seen.Task, Name: seen.CustomerName, Level: seen.AccountLevel,
			Now: seen.Now, Language: seen.Language, Text: seen.UserQuery}})
	}
	for ; w.entries < len(seen.History); w.entries++ {
		e := seen.History[w.entries]
		items = append(items,
			Item{Call: &Call{Action: e.ActionType, Payload: toRawJSON(string(e.Payload)),
				Result: toRawJSON(string(e.Result))}})
	}
	var parts []string
	if seen.OrderStatus != nil {
		parts = append(parts, "order "+*seen.OrderStatus)
	}
	if seen.PaymentStatus != nil {
		parts = append(parts, "payment "+*seen.PaymentStatus)
	}
	return append(items, Item{Standing: &Standing{Step: seen.Step, MaxSteps: seen.MaxSteps, Parts: parts}})
}

// toRawJSON is a JSON text, null if it is empty.
func toRawJSON(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// Arguments are the arguments of a call, without the message to the customer.
func (c *Call) Arguments() string {
	a := ReadAction(c.Payload)
	return a.Summary()
}

// Sent is the message to the customer, or "".
func (c *Call) Sent() string { return ReadAction(c.Payload).Message }

// Stated are the facts beside the message.
func (c *Call) Stated() []facts.Fact { return ReadAction(c.Payload).Facts }

// result is what pages show of an answer by itself.
type result struct {
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
	Answer string `json:"answer"`
}

func (c *Call) result() result {
	var r result
	_ = json.Unmarshal(c.Result, &r) // an answer of another form has none of these members
	return r
}

// Failed is the error with which the call failed, or "".
func (c *Call) Failed() string { return c.result().Error }

// Answer is what the customer answered, or "".
func (c *Call) Answer() string { return c.result().Answer }

// Returned is the answer as YAML, without what the customer said and what was sent.
func (c *Call) Returned() string {
	var members map[string]any
	if json.Unmarshal(c.Result, &members) != nil {
		return string(c.Result)
	}
	for _, name := range []string{"ok", "error", "answer", "sent"} {
		delete(members, name)
	}
	if len(members) == 0 {
		return ""
	}
	text, err := yaml.Marshal(members)
	if err != nil {
		return string(c.Result)
	}
	return strings.TrimRight(string(text), "\n")
}
