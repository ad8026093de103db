package desk

import (
	"slices"
	"time"
)

// returnPeriod returns the days of the customer's return period.
func (d *decider) returnPeriod() int64 {
	switch d.customer().Level {
	case "plus":
		d.cite("RET-2")
		return d.Policy.PlusDays
	case "business":
		d.cite("RET-3")
		return d.Policy.BusinessDays
	}
	d.cite("RET-1")
	return d.Policy.ReturnDays
}

// withdrawal is the number of days within which customers in the EU may withdraw.
const withdrawal = 14

// returnable returns the last day on which the item can be returned, zero if it can't be at all,
// and whether the right to withdraw applies. What kind of item it is comes before its delivery.
func (d *decider) returnable(it *Item) (last time.Time, withdraws bool) {
	eu := d.customer().Region == "eu"
	switch {
	case it.Kind == "hygiene" && d.Opened:
		d.cite("RET-8")
		return time.Time{}, false
	case it.Kind == "custom":
		d.cite("RET-7")
		return time.Time{}, false
	case it.Kind == "final_sale" && !eu:
		d.cite("RET-6")
		return time.Time{}, false
	}
	delivered := d.shipment().Delivered
	withdrawn := addDays(delivered, withdrawal)
	withdraws = eu && !d.passed(withdrawn)
	if it.Kind == "final_sale" {
		d.cite("RET-5", "RET-6")
		return withdrawn, withdraws
	}
	last = d.returnUntil(delivered)
	if eu && (withdraws || withdrawn.After(last)) {
		d.cite("RET-5")
	}
	if eu && withdrawn.After(last) {
		last = withdrawn
	}
	return last, withdraws
}

