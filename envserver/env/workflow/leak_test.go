package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/leak"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// openSights may tell what is right in a family: a learner of all its instances doesn't know what
// the customer says and which modifiers apply. They are compared among instances of one scenario,
// where these are the same.
func openSights() []leak.Permission {
	fails := "a modifier can make it fail once"
	return append([]leak.Permission{
		{Sights: `observation\.user_query`, Why: "the customer's own words"},
		{Sights: `observation\.account_level`,
			Why: "periods and limits of the policy depend on the customer's level"},
		{Sights: `probe\.` + desk.CheckOrder, Why: "a look-up shows whether there is a record, and " + fails},
		{Sights: `probe\.` + desk.CheckPayment, Why: "a look-up shows whether there is a record, and " + fails},
		{Sights: `probe\.` + desk.LookUpCustomer, Why: fails},
		{Sights: `probe\.` + desk.LookUpPolicy, Why: fails},
		{Sights: `probe\.ask order`, Why: "a customer who left the order's number out tells it"},
		{Sights: `probe\.ask (photo|serial)`, Why: fails},
		{Sights: `probe\.tell `, Why: "which modifiers apply, and the customer's wish, the customer may say"},
	}, recordedSights()...)
}

// recordedSights show records, which the decision follows from.
func recordedSights() []leak.Permission {
	return []leak.Permission{
		{Sights: `probe\.` + desk.CheckShipment, Why: "a look-up shows whether there is a parcel"},
		{Sights: `observation\.now\.day`, Why: "periods of the policy end on days"},
		{Sights: `observation\.now\.month`, Why: "RET-4 and DMG-9 depend on the month"},
	}
}

// TestNothingServedTellsWhatIsRight lets a learner guess what is right from each field that is
// served before the first graded action and from the answer to each single probing action.
func TestNothingServedTellsWhatIsRight(t *testing.T) {
	seeds, stride := int64(12), 1
	if testing.Short() {
		seeds, stride = 2, 2
	}
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	var instances []leak.Instance
	for seed := range seeds {
		for k := 0; k < len(kind.catalog.Cases()); k += stride {
			instances = append(instances, look(t, kind, kind.catalog.Cases()[k], seed))
		}
	}
	t.Logf("%d instances", len(instances))
	const rounds = 2
	for _, found := range leak.Find(instances, leak.OfKnown(), rounds, openSights()...) {
		t.Errorf("among instances of a family, %s", found)
	}
	for _, found := range leak.Find(instances, leak.OfScenario(), rounds, recordedSights()...) {
		t.Errorf("among instances of a scenario, %s", found)
	}
}

// look resets an instance of a generated case and tries each probing action on it.
func look(t *testing.T, kind *Kind, scenario *scenarios.WorkflowScenario, seed int64) leak.Instance {
	t.Helper()
	env := resetTo(t, kind, scenario, seed)
	w := env.state.workflow
	changed := changesOf(w)
	return leak.Instance{Known: scenario.Category() + " " + scenario.Task(), Scenario: scenario.ID, Seed: seed,
		Seen: lookAt(t, env, probes(w)),
		Right: map[string]string{"changes": "by " + strings.Join(changed, "+"), "outcome": w.Decision.Outcome,
			"whether anything changes": fmt.Sprint(len(changed) > 0)}}
}

