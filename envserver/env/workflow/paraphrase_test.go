package workflow

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// paraphrases are correct replies in other words than the references, by scenario. {slot} is
// replaced by the value of a fact, {slot:form} by a date in another form. A text is sent if the
// instance has all of its slots.
var paraphrases = map[string][]string{
	"C01": {
		"Hi! Quick check done: {carrier} has your parcel and expects to hand it over on {eta:eu}. Safe to swap the " +
			"shift for that day.",
		"Good morning, your order is travelling with {carrier}. Their estimated delivery date is {eta:short}. Best, " +
			"Larkfield Support",
		"Hello, thanks for writing.\n\n- Courier: {carrier}\n- Estimated delivery: {eta}\n\nLet us know if anything " +
			"changes.",
	},
	"C02": {
		"Yes, your payment was successful. We took {amount} from the card ending in {card}, so please don't pay again.",
		"Good news! The payment of {amount} has gone through. It was made with your card ending {card}.",
		"You were charged {amount} on the card ending in {card}. You won't be charged twice.",
		"Hello, I can confirm that we have received your payment. Total charged: {amount}. Card: the one with the " +
			"last four digits {card}.",
	},
	"C03": {
		"Sorry to hear that! The courier's record shows the parcel was left in the {place}. Could you take a look " +
			"there? If you can't find it, we can raise an enquiry with the carrier from {enquiry_date:eu} onwards.",
		"Hello, the driver noted that nobody answered, and so the parcel was placed in the {place}. Should it still " +
			"be missing, the first day on which the carrier accepts an enquiry is {enquiry_date:th}. I'm afraid a " +
			"refund isn't possible at this point, since the parcel counts as delivered.",
	},
	"C04": {
		"Hi, your refund was already processed on {refund_date:eu}. Please give your bank the reference {reference} " +
			"so they can locate it. I can't issue it a second time.",
		"Hello, we issued your refund on {refund_date:th} (reference: {reference}). It can take a few business days " +
			"for the bank to post it.",
		"Hi, your return arrived in good order, and I've now issued a refund of {amount} to your original card. You " +
			"should see it by {arrival:eu} at the latest.",
		"Hello, thank you for chasing us. {amount} is on its way back to your card, the return label being deducted. " +
			"The money will arrive no later than {arrival:iso}.",
	},
	"C05": {
		"Thanks! You can pick it up at the {pickup_point}. Your code is {code}. They'll hold it until {kept_until:eu}.",
		"Found it. The parcel is at the {pickup_point}; collect it by {kept_until:th} and show this code: {code}.",
	},
	"C06": {
		"Hi, the sensors are on back-order and I don't have a delivery date from the supplier yet. We'll e-mail you " +
			"as soon as we do. So far we have charged {charged} for the hub. The outstanding {open} will be " +
			"collected once the sensors ship.",
		"Hello, unfortunately no date is available for the door sensors: our supplier hasn't confirmed one. Already " +
			"charged: {charged} (hub). Still outstanding: {open} (sensors).",
		"Hello, I can't give you a date for the door sensors because the supplier has not given us one. To date " +
			"you've paid {charged}, and {open} remains to be paid when the sensors are dispatched.",
	},
	"C07": {
		"No problem! I've refunded {amount} to your card: that's the item price minus the voucher. Please send it " +
			"back by {last_day:eu}, which is the last day of your return window.",
		"Hello, your refund of {amount} has been processed. Returns for this order are possible until {last_day:th}.",
		"I'm sorry, but I can't refund this one. Returns are accepted within 30 days of delivery, and that window " +
			"ended on {last_day:eu}. If the device turns out to be faulty, you can still use the 24-month warranty " +
			"via the form in your account. {route}",
	},
	"C08": {
		"Unfortunately the 30-day return window closed on {last_day:th}, so a refund is no longer possible. Your " +
			"{route} is still valid: if there's a fault, you can file a claim with the form in your account.",
		"Thanks for asking first. Items can be returned up to 30 days after delivery; for you the last day was " +
			"{last_day:short}. We can't refund it now. The {route} covers faults for 24 months, and the claim form " +
			"is in your account.",
	},
	"C09": {
		"You're right, it was left out of the box, sorry! I've refunded {amount} (price plus tax). It should be back " +
			"on your card by {arrival:eu} at the latest.",
		"Hello, I have issued a refund of {amount}, including tax, for the missing item. Expect the money by " +
			"{arrival:th}.",
	},
	"C10": {
		"I can confirm there were two charges of {amount}. I've refunded one of them, and you'll have the money back " +
			"by {arrival:eu} at the latest.",
		"Sorry for the double charge! {amount} has been refunded to your card and will show up by {arrival:th}.",
		"You were only charged once. The second {amount} is a {nature} authorisation that was never collected. It " +
			"will drop off your account by {drop_off:eu}.",
		"Don't worry, the second entry for {amount} is just a hold by your bank, and we haven't taken it. It should " +
			"disappear on {drop_off:th} at the latest.",
	},
	"C11": {
		"Thanks for getting in touch. The cameras come to {amount}. Since that is above what I'm allowed to approve, " +
			"I've forwarded your request to our finance team, and they'll get back to you within {timeframe}.",
		"Hello, the total for those cameras is {amount}. I've escalated this to finance for a decision. You can " +
			"expect to hear from them in {timeframe} at the latest.",
	},
	"C12": {
		"I understand your frustration. The last scan was in {last_scan}. We can start a trace with the carrier on " +
			"{trace_date:eu}; until then I'm not able to offer a refund.",
		"Your parcel was last scanned at {last_scan}. If there's no update by {trace_date:th}, the carrier will " +
			"accept a trace and our logistics colleagues can open it. I can't refund it while it is still in transit.",
		"Your parcel was last seen in {last_scan}. I've escalated the case to our {team} team so that they can open " +
			"a trace, and they'll contact you by {answer_date:eu}.",
	},
	"C13": {
		"Your order is currently on hold in our warehouse due to a {cause}. I've raised it with {team}, and they " +
			"will get back to you by {answer_date:eu}.",
		"Hello, the shipment was stopped because of a {cause}. I have escalated it to the {team} team, who should " +
			"update you by {answer_date:th} at the latest.",
	},
	"C14": {
		"I checked: the payment of {amount} was captured although no order was created. I've escalated this to our " +
			"{team} team, and they'll reply by {answer_date:eu}. Please don't try to pay again in the meantime.",
		"Your bank has only reserved the {amount}; it was never collected by us. The authorisation will expire by " +
			"{drop_off:eu}, and the money will be available again.",
	},
	"C15": {
		"I checked both orders. The item you returned belongs to {order}, not the other one. I've refunded {amount} " +
			"(minus the return label fee), and it should arrive by {arrival:eu}.",
		"Hello! The return was for {order}. I've issued a refund of {amount} for that order; you'll see it on your " +
			"card by {arrival:th} at the latest.",
	},
	"C16": {
		"I'm sorry about the faulty device. Your bank has opened a chargeback for this payment, so we can't refund " +
			"it separately: you'd be paid twice. I've forwarded the case to our {team} team, who will update you by " +
			"{answer_date:eu}.",
		"Hello, there is already an open chargeback with your bank for this order, which is why I'm unable to issue " +
			"a refund. Our {team} team has been informed and will get back to you by {answer_date:th}.",
	},
	"C17": {
		"Sorry about both issues. You were overcharged by {amount} in total, and I've refunded that to your card. " +
			"The missing sensors are with our {team} team now; they'll be in touch by {answer_date:eu}.",
		"Hello, I've refunded the price difference of {amount}. I've also opened a case with {team} for the missing " +
			"sensors, and they will let you know by {answer_date:th} when to expect them.",
	},
	"C18": {
		"Thanks, your return has arrived. The amount for this order is {amount}. Since you're asking for a different " +
			"card, our security team looks at your request. We'll get back to you by {answer_date:eu}.",
		"Hello, we've received your return, and the sum concerned is {amount}. Your request to use another card is " +
			"being looked at by our security team. You'll receive an answer by {answer_date:th}.",
	},
	"C19": {
		"You're absolutely right, the order was cancelled before it was packed. I've refunded the full {amount}, " +
			"which should be on your card by {arrival:eu} at the latest.",
		"Hello, sorry for the mix-up! A refund of {amount} has been issued and will reach you no later than " +
			"{arrival:th}.",
	},
	"C20": {
		"Your order will be shipped on {ships:eu} with {carrier}. The tracking number will be active from that day.",
		"Hi, it leaves our warehouse on {ships:th}, and {carrier} is the carrier.",
	},
}

