package desk_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/desk"
)

// drawn is a world at random. Its policy is made of the numbers.
type drawn struct {
	desk.Desk
	numbers map[string]uint64
	request desk.Request
}

// drawWorld changes the standard world in everything on which a decision can depend.
func drawWorld(t *rapid.T, label, kind string) *drawn {
	number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, label+name) }
	word := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, label+name) }
	chance := func(name string, of int) bool { return number(name, 1, of) == 1 }
	cents := func(name string, most int) desk.Cents { return desk.Cents(number(name, 1, most)) }

	w, r := standard(kind)
	d := &drawn{Desk: *w, numbers: map[string]uint64{}, request: *r}
	d.Now = at("2026-05-01").AddDate(0, 0, number("now", 0, 400))
	ago := func(name string, most int) time.Time { return d.Now.AddDate(0, 0, -number(name, 0, most)) }
	d.drawPolicy(func(name string, n uint64) uint64 { return uint64(number(name, 0, int(n)-1)) })

	d.request.Opened, d.request.Misused = chance("opened", 3), chance("misused", 4)
	d.request.Wish, d.request.Reason = word("wish", "", "refund"), word("reason", "", "other_shop")
	d.request.Value = "Basic"

	rec := d.Records
	c := &rec.Customer
	c.Level, c.Region = word("level", "basic", "plus", "business"), word("region", "domestic", "eu", "overseas")
	c.Since, c.Verified = ago("since", 120), chance("verified", 2)
	if chance("review", 12) {
		c.Hold = "fraud_review"
	}

	o := &rec.Orders[0]
	o.Status, o.Placed = word("status", "placed", "packed", "shipped", "delivered"), ago("placed", 40)
	o.Delivery, o.Service = cents("fee", 1500), word("service", "standard", "express")
	o.Duties, o.Coupon = word("duties", "prepaid", "by_recipient"), word("coupon", "", "SAVE-1")
	o.Promised = ago("promised", 40)
	switch number("owner", 1, 12) {
	case 1:
		o.Owner = "CU-2"
	case 2:
		o.Owner, c.Merged = "CU-2", []string{"CU-2"}
	}
	it := &o.Items[0]
	p := d.Policy
	limit := rapid.SampledFrom([]desk.Cents{0, p.PhotoFrom, p.CreditLimit, p.RefundLimit / 2, p.RefundLimit,
		2 * p.RefundLimit, p.ReplaceLimit, p.LogisticsAbove}).Draw(t, label+"limit")
	it.Kind = word("kind", "standard", "final_sale", "custom", "hygiene")
	it.Price = max(limit-100, 400) + cents("price", 9000)
	it.ListPrice, it.Stock = it.Price+desk.Cents(number("drop", -300, 100)), int64(number("stock", 0, 1))
	if slices.Contains([]string{"return", "partial", "price_drop"}, kind) {
		it.Quantity = int64(number("quantity", 1, 3))
	}
	it.Shipped = int64(number("shipped", 0, int(it.Quantity)))
	it.Made = d.Now.AddDate(0, 0, number("made", -2, 2))
	if chance("second", 3) {
		second(&d.Desk, r)
	}

	s := &rec.Shipments[0]
	s.Status, s.Signed = word("parcel", "in_transit", "delivered"), chance("signed", 3)
	s.Delivered, s.LastScan = ago("delivered", number("age", 1, 3)*300/3), ago("scan", 30)
	s.Cause, s.Duty = word("cause", "", "weather", "customs", "sorting"), cents("duty", 9000)

	d.drawPayments(kind, number, word)
	for i := range number("refunds", 0, 4) {
		n := string(rune('0' + i))
		refunded(word("refund of"+n, "LD-1", "LD-0", "SUB-1"), word("refund to"+n, "P1", "P2"), cents("refund"+n, 6000),
			ago("refunded"+n, 120).Format(time.DateOnly))(&d.Desk, r)
	}
	for i := range number("credits", 0, 2) {
		n := string(rune('0' + i))
		credited(word("credit of"+n, "LD-1", "LD-0"), word("why"+n, "goodwill", "delay", "price"), cents("credit"+n, 6000),
			ago("credited"+n, 500).Format(time.DateOnly))(&d.Desk, r)
	}

	sub := &rec.Subscriptions[0]
	sub.Renewed, sub.Used, sub.Price = ago("renewed", 28), chance("used", 2), 1000+cents("monthly", 9000)
	sub.Until = sub.Renewed.AddDate(0, 0, 30)
	rec.Payments = append(rec.Payments, desk.Payment{ID: "P9", OrderID: sub.ID, Status: "captured", Amount: sub.Price,
		Method: "card", At: sub.Renewed})
	rec.Outages = []desk.Outage{{From: ago("outage", 9), Hours: int64(number("hours", 1, 80))}}
	return d
}

