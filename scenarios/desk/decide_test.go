package desk_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
)

// change makes the standard desk and a request into those of a row.
type change func(w *desk.Desk, r *desk.Request)

// row is a world, a request and the right decision.
type row struct {
	name, kind string
	changes    []change
	// want is "<outcome>: <effects>; <facts>".
	want string
	// rules are the rules that are applied, without an order.
	rules string
}

func allRows() []row {
	return slices.Concat(returnRows(), withdrawalRows(), damageRows(), defectRows(), parcelRows(), deliveryRows(),
		paymentRows(), refundRows(), cancelRows(), creditRows(), subscriptionRows(), accountRows(), refundLimitRows(),
		limitRows())
}

// TestDecide decides about every row, and requires that the rows apply every rule of the policy.
func TestDecide(t *testing.T) {
	applied := map[string]bool{}
	for _, row := range allRows() {
		t.Run(row.name, func(t *testing.T) {
			got := decide(t, row.kind, row.changes)
			if text := describe(got); text != row.want {
				t.Errorf("got  %s\nwant %s", text, row.want)
			}
			slices.Sort(got.Rules)
			if rules := strings.Join(got.Rules, " "); rules != row.rules {
				t.Errorf("rules:\ngot  %s\nwant %s", rules, row.rules)
			}
			for _, rule := range got.Rules {
				applied[rule] = true
			}
		})
	}
	number := regexp.MustCompile(`\*\*([A-Z]+-\d+)\*\*`)
	for _, topic := range desk.ListTopics() {
		for _, rule := range number.FindAllStringSubmatch(policy().Section(topic), -1) {
			// The terms are part of other rules, and SUB-5 says what an agent leaves alone.
			if id := rule[1]; !applied[id] && !strings.HasPrefix(id, "GEN-") && id != "SUB-5" {
				t.Errorf("no row applies %s", id)
			}
		}
	}
}

// TestReads requires the look-ups and questions that a decision depends on, and no other ones.
func TestReads(t *testing.T) {
	express := order(func(o *desk.Order) { o.Service, o.Promised = "express", at("2026-05-31") })
	for _, row := range []struct {
		name, kind string
		changes    []change
		want       string
	}{
		{"a return", "return", nil, "customer LD-1 parcel returns payment authority money"},
		{"a kind of item that can't be returned", "return", []change{kind("custom")}, "customer LD-1 returns"},
		{"a return above the limit", "return", []change{price(20001)}, "customer LD-1 parcel returns payment authority"},
		{"a return of which nothing is left", "return", []change{credited("LD-1", "delay", 10000, "2026-06-02")},
			"customer LD-1 parcel returns payment money"},
		{"a photo", "damaged", []change{price(15000)}, "customer LD-1 parcel damage photo payment authority"},
		{"no photo", "damaged", []change{price(14999)}, "customer LD-1 parcel damage payment authority"},
		{"a serial number", "defective", nil, "customer LD-1 parcel damage serial payment authority"},
		{"no serial number", "defective", []change{delivered("2024-06-09")}, "customer LD-1 parcel damage"},
		{"a late parcel", "late", []change{express}, "customer LD-1 parcel delivery payment authority money"},
		{"a payment", "double_charge", nil, "customer LD-1 payment money"},
		{"a refund that is on its way", "refund_status", []change{refunded("LD-1", "P1", 3000, "2026-06-03")},
			"customer LD-1 payment money"},
		{"data", "data_request", nil, "customer accounts authority"},
		{"an order of somebody else", "return", []change{order(func(o *desk.Order) { o.Owner = "CU-2" })},
			"customer LD-1 accounts authority"},
	} {
		t.Run(row.name, func(t *testing.T) {
			words := map[string]string{desk.LookUpCustomer: "customer", desk.CheckPayment: "payment",
				desk.CheckShipment: "parcel"}
			var reads []string
			for _, read := range decide(t, row.kind, row.changes).Reads {
				reads = append(reads, cmp.Or(words[read.Tool], read.Key))
			}
			if text := strings.Join(reads, " "); text != row.want {
				t.Errorf("got  %s\nwant %s", text, row.want)
			}
		})
	}
}

