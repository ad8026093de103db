package desk

import (
	"cmp"
	"slices"
	"time"

	"github.com/csenv/csenv/scenarios/text"
)

// The pipelines of refunds, credits and replacements: every rule that can stop them comes first.

// chargedBack hands the case to finance if a payment of the order is charged back.
func (d *decider) chargedBack(id string) bool {
	for _, p := range d.readPayments(id) {
		if p.Status == "charged_back" {
			d.handOver("finance", "MON-3")
			return true
		}
	}
	return false
}

// earlier returns what was refunded and credited for an order before. check_payment shows it.
func (d *decider) earlier(id string) (sum Cents) {
	d.readPayments(id)
	for _, r := range d.Records.Refunds {
		if r.OrderID == id {
			sum += r.Amount
		}
	}
	for _, c := range d.Records.Credits {
		if c.OrderID == id {
			sum += c.Amount
		}
	}
	return sum
}

// repay refunds an amount of an order or a subscription, less what was given before.
func (d *decider) repay(id string, due Cents, outcome string) {
	if before := d.earlier(id); before > 0 {
		d.citeRules("MON-6")
		if due -= before; due <= 0 {
			d.setOutcome("nothing_left", Fact{Slot: "given_before", Amount: before})
			return
		}
	}
	if d.refundLimited(due) || d.chargedBack(id) {
		return
	}
	d.payBack(id, due)
	d.setOutcome(outcome)
}

// refundLimited hands the case to finance if an agent may not refund the amount.
func (d *decider) refundLimited(due Cents) bool {
	c := d.readCustomer()
	recent := int64(0)
	for _, r := range d.Records.Refunds {
		if !d.passed(addDays(r.At, 90)) {
			recent++
		}
	}
	if recent >= d.Policy.ManyRefunds {
		d.handOver("finance", "AUT-6")
		return true
	}
	limit := d.halved(d.Policy.RefundLimit)
	if c.Level == "business" {
		limit *= 2
		d.citeRules("AUT-5")
	}
	d.citeRules("AUT-1")
	if due > limit {
		d.handOver("finance", "AUT-1")
		return true
	}
	return false
}

// halved returns a limit for the customer: half of it for new ones.
func (d *decider) halved(limit Cents) Cents {
	if text.StartOfDay(d.Now).Before(addDays(d.readCustomer().Since, d.Policy.NewDays)) {
		d.citeRules("AUT-4")
		return limit / 2
	}
	return limit
}

// payBack refunds to the card or the bank account first, and gives the rest as store credit.
func (d *decider) payBack(id string, due Cents) {
	var captured []Payment
	for _, p := range d.readPayments(id) {
		if p.Status == "captured" {
			captured = append(captured, p)
		}
	}
	for _, p := range captured {
		part := min(due, p.Amount)
		if p.Method == "gift_card" || part <= 0 {
			continue
		}
		e := Effect{Tool: Refunding, OrderID: id, Amount: part}
		if len(captured) > 1 {
			e.PaymentID = p.ID
		}
		d.addEffect(e)
		d.out.Facts = append(d.out.Facts, Fact{Slot: "refund_amount", Amount: part}, d.arrival(p.Method, d.Now))
		due -= part
	}
	if due <= 0 {
		return
	}
	d.citeRules("MON-4")
	if len(captured) > 1 {
		d.citeRules("MON-5")
	}
	d.addEffect(Effect{Tool: Crediting, OrderID: id, Amount: due})
	d.out.Facts = append(d.out.Facts, Fact{Slot: "credit_amount", Amount: due})
}

// arrival is the day by which a refund made at a time has arrived.
func (d *decider) arrival(method string, made time.Time) Fact {
	d.citeRules("MON-7")
	return Fact{Slot: "arrival_day", Day: d.arrives(method, made)}
}

func (d *Desk) arrives(method string, made time.Time) time.Time {
	if method == "transfer" {
		return addBusinessDays(made, d.Policy.TransferDays)
	}
	return addBusinessDays(made, d.Policy.CardDays)
}

// credit gives store credit.
func (d *decider) credit(id string, amount Cents, outcome string) {
	limit := d.halved(d.Policy.CreditLimit)
	d.citeRules("AUT-3")
	if amount > limit {
		d.handOver("finance", "AUT-3")
		return
	}
	if id != "" && d.chargedBack(id) {
		return
	}
	d.addEffect(Effect{Tool: Crediting, OrderID: id, Amount: amount})
	d.setOutcome(outcome, Fact{Slot: "credit_amount", Amount: amount})
}

