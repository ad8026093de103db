package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/internal/testkit"
	"github.com/csenv/csenv/scenarios"
)

// plainReader takes a fact as stated when its value is in the reply, and a verb as a promise when
// that is.
type plainReader struct{}

func (plainReader) FactsStated(reply string, facts []scenarios.Fact, _ []string, _ string) []bool {
	stated := make([]bool, len(facts))
	for i, f := range facts {
		stated[i] = strings.Contains(reply, f.Value)
	}
	return stated
}

func (plainReader) Commits(reply string, verbs []string, _ string) bool {
	return slices.ContainsFunc(verbs, func(v string) bool { return strings.Contains(reply, v) })
}

// theOrder constrains an action to the order that the issue is about.
func theOrder() []scenarios.Arg { return []scenarios.Arg{{Name: "order_id", In: []any{"LD-1"}}} }

// testWorkflow needs the order and the payment looked up, a refund of 12.50, and a reply that
// states it. Its payments and the escalation are out of the ordinary: the first look-up of a
// payment fails, and any escalation is forbidden.
func testWorkflow() *scenarios.Workflow {
	refund := append(theOrder(), scenarios.Arg{Name: "amount", In: []any{int64(1250)}})
	return &scenarios.Workflow{
		ScenarioID: "C99", Now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC), Language: "en", MaxSteps: 8,
		Customer: scenarios.Customer{Name: "Ada Moss", AccountLevel: "basic"}, Query: "Where is my money?",
		Visible: scenarios.Visible{OrderStatus: "unknown"},
		State: scenarios.Backend{
			Orders: []scenarios.Order{{ID: "LD-1", Status: "delivered", Total: 1250, Notes: []string{"porch"}},
				{ID: "LD-2", Status: "packed"}},
			Payments: []scenarios.Payment{{ID: "PAY-1", OrderID: "LD-1", Status: "captured", Amount: 1250},
				{ID: "PAY-2", OrderID: "LD-1", Status: "authorised", Amount: 1250}},
		},
		Steps: []scenarios.WorkflowStep{
			{ID: "s1", Action: scenarios.CheckOrderStatus, Args: theOrder()},
			{ID: "s2", Action: scenarios.CheckPayment, Args: theOrder()},
			{ID: "s3", Action: scenarios.InitiateRefund, Args: refund, Requires: []string{"s1", "s2"}},
			{ID: "s4", Action: scenarios.RespondUser, Requires: []string{"s3"}, Terminal: true},
		},
		Neutral: []scenarios.NeutralAction{{Action: scenarios.CheckOrderStatus,
			Args: []scenarios.Arg{{Name: "order_id", Any: true}}, Max: 1}},
		Forbidden: []scenarios.ForbiddenAction{{ID: "n1", Action: scenarios.EscalateIssue},
			{ID: "n2", Action: scenarios.RespondUser, Verbs: []string{"voucher"}}},
		Facts:  []scenarios.Fact{{ID: "f1", Value: "$12.50"}, {ID: "f2", Value: "five days", Optional: true}},
		Faults: []scenarios.Fault{{Action: scenarios.CheckPayment, Call: 1, Error: "503 backend unavailable"}},
	}
}

// calm is testWorkflow without faults.
func calm() *scenarios.Workflow {
	w := testWorkflow()
	w.Faults = nil
	return w
}

func start(w *scenarios.Workflow, mode episode.RewardMode) *environment {
	schemas, err := actionForm.Schemas(schemas)
	if err != nil {
		panic(err)
	}
	e := &environment{kind: &Kind{reader: plainReader{}, schemas: schemas}}
	e.begin(&task{name: "refund", class: "medium"}, w, episode.Options{Seed: 7, EpisodeID: "e1", RewardMode: mode})
	return e
}

func step(t testing.TB, e *environment, action string) episode.Result {
	t.Helper()
	r, err := e.Step(context.Background(), json.RawMessage(action))
	if err != nil {
		t.Fatalf("Step(%s) error = %v", action, err)
	}
	return r
}

func play(t testing.TB, e *environment, actions ...string) (rewards []int64, last episode.Result) {
	t.Helper()
	for _, a := range actions {
		last = step(t, e, a)
		rewards = append(rewards, last.Reward)
	}
	return rewards, last
}

