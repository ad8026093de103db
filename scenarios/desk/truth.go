package desk

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Closed reports whether the customer must not be told more than the decision requires: during a
// fraud review (ACC-3) and about another customer's order (ACC-4).
func (r *Records) Closed() bool {
	return r.Customer.Hold != "" ||
		slices.ContainsFunc(r.Orders, func(o Order) bool { return !r.Customer.owns(&o) })
}

// TrueFacts are what a reply may tell beside what the decision requires: what the records show, the
// days on which the periods of the policy end or begin, and what was done. Slots are names of the
// vocabulary. If the records are closed, only the steps are left.
func TrueFacts(d Desk, requests []Request, decision *Decision) []Fact {
	t := &truth{Desk: d, decision: decision, seen: map[Fact]bool{}}
	t.steps()
	if d.Records.Closed() {
		return t.out
	}
	for _, o := range d.Records.Orders {
		t.order(&o)
	}
	for _, p := range d.Records.Payments {
		t.payment(&p)
	}
	t.givenBefore()
	for _, s := range d.Records.Shipments {
		t.shipment(&s)
	}
	t.account()
	for _, r := range requests {
		t.periods(r)
	}
	t.done()
	return t.out
}

// truth collects true facts.
type truth struct {
	Desk
	decision *Decision
	seen     map[Fact]bool
	out      []Fact
}

func (t *truth) add(f Fact) {
	if !t.seen[f] {
		t.seen[f] = true
		t.out = append(t.out, f)
	}
}

func (t *truth) amounts(what string, sums ...Cents) {
	for _, sum := range sums {
		if sum > 0 {
			t.add(Fact{Slot: what, Amount: sum})
		}
	}
}

func (t *truth) days(what string, days ...time.Time) {
	for _, day := range days {
		if !day.IsZero() {
			t.add(Fact{Slot: what, Day: startOfDay(day)})
		}
	}
}

func (t *truth) texts(what string, texts ...string) {
	for _, text := range texts {
		if text != "" {
			t.add(Fact{Slot: what, Text: text})
		}
	}
}

func (t *truth) order(o *Order) {
	t.texts("reference", o.ID, o.Coupon)
	t.texts("place", o.Address)
	t.days("starts_on", o.Placed)
	t.days("arrives_by", o.Promised)
	t.days("last_day", addDays(o.Placed, t.Policy.PriceDays), addDays(o.Placed, t.Policy.CouponDays))
	t.amounts("price", o.Total, o.Total-o.Delivery, o.Delivery, o.unshipped())
	if o.Status == "packed" {
		t.texts("reason", "packed")
	}
	if o.Service == "standard" {
		t.texts("reason", "standard_delivery")
	}
	for _, it := range o.Items {
		t.amounts("price", it.Price, it.ListPrice, it.Price*Cents(it.Quantity))
		t.texts("count", strconv.FormatInt(it.Quantity, 10), strconv.FormatInt(it.Shipped, 10),
			strconv.FormatInt(it.Quantity-it.Shipped, 10))
		t.texts("reason", map[string]string{"final_sale": "final_sale", "custom": "custom_made"}[it.Kind])
		if !it.Made.IsZero() {
			t.days("starts_on", it.Made)
			t.days("last_day", it.Made.AddDate(0, 0, -1)) // MON-9
		}
	}
}

func (t *truth) payment(p *Payment) {
	t.texts("reference", p.ID)
	switch p.Status {
	case "captured":
		t.amounts("charged_amount", p.Amount, t.paid(p.OrderID))
	case "authorised":
		t.amounts("held_amount", p.Amount)
		t.texts("reason", "reserved_only")
		t.days("last_day", addBusinessDays(p.At, t.Policy.HoldDays)) // MON-2
	case "charged_back":
		t.amounts("amount_in_question", p.Amount)
		t.texts("reason", "chargeback")
	}
}

// paid is the sum of the payments of an order that were captured.
func (t *truth) paid(order string) (sum Cents) {
	for _, p := range t.Records.Payments {
		if p.OrderID == order && p.Status == "captured" {
			sum += p.Amount
		}
	}
	return sum
}

