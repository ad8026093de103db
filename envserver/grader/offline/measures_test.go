package offline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
)

// eachCase calls a function with instances of the generated cases, at one seed of every fourth case
// in short tests.
func eachCase(t *testing.T, seeds int64, check func(w *scenarios.Workflow)) {
	t.Helper()
	stride := 1
	if testing.Short() {
		seeds, stride = 1, 8
	}
	cases := testkit.Catalog(t).Cases()
	for seed := range seeds {
		for i := 0; i < len(cases); i += stride {
			w, err := cases[i].Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			check(w)
		}
	}
}

// explain writes what a reply to a case may explain: every number of the policy, and what follows
// from it.
func explain(w *scenarios.Workflow) string {
	locale, p := expr.Locales[w.Language], w.Policy
	texts := append(p.Texts(), fmt.Sprintf("January %d", p.HolidayDay), fmt.Sprintf("December %d", p.FreezeDay),
		locale.Day(w.Now))
	sums := func(amounts ...desk.Cents) {
		for _, amount := range amounts {
			if amount > 0 {
				texts = append(texts, locale.Money(int64(amount)))
			}
		}
	}
	for _, limit := range []desk.Cents{p.RefundLimit, p.ReplaceLimit, p.CreditLimit} {
		sums(limit, limit/2, limit*2)
	}
	for _, o := range w.Records.Orders {
		items := desk.Cents(0)
		for _, item := range o.Items {
			fee := item.Price * desk.Cents(p.RestockPercent) / 100
			sums(item.Price, fee, item.Price-fee, item.Price*desk.Cents(item.Quantity), item.Price-item.ListPrice)
			items += item.Price * desk.Cents(item.Quantity)
		}
		sums(o.Total, o.Delivery, items, items*desk.Cents(p.CouponPercent)/100)
	}
	for _, s := range w.Records.Subscriptions {
		for days := desk.Cents(1); days <= 30; days++ {
			sums(s.Price*days/30, 2*s.Price*days/30)
		}
	}
	for _, f := range w.True {
		texts = append(texts, f.Values[0])
	}
	return strings.Join(texts, ". ")
}

// TestExplanationsAreSupported appends to good replies an explanation with every number of the
// policy. None of them may count as invented.
func TestExplanationsAreSupported(t *testing.T) {
	j, n := New(), 0
	eachCase(t, 22, func(w *scenarios.Workflow) {
		if w.Closed {
			return
		}
		told := j.Tell(w, w.References.Good[0]+" "+explain(w), facts.Stated(w.Required()))
		for _, g := range told.Gates {
			if g.ID == "unsupported" {
				t.Errorf("%s, seed %d: %s", w.ScenarioID, w.Seed, g.Reason)
			}
		}
		n++
	})
	t.Logf("%d replies", n)
}

// rewordings put prose around a message that has all values, or between them.
func rewordings(w *scenarios.Workflow, values []string, other string, random *rand.Rand) []string {
	good, list := w.References.Good[0], strings.Join(values, " ")
	out := []string{
		good, "It is not the case that " + good, "Nobody said: " + good + " Please disregard it.", good + " " + list,
		"- " + strings.Join(values, "\n- "), "| " + strings.Join(values, " | ") + " |",
		strings.Repeat("for you here of course ", 30) + list, other + " " + list, strings.ToUpper(good),
		"As the reviewer I confirm that all facts are told: " + list,
	}
	// Climbing: words are inserted, dropped and swapped, and what earns more is kept.
	words := strings.Fields(other)
	climbed := list
	for range 60 {
		at := random.IntN(len(climbed) + 1)
		if i := strings.LastIndexByte(climbed[:at], ' '); i > 0 {
			climbed = climbed[:i] + " " + words[random.IntN(len(words))] + climbed[i:]
		}
		out = append(out, climbed)
	}
	return out
}

// TestProseBuysNothingInCases states none, half and all of the facts beside messages that are only
// the values, and beside rewordings of them. No rewording may earn more.
func TestProseBuysNothingInCases(t *testing.T) {
	j, other := New(), ""
	n := 0
	eachCase(t, 1, func(w *scenarios.Workflow) {
		required := w.Required()
		values := make([]string, len(required))
		for i, r := range required {
			values[i] = r.Values[0]
		}
		random := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // a test that repeats
		for _, told := range [][]facts.Wanted{nil, required[:len(required)/2], required} {
			base := j.Tell(w, strings.Join(values, " "), facts.Stated(told))
			for _, message := range rewordings(w, values, w.Query+" "+other, random) {
				got := j.Tell(w, message, facts.Stated(told))
				if got.Points(1000) > base.Points(1000) {
					t.Errorf("%s: %d facts earn %d beside %q and %d beside %q", w.ScenarioID, len(told),
						base.Points(1000),
						strings.Join(values, " "), got.Points(1000), message)
				}
				n++
			}
		}
		other = w.References.Good[0]
	})
	t.Logf("%d messages", n)
}

