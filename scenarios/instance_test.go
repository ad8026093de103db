package scenarios

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

func TestInstantiateTicketOfSeedZero(t *testing.T) {
	c := mustLoad(t, testPack(t, "", "", ""))
	got := mustTicket(t, c, 0)
	sum, _ := strings.CutPrefix(got.Reply.Facts[0].Value, "$")
	if got.Language != "en" || got.Tone != "calm" || got.SLAMinutes != 240 || got.Customer.AccountLevel != "basic" {
		t.Errorf("language %s, tone %s, SLA %d, level %s", got.Language, got.Tone, got.SLAMinutes,
			got.Customer.AccountLevel)
	}
	wantGold := TicketGold{
		Category: "billing", CategoryAlternates: []Alternate{{"general", 500}}, Priority: "high", Escalate: true,
		Team:           "finance",
		TeamAlternates: []string{"billing-ops"}, ReasonCode: "OVER_LIMIT", Policy: "POL-REF#agent-limit",
	}
	if diff := cmp.Diff(wantGold, got.Gold); diff != "" {
		t.Errorf("gold (-want +got):\n%s", diff)
	}
	wantReply := ReplySpec{
		Facts: []Fact{
			{ID: "f1", Slot: "sum", What: "amount_in_question", Stated: "$" + sum, Value: "$" + sum, Seeded: true},
			{ID: "f2", Slot: "team", What: "team", Stated: "finance", Value: "finance"},
			{ID: "f3", Slot: "promise", Judged: true, Value: "today", Negative: true, Optional: true},
		},
		NextSteps: []string{"refunded"},
		Questions: []Question{{"q1", "Money back?", []string{"f1", "f2"}}},
		Points:    Points{160, 100, 60, 40, 40, 40, 30, 30},
		MinWords:  40, MaxWords: 180, AllowedValues: got.Reply.AllowedValues,
	}
	if diff := cmp.Diff(wantReply, got.Reply); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	if want := []string{"Dear " + strings.Fields(got.Customer.Name)[0] + ", the sum is $" + sum + ", says finance.",
		"Passed on."}; !cmp.Equal(want, got.References.Good) {
		t.Errorf("good references %q, want %q", got.References.Good, want)
	}
}

// The other branch lacks a fact, a variant and a reference, and everything that refers to
// them.
func TestInstantiateTicketOfTheOtherBranch(t *testing.T) {
	c := mustLoad(t, testPack(t, "", "", ""))
	for seed := range int64(50) {
		got := mustTicket(t, c, seed)
		if got.Gold.Escalate {
			continue
		}
		if diff := cmp.Diff(TicketGold{Category: "billing", CategoryAlternates: []Alternate{{"general", 500}},
			Priority: "medium"}, got.Gold); diff != "" {
			t.Errorf("gold (-want +got):\n%s", diff)
		}
		if !slices.Equal(got.Reply.Questions[0].AnsweredBy, []string{"f1"}) || len(got.References.Good) != 1 {
			t.Errorf("answers %v, %d references: want f1, 1", got.Reply.Questions[0].AnsweredBy,
				len(got.References.Good))
		}
		if len(got.Attachments) != 1 || !strings.HasPrefix(got.Subject, "Invoice INV-") {
			t.Errorf("attachments %v, subject %q", got.Attachments, got.Subject)
		}
		return
	}
	t.Fatal("no seed under 50 takes the other branch")
}

func TestArticlesShowTheDrawnLimit(t *testing.T) {
	c := mustLoad(t, testPack(t, "", "", ""))
	seen := map[string]bool{}
	for seed := range int64(50) {
		got := mustTicket(t, c, seed)
		if got.Articles[0].ID != "POL-REF" || got.Articles[1].ID != "POL-SLA" || got.Articles[0].Title != "Refunds" {
			t.Fatalf("articles %s and %s, want POL-REF and POL-SLA", got.Articles[0].ID, got.Articles[1].ID)
		}
		body := got.Articles[0].Body
		if !strings.HasPrefix(body, "## 1. Window\nA refund is possible within 30 days.") {
			t.Fatalf("body %q", body)
		}
		seen[body[strings.LastIndex(body, "$"):]] = true
	}
	if want := map[string]bool{"$180.00.": true, "$200.00.": true, "$220.00.": true}; !cmp.Equal(seen, want) {
		t.Errorf("limits %v, want %v", seen, want)
	}
}

