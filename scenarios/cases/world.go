package cases

import (
	"strconv"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/text"
)

// world is a desk while its records are drawn.
type world struct {
	key   expr.StreamKey
	specs map[string]*spec
	goods *goods
	// language is the language of the names of products and people.
	language string
	people   *params.NameList
	policy   desk.Policy
	now      time.Time
	desk.Records
	// address is the one that the customer wants, and item the request's.
	address string
	item    desk.Item
	// talk is what is drawn for a conversation, nil for other cases.
	talk *drawnTalk
}

func (w *world) value(name string) value {
	if s := w.specs[name]; s != nil {
		return s.draw(w.key, name, w.base)
	}
	return defaults()[name]
}

func (w *world) text(name string) string       { return w.value(name).text }
func (w *world) flag(name string) bool         { return w.value(name).number != 0 }
func (w *world) count(name string) int64       { return w.value(name).number }
func (w *world) amount(name string) desk.Cents { return desk.Cents(w.value(name).number) }

// below returns a number from 0 to n-1 from a stream of its own.
func (w *world) below(name string, n int) int {
	return int(w.key.Stream(name).Below(uint64(n))) //nolint:gosec // below n
}

func pickItem[T any](w *world, name string, from []T) T { return from[w.below(name, len(from))] }

// id returns an id of the pattern.
func (w *world) id(name string, pattern expr.IDPattern) string {
	return pattern.Draw(w.key.Stream(name))
}

// base returns the number of the policy that near names, for the customer's level and region where
// the policy distinguishes them.
func (w *world) base(near string) int64 {
	level, abroad := w.text("level"), w.text("region") != "domestic"
	switch {
	case near == "return_days" && level == "plus":
		return w.policy.PlusDays
	case near == "return_days" && level == "business":
		return w.policy.BusinessDays
	case near == "warranty_days" && level == "business":
		return w.policy.BusinessWarranty * 365 / 12
	case near == "warranty_days":
		return w.policy.WarrantyMonths * 365 / 12
	case near == "lost_days" && abroad:
		return w.policy.LostAbroad
	}
	n, _ := w.policy.Number(near)
	return n
}

// drawNow draws a time of the desk's hours.
func (w *world) drawNow() time.Time {
	first, days := time.Date(2026, 2, 12, 0, 0, 0, 0, time.UTC), 270
	switch w.text("season") {
	case "holiday":
		first, days = time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC), 40
	case "freeze":
		first, days = time.Date(2026, 12, 12, 0, 0, 0, 0, time.UTC), 24
	}
	quarters := w.below("now.time", 9*4)
	return first.AddDate(0, 0, w.below("now.day", days)).Add(8*time.Hour + time.Duration(quarters)*15*time.Minute)
}

// ago returns the time of some days ago, at an hour of the day.
func (w *world) ago(days int64, hour int) time.Time {
	y, m, d := w.now.Date()
	return time.Date(y, m, d-int(days), hour, 10, 0, 0, time.UTC)
}

func (w *world) drawCustomer() {
	person := w.people.Person(w.key.Stream("person"))
	w.Customer = desk.Customer{
		ID: w.id("customer", customerID), Name: person["full"], Email: person["email"], Level: w.text("level"),
		Region: w.text("region"), Since: w.ago(w.count("since"), 12), Verified: w.flag("verified"),
	}
	if w.flag("hold") {
		w.Customer.Hold = "fraud_review"
	}
}

func (w *world) drawOrder() {
	status, delivered, placed := w.text("status"), w.count("delivered"), w.count("placed")
	o := desk.Order{
		ID: w.id("order", orderID), Owner: w.Customer.ID, Status: status, Delivery: w.amount("fee"),
		Service: w.text("service"), Address: pickItem(w, "address", w.goods.Addresses),
	}
	if status == "delivered" {
		placed += delivered
	}
	o.Placed = w.ago(placed, 9+w.below("placed.hour", 12))
	w.address = pickItem(w, "new_address", w.goods.Addresses)
	if w.address == o.Address {
		w.address = w.goods.Addresses[(w.below("address", len(w.goods.Addresses))+1)%len(w.goods.Addresses)]
	}
	if o.Service == "express" {
		o.Promised = w.ago(delivered-w.count("promised"), 20)
	}
	if duties := w.text("duties"); duties != "none" {
		o.Duties = duties
	}
	if w.flag("coupon") {
		o.Coupon = w.id("coupon.id", couponID)
	}
	switch w.text("owner") {
	case "merged":
		o.Owner = w.id("other", customerID)
		w.Customer.Merged = []string{o.Owner}
	case "stranger":
		o.Owner = w.id("other", customerID)
	}
	w.drawItems(&o)
	for _, it := range o.Items {
		o.Total += it.Price * desk.Cents(it.Quantity)
	}
	o.Total += o.Delivery
	if w.flag("outdated") {
		o.Status = "shipped"
	}
	w.Orders = append(w.Orders, o)
	if status == "shipped" || status == "delivered" {
		w.drawShipment(&o)
	}
}