// resetTo resets an instance with dense rewards, which show at least what others do.
func resetTo(t *testing.T, kind *Kind, scenario *scenarios.WorkflowScenario, seed int64) *environment {
	t.Helper()
	env, _ := kind.New().(*environment)
	_, err := env.Reset(episode.Options{Task: scenario.Task(), Scenario: scenario.ID, Seed: seed, EpisodeID: "e",
		RewardMode: episode.Dense})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// changesOf lists the different actions among the required steps that change something.
func changesOf(w *scenarios.Workflow) []string {
	var changed []string
	for _, step := range w.Steps {
		if desk.IsChange(step.Action) {
			changed = append(changed, step.Action)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// lookAt returns the fields of the first observation and of the state, and the answers to probing
// actions that don't end the episode.
func lookAt(t *testing.T, env *environment, probes map[string]string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	leak.AddSights(seen, "observation", leak.RoundTripJSON(t, env.state.observation()))
	state, _ := leak.RoundTripJSON(t, env.State()).(map[string]any)
	delete(state, "seed")
	leak.AddSights(seen, "state", state)
	for name, action := range probes {
		fork, _ := env.Fork().(*environment)
		result, err := fork.Step(context.Background(), json.RawMessage(action))
		answer := fmt.Sprint(err)
		if err == nil {
			answer = shape(env.state.workflow, leak.RoundTripJSON(t, result.Observation))
			if last := fork.state.last; strings.Contains(string(last), `"ok":false`) {
				seen["probe."+name+".size"] = fmt.Sprint(len(last))
			}
		}
		if !result.Done {
			seen["probe."+name] = fmt.Sprint(answer, fork.state.invalid)
			seen["probe."+name+".reward"] = fmt.Sprint(result.Reward)
		}
	}
	return seen
}

var (
	idText     = regexp.MustCompile(`"[^"]*"|[A-Z]+-?\d+`)
	numberText = regexp.MustCompile(`\d+(\.\d+)?`)
)

// shape is the form of an answer: what it consists of, with ids and values masked.
func shape(w *scenarios.Workflow, observation any) string {
	o, _ := observation.(map[string]any)
	last, _ := o["last_result"].(map[string]any)
	parts := []string{fmt.Sprint(o["step"], o["max_steps"], o["minutes_used"])}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		part := name
		switch v, _ := last[name].(string); name {
		case "ok":
			part += fmt.Sprint(last[name])
		case "error", "done":
			part += numberText.ReplaceAllString(idText.ReplaceAllString(v, "ID"), "N")
		case "answer":
			part += fmt.Sprint(v == w.Unasked)
			if w.Talk != nil {
				part += talkShape(w, v)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "|")
}

// probes are the actions that an agent can try first, by name. Changes have the arguments that the
// case requires, or else some that are possible.
func probes(w *scenarios.Workflow) map[string]string {
	order := w.Records.Orders[0]
	possible := map[string]map[string]any{
		desk.Refunding:    {"order_id": order.ID, "amount": int64(order.Items[0].Price)},
		desk.Crediting:    {"order_id": order.ID, "amount": int64(w.Policy.Goodwill)},
		desk.Replacing:    {"order_id": order.ID, "sku": order.Items[0].SKU},
		desk.Cancelling:   {"order_id": order.ID},
		desk.Readdressing: {"order_id": order.ID, "address": "1 Another Street, Otherton"},
		desk.Escalating:   {"team": "finance"},
		desk.CheckOrder:   {"order_id": order.ID}, desk.CheckPayment: {"order_id": order.ID},
		desk.CheckShipment: {"order_id": order.ID}, desk.LookUpCustomer: {}, desk.LookUpPolicy: {"topic": "returns"},
	}
	right := map[string]map[string]any{}
	for _, step := range w.Steps {
		if desk.IsChange(step.Action) && right[step.Action] == nil {
			right[step.Action] = map[string]any{}
			for _, a := range step.Args {
				right[step.Action][a.Name] = a.In[0]
			}
		}
	}
	out := map[string]string{"invalid": `{"action_type":"initiate"}`, "malformed": `{`}
	add := func(name, action string, args map[string]any) {
		if sum, ok := args["amount"].(int64); ok {
			args = maps.Clone(args)
			args["amount"] = desk.Cents(sum).String()
		}
		out[name] = testkit.EncodeJSON(map[string]any{"action_type": action, "payload": args})
	}
	for action, args := range possible {
		add(action, action, args)
		if desk.IsChange(action) {
			add(action+" without arguments", action, map[string]any{})
			if right[action] != nil {
				args = right[action]
			}
			add(action+" as required", action, args)
		}
	}
	if w.Talk != nil {
		for name, m := range talkProbes(w, right) {
			add("tell "+name, desk.Tell, m)
		}
		return out
	}
	for topic, question := range map[string]string{"order": "What is the order number?",
		"photo": "Could you send a photo?", "serial": "What is the serial number?", "anything": "How are you?"} {
		add("ask "+topic, desk.AskCustomer, map[string]any{"message": question})
	}
	return out
}

// talkProbes are messages to the customer of a conversation: questions, offers, refusals, and
// requests to confirm changes, those that the case requires if it does.
func talkProbes(w *scenarios.Workflow, right map[string]map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{"nothing": {}, "refused": {"facts": []facts.Fact{{What: "next_step", Value: "refused"}}}}
	for _, topic := range talk.Topics {
		out["asks "+topic] = map[string]any{"asks": []string{topic}}
	}
	order := w.Records.Orders[0]
	for _, tool := range desk.ListChanges() {
		out["offers "+tool] = map[string]any{"offers": []string{tool}}
		args := map[string]any{"order_id": order.ID, "amount": int64(order.Items[0].Price), "address": w.Talk.FirstAddress}
		if required := right[tool]; required != nil {
			args = maps.Clone(required)
			if args["address"] != nil {
				args["address"] = w.Talk.FirstAddress
			}
		}
		args["confirms"] = []string{tool}
		out["confirms "+tool] = args
	}
	for _, m := range out {
		m["message"] = "Thank you for your message."
	}
	return out
}

// talkShape is what a customer's answer consists of, with ids and values masked.
func talkShape(w *scenarios.Workflow, answer string) string {
	for i, act := range w.Talk.First {
		answer = strings.ReplaceAll(answer, act.Words, fmt.Sprintf("<first %d %s %s>", i, act.Kind, act.Topic))
	}
	return numberText.ReplaceAllString(idText.ReplaceAllString(answer, "ID"), "N")
}