var slotForm = regexp.MustCompile(`\{([a-z_]+)(?::([a-z]+))?\}`)

// fill inserts the facts' values into a text. It returns false if the instance lacks one.
func fill(text string, w *scenarios.Workflow) (string, bool) {
	complete := true
	filled := slotForm.ReplaceAllStringFunc(text, func(found string) string {
		m := slotForm.FindStringSubmatch(found)
		for _, f := range w.Facts {
			if f.Slot == m[1] {
				return inForm(f.Value, m[2])
			}
		}
		complete = false
		return found
	})
	return filled, complete
}

// inForm writes a day in another form: 13 August, August 13th, Aug 13 or 2026-08-13.
func inForm(value, form string) string {
	t, err := time.Parse("January 2, 2006", value)
	if err != nil || form == "" {
		return value
	}
	layout := map[string]string{"eu": "2 January", "short": "Jan 2", "iso": time.DateOnly, "th": "January 2"}[form]
	text := t.Format(layout)
	if form == "th" {
		text += ordinal(t.Day())
	}
	return text
}

func ordinal(day int) string {
	switch {
	case day%10 == 1 && day != 11:
		return "st"
	case day%10 == 2 && day != 12:
		return "nd"
	case day%10 == 3 && day != 13:
		return "rd"
	}
	return "th"
}

// TestParaphrases sends correct replies that were written independently of the facts.
func TestParaphrases(t *testing.T) {
	sent := map[string]bool{}
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		for _, text := range paraphrases[w.ScenarioID] {
			filled, complete := fill(text, w)
			if !complete {
				continue
			}
			sent[text] = true
			if final := withReply(t, kind, w, filled); final == nil || final.Score != score.One {
				stated := kind.reader.Tell(w, filled, facts.Stated(w.Required()))
				t.Errorf("%s\nfacts %v of %s, final %+v", filled, stated, slots(w.Facts), final)
			}
		}
	})
	for id, texts := range paraphrases {
		for _, text := range texts {
			if !sent[text] {
				t.Errorf("%s: no instance has the facts of %q", id, text)
			}
		}
	}
}

func slots(facts []scenarios.Fact) string {
	names := make([]string, len(facts))
	for i, f := range facts {
		names[i] = f.Slot
	}
	return strings.Join(names, ", ")
}
