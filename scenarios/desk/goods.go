package desk

import (
	"slices"
	"time"

	"github.com/csenv/csenv/scenarios/text"
)

// returnPeriod returns the days of the customer's return period.
func (d *decider) returnPeriod() int64 {
	switch d.readCustomer().Level {
	case "plus":
		d.citeRules("RET-2")
		return d.Policy.PlusDays
	case "business":
		d.citeRules("RET-3")
		return d.Policy.BusinessDays
	}
	d.citeRules("RET-1")
	return d.Policy.ReturnDays
}

// withdrawal is the number of days within which customers in the EU may withdraw.
const withdrawal = 14

// returnable returns the last day on which the item can be returned, zero if it can't be at all,
// and whether the right to withdraw applies. What kind of item it is comes before its delivery.
func (d *decider) returnable(it *Item) (last time.Time, withdraws bool) {
	eu := d.readCustomer().Region == "eu"
	switch {
	case it.Kind == "hygiene" && d.Opened:
		d.citeRules("RET-8")
		return time.Time{}, false
	case it.Kind == "custom":
		d.citeRules("RET-7")
		return time.Time{}, false
	case it.Kind == "final_sale" && !eu:
		d.citeRules("RET-6")
		return time.Time{}, false
	}
	delivered := d.readShipment().Delivered
	withdrawn := addDays(delivered, withdrawal)
	withdraws = eu && !d.passed(withdrawn)
	if it.Kind == "final_sale" {
		d.citeRules("RET-5", "RET-6")
		return withdrawn, withdraws
	}
	last = d.returnUntil(delivered)
	if eu && (withdraws || withdrawn.After(last)) {
		d.citeRules("RET-5")
	}
	if eu && withdrawn.After(last) {
		last = withdrawn
	}
	return last, withdraws
}

// returnUntil returns the last day of the return period.
func (d *decider) returnUntil(delivered time.Time) time.Time {
	last := addDays(delivered, d.returnPeriod())
	if _, m, n := delivered.UTC().Date(); d.readCustomer().Level != "business" &&
		(m == time.December || m == time.November && n >= 15) {
		d.citeRules("RET-4")
		next := time.Date(delivered.UTC().Year()+1, time.January, int(d.Policy.HolidayDay), 0, 0, 0, 0, time.UTC)
		if next.After(last) {
			return next
		}
	}
	return last
}

// kindName is the word for a kind of items that can't be returned.
func kindName(kind string) string {
	return map[string]string{"final_sale": "final sale", "custom": "custom", "hygiene": "opened"}[kind]
}

// decideReturn decides about an item that isn't wanted any more.
func (d *decider) decideReturn() {
	o, it := d.readOrder(), d.readItem()
	last, withdraws := d.returnable(it)
	switch {
	case last.IsZero():
		d.citeRules("RET-11")
		d.setOutcome("not_returnable", Fact{Slot: "kind", Text: kindName(it.Kind)})
		return
	case d.passed(last):
		d.citeRules("RET-11")
		d.setOutcome("return_too_late", Fact{Slot: "last_day", Day: last})
		return
	}
	due := it.Price
	d.citeRules("RET-9")
	if d.Opened && !withdraws && d.readCustomer().Level != "plus" {
		due = due * Cents(100-d.Policy.RestockPercent) / 100
	}
	if withdraws && len(o.Items) == 1 && it.Quantity == 1 {
		d.citeRules("RET-10")
		due += o.Delivery
	}
	d.repay(o.ID, due, "return_accepted")
}

// returnDeadline decides about the question until when an item can be returned.
func (d *decider) returnDeadline() {
	it := d.readItem()
	last, _ := d.returnable(it)
	switch {
	case last.IsZero():
		d.setOutcome("not_returnable", Fact{Slot: "kind", Text: kindName(it.Kind)})
	case d.passed(last):
		d.setOutcome("return_too_late", Fact{Slot: "last_day", Day: last})
	default:
		d.setOutcome("return_until", Fact{Slot: "last_day", Day: last})
	}
}