const (
	order      = `{"action_type":"check_order_status","payload":{"order_id":"LD-1"}}`
	otherOrder = `{"action_type":"check_order_status","payload":{"order_id":"LD-2"}}`
	noOrder    = `{"action_type":"check_order_status","payload":{"order_id":"LD-9"}}`
	payment    = `{"action_type":"check_payment","payload":{"order_id":"LD-1"}}`
	refundGood = `{"action_type":"initiate_refund","payload":{"order_id":"LD-1","amount":12.5}}`
	refundMore = `{"action_type":"initiate_refund","payload":{"order_id":"LD-1","amount":25}}`
	escalate   = `{"action_type":"escalate_issue","payload":{"team":"finance"}}`
	reply      = `{"action_type":"respond_user","payload":{"message":"We sent $12.50 back."}}`
	emptyWords = `{"action_type":"respond_user","payload":{"message":"All is well."}}`
	promise    = `{"action_type":"respond_user","payload":{"message":"We sent $12.50 back and add a voucher."}}`
)

func TestRewards(t *testing.T) {
	tests := map[string]struct {
		workflow *scenarios.Workflow
		actions  []string
		want     []int64
		outcome  score.Outcome
		score    int64
	}{
		"gold": {calm(), []string{order, payment, refundGood, reply},
			[]int64{200, 200, 200, 700}, score.Scored, score.One},
		"gold in the other order": {calm(), []string{payment, order, refundGood, reply},
			[]int64{200, 200, 200, 700}, score.Scored, score.One},
		"a retry is no repeat": {testWorkflow(), []string{order, payment, payment, refundGood, reply},
			[]int64{200, 0, 200, 200, 700}, score.Scored, score.One},
		"giving up after a fault": {testWorkflow(), []string{order, payment, reply}, []int64{200, 0, -100},
			score.Scored, 76_923},
		"a fault of a repeat is free": {testWorkflow(), []string{order, order, order, order, order, payment, reply},
			[]int64{200, -100, -100, -100, -120, 0, -120}, score.Scored, 0},
		"the last action alone": {calm(), []string{reply}, []int64{-100}, score.Scored, 0},
		"reversed": {calm(), []string{refundGood, payment, order, reply},
			[]int64{-100, 200, 200, -100}, score.Scored, 153_846},
		"refund before the look-ups": {calm(), []string{refundGood, order, payment, refundGood, reply},
			[]int64{-100, 200, 200, 200, 680}, score.Scored, 907_692},
		"repeated": {calm(), []string{order, order, order}, []int64{200, -100, -100}, "", 0},
		"harmless look-up": {calm(), []string{otherOrder, order, payment, refundGood, reply},
			[]int64{-20, 200, 200, 200, 680}, score.Scored, 969_231},
		"harmless once only": {calm(), []string{otherOrder, noOrder, otherOrder}, []int64{-20, -100, -100}, "",
			0},
		"harmless beyond the count": {calm(), []string{order, payment, refundGood, refundMore, otherOrder},
			[]int64{200, 200, 200, -100, -20}, "", 0},
		"wrong amount": {calm(), []string{order, payment, refundMore, reply},
			[]int64{200, 200, -100, -100}, score.Scored, 153_846},
		"forbidden act": {calm(), []string{order, payment, escalate, refundGood, reply},
			[]int64{200, 200, -100, 200, 180}, score.Scored, 523_077},
		"forbidden promise": {calm(), []string{order, payment, refundGood, promise},
			[]int64{200, 200, 200, -100}, score.Scored, 384_615},
		"facts missing": {calm(), []string{order, payment, refundGood, emptyWords},
			[]int64{200, 200, 200, -100}, score.Scored, 384_615},
		"no message": {calm(), []string{`{"action_type":"respond_user"}`, order}, []int64{-100, 200},
			"", 0},
		"no payload": {calm(), []string{`{"action_type":"check_payment","payload":null}`,
			`{"action_type":"initiate_refund"}`}, []int64{-100, -100}, "", 0},
		"no team": {calm(), []string{`{"action_type":"escalate_issue","payload":{}}`},
			[]int64{-100}, "", 0},
		"steps run out": {calm(), slices.Repeat([]string{order}, 8),
			[]int64{200, -100, -100, -100, -120, -120, -120, -320}, score.Failed, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, last := play(t, start(tc.workflow, episode.Dense), tc.actions...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rewards (-want +got):\n%s", diff)
			}
			held, lastHeld := play(t, start(tc.workflow, episode.Terminal), tc.actions...)
			if tc.outcome == "" {
				if last.Done || last.Final != nil || sum(held) != 0 {
					t.Errorf("last = %+v, want not done; held back %v", last, held)
				}
				return
			}
			if diff := cmp.Diff(last.Final, lastHeld.Final); diff != "" {
				t.Errorf("final of dense and terminal rewards differ (-dense +terminal):\n%s", diff)
			}
			if !last.Done || last.Final.Outcome != tc.outcome || last.Final.Score != tc.score {
				t.Errorf("final = %+v, want %s with %d", last.Final, tc.outcome, tc.score)
			}
			want := make([]int64, len(got))
			want[len(want)-1] = sum(got)
			if diff := cmp.Diff(want, held); diff != "" {
				t.Errorf("terminal rewards (-want +got):\n%s", diff)
			}
			var booked int64
			for _, d := range last.Final.Dimensions {
				booked += d.Earned
			}
			if booked != sum(got) {
				t.Errorf("dimensions add up to %d, rewards to %d", booked, sum(got))
			}
		})
	}
}

