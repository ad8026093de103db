package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/env/episode"
)

// declaredRange reads the range of rewards from the manifest of the Python package, in
// milli-points.
func declaredRange(t *testing.T) (low, high int64) {
	t.Helper()
	text, err := os.ReadFile("../../../python/customer_support_env/openenv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Validation struct{ Reward struct{ Range []float64 } }
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil || len(manifest.Validation.Reward.Range) != 2 {
		t.Fatalf("the manifest has no range of rewards: %v", err)
	}
	bounds := manifest.Validation.Reward.Range
	return int64(bounds[0] * 1000), int64(bounds[1] * 1000)
}

// TestRewardsAreInTheDeclaredRange plays every scenario as badly as possible, and random actions,
// with terminal rewards, whose last one is the sum.
func TestRewardsAreInTheDeclaredRange(t *testing.T) {
	low, high := declaredRange(t)
	_, kind := publicKind(t)
	const wrong, malformed = `{"action_type":"initiate_refund","payload":{"order_id":"NONE","amount":"1"}}`, `{}`
	actions := []string{wrong, malformed, `{"action_type":"check_order_status","payload":{"order_id":"NONE"}}`,
		`{"action_type":"respond_user","payload":{"message":"We look into it."}}`,
		`{"action_type":"escalate_issue","payload":{"team":"nobody"}}`}
	play := func(tb rapid.TB, options episode.Options, next func(i int) string) (worst int64) {
		env := kind.New()
		if _, err := env.Reset(options); err != nil {
			tb.Fatal(err)
		}
		for i := range 1000 {
			r, err := env.Step(context.Background(), json.RawMessage(next(i)))
			if _, refused := errors.AsType[*episode.ActionError](err); err != nil && !refused {
				tb.Fatal(err)
			}
			if worst = min(worst, r.Reward); r.Reward < low || r.Reward > high {
				tb.Fatalf("task %s, scenario %s: reward %d is outside %d to %d", options.Task, options.Scenario, r.Reward,
					low, high)
			}
			if r.Done {
				return worst
			}
		}
		tb.Fatal("the episode doesn't end")
		return worst
	}
	var all []episode.Options
	var worst int64
	for _, task := range kind.Tasks() {
		for _, scenario := range task.Scenarios {
			options := episode.Options{Task: task.Name, Scenario: scenario.ID, RewardMode: episode.Terminal}
			all = append(all, options)
			worst = min(worst, play(t, options, func(i int) string {
				if i < episode.MaxInvalidActions-1 {
					return malformed
				}
				return wrong
			}))
			_, chosen, err := kind.chooseScenario(options)
			if err != nil {
				t.Fatal(err)
			}
			if w, err := chosen.Instantiate(0); err != nil || goldReturn(w) > high {
				t.Errorf("scenario %s pays more than %d: %v", scenario.ID, high, err)
			}
		}
	}
	if worst != low {
		t.Errorf("the worst reward is %d, and the manifest says %d", worst, low)
	}
	if !slices.ContainsFunc(all, func(o episode.Options) bool { return strings.HasPrefix(o.Task, "case-") }) {
		t.Error("no generated case was played")
	}
	rapid.Check(t, func(rt *rapid.T) {
		options := rapid.SampledFrom(all).Draw(rt, "scenario")
		options.Seed = rapid.Int64Range(0, 1<<53-1).Draw(rt, "seed")
		play(rt, options, func(int) string { return rapid.SampledFrom(actions).Draw(rt, "action") })
	})
}
