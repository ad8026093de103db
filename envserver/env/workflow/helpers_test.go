package workflow

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/tasks"
)

// comparing is the reader of all tests.
var comparing = sync.OnceValue(offline.New)

// theOrder constrains an action to the order that the issue is about.
func theOrder() []scenarios.Arg { return []scenarios.Arg{{Name: "order_id", In: []any{"LD-1"}}} }

// testWorkflow requires the order and the payment to be looked up, a refund of 12.50, and a reply
// that states it. The first look-up of a payment fails, and any escalation is forbidden.
func testWorkflow() *scenarios.Workflow {
	refund := append(theOrder(), scenarios.Arg{Name: "amount", In: []any{int64(1250)}})
	return &scenarios.Workflow{
		ScenarioID: "C99", Category: "workflow", Rules: scenarios.WrittenRules, Now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC), Language: "en", MaxSteps: 8,
		Customer: scenarios.Customer{Name: "Ada Moss", AccountLevel: "basic"}, Query: "Where is my money?",
		Visible: scenarios.Visible{OrderStatus: "unknown"},
		Records: desk.Records{
			Orders: []desk.Order{{ID: "LD-1", Status: "delivered", Total: 1250, Notes: []string{"porch"}},
				{ID: "LD-2", Status: "packed"}},
			Payments: []desk.Payment{{ID: "PAY-1", OrderID: "LD-1", Status: "captured", Amount: 1250},
				{ID: "PAY-2", OrderID: "LD-1", Status: "authorised", Amount: 1250}},
		},
		Steps: []scenarios.WorkflowStep{
			{ID: "s1", Action: desk.CheckOrder, Args: theOrder()},
			{ID: "s2", Action: desk.CheckPayment, Args: theOrder()},
			{ID: "s3", Action: desk.Refunding, Args: refund, Requires: []string{"s1", "s2"}},
			{ID: "s4", Action: desk.RespondUser, Requires: []string{"s3"}, Terminal: true},
		},
		Neutral: []scenarios.NeutralAction{{Action: desk.CheckOrder,
			Args: []scenarios.Arg{{Name: "order_id", Any: true}}, Max: 1}},
		Forbidden: []scenarios.ForbiddenAction{{ID: "n1", Action: desk.Escalating}},
		Facts: []scenarios.Fact{{ID: "f1", What: "refund_amount", Stated: "$12.50"},
			{ID: "f2", What: "period", Stated: "5 days", Optional: true}},
		AllowedValues: []string{"$12.50"},
		Faults:        []desk.Fault{{Action: desk.CheckPayment, Call: 1, Error: "503 backend unavailable"}},
	}
}

// calm returns testWorkflow without faults.
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
	e := &environment{kind: &Kind{reader: comparing(), schemas: schemas}}
	e.beginEpisode(&task{Task: tasks.Task{Name: "refund"}}, w,
		episode.Options{Seed: 7, EpisodeID: "e1", RewardMode: mode})
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
	reply      = `{"action_type":"respond_user","payload":{"message":"We sent $12.50 back.",` +
		`"facts":[{"what":"refund_amount","value":"$12.50"}]}}`
	emptyWords = `{"action_type":"respond_user","payload":{"message":"All is well."}}`
	wrongFact  = `{"action_type":"respond_user","payload":{"message":"We sent $12.50 back.",` +
		`"facts":[{"what":"refund_amount","value":"$12"}]}}`
)

func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		total += v
	}
	return total
}
