package offline

import (
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// eachReply calls a function with each good reply of the catalogue.
func eachReply(t *testing.T, j *Judge, check func(id string, seed int64, reply string, required []facts.Wanted,
	tell func(message string, stated []facts.Fact) grader.Told)) {
	t.Helper()
	c, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Tickets() {
		for seed := range int64(5) {
			ticket, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			for _, reply := range ticket.References.Good {
				check(s.ID, seed, reply, ticket.Required(), func(m string, f []facts.Fact) grader.Told {
					return j.TellTicket(ticket, m, f)
				})
			}
		}
	}
	for _, s := range append(c.Workflows(), c.Cases()...) {
		for seed := range int64(1) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			for _, reply := range w.References.Good {
				check(s.ID, seed, reply, w.Required(), func(m string, f []facts.Fact) grader.Told { return j.Tell(w, m, f) })
			}
		}
	}
}

// TestReferences checks that good replies with the right facts are right.
func TestReferences(t *testing.T) {
	j, replies, faults := New(), 0, map[string]int{}
	eachReply(t, j, func(id string, seed int64, reply string, required []facts.Wanted,
		tell func(string, []facts.Fact) grader.Told) {
		replies++
		told := tell(reply, facts.Stated(required))
		if told.IsRight() && told.Facts.Points(1000) == 1000 {
			return
		}
		if faults[id]++; faults[id] > 1 {
			return
		}
		t.Errorf("%s, seed %d: %v %v %v\n%v\n%s", id, seed, told.Facts.Required, told.Facts.Stated, told.Gates,
			facts.Stated(required), reply)
	})
	t.Logf("%d replies", replies)
}

// wrongValue is a value of the name's type that no instance has.
func wrongValue(w facts.Wanted) string {
	name, _ := facts.Find(w.What)
	for _, v := range name.Values {
		if !slices.Contains(w.Values, v) {
			return v
		}
	}
	return map[facts.Type]string{facts.Amount: "$7,771.23", facts.When: "2039-01-01", facts.Duration: "777 hours",
		facts.Number: "7771", facts.ID: "ZZ-777123", facts.Text: "Nowhere 777"}[name.Type]
}

// TestOneFault checks that no reply is right in which one fact is wrong or missing, and that it
// earns at most three tenths.
func TestOneFault(t *testing.T) {
	wrong, missing, n := int64(0), int64(0), int64(0)
	eachReply(t, New(), func(id string, seed int64, reply string, required []facts.Wanted,
		tell func(string, []facts.Fact) grader.Told) {
		for i := range required {
			stated := facts.Stated(required)
			stated[i].Value = wrongValue(required[i])
			told := tell(reply, stated)
			short := tell(reply, append(facts.Stated(required[:i]), facts.Stated(required[i+1:])...))
			if told.IsRight() || short.IsRight() || told.Points(1000) > 300 || short.Points(1000) > 300 {
				t.Errorf("%s, seed %d: %v instead of %v earns %d, none %d", id, seed, stated[i], required[i],
					told.Points(1000), short.Points(1000))
			}
			wrong, missing, n = wrong+told.Points(1000), missing+short.Points(1000), n+1
		}
	})
	t.Logf("one wrong earns %d of 1000, one missing %d, on average of %d", wrong/n, missing/n, n)
}

// TestWhatIsDoneMayBeStated states the step that is taken beside the right facts, in cases of which
// nothing else may be told as well.
func TestWhatIsDoneMayBeStated(t *testing.T) {
	c, j := testkit.Catalog(t), New()
	check := func(id string, told grader.Told) {
		if !told.IsRight() || told.Points(1000) != 1000 {
			t.Errorf("%s: %v, stated %v", id, told.Facts.Required, told.Facts.Stated)
		}
	}
	for _, s := range c.Tickets() {
		ticket, err := s.Instantiate(1)
		if err != nil {
			t.Fatal(err)
		}
		if stated := facts.Stated(ticket.Required()); ticket.Gold.Escalate {
			stated = append(stated, facts.Fact{What: "next_step", Value: "handed over"})
			check(s.ID, j.TellTicket(ticket, ticket.References.Good[0], stated))
		}
	}
	for i, s := range append(c.Workflows(), c.Cases()...) {
		if testing.Short() && i%4 != 0 {
			continue
		}
		w, err := s.Instantiate(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range w.Steps {
			if tool := desk.FindTool(step.Action); tool != nil && tool.NextStep != "" {
				stated := append(facts.Stated(w.Required()), facts.Fact{What: "next_step", Value: tool.NextStep})
				check(s.ID, j.Tell(w, w.References.Good[0], stated))
			}
		}
	}
}

// TestWhatRepliesTellMayBeStated states what good replies tell beside what is required: other
// steps, advice, sums and times.
func TestWhatRepliesTellMayBeStated(t *testing.T) {
	c, j := testkit.Catalog(t), New()
	for _, tc := range []struct {
		id          string
		seed        int64
		what, value string
	}{
		{"B04", 0, "charged_amount", "49,60 $"}, {"B06", 0, "next_step", "sent"}, {"B06", 0, "next_step", "refused"},
		{"B06", 2, "next_step", "refused"}, {"G05", 0, "next_step", "explained"}, {"G09", 0, "advice", "change_password"},
		{"S04", 3, "price", "0"}, {"S06", 0, "needed", "code_by_email"}, {"S08", 0, "price", "0"},
		{"T09", 0, "next_step", "explained"}, {"C04", 0, "refund_amount", "$134.60"}, {"C04", 0, "next_step", "refunded"},
		{"C08", 0, "period", "24 months"}, {"C08", 1, "arrives_by", "3 to 6 business days"},
		{"C11", 0, "next_step", "explained"}, {"cancel-order-19", 4475, "next_step", "refused"},
		{"damaged-11", 4492, "next_step", "refused"}, {"data-request-06", 4509, "next_step", "refused"},
	} {
		var told grader.Told
		extra := facts.Fact{What: tc.what, Value: tc.value}
		if s, ok := c.Ticket(tc.id); ok {
			ticket, err := s.Instantiate(tc.seed)
			if err != nil {
				t.Fatal(err)
			}
			told = j.TellTicket(ticket, ticket.References.Good[0], append(facts.Stated(ticket.Required()), extra))
		} else {
			s, _ := c.Workflow(tc.id)
			w, err := s.Instantiate(tc.seed)
			if err != nil {
				t.Fatal(err)
			}
			told = j.Tell(w, w.References.Good[0], append(facts.Stated(w.Required()), extra))
		}
		if !told.IsRight() {
			t.Errorf("%s, seed %d: %v is %v", tc.id, tc.seed, extra, told.Facts.Stated)
		}
	}
}