func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		total += v
	}
	return total
}

func TestFinalBreaksTheScoreDown(t *testing.T) {
	_, last := play(t, start(calm(), episode.Dense), otherOrder, order, payment, refundGood, reply)
	want := &episode.Final{
		Task: "refund", Scenario: "C99", Category: "workflow", Outcome: score.Scored, Score: 969_231, Judge: "rules",
		Dimensions: []score.Dimension{{Name: "steps", Earned: 800, Offered: 800},
			{Name: "resolution", Earned: 500, Offered: 500}, {Name: "penalties", Earned: -40}},
	}
	if diff := cmp.Diff(want, last.Final); diff != "" {
		t.Errorf("Final (-want +got):\n%s", diff)
	}
}

func TestQuestionGoesOn(t *testing.T) {
	w := calm()
	w.Steps = []scenarios.WorkflowStep{
		{ID: "s0", Action: scenarios.RespondUser, Ask: true, Answer: "It is LD-1."},
		{ID: "s1", Action: scenarios.CheckOrderStatus, Args: theOrder(), Requires: []string{"s0"}},
		{ID: "s2", Action: scenarios.RespondUser, Requires: []string{"s1"}, Terminal: true},
	}
	ask := `{"action_type":"respond_user","payload":{"message":"Which order is it?"}}`
	e := start(w, episode.Dense)
	asked := step(t, e, ask)
	if got, want := string(asked.Observation.(Observation).LastResult), `{"ok":true,"sent":"Which order is it?","answer":"It is LD-1."}`; got != want ||
		asked.Done || asked.Reward != 200 {
		t.Errorf("asked = %s, done %v, reward %d; want %s, false, 200", got, asked.Done, asked.Reward, want)
	}
	if got, _ := play(t, e, order, reply); sum(got) != 900 {
		t.Errorf("rest = %v, want 900 in all", got)
	}
	if got, last := play(t, start(w, episode.Dense), ask, ask); !last.Done || sum(got) != 100 {
		t.Errorf("asking twice = %v, done %v, want 100 in all, done", got, last.Done)
	}
	if got, last := play(t, start(w, episode.Dense), emptyWords); !last.Done || sum(got) != -100 {
		t.Errorf("a reply in place of the question = %v, done %v, want -100, done", got, last.Done)
	}
}