func TestAllowedValuesContainTheState(t *testing.T) {
	c := mustLoad(t, testPack(t, "", "", ""))
	got := mustTicket(t, c, 0)
	joined := strings.Join(got.Reply.AllowedValues, "\n")
	for _, want := range []string{"PAY-", "true", "one", got.Subject, got.Description, "Hello, ", got.Articles[0].Body,
		got.Now.Format(time.DateOnly)} {
		if !strings.Contains(joined, want) {
			t.Errorf("allowed values lack %q:\n%s", want, joined)
		}
	}
	if n := strings.Count(joined, "PAY-"); n != 2 {
		t.Errorf("%d payment ids, want 2", n)
	}
}

// build draws a written ticket.
func build(tb rapid.TB, s *TicketScenario, seed int64) (*ticketBuild, error) {
	tb.Helper()
	template, err := s.template()
	if err != nil {
		tb.Fatal(err)
	}
	return template.(*writtenTicket).buildTicket(seed)
}

func TestDrawsStayInRange(t *testing.T) {
	s, _ := mustLoad(t, testPack(t, "", "", "")).Ticket("T1")
	earliest, latest := time.Date(2026, 2, 2, 8, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 17, 45, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Int64().Draw(t, "seed")
		b, err := build(t, s, seed)
		if err != nil {
			t.Fatal(err)
		}
		intOf := func(name string) int64 { return expr.ToNative[int64](b.Vals[name]) }
		if n := intOf("seats"); n < 2 || n > 9 {
			t.Fatalf("seats %d", n)
		}
		if p := intOf("price"); p < 3000 || p > 6000 || p%50 != 0 {
			t.Fatalf("price %d", p)
		}
		over, sum := b.Vals["over"] == types.True, intOf("sum")
		if sum != intOf("seats")*intOf("price") || over && sum <= 22000 || !over && sum > 18000 {
			t.Fatalf("over %t, sum %d", over, sum)
		}
		now := b.ticket.Now
		if now.Before(earliest) || now.After(latest) || now.Minute()%15 != 0 {
			t.Fatalf("now %s", now)
		}
		days := now.Sub(expr.ToNative[time.Time](b.Vals["due"])).Hours() / 24
		if days < 2 || days > 5 || days != float64(int(days)) {
			t.Fatalf("due %v days ago", days)
		}
	})
}

func TestBranches(t *testing.T) {
	files := testPack(t, "", "", "")
	second := strings.Replace(string(files["tickets/T1.yaml"].Data), "id: T1", "id: T2", 1)
	second = strings.Replace(second, `colour: {pick: [red, blue]}`, `colour: {branch: [red, blue]}`, 1)
	files["tickets/T2.yaml"] = &fstest.MapFile{Data: []byte(second)}
	c := mustLoad(t, files)
	a, _ := c.Ticket("T1")
	b, _ := c.Ticket("T2")
	flipped, unpaired := 0, 0
	for seed := range int64(200) {
		x, errX := build(t, a, seed)
		y, errY := build(t, b, seed)
		if errX != nil || errY != nil {
			t.Fatal(errX, errY)
		}
		if x.Vals["over"] != y.Vals["over"] {
			t.Fatalf("seed %d: paired branches differ", seed)
		}
		if x.Vals["over"] != types.True {
			flipped++
		}
		if y.Vals["colour"] == types.String("blue") {
			unpaired++
		}
	}
	if flipped < 70 || flipped > 130 || unpaired < 70 || unpaired > 130 {
		t.Errorf("of 200 seeds %d and %d took the second value, want about 100", flipped, unpaired)
	}
	if zero, err := build(t, b, 0); err != nil || zero.Vals["colour"] != types.String("red") ||
		zero.Vals["over"] != types.True {
		t.Errorf("seed 0 is not canonical: %v, %v", zero, err)
	}
}

