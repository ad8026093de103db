package desk_test

import (
	"time"

	"github.com/csenv/csenv/scenarios/desk"
)

func paymentRows() []row {
	return []row{
		{"paid twice", "double_charge", []change{twin("captured"), credited("LD-1", "delay", 900, "2026-06-02")},
			"refunded: refund LD-1 P2 104.90; refund_amount 104.90, arrival_day 2026-06-17", "AUT-1 MON-1 MON-7"},
		{"paid once", "double_charge", nil,
			"charged_once: ; paid_amount 104.90", "MON-1"},
		{"paid once in two ways", "double_charge", []change{mixed(5245)},
			"charged_once: ; paid_amount 104.90", "MON-1"},
		{"paid by card and gift card, then by card again", "double_charge", []change{mixed(2000),
			func(w *desk.Desk, _ *desk.Request) {
				p := w.Records.Payments[0]
				p.ID, p.At = "P3", p.At.Add(time.Minute)
				w.Records.Payments = append(w.Records.Payments, p)
			}},
			"refunded: refund LD-1 P3 84.90; refund_amount 84.90, arrival_day 2026-06-17", "AUT-1 MON-1 MON-7"},
		{"held beside a payment", "double_charge", []change{twin("authorised")},
			"hold_expires: ; held_amount 104.90, expiry_day 2026-06-08", "MON-1 MON-2"},
		{"paid twice and refunded, on the last day", "double_charge", []change{twin("captured"),
			refunded("LD-1", "P2", 10490, "2026-06-03")},
			"refunded_before: ; given_before 104.90, arrival_day 2026-06-10", "MON-1 MON-12 MON-7"},
		{"paid twice and refunded, one day after", "double_charge", []change{twin("captured"),
			refunded("LD-1", "P2", 10490, "2026-06-02")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-8 MON-1 MON-12 MON-7"},
		{"paid twice and charged back", "double_charge", []change{twin("captured"), paid("charged_back")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-8 MON-3"},
		{"a refund that is on its way", "refund_status", []change{refunded("LD-1", "P1", 3000, "2026-06-03")},
			"refund_under_way: ; refund_amount 30.00, arrival_day 2026-06-10", "MON-12 MON-7"},
		{"a refund that is overdue", "refund_status", []change{refunded("LD-1", "P1", 3000, "2026-06-02")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-8 MON-12 MON-7"},
		{"a transfer that is on its way", "refund_status", []change{method("transfer"),
			refunded("LD-1", "P1", 3000, "2026-05-29")},
			"refund_under_way: ; refund_amount 30.00, arrival_day 2026-06-10", "MON-12 MON-7"},
	}
}

func refundRows() []row {
	return []row{
		{"a refund to a bank account", "return", []change{method("transfer")},
			"return_accepted: refund LD-1 100.00; refund_amount 100.00, arrival_day 2026-06-22",
			"AUT-1 MON-7 RET-1 RET-9"},
		{"a refund of a gift card", "return", []change{method("gift_card")},
			"return_accepted: credit LD-1 100.00; credit_amount 100.00", "AUT-1 MON-4 RET-1 RET-9"},
		{"a refund to the card first", "return", []change{mixed(2000)},
			"return_accepted: refund LD-1 P1 84.90, credit LD-1 15.10; " +
				"refund_amount 84.90, arrival_day 2026-06-17, credit_amount 15.10",
			"AUT-1 MON-4 MON-5 MON-7 RET-1 RET-9"},
		{"a refund that the card covers", "return", []change{mixed(490)},
			"return_accepted: refund LD-1 P1 100.00; refund_amount 100.00, arrival_day 2026-06-17",
			"AUT-1 MON-7 RET-1 RET-9"},
		{"a refund less what was given", "return", []change{refunded("LD-1", "P1", 2000, "2026-06-02"),
			credited("LD-1", "delay", 1000, "2026-06-02"), credited("LD-0", "delay", 700, "2026-06-02")},
			"return_accepted: refund LD-1 70.00; refund_amount 70.00, arrival_day 2026-06-17",
			"AUT-1 MON-6 MON-7 RET-1 RET-9"},
		{"a refund of a last cent", "return", []change{credited("LD-1", "delay", 9999, "2026-06-02")},
			"return_accepted: refund LD-1 0.01; refund_amount 0.01, arrival_day 2026-06-17",
			"AUT-1 MON-6 MON-7 RET-1 RET-9"},
		{"a refund of which nothing is left", "return", []change{credited("LD-1", "delay", 10000, "2026-06-02"),
			paid("charged_back")},
			"nothing_left: ; given_before 100.00", "MON-6 RET-1 RET-9"},
		{"a refund of an order that is charged back", "return", []change{paid("charged_back")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-1 AUT-8 MON-3 RET-1 RET-9"},
		{"a replacement of an order that is charged back", "damaged", []change{paid("charged_back"), price(20001)},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-8 DMG-1 DMG-2 DMG-3 MON-3"},
		{"a credit for an order that is charged back", "coupon", []change{paid("charged_back"), price(5000)},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-3 AUT-8 MON-11 MON-3"},
	}
}

func cancelRows() []row {
	return []row{
		{"a cancellation", "cancel", []change{status("placed")},
			"cancelled: cancel LD-1, refund LD-1 104.90; refund_amount 104.90, arrival_day 2026-06-17",
			"AUT-1 MON-7 MON-8"},
		{"a cancellation of a packed order", "cancel", []change{status("packed"), customer("plus", "domestic")},
			"too_late_to_cancel: ; return_days 60", "MON-8 RET-2"},
		{"a cancellation of an order that is only authorised", "cancel", []change{status("placed"),
			paid("authorised")},
			"cancelled_unpaid: cancel LD-1; held_amount 104.90, expiry_day 2026-06-08", "MON-2 MON-8"},
		{"a cancellation paid in two ways", "cancel", []change{status("placed"), mixed(2000)},
			"cancelled: cancel LD-1, refund LD-1 P1 84.90, credit LD-1 20.00; " +
				"refund_amount 84.90, arrival_day 2026-06-17, credit_amount 20.00",
			"AUT-1 MON-4 MON-5 MON-7 MON-8"},
		{"a cancellation less what was given", "cancel", []change{status("placed"),
			credited("LD-1", "delay", 900, "2026-06-02")},
			"cancelled: cancel LD-1, refund LD-1 95.90; refund_amount 95.90, arrival_day 2026-06-17",
			"AUT-1 MON-6 MON-7 MON-8"},
		{"a cancellation of which nothing is left", "cancel", []change{status("placed"),
			credited("LD-1", "delay", 10490, "2026-06-02")},
			"cancelled: cancel LD-1; given_before 104.90", "MON-6 MON-8"},
		{"a cancellation that is charged back", "cancel", []change{status("placed"), paid("charged_back")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-8 MON-3 MON-8"},
		{"a custom item on the day before its production", "cancel", []change{status("placed"),
			item(func(it *desk.Item) { it.Kind, it.Made = "custom", at("2026-06-11") })},
			"cancelled: cancel LD-1, refund LD-1 104.90; refund_amount 104.90, arrival_day 2026-06-17",
			"AUT-1 MON-7 MON-8"},
		{"a custom item on the day of its production", "cancel", []change{status("placed"),
			item(func(it *desk.Item) { it.Kind, it.Made = "custom", at("2026-06-10") })},
			"in_production: ; production_day 2026-06-10", "MON-9"},
	}
}

func creditRows() []row {
	return []row{
		{"a lower price on the last day", "price_drop", []change{
			order(func(o *desk.Order) { o.Placed = at("2026-05-27") }),
			item(func(it *desk.Item) { it.ListPrice, it.Quantity = 9000, 2 })},
			"price_credited: credit LD-1 20.00; credit_amount 20.00", "AUT-3 MON-10"},
		{"a lower price one day after", "price_drop", []change{
			order(func(o *desk.Order) { o.Placed = at("2026-05-26") }),
			item(func(it *desk.Item) { it.ListPrice, it.Quantity = 9000, 2 })},
			"price_too_late: ; last_day 2026-06-09", "MON-10"},
		{"a lower price of a final sale", "price_drop", []change{kind("final_sale"),
			item(func(it *desk.Item) { it.ListPrice, it.Quantity = 9000, 2 }),
			order(func(o *desk.Order) { o.Placed = at("2026-05-26") })},
			"final_sale: ; kind final sale", "MON-10"},
		{"a lower price that was credited", "price_drop", []change{credited("LD-1", "price", 400, "2026-06-02"),
			item(func(it *desk.Item) { it.ListPrice, it.Quantity = 9000, 2 })},
			"price_given_before: ; given_before 4.00", "MON-10"},
		{"the same price", "price_drop", nil,
			"no_drop: ; shop_price 100.00", "MON-10"},
		{"a lower price of another shop", "price_drop", []change{
			func(_ *desk.Desk, r *desk.Request) { r.Reason = "other_shop" }},
			"other_shop: ; price_days 14", "MON-10"},
		{"a lower price of ours and of another shop", "price_drop", []change{
			func(_ *desk.Desk, r *desk.Request) { r.Reason = "other_shop" },
			item(func(it *desk.Item) { it.ListPrice, it.Quantity = 9000, 2 })},
			"price_credited: credit LD-1 20.00; credit_amount 20.00", "AUT-3 MON-10"},
		{"a coupon on the last day", "coupon", []change{price(9999)},
			"coupon_credited: credit LD-1 14.99; credit_amount 14.99", "AUT-3 MON-11"},
		{"a coupon one day after", "coupon", []change{order(func(o *desk.Order) { o.Placed = at("2026-05-27") })},
			"coupon_too_late: ; last_day 2026-06-09", "MON-11"},
		{"a second coupon", "coupon", []change{
			order(func(o *desk.Order) { o.Coupon, o.Placed = "SAVE-1", at("2026-05-01") })},
			"coupon_used: ; coupon SAVE-1", "MON-11"},
	}
}

func subscriptionRows() []row {
	return []row{
		{"the end of a subscription on the last day", "cancel_subscription", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Payments = append(w.Records.Payments, desk.Payment{ID: "P9", OrderID: "SUB-1", Status: "captured",
					Amount: 2000, Method: "card"})
			}},
			"renewal_refunded: refund SUB-1 20.00; refund_amount 20.00, arrival_day 2026-06-17", "AUT-1 MON-7 SUB-1"},
		{"the end of a subscription one day after", "cancel_subscription", []change{
			func(w *desk.Desk, _ *desk.Request) { w.Records.Subscriptions[0].Renewed = at("2026-05-31") }},
			"runs_out: ; until_day 2026-07-01", "SUB-2"},
		{"the end of a subscription that was used", "cancel_subscription", []change{
			func(w *desk.Desk, _ *desk.Request) { w.Records.Subscriptions[0].Used = true }},
			"runs_out: ; until_day 2026-07-01", "SUB-2"},
		{"a downgrade", "downgrade", []change{says("Basic")},
			"downgraded: credit 10.50; credit_amount 10.50", "AUT-3 SUB-3"},
		{"a downgrade with a part of a cent", "downgrade", []change{says("Basic"), today("2026-06-14"),
			func(w *desk.Desk, _ *desk.Request) { w.Records.Subscriptions[0].Price = 1999 }},
			"downgraded: credit 8.49; credit_amount 8.49", "AUT-3 SUB-3"},
		{"an outage at the limit", "outage", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Outages = []desk.Outage{{From: at("2026-06-05"), Hours: 6}}
			}},
			"outage_credited: credit 0.66; credit_amount 0.66", "AUT-3 SUB-4"},
		{"an outage below the limit", "outage", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Outages = []desk.Outage{{From: at("2026-06-05"), Hours: 5}}
			}},
			"outage_too_short: ; outage_hours 6", "SUB-4"},
		{"an outage of a day", "outage", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Outages = []desk.Outage{{From: at("2026-06-05"), Hours: 24}}
			}},
			"outage_credited: credit 0.66; credit_amount 0.66", "AUT-3 SUB-4"},
		{"an outage of a day and an hour", "outage", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Outages = []desk.Outage{{From: at("2026-06-05"), Hours: 25}}
			}},
			"outage_credited: credit 1.33; credit_amount 1.33", "AUT-3 SUB-4"},
		{"an outage of a business", "outage", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Outages = []desk.Outage{{From: at("2026-06-05"), Hours: 25}}
			},
			customer("business", "domestic")},
			"outage_credited: credit 2.66; credit_amount 2.66", "AUT-3 SUB-4"},
		{"a subscription beside an order of somebody else", "outage", []change{
			func(w *desk.Desk, _ *desk.Request) {
				w.Records.Outages = []desk.Outage{{From: at("2026-06-05"), Hours: 6}}
			},
			order(func(o *desk.Order) { o.Owner = "CU-2" })},
			"outage_credited: credit 0.66; credit_amount 0.66", "AUT-3 SUB-4"},
	}
}