// drawPayments pays for the items and the delivery. Only requests for which the policy says
// something about it have a payment that isn't captured.
func (d *drawn) drawPayments(kind string, number func(string, int, int) int, word func(string, ...string) string) {
	o, p := d.Records.Orders[0], &d.Records.Payments[0]
	total := o.Delivery
	for _, it := range o.Items {
		total += it.Price * desk.Cents(it.Quantity)
	}
	p.Amount, p.Method, p.At = total, word("method", "card", "transfer", "gift_card"), o.Placed
	statuses := []string{"captured", "captured", "captured", "charged_back"}
	if kind == "cancel" || kind == "double_charge" {
		statuses = append(statuses, "authorised")
	}
	p.Status = word("payment", statuses...)
	switch number("ways", 1, 4) {
	case 1:
		p.Method = "card"
		mixed(total*desk.Cents(number("gift", 1, 9))/10)(&d.Desk, nil)
	case 2:
		if kind == "double_charge" {
			twin(word("twin", "captured", "authorised"))(&d.Desk, nil)
		}
	}
}

// drawPolicy makes the policy of numbers that are drawn.
func (d *drawn) drawPolicy(below func(name string, n uint64) uint64) {
	p := desk.DrawPolicy(func(name string, n uint64) uint64 {
		d.numbers[name] = below(name, n)
		return d.numbers[name]
	})
	d.Policy = &p
}

// TestDecisionsDependOnWhatIsRead replaces every record, answer and number of the policy that a
// decision doesn't name among its look-ups by another one, and wants the same decision (GEN-7).
func TestDecisionsDependOnWhatIsRead(t *testing.T) {
	shown := numbersByTopic()
	eachKind(t, func(t *rapid.T, kind string) {
		d, other := drawWorld(t, "", kind), drawWorld(t, "other ", kind)
		want, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Skip(err)
		}
		reads := map[string]bool{}
		known := map[string]bool{}
		for _, r := range want.Reads {
			reads[r.Tool] = true
			for _, name := range shown[r.Key] {
				known[name] = true
			}
		}
		rec := d.Records.Clone()
		if !reads[desk.CheckOrder] {
			rec.Orders = other.Records.Orders
		}
		if !reads[desk.CheckShipment] {
			rec.Shipments = other.Records.Shipments
		}
		if !reads[desk.CheckPayment] {
			rec.Payments = other.Records.Payments
			for i := range rec.Refunds {
				rec.Refunds[i].OrderID, rec.Refunds[i].PaymentID = "LD-1", "P1"
			}
			for i := range rec.Credits {
				rec.Credits[i].OrderID = "LD-1"
			}
		}
		request := d.request
		if !reads[desk.AskCustomer] {
			request.Answers = nil
		}
		mixed := *d
		mixed.Records = rec
		mixed.numbers = map[string]uint64{}
		mixed.drawPolicy(func(name string, _ uint64) uint64 {
			if known[name] {
				return d.numbers[name]
			}
			return other.numbers[name]
		})
		got, err := desk.DecideRequest(mixed.Desk, request)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the decision about %s depends on what it doesn't read (-want +got):\n%s", d.request.Kind, diff)
		}
	})
}

// eachKind checks a property for each kind of request.
func eachKind(t *testing.T, property func(t *rapid.T, kind string)) {
	t.Helper()
	for _, kind := range desk.ListKinds() {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, kind) })
		})
	}
}

// numbersByTopic returns the names of the numbers that each topic shows.
func numbersByTopic() map[string][]string {
	out := map[string][]string{}
	for i, part := range strings.Split("\n"+desk.PolicyDocument(), "\n# ")[2:] {
		for _, name := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(part, -1) {
			topic := desk.ListTopics()[i]
			out[topic] = append(out[topic], name[1])
		}
	}
	return out
}