// givenBefore tells what was refunded and credited, each and all for an order together.
func (t *truth) givenBefore() {
	sums := map[string]Cents{}
	for _, r := range t.Records.Refunds {
		sums[r.OrderID] += r.Amount
		t.texts("reference", r.ID)
		t.amounts("given_before", r.Amount, sums[r.OrderID])
		t.days("done_by", r.At)
		// Decisions go by the payment of a refund if they know it, else by those of the order.
		for _, payment := range []string{r.PaymentID, ""} {
			arrives := t.arrives(methodOf(t.Records.ShowPayments(r.OrderID, payment).Payments), r.At)
			t.days("arrives_by", arrives)
			if !t.passed(arrives) {
				t.amounts("refund_amount", r.Amount) // which is under way
			}
		}
	}
	for _, c := range t.Records.Credits {
		sums[c.OrderID] += c.Amount
		t.amounts("given_before", c.Amount, sums[c.OrderID])
		t.days("done_by", c.At)
	}
}

func (t *truth) shipment(s *Shipment) {
	t.texts("reference", s.Tracking)
	t.texts("carrier", s.Carrier)
	t.days("delivered_on", s.Delivered)
	t.amounts("charged_amount", s.Duty)
	if s.Cause == "weather" || s.Cause == "customs" {
		t.texts("reason", s.Cause)
	}
	last := t.waiting(s)
	t.days("last_day", last)
	t.days("starts_on", s.LastScan, nextDay(last)) // DEL-3, DEL-4
}

// account tells the subscriptions and outages.
func (t *truth) account() {
	for _, s := range t.Records.Subscriptions {
		t.amounts("price", s.Price)
		t.days("starts_on", s.Renewed)
		t.days("last_day", s.Until, addDays(s.Renewed, t.Policy.CancelDays)) // SUB-1, SUB-2
		for _, p := range s.Others {
			t.amounts("price", p.Price)
		}
	}
	for _, o := range t.Records.Outages {
		t.days("starts_on", o.From)
		t.texts("period", fmt.Sprintf("%d hours", o.Hours))
	}
}

// periods tells the last days that count from the delivery of a request's parcel, and the periods
// themselves if the decision requires one, because another one under its name would be wrong.
func (t *truth) periods(r Request) {
	d := &decider{Desk: t.Desk, Request: r}
	if r.aboutOrder() {
		for _, s := range t.Records.ShowShipments(r.OrderID) {
			if s.Delivered.IsZero() || r.SKU != "" && !slices.Contains(s.Contents, r.SKU) {
				continue
			}
			t.days("last_day", addDays(s.Delivered, t.Policy.DamageDays), d.warranty(), // DMG-1, DMG-4
				addDays(s.Delivered, t.Policy.ReturnDays)) // DMG-6
			last, _ := d.returnable(d.item())
			t.days("last_day", last)
			if d.customer().Region == "eu" {
				t.days("last_day", addDays(s.Delivered, withdrawal)) // RET-5
			}
		}
	}
	if r.Misused {
		t.texts("reason", "misuse")
	}
	if r.Opened {
		t.texts("reason", "opened")
	}
	if slices.ContainsFunc(t.decision.Facts, func(f Fact) bool { return f.Days != 0 }) {
		for _, text := range t.Policy.Periods() {
			t.texts("period", text)
			t.texts("threshold", text)
		}
	}
}

// done tells when the steps took effect.
func (t *truth) done() {
	for _, e := range t.decision.Effects {
		if FindTool(e.Tool).AtOnce {
			t.days("done_by", t.Now)
		}
		if e.Tool == Crediting {
			t.days("arrives_by", t.Now) // MON-7
		}
	}
}

// steps tells the steps that were taken.
func (t *truth) steps() {
	for _, e := range t.decision.Effects {
		t.texts("next_step", FindTool(e.Tool).NextStep)
	}
	switch {
	case slices.Contains(t.decision.Rules, "SUB-1") || slices.Contains(t.decision.Rules, "SUB-2"):
		t.texts("next_step", "cancelled") // SUB-5
	case slices.Contains(t.decision.Rules, "SUB-3"):
		t.texts("next_step", "changed")
	}
	if len(t.decision.Effects) == 0 {
		t.texts("next_step", "refused", "explained")
	}
}
