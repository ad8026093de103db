package desk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/scenarios/text"
)

// Desk is a world at a point in time.
type Desk struct {
	Now     time.Time
	Policy  *Policy
	Records *Records
}

// decider collects a decision while it reads the records. Every method that reads a record or a
// topic adds the look-up that shows it.
type decider struct {
	Desk
	Request
	out Decision
	err error
}

// kind is what the policy says about requests of a kind.
type kind struct {
	decide func(*decider)
	// aboutOrder is set if they are about an order, and not about the account or a subscription.
	aboutOrder bool
}

// kinds are the requests that the policy decides.
var kinds = sync.OnceValue(func() map[string]kind {
	return map[string]kind{
		"return": {(*decider).decideReturn, true}, "return_deadline": {(*decider).returnDeadline, true},
		"damaged": {(*decider).decideDamage, true}, "defective": {(*decider).decideDefect, true},
		"wrong_item": {(*decider).wrongItem, true}, "warranty_end": {(*decider).warrantyEnd, true},
		"parcel": {(*decider).decideParcel, true}, "not_found": {(*decider).notFound, true},
		"late": {(*decider).decideDelay, true}, "address": {(*decider).decideAddress, true},
		"partial": {(*decider).decidePartial, true}, "duties": {(*decider).decideDuties, true},
		"double_charge": {(*decider).doubleCharge, true}, "refund_status": {(*decider).refundStatus, true},
		"cancel": {(*decider).cancel, true}, "price_drop": {(*decider).priceDrop, true},
		"coupon":              {(*decider).decideCoupon, true},
		"cancel_subscription": {(*decider).decideSubscription, false}, "downgrade": {(*decider).decideDowngrade, false},
		"outage":       {(*decider).decideOutage, false},
		"data_request": {(*decider).decideAccount, false}, "email_change": {(*decider).decideAccount, false},
		"merge": {(*decider).decideAccount, false},
	}
})

// ListKinds are the kinds of requests, sorted.
func ListKinds() []string {
	return slices.Sorted(maps.Keys(kinds()))
}

// ListAskedTopics are the topics that the customer may have to be asked about a request of a kind.
func ListAskedTopics(kind string) []string {
	switch kind {
	case "damaged":
		return []string{"photo"} // DMG-2
	case "defective":
		return []string{"serial"} // DMG-5
	}
	return nil
}

// DecideRequest returns what the policy says about a request. It fails if the request names an
// order, an item or a subscription that the records don't have: such a world is incomplete.
func DecideRequest(desk Desk, r Request) (Decision, error) {
	d := &decider{Desk: desk, Request: r}
	of, known := kinds()[r.Kind]
	if !known {
		return d.out, fmt.Errorf("the policy has no rules for a request of kind %q: it is one of %q", r.Kind,
			ListKinds())
	}
	switch d.readCustomer(); {
	case d.Records.Customer.Hold != "":
		d.handOver("security", "ACC-3")
	case of.aboutOrder && !d.ownsOrder():
		d.handOver("trust", "ACC-4")
	default:
		of.decide(d)
	}
	if d.Policy.Talks {
		d.requireConfirmations()
	}
	if d.err == nil && len(d.out.Facts) == 0 {
		d.failf("the decision %q has no fact to tell", d.out.Outcome)
	}
	return d.out, d.err
}

func (d *decider) failf(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("deciding about a request of kind %s: "+format, append([]any{d.Kind}, args...)...)
	}
}

// citeRules notes the rules that are applied. Their topics have to be read.
func (d *decider) citeRules(rules ...string) {
	for _, rule := range rules {
		d.readTopic(TopicOf(rule))
		if !slices.Contains(d.out.Rules, rule) {
			d.out.Rules = append(d.out.Rules, rule)
		}
	}
}

// TopicOf returns the topic of a rule by its number, "" for an unknown one.
func TopicOf(rule string) string {
	prefix, _, _ := strings.Cut(rule, "-")
	return map[string]string{"RET": "returns", "DMG": "damage", "DEL": "delivery", "MON": "money",
		"SUB": "subscriptions", "ACC": "accounts", "AUT": "authority", "CNV": Conversations}[prefix]
}

func (d *decider) setOutcome(outcome string, facts ...Fact) {
	d.out.Outcome = outcome
	d.out.Facts = append(d.out.Facts, facts...)
}

func (d *decider) addEffect(e Effect) { d.out.Effects = append(d.out.Effects, e) }

