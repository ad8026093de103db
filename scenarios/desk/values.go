package desk

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values are the amounts and days in the records, which a reply may state.
func (r *Records) Values() []Fact {
	var out []Fact
	amounts := func(sums ...Cents) {
		for _, sum := range sums {
			if sum != 0 {
				out = append(out, Fact{Amount: sum})
			}
		}
	}
	days := func(at ...time.Time) {
		for _, t := range at {
			if !t.IsZero() {
				out = append(out, Fact{Day: startOfDay(t)})
			}
		}
	}
	days(r.Customer.Since)
	for _, o := range r.Orders {
		amounts(o.Total, o.Delivery)
		days(o.Placed, o.Promised)
		for _, it := range o.Items {
			amounts(it.Price, it.ListPrice, it.Price*Cents(it.Quantity))
			if drop := it.Price - it.ListPrice; drop > 0 {
				amounts(drop, drop*Cents(it.Quantity))
			}
			days(it.Made)
		}
	}
	for _, p := range r.Payments {
		amounts(p.Amount)
		days(p.At)
	}
	for _, f := range r.Refunds {
		amounts(f.Amount)
		days(f.At)
	}
	for _, c := range r.Credits {
		amounts(c.Amount)
		days(c.At)
	}
	for _, s := range r.Shipments {
		amounts(s.Duty)
		days(s.LastScan, s.Delivered)
	}
	for _, s := range r.Subscriptions {
		amounts(s.Price)
		days(s.Renewed, s.Until)
		for _, p := range s.Others {
			amounts(p.Price)
		}
	}
	for _, o := range r.Outages {
		days(o.From)
	}
	return out
}

// Values are the numbers of the policy.
func (p *Policy) Values() []Fact {
	var out []Fact
	for _, n := range numbers() {
		if n.money != nil {
			out = append(out, Fact{Amount: *n.money(p)})
		} else {
			out = append(out, Fact{Days: *n.days(p)})
		}
	}
	return out
}

// Texts are the numbers of the policy with their units, as "18 %", "6 hours" or "$95.00", with the
// withdrawal of RET-5.
func (p *Policy) Texts() []string {
	out := append(p.Periods(), "90 days", "12 months", "30 days", "24 hours") // AUT-6, AUT-7, SUB-3, SUB-4
	for _, n := range numbers() {
		if n.money != nil || n.unit == "%" {
			out = append(out, strings.TrimSpace(n.text(p)+" "+n.unit))
		}
	}
	return out
}

// Periods are the periods of the policy, as "30 days".
func (p *Policy) Periods() []string {
	out := []string{strconv.Itoa(withdrawal) + " days"}
	for _, n := range numbers() {
		if n.unit != "" && n.unit != "%" {
			out = append(out, n.text(p)+" "+n.unit)
		}
	}
	return out
}

// Withheld are the values that the customer must not be told: those of all records during a fraud
// review (ACC-3), else those of other customers' orders (ACC-4) that the customer's own records
// don't have.
func (r *Records) Withheld() []Fact {
	hidden, open := *r, Records{}
	switch {
	case r.Customer.Hold != "":
	case !slices.ContainsFunc(r.Orders, func(o Order) bool { return !r.Customer.owns(&o) }):
		return nil
	default:
		hidden, open = r.split()
	}
	told := append(open.Values(), open.texts()...)
	return slices.DeleteFunc(append(hidden.Values(), hidden.texts()...),
		func(f Fact) bool { return slices.Contains(told, f) })
}

// split returns the records of other customers' orders, and the other records.
func (r *Records) split() (others, own Records) {
	own = Records{Customer: r.Customer, Subscriptions: r.Subscriptions, Outages: r.Outages}
	of := func(order string) *Records {
		if o := r.ShowOrder(order); o != nil && !r.Customer.owns(o) {
			return &others
		}
		return &own
	}
	for _, o := range r.Orders {
		of(o.ID).Orders = append(of(o.ID).Orders, o)
	}
	for _, p := range r.Payments {
		of(p.OrderID).Payments = append(of(p.OrderID).Payments, p)
	}
	for _, f := range r.Refunds {
		of(f.OrderID).Refunds = append(of(f.OrderID).Refunds, f)
	}
	for _, c := range r.Credits {
		of(c.OrderID).Credits = append(of(c.OrderID).Credits, c)
	}
	for _, s := range r.Shipments {
		of(s.OrderID).Shipments = append(of(s.OrderID).Shipments, s)
	}
	return others, own
}

// texts are the ids, names, addresses and statuses in the records. Those of the customer are left
// out, and so is "placed", which says nothing.
func (r *Records) texts() []Fact {
	var out []Fact
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" && text != "placed" {
				out = append(out, Fact{Text: text})
			}
		}
	}
	add(r.Customer.Hold)
	for _, o := range r.Orders {
		add(o.Status, o.Coupon)
		if o.Owner != r.Customer.ID {
			add(o.Owner)
		}
		for part := range strings.SplitSeq(o.Address, ", ") {
			add(strings.TrimLeft(part, "0123456789 ")) // a street without the number, a town
		}
		for _, it := range o.Items {
			add(it.SKU, strings.TrimRight(it.Name, "0123456789 "))
		}
	}
	for _, p := range r.Payments {
		add(p.ID)
	}
	for _, f := range r.Refunds {
		add(f.ID)
	}
	for _, c := range r.Credits {
		add(c.ID)
	}
	for _, s := range r.Shipments {
		add(s.Tracking, s.Carrier, s.Cause, strings.ReplaceAll(s.Status, "_", " "))
	}
	for _, s := range r.Subscriptions {
		add(s.ID, s.Plan)
	}
	return out
}