// decideDamage decides about an item that arrived damaged.
func (d *decider) decideDamage() {
	it, s := d.readItem(), d.readShipment()
	d.citeRules("DMG-1")
	last := addDays(s.Delivered, d.Policy.DamageDays)
	if d.passed(last) {
		d.setOutcome("damage_too_late", Fact{Slot: "last_day", Day: last})
		return
	}
	if it.Price >= d.Policy.PhotoFrom {
		d.citeRules("DMG-2")
		d.askAbout("photo")
	}
	switch {
	case d.Misused:
		d.citeRules("DMG-7")
		d.setOutcome("misuse", Fact{Slot: "kind", Text: "misuse"})
	case d.Wish == "refund":
		d.citeRules("DMG-3")
		d.repay(d.OrderID, it.Price, "damage_refunded")
	default:
		d.citeRules("DMG-3")
		d.replace([]Item{*it}, 0)
	}
}

// decideWarranty returns the last day of the warranty.
func (d *decider) decideWarranty() time.Time {
	s := d.readShipment()
	d.citeRules("DMG-4")
	months := d.Policy.WarrantyMonths
	if d.readCustomer().Level == "business" {
		months = d.Policy.BusinessWarranty
	}
	return addMonths(text.StartOfDay(s.Delivered), months)
}

// addMonths moves a day by months; the last day of a shorter month takes the place of a missing
// one.
func addMonths(t time.Time, months int64) time.Time {
	y, m, n := t.Date()
	last := time.Date(y, m+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC)
	if at := time.Date(y, m+time.Month(months), n, 0, 0, 0, 0, time.UTC); at.Before(last) {
		return at
	}
	return last
}

// warrantyEnd decides about the question how long the warranty lasts.
func (d *decider) warrantyEnd() {
	end, outcome := d.decideWarranty(), "warranty_until"
	if d.passed(end) {
		outcome = "warranty_over"
	}
	d.setOutcome(outcome, Fact{Slot: "warranty_end", Day: end})
}

// decideDefect decides about an item that stopped working.
func (d *decider) decideDefect() {
	it := d.readItem()
	end := d.decideWarranty()
	if d.passed(end) {
		d.setOutcome("warranty_over", Fact{Slot: "warranty_end", Day: end})
		return
	}
	d.citeRules("DMG-5")
	d.askAbout("serial")
	switch {
	case d.Misused:
		d.citeRules("DMG-7")
		d.setOutcome("misuse", Fact{Slot: "kind", Text: "misuse"})
	case d.Wish == "refund" && !d.passed(addDays(d.readShipment().Delivered, d.Policy.ReturnDays)):
		d.citeRules("DMG-6")
		d.repay(d.OrderID, it.Price, "defect_refunded")
	case d.frozen():
		d.citeRules("DMG-6", "DMG-9")
		d.repay(d.OrderID, it.Price, "refunded_in_freeze")
	case it.Stock > 0:
		d.citeRules("DMG-6")
		d.replace([]Item{*it}, 0)
	default:
		d.citeRules("DMG-6")
		d.credit(d.OrderID, it.Price, "defect_credited")
	}
}

// wrongItem decides about an item that wasn't ordered.
func (d *decider) wrongItem() {
	d.citeRules("DMG-8")
	it := *d.readItem()
	d.replace([]Item{it}, 0)
}

// The requests about deliveries.

// decideContents are the items of a parcel.
func (d *decider) decideContents(s *Shipment) (items []Item, sum Cents) {
	for _, it := range d.readOrder().Items {
		if slices.Contains(s.Contents, it.SKU) {
			items = append(items, it)
			sum += it.Price
		}
	}
	if len(items) == 0 {
		d.failf("the parcel %s is empty", s.Tracking)
	}
	return items, sum
}

// decideLoss replaces or refunds what a lost parcel contained.
func (d *decider) decideLoss(s *Shipment) {
	items, sum := d.decideContents(s)
	d.citeRules("DEL-2")
	if sum > d.Policy.LogisticsAbove {
		d.handOver("logistics", "DEL-5")
		return
	}
	d.replace(items, d.readOrder().Delivery)
}

// decideParcel decides about a parcel that hasn't arrived.
func (d *decider) decideParcel() {
	s := d.readShipment()
	if s.Status == "delivered" {
		d.notFound()
		return
	}
	d.citeRules("DEL-1")
	d.readCustomer()
	if last := d.waiting(s); !d.passed(last) {
		d.citeRules("DEL-3")
		d.setOutcome("wait_for_parcel", Fact{Slot: "lost_day", Day: nextDay(last)},
			Fact{Slot: "tracking", Text: s.Tracking})
		return
	}
	d.decideLoss(s)
}