func accountRows() []row {
	return []row{
		{"data", "data_request", nil,
			"to_privacy: escalate privacy; team privacy, answer_day 2026-06-12", "ACC-2 AUT-8"},
		{"data for somebody else", "data_request", []change{
			func(w *desk.Desk, _ *desk.Request) { w.Records.Customer.Verified = false }},
			"to_trust: escalate trust; team trust, answer_day 2026-06-12", "ACC-1 AUT-8"},
		{"another e-mail address", "email_change", nil,
			"to_trust: escalate trust; team trust, answer_day 2026-06-12", "ACC-2 AUT-8"},
		{"another e-mail address for somebody else", "email_change", []change{
			func(w *desk.Desk, _ *desk.Request) { w.Records.Customer.Verified = false }},
			"to_trust: escalate trust; team trust, answer_day 2026-06-12", "ACC-1 AUT-8"},
		{"a merger", "merge", nil,
			"to_trust: escalate trust; team trust, answer_day 2026-06-12", "ACC-2 AUT-8"},
		{"a fraud review", "return", []change{
			func(w *desk.Desk, _ *desk.Request) { w.Records.Customer.Hold = "fraud_review" },
			order(func(o *desk.Order) { o.Owner = "CU-2" })},
			"to_security: escalate security; team security, answer_day 2026-06-12", "ACC-3 AUT-8"},
		{"an order of somebody else", "return", []change{order(func(o *desk.Order) { o.Owner = "CU-2" }),
			paid("charged_back")},
			"to_trust: escalate trust; team trust, answer_day 2026-06-12", "ACC-4 AUT-8"},
		{"an order of a merged account", "return", []change{order(func(o *desk.Order) { o.Owner = "CU-2" }),
			func(w *desk.Desk, _ *desk.Request) { w.Records.Customer.Merged = []string{"CU-2"} }},
			"return_accepted: refund LD-1 100.00; refund_amount 100.00, arrival_day 2026-06-17",
			"ACC-4 AUT-1 MON-7 RET-1 RET-9"},
	}
}