// replace sends items of the order again. Instead it refunds their price and the extra amount if
// the warehouse is closed or lacks one of them.
func (d *decider) replace(items []Item, extra Cents) {
	sum, stocked := Cents(0), true
	for _, it := range items {
		sum += it.Price
		stocked = stocked && it.Stock > 0
	}
	switch {
	case !stocked:
		d.repay(d.OrderID, sum+extra, "refunded_out_of_stock")
	case d.frozen():
		d.citeRules("DMG-9")
		d.repay(d.OrderID, sum+extra, "refunded_in_freeze")
	case d.chargedBack(d.OrderID):
	default:
		d.readTopic("damage") // which says when the warehouse is closed
		d.citeRules("AUT-2")
		if sum > d.Policy.ReplaceLimit {
			d.handOver("logistics", "AUT-2")
			return
		}
		for _, it := range items {
			d.addEffect(Effect{Tool: Replacing, OrderID: d.OrderID, SKU: it.SKU})
		}
		d.citeRules("DMG-10")
		d.setOutcome("replaced", Fact{Slot: "ship_day", Day: addBusinessDays(d.Now, d.Policy.ShipDays)})
	}
}

// frozen reports whether the warehouse sends no replacements.
func (d *decider) frozen() bool {
	_, m, n := d.Now.UTC().Date()
	return m == time.December && int64(n) >= d.Policy.FreezeDay || m == time.January && n <= 2
}

// doubleCharge decides about an order that the customer believes to have paid twice.
func (d *decider) doubleCharge() {
	if d.chargedBack(d.OrderID) {
		return
	}
	d.citeRules("MON-1")
	var captured, held []Payment
	for _, p := range d.readPayments(d.OrderID) {
		switch p.Status {
		case "captured":
			captured = append(captured, p)
		case "authorised":
			held = append(held, p)
		}
	}
	switch later := findDuplicate(captured); {
	case later.ID != "":
		for _, r := range d.Records.Refunds {
			if r.PaymentID == later.ID {
				d.underWay(&r, later.Method, "refunded_before", "given_before")
				return
			}
		}
		if d.refundLimited(later.Amount) {
			return
		}
		d.addEffect(Effect{Tool: Refunding, OrderID: d.OrderID, PaymentID: later.ID, Amount: later.Amount})
		d.setOutcome("refunded", Fact{Slot: "refund_amount", Amount: later.Amount}, d.arrival(later.Method, d.Now))
	case len(held) > 0:
		d.held(held[0], "hold_expires")
	case len(captured) > 0:
		paid := Cents(0)
		for _, p := range captured {
			paid += p.Amount
		}
		d.setOutcome("charged_once", Fact{Slot: "paid_amount", Amount: paid})
	default:
		d.failf("order %s has no payment", d.OrderID)
	}
}

// findDuplicate returns the later one of two payments of the same amount that were made in the same
// way, the zero payment if there are no such two.
func findDuplicate(captured []Payment) Payment {
	for i, p := range captured {
		for _, q := range captured[:i] {
			switch {
			case p.Amount != q.Amount || p.Method != q.Method:
			case p.At.Before(q.At):
				return q
			default:
				return p
			}
		}
	}
	return Payment{}
}

// refundStatus decides about a refund that the customer waits for.
func (d *decider) refundStatus() {
	method := methodOf(d.readPayments(d.OrderID))
	for _, r := range d.Records.Refunds {
		if r.OrderID == d.OrderID {
			d.underWay(&r, method, "refund_under_way", "refund_amount")
			return
		}
	}
	d.failf("order %s has no refund", d.OrderID)
}

// methodOf returns the way in which an order was paid.
func methodOf(payments []Payment) string {
	method := "card"
	for _, p := range payments {
		if p.Status == "captured" {
			method = p.Method
		}
	}
	return method
}

// underWay tells the amount, in a slot, and the arrival of a refund that was made before.
func (d *decider) underWay(r *Refund, method, outcome, slot string) {
	d.citeRules("MON-12")
	arrival := d.arrival(method, r.At)
	if d.passed(arrival.Day) {
		d.handOver("finance", "MON-12")
		return
	}
	d.setOutcome(outcome, Fact{Slot: slot, Amount: r.Amount}, arrival)
}