func TestToolsAnswer(t *testing.T) {
	e := start(testWorkflow(), episode.Dense)
	first := e.state.observation()
	if first.OrderStatus != nil || first.PaymentStatus != nil || testkit.JSON(first.LastResult) != "null" {
		t.Errorf("first observation = %+v, want nothing looked up", first)
	}
	answers := []struct{ action, want string }{
		{payment, `{"ok":false,"error":"503 backend unavailable"}`},
		{payment,
			`{"ok":true,"payments":[{"payment_id":"PAY-1","order_id":"LD-1","status":"captured","amount":12.50},{"payment_id":"PAY-2","order_id":"LD-1","status":"authorised","amount":12.50}]}`},
		{order, `{"ok":true,"order":{"order_id":"LD-1","status":"delivered","total":12.50,"notes":["porch"]}}`},
		{`{"action_type":"check_order_status","payload":{"order_id":" #ld-9 "}}`,
			`{"ok":false,"error":"there is no order LD-9"}`},
		{`{"action_type":"initiate_refund","payload":{"order_id":"LD-9","amount":1}}`,
			`{"ok":false,"error":"there is no such order or payment"}`},
		{`{"action_type":"initiate_refund","payload":{"order_id":"LD-1","payment_id":"PAY-1","amount":"$12.50"}}`,
			`{"ok":true,"refund":{"refund_id":"RF-1","order_id":"LD-1","payment_id":"PAY-1","amount":12.50}}`},
		{`{"action_type":"check_payment","payload":{"payment_id":"PAY-1"}}`,
			`{"ok":true,"payments":[{"payment_id":"PAY-1","order_id":"LD-1","status":"captured","amount":12.50}],"refunds":[{"refund_id":"RF-1","order_id":"LD-1","payment_id":"PAY-1","amount":12.50}]}`},
	}
	var last Observation
	for _, a := range answers {
		last = step(t, e, a.action).Observation.(Observation)
		if got := string(last.LastResult); got != a.want {
			t.Errorf("%s:\n got %s\nwant %s", a.action, got, a.want)
		}
	}
	if *last.OrderStatus != "delivered" || *last.PaymentStatus != "captured" {
		t.Errorf("statuses = %q, %q, want those looked up last", *last.OrderStatus, *last.PaymentStatus)
	}
	want := Entry{Step: 6, ActionType: "initiate_refund",
		Payload: `{"amount":12.50,"order_id":"LD-1","payment_id":"PAY-1"}`, Result: document(answers[5].want)}
	if diff := cmp.Diff(want, last.History[5]); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	escalated := step(t, e,
		`{"action_type":"escalate_issue","payload":{"team":"Trade Compliance team","reason":"why"}}`).Observation.(Observation)
	if got, want := string(
		escalated.LastResult), `{"ok":true,"case":{"case_id":"CASE-1","team":"trade-compliance","reason":"why"}}`; got != want {
		t.Errorf("escalated: got %s, want %s", got, want)
	}
}

func TestTheClockRunsByTheScenario(t *testing.T) {
	w := calm()
	w.StepMinutes = map[string]int{scenarios.CheckOrderStatus: 1, scenarios.InitiateRefund: 3, scenarios.RespondUser: 4}
	e := start(w, episode.Dense)
	for _, tc := range []struct {
		action string
		want   int
	}{{order, 1}, {refundMore, 4}, {order, 5}, {payment, 5}, {reply, 9}, {reply, 9}} {
		if got := step(t, e, tc.action).Observation.(Observation).MinutesUsed; got != tc.want {
			t.Errorf("after %s: %d minutes used, want %d", tc.action, got, tc.want)
		}
	}
}

func TestBackendOfTheScenarioIsLeftAlone(t *testing.T) {
	w := calm()
	before := w.State.Clone()
	play(t, start(w, episode.Dense), order, payment, refundGood, escalate, reply)
	if diff := cmp.Diff(before, w.State); diff != "" {
		t.Errorf("the scenario's state changed (-before +after):\n%s", diff)
	}
}

func TestRefundsAreBookedToOnePayment(t *testing.T) {
	w := calm()
	w.State.Orders = append(w.State.Orders, scenarios.Order{ID: "LD-3"})
	w.State.Payments = append(w.State.Payments, scenarios.Payment{ID: "PAY-3", OrderID: "LD-3", Status: "captured",
		Amount: 900}, scenarios.Payment{ID: "PAY-4", OrderID: "LD-3", Status: "captured", Amount: 900})
	tests := map[string]struct{ payload, want string }{
		"the only captured payment": {`{"order_id":"LD-1","amount":1}`, ""},
		"one of two": {`{"order_id":"LD-3","amount":1}`,
			"payment_id is missing: order LD-3 has several payments"},
		"one of two, named": {`{"order_id":"LD-3","payment_id":"PAY-4","amount":1}`, ""},
		"payment alone":     {`{"payment_id":"PAY-4","amount":1}`, ""},
		"payment of another order": {`{"order_id":"LD-1","payment_id":"PAY-4","amount":1}`,
			"payment PAY-4 is not of order LD-1"},
		"order without payment": {`{"order_id":"LD-2","amount":1}`, "there is no such order or payment"},
		"unknown payment": {`{"order_id":"LD-1","payment_id":"PAY-9","amount":1}`,
			"there is no such order or payment"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := start(w, episode.Dense)
			play(t, e, order, payment, `{"action_type":"initiate_refund","payload":`+tc.payload+`}`)
			var got struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal([]byte(e.state.last), &got); err != nil {
				t.Fatal(err)
			}
			if got.Error != tc.want || len(e.state.backend.Refunds) != map[bool]int{true: 1}[tc.want == ""] {
				t.Errorf("error %q, %d refunds, want %q", got.Error, len(e.state.backend.Refunds), tc.want)
			}
		})
	}
}

