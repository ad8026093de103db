package desk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The functions below are what the tools of the table show and do.

// Clone returns a copy whose orders, refunds, credits and cases can be changed.
func (r *Records) Clone() *Records {
	c := *r
	c.Orders = slices.Clone(r.Orders)
	c.Refunds, c.Credits, c.Cases = slices.Clone(r.Refunds), slices.Clone(r.Credits), slices.Clone(r.Cases)
	return &c
}

// CustomerView is the result of look_up_customer.
type CustomerView struct {
	Customer
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
	Outages       []Outage       `json:"outages,omitempty"`
	Refunds       []Refund       `json:"refunds,omitempty"`
	Credits       []Credit       `json:"credits,omitempty"`
}

// ShowCustomer returns the customer with what was given before. The orders and payments for which
// it was given are left out: an order whose id the customer doesn't give has to be asked for, and
// another customer's order isn't named.
func (r *Records) ShowCustomer() CustomerView {
	v := CustomerView{r.Customer, r.Subscriptions, r.Outages, slices.Clone(r.Refunds), slices.Clone(r.Credits)}
	for i := range v.Refunds {
		v.Refunds[i].OrderID, v.Refunds[i].PaymentID = "", ""
	}
	for i := range v.Credits {
		v.Credits[i].OrderID = ""
	}
	return v
}