// returnUntil returns the last day of the return period.
func (d *decider) returnUntil(delivered time.Time) time.Time {
	last := addDays(delivered, d.returnPeriod())
	if _, m, n := delivered.UTC().Date(); d.customer().Level != "business" &&
		(m == time.December || m == time.November && n >= 15) {
		d.cite("RET-4")
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

// returns decides about an item that isn't wanted any more.
func (d *decider) returns() {
	o, it := d.order(), d.item()
	last, withdraws := d.returnable(it)
	switch {
	case last.IsZero():
		d.cite("RET-11")
		d.end("not_returnable", Fact{Slot: "kind", Text: kindName(it.Kind)})
		return
	case d.passed(last):
		d.cite("RET-11")
		d.end("return_too_late", Fact{Slot: "last_day", Day: last})
		return
	}
	due := it.Price
	d.cite("RET-9")
	if d.Opened && !withdraws && d.customer().Level != "plus" {
		due = due * Cents(100-d.Policy.RestockPercent) / 100
	}
	if withdraws && len(o.Items) == 1 && it.Quantity == 1 {
		d.cite("RET-10")
		due += o.Delivery
	}
	d.repay(o.ID, due, "return_accepted")
}

// returnDeadline decides about the question until when an item can be returned.
func (d *decider) returnDeadline() {
	it := d.item()
	last, _ := d.returnable(it)
	switch {
	case last.IsZero():
		d.end("not_returnable", Fact{Slot: "kind", Text: kindName(it.Kind)})
	case d.passed(last):
		d.end("return_too_late", Fact{Slot: "last_day", Day: last})
	default:
		d.end("return_until", Fact{Slot: "last_day", Day: last})
	}
}

// damaged decides about an item that arrived damaged.
func (d *decider) damaged() {
	it, s := d.item(), d.shipment()
	d.cite("DMG-1")
	last := addDays(s.Delivered, d.Policy.DamageDays)
	if d.passed(last) {
		d.end("damage_too_late", Fact{Slot: "last_day", Day: last})
		return
	}
	if it.Price >= d.Policy.PhotoFrom {
		d.cite("DMG-2")
		d.ask("photo")
	}
	switch {
	case d.Misused:
		d.cite("DMG-7")
		d.end("misuse", Fact{Slot: "kind", Text: "misuse"})
	case d.Wish == "refund":
		d.cite("DMG-3")
		d.repay(d.OrderID, it.Price, "damage_refunded")
	default:
		d.cite("DMG-3")
		d.replace([]Item{*it}, 0)
	}
}

// warranty returns the last day of the warranty.
func (d *decider) warranty() time.Time {
	s := d.shipment()
	d.cite("DMG-4")
	months := d.Policy.WarrantyMonths
	if d.customer().Level == "business" {
		months = d.Policy.BusinessWarranty
	}
	return addMonths(startOfDay(s.Delivered), months)
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
	end, outcome := d.warranty(), "warranty_until"
	if d.passed(end) {
		outcome = "warranty_over"
	}
	d.end(outcome, Fact{Slot: "warranty_end", Day: end})
}

// defective decides about an item that stopped working.
func (d *decider) defective() {
	it := d.item()
	end := d.warranty()
	if d.passed(end) {
		d.end("warranty_over", Fact{Slot: "warranty_end", Day: end})
		return
	}
	d.cite("DMG-5")
	d.ask("serial")
	switch {
	case d.Misused:
		d.cite("DMG-7")
		d.end("misuse", Fact{Slot: "kind", Text: "misuse"})
	case d.Wish == "refund" && !d.passed(addDays(d.shipment().Delivered, d.Policy.ReturnDays)):
		d.cite("DMG-6")
		d.repay(d.OrderID, it.Price, "defect_refunded")
	case d.frozen():
		d.cite("DMG-6", "DMG-9")
		d.repay(d.OrderID, it.Price, "refunded_in_freeze")
	case it.Stock > 0:
		d.cite("DMG-6")
		d.replace([]Item{*it}, 0)
	default:
		d.cite("DMG-6")
		d.credit(d.OrderID, it.Price, "defect_credited")
	}
}

// wrongItem decides about an item that wasn't ordered.
func (d *decider) wrongItem() {
	d.cite("DMG-8")
	it := *d.item()
	d.replace([]Item{it}, 0)
}

// The requests about deliveries.

// contents are the items of a parcel.
func (d *decider) contents(s *Shipment) (items []Item, sum Cents) {
	for _, it := range d.order().Items {
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

// lost replaces or refunds what a lost parcel contained.
func (d *decider) lost(s *Shipment) {
	items, sum := d.contents(s)
	d.cite("DEL-2")
	if sum > d.Policy.LogisticsAbove {
		d.hand("logistics", "DEL-5")
		return
	}
	d.replace(items, d.order().Delivery)
}

// parcel decides about a parcel that hasn't arrived.
func (d *decider) parcel() {
	s := d.shipment()
	if s.Status == "delivered" {
		d.notFound()
		return
	}
	d.cite("DEL-1")
	d.customer()
	if last := d.waiting(s); !d.passed(last) {
		d.cite("DEL-3")
		d.end("wait_for_parcel", Fact{Slot: "lost_day", Day: nextDay(last)}, Fact{Slot: "tracking", Text: s.Tracking})
		return
	}
	d.lost(s)
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
	s := d.shipment()
	d.cite("DEL-4")
	_, sum := d.contents(s)
	last := d.waiting(s)
	switch {
	case !d.passed(last):
		d.end("look_around", Fact{Slot: "act_day", Day: nextDay(last)},
			Fact{Slot: "delivered_day", Day: startOfDay(s.Delivered)})
	case sum > d.Policy.LogisticsAbove:
		d.hand("logistics", "DEL-5")
	case s.Signed:
		d.hand("logistics", "DEL-4")
	default:
		d.lost(s)
	}
}

// late decides about a parcel that came after the promised day.
func (d *decider) late() {
	o, s := d.order(), d.shipment()
	d.cite("DEL-6")
	switch {
	case o.Service != "express":
		d.end("no_promise", Fact{Slot: "delivered_day", Day: startOfDay(s.Delivered)},
			Fact{Slot: "service", Text: "standard"})
	case !startOfDay(s.Delivered).After(startOfDay(o.Promised)):
		d.end("in_time", Fact{Slot: "delivered_day", Day: startOfDay(s.Delivered)})
	case s.Cause == "weather" || s.Cause == "customs":
		d.goodwill(s)
	default:
		d.repay(o.ID, o.Delivery, "fee_refunded")
	}
}

// goodwill gives a credit for a promise that wasn't kept.
func (d *decider) goodwill(s *Shipment) {
	d.cite("AUT-7")
	given := slices.ContainsFunc(d.Records.Credits, func(c Credit) bool {
		return (c.Why == "goodwill" || c.Why == "delay") && !d.passed(addMonths(startOfDay(c.At), 12))
	})
	if given || d.customer().Level == "business" {
		d.end("no_goodwill", Fact{Slot: "cause", Text: s.Cause})
		return
	}
	const credited = "goodwill_credited"
	if d.credit(d.OrderID, d.Policy.Goodwill, credited); d.out.Outcome == credited {
		d.out.Facts = append(d.out.Facts, Fact{Slot: "cause", Text: s.Cause})
	}
}

// readdress decides about another address.
func (d *decider) readdress() {
	o := d.order()
	d.cite("DEL-7")
	if o.Status == "placed" {
		d.effect(Effect{Tool: Readdressing, OrderID: o.ID, Address: d.Value})
		d.end("readdressed", Fact{Slot: "address", Text: d.Value})
		return
	}
	if o.Status == "packed" {
		d.end("packed_already", Fact{Slot: "status", Text: "packed"})
		return
	}
	s := d.shipment()
	d.end("carrier_redirects", Fact{Slot: "carrier", Text: s.Carrier}, Fact{Slot: "tracking", Text: s.Tracking})
}

// unshipped returns the price of the pieces that weren't shipped.
func (o *Order) unshipped() (sum Cents) {
	for _, it := range o.Items {
		sum += it.Price * Cents(it.Quantity-it.Shipped)
	}
	return sum
}

// partial decides about pieces that weren't shipped.
func (d *decider) partial() {
	o := d.order()
	due := o.unshipped()
	d.cite("DEL-8")
	if due == 0 {
		d.end("all_shipped", Fact{Slot: "tracking", Text: d.shipment().Tracking})
		return
	}
	d.repay(o.ID, due, "rest_refunded")
}

// duties decides about duties that the carrier charged.
func (d *decider) duties() {
	o, s := d.order(), d.shipment()
	d.cite("DEL-9")
	if o.Duties != "prepaid" {
		d.end("duties_by_recipient", Fact{Slot: "duty", Amount: s.Duty})
		return
	}
	d.repay(o.ID, s.Duty, "duties_refunded")
}