func TestParseCents(t *testing.T) {
	tests := map[string]struct {
		want scenarios.Cents
		ok   bool
	}{
		"12.5": {1250, true}, "12.50": {1250, true}, "$12.50": {1250, true}, "1e2": {10000, true}, "0.07": {7, true},
		"999999999.99": {99999999999, true},
		"12.505":       {}, "0": {}, "-1": {}, "NaN": {}, "Inf": {}, "1e400": {}, "1e10": {}, "12,50": {}, "": {}, "all": {},
		"0.001": {}, "0x10p0": {},
	}
	for text, tc := range tests {
		if got, ok := parseCents(text); got != tc.want || ok != tc.ok {
			t.Errorf("parseCents(%q) = %v, %v, want %v, %v", text, got, ok, tc.want, tc.ok)
		}
	}
}

func TestInvalidActionsEndTheEpisode(t *testing.T) {
	e := start(calm(), episode.Dense)
	step(t, e, order)
	for i := range episode.MaxInvalidActions - 1 {
		_, err := e.Step(t.Context(), json.RawMessage(`{"action_type":"refund"}`))
		if _, invalid := errors.AsType[*episode.ActionError](err); !invalid {
			t.Fatalf("invalid action %d: error = %v, want an ActionError", i+1, err)
		}
	}
	if got := e.State().(State); got.StepCount != 1 || got.InvalidActions != 4 || got.Done {
		t.Errorf("state = %+v, want step 1, 4 invalid actions, not done", got)
	}
	last := step(t, e, `{"action_type":"refund"}`)
	if !last.Done || last.Final == nil || last.Final.Outcome != score.Failed || last.Reward != -500 {
		t.Errorf("fifth invalid action: %+v, want done, failed, five penalties", last)
	}
}

func TestPenaltyOfAnInvalidActionComesWithTheNextReward(t *testing.T) {
	e := start(calm(), episode.Dense)
	if _, err := e.Step(t.Context(), json.RawMessage(`{}`)); err == nil {
		t.Fatal("Step() took an action without a type")
	}
	if got := step(t, e, order).Reward; got != 100 {
		t.Errorf("reward = %d, want 200 less 100", got)
	}
}

func TestStepAfterTheEndPaysNothing(t *testing.T) {
	e := start(calm(), episode.Dense)
	_, last := play(t, e, order, payment, refundGood, reply)
	for _, action := range []string{reply, order, `{"action_type":"nonsense"}`, `no json`} {
		again := step(t, e, action)
		if !again.Done || again.Reward != 0 || again.Final != nil {
			t.Errorf("Step(%s) after the end = %+v, want done, reward 0, no final", action, again)
		}
		if diff := cmp.Diff(last.Observation, again.Observation); diff != "" {
			t.Errorf("observation (-want +got):\n%s", diff)
		}
	}
}

// TestEveryEpisodeKeepsTheRules plays random episodes: none pays more than gold, rewards add up to
// the dimensions, every observation is of the served schema, the same actions give the same bytes
// and no later step changes an earlier observation.
func TestEveryEpisodeKeepsTheRules(t *testing.T) {
	kind := start(calm(), episode.Dense).kind
	schema := testkit.CompileSchema(t, kind.schemas.Observation)
	all := []string{
		order, otherOrder, noOrder, payment, refundGood, refundMore, escalate, reply, emptyWords, promise,
		`{"action_type":"respond_user"}`, `{"action_type":"fly"}`,
		order, payment, refundGood,
	}
	rapid.Check(t, func(rt *rapid.T) {
		actions := rapid.SliceOfN(rapid.SampledFrom(all), 1, 12).Draw(rt, "actions")
		mode := rapid.SampledFrom([]episode.RewardMode{episode.Dense, episode.Terminal}).Draw(rt, "mode")
		e, twin := start(testWorkflow(), mode), start(testWorkflow(), mode)
		var total int64
		var final *episode.Final
		var seen []Observation
		var texts []string
		for _, a := range actions {
			r, err := e.Step(context.Background(), json.RawMessage(a))
			r2, err2 := twin.Step(context.Background(), json.RawMessage(a))
			if fmt.Sprint(err) != fmt.Sprint(err2) {
				rt.Fatalf("the same step gave %v and %v", err, err2)
			}
			if err != nil {
				continue
			}
			text := testkit.JSON(r.Observation)
			if text != testkit.JSON(r2.Observation) || r.Reward != r2.Reward {
				rt.Fatal("the same step gave something else")
			}
			testkit.Validate(rt, schema, text)
			if final != nil && (r.Reward != 0 || r.Final != nil || !r.Done) {
				rt.Fatalf("a step after the end gave %+v", r)
			}
			total += r.Reward
			if r.Final != nil {
				final = r.Final
			}
			seen, texts = append(seen, r.Observation.(Observation)), append(texts, text)
		}
		for i := range seen {
			if testkit.JSON(seen[i]) != texts[i] {
				rt.Fatalf("observation %d changed later", i)
			}
		}
		if total > 1300 {
			rt.Fatalf("return %d is above gold", total)
		}
		if final == nil {
			return
		}
		if booked := final.Dimensions[0].Earned + final.Dimensions[1].Earned +
			final.Dimensions[2].Earned; booked != total {
			rt.Fatalf("dimensions add up to %d, rewards to %d", booked, total)
		}
		if final.Score < 0 || final.Score > score.One {
			rt.Fatalf("score %d is outside 0 to 1", final.Score)
		}
	})
}

