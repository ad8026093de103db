package desk

import (
	"fmt"
	"slices"
)

// The methods below are what the desk's tools show and do.

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
	for _, p := range r.Payments {
		if payment != "" && p.ID == payment || payment == "" && order != "" && p.OrderID == order {
			v.Payments = append(v.Payments, p)
			order = p.OrderID
		}
	}
	if len(v.Payments) == 0 {
		return v
	}
	for _, f := range r.Refunds {
		if f.OrderID == order {
			v.Refunds = append(v.Refunds, f)
		}
	}
	for _, c := range r.Credits {
		if c.OrderID == order {
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
func (r *Records) Problem(e Effect) string {
	switch e.Tool {
	case Escalating:
		if e.Team == "" {
			return "team is missing"
		}
		return ""
	case Refunding:
		return r.unpayable(e)
	case Crediting:
		if e.Amount <= 0 {
			return noAmount
		}
		if e.OrderID == "" {
			return ""
		}
	}
	o := r.ShowOrder(e.OrderID)
	switch {
	case o == nil:
		return fmt.Sprintf("there is no order %q", e.OrderID)
	case e.Tool == Readdressing && e.Address == "":
		return "address is missing"
	case e.Tool == Replacing && !slices.ContainsFunc(o.Items, func(it Item) bool { return it.SKU == e.SKU }):
		return fmt.Sprintf("order %s has no item %q", e.OrderID, e.SKU)
	}
	return ""
}

const noAmount = "amount is missing or no sum of money"

// unpayable returns why a refund can't be assigned to one payment, "" if it can.
func (r *Records) unpayable(e Effect) string {
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

// Apply makes a change.
func (r *Records) Apply(e Effect) {
	switch e.Tool {
	case Refunding:
		r.Refunds = append(r.Refunds, Refund{ID: fmt.Sprintf("RF-%d", len(r.Refunds)+1), OrderID: e.OrderID,
			PaymentID: e.PaymentID, Amount: e.Amount})
	case Crediting:
		r.Credits = append(r.Credits, Credit{ID: fmt.Sprintf("CR-%d", len(r.Credits)+1), OrderID: e.OrderID,
			Amount: e.Amount})
	case Cancelling:
		r.ShowOrder(e.OrderID).Status = "cancelled"
	case Readdressing:
		r.ShowOrder(e.OrderID).Address = e.Address
	case Escalating:
		r.Cases = append(r.Cases, Case{ID: fmt.Sprintf("CASE-%d", len(r.Cases)+1), Team: e.Team})
	}
}
