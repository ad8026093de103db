package desk

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/scenarios/text"
)

// Closed reports whether the customer must not be told more than the decision requires: during a
// fraud review (ACC-3) and about another customer's order (ACC-4).
func (r *Records) Closed() bool {
	return r.Customer.Hold != "" ||
		slices.ContainsFunc(r.Orders, func(o Order) bool { return !r.Customer.owns(&o) })
}

// TrueFacts are what a reply may tell beside what the decision requires: what the records show, the
// days on which the periods of the policy end or begin, and what was done. Slots are names of the
// vocabulary. If the records are closed, only the steps are left. The decisions are about one
// request each, and decision is all of them.
func TrueFacts(d Desk, requests []Request, decisions []Decision, decision *Decision) []Fact {
	t := &truth{Desk: d, decision: decision, seen: map[Fact]bool{}}
	t.addSteps(decisions)
	if d.Records.Closed() {
		return t.out
	}
	for _, o := range d.Records.Orders {
		t.addOrder(&o)
	}
	for _, p := range d.Records.Payments {
		t.addPayment(&p)
	}
	t.givenBefore()
	for _, s := range d.Records.Shipments {
		t.addShipment(&s)
	}
	t.addAccount()
	for _, r := range requests {
		t.addPeriods(r)
	}
	t.addDone()
	return t.out
}

// truth collects true facts.
type truth struct {
	Desk
	decision *Decision
	seen     map[Fact]bool
	out      []Fact
}

func (t *truth) addFact(f Fact) {
	if !t.seen[f] {
		t.seen[f] = true
		t.out = append(t.out, f)
	}
}

func (t *truth) addAmounts(what string, sums ...Cents) {
	for _, sum := range sums {
		if sum > 0 {
			t.addFact(Fact{Slot: what, Amount: sum})
		}
	}
}

func (t *truth) addDays(what string, days ...time.Time) {
	for _, day := range days {
		if !day.IsZero() {
			t.addFact(Fact{Slot: what, Day: text.StartOfDay(day)})
		}
	}
}

func (t *truth) addTexts(what string, texts ...string) {
	for _, text := range texts {
		if text != "" {
			t.addFact(Fact{Slot: what, Text: text})
		}
	}
}

func (t *truth) addOrder(o *Order) {
	t.addTexts("reference", o.ID, o.Coupon)
	t.addTexts("place", o.Address)
	t.addDays("starts_on", o.Placed)
	t.addDays("arrives_by", o.Promised)
	t.addDays("last_day", addDays(o.Placed, t.Policy.PriceDays), addDays(o.Placed, t.Policy.CouponDays))
	t.addAmounts("price", o.Total, o.Total-o.Delivery, o.Delivery, o.unshipped())
	if o.Status == "packed" {
		t.addTexts("reason", "packed")
	}
	if o.Service == "standard" {
		t.addTexts("reason", "standard_delivery")
	}
	for _, it := range o.Items {
		t.addAmounts("price", it.Price, it.ListPrice, it.Price*Cents(it.Quantity))
		t.addTexts("count", strconv.FormatInt(it.Quantity, 10), strconv.FormatInt(it.Shipped, 10),
			strconv.FormatInt(it.Quantity-it.Shipped, 10))
		t.addTexts("reason", map[string]string{"final_sale": "final_sale", "custom": "custom_made"}[it.Kind])
		if !it.Made.IsZero() {
			t.addDays("starts_on", it.Made)
			t.addDays("last_day", it.Made.AddDate(0, 0, -1)) // MON-9
		}
	}
}

func (t *truth) addPayment(p *Payment) {
	t.addTexts("reference", p.ID)
	switch p.Status {
	case "captured":
		t.addAmounts("charged_amount", p.Amount, t.addPaid(p.OrderID))
	case "authorised":
		t.addAmounts("held_amount", p.Amount)
		t.addTexts("reason", "reserved_only")
		t.addDays("last_day", addBusinessDays(p.At, t.Policy.HoldDays)) // MON-2
	case "charged_back":
		t.addAmounts("amount_in_question", p.Amount)
		t.addTexts("reason", "chargeback")
	}
}

