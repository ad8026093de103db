package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/leak"
	"github.com/csenv/csenv/scenarios/desk"
)

// endings are ways to end a workflow at once, by name: a reply that says nothing, the same with
// guessed facts, and after each of the actions.
func endings(after map[string]string) map[string][]string {
	reply := func(stated ...map[string]any) string {
		return testkit.EncodeJSON(map[string]any{"action_type": desk.RespondUser, "payload": map[string]any{
			"message": "I am sorry, we cannot do this. Finance: 3 business days.", "facts": stated}})
	}
	ends := map[string][]string{"reply": {reply()},
		"guess": {reply(map[string]any{"what": "team", "value": "finance"},
			map[string]any{"what": "next_step", "value": "refused"})}}
	for name, action := range after {
		ends[name] = []string{action, reply()}
	}
	return ends
}

// TestTheEndTellsNothing lets a learner guess what is right from each field of the last observation
// of a generated case that was given up, because the same seed can be played again.
func TestTheEndTellsNothing(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 8
	}
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	var instances []leak.Instance
	for k := 0; k < len(kind.catalog.Cases()); k += stride {
		for seed := range int64(2) {
			s := kind.catalog.Cases()[k]
			env := resetTo(t, kind, s, seed)
			w := env.state.workflow
			changed := changesOf(w)
			instances = append(instances, leak.Instance{Known: s.Category() + " " + s.Task(), Scenario: s.ID,
				Seed: seed,
				Seen: endsOf(t, env, endings(probes(w))),
				Right: map[string]string{"changes": "by " + strings.Join(changed, "+"), "outcome": w.Decision.Outcome,
					"whether anything changes": fmt.Sprint(len(changed) > 0)}})
		}
	}
	t.Logf("%d instances with %d sights", len(instances), len(instances[0].Seen))
	for _, found := range leak.Find(instances, leak.OfKnown(), 2) {
		t.Errorf("among instances of a family, %s", found)
	}
}

// TestTheEndOfWrittenWorkflowsTellsNothing does the same with the other workflows. An action that
// the workflow may require says whether it does.
func TestTheEndOfWrittenWorkflowsTellsNothing(t *testing.T) {
	seeds, rounds := int64(40), 20
	if testing.Short() {
		seeds, rounds = 16, 10
	}
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	var instances []leak.Instance
	for _, s := range kind.catalog.Workflows() {
		for seed := range seeds {
			env := resetTo(t, kind, s, seed)
			w := env.state.workflow
			probes := writtenProbes(w)
			ends := endings(probes)
			ends["many look-ups"] = slices.Repeat([]string{probes["order"]}, w.MaxSteps)
			instances = append(instances, leak.Instance{Known: s.Task(), Scenario: s.ID, Seed: seed,
				Seen: endsOf(t, env, ends), Right: rightOf(w)})
		}
	}
	graded := leak.Permission{Sights: `^(order|payments?|(initiate|escalate|refund|ask) ?.*)\.`,
		Why: "a required step is paid, another one is fined"}
	for name, by := range map[string]leak.Comparison{"the same workflow": leak.OfScenario(),
		"other workflows": leak.OfOtherScenarios()} {
		for _, found := range leak.Find(instances, by, rounds, graded) {
			t.Errorf("by instances of %s, %s", name, found)
		}
	}
}

// endsOf returns what the last observations show of the score.
func endsOf(t *testing.T, env *environment, ends map[string][]string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for name, actions := range ends {
		fork, _ := env.Fork().(*environment)
		for _, action := range actions {
			result, err := fork.Step(t.Context(), json.RawMessage(action))
			if err != nil || !result.Done {
				continue
			}
			leak.AddSights(seen, name+".score", float64(result.Final.Score))
			leak.AddSights(seen, name+".reward", float64(result.Reward))
			leak.AddSights(seen, name+".dimensions", leak.RoundTripJSON(t, result.Final.Dimensions))
			seen[name+".verdict"] = string(result.Final.Verdicts[0])
			break
		}
	}
	return seen
}