func decide(t *testing.T, kind string, changes []change) desk.Decision {
	t.Helper()
	w, r := standard(kind)
	for _, c := range changes {
		c(w, r)
	}
	got, err := desk.DecideRequest(*w, *r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// describe writes a decision as a row does.
func describe(d desk.Decision) string {
	verbs := map[string]string{desk.Refunding: "refund", desk.Crediting: "credit", desk.Replacing: "replace",
		desk.Cancelling: "cancel", desk.Readdressing: "readdress", desk.Escalating: "escalate"}
	var effects, facts []string
	for _, e := range d.Effects {
		words := []string{verbs[e.Tool], e.OrderID, e.PaymentID, e.SKU, e.Address, e.Team}
		if e.Amount != 0 {
			words = append(words, e.Amount.String())
		}
		effects = append(effects, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
	}
	for _, f := range d.Facts {
		value := f.Text
		switch {
		case f.Amount != 0:
			value = f.Amount.String()
		case !f.Day.IsZero():
			value = f.Day.Format(time.DateOnly)
		case f.Days != 0:
			value = fmt.Sprint(f.Days)
		}
		facts = append(facts, f.Slot+" "+value)
	}
	return fmt.Sprintf("%s: %s; %s", d.Outcome, strings.Join(effects, ", "), strings.Join(facts, ", "))
}

// standard is a desk on Wednesday, June 10, 2026 and a request about an order of one item for
// 100.00 that was delivered on Monday, June 1. It was paid by card, with 4.90 for the delivery.
func standard(kind string) (*desk.Desk, *desk.Request) {
	return &desk.Desk{Now: at("2026-06-10"), Policy: policy(), Records: &desk.Records{
			Customer: desk.Customer{ID: "CU-1", Level: "basic", Region: "domestic", Since: at("2024-01-10"),
				Verified: true},
			Orders: []desk.Order{{ID: "LD-1", Owner: "CU-1", Status: "delivered", Placed: at("2026-05-28"),
				Total: 10490, Delivery: 490, Service: "standard", Address: "1 Old Street",
				Items: []desk.Item{{SKU: "A", Price: 10000, ListPrice: 10000, Quantity: 1, Shipped: 1, Kind: "standard",
					Stock: 5}}}},
			Payments: []desk.Payment{{ID: "P1", OrderID: "LD-1", Status: "captured", Amount: 10490, Method: "card",
				At: at("2026-05-28")}},
			Shipments: []desk.Shipment{{Tracking: "T1", OrderID: "LD-1", Carrier: "Swiftline", Status: "delivered",
				LastScan: at("2026-06-01"), Delivered: at("2026-06-01"), Contents: []string{"A"}}},
			Subscriptions: []desk.Subscription{{ID: "SUB-1", Plan: "Max", Price: 2000, Renewed: at("2026-06-01"),
				Until: at("2026-07-01"), Others: []desk.Plan{{Name: "Basic", Price: 500}}}},
		}}, &desk.Request{Kind: kind, OrderID: "LD-1", SKU: "A",
			Answers: map[string]string{"photo": "photo", "serial": "serial"}}
}

func policy() *desk.Policy {
	return &desk.Policy{ReturnDays: 30, PlusDays: 60, BusinessDays: 12, HolidayDay: 20, RestockPercent: 15,
		DamageDays: 9, WarrantyMonths: 24, BusinessWarranty: 12, FreezeDay: 20, ShipDays: 2,
		LostDays: 7, LostAbroad: 15, SearchDays: 3, HoldDays: 7, CardDays: 5, TransferDays: 8, PriceDays: 14,
		CouponPercent: 15, CouponDays: 13, CancelDays: 9, OutageHours: 6, NewDays: 60, ManyRefunds: 3, TeamDays: 2,
		PhotoFrom: 15000, LogisticsAbove: 30000, RefundLimit: 20000, ReplaceLimit: 20000, CreditLimit: 6000,
		Goodwill: 1500}
}

// at is ten o'clock of a day.
func at(day string) time.Time {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic(err) // The tests' days are constants.
	}
	return t.Add(10 * time.Hour)
}

func today(day string) change { return func(w *desk.Desk, _ *desk.Request) { w.Now = at(day) } }

func customer(level, region string) change {
	return func(w *desk.Desk, _ *desk.Request) {
		w.Records.Customer.Level, w.Records.Customer.Region = level, region
	}
}

func since(day string) change {
	return func(w *desk.Desk, _ *desk.Request) { w.Records.Customer.Since = at(day) }
}

func delivered(day string) change {
	return func(w *desk.Desk, _ *desk.Request) { w.Records.Shipments[0].Delivered = at(day) }
}

// order changes the order.
func order(f func(o *desk.Order)) change {
	return func(w *desk.Desk, _ *desk.Request) { f(&w.Records.Orders[0]) }
}

// item changes the item.
func item(f func(it *desk.Item)) change {
	return func(w *desk.Desk, _ *desk.Request) { f(&w.Records.Orders[0].Items[0]) }
}

func kind(k string) change   { return item(func(it *desk.Item) { it.Kind = k }) }
func status(s string) change { return order(func(o *desk.Order) { o.Status = s }) }

// price changes the item's price, and what was paid.
func price(sum desk.Cents) change {
	return func(w *desk.Desk, _ *desk.Request) {
		it := &w.Records.Orders[0].Items[0]
		w.Records.Payments[0].Amount += sum - it.Price
		it.Price, it.ListPrice = sum, sum
	}
}

func parcel(f func(s *desk.Shipment)) change {
	return func(w *desk.Desk, _ *desk.Request) { f(&w.Records.Shipments[0]) }
}

// second adds an item that is in stock.
func second(w *desk.Desk, _ *desk.Request) {
	o := &w.Records.Orders[0]
	o.Items = append(o.Items, desk.Item{SKU: "B", Price: 3000, ListPrice: 3000, Quantity: 1, Shipped: 1, Stock: 5})
	w.Records.Shipments[0].Contents = append(w.Records.Shipments[0].Contents, "B")
	w.Records.Payments[0].Amount += 3000
}

func method(m string) change {
	return func(w *desk.Desk, _ *desk.Request) { w.Records.Payments[0].Method = m }
}

// mixed pays a part by gift card.
func mixed(gift desk.Cents) change {
	return func(w *desk.Desk, _ *desk.Request) {
		p := w.Records.Payments[0]
		p.ID, p.Method, p.Amount = "P2", "gift_card", gift
		w.Records.Payments[0].Amount -= gift
		w.Records.Payments = append(w.Records.Payments, p)
	}
}

// twin adds a second payment of the same amount.
func twin(status string) change {
	return func(w *desk.Desk, _ *desk.Request) {
		p := w.Records.Payments[0]
		p.ID, p.Status, p.At = "P2", status, p.At.Add(time.Minute)
		w.Records.Payments = append(w.Records.Payments, p)
	}
}

func paid(status string) change {
	return func(w *desk.Desk, _ *desk.Request) { w.Records.Payments[0].Status = status }
}

func refunded(order, payment string, sum desk.Cents, day string) change {
	return func(w *desk.Desk, _ *desk.Request) {
		w.Records.Refunds = append(w.Records.Refunds, desk.Refund{OrderID: order, PaymentID: payment,
			Amount: sum, At: at(day)})
	}
}

func credited(order, why string, sum desk.Cents, day string) change {
	return func(w *desk.Desk, _ *desk.Request) {
		w.Records.Credits = append(w.Records.Credits, desk.Credit{OrderID: order, Why: why, Amount: sum, At: at(day)})
	}
}

func says(value string) change                   { return func(_ *desk.Desk, r *desk.Request) { r.Value = value } }
func opened(_ *desk.Desk, r *desk.Request)       { r.Opened = true }
func misused(_ *desk.Desk, r *desk.Request)      { r.Misused = true }
func prefersMoney(_ *desk.Desk, r *desk.Request) { r.Wish = "refund" }
func outOfStock(w *desk.Desk, _ *desk.Request)   { w.Records.Orders[0].Items[0].Stock = 0 }

// TestDraw draws every number of the policy within its range, by the names of the document.
func TestDraw(t *testing.T) {
	for name, below := range map[string]func(string, uint64) uint64{
		"least": func(string, uint64) uint64 { return 0 },
		"most":  func(_ string, n uint64) uint64 { return n - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := desk.DrawPolicy(below)
			want := map[string]map[string]int64{
				"least": {"return_days": 21, "photo_from": 4000, "goodwill": 800, "team_days": 2},
				"most":  {"return_days": 35, "photo_from": 9000, "goodwill": 2000, "team_days": 5},
			}[name]
			for number, value := range want {
				if got, ok := p.Number(number); !ok || got != value {
					t.Errorf("%s is %d, want %d", number, got, value)
				}
			}
			for _, number := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(desk.PolicyDocument(), -1) {
				if got, ok := p.Number(number[1]); !ok || got == 0 {
					t.Errorf("there is no number %s", number[1])
				}
			}
		})
	}
}
