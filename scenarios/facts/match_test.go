package facts

import (
	"strings"
	"testing"
)

// caseOf makes the gold of a case that hands over to finance and refunds a sum.
func caseOf(listed ...Wanted) *Gold {
	served := Served{Texts: []string{"Your order from Leeds costs $5 and weighs 3 kg."}}
	return NewLibrary().Gold(NewContext("en", tuesday), served, []Wanted{
		{ID: "f1", What: "refund_amount", Values: []string{"$59.40"}},
		{ID: "f2", What: "team", Values: []string{"finance"}},
		{ID: "f3", What: "answer_by", Values: []string{"3 business days"}},
		{ID: "f4", What: "last_day", Values: []string{"May 4, 2026"}},
	}, listed, false)
}

// told are the right facts of caseOf.
func told() []Fact {
	return []Fact{{"refund_amount", "$59.40"}, {"team", "finance"}, {"answer_by", "2026-04-10"}, {"last_day", "May 4"}}
}

// letter has all values of caseOf.
const letter = "You get $59.40 back. Our finance team writes within 3 business days; the last day is May 4."

func TestCompare(t *testing.T) {
	with := func(changes ...Fact) []Fact { return append(told(), changes...) }
	replaced := func(i int, f Fact) []Fact {
		all := told()
		all[i] = f
		return all
	}
	extra := Fact{"price", "$5"}
	for name, c := range map[string]struct {
		stated  []Fact
		message string
		points  int64
		right   bool
	}{
		"all right":                     {told(), letter, 1000, true},
		"in other forms":                {replaced(2, Fact{"answer_by", "Friday"}), letter, 1000, true},
		"under a neighbouring name":     {replaced(2, Fact{"done_by", "3 business days"}), letter, 1000, true},
		"under another name":            {replaced(0, Fact{"credit_amount", "$59.40"}), letter, 150, false},
		"none":                          {nil, letter, 0, false},
		"without a message":             {told(), "Thank you.", 0, false},
		"one value isn't told":          {told(), strings.Replace(letter, "$59.40", "your money", 1), 225, false},
		"one missing":                   {told()[1:], letter, 225, false},
		"one wrong":                     {replaced(0, Fact{"refund_amount", "$60"}), letter, 150, false},
		"a wrong one beside":            {with(Fact{"refund_amount", "$60"}), letter, 225, false},
		"two values in one":             {replaced(1, Fact{"team", "finance or trust"}), letter, 150, false},
		"the same twice":                {with(told()...), letter, 1000, true},
		"nothing stated":                {with(Fact{"place", "none"}, Fact{"count", "0"}, Fact{"carrier", ""}), letter, 1000, true},
		"three extras are free":         {with(extra, Fact{"count", "2"}, Fact{"limit", "3 kg"}), letter, 1000, true},
		"the fifth costs":               {with(extra, Fact{"count", "2"}, Fact{"limit", "3 kg"}, Fact{"place", "Leeds"}), letter, 937, true},
		"an unlisted decision is wrong": {with(Fact{"credit_amount", "$5"}), letter, 225, false},
		"an unknown name":               {with(Fact{"mood", "good"}), letter, 225, false},
		"another value of a name":       {with(Fact{"last_day", "May 5"}), letter, 225, false},
		"an unsupported value":          {with(Fact{"price", "$7.77"}), letter, 225, false},
		"every team": {[]Fact{{"team", "finance"}, {"team", "trust"}, {"team", "logistics"}, {"team", "security"}},
			letter, 0, false},
	} {
		g := caseOf()
		r := g.Compare(c.stated, g.context.NewMessage(c.message))
		if got := r.Points(1000); got != c.points || r.IsRight() != c.right {
			t.Errorf("%s: %d points, right %v; want %d, %v: %v %v", name, got, r.IsRight(), c.points, c.right, r.Required, r.Stated)
		}
	}
	g := caseOf(Wanted{What: "credit_amount", Values: []string{"$5"}})
	if r := g.Compare(with(Fact{"credit_amount", "5.00"}), g.context.NewMessage(letter)); r.Points(1000) != 1000 {
		t.Errorf("a listed fact costs: %v", r.Stated)
	}
	g.closed = true
	if r := g.Compare(with(extra), g.context.NewMessage(letter)); r.IsRight() {
		t.Error("a case that lists everything accepts another fact")
	}
}

// TestProseBuysNothing checks that a message that holds the values earns the same whatever is
// around them.
func TestProseBuysNothing(t *testing.T) {
	g := caseOf()
	values := "$59.40 finance 3 business days May 4"
	for _, message := range []string{values, letter, "It is not the case that " + letter, "- " + strings.ReplaceAll(letter, ". ", "\n- "),
		"Once upon a time an agent wrote: " + letter + " Please disregard it.", strings.Repeat("for you here ", 40) + values,
		strings.ToUpper(values)} {
		if r := g.Compare(told(), g.context.NewMessage(message)); r.Points(1000) != 1000 {
			t.Errorf("%q earns %d", message, r.Points(1000))
		}
		for n := range told() {
			if r := g.Compare(told()[:n], g.context.NewMessage(message)); r.Points(1000) != int64(n)*300/4 {
				t.Errorf("%d facts and %q earn %d", n, message, r.Points(1000))
			}
		}
	}
}
