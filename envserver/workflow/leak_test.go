package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/internal/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// byDesign are the sights that may tell what is right, with the reason. They are measured among
// instances of one scenario, where the customer says the same and the same modifiers apply; the
// others among all instances of a family and task, which the customer's words and the task name.
var byDesign = map[string]string{
	"observation.user_query":       "the customer's own words",
	"observation.account_level":    "periods and limits of the policy depend on the customer's level",
	"observation.now.day":          "periods of the policy end on days",
	"observation.now.month":        "RET-4 and DMG-9 depend on the month",
	"probe." + desk.CheckOrder:     "a look-up shows whether there is a record, and a modifier can make it fail once",
	"probe." + desk.CheckPayment:   "a look-up shows whether there is a record, and a modifier can make it fail once",
	"probe." + desk.CheckShipment:  "a look-up shows whether there is a parcel, and a modifier can make it fail once",
	"probe." + desk.LookUpCustomer: "a modifier can make it fail once",
	"probe.look_up_policy":         "a modifier can make it fail once",
	"probe.ask order":              "a customer who left the order's number out tells it",
	"probe.ask photo":              "a modifier can make it fail once",
	"probe.ask serial":             "a modifier can make it fail once",
}

// recorded are the sights that show records, which the decision follows from.
var recorded = []string{"probe." + desk.CheckShipment, "observation.now.day", "observation.now.month"}

// maxGain is by how much a learner may guess better than by the majority.
const maxGain = .02

// instanceSeen is what an agent can see of an instance before the first graded action or by one
// probing action, and what is right.
type instanceSeen struct {
	seen, right map[string]string
	// group names what is known anyway: the family and the task, and the scenario.
	family, scenario string
}

// TestNothingServedTellsWhatIsRight lets a learner guess what is right from each field that is
// served before the first graded action and from the answer to each single probing action.
func TestNothingServedTellsWhatIsRight(t *testing.T) {
	seeds := int64(12)
	if testing.Short() {
		seeds = 2
	}
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	var train, test []instanceSeen
	for seed := range seeds {
		for _, s := range kind.catalog.Cases() {
			if seen := look(t, kind, s, seed); seed%2 == 0 {
				train = append(train, seen)
			} else {
				test = append(test, seen)
			}
		}
	}
	t.Logf("%d instances", len(train)+len(test))
	for sight := range train[0].seen {
		for question := range train[0].right {
			_, open := byDesign[sight]
			for name, group := range map[string]func(instanceSeen) string{
				"family": func(s instanceSeen) string { return s.family }, "scenario": func(s instanceSeen) string { return s.scenario }} {
				if open && name == "family" || slices.Contains(recorded, sight) {
					continue
				}
				plain, informed := guess(train, test, question, "", group), guess(train, test, question, sight, group)
				if informed-plain > maxGain {
					t.Errorf("%s tells %s among instances of one %s: %.3f are guessed, without it %.3f", sight, question, name,
						informed, plain)
				}
			}
		}
	}
}

// minSample is the number of examples of a value from which the learner uses it.
const minSample = 5

// guess returns the share of right guesses. The learner guesses the majority of the examples of
// the group with the same value of the sight, of the group if they are few, and of all if these
// are few.
func guess(train, test []instanceSeen, question, sight string, group func(instanceSeen) string) float64 {
	counts := map[string]map[string]int{}
	keys := func(s instanceSeen) []string {
		all := []string{"", group(s)}
		if sight != "" {
			all = append(all, group(s)+"\x00"+s.seen[sight])
		}
		return all
	}
	for _, s := range train {
		for _, key := range keys(s) {
			if counts[key] == nil {
				counts[key] = map[string]int{}
			}
			counts[key][s.right[question]]++
		}
	}
	majority := map[string]string{}
	for key, votes := range counts {
		sum, best := 0, ""
		for _, label := range slices.Sorted(maps.Keys(votes)) {
			if sum += votes[label]; best == "" || votes[label] > votes[best] {
				best = label
			}
		}
		if sum >= minSample {
			majority[key] = best
		}
	}
	right := 0
	for _, s := range test {
		guessed := ""
		for _, key := range keys(s) {
			guessed = cmp.Or(majority[key], guessed)
		}
		if guessed == s.right[question] {
			right++
		}
	}
	return float64(right) / float64(len(test))
}

