package desk_test

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/desk"
)

// given are the slots of what a decision gives, which no record shows.
var given = []string{"team", "answer_day", "refund_amount", "credit_amount", "arrival_day", "ship_day", "address"}

// TestDecisionsAreTrue wants every value of the records and every end of a period that a decision
// tells among the true facts, so that it may be told about another request as well.
func TestDecisionsAreTrue(t *testing.T) {
	told := map[string]int{}
	eachKind(t, func(t *rapid.T, kind string) {
		d := drawWorld(t, "", kind)
		got, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Skip(err)
		}
		all := desk.TrueFacts(d.Desk, []desk.Request{d.request}, &got)
		if d.Records.Closed() {
			if len(all) > 0 {
				t.Errorf("a closed case has true facts: %v", all)
			}
			return
		}
		for _, f := range got.Facts {
			if slices.Contains(given, f.Slot) && got.Outcome != "refund_under_way" && got.Outcome != "refunded_before" {
				continue
			}
			told[f.Slot]++
			what, err := f.What()
			if err != nil {
				t.Fatal(err)
			}
			value := f.String()
			if f.Days != 0 && !slices.ContainsFunc(d.Policy.Periods(), func(p string) bool {
				return p == unitOf(f)
			}) {
				t.Errorf("%s is no period of the policy", unitOf(f))
			}
			if f.Days != 0 {
				value = unitOf(f)
			}
			if !slices.ContainsFunc(all, func(o desk.Fact) bool { return o.Slot == what && o.String() == value }) {
				t.Errorf("%s %s of %s isn't among the true facts: %s", what, value, f.Slot, describe(got))
			}
		}
	})
	for _, slot := range []string{"last_day", "warranty_end", "until_day", "expiry_day", "lost_day", "act_day",
		"production_day", "delivered_day", "tracking", "carrier", "coupon", "paid_amount", "held_amount", "given_before",
		"duty", "kind", "cause", "return_days", "outage_hours", "arrival_day"} {
		if told[slot] == 0 {
			t.Errorf("no decision tells %s", slot)
		}
	}
}

// unitOf is the value of a fact in days or hours.
func unitOf(f desk.Fact) string {
	unit := " days"
	if f.Slot == "outage_hours" {
		unit = " hours"
	}
	return strconv.FormatInt(f.Days, 10) + unit
}
