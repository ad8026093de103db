package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/talk"
)

// result is a tool's answer: a record or an error.
type result struct {
	OK       bool             `json:"ok"`
	Error    string           `json:"error,omitempty"`
	Order    *desk.PlainOrder `json:"order,omitempty"`
	Payments []desk.Payment   `json:"payments,omitempty"`
	Refunds  []desk.Refund    `json:"refunds,omitempty"`
	Refund   *desk.Refund     `json:"refund,omitempty"`
	Case     *desk.Escalation `json:"case,omitempty"`
	// The fields from here to Done are results of generated cases.
	Found  any    `json:"found,omitempty"` // the records of the tool
	Policy string `json:"policy,omitempty"`
	Done   string `json:"done,omitempty"`
	Sent   string `json:"sent,omitempty"`
	Answer string `json:"answer,omitempty"`
	// Heard is what a customer that isn't the embedded one took from a message.
	Heard *talk.Heard `json:"heard,omitempty"`
	// Note says that the reply states no fact.
	Note string `json:"note,omitempty"`
}

func newFailure(format string, args ...any) result {
	return result{Error: fmt.Sprintf(format, args...)}
}

// document is a JSON text. It is immutable, so that observations can share it.
type document string

// MarshalJSON returns the text, null when it is empty.
func (d document) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("null"), nil
	}
	return []byte(d), nil
}

func encodeDocument(value any) (document, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing a tool's answer: %w", err)
	}
	return document(text), nil
}

// callTool executes an action, other than a message, on the records. Wrong actions are executed
// too: a refund that is too large is still a refund.
func (s *state) callTool(action string, args desk.Args) result {
	tool := desk.FindTool(action)
	if !tool.In(s.workflow.Rules.Tools) {
		return newFailure("%s isn't a tool of this task", action)
	}
	if tool.Apply != nil {
		e := desk.NewEffect(action, args)
		if problem := s.records.Problem(e); problem != "" {
			return newFailure("%s", problem)
		}
		done, record := s.records.Apply(e)
		return s.wrapRecord(record, result{OK: true, Done: done})
	}
	shown, problem := tool.Show(&desk.Desk{Policy: s.workflow.Policy, Records: s.records}, args)
	if problem != "" {
		return newFailure("%s", problem)
	}
	if shown.Policy != "" {
		s.topics = append(s.topics, args.Text("topic"))
	}
	s.orderStatus = cmp.Or(shown.OrderStatus, s.orderStatus)
	s.paymentStatus = cmp.Or(shown.PaymentStatus, s.paymentStatus)
	return s.wrapRecord(shown.Found, result{OK: true, Found: shown.Found, Policy: shown.Policy})
}

// wrapRecord returns the answer, or one with the record alone where answers contain plain records.
func (s *state) wrapRecord(record any, full result) result {
	if !s.workflow.Rules.PlainRecords {
		return full
	}
	plain := result{OK: true}
	switch r := record.(type) {
	case *desk.Order:
		plain.Order = new(r.Plain())
	case desk.PaymentsView:
		plain.Payments, plain.Refunds = r.Payments, r.Refunds
	case desk.Refund:
		plain.Refund = &r
	case desk.Escalation:
		plain.Case = &r
	}
	return plain
}

// refuseTool refuses to write to the customer with a tool of other tasks.
func (s *state) refuseTool(tool string) result {
	use := map[desk.TaskKinds]string{desk.Written: desk.RespondUser, desk.Cases: desk.AskCustomer,
		desk.Talks: desk.Tell}
	s.addFine(tool, wrongPenalty, "not a tool of this task")
	return newFailure("%s isn't a tool of this task: use %s", tool, use[s.workflow.Rules.Tools])
}

// askCustomer sends a question to the customer of a generated case.
func (s *state) askCustomer(args desk.Args) result {
	message := args.Text("message")
	switch {
	case s.workflow.Rules.Tools != desk.Cases:
		return s.refuseTool(desk.AskCustomer)
	case message == "":
		s.addFine(desk.AskCustomer, wrongPenalty, "message is missing")
		return newFailure("message is missing")
	}
	if i := s.findQuestion(message); i >= 0 {
		s.satisfyStep(i)
		return result{OK: true, Sent: message, Answer: s.workflow.Steps[i].Answer}
	}
	s.addExcess(desk.AskCustomer, "a needless question")
	for _, a := range s.workflow.Answers {
		if episode.HasQuestionAbout(message, a.About, s.workflow.AskWords) {
			return result{OK: true, Sent: message, Answer: a.Answer}
		}
	}
	return result{OK: true, Sent: message, Answer: s.workflow.Unasked}
}
