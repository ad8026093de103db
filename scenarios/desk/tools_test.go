package desk_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/desk"
)

// records are those of the standard world after the changes.
func records(changes ...change) *desk.Records {
	w, r := standard("return")
	for _, c := range changes {
		c(w, r)
	}
	return w.Records
}

// TestProblems has, for each change, one that can be made and those that can't.
func TestProblems(t *testing.T) {
	call := func(tool string, f func(e *desk.Effect)) desk.Effect {
		e := desk.Effect{Tool: tool, OrderID: "LD-1", Amount: 100}
		if f != nil {
			f(&e)
		}
		return e
	}
	for name, tc := range map[string]struct {
		records *desk.Records
		effect  desk.Effect
		want    string // a part of the problem
	}{
		"refund": {records(), call(desk.Refunding, nil), ""},
		"refund of nothing": {records(), call(desk.Refunding, func(e *desk.Effect) { e.Amount = 0 }),
			"amount"},
		"refund of a debt": {records(), call(desk.Refunding, func(e *desk.Effect) { e.Amount = -1 }),
			"amount"},
		"refund of no order": {records(), call(desk.Refunding, func(e *desk.Effect) { e.OrderID = "LD-9" }),
			"no such order"},
		"refund of one of two":           {records(mixed(2000)), call(desk.Refunding, nil), "payment_id is missing"},
		"refund of one captured payment": {records(twin("authorised")), call(desk.Refunding, nil), ""},
		"refund of a named payment": {records(mixed(2000)), call(desk.Refunding,
			func(e *desk.Effect) { e.PaymentID = "P2" }), ""},
		"refund of an unknown payment": {records(), call(desk.Refunding, func(e *desk.Effect) { e.PaymentID = "P8" }),
			"no such order"},
		"refund of another order's payment": {records(), call(desk.Refunding, func(e *desk.Effect) {
			e.OrderID,
				e.PaymentID = "LD-2", "P1"
		}),
			"isn't of LD-2"},
		"credit":                  {records(), call(desk.Crediting, nil), ""},
		"credit without an order": {records(), call(desk.Crediting, func(e *desk.Effect) { e.OrderID = "" }), ""},
		"credit of nothing":       {records(), call(desk.Crediting, func(e *desk.Effect) { e.Amount = 0 }), "amount"},
		"credit for no order": {records(), call(desk.Crediting, func(e *desk.Effect) { e.OrderID = "LD-9" }),
			`no order "LD-9"`},
		"replacement": {records(), call(desk.Replacing, func(e *desk.Effect) { e.SKU = "A" }), ""},
		"replacement of another SKU": {records(), call(desk.Replacing, func(e *desk.Effect) { e.SKU = "Z" }),
			`no item "Z"`},
		"address": {records(), call(desk.Readdressing,
			func(e *desk.Effect) { e.Address = "2 New Street" }), ""},
		"no address":   {records(), call(desk.Readdressing, nil), "address is missing"},
		"cancellation": {records(), call(desk.Cancelling, nil), ""},
		"cancellation of no order": {records(), call(desk.Cancelling, func(e *desk.Effect) { e.OrderID = "" }),
			"no order"},
		"escalation":           {records(), desk.Effect{Tool: desk.Escalating, Team: "trust"}, ""},
		"escalation to nobody": {records(), desk.Effect{Tool: desk.Escalating}, "team is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.records.Problem(tc.effect); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestApply makes each change once, in a copy, and wants that one alone.
func TestApply(t *testing.T) {
	for tool, want := range map[string]func(r *desk.Records){
		desk.Refunding: func(r *desk.Records) {
			r.Refunds = []desk.Refund{{ID: "RF-1", OrderID: "LD-1", PaymentID: "P1", Amount: 100}}
		},
		desk.Crediting: func(r *desk.Records) {
			r.Credits = []desk.Credit{{ID: "CR-1", OrderID: "LD-1", Amount: 100}}
		},
		desk.Cancelling:   func(r *desk.Records) { r.Orders[0].Status = "cancelled" },
		desk.Readdressing: func(r *desk.Records) { r.Orders[0].Address = "2 New Street" },
		desk.Escalating:   func(r *desk.Records) { r.Cases = []desk.Escalation{{ID: "CASE-1", Team: "trust", OrderID: "LD-1"}} },
		desk.Replacing:    func(*desk.Records) {},
	} {
		t.Run(tool, func(t *testing.T) {
			before, after := records(), records()
			got := before.Clone()
			got.Apply(desk.Effect{Tool: tool, OrderID: "LD-1", PaymentID: "P1", SKU: "A", Amount: 100,
				Address: "2 New Street", Team: "trust"})
			want(after)
			if diff := cmp.Diff(after, got); diff != "" {
				t.Errorf("after the change (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(records(), before); diff != "" {
				t.Errorf("the records that were copied changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGivenBackIsSeenByTheNextDecision applies what is right about a return, and wants that nothing
// is left for another one (MON-6).
func TestGivenBackIsSeenByTheNextDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawWorld(t, "", "return")
		d.Records.Orders[0].Items[0].Kind = "standard"
		d.Records.Customer.Hold, d.Records.Orders[0].Owner = "", "CU-1"
		d.Records.Shipments[0].Delivered, d.Records.Refunds = d.Now, nil
		first, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil || first.Outcome != "return_accepted" {
			t.Skip("no return")
		}
		for _, e := range first.Effects {
			if problem := d.Records.Problem(e); problem != "" {
				t.Fatalf("%+v can't be made: %s", e, problem)
			}
			d.Records.Apply(e)
		}
		if again, err := desk.DecideRequest(d.Desk, d.request); err != nil || again.Outcome != "nothing_left" {
			t.Errorf("after %s: %s (%v)", describe(first), describe(again), err)
		}
	})
}

// TestShowPayments wants the payments that are asked for, and what was given back for their order.
func TestShowPayments(t *testing.T) {
	all := records(mixed(2000), refunded("LD-1", "P1", 300, "2026-06-02"), refunded("LD-0", "P0", 400, "2026-06-02"),
		credited("LD-1", "delay", 500, "2026-06-02"), credited("LD-0", "delay", 600, "2026-06-02"))
	for name, tc := range map[string]struct {
		order, payment string
		want           string
	}{
		"order":           {"LD-1", "", "P1 P2 3.00 5.00"},
		"payment":         {"", "P2", "P2 3.00 5.00"},
		"unknown order":   {"LD-0", "", ""},
		"unknown payment": {"", "P8", ""},
		"nothing":         {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := all.ShowPayments(tc.order, tc.payment)
			var got []string
			for _, p := range v.Payments {
				got = append(got, p.ID)
			}
			for _, f := range v.Refunds {
				got = append(got, f.Amount.String())
			}
			for _, c := range v.Credits {
				got = append(got, c.Amount.String())
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

// TestShowCustomerNamesNoOrder wants the sums and days that were given before without the orders
// and payments, in the result and not in the records.
func TestShowCustomerNamesNoOrder(t *testing.T) {
	r := records(refunded("LD-1", "P1", 300, "2026-06-02"), credited("LD-1", "delay", 500, "2026-06-02"))
	got, err := json.Marshal(r.ShowCustomer())
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{"LD-1", "P1", "order_id", "payment_id"} {
		if strings.Contains(string(got), hidden) {
			t.Errorf("the customer's view names %s: %s", hidden, got)
		}
	}
	for _, shown := range []string{`"amount":3.00`, `"amount":5.00`, "2026-06-02", `"why":"delay"`, "SUB-1"} {
		if !strings.Contains(string(got), shown) {
			t.Errorf("the customer's view lacks %s: %s", shown, got)
		}
	}
	if r.Refunds[0].OrderID != "LD-1" || r.Credits[0].OrderID != "LD-1" {
		t.Error("showing the customer changed the records")
	}
}

// TestCents writes amounts as text and JSON.
func TestCents(t *testing.T) {
	for cents, want := range map[desk.Cents]string{0: "0.00", 5: "0.05", 99: "0.99", 100: "1.00", 123456: "1234.56",
		-5: "-0.05", -1234: "-12.34"} {
		if got, err := json.Marshal(cents); err != nil || string(got) != want || cents.String() != want {
			t.Errorf("%d cents are %s and %s (%v), want %s", int64(cents), cents, got, err, want)
		}
	}
}

// TestIncompleteWorlds wants an error, and no decision about records that don't exist.
func TestIncompleteWorlds(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   string
		change change
		want   string
	}{
		"kind":   {"poem", func(*desk.Desk, *desk.Request) {}, "no rules"},
		"order":  {"return", func(_ *desk.Desk, r *desk.Request) { r.OrderID = "LD-9" }, `no order "LD-9"`},
		"item":   {"return", func(_ *desk.Desk, r *desk.Request) { r.SKU = "Z" }, `no item "Z"`},
		"parcel": {"return", func(w *desk.Desk, _ *desk.Request) { w.Records.Shipments = nil }, "no shipment"},
		"contents": {"not_found", func(w *desk.Desk, r *desk.Request) {
			r.SKU, w.Records.Shipments[0].Contents = "",
				nil
		}, "empty"},
		"payment": {"double_charge", func(w *desk.Desk, _ *desk.Request) { w.Records.Payments = nil }, "no payment"},
		"refund":  {"refund_status", func(*desk.Desk, *desk.Request) {}, "no refund"},
		"subscription": {"downgrade", func(w *desk.Desk, _ *desk.Request) { w.Records.Subscriptions = nil },
			"no subscription"},
		"plan":   {"downgrade", says("Ultra"), `no plan "Ultra"`},
		"outage": {"outage", func(*desk.Desk, *desk.Request) {}, "no outage"},
		"answer": {"defective", func(_ *desk.Desk, r *desk.Request) { r.Answers = nil }, `no answer about "serial"`},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := standard(tc.kind)
			tc.change(w, r)
			if _, err := desk.DecideRequest(*w, *r); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestSections wants each topic with its rules, the terms in front and every number filled in.
func TestSections(t *testing.T) {
	p := policy()
	rules := map[string]string{"returns": "RET-1", "damage": "DMG-1", "delivery": "DEL-1", "money": "MON-1",
		"subscriptions": "SUB-1", "accounts": "ACC-1", "authority": "AUT-1"}
	if len(desk.ListTopics()) != len(rules) || p.Section("terms") != "" || p.Section("poems") != "" {
		t.Errorf("the topics are %v", desk.ListTopics())
	}
	for topic, rule := range rules {
		text := p.Section(topic)
		if !strings.HasPrefix(text, "# Terms\n\n- **GEN-1**") || !strings.Contains(text, "- **"+rule+"** ") ||
			strings.Contains(text, "{{") || desk.TopicOf(rule) != topic {
			t.Errorf("the section about %s is %q", topic, text)
		}
	}
	if p.Section(desk.Conversations) != "" {
		t.Error("the policy of a case has the section about conversations")
	}
	p.Talks = true
	if text := p.Section(desk.Conversations); !strings.HasPrefix(text, "# Terms\n\n- **GEN-1**") ||
		!strings.Contains(text, "- **CNV-1** ") || desk.TopicOf("CNV-1") != desk.Conversations {
		t.Errorf("the section about conversations is %q", text)
	}
	for _, part := range []string{"within 30 days of its delivery", "until January 20,", "fee of 15 % of"} {
		if !strings.Contains(p.Section("returns"), part) {
			t.Errorf("the section about returns lacks %q", part)
		}
	}
	if part := "up to $200.00 for one request"; !strings.Contains(p.Section("authority"), part) {
		t.Errorf("the section about authority lacks %q", part)
	}
}