func (w *world) drawItems(o *desk.Order) {
	kind := w.text("kind")
	names := w.goods.products(kind, w.language)
	first := w.below("product", len(names))
	for i := range int(w.count("items")) {
		n := strconv.Itoa(i)
		it := desk.Item{
			SKU: w.id("sku"+n, skuID), Name: names[(first+i)%len(names)], Kind: kind, Price: w.amount("price"),
			Quantity: w.count("quantity"), Stock: w.count("stock"),
		}
		if i > 0 {
			others := w.goods.products("standard", w.language)
			it.Name, it.Kind = others[(w.below("product", len(others))+3*i)%len(others)], "standard"
			it.Price = desk.Cents(900 + 50*w.below("price"+n, 90))
			it.Quantity, it.Stock = 1, int64(2+w.below("stock"+n, 20))
		}
		it.ListPrice = it.Price * desk.Cents(w.count("list_price")) / 100
		if i > 0 {
			it.ListPrice = it.Price
		}
		if o.Status == "shipped" || o.Status == "delivered" {
			it.Shipped = it.Quantity
			if i == 0 {
				it.Shipped -= min(w.count("unshipped"), it.Quantity)
			}
		}
		if kind == "custom" && i == 0 && it.Shipped == 0 {
			it.Made = w.ago(-w.count("made"), 6)
		}
		o.Items = append(o.Items, it)
	}
	w.item = o.Items[0]
}

func (w *world) drawShipment(o *desk.Order) {
	s := desk.Shipment{
		Tracking: w.id("tracking", trackingID), OrderID: o.ID, Carrier: pickItem(w, "carrier", w.goods.Carriers),
		Status: "in_transit", Duty: w.amount("duty"),
	}
	if cause := w.text("cause"); cause != "none" {
		s.Cause = cause
	}
	for _, it := range o.Items {
		if it.Shipped > 0 || it.Quantity == 0 {
			s.Contents = append(s.Contents, it.SKU)
		}
	}
	if w.text("status") == "delivered" {
		s.Status, s.Signed = "delivered", w.flag("signed")
		s.Delivered = w.ago(w.count("delivered"), 8+w.below("delivered.hour", 11))
		s.LastScan = s.Delivered
	} else {
		day := text.AddBusinessDays(text.StartOfDay(w.now), -int(w.count("scan")))
		s.LastScan = day.Add(time.Duration(6+w.below("scan.hour", 14)) * time.Hour)
	}
	w.Shipments = append(w.Shipments, s)
}

func (w *world) drawPayments() {
	o := &w.Orders[0]
	p := desk.Payment{ID: w.id("payment", paymentID), OrderID: o.ID, Status: w.text("captured"), Amount: o.Total,
		Method: w.text("paid"), At: o.Placed}
	// A gift card is charged at once and can't be charged back: a card paid a part of such an
	// order.
	switch {
	case p.Method == "mixed" || p.Method == "gift_card" && p.Status == "charged_back":
		gift := p
		gift.ID, gift.Method, gift.Status = w.id("payment.gift", paymentID), "gift_card", "captured"
		gift.Amount = o.Total * desk.Cents(w.count("gift")) / 100
		p.Method, p.Amount = "card", o.Total-gift.Amount
		w.Payments = append(w.Payments, gift)
	case p.Method == "gift_card":
		p.Status = "captured"
	}
	w.Payments = append(w.Payments, p)
	second := w.text("second")
	if second == "none" {
		return
	}
	twin := p
	twin.ID, twin.At = w.id("payment.second", paymentID), p.At.Add(4*time.Minute)
	if days := w.count("second_paid"); second == "authorised" && days > 0 {
		twin.At = w.ago(days, 15)
	}
	twin.Status = "captured"
	if second == "authorised" {
		twin.Status = "authorised"
	}
	w.Payments = append(w.Payments, twin)
	if second == "refunded" {
		w.Refunds = append(w.Refunds, desk.Refund{ID: w.id("refund.second", refundID), OrderID: o.ID,
			PaymentID: twin.ID, Amount: twin.Amount, At: w.ago(w.count("earlier_days"), 11)})
	}
}