// TestDecisionsKeepThePolicy wants of every decision what the policy says about all of them.
func TestDecisionsKeepThePolicy(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind string) {
		d := drawWorld(t, "", kind)
		got, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Skip(err)
		}
		for _, fault := range slices.Concat(d.faultsOfTeam(&got), d.faultsOfMoney(&got), d.faultsOfReplacements(&got)) {
			t.Errorf("%s: %s", fault, describe(got))
		}
	})
}

// aboutOrder holds for requests that name an order, by the rules in which they are.
func aboutOrder(kind string) bool {
	return !slices.Contains([]string{"cancel_subscription", "downgrade", "outage", "data_request", "email_change",
		"merge"}, kind)
}

// faultsOfTeam checks GEN-5, ACC-1 to ACC-4, MON-3 and AUT-8.
func (d *drawn) faultsOfTeam(got *desk.Decision) []string {
	var faults []string
	c, o := d.Records.Customer, d.Records.Orders[0]
	foreign := aboutOrder(d.request.Kind) && o.Owner != c.ID && !slices.Contains(c.Merged, o.Owner)
	switch {
	case c.Hold != "" && got.Outcome != "to_security":
		faults = append(faults, "security doesn't take over during a fraud review")
	case c.Hold == "" && foreign && got.Outcome != "to_trust":
		faults = append(faults, "trust doesn't take over another customer's order")
	}
	if team, handed := strings.CutPrefix(got.Outcome, "to_"); handed != (got.Handed != "") {
		faults = append(faults, "the outcome and the rule of the hand-over contradict each other")
	} else if handed {
		want := []desk.Fact{{Slot: "team", Text: team}, {Slot: "answer_day", Day: workday(d.Now, d.Policy.TeamDays)}}
		if diff := cmp.Diff(want, got.Facts); diff != "" || !slices.Equal(got.Effects,
			[]desk.Effect{{Tool: desk.Escalating, Team: team}}) {
			faults = append(faults, "a team takes over, and something else is told or changed")
		}
	}
	disputed := slices.ContainsFunc(d.Records.Payments, func(p desk.Payment) bool {
		return p.OrderID == o.ID && p.Status == "charged_back"
	})
	for _, e := range got.Effects {
		if disputed && e.OrderID == o.ID && e.Tool != desk.Readdressing {
			faults = append(faults, "an order that is charged back is changed")
		}
	}
	return faults
}

// faultsOfMoney checks MON-4 to MON-7, AUT-1, and AUT-3 to AUT-6.
func (d *drawn) faultsOfMoney(got *desk.Decision) []string {
	var faults []string
	payments := map[string]desk.Payment{}
	captured, back, refunds := desk.Cents(0), desk.Cents(0), desk.Cents(0)
	for _, p := range d.Records.Payments {
		if payments[p.ID] = p; p.Status == "captured" && p.OrderID == "LD-1" {
			captured += p.Amount
		}
	}
	told := map[string]desk.Cents{}
	arrivals := 0
	for _, f := range got.Facts {
		told[f.Slot] += f.Amount
		if f.Slot == "arrival_day" {
			arrivals++
		}
	}
	credits := desk.Cents(0)
	for _, e := range got.Effects {
		switch e.Tool {
		case desk.Refunding:
			back, refunds = back+e.Amount, refunds+1
			told["refund_amount"] -= e.Amount
			p, ok := payments[e.PaymentID]
			toGift := p.Method == "gift_card" && d.request.Kind != "double_charge" // MON-1 comes before MON-4
			if e.Amount <= 0 || ok && (toGift || p.Amount < e.Amount) {
				faults = append(faults, "a refund doesn't fit its payment")
			}
		case desk.Crediting:
			credits += e.Amount
			told["credit_amount"] -= e.Amount
			if e.Amount <= 0 {
				faults = append(faults, "a credit of nothing")
			}
		}
	}
	changed := refunds > 0 || credits > 0
	if changed && (told["refund_amount"] != 0 || told["credit_amount"] != 0 || arrivals != int(refunds)) {
		faults = append(faults, "the customer isn't told every amount and day")
	}
	refund, credit := d.limits()
	repaid := slices.Contains(got.Rules, "AUT-1")
	if repaid && back+credits > refund || !repaid && credits > credit {
		faults = append(faults, "more is given than an agent may")
	}
	if repaid && changed && d.recentRefunds() >= d.Policy.ManyRefunds {
		faults = append(faults, "a refund for a customer with many of them")
	}
	before := desk.Cents(0)
	for _, f := range d.Records.Refunds {
		if f.OrderID == "LD-1" {
			before += f.Amount
		}
	}
	for _, c := range d.Records.Credits {
		if c.OrderID == "LD-1" {
			before += c.Amount
		}
	}
	whole := slices.Contains([]string{"return", "damaged", "wrong_item", "parcel", "not_found", "partial", "cancel"},
		d.request.Kind)
	if whole && changed && back+credits+before > captured {
		faults = append(faults, "more is given back than was paid")
	}
	return faults
}