// A new variable doesn't change the others.
func TestVariablesAreIndependent(t *testing.T) {
	before, _ := mustLoad(t, testPack(t, "", "", "")).Ticket("T1")
	more := testPack(t, "tickets/T1.yaml", "  seats:", "  extra: {int: [1, 1000]}\n  seats:")
	after, _ := mustLoad(t, more).Ticket("T1")
	for seed := range int64(20) {
		a, errA := before.Instantiate(seed)
		b, errB := after.Instantiate(seed)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("seed %d moved (-before +after):\n%s", seed, diff)
		}
	}
}

func TestCostOfScenariosIsBounded(t *testing.T) {
	const colours, subject = "colour: {pick: [red, blue]}", `subject: "Invoice {{ invoice }}"`
	long := func(n int) string { return strings.Repeat("x", n) }
	items := func(n int) string { return strings.TrimSuffix(strings.Repeat("seats,", n), ",") }
	sums := func(n int) string { return strings.TrimSuffix(strings.Repeat("colour+", n), "+") }
	tests := map[string]struct {
		old, replacement string
		want             string
	}{
		"long param": {colours, colours + "\n  c: {pick: [" + long(5000) + "]}\n  d: {expr: c + c}",
			`param "d": the value has 10000 bytes and items: a param holds at most 8192`},
		"large list": {colours, colours + "\n  c: {expr: \"[" + items(90) + "].map(a, [" + items(90) +
			"])\"}", ": a param holds at most 8192"},
		"endless evaluation": {subject, `subject: "{{ sum([` + items(100) + "].map(a, sum([" + items(100) +
			"].map(b, sum([" + items(100) + `].map(c, 1)))))) }}"`, "actual cost limit exceeded"},
		"many evaluations": {colours, colours + "\n  c: {expr: " + sums(15) + "}\n  d: {expr: " + sums(16) + "}",
			"10000000 are allowed: write fewer or simpler ones"},
		"long expression": {subject, `subject: "{{ '` + long(9000) + `' }}"`,
			"expression code point size exceeds limit"},
		"deep expression": {subject, `subject: "{{ ` + strings.Repeat("(", 300) + "seats" +
			strings.Repeat(")", 300) + ` }}"`, "expression recursion limit exceeded"},
		"long text": {subject, `subject: "` + long(33<<10) + `"`,
			"tickets/T1.yaml:31: this text has 33792 bytes once it is rendered: at most 32768 are allowed"},
		"long template": {subject, `subject: "` + strings.Repeat("{{ invoice }}", 4000) + `"`,
			"bytes once it is rendered: at most 32768 are allowed"},
		"many texts": {"calm: [", "calm: [" + strings.Repeat(long(30<<10)+", ", 8), ""},
		"too many texts": {"notes: [", "notes: [" + strings.Repeat("\"{{ [c, c, c, c, c, c, c, c, c, c, c, c, "+
			"c, c, c, c] }}\", ", 9), "the texts of the scenario have more than 1048576 bytes"},
		"id of many characters": {"INV-{digits:6}", "INV-{digits:61}",
			"makes ids of 65 characters: at most 64 are allowed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := testPack(t, "tickets/T1.yaml", tt.old, tt.replacement)
			if strings.Contains(tt.replacement, "[c, c") {
				files["tickets/T1.yaml"].Data = []byte(strings.Replace(string(files["tickets/T1.yaml"].Data), colours,
					colours+"\n  c: {pick: ["+long(8000)+"]}", 1))
			}
			_, err := loadOne(files)
			if tt.want == "" && err == nil {
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load: %.300v\nwant it to contain: %s", err, tt.want)
			}
		})
	}
}

