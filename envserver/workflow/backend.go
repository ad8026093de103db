package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// result is a tool's answer: a record or an error.
type result struct {
	OK       bool                `json:"ok"`
	Error    string              `json:"error,omitempty"`
	Order    *scenarios.Order    `json:"order,omitempty"`
	Payments []scenarios.Payment `json:"payments,omitempty"`
	Refunds  []scenarios.Refund  `json:"refunds,omitempty"`
	Refund   *scenarios.Refund   `json:"refund,omitempty"`
	Case     *scenarios.Case     `json:"case,omitempty"`
	// The fields from here to Done are results of generated cases.
	Found  any    `json:"found,omitempty"` // the records of the tool
	Policy string `json:"policy,omitempty"`
	Done   string `json:"done,omitempty"`
	Sent   string `json:"sent,omitempty"`
	Answer string `json:"answer,omitempty"`
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

// call executes an action, other than a reply, on the backend. Wrong actions are executed too: a
// refund that is too large is still a refund.
func (s *state) call(action string, args desk.Args) result {
	if s.desk != nil {
		return s.callDesk(action, args)
	}
	switch action {
	case scenarios.CheckOrderStatus:
		return s.lookUpOrder(args.Text("order_id"))
	case scenarios.CheckPayment:
		return s.lookUpPayments(args)
	case scenarios.InitiateRefund:
		return s.refund(args)
	case scenarios.EscalateIssue:
		return s.openCase(args)
	default:
		return newFailure("%s isn't a tool of this task", action)
	}
}

func (s *state) lookUpOrder(id string) result {
	if id == "" {
		return newFailure("order_id is missing")
	}
	order, ok := s.backend.Order(id)
	if !ok {
		return newFailure("there is no order %s", id)
	}
	s.orderStatus = order.Status
	return result{OK: true, Order: &order}
}

func (s *state) lookUpPayments(args desk.Args) result {
	id := cmp.Or(args.Text("payment_id"), args.Text("order_id"))
	if id == "" {
		return newFailure("order_id or payment_id is missing")
	}
	payments := s.backend.PaymentsOf(id)
	if len(payments) == 0 {
		return newFailure("there is no payment for %s", id)
	}
	s.paymentStatus = joinStatuses(payments)
	return result{OK: true, Payments: payments, Refunds: s.backend.RefundsOf(id)}
}

// joinStatuses joins the distinct statuses of payments.
func joinStatuses(payments []scenarios.Payment) string {
	var different []string
	for _, p := range payments {
		if !slices.Contains(different, p.Status) {
			different = append(different, p.Status)
		}
	}
	return strings.Join(different, ", ")
}

func (s *state) refund(args desk.Args) result {
	amount, ok := args["amount"].(int64)
	if !ok {
		return newFailure("amount is missing or no sum of money")
	}
	refund := scenarios.Refund{OrderID: args.Text("order_id"), PaymentID: args.Text("payment_id"),
		Amount: scenarios.Cents(amount)}
	if problem := s.unpayable(refund); problem != "" {
		return newFailure("%s", problem)
	}
	refund.ID = fmt.Sprintf("RF-%d", len(s.backend.Refunds)+1)
	s.backend.Refunds = append(s.backend.Refunds, refund)
	return result{OK: true, Refund: &refund}
}

// unpayable returns the reason why a refund can't be assigned to one payment, or "". It doesn't
// check the payment's status and the amount: judging them is the agent's task.
func (s *state) unpayable(refund scenarios.Refund) string {
	id := cmp.Or(refund.PaymentID, refund.OrderID)
	payments := s.backend.PaymentsOf(id)
	captured := 0
	for _, p := range payments {
		if refund.OrderID != "" && p.OrderID != refund.OrderID {
			return fmt.Sprintf("payment %s isn't of %s", p.ID, refund.OrderID)
		}
		if p.Status == "captured" {
			captured++
		}
	}
	switch {
	case len(payments) == 0:
		return "there is no such order or payment"
	case refund.PaymentID == "" && captured > 1:
		return fmt.Sprintf("payment_id is missing: %s has several payments", refund.OrderID)
	}
	return ""
}

func (s *state) openCase(args desk.Args) result {
	team := args.Text("team")
	if team == "" {
		return newFailure("team is missing")
	}
	opened := scenarios.Case{ID: fmt.Sprintf("CASE-%d", len(s.backend.Cases)+1), Team: team,
		OrderID: args.Text("order_id"), Reason: args.Text("reason")}
	s.backend.Cases = append(s.backend.Cases, opened)
	return result{OK: true, Case: &opened}
}