// waiting returns the last day on which the customer waits for a parcel, or searches for one that
// is marked as delivered.
func (d *Desk) waiting(s *Shipment) time.Time {
	switch {
	case s.Status == "delivered":
		return addBusinessDays(s.Delivered, d.Policy.SearchDays)
	case d.Records.Customer.Region != "domestic":
		return addBusinessDays(s.LastScan, d.Policy.LostAbroad)
	}
	return addBusinessDays(s.LastScan, d.Policy.LostDays)
}

func nextDay(t time.Time) time.Time { return t.AddDate(0, 0, 1) }

// notFound decides about a parcel that is marked as delivered.
func (d *decider) notFound() {
	s := d.readShipment()
	d.citeRules("DEL-4")
	_, sum := d.decideContents(s)
	last := d.waiting(s)
	switch {
	case !d.passed(last):
		d.setOutcome("look_around", Fact{Slot: "act_day", Day: nextDay(last)},
			Fact{Slot: "delivered_day", Day: text.StartOfDay(s.Delivered)})
	case sum > d.Policy.LogisticsAbove:
		d.handOver("logistics", "DEL-5")
	case s.Signed:
		d.handOver("logistics", "DEL-4")
	default:
		d.decideLoss(s)
	}
}

// decideDelay decides about a parcel that came after the promised day.
func (d *decider) decideDelay() {
	o, s := d.readOrder(), d.readShipment()
	d.citeRules("DEL-6")
	switch {
	case o.Service != "express":
		d.setOutcome("no_promise", Fact{Slot: "delivered_day", Day: text.StartOfDay(s.Delivered)},
			Fact{Slot: "service", Text: "standard"})
	case !text.StartOfDay(s.Delivered).After(text.StartOfDay(o.Promised)):
		d.setOutcome("in_time", Fact{Slot: "delivered_day", Day: text.StartOfDay(s.Delivered)})
	case s.Cause == "weather" || s.Cause == "customs":
		d.decideGoodwill(s)
	default:
		d.repay(o.ID, o.Delivery, "fee_refunded")
	}
}

// decideGoodwill gives a credit for a promise that wasn't kept.
func (d *decider) decideGoodwill(s *Shipment) {
	d.citeRules("AUT-7")
	given := slices.ContainsFunc(d.Records.Credits, func(c Credit) bool {
		return (c.Why == "goodwill" || c.Why == "delay") && !d.passed(addMonths(text.StartOfDay(c.At), 12))
	})
	if given || d.readCustomer().Level == "business" {
		d.setOutcome("no_goodwill", Fact{Slot: "cause", Text: s.Cause})
		return
	}
	const credited = "goodwill_credited"
	if d.credit(d.OrderID, d.Policy.Goodwill, credited); d.out.Outcome == credited {
		d.out.Facts = append(d.out.Facts, Fact{Slot: "cause", Text: s.Cause})
	}
}

// decideAddress decides about another address.
func (d *decider) decideAddress() {
	o := d.readOrder()
	d.citeRules("DEL-7")
	if o.Status == "placed" {
		d.addEffect(Effect{Tool: Readdressing, OrderID: o.ID, Address: d.Value})
		d.setOutcome("readdressed", Fact{Slot: "address", Text: d.Value})
		return
	}
	if o.Status == "packed" {
		d.setOutcome("packed_already", Fact{Slot: "status", Text: "packed"})
		return
	}
	s := d.readShipment()
	d.setOutcome("carrier_redirects", Fact{Slot: "carrier", Text: s.Carrier}, Fact{Slot: "tracking", Text: s.Tracking})
}

// unshipped returns the price of the pieces that weren't shipped.
func (o *Order) unshipped() (sum Cents) {
	for _, it := range o.Items {
		sum += it.Price * Cents(it.Quantity-it.Shipped)
	}
	return sum
}

// decidePartial decides about pieces that weren't shipped.
func (d *decider) decidePartial() {
	o := d.readOrder()
	due := o.unshipped()
	d.citeRules("DEL-8")
	if due == 0 {
		d.setOutcome("all_shipped", Fact{Slot: "tracking", Text: d.readShipment().Tracking})
		return
	}
	d.repay(o.ID, due, "rest_refunded")
}

// decideDuties decides about duties that the carrier charged.
func (d *decider) decideDuties() {
	o, s := d.readOrder(), d.readShipment()
	d.citeRules("DEL-9")
	if o.Duties != "prepaid" {
		d.setOutcome("duties_by_recipient", Fact{Slot: "duty", Amount: s.Duty})
		return
	}
	d.repay(o.ID, s.Duty, "duties_refunded")
}