func TestInstantiateWorkflow(t *testing.T) {
	c := mustLoad(t, testPack(t, "", "", ""))
	w := mustWorkflow(t, c, 0)
	id, price := w.Records.Orders[0].ID, w.Records.Orders[0].Total
	wantSteps := []WorkflowStep{
		{ID: "s0", Action: desk.RespondUser, Ask: true, Answer: "It is " + id + "."},
		{ID: "s1", Action: desk.CheckPayment, Args: []Arg{{Name: "order_id", In: []any{id}}}},
		{ID: "s2", Action: desk.Refunding, Args: []Arg{{Name: "amount", In: []any{int64(price), int64(1)}},
			{Name: "payment_id", Any: true}}, Requires: []string{"s1"}},
		{ID: "s3", Action: desk.RespondUser, Requires: []string{"s0", "s2"}, Terminal: true},
	}
	if diff := cmp.Diff(wantSteps, w.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if w.Query != "I was charged twice for "+id+"." || w.Now.Format(time.RFC3339) != "2026-03-14T09:20:00Z" ||
		w.MaxSteps != 8 || w.Visible != (Visible{}) {
		t.Errorf("query %q, now %s, %d steps, visible %+v", w.Query, w.Now, w.MaxSteps, w.Visible)
	}
	if diff := cmp.Diff([]NeutralAction{{Action: desk.CheckOrder, Args: []Arg{{Name: "order_id", Any: true}}, Max: 1}},
		w.Neutral); diff != "" {
		t.Errorf("neutral (-want +got):\n%s", diff)
	}
	if len(w.Forbidden) != 1 || len(w.Faults) != 1 || w.Faults[0] != (desk.Fault{Action: desk.CheckPayment, Call: 1, Error: "503"}) {
		t.Errorf("forbidden %v, faults %v", w.Forbidden, w.Faults)
	}
	for seed := range int64(50) {
		if other := mustWorkflow(t, c, seed); len(other.Steps) == 3 {
			if got := other.Steps[2].Requires; !slices.Equal(got, []string{"s0"}) {
				t.Errorf("without s2 the last step requires %v, want s0", got)
			}
			return
		}
	}
	t.Error("no seed under 50 takes the other branch")
}

func TestRecordsAsJSON(t *testing.T) {
	w := mustWorkflow(t, mustLoad(t, testPack(t, "", "", "")), 0)
	o := w.Records.Orders[0]
	o.ID, o.Total = "LD-1", 1250
	got, err := json.Marshal(o.Plain())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"order_id":"LD-1","status":"delivered","placed":"2026-03-05T09:20:00Z","total":12.50,` +
		`"items":[{"name":"Sensor","quantity":1,"shipped":1,"price":12.50}],"notes":["left at 09:20"],` +
		`"details":{"gate":"a","safe_place":"porch"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestCents(t *testing.T) {
	for cents, want := range map[Cents]string{0: "0.00", 5: "0.05", 1234: "12.34", -1234: "-12.34", -5: "-0.05"} {
		if got := cents.String(); got != want {
			t.Errorf("%d cents = %s, want %s", int64(cents), got, want)
		}
	}
}

func TestPredicates(t *testing.T) {
	w := mustWorkflow(t, mustLoad(t, testPack(t, "", "", "")), 0)
	b := w.Records.Clone()
	price := int64(b.Orders[0].Total)
	over := w.Forbidden[0].When
	for amount, want := range map[int64]bool{price: false, price + 1: true} {
		if got, err := over.Holds(Moment{Records: b, Payload: map[string]any{"amount": amount}}); err != nil ||
			got != want {
			t.Errorf("refund of %d is forbidden = %t, %v; want %t", amount, got, err, want)
		}
	}
	if _, err := over.Holds(Moment{Records: b, Payload: map[string]any{}}); err == nil ||
		!strings.Contains(err.Error(), "args.amount > price") {
		t.Errorf("a refund without amount: %v, want an error that names the predicate", err)
	}
	b.Refunds = append(b.Refunds, desk.Refund{ID: "RF-2", Amount: Cents(price)})
	for i, g := range w.Goal {
		if got, err := g.Holds(Moment{Records: b, Replied: true, Message: "Done."}); err != nil || !got {
			t.Errorf("goal %d, %s: %t, %v", i, g.Source, got, err)
		}
	}
	if got, err := w.Goal[1].Holds(Moment{Records: &w.Records}); err != nil || got {
		t.Errorf("goal without the refund: %t, %v", got, err)
	}
	if !(Predicate{}).IsZero() || over.IsZero() {
		t.Error("IsZero does not distinguish the zero predicate from others")
	}
}

func TestAccepts(t *testing.T) {
	step := WorkflowStep{Args: []Arg{{Name: "amount", In: []any{int64(500)}}, {Name: "order_id", Any: true}}}
	neutral := NeutralAction{Args: step.Args}
	tests := map[string]struct {
		payload map[string]any
		want    bool
	}{
		"right":          {map[string]any{"amount": int64(500), "order_id": "LD-1"}, true},
		"more than that": {map[string]any{"amount": int64(500), "order_id": "LD-1", "note": "x"}, true},
		"other amount":   {map[string]any{"amount": int64(501), "order_id": "LD-1"}, false},
		"other type":     {map[string]any{"amount": "500", "order_id": "LD-1"}, false},
		"empty":          {map[string]any{"amount": int64(500), "order_id": ""}, false},
		"missing":        {map[string]any{"amount": int64(500)}, false},
		"nothing":        {nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := step.Accepts(tt.payload); got != tt.want || neutral.Accepts(tt.payload) != tt.want {
				t.Errorf("Accepts(%v) = %t, want %t", tt.payload, got, tt.want)
			}
		})
	}
}

func TestWorkflowQueries(t *testing.T) {
	files := testPack(t, "workflows/W1.yaml", `query: "I was charged twice for {{ order_id }}."`,
		`query: ["One {{ order_id }}.", "Two {{ order_id }}.", {text: "Three.", when: "settled"}]`)
	s, _ := mustLoad(t, files).Workflow("W1")
	seen := map[string]int{}
	for seed := range int64(60) {
		w, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		word, _, _ := strings.Cut(strings.TrimSuffix(w.Query, "."), " ")
		seen[word]++
		if word == "Three" && len(w.Steps) != 4 {
			t.Errorf("seed %d: a query of the other branch", seed)
		}
	}
	if len(seen) != 3 || seen["One"] < 8 || seen["Two"] < 8 || seen["Three"] < 3 {
		t.Errorf("queries drawn: %v, want all three", seen)
	}
}

func TestStepMinutes(t *testing.T) {
	for name, tt := range map[string]struct {
		limits string
		want   map[string]int
	}{
		"default": {"max_steps: 8", map[string]int{desk.CheckOrder: 1, desk.CheckPayment: 1, desk.Refunding: 3,
			desk.Escalating: 2, desk.RespondUser: 4}},
		"own": {
			"max_steps: 8, step_minutes: {check_order_status: 5, check_payment: 0, initiate_refund: 7, " +
				"escalate_issue: 8, respond_user: 9}",
			map[string]int{desk.CheckOrder: 5, desk.CheckPayment: 0, desk.Refunding: 7, desk.Escalating: 8, desk.RespondUser: 9},
		},
	} {
		s, _ := mustLoad(t, testPack(t, "workflows/W1.yaml", "max_steps: 8", tt.limits)).Workflow("W1")
		w, err := s.Instantiate(0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, w.StepMinutes); diff != "" {
			t.Errorf("%s: step minutes (-want +got):\n%s", name, diff)
		}
	}
}

// TestSeedsWithManyDraws checks seeds that need more than 100 draws.
func TestSeedsWithManyDraws(t *testing.T) {
	c, err := LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := c.Ticket("S06")
	for _, seed := range []int64{1357, 5221983332066270} {
		if _, err := s.Instantiate(seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
