package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/leak"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// dense may tell what is right.
func dense() leak.Permission {
	return leak.Permission{Sights: `probe\.(order|payments?)\.reward`,
		Why: "dense rewards pay for a look-up that the workflow requires"}
}

// lookAtWritten looks at instances of the written workflows.
func lookAtWritten(t *testing.T, seeds int64) []leak.Instance {
	t.Helper()
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	var instances []leak.Instance
	for _, s := range kind.catalog.Workflows() {
		for seed := range seeds {
			env := resetTo(t, kind, s, seed)
			w := env.state.workflow
			instances = append(instances, leak.Instance{Known: s.Task(), Scenario: s.ID, Seed: seed,
				Seen: lookAt(t, env, writtenProbes(w)), Right: rightOf(w)})
		}
	}
	return instances
}

func rightOf(w *scenarios.Workflow) map[string]string {
	required := make([]string, len(w.Steps))
	team := "no"
	for k, step := range w.Steps {
		required[k] = step.Action
		for _, a := range step.Args {
			if a.Name == "team" {
				team = fmt.Sprint(a.In...)
			}
		}
	}
	return map[string]string{"changes": "by " + strings.Join(changesOf(w), "+"), "team": team,
		"required actions":           strings.Join(required, " "),
		"number of required actions": fmt.Sprint(len(w.Steps))}
}

// TestNoWrittenWorkflowTellsWhatIsRight does the same with the workflows of order-inquiry, refund
// and payment-exception: among instances of one workflow, some of which have another decision, and
// from the instances of the other workflows of a task. There are 20 workflows only; leak.Find says
// how chance is excluded.
func TestNoWrittenWorkflowTellsWhatIsRight(t *testing.T) {
	seeds, rounds := int64(40), 100
	if testing.Short() {
		seeds, rounds = 16, 20
	}
	instances := lookAtWritten(t, seeds)
	leak.AddRanges(instances)
	t.Logf("%d instances with %d sights", len(instances), len(instances[0].Seen))
	for name, by := range map[string]leak.Comparison{"the same workflow": leak.OfScenario(),
		"other workflows": leak.OfOtherScenarios()} {
		for _, found := range leak.Find(instances, by, rounds, dense()) {
			t.Errorf("by instances of %s, %s", name, found)
		}
	}
}

// TestLeaksOfWrittenWorkflowsAreFound puts leaks back: a limit of steps that depends on the number
// of required ones, and a refusal of required changes alone.
func TestLeaksOfWrittenWorkflowsAreFound(t *testing.T) {
	instances := lookAtWritten(t, 24)
	for _, i := range instances {
		i.Seen["leak.max_steps"] = fmt.Sprint(2 * len(strings.Fields(i.Right["required actions"])))
		i.Seen["leak.refund"] = fmt.Sprint(strings.Contains(i.Right["changes"], desk.Refunding))
	}
	want := []string{"leak.refund changes", "leak.max_steps number of required actions"}
	for name, by := range map[string]leak.Comparison{"the same workflow": leak.OfScenario(),
		"other workflows": leak.OfOtherScenarios()} {
		var found []string
		for _, f := range leak.Find(instances, by, 10, dense()) {
			found = append(found, f.Sight+" "+f.Question)
			if !strings.HasPrefix(f.Sight, "leak.") {
				t.Errorf("by instances of %s, %s", name, f)
			}
		}
		for _, leaky := range want {
			if !slices.Contains(found, leaky) {
				t.Errorf("by instances of %s, %s isn't found in %q", name, leaky, found)
			}
		}
	}
}

// writtenProbes are the actions that an agent can try first in a written workflow, by name.
func writtenProbes(w *scenarios.Workflow) map[string]string {
	order, payment := w.Records.Orders[0], w.Records.Payments[0]
	out := map[string]string{"invalid": `{"action_type":"initiate"}`, "malformed": `{`}
	add := func(name, action string, args map[string]any) {
		out[name] = testkit.EncodeJSON(map[string]any{"action_type": action, "payload": args})
	}
	add("order", desk.CheckOrder, map[string]any{"order_id": order.ID})
	add("payments", desk.CheckPayment, map[string]any{"order_id": order.ID})
	add("payment", desk.CheckPayment, map[string]any{"payment_id": payment.ID})
	for _, action := range []string{desk.CheckOrder, desk.CheckPayment, desk.Refunding,
		desk.Escalating, desk.RespondUser, desk.AskCustomer, desk.Replacing, desk.Cancelling} {
		add(action+" without arguments", action, map[string]any{})
	}
	for name, sum := range map[string]scenarios.Cents{"total": order.Total, "payment": payment.Amount,
		"dollar": 100} {
		add("refund "+name, desk.Refunding, map[string]any{"order_id": order.ID, "amount": sum.String()})
		add("refund "+name+" of payment", desk.Refunding, map[string]any{"order_id": order.ID,
			"payment_id": payment.ID, "amount": sum.String()})
	}
	for _, team := range []string{"finance", "logistics", "security", "fraud"} {
		add("escalate "+team, desk.Escalating, map[string]any{"team": team, "order_id": order.ID})
	}
	for _, step := range w.Steps {
		if !desk.IsChange(step.Action) {
			continue
		}
		args := map[string]any{}
		for _, a := range step.Args {
			if sum, ok := a.In[0].(int64); ok {
				args[a.Name] = scenarios.Cents(sum).String()
			} else {
				args[a.Name] = a.In[0]
			}
		}
		add(step.Action+" as required", step.Action, args)
	}
	if !slices.Contains(changesOf(w), desk.Refunding) {
		out[desk.Refunding+" as required"] = out["refund total"]
	}
	if !slices.Contains(changesOf(w), desk.Escalating) {
		out[desk.Escalating+" as required"] = out["escalate finance"]
	}
	for topic, question := range map[string]string{"order": "What is the order number?",
		"photo": "Could you send a photo?", "anything": "How are you?"} {
		add("ask "+topic, desk.RespondUser, map[string]any{"message": question})
	}
	return out
}