func refundLimitRows() []row {
	return []row{
		{"a refund at the limit", "return", []change{price(20000)},
			"return_accepted: refund LD-1 200.00; refund_amount 200.00, arrival_day 2026-06-17",
			"AUT-1 MON-7 RET-1 RET-9"},
		{"a refund one cent above", "return", []change{price(20001)},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-1 AUT-8 RET-1 RET-9"},
		{"a refund above the limit, less what was given", "return", []change{price(20001),
			credited("LD-1", "delay", 1, "2026-06-02")},
			"return_accepted: refund LD-1 200.00; refund_amount 200.00, arrival_day 2026-06-17",
			"AUT-1 MON-6 MON-7 RET-1 RET-9"},
		{"a gift card above the limit of refunds", "return", []change{price(20001), method("gift_card")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-1 AUT-8 RET-1 RET-9"},
		{"a gift card above the limit of credit", "return", []change{price(6001), method("gift_card")},
			"return_accepted: credit LD-1 60.01; credit_amount 60.01", "AUT-1 MON-4 RET-1 RET-9"},
		{"a refund of a new customer at the limit", "return", []change{price(10000), since("2026-04-12")},
			"return_accepted: refund LD-1 100.00; refund_amount 100.00, arrival_day 2026-06-17",
			"AUT-1 AUT-4 MON-7 RET-1 RET-9"},
		{"a refund of a new customer one cent above", "return", []change{price(10001), since("2026-04-12")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-1 AUT-4 AUT-8 RET-1 RET-9"},
		{"a customer who is no longer new", "return", []change{price(10001), since("2026-04-11")},
			"return_accepted: refund LD-1 100.01; refund_amount 100.01, arrival_day 2026-06-17",
			"AUT-1 MON-7 RET-1 RET-9"},
		{"a refund of a business at the limit", "return", []change{price(40000), customer("business", "domestic")},
			"return_accepted: refund LD-1 400.00; refund_amount 400.00, arrival_day 2026-06-17",
			"AUT-1 AUT-5 MON-7 RET-3 RET-9"},
		{"a refund of a business one cent above", "return", []change{price(40001), customer("business", "domestic")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-1 AUT-5 AUT-8 RET-3 RET-9"},
		{"a refund of a new business", "return", []change{price(20001), customer("business", "domestic"),
			since("2026-04-12")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12",
			"AUT-1 AUT-4 AUT-5 AUT-8 RET-3 RET-9"},
	}
}

func limitRows() []row {
	return []row{
		{"a replacement at the limit", "damaged", []change{price(20000), since("2026-04-12")},
			"replaced: replace LD-1 A; ship_day 2026-06-12", "AUT-2 DMG-1 DMG-10 DMG-2 DMG-3"},
		{"a replacement one cent above", "damaged", []change{price(20001), since("2026-04-12")},
			"to_logistics: escalate logistics; team logistics, answer_day 2026-06-12",
			"AUT-2 AUT-8 DMG-1 DMG-2 DMG-3"},
		{"replacements above the limit in all", "parcel", []change{
			parcel(func(s *desk.Shipment) { s.Status, s.LastScan = "in_transit", at("2026-05-20") }), second,
			price(17001)},
			"to_logistics: escalate logistics; team logistics, answer_day 2026-06-12", "AUT-2 AUT-8 DEL-1 DEL-2"},
		{"credit at the limit", "coupon", []change{price(40000)},
			"coupon_credited: credit LD-1 60.00; credit_amount 60.00", "AUT-3 MON-11"},
		{"credit one cent above", "coupon", []change{price(40007)},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-3 AUT-8 MON-11"},
		{"credit of a new customer one cent above", "coupon", []change{price(20007), since("2026-04-12")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-3 AUT-4 AUT-8 MON-11"},
		{"many refunds on the last of 90 days", "return", []change{refunded("LD-0", "", 500, "2026-03-12"),
			refunded("LD-0", "", 500, "2026-05-12"), refunded("LD-0", "", 500, "2026-06-02")},
			"to_finance: escalate finance; team finance, answer_day 2026-06-12", "AUT-6 AUT-8 RET-1 RET-9"},
		{"many refunds one day earlier", "return", []change{refunded("LD-0", "", 500, "2026-03-11"),
			refunded("LD-0", "", 500, "2026-05-12"), refunded("LD-0", "", 500, "2026-06-02")},
			"return_accepted: refund LD-1 100.00; refund_amount 100.00, arrival_day 2026-06-17",
			"AUT-1 MON-7 RET-1 RET-9"},
		{"many refunds, and a replacement", "damaged", []change{refunded("LD-0", "", 500, "2026-05-11"),
			refunded("LD-0", "", 500, "2026-05-12"), refunded("LD-0", "", 500, "2026-06-02")},
			"replaced: replace LD-1 A; ship_day 2026-06-12", "AUT-2 DMG-1 DMG-10 DMG-3"},
	}
}