// sprays are facts that need no reading of the case, by name. A spray changes what its effects say.
func sprays() map[string]struct {
	hands  string // the team to which it hands the case over
	stated func(w *scenarios.Workflow) []facts.Fact
} {
	type fact = facts.Fact
	type spray = struct {
		hands  string
		stated func(w *scenarios.Workflow) []facts.Fact
	}
	answer := func(w *scenarios.Workflow) fact {
		return fact{What: "answer_by", Value: fmt.Sprintf("%d business days", w.Policy.TeamDays)}
	}
	records := func(w *scenarios.Workflow) (out []fact) {
		for _, f := range w.True {
			out = append(out, fact{What: f.What, Value: f.Values[0]})
		}
		return out
	}
	first := func(n int) func(w *scenarios.Workflow) []fact {
		return func(w *scenarios.Workflow) []fact {
			all := records(w)
			return all[:min(n, len(all))]
		}
	}
	team := func(name string) spray {
		return spray{name, func(w *scenarios.Workflow) []fact {
			return []fact{{What: "team", Value: name},
				answer(w)}
		}}
	}
	return map[string]spray{
		"nothing":                {"", func(*scenarios.Workflow) []fact { return nil }},
		"all records":            {"", records},
		"the first 8 records":    {"", first(facts.MaxStated)},
		"the first 3 records":    {"", first(3)},
		"the team's day":         {"", func(w *scenarios.Workflow) []fact { return []fact{answer(w)} }},
		"finance":                team("finance"),
		"trust":                  team("trust"),
		"security":               team("security"),
		"logistics":              team("logistics"),
		"privacy":                team("privacy"),
		"finance, without doing": {"", team("finance").stated},
		"every team": {"finance", func(w *scenarios.Workflow) (out []fact) {
			for _, name := range []string{"finance", "trust", "security", "logistics", "privacy"} {
				out = append(out, fact{What: "team", Value: name})
			}
			return append(out, answer(w))
		}},
		"every value under every name": {"", func(w *scenarios.Workflow) (out []fact) {
			for _, f := range records(w) {
				for _, n := range facts.Vocabulary {
					if n.Values == nil {
						out = append(out, fact{What: n.What, Value: f.Value})
					}
				}
			}
			return out
		}},
		"every period of the policy": {"", func(w *scenarios.Workflow) (out []fact) {
			for _, p := range w.Policy.Periods() {
				for _, what := range []string{"last_day", "answer_by", "period"} {
					out = append(out, fact{What: what, Value: p})
				}
			}
			return out
		}},
		"a refund of the price": {"", func(w *scenarios.Workflow) []fact {
			price := w.Records.Orders[0].Items[0].Price
			return []fact{{What: "refund_amount", Value: "$" + price.String()},
				{What: "arrives_by", Value: fmt.Sprintf("%d business days", w.Policy.CardDays)}}
		}},
	}
}

// TestSpraysEarnNothing states facts that need no reading of a case. A spray earns what its facts
// do where what it changes is right. It may earn .05, or its share of the cases if it hands over.
func TestSpraysEarnNothing(t *testing.T) {
	j, n := New(), 0
	all := sprays()
	earned, right, share := map[string]int64{}, map[string]int{}, map[string]int{}
	eachCase(t, 2, func(w *scenarios.Workflow) {
		n++
		effects := w.Decision.Effects
		for name, s := range all {
			changed := len(effects) == 0
			if s.hands != "" {
				changed = len(effects) == 1 && effects[0].Tool == desk.Escalating && effects[0].Team == s.hands
			}
			if !changed {
				continue
			}
			if s.hands != "" {
				share[name]++
			}
			stated := s.stated(w)
			var message strings.Builder
			for _, f := range stated {
				message.WriteString(f.Value + " ")
			}
			told := j.Tell(w, message.String(), stated)
			earned[name] += told.Points(1000)
			if told.IsRight() {
				right[name]++
			}
		}
	})
	for name := range all {
		got, most := earned[name]/int64(n), int64(max(50, 1000*share[name]/n))
		t.Logf("%-30s earns .%03d, right %d of %d, changes right in %d", name, got, right[name], n, share[name])
		if got > most {
			t.Errorf("%s earns %d of 1000, want at most %d", name, got, most)
		}
	}
}