// limits are those of AUT-1 and AUT-3 for the customer.
func (d *drawn) limits() (refund, credit desk.Cents) {
	refund, credit = d.Policy.RefundLimit, d.Policy.CreditLimit
	if d.Now.Sub(d.Records.Customer.Since) < time.Duration(d.Policy.NewDays)*24*time.Hour {
		refund, credit = refund/2, credit/2
	}
	if d.Records.Customer.Level == "business" {
		refund *= 2
	}
	return refund, credit
}

func (d *drawn) recentRefunds() (n int64) {
	for _, f := range d.Records.Refunds {
		if d.Now.Sub(f.At) <= 90*24*time.Hour {
			n++
		}
	}
	return n
}

// faultsOfReplacements checks DMG-9, DMG-10, the stock and AUT-2.
func (d *drawn) faultsOfReplacements(got *desk.Decision) []string {
	sum, sent := desk.Cents(0), 0
	var faults []string
	for _, e := range got.Effects {
		if e.Tool != desk.Replacing {
			continue
		}
		sent++
		for _, it := range d.Records.Orders[0].Items {
			if it.SKU == e.SKU {
				sum += it.Price
				if it.Stock == 0 {
					faults = append(faults, "an item that is out of stock is replaced")
				}
			}
		}
	}
	freeze := d.Now.Month() == time.December && d.Now.Day() >= int(d.Policy.FreezeDay) ||
		d.Now.Month() == time.January && d.Now.Day() <= 2
	if sent > 0 && (freeze || sum > d.Policy.ReplaceLimit ||
		!slices.Contains(got.Facts, desk.Fact{Slot: "ship_day", Day: workday(d.Now, d.Policy.ShipDays)})) {
		faults = append(faults, "a replacement in the freeze, above the limit or without its day")
	}
	return faults
}

// TestConversationsNeedConfirmations compares CNV-1 and CNV-2, read anew, with decisions, and wants
// everything else as without conversations.
func TestConversationsNeedConfirmations(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind string) {
		d := drawWorld(t, "", kind)
		plain, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Skip(err)
		}
		d.Policy.Talks = true
		got, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Fatal(err)
		}
		var want []desk.Effect
		for _, e := range got.Effects {
			money := e.Tool == desk.Refunding || e.Tool == desk.Crediting
			if e.Tool == desk.Cancelling || e.Tool == desk.Readdressing || money && strings.Contains(
				" damaged defective wrong_item parcel not_found ", " "+kind+" ") {
				want = append(want, e)
			}
		}
		read := desk.Read{Tool: desk.LookUpPolicy, Key: desk.Conversations}
		if !slices.Equal(want, got.Confirms) || slices.Contains(got.Reads, read) != (len(want) > 0) {
			t.Errorf("confirmed are %v, want %v, after %v", got.Confirms, want, got.Reads)
		}
		got.Confirms = nil
		got.Reads = slices.DeleteFunc(got.Reads, func(r desk.Read) bool { return r == read })
		got.Rules = slices.DeleteFunc(got.Rules, func(rule string) bool { return strings.HasPrefix(rule, "CNV-") })
		if diff := cmp.Diff(plain, got); diff != "" {
			t.Errorf("the decision differs in a conversation (-without +in one):\n%s", diff)
		}
	})
}

