package desk

import "github.com/csenv/csenv/scenarios/text"

// readSubscription returns the customer's subscription. look_up_customer shows it.
func (d *decider) readSubscription() *Subscription {
	if len(d.Records.Subscriptions) == 0 {
		d.failf("the customer has no subscription")
		return &Subscription{}
	}
	return &d.Records.Subscriptions[0]
}

// decideSubscription decides about a subscription that isn't wanted any more.
func (d *decider) decideSubscription() {
	s := d.readSubscription()
	if !s.Used && !d.passed(addDays(s.Renewed, d.Policy.CancelDays)) {
		d.citeRules("SUB-1")
		d.repay(s.ID, s.Price, "renewal_refunded")
		return
	}
	d.citeRules("SUB-2")
	d.setOutcome("runs_out", Fact{Slot: "until_day", Day: text.StartOfDay(s.Until)})
}

// decideDowngrade decides about a change to the cheaper plan that Value names.
func (d *decider) decideDowngrade() {
	s := d.readSubscription()
	d.citeRules("SUB-3")
	for _, p := range s.Others {
		if p.Name == d.Value {
			left := int64(text.StartOfDay(s.Until).Sub(text.StartOfDay(d.Now)).Hours() / 24)
			d.credit("", (s.Price-p.Price)*Cents(left)/30, "downgraded")
			return
		}
	}
	d.failf("there is no plan %q", d.Value)
}

// decideOutage decides about an interruption of the service.
func (d *decider) decideOutage() {
	s := d.readSubscription()
	d.citeRules("SUB-4")
	if len(d.Records.Outages) == 0 {
		d.failf("there was no outage")
		return
	}
	o := d.Records.Outages[len(d.Records.Outages)-1]
	if o.Hours < d.Policy.OutageHours {
		d.setOutcome("outage_too_short", Fact{Slot: "outage_hours", Days: d.Policy.OutageHours})
		return
	}
	amount := s.Price * Cents((o.Hours+23)/24) / 30
	if d.readCustomer().Level == "business" {
		amount = s.Price * 2 * Cents((o.Hours+23)/24) / 30
	}
	d.credit("", amount, "outage_credited")
}

// decideAccount decides about requests that only the owner of the account may make.
func (d *decider) decideAccount() {
	switch {
	case !d.readCustomer().Verified:
		d.handOver("trust", "ACC-1")
	case d.Kind == "data_request":
		d.handOver("privacy", "ACC-2")
	default:
		d.handOver("trust", "ACC-2")
	}
}
