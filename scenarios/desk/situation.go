package desk

import (
	"slices"

	"github.com/csenv/csenv/scenarios/text"
	"github.com/csenv/csenv/scenarios/triage"
)

// AssessSituation returns what the records and a request say about the priority of a case, as the
// article POL-TRI defines it.
func AssessSituation(d Desk, r Request) triage.Situation {
	s := triage.Situation{Compromise: d.Records.Customer.Hold != "", CoreUnusable: r.Kind == "defective",
		Degraded: r.Kind == "damaged" || r.Kind == "wrong_item", Delay: d.delayed(&r)}
	if !kinds()[r.Kind].aboutOrder {
		return s
	}
	shown := d.Records.ShowPayments(r.OrderID, "")
	for _, p := range shown.Payments {
		if p.Status == "charged_back" {
			s.Disputed += int64(p.Amount)
		}
	}
	switch r.Kind {
	case "double_charge":
		later := findDuplicate(
			slices.DeleteFunc(shown.Payments, func(p Payment) bool { return p.Status != "captured" }),
		)
		if !slices.ContainsFunc(shown.Refunds, func(f Refund) bool { return f.PaymentID == later.ID }) {
			s.WronglyTaken = int64(later.Amount)
		}
	case "duties":
		if d.Records.ShowOrder(r.OrderID).Duties == "prepaid" {
			s.WronglyTaken = int64(d.Records.ShowShipments(r.OrderID)[0].Duty)
		}
	}
	return s
}

// delayed reports whether the records show the delay that a request is about.
func (d *Desk) delayed(r *Request) bool {
	switch r.Kind {
	case "parcel", "not_found":
		return d.passed(d.waiting(&d.Records.ShowShipments(r.OrderID)[0]))
	case "late":
		o, s := d.Records.ShowOrder(r.OrderID), d.Records.ShowShipments(r.OrderID)[0]
		return o.Service == "express" && text.StartOfDay(s.Delivered).After(text.StartOfDay(o.Promised))
	case "partial":
		return d.Records.ShowOrder(r.OrderID).unshipped() > 0
	case "refund_status":
		shown := d.Records.ShowPayments(r.OrderID, "")
		return d.passed(d.arrives(methodOf(shown.Payments), shown.Refunds[0].At))
	}
	return false
}
