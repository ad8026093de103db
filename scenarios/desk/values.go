package desk

import (
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/text"
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
				out = append(out, Fact{Day: text.StartOfDay(t)})
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