// TestRepeatsNeverPay plays gold with every action k times over.
func TestRepeatsNeverPay(t *testing.T) {
	gold := []string{order, payment, refundGood, reply}
	for i, a := range gold {
		for k := 2; k <= 5; k++ {
			repeated := slices.Concat(gold[:i], slices.Repeat([]string{a}, k), gold[i+1:])
			got, _ := play(t, start(calm(), episode.Dense), repeated...)
			if a == reply && sum(got) != 1300 {
				t.Errorf("%d times the last action pays %d, want 1300", k, sum(got))
			}
			if a != reply && sum(got) >= 1300 {
				t.Errorf("%d times %s pays %d", k, a, sum(got))
			}
		}
	}
}

func TestBlockedActionsAreNotCarriedOut(t *testing.T) {
	for _, action := range []string{refundGood, refundMore, `{"action_type":"initiate_refund","payload":{}}`} {
		e := start(calm(), episode.Dense)
		r := step(t, e, action)
		got := r.Observation.(Observation)
		if want := `{"ok":false,"error":"not done: something has to be looked up or settled first"}`; string(
			got.LastResult) != want || len(e.state.backend.Refunds) != 0 || r.Reward != -100 {
			t.Errorf("%s: result %s, refunds %v, reward %d; want %s, none and -100", action, got.LastResult,
				e.state.backend.Refunds, r.Reward, want)
		}
	}
}

// TestSessionsOfOneInstance plays two episodes on the same instance, whose list of refunds has room
// for more.
func TestSessionsOfOneInstance(t *testing.T) {
	w := calm()
	w.State.Refunds = make([]scenarios.Refund, 0, 4)
	a, b := start(w, episode.Dense), start(w, episode.Dense)
	for _, action := range []string{order, payment} {
		step(t, a, action)
		step(t, b, action)
	}
	step(t, a, refundGood)
	step(t, b, refundMore)
	if got := a.state.backend.Refunds[0].Amount; got != 1250 {
		t.Errorf("the first session's refund is %s after the second one's", got)
	}
	seen := step(t, a, reply).Observation.(Observation)
	seen.History[0].ActionType = "changed by the client"
	if got := a.state.history[0].ActionType; got != scenarios.CheckOrderStatus {
		t.Errorf("the history reads %q after a client wrote into an observation", got)
	}
}

// TestTwoRefundsAreMadeTwice repeats the refund, which the backend makes twice.
func TestTwoRefundsAreMadeTwice(t *testing.T) {
	e := start(calm(), episode.Dense)
	play(t, e, order, payment, refundGood, refundGood)
	if got := len(e.state.backend.Refunds); got != 2 {
		t.Errorf("the backend has %d refunds, want 2", got)
	}
}

func BenchmarkStep(b *testing.B) {
	actions := []json.RawMessage{json.RawMessage(order), json.RawMessage(payment), json.RawMessage(refundGood),
		json.RawMessage(reply)}
	e, w := start(calm(), episode.Dense), calm()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(actions) == 0 {
			e.state = newState(e.state.task, w, plainReader{}, episode.Dense)
		}
		if _, err := e.Step(b.Context(), actions[i%len(actions)]); err != nil {
			b.Fatal(err)
		}
	}
}