// cancel decides about an order that isn't wanted any more.
func (d *decider) cancel() {
	o, custom := d.readOrder(), time.Time{}
	for _, it := range o.Items {
		if it.Kind == "custom" {
			custom = it.Made
		}
	}
	switch {
	case o.Status != "placed":
		d.citeRules("MON-8")
		d.setOutcome("too_late_to_cancel", Fact{Slot: "return_days", Days: d.returnPeriod()})
	case !custom.IsZero() && !text.StartOfDay(d.Now).Before(text.StartOfDay(custom)):
		d.citeRules("MON-9")
		d.setOutcome("in_production", Fact{Slot: "production_day", Day: text.StartOfDay(custom)})
	default:
		d.cancelled(o)
	}
}

func (d *decider) cancelled(o *Order) {
	d.citeRules("MON-8")
	paid, held := Cents(0), Payment{}
	for _, p := range d.readPayments(o.ID) {
		switch p.Status {
		case "captured":
			paid += p.Amount
		case "authorised":
			held = p
		}
	}
	due, before := paid, d.earlier(o.ID)
	if paid > 0 && before > 0 {
		d.citeRules("MON-6")
		due -= before
	}
	if d.chargedBack(o.ID) || due > 0 && d.refundLimited(due) {
		return
	}
	d.addEffect(Effect{Tool: Cancelling, OrderID: o.ID})
	switch {
	case due > 0:
		d.payBack(o.ID, due)
		d.setOutcome("cancelled")
	case paid > 0:
		d.setOutcome("cancelled", Fact{Slot: "given_before", Amount: before})
	}
	if held.ID != "" {
		d.held(held, cmp.Or(d.out.Outcome, "cancelled_unpaid"))
	}
}

// held tells when a payment expires that is only authorised.
func (d *decider) held(p Payment, outcome string) {
	d.citeRules("MON-2")
	d.setOutcome(outcome, Fact{Slot: "held_amount", Amount: p.Amount},
		Fact{Slot: "expiry_day", Day: addBusinessDays(p.At, d.Policy.HoldDays)})
}

// priceDrop decides about a lower price after the order.
func (d *decider) priceDrop() {
	o, it := d.readOrder(), d.readItem()
	d.citeRules("MON-10")
	last := addDays(o.Placed, d.Policy.PriceDays)
	switch {
	case d.Reason == "other_shop" && it.ListPrice >= it.Price:
		d.setOutcome("other_shop", Fact{Slot: "price_days", Days: d.Policy.PriceDays})
		return
	case it.Kind == "final_sale":
		d.setOutcome("final_sale", Fact{Slot: "kind", Text: "final sale"})
		return
	}
	d.readPayments(o.ID) // shows the credits of the order
	given := slices.IndexFunc(d.Records.Credits, func(c Credit) bool { return c.OrderID == o.ID && c.Why == "price" })
	switch {
	case given >= 0:
		d.setOutcome("price_given_before", Fact{Slot: "given_before", Amount: d.Records.Credits[given].Amount})
	case d.passed(last):
		d.setOutcome("price_too_late", Fact{Slot: "last_day", Day: last})
	case it.ListPrice >= it.Price:
		d.setOutcome("no_drop", Fact{Slot: "shop_price", Amount: it.ListPrice})
	default:
		d.credit(o.ID, (it.Price-it.ListPrice)*Cents(it.Quantity), "price_credited")
	}
}

// decideCoupon decides about a coupon that was forgotten.
func (d *decider) decideCoupon() {
	o := d.readOrder()
	d.citeRules("MON-11")
	last := addDays(o.Placed, d.Policy.CouponDays)
	switch {
	case o.Coupon != "":
		d.setOutcome("coupon_used", Fact{Slot: "coupon", Text: o.Coupon})
	case d.passed(last):
		d.setOutcome("coupon_too_late", Fact{Slot: "last_day", Day: last})
	default:
		sum := Cents(0)
		for _, it := range o.Items {
			sum += it.Price * Cents(it.Quantity)
		}
		d.credit(o.ID, sum*Cents(d.Policy.CouponPercent)/100, "coupon_credited")
	}
}
