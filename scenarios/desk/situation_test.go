package desk

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/triage"
)

// TestSituation has a case at both sides of each limit.
func TestSituation(t *testing.T) {
	now := time.Date(2026, 3, 12, 10, 0, 0, 0, time.UTC) // a Thursday
	at := func(day int) time.Time { return time.Date(2026, 3, day, 9, 0, 0, 0, time.UTC) }
	paid := func(id, status string, amount Cents, day int) Payment {
		return Payment{ID: id, OrderID: "O", Status: status, Amount: amount, Method: "card", At: at(day)}
	}
	order := func(o Order) Records { o.ID = "O"; return Records{Orders: []Order{o}} }
	parcel := func(s Shipment) Records {
		s.OrderID = "O"
		r := order(Order{Service: "express", Promised: at(9)})
		r.Shipments = []Shipment{s}
		return r
	}
	duties := func(by string) Records {
		r := order(Order{Duties: by})
		r.Shipments = []Shipment{{OrderID: "O", Duty: 1200}}
		return r
	}
	tests := map[string]struct {
		kind    string
		records Records
		want    triage.Situation
	}{
		"question":         {"return_deadline", order(Order{}), triage.Situation{}},
		"fraud review":     {"data_request", Records{Customer: Customer{Hold: "fraud_review"}}, triage.Situation{Compromise: true}},
		"defect":           {"defective", order(Order{}), triage.Situation{CoreUnusable: true}},
		"damage":           {"damaged", order(Order{}), triage.Situation{Degraded: true}},
		"wrong item":       {"wrong_item", order(Order{}), triage.Situation{Degraded: true}},
		"lost":             {"parcel", parcel(Shipment{LastScan: at(9)}), triage.Situation{Delay: true}},
		"not lost yet":     {"parcel", parcel(Shipment{LastScan: at(10)}), triage.Situation{}},
		"missing":          {"not_found", parcel(Shipment{Status: "delivered", Delivered: at(10)}), triage.Situation{Delay: true}},
		"to be searched":   {"not_found", parcel(Shipment{Status: "delivered", Delivered: at(11)}), triage.Situation{}},
		"late":             {"late", parcel(Shipment{Delivered: at(10)}), triage.Situation{Delay: true}},
		"in time":          {"late", parcel(Shipment{Delivered: at(9)}), triage.Situation{}},
		"rest missing":     {"partial", order(Order{Items: []Item{{Price: 500, Quantity: 2, Shipped: 1}}}), triage.Situation{Delay: true}},
		"nothing missing":  {"partial", order(Order{Items: []Item{{Price: 500, Quantity: 2, Shipped: 2}}}), triage.Situation{}},
		"prepaid duties":   {"duties", duties("prepaid"), triage.Situation{WronglyTaken: 1200}},
		"recipient's ones": {"duties", duties("by_recipient"), triage.Situation{}},
		"paid twice": {"double_charge", Records{Payments: []Payment{paid("A", "captured", 900, 1),
			paid("B", "captured", 900, 2)}}, triage.Situation{WronglyTaken: 900}},
		"paid twice, refunded": {"double_charge", Records{Payments: []Payment{paid("A", "captured", 900, 1),
			paid("B", "captured", 900, 2)}, Refunds: []Refund{{OrderID: "O", PaymentID: "B"}}}, triage.Situation{}},
		"only authorised": {"double_charge", Records{Payments: []Payment{paid("A", "captured", 900, 1),
			paid("B", "authorised", 900, 2)}}, triage.Situation{}},
		"charged back": {"return", Records{Payments: []Payment{paid("A", "charged_back", 900, 1)}},
			triage.Situation{Disputed: 900}},
		"refund overdue": {"refund_status", Records{Payments: []Payment{paid("A", "captured", 900, 1)},
			Refunds: []Refund{{OrderID: "O", At: at(9)}}}, triage.Situation{Delay: true}},
		"refund under way": {"refund_status", Records{Payments: []Payment{paid("A", "captured", 900, 1)},
			Refunds: []Refund{{OrderID: "O", At: at(10)}}}, triage.Situation{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.records.Customer.Region = "domestic"
			d := Desk{Now: now, Policy: &Policy{LostDays: 2, SearchDays: 1, CardDays: 2}, Records: &tt.records}
			got := AssessSituation(d, Request{Kind: tt.kind, OrderID: "O"})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("situation (-want +got):\n%s", diff)
			}
		})
	}
}
