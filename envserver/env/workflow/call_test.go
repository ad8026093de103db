package workflow

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/desk"
)

func TestToolsAnswer(t *testing.T) {
	e := start(testWorkflow(), episode.Dense)
	first := e.state.observation()
	if first.OrderStatus != nil || first.PaymentStatus != nil || testkit.EncodeJSON(first.LastResult) != "null" {
		t.Errorf("first observation = %+v, want nothing looked up", first)
	}
	answers := []struct{ action, want string }{
		{payment, `{"ok":false,"error":"503 backend unavailable"}`},
		{payment,
			`{"ok":true,"payments":[{"payment_id":"PAY-1","order_id":"LD-1","status":"captured","amount":12.50},` +
				`{"payment_id":"PAY-2","order_id":"LD-1","status":"authorised","amount":12.50}]}`},
		{order, `{"ok":true,"order":{"order_id":"LD-1","status":"delivered","total":12.50,"notes":["porch"]}}`},
		{`{"action_type":"check_order_status","payload":{"order_id":" #ld-9 "}}`,
			`{"ok":false,"error":"there is no order LD-9"}`},
		{`{"action_type":"initiate_refund","payload":{"order_id":"LD-9","amount":1}}`,
			`{"ok":false,"error":"there is no such order or payment"}`},
		{`{"action_type":"initiate_refund","payload":{"order_id":"LD-1","payment_id":"PAY-1","amount":"$12.50"}}`,
			`{"ok":true,"refund":{"refund_id":"RF-1","order_id":"LD-1","payment_id":"PAY-1","amount":12.50}}`},
		{`{"action_type":"check_payment","payload":{"payment_id":"PAY-1"}}`,
			`{"ok":true,"payments":[{"payment_id":"PAY-1","order_id":"LD-1","status":"captured","amount":12.50}],` +
				`"refunds":[{"refund_id":"RF-1","order_id":"LD-1","payment_id":"PAY-1","amount":12.50}]}`},
	}
	var last Observation
	for _, a := range answers {
		last = step(t, e, a.action).Observation.(Observation)
		if got := string(last.LastResult); got != a.want {
			t.Errorf("%s:\n got %s\nwant %s", a.action, got, a.want)
		}
	}
	if *last.OrderStatus != "delivered" || *last.PaymentStatus != "captured" {
		t.Errorf("statuses = %q, %q, want those looked up last", *last.OrderStatus, *last.PaymentStatus)
	}
	want := Entry{Step: 6, ActionType: "initiate_refund",
		Payload: `{"amount":12.50,"order_id":"LD-1","payment_id":"PAY-1"}`, Result: document(answers[5].want)}
	if diff := cmp.Diff(want, last.History[5]); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	escalated := step(t, e,
		`{"action_type":"escalate_issue","payload":{"team":"Trade Compliance team",`+
			`"reason":"why"}}`).Observation.(Observation)
	if got, want := string(
		escalated.LastResult), `{"ok":true,"case":{"case_id":"CASE-1","team":"trade-compliance",`+
		`"reason":"why"}}`; got != want {
		t.Errorf("escalated: got %s, want %s", got, want)
	}
}

func TestClockFollowsTheScenario(t *testing.T) {
	w := calm()
	w.StepMinutes = map[string]int{desk.CheckOrder: 1, desk.Refunding: 3, desk.RespondUser: 4}
	e := start(w, episode.Dense)
	for _, tc := range []struct {
		action string
		want   int
	}{{order, 1}, {refundMore, 4}, {order, 5}, {payment, 5}, {reply, 9}, {reply, 9}} {
		if got := step(t, e, tc.action).Observation.(Observation).MinutesUsed; got != tc.want {
			t.Errorf("after %s: %d minutes used, want %d", tc.action, got, tc.want)
		}
	}
}

func TestEpisodeDoesNotChangeTheScenario(t *testing.T) {
	w := calm()
	before := w.Records.Clone()
	play(t, start(w, episode.Dense), order, payment, refundGood, escalate, reply)
	if diff := cmp.Diff(*before, w.Records); diff != "" {
		t.Errorf("the scenario's state changed (-before +after):\n%s", diff)
	}
}

func TestRefundsAreAssignedToOnePayment(t *testing.T) {
	w := calm()
	w.Records.Orders = append(w.Records.Orders, desk.Order{ID: "LD-3"})
	w.Records.Payments = append(w.Records.Payments, desk.Payment{ID: "PAY-3", OrderID: "LD-3", Status: "captured",
		Amount: 900}, desk.Payment{ID: "PAY-4", OrderID: "LD-3", Status: "captured", Amount: 900})
	tests := map[string]struct{ payload, want string }{
		"the only captured payment": {`{"order_id":"LD-1","amount":1}`, ""},
		"one of two": {`{"order_id":"LD-3","amount":1}`,
			"payment_id is missing: LD-3 has several payments"},
		"one of two, named": {`{"order_id":"LD-3","payment_id":"PAY-4","amount":1}`, ""},
		"only a payment":    {`{"payment_id":"PAY-4","amount":1}`, ""},
		"payment of another order": {`{"order_id":"LD-1","payment_id":"PAY-4","amount":1}`,
			"payment PAY-4 isn't of LD-1"},
		"order without payment": {`{"order_id":"LD-2","amount":1}`, "there is no such order or payment"},
		"unknown payment": {`{"order_id":"LD-1","payment_id":"PAY-9","amount":1}`,
			"there is no such order or payment"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := start(w, episode.Dense)
			play(t, e, order, payment, `{"action_type":"initiate_refund","payload":`+tc.payload+`}`)
			var got struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal([]byte(e.state.last), &got); err != nil {
				t.Fatal(err)
			}
			if got.Error != tc.want || len(e.state.records.Refunds) != map[bool]int{true: 1}[tc.want == ""] {
				t.Errorf("error %q, %d refunds, want %q", got.Error, len(e.state.records.Refunds), tc.want)
			}
		})
	}
}

func TestBlockedActionsAreNotExecuted(t *testing.T) {
	for _, action := range []string{refundGood, refundMore, `{"action_type":"initiate_refund","payload":{}}`} {
		e := start(calm(), episode.Dense)
		r := step(t, e, action)
		got := r.Observation.(Observation)
		if want := `{"ok":false,"error":"not done: before this change, look up the order and the payments that it ` +
			`depends on, ask the customer for what they alone know, and make the changes that come first"}`; string(
			got.LastResult) != want || len(e.state.records.Refunds) != 0 || r.Reward != -100 {
			t.Errorf("%s: result %s, refunds %v, reward %d; want %s, none and -100", action, got.LastResult,
				e.state.records.Refunds, r.Reward, want)
		}
	}
}

// TestTwoRefundsAreMadeTwice repeats the refund, which the backend then makes twice.
func TestTwoRefundsAreMadeTwice(t *testing.T) {
	e := start(calm(), episode.Dense)
	play(t, e, order, payment, refundGood, refundGood)
	if got := len(e.state.records.Refunds); got != 2 {
		t.Errorf("the backend has %d refunds, want 2", got)
	}
}