// handOver escalates: a team takes the case over, and nothing else is changed.
func (d *decider) handOver(team, rule string) {
	d.citeRules(rule, "AUT-8")
	d.out.Effects = nil
	d.addEffect(Effect{Tool: Escalating, Team: team})
	d.out.Facts, d.out.Handed = nil, rule
	d.setOutcome("to_"+team, Fact{Slot: "team", Text: team},
		Fact{Slot: "answer_day", Day: addBusinessDays(d.Now, d.Policy.TeamDays)})
}

// requireConfirmations notes the changes that the customer has to confirm.
func (d *decider) requireConfirmations() {
	replaceable := slices.Contains([]string{"damaged", "defective", "wrong_item", "parcel", "not_found"}, d.Kind)
	for _, e := range d.out.Effects {
		switch e.Tool {
		case Cancelling, Readdressing:
			d.citeRules("CNV-1")
		case Refunding, Crediting:
			if !replaceable {
				continue
			}
			d.citeRules("CNV-2")
		default:
			continue
		}
		d.out.Confirms = append(d.out.Confirms, e)
	}
}

// The methods below read.

func (d *decider) noteRead(tool, key string) {
	if r := (Read{tool, key}); !slices.Contains(d.out.Reads, r) {
		d.out.Reads = append(d.out.Reads, r)
	}
}

func (d *decider) readTopic(name string) { d.noteRead(LookUpPolicy, name) }

func (d *decider) readCustomer() *Customer {
	d.noteRead(LookUpCustomer, "")
	return &d.Records.Customer
}

// ownsOrder reports whether the order is the customer's, as far as it exists.
func (d *decider) ownsOrder() bool {
	o := d.readOrder()
	if slices.Contains(d.Records.Customer.Merged, o.Owner) {
		d.citeRules("ACC-4")
	}
	return d.err != nil || d.Records.Customer.owns(o)
}

// owns reports whether the order is of one of the customer's accounts.
func (c *Customer) owns(o *Order) bool { return o.Owner == c.ID || slices.Contains(c.Merged, o.Owner) }

// readOrder returns the order of the request.
func (d *decider) readOrder() *Order {
	d.noteRead(CheckOrder, d.OrderID)
	for i := range d.Records.Orders {
		if d.Records.Orders[i].ID == d.OrderID {
			return &d.Records.Orders[i]
		}
	}
	d.failf("there is no order %q", d.OrderID)
	return &Order{Items: []Item{{}}}
}

// readItem returns the item of the request, or the order's first one.
func (d *decider) readItem() *Item {
	o := d.readOrder()
	for i := range o.Items {
		if d.SKU == "" || o.Items[i].SKU == d.SKU {
			return &o.Items[i]
		}
	}
	d.failf("order %s has no item %q", d.OrderID, d.SKU)
	return &Item{}
}

// readPayments returns the payments of an order or a subscription.
func (d *decider) readPayments(id string) []Payment {
	d.noteRead(CheckPayment, id)
	var out []Payment
	for _, p := range d.Records.Payments {
		if p.OrderID == id {
			out = append(out, p)
		}
	}
	return out
}

// readShipment returns the parcel of the request's item, or the order's only one.
func (d *decider) readShipment() *Shipment {
	d.noteRead(CheckShipment, d.OrderID)
	for i := range d.Records.Shipments {
		s := &d.Records.Shipments[i]
		if s.OrderID == d.OrderID && (d.SKU == "" || slices.Contains(s.Contents, d.SKU)) {
			return s
		}
	}
	d.failf("order %s has no shipment with %q", d.OrderID, d.SKU)
	return &Shipment{}
}

func (d *decider) askAbout(about string) {
	if d.Answers[about] == "" {
		d.failf("the request has no answer about %q", about)
	}
	d.noteRead(AskCustomer, about)
}

// The methods and functions below compute times. All days are UTC.

// addDays returns the last day of a period of days after an event.
func addDays(t time.Time, days int64) time.Time { return text.StartOfDay(t).AddDate(0, 0, int(days)) }

// passed reports whether the last day is over.
func (d *Desk) passed(last time.Time) bool { return text.StartOfDay(d.Now).After(last) }

// addBusinessDays returns the last day of a period of business days after an event.
func addBusinessDays(t time.Time, days int64) time.Time {
	return text.AddBusinessDays(text.StartOfDay(t), int(days))
}