// drawPast draws what the customer was given before.
func (w *world) drawPast() {
	o := &w.Orders[0]
	for i := range int(w.count("recent_refunds")) {
		n := strconv.Itoa(i)
		w.Refunds = append(w.Refunds, desk.Refund{ID: w.id("refund"+n, refundID), OrderID: w.id("past"+n, orderID),
			Amount: desk.Cents(700 + 25*w.below("past.amount"+n, 200)), At: w.ago(int64(8+20*i), 14)})
	}
	sum, at := w.amount("earlier_amount"), w.ago(w.count("earlier_days"), 13)
	credit := desk.Credit{ID: w.id("credit", creditID), OrderID: o.ID, Amount: sum, At: at}
	switch earlier := w.text("earlier"); earlier {
	case "credit":
		credit.Why = "delay"
		w.Credits = append(w.Credits, credit)
	case "price":
		credit.Why = "price"
		w.Credits = append(w.Credits, credit)
	case "goodwill", "old_goodwill":
		credit.Why, credit.OrderID = "goodwill", w.id("past.goodwill", orderID)
		if earlier == "old_goodwill" {
			credit.At = w.ago(400, 13)
		}
		w.Credits = append(w.Credits, credit)
	case "refund":
		p := w.Payments[len(w.Payments)-1]
		w.Refunds = append(w.Refunds, desk.Refund{ID: w.id("refund", refundID), OrderID: o.ID, PaymentID: p.ID,
			Amount: min(sum, p.Amount), At: at})
	}
}

// settleSince makes the customer's account older than its orders, refunds and credits.
func (w *world) settleSince() {
	first := w.Orders[0].Placed
	for _, r := range w.Refunds {
		first = minTime(first, r.At)
	}
	for _, c := range w.Credits {
		first = minTime(first, c.At)
	}
	w.Customer.Since = minTime(w.Customer.Since, first.AddDate(0, 0, -1))
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (w *world) drawSubscription() {
	plan := w.text("plan")
	if plan == "none" {
		return
	}
	s := desk.Subscription{ID: w.id("subscription", subscriptionID), Plan: w.goods.Plans[plan],
		Price: w.amount("monthly"), Renewed: w.ago(w.count("renewed"), 5), Used: w.flag("used")}
	s.Until = s.Renewed.AddDate(0, 0, 30)
	s.Others = []desk.Plan{{Name: w.goods.Plans["basic"], Price: w.amount("cheaper")}}
	w.Subscriptions = append(w.Subscriptions, s)
	w.Payments = append(w.Payments, desk.Payment{ID: w.id("payment.plan", paymentID), OrderID: s.ID,
		Status: "captured", Amount: s.Price, Method: "card", At: s.Renewed})
	if hours := w.count("outage"); hours > 0 {
		w.Outages = append(w.Outages, desk.Outage{From: w.ago(2+hours/24, 3), Hours: hours})
	}
}

// The forms of ids.
var (
	customerID     = mustPattern("CU-{digits:6}")
	orderID        = mustPattern("LD-{digits:6}")
	skuID          = mustPattern("LF-{digits:5}")
	couponID       = mustPattern("SAVE-{digits:4}")
	trackingID     = mustPattern("LT{digits:9}")
	paymentID      = mustPattern("PAY-{digits:7}")
	refundID       = mustPattern("RF-{digits:5}")
	creditID       = mustPattern("CR-{digits:5}")
	subscriptionID = mustPattern("SUB-{digits:5}")
)

func mustPattern(pattern string) expr.IDPattern {
	p, err := expr.ParseIDPattern(pattern)
	if err != nil {
		panic(err) // The patterns are constants.
	}
	return p
}