// ShowOrder returns an order, nil if there is none.
func (r *Records) ShowOrder(id string) *Order {
	i := slices.IndexFunc(r.Orders, func(o Order) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &r.Orders[i]
}

// PaymentsView is the result of check_payment.
type PaymentsView struct {
	Payments []Payment `json:"payments"`
	Refunds  []Refund  `json:"refunds,omitempty"`
	Credits  []Credit  `json:"credits,omitempty"`
}

// ShowPayments returns the payments of an order or a subscription, or the payment of an id, with
// what was given back.
func (r *Records) ShowPayments(order, payment string) PaymentsView {
	var v PaymentsView
	of := order
	for _, p := range r.Payments {
		if payment != "" && p.ID == payment || payment == "" && order != "" && (p.OrderID == order || p.ID == order) {
			v.Payments = append(v.Payments, p)
			of = p.OrderID
		}
	}
	if len(v.Payments) == 0 {
		return v
	}
	for _, f := range r.Refunds {
		if of != "" && f.OrderID == of || payment != "" && f.PaymentID == payment {
			v.Refunds = append(v.Refunds, f)
		}
	}
	for _, c := range r.Credits {
		if of != "" && c.OrderID == of {
			v.Credits = append(v.Credits, c)
		}
	}
	return v
}

// ShowShipments returns the parcels of an order.
func (r *Records) ShowShipments(order string) []Shipment {
	var out []Shipment
	for _, s := range r.Shipments {
		if s.OrderID == order {
			out = append(out, s)
		}
	}
	return out
}

// Problem returns why a change can't be made at all, "" if it can. It doesn't say whether it is
// right.
func (r *Records) Problem(e Effect) string { return FindTool(e.Tool).Check(r, &e) }

// Apply makes a change, says what was done, and returns the new record, nil if there is none.
func (r *Records) Apply(e Effect) (done string, record any) { return FindTool(e.Tool).Apply(r, &e) }

const noAmount = "amount is missing or no sum of money"

// checkRefund returns why a refund can't be assigned to one payment, "" if it can.
func (r *Records) checkRefund(e *Effect) string {
	if e.Amount <= 0 {
		return noAmount
	}
	payments := r.ShowPayments(e.OrderID, e.PaymentID).Payments
	captured := 0
	for _, p := range payments {
		if e.OrderID != "" && p.OrderID != e.OrderID {
			return fmt.Sprintf("payment %s isn't of %s", p.ID, e.OrderID)
		}
		if p.Status == "captured" {
			captured++
		}
	}
	switch {
	case len(payments) == 0:
		return "there is no such order or payment"
	case e.PaymentID == "" && captured > 1:
		return fmt.Sprintf("payment_id is missing: %s has several payments", e.OrderID)
	}
	return ""
}

func (r *Records) applyRefund(e *Effect) (done string, record any) {
	made := Refund{ID: fmt.Sprintf("RF-%d", len(r.Refunds)+1), OrderID: e.OrderID, PaymentID: e.PaymentID,
		Amount: e.Amount}
	r.Refunds = append(r.Refunds, made)
	return fmt.Sprintf("refunded $%s", e.Amount), made
}

// checkCredit returns why credit can't be given, "" if it can. It needn't be for an order.
func (r *Records) checkCredit(e *Effect) string {
	if e.Amount <= 0 {
		return noAmount
	}
	if e.OrderID == "" {
		return ""
	}
	return r.checkCancel(e)
}

func (r *Records) applyCredit(e *Effect) (done string, record any) {
	made := Credit{ID: fmt.Sprintf("CR-%d", len(r.Credits)+1), OrderID: e.OrderID, Amount: e.Amount}
	r.Credits = append(r.Credits, made)
	return fmt.Sprintf("credited $%s", e.Amount), made
}

// checkCancel returns that there is no such order, "" if there is.
func (r *Records) checkCancel(e *Effect) string {
	if r.ShowOrder(e.OrderID) == nil {
		return fmt.Sprintf("there is no order %q", e.OrderID)
	}
	return ""
}

func (r *Records) applyCancel(e *Effect) (done string, record any) {
	r.ShowOrder(e.OrderID).Status = "cancelled"
	return fmt.Sprintf("order %s is cancelled", e.OrderID), nil
}

func (r *Records) checkReplace(e *Effect) string {
	if problem := r.checkCancel(e); problem != "" {
		return problem
	}
	if !slices.ContainsFunc(r.ShowOrder(e.OrderID).Items, func(it Item) bool { return it.SKU == e.SKU }) {
		return fmt.Sprintf("order %s has no item %q", e.OrderID, e.SKU)
	}
	return ""
}

// applyReplace changes no record: the parcel of a new item leaves after the episode.
func (r *Records) applyReplace(e *Effect) (done string, record any) {
	return fmt.Sprintf("item %s of order %s is sent again", e.SKU, e.OrderID), nil
}

func (r *Records) checkReaddress(e *Effect) string {
	problem := r.checkCancel(e)
	if problem == "" && e.Address == "" {
		return "address is missing"
	}
	return problem
}

func (r *Records) applyReaddress(e *Effect) (done string, record any) {
	r.ShowOrder(e.OrderID).Address = e.Address
	return fmt.Sprintf("order %s goes to %s", e.OrderID, e.Address), nil
}

func (r *Records) checkEscalate(e *Effect) string {
	if e.Team == "" {
		return "team is missing"
	}
	return ""
}

func (r *Records) applyEscalate(e *Effect) (done string, record any) {
	made := Escalation{ID: fmt.Sprintf("CASE-%d", len(r.Cases)+1), Team: e.Team, OrderID: e.OrderID, Reason: e.Reason}
	r.Cases = append(r.Cases, made)
	return "handed over to " + e.Team, made
}

// A reading tool returns what it shows, or why it shows nothing.

func showOrder(d *Desk, args Args) (Shown, string) {
	id := args.Text("order_id")
	o := d.Records.ShowOrder(id)
	switch {
	case id == "":
		return Shown{}, "order_id is missing"
	case o == nil:
		return Shown{}, "there is no order " + id
	}
	return Shown{Found: o, OrderStatus: o.Status}, ""
}

func showPayments(d *Desk, args Args) (Shown, string) {
	order, payment := args.Text("order_id"), args.Text("payment_id")
	v := d.Records.ShowPayments(order, payment)
	var statuses []string
	for _, p := range v.Payments {
		if !slices.Contains(statuses, p.Status) {
			statuses = append(statuses, p.Status)
		}
	}
	switch {
	case order == "" && payment == "":
		return Shown{}, "order_id or payment_id is missing"
	case statuses == nil:
		return Shown{}, "there is no payment for " + cmp.Or(payment, order)
	}
	return Shown{Found: v, PaymentStatus: strings.Join(statuses, ", ")}, ""
}

func showShipments(d *Desk, args Args) (Shown, string) {
	id := args.Text("order_id")
	parcels := d.Records.ShowShipments(id)
	if parcels == nil {
		return Shown{}, fmt.Sprintf("there is no parcel for order %q", id)
	}
	return Shown{Found: parcels}, ""
}

func showCustomer(d *Desk, _ Args) (Shown, string) { return Shown{Found: d.Records.ShowCustomer()}, "" }

func showPolicy(d *Desk, args Args) (Shown, string) {
	section := d.Policy.Section(args.Text("topic"))
	if section == "" {
		topics := ListTopics()
		if d.Policy.Talks {
			topics = append(topics, Conversations)
		}
		return Shown{}, fmt.Sprintf("topic is one of %v", topics)
	}
	return Shown{Policy: section}, ""
}
