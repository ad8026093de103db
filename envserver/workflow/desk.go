package workflow

import (
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// callDesk executes an action, other than a message, on the records of a generated case. Wrong
// changes are executed too.
func (s *state) callDesk(action string, args map[string]any) result {
	order := getString(args, "order_id")
	switch action {
	case desk.LookUpCustomer:
		return newFoundResult(s.desk.ShowCustomer())
	case desk.LookUpPolicy:
		if section := s.workflow.Desk.Policy.Section(getString(args, "topic")); section != "" {
			s.topics = append(s.topics, getString(args, "topic"))
			return result{OK: true, Policy: section}
		}
		return newFailure("topic is one of %v", desk.ListTopics())
	case desk.CheckOrder:
		if o := s.desk.ShowOrder(order); o != nil {
			s.orderStatus = o.Status
			return newFoundResult(*o)
		}
	case desk.CheckPayment:
		if p := s.desk.ShowPayments(order, getString(args, "payment_id")); len(p.Payments) > 0 {
			s.paymentStatus = joinStatuses(p.Payments, func(p desk.Payment) string { return p.Status })
			return newFoundResult(p)
		}
	case desk.CheckShipment:
		if parcels := s.desk.ShowShipments(order); len(parcels) > 0 {
			return newFoundResult(parcels)
		}
		return newFailure("there is no parcel for order %q", order)
	default:
		return s.change(action, order, args)
	}
	return newFailure("there is nothing under the id %q", order)
}

func newFoundResult(records any) result { return result{OK: true, Found: records} }

// lookUps are what a change of each kind depends on in every case, whatever is right.
var lookUps = map[string]struct{ tools, topics []string }{
	desk.Refunding: {[]string{desk.LookUpCustomer, desk.CheckPayment}, []string{"money", "authority"}},
	desk.Crediting: {[]string{desk.LookUpCustomer}, []string{"authority"}},
	desk.Replacing: {[]string{desk.LookUpCustomer, desk.CheckOrder, desk.CheckPayment},
		[]string{"damage", "authority"}},
	desk.Cancelling:   {[]string{desk.LookUpCustomer, desk.CheckOrder, desk.CheckPayment}, []string{"money"}},
	desk.Readdressing: {[]string{desk.LookUpCustomer, desk.CheckOrder}, []string{"delivery"}},
	desk.Escalating:   {[]string{desk.LookUpCustomer}, []string{"authority"}},
}

// change executes an action that changes the records.
func (s *state) change(action, order string, args map[string]any) result {
	amount, _ := args["amount"].(int64)
	e := desk.Effect{
		Tool:      action,
		OrderID:   order,
		PaymentID: getString(args, "payment_id"),
		SKU:       getString(args, "sku"),
		Amount:    desk.Cents(amount),
		Address:   getString(args, "address"),
		Team:      getString(args, "team"),
	}
	if problem := s.desk.Problem(e); problem != "" {
		return newFailure("%s", problem)
	}
	s.desk.Apply(e)
	return result{OK: true, Done: describeEffect(e)}
}

// describeEffect says what was done.
func describeEffect(e desk.Effect) string {
	switch e.Tool {
	case desk.Refunding:
		return fmt.Sprintf("refunded $%s", e.Amount)
	case desk.Crediting:
		return fmt.Sprintf("credited $%s", e.Amount)
	case desk.Replacing:
		return fmt.Sprintf("item %s of order %s is sent again", e.SKU, e.OrderID)
	case desk.Cancelling:
		return fmt.Sprintf("order %s is cancelled", e.OrderID)
	case desk.Readdressing:
		return fmt.Sprintf("order %s goes to %s", e.OrderID, e.Address)
	}
	return "handed over to " + e.Team
}

// ask sends a question to the customer of a generated case.
func (s *state) ask(args map[string]any) result {
	message := getString(args, "message")
	switch {
	case s.desk == nil:
		s.fine(desk.AskCustomer, wrongPenalty, "not a tool of this task")
		return newFailure("%s isn't a tool of this task: use %s", desk.AskCustomer, scenarios.RespondUser)
	case message == "":
		s.fine(desk.AskCustomer, wrongPenalty, "message is missing")
		return newFailure("message is missing")
	}
	if i := s.question(message); i >= 0 {
		s.satisfy(i)
		return result{OK: true, Sent: message, Answer: s.workflow.Steps[i].Answer}
	}
	s.excess(desk.AskCustomer, "a needless question")
	for _, a := range s.workflow.Answers {
		if episode.HasQuestionAbout(message, a.About, s.workflow.AskWords) {
			return result{OK: true, Sent: message, Answer: a.Answer}
		}
	}
	return result{OK: true, Sent: message, Answer: s.workflow.Unasked}
}