// look resets an instance and tries each probing action on it.
func look(t *testing.T, kind *Kind, scenario *scenarios.WorkflowScenario, seed int64) instanceSeen {
	t.Helper()
	options := episode.Options{Task: scenario.Task(), Scenario: scenario.ID, Seed: seed, EpisodeID: "e"}
	env, _ := kind.New().(*environment)
	first, err := env.Reset(options)
	if err != nil {
		t.Fatal(err)
	}
	w := env.state.workflow
	var changed []string
	for _, step := range w.Steps {
		if changes(step.Action) && !slices.Contains(changed, step.Action) {
			changed = append(changed, step.Action)
		}
	}
	slices.Sort(changed)
	out := instanceSeen{family: scenario.Category() + " " + scenario.Task(), scenario: scenario.ID, seen: map[string]string{},
		right: map[string]string{"changes": "by " + strings.Join(changed, "+"), "outcome": w.Decision.Outcome,
			"whether anything changes": fmt.Sprint(len(changed) > 0)}}
	describeFields(out.seen, "observation", decoded(t, first.Observation))
	state, _ := decoded(t, env.State()).(map[string]any)
	delete(state, "seed")
	describeFields(out.seen, "state", state)
	for name, action := range probes(w) {
		fork, _ := env.Fork().(*environment)
		result, err := fork.Step(context.Background(), json.RawMessage(action))
		answer := fmt.Sprint(err)
		if err == nil {
			answer = shape(w, decoded(t, result.Observation))
		}
		out.seen["probe."+name] = fmt.Sprint(answer, result.Reward, result.Done, fork.state.invalid)
	}
	return out
}

func decoded(t *testing.T, value any) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(testkit.JSON(value)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// describeFields adds each field of a document: numbers and short words as they are, other texts
// and lists by their length, times by their parts.
func describeFields(out map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			describeFields(out, path+"."+name, field)
		}
	case []any:
		out[path] = fmt.Sprint(len(v))
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			out[path+".hour"], out[path+".minute"] = fmt.Sprint(at.Hour()), fmt.Sprint(at.Minute())
			out[path+".day"], out[path+".month"] = fmt.Sprint(at.Day(), at.Weekday()), at.Month().String()
		} else if strings.HasSuffix(path, "_level") {
			out[path] = v
		} else {
			out[path] = fmt.Sprint(len(v))
		}
	default:
		out[path] = fmt.Sprint(v)
	}
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
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "|")
}

// probes are the actions that an agent can try first, by name. Changes have the arguments that the
// case requires, or else some that are possible.
func probes(w *scenarios.Workflow) map[string]string {
	order := w.Desk.Records.Orders[0]
	possible := map[string]map[string]any{
		desk.Refunding:    {"order_id": order.ID, "amount": int64(order.Items[0].Price)},
		desk.Crediting:    {"order_id": order.ID, "amount": int64(w.Desk.Policy.Goodwill)},
		desk.Replacing:    {"order_id": order.ID, "sku": order.Items[0].SKU},
		desk.Cancelling:   {"order_id": order.ID},
		desk.Readdressing: {"order_id": order.ID, "address": "1 Another Street, Otherton"},
		desk.Escalating:   {"team": "finance"},
		desk.CheckOrder:   {"order_id": order.ID}, desk.CheckPayment: {"order_id": order.ID},
		desk.CheckShipment: {"order_id": order.ID}, desk.LookUpCustomer: {}, desk.LookUpPolicy: {"topic": "returns"},
	}
	right := map[string]map[string]any{}
	for _, step := range w.Steps {
		if changes(step.Action) && right[step.Action] == nil {
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
		out[name] = testkit.JSON(map[string]any{"action_type": action, "payload": args})
	}
	for action, args := range possible {
		add(action, action, args)
		if changes(action) {
			add(action+" without arguments", action, map[string]any{})
			if right[action] != nil {
				args = right[action]
			}
			add(action+" as required", action, args)
		}
	}
	for topic, question := range map[string]string{"order": "What is the order number?", "photo": "Could you send a photo?",
		"serial": "What is the serial number?", "anything": "How are you?"} {
		add("ask "+topic, desk.AskCustomer, map[string]any{"message": question})
	}
	return out
}
