package desk_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/desk"
)

// given are the slots of what a decision gives, which no record shows.
var given = []string{"team", "answer_day", "refund_amount", "credit_amount", "arrival_day", "ship_day", "address"}

// untrue lists the values of the records and the ends of periods that a decision tells and that
// aren't among the true facts, so that they couldn't be told about another request as well. It
// counts the slots.
func untrue(w desk.Desk, r desk.Request, got *desk.Decision, told map[string]int) (faults []string) {
	all := desk.TrueFacts(w, []desk.Request{r}, []desk.Decision{*got}, got)
	if w.Records.Closed() {
		if slices.ContainsFunc(all, func(f desk.Fact) bool { return f.Slot != "next_step" }) {
			faults = append(faults, fmt.Sprintf("a closed case has true facts: %v", all))
		}
		return faults
	}
	for _, f := range got.Facts {
		if slices.Contains(given, f.Slot) && got.Outcome != "refund_under_way" && got.Outcome != "refunded_before" {
			continue
		}
		told[f.Slot]++
		what, err := f.What()
		if err != nil {
			return append(faults, err.Error())
		}
		value := f.String()
		switch {
		case f.Slot == "outage_hours":
			value = fmt.Sprintf("%d hours", f.Days)
		case f.Days != 0:
			value = fmt.Sprintf("%d days", f.Days)
		}
		if !slices.ContainsFunc(all, func(o desk.Fact) bool { return o.Slot == what && o.String() == value }) {
			faults = append(faults, fmt.Sprintf("%s %s of %s isn't among the true facts", what, value, f.Slot))
		}
	}
	return faults
}

// TestDecisionsAreTrue checks the rows of all decisions, which tell every slot.
func TestDecisionsAreTrue(t *testing.T) {
	told := map[string]int{}
	for _, row := range allRows() {
		w, r := standard(row.kind)
		for _, c := range row.changes {
			c(w, r)
		}
		got, err := desk.DecideRequest(*w, *r)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range untrue(*w, *r, &got, told) {
			t.Errorf("%s: %s", row.name, fault)
		}
	}
	for _, slot := range []string{"last_day", "warranty_end", "until_day", "expiry_day", "lost_day", "act_day",
		"production_day", "delivered_day", "tracking", "carrier", "coupon", "paid_amount", "held_amount", "given_before",
		"duty", "kind", "cause", "status", "service", "return_days", "price_days", "outage_hours", "arrival_day",
		"shop_price"} {
		if told[slot] == 0 {
			t.Errorf("no row tells %s", slot)
		}
	}
}

// TestDrawnDecisionsAreTrue checks worlds at random.
func TestDrawnDecisionsAreTrue(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind string) {
		d := drawWorld(t, "", kind)
		got, err := desk.DecideRequest(d.Desk, d.request)
		if err != nil {
			t.Skip(err)
		}
		for _, fault := range untrue(d.Desk, d.request, &got, map[string]int{}) {
			t.Errorf("%s: %s", fault, describe(got))
		}
	})
}
