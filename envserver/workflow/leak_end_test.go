package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/leak"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// endings are ways to end a generated case at once, by name: a reply that says nothing, the same
// with guessed facts, and after an action.
func endings(w *scenarios.Workflow) map[string][]string {
	reply := func(stated ...map[string]any) string {
		return testkit.EncodeJSON(map[string]any{"action_type": desk.RespondUser, "payload": map[string]any{
			"message": "I am sorry, we cannot do this. Finance: 3 business days.", "facts": stated}})
	}
	ends := map[string][]string{"reply": {reply()},
		"guess": {reply(map[string]any{"what": "team", "value": "finance"},
			map[string]any{"what": "next_step", "value": "refused"})}}
	for name, action := range probes(w) {
		ends[name] = []string{action, reply()}
	}
	return ends
}

// TestTheEndTellsNothing lets a learner guess what is right from each field of the last observation
// of a generated case that was given up, because the same seed can be played again. In written
// workflows it learns how many steps are required, because each offers the same.
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
				Seen: endsOf(t, env, endings(w)),
				Right: map[string]string{"changes": "by " + strings.Join(changed, "+"), "outcome": w.Decision.Outcome,
					"whether anything changes": fmt.Sprint(len(changed) > 0)}})
		}
	}
	t.Logf("%d instances with %d sights", len(instances), len(instances[0].Seen))
	share := leak.Permission{Sights: `^(check_|look_up_|ask )`,
		Why: "a look-up or question earns its share of those that are required"}
	for _, found := range leak.Find(instances, leak.OfKnown(), 2, share) {
		t.Errorf("among instances of a family, %s", found)
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