// addPaid is the sum of the payments of an order that were captured.
func (t *truth) addPaid(order string) (sum Cents) {
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
		t.addTexts("reference", r.ID)
		t.addAmounts("given_before", r.Amount, sums[r.OrderID])
		t.addDays("done_by", r.At)
		// Decisions go by the payment of a refund if they know it, else by the order's payments.
		for _, payment := range []string{r.PaymentID, ""} {
			arrives := t.arrives(methodOf(t.Records.ShowPayments(r.OrderID, payment).Payments), r.At)
			t.addDays("arrives_by", arrives)
			if !t.passed(arrives) {
				t.addAmounts("refund_amount", r.Amount) // which is under way
			}
		}
	}
	for _, c := range t.Records.Credits {
		sums[c.OrderID] += c.Amount
		t.addAmounts("given_before", c.Amount, sums[c.OrderID])
		t.addDays("done_by", c.At)
	}
}

func (t *truth) addShipment(s *Shipment) {
	t.addTexts("reference", s.Tracking)
	t.addTexts("carrier", s.Carrier)
	t.addDays("delivered_on", s.Delivered)
	t.addAmounts("charged_amount", s.Duty)
	if s.Cause == "weather" || s.Cause == "customs" {
		t.addTexts("reason", s.Cause)
	}
	last := t.waiting(s)
	t.addDays("last_day", last)
	t.addDays("starts_on", s.LastScan, nextDay(last)) // DEL-3, DEL-4
}

// addAccount tells the subscriptions and outages.
func (t *truth) addAccount() {
	for _, s := range t.Records.Subscriptions {
		t.addAmounts("price", s.Price)
		t.addDays("starts_on", s.Renewed)
		t.addDays("last_day", s.Until, addDays(s.Renewed, t.Policy.CancelDays)) // SUB-1, SUB-2
		for _, p := range s.Others {
			t.addAmounts("price", p.Price)
		}
	}
	for _, o := range t.Records.Outages {
		t.addDays("starts_on", o.From)
		t.addTexts("period", fmt.Sprintf("%d hours", o.Hours))
	}
}

// addPeriods tells the last days that count from the delivery of a request's parcel, and the
// periods themselves if the decision requires one, because another one under its name would be
// wrong.
func (t *truth) addPeriods(r Request) {
	d := &decider{Desk: t.Desk, Request: r}
	if kinds()[r.Kind].aboutOrder {
		for _, s := range t.Records.ShowShipments(r.OrderID) {
			if s.Delivered.IsZero() || r.SKU != "" && !slices.Contains(s.Contents, r.SKU) {
				continue
			}
			t.addDays("last_day", addDays(s.Delivered, t.Policy.DamageDays), d.decideWarranty(), // DMG-1, DMG-4
				addDays(s.Delivered, t.Policy.ReturnDays)) // DMG-6
			last, _ := d.returnable(d.readItem())
			t.addDays("last_day", last)
			if d.readCustomer().Region == "eu" {
				t.addDays("last_day", addDays(s.Delivered, withdrawal)) // RET-5
			}
		}
	}
	if r.Misused {
		t.addTexts("reason", "misuse")
	}
	if r.Opened {
		t.addTexts("reason", "opened")
	}
	if slices.ContainsFunc(t.decision.Facts, func(f Fact) bool { return f.Days != 0 }) {
		for _, text := range t.Policy.Periods() {
			t.addTexts("period", text)
			t.addTexts("threshold", text)
		}
	}
}

// addDone tells when the steps took effect.
func (t *truth) addDone() {
	for _, e := range t.decision.Effects {
		if FindTool(e.Tool).AtOnce {
			t.addDays("done_by", t.Now)
		}
		if e.Tool == Crediting {
			t.addDays("arrives_by", t.Now) // MON-7
		}
	}
}

// addSteps tells the steps that were taken: one of several requests may be refused.
func (t *truth) addSteps(decisions []Decision) {
	t.addTexts("next_step", "explained")
	for i := range decisions {
		if len(decisions[i].Effects) == 0 {
			t.addTexts("next_step", "refused")
		}
	}
	for _, e := range t.decision.Effects {
		t.addTexts("next_step", FindTool(e.Tool).NextStep)
	}
	switch {
	case slices.Contains(t.decision.Rules, "SUB-1") || slices.Contains(t.decision.Rules, "SUB-2"):
		t.addTexts("next_step", "cancelled") // SUB-5
	case slices.Contains(t.decision.Rules, "SUB-3"):
		t.addTexts("next_step", "changed")
	}
}