// workday is the day on which a number of business days after an event is over, found by counting.
func workday(from time.Time, days int64) time.Time {
	last := from.Truncate(24 * time.Hour)
	for n := int64(0); n < days; {
		last = last.Add(24 * time.Hour)
		if !strings.HasPrefix(last.Weekday().String(), "S") {
			n++
		}
	}
	return last
}

// TestReturnsFollowThePolicy compares decisions about returns with RET-1 to RET-10, read anew.
func TestReturnsFollowThePolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawWorld(t, "", "return")
		d.Records.Customer.Hold, d.Records.Orders[0].Owner = "", "CU-1"
		d.Records.Refunds, d.Records.Credits = nil, nil
		d.drawEndOfPeriod(t)
		got, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Fatal(err)
		}
		last, sum := d.returned()
		told := desk.Fact{}
		if len(got.Facts) > 0 {
			told = got.Facts[0]
		}
		today, refund, right := d.Now.Truncate(24*time.Hour), desk.Cents(0), false
		for _, e := range got.Effects {
			refund += e.Amount
		}
		switch limit, _ := d.limits(); {
		case last.IsZero():
			right = got.Outcome == "not_returnable"
		case today.After(last):
			right = got.Outcome == "return_too_late" && told.Day.Equal(last)
		case sum > limit || d.Records.Payments[0].Status == "charged_back":
			right = got.Outcome == "to_finance"
		default:
			right = got.Outcome == "return_accepted" && refund == sum
		}
		if !right {
			t.Errorf("want the last day %s and the sum %s, got %s", last.Format(time.DateOnly), sum, describe(got))
		}
	})
}

// drawEndOfPeriod makes today a day at the end of a period of returns.
func (d *drawn) drawEndOfPeriod(t *rapid.T) {
	delivered := at(rapid.SampledFrom([]string{"2026-06-01", "2026-11-14", "2026-11-15", "2026-12-31",
		"2027-01-01"}).Draw(t, "delivery"))
	january := time.Date(delivered.Year()+1, time.January, int(d.Policy.HolidayDay), 10, 0, 0, 0, time.UTC)
	days := rapid.SampledFrom([]int64{0, 14, d.Policy.ReturnDays, d.Policy.PlusDays, d.Policy.BusinessDays,
		int64(january.Sub(delivered).Hours()) / 24}).Draw(t, "period")
	d.Now = delivered.AddDate(0, 0, int(days)+rapid.IntRange(0, 1).Draw(t, "days after"))
	d.Records.Shipments[0].Delivered = delivered
}

// returned is the last day of a return, zero if there is none, and what it is worth today.
func (d *drawn) returned() (last time.Time, sum desk.Cents) {
	c, o := d.Records.Customer, d.Records.Orders[0]
	it, delivered := o.Items[0], d.Records.Shipments[0].Delivered.Truncate(24*time.Hour)
	after := func(days int64) time.Time { return delivered.Add(time.Duration(days) * 24 * time.Hour) }
	withdrawal := after(14)
	inEU := c.Region == "eu"
	switch {
	case it.Kind == "custom", it.Kind == "hygiene" && d.request.Opened, it.Kind == "final_sale" && !inEU:
		return time.Time{}, 0
	case it.Kind == "final_sale":
		last = withdrawal
	default:
		days := map[string]int64{"basic": d.Policy.ReturnDays, "plus": d.Policy.PlusDays, "business": d.Policy.BusinessDays}
		last = after(days[c.Level])
		holidays := delivered.Format("01-02") >= "11-15" // and no day after December 31 is later in a year
		january := time.Date(delivered.Year()+1, time.January, int(d.Policy.HolidayDay), 0, 0, 0, 0, time.UTC)
		if c.Level != "business" && holidays && january.After(last) {
			last = january
		}
		if inEU && withdrawal.After(last) {
			last = withdrawal
		}
	}
	withdraws := inEU && !d.Now.Truncate(24*time.Hour).After(withdrawal)
	sum = it.Price
	if d.request.Opened && c.Level != "plus" && !withdraws {
		sum = sum * desk.Cents(100-d.Policy.RestockPercent) / 100
	}
	if withdraws && len(o.Items) == 1 && it.Quantity == 1 {
		sum += o.Delivery
	}
	return last, sum
}
