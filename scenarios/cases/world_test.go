package cases_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
)

// instances yields cases of all compositions with up to two modifiers.
func instances(t *testing.T, language string, seeds int64, each func(c *cases.Composition, seed int64,
	got *cases.Case)) {
	t.Helper()
	for c := range load(t).All(2, language) {
		for seed := range seeds {
			each(c, seed, instance(t, c, seed))
		}
	}
}

func instance(t *testing.T, c *cases.Composition, seed int64) *cases.Case {
	t.Helper()
	got, err := c.Instantiate("salt", seed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// compose returns the English composition of a family and modifiers.
func compose(t *testing.T, set *cases.Set, family string, modifiers ...string) *cases.Composition {
	t.Helper()
	c, err := set.Compose(family, modifiers, "en")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRecordsAreConsistent requires records that a shop could have: sums that add up, ids of their
// own, and events in the order in which they can happen.
func TestRecordsAreConsistent(t *testing.T) {
	instances(t, "en", 2, func(c *cases.Composition, seed int64, got *cases.Case) {
		for _, fault := range slices.Concat(faultsOfOrder(got), faultsOfPayments(got), faultsOfTimes(got),
			doubledIDs(got)) {
			t.Errorf("%s seed %d: %s", c.Key(), seed, fault)
		}
	})
}

func faultsOfOrder(c *cases.Case) []string {
	var faults []string
	o, sum := c.Records.Orders[0], desk.Cents(0)
	sent := false
	var contents []string
	for _, it := range o.Items {
		sum += it.Price * desk.Cents(it.Quantity)
		if it.Shipped < 0 || it.Shipped > it.Quantity {
			faults = append(faults, fmt.Sprintf("%d of %d pieces of %s were shipped", it.Shipped, it.Quantity, it.SKU))
		}
		if it.Shipped > 0 {
			sent, contents = true, append(contents, it.SKU)
		}
	}
	if sum += o.Delivery; sum != o.Total {
		faults = append(faults, fmt.Sprintf("the total is %s, want %s", o.Total, sum))
	}
	gone := o.Status == "shipped" || o.Status == "delivered"
	if gone != sent || gone != (len(c.Records.Shipments) == 1) {
		faults = append(faults, fmt.Sprintf("the order is %s, with %d parcels", o.Status, len(c.Records.Shipments)))
	}
	for _, s := range c.Records.Shipments {
		if s.OrderID != o.ID || !slices.Equal(s.Contents, contents) || (s.Status == "delivered") == s.Delivered.IsZero() ||
			o.Status == "delivered" && s.Status != "delivered" {
			faults = append(faults, fmt.Sprintf("the order is %s, its parcel %+v", o.Status, s))
		}
	}
	return faults
}

// faultsOfPayments requires that the payments, without a second one, are the order's total, and
// that no more was given back than was paid.
func faultsOfPayments(c *cases.Case) []string {
	var faults []string
	o := c.Records.Orders[0]
	paid, sum, all := map[string]bool{}, desk.Cents(0), desk.Cents(0)
	for _, p := range c.Records.Payments {
		if p.OrderID != o.ID {
			continue
		}
		all += p.Amount
		if alike := p.Amount.String() + p.Method; !paid[alike] {
			paid[alike], sum = true, sum+p.Amount
		}
	}
	if sum != o.Total {
		faults = append(faults, fmt.Sprintf("%s was paid, want %s", sum, o.Total))
	}
	back := desk.Cents(0)
	for _, f := range c.Records.Refunds {
		if f.OrderID != o.ID {
			continue
		}
		back += f.Amount
		i := slices.IndexFunc(c.Records.Payments, func(p desk.Payment) bool { return p.ID == f.PaymentID })
		if i < 0 || c.Records.Payments[i].Amount < f.Amount || f.At.Before(c.Records.Payments[i].At) {
			faults = append(faults, fmt.Sprintf("the refund %+v doesn't fit the payments %+v", f, c.Records.Payments))
		}
	}
	if back > all {
		faults = append(faults, fmt.Sprintf("%s of %s was refunded", back, all))
	}
	return faults
}

// faultsOfTimes requires that everything happened before now, in order.
func faultsOfTimes(c *cases.Case) []string {
	var faults []string
	after := func(what string, earlier, later time.Time) {
		if later.Before(earlier) {
			faults = append(faults, fmt.Sprintf("%s: %s is before %s", what, later, earlier))
		}
	}
	o := c.Records.Orders[0]
	after("order", o.Placed, c.Now)
	if !o.Promised.IsZero() {
		after("promised day", o.Placed, o.Promised)
	}
	for _, s := range c.Records.Shipments {
		after("scan", o.Placed, s.LastScan)
		after("scan", s.LastScan, c.Now)
		if !s.Delivered.IsZero() {
			after("delivery", o.Placed, s.Delivered)
		}
	}
	since := c.Records.Customer.Since
	after("account", since, o.Placed)
	for _, p := range c.Records.Payments {
		after("payment", p.At, c.Now)
		if p.OrderID == o.ID {
			after("payment", o.Placed, p.At)
		}
	}
	for _, f := range c.Records.Refunds {
		after("refund", since, f.At)
		after("refund", f.At, c.Now)
	}
	for _, k := range c.Records.Credits {
		after("credit", since, k.At)
		after("credit", k.At, c.Now)
		if k.OrderID == o.ID {
			after("credit", o.Placed, k.At)
		}
	}
	for _, s := range c.Records.Subscriptions {
		after("renewal", s.Renewed, c.Now)
		after("end of the paid month", c.Now, s.Until)
	}
	for _, out := range c.Records.Outages {
		after("outage", out.From.Add(time.Duration(out.Hours)*time.Hour), c.Now)
	}
	return faults
}

func doubledIDs(c *cases.Case) []string {
	r := c.Records
	ids := []string{r.Customer.ID}
	for _, o := range r.Orders {
		ids = append(ids, o.ID)
		if o.Owner != r.Customer.ID {
			ids = append(ids, o.Owner)
		}
		for _, it := range o.Items {
			ids = append(ids, it.SKU)
		}
	}
	for _, p := range r.Payments {
		ids = append(ids, p.ID)
	}
	for _, f := range r.Refunds {
		ids = append(ids, f.ID)
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		return []string{fmt.Sprintf("an id occurs twice: %v", ids)}
	}
	return nil
}

// TestWorldsAreAtTheLimits wants the days since an event around the policy's number for the
// customer, in the range that the family states, and both of its ends.
func TestWorldsAreAtTheLimits(t *testing.T) {
	set := load(t)
	const day = 24 * time.Hour
	delivery := func(c *cases.Case) int64 {
		return int64(c.Now.Truncate(day).Sub(c.Records.Shipments[0].Delivered.Truncate(day)) / day)
	}
	order := func(c *cases.Case) int64 {
		return int64(c.Now.Truncate(day).Sub(c.Records.Orders[0].Placed.Truncate(day))/day) - delivery(c)
	}
	renewal := func(c *cases.Case) int64 {
		return int64(c.Now.Truncate(day).Sub(c.Records.Subscriptions[0].Renewed.Truncate(day)) / day)
	}
	for name, tc := range map[string]struct {
		family    string
		modifiers []string
		age       func(c *cases.Case) int64
		limit     func(p *desk.Policy) int64
		lo, hi    int64
	}{
		"return":      {"return", nil, delivery, func(p *desk.Policy) int64 { return p.ReturnDays }, -8, 4},
		"Plus return": {"return", []string{"plus"}, delivery, func(p *desk.Policy) int64 { return p.PlusDays }, -8, 4},
		"business return": {"return", []string{"business"}, delivery,
			func(p *desk.Policy) int64 { return p.BusinessDays }, -8, 4},
		"damage": {"damaged", nil, delivery, func(p *desk.Policy) int64 { return p.DamageDays }, -3, 1},
		"defect": {"defective", nil, delivery, func(p *desk.Policy) int64 { return p.WarrantyMonths * 365 / 12 },
			-50, 40},
		"business defect": {"defective", []string{"business"}, delivery,
			func(p *desk.Policy) int64 { return p.BusinessWarranty * 365 / 12 }, -50, 40},
		"coupon": {"coupon", nil, order, func(p *desk.Policy) int64 { return p.CouponDays }, -3, 1},
		"lost":   {"lost-parcel", nil, workdaysSinceScan, func(p *desk.Policy) int64 { return p.LostDays }, -4, 4},
		"lost abroad": {"lost-parcel", []string{"overseas"}, workdaysSinceScan,
			func(p *desk.Policy) int64 { return p.LostAbroad }, -4, 4},
		"lost in EU": {"lost-parcel", []string{"eu"}, workdaysSinceScan,
			func(p *desk.Policy) int64 { return p.LostAbroad }, -4, 4},
		"renewal": {"cancel-subscription", nil, renewal, func(p *desk.Policy) int64 { return p.CancelDays }, -4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := compose(t, set, tc.family, tc.modifiers...)
			least, most := int64(1000), int64(-1000)
			for seed := range int64(600) {
				got := instance(t, c, seed)
				away := tc.age(got) - tc.limit(got.Policy)
				least, most = min(least, away), max(most, away)
			}
			if least != tc.lo || most != tc.hi {
				t.Errorf("the events are from %d to %d days after the limit, want %d to %d", least, most, tc.lo, tc.hi)
			}
		})
	}
}

// workdaysSinceScan counts the business days from that of the scan to the one before today.
func workdaysSinceScan(c *cases.Case) (n int64) {
	const day = 24 * time.Hour
	for at := c.Records.Shipments[0].LastScan.Truncate(day); at.Before(c.Now.Truncate(day)); at = at.Add(day) {
		if !strings.HasPrefix(at.Weekday().String(), "S") {
			n++
		}
	}
	return n
}

// TestTextsMatchTheDecision wants a message and a reply without a mark of a template, every value
// of the decision in the reply, written as an American does.
func TestTextsMatchTheDecision(t *testing.T) {
	instances(t, "en", 2, func(c *cases.Composition, seed int64, got *cases.Case) {
		fault := func(format string, args ...any) {
			t.Errorf("%s seed %d: "+format, append([]any{c.Key(), seed}, args...)...)
		}
		for _, text := range []string{got.Query, got.Reply, got.Unasked} {
			if text == "" || strings.ContainsAny(text, "{}[]") || strings.Contains(text, "%!") {
				fault("a mark of a template is left in %q", text)
			}
		}
		for i, f := range got.Decision.Facts {
			value := got.Facts[i].Value
			switch {
			case f.Amount != 0:
				if want := dollars(f.Amount); value != want {
					fault("%s is %s, want %s", f.Slot, value, want)
				}
			case !f.Day.IsZero():
				if want := f.Day.Format("January 2, 2006"); value != want {
					fault("%s is %s, want %s", f.Slot, value, want)
				}
			case f.Days != 0:
				if want := fmt.Sprintf("%d ", f.Days); !strings.HasPrefix(value, want) {
					fault("%s is %s, want %s", f.Slot, value, want)
				}
			}
			if !strings.Contains(got.Reply, value) {
				fault("the reply lacks %s %s: %s", f.Slot, value, got.Reply)
			}
		}
	})
}

func dollars(c desk.Cents) string {
	whole := fmt.Sprint(int64(c) / 100)
	if n := len(whole); n > 3 {
		whole = whole[:n-3] + "," + whole[n-3:]
	}
	return fmt.Sprintf("$%s.%02d", whole, int64(c)%100)
}

// TestHiddenOrders wants the id of an order that is left out nowhere but in the answer to the
// question for it, and that question exactly if the order has to be looked up.
func TestHiddenOrders(t *testing.T) {
	ask := desk.Read{Tool: desk.AskCustomer, Key: "order"}
	asked, hidden := map[bool]int{}, 0
	instances(t, "en", 1, func(c *cases.Composition, seed int64, got *cases.Case) {
		id := got.Records.Orders[0].ID
		if !slices.Contains(c.Modifiers, "no-order-number") && !slices.ContainsFunc(c.Modifiers, func(m string) bool {
			return strings.HasPrefix(m, "later-")
		}) {
			if slices.Contains(got.Decision.Reads, ask) {
				t.Errorf("%s: the order's id is asked for", c.Key())
			}
			return
		}
		hidden++
		looksUp := slices.Contains(got.Decision.Reads, desk.Read{Tool: desk.CheckOrder, Key: id})
		asks := len(got.Decision.Reads) > 0 && got.Decision.Reads[0] == ask
		asked[asks]++
		if strings.Contains(got.Query, id) || looksUp != asks || asks != slices.Contains(got.Decision.Reads, ask) {
			t.Errorf("%s seed %d: the order is looked up: %t, asked for: %t, query: %s", c.Key(), seed, looksUp, asks,
				got.Query)
		}
		for _, q := range got.Answers {
			if has := strings.Contains(q.Answer, id); has != (q.Topic == "order") {
				t.Errorf("%s seed %d: the answer about %s is %q", c.Key(), seed, q.Topic, q.Answer)
			}
		}
	})
	if hidden == 0 || asked[true] == 0 || asked[false] == 0 {
		t.Errorf("%d hidden orders, asked for: %v", hidden, asked)
	}
}

// TestSeeds wants the same case for the same seed, and another one for another seed.
func TestSeeds(t *testing.T) {
	set := load(t)
	first, again := instance(t, compose(t, set, "return", "eu"), 7), instance(t, compose(t, set, "return", "eu"), 7)
	if diff := cmp.Diff(first.Records, again.Records); diff != "" || first.Query != again.Query {
		t.Errorf("the same seed gives another case:\n%s", diff)
	}
	other := instance(t, compose(t, set, "return", "eu"), 8)
	if other.Records.Orders[0].ID == first.Records.Orders[0].ID ||
		other.Records.Customer.ID == first.Records.Customer.ID {
		t.Error("another seed gives the same ids")
	}
}

// TestTwoRequestsAreDecidedApart wants the decision of each request in the case's one (GEN-6), and
// nothing else.
func TestTwoRequestsAreDecidedApart(t *testing.T) {
	set := load(t)
	for _, modifier := range []string{"also-warranty", "also-cancel-plan", "also-email", "also-outage",
		"also-downgrade"} {
		for c := range set.All(1, "en") {
			if !slices.Contains(c.Modifiers, modifier) {
				continue
			}
			for seed := range int64(8) {
				testApart(t, c, instance(t, c, seed))
			}
		}
	}
}

func testApart(t *testing.T, c *cases.Composition, got *cases.Case) {
	t.Helper()
	if len(got.Requests) != 2 {
		t.Fatalf("%s has %d requests", c.Key(), len(got.Requests))
	}
	effects, facts, sum := 0, 0, desk.Cents(0)
	for _, r := range got.Requests {
		d, err := desk.DecideRequest(desk.Desk{Now: got.Now, Policy: got.Policy, Records: &got.Records}, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range d.Effects {
			if !slices.Contains(got.Decision.Effects, e) {
				t.Errorf("%s: %+v is missing", c.Key(), e)
			}
			effects++
			sum += e.Amount
		}
		for _, f := range d.Facts {
			if !slices.Contains(got.Decision.Facts, f) {
				t.Errorf("%s: %+v is missing", c.Key(), f)
			}
			facts++
		}
		for _, read := range d.Reads {
			if !slices.Contains(got.Decision.Reads, read) {
				t.Errorf("%s: %+v is missing", c.Key(), read)
			}
		}
		for _, rule := range d.Rules {
			if !slices.Contains(got.Decision.Rules, rule) {
				t.Errorf("%s: %s is missing", c.Key(), rule)
			}
		}
	}
	given := desk.Cents(0)
	for _, e := range got.Decision.Effects {
		given += e.Amount
	}
	if given != sum || len(got.Decision.Effects) > effects || len(got.Decision.Facts) > facts {
		t.Errorf("%s: %s is given, want %s", c.Key(), given, sum)
	}
}
