package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/tasks"
)

// begin starts an episode of an instance.
func begin(kind *Kind, w *scenarios.Workflow, mode episode.RewardMode) *environment {
	e := &environment{kind: kind}
	e.beginEpisode(&task{Task: tasks.Task{Name: "any"}}, w, episode.Options{Seed: w.Seed, RewardMode: mode})
	return e
}

// run plays actions until their end or the episode's. It continues after refused actions.
func run(tb rapid.TB, e *environment, actions []string) (total int64, final *episode.Final) {
	tb.Helper()
	for _, a := range actions {
		r, err := e.Step(context.Background(), json.RawMessage(a))
		if _, refused := errors.AsType[*episode.ActionError](err); err != nil && !refused {
			tb.Fatalf("Step(%s) error = %v", a, err)
		}
		total += r.Reward
		if r.Final != nil {
			final = r.Final
		}
	}
	return total, final
}

// candidates returns actions that an agent may try on an instance: those of gold, and similar ones.
func candidates(w *scenarios.Workflow) []string {
	var out []string
	for _, s := range w.Steps {
		out = append(out, goldAction(w, s), goldAction(w, s))
	}
	act := func(action string, payload map[string]any) {
		out = append(out, testkit.EncodeJSON(map[string]any{"action_type": action, "payload": payload}))
	}
	for _, o := range w.Records.Orders {
		act(desk.CheckOrder, map[string]any{"order_id": o.ID})
		act(desk.CheckPayment, map[string]any{"order_id": o.ID})
		act(desk.Refunding, map[string]any{"order_id": o.ID, "amount": o.Total})
	}
	act(desk.CheckOrder, map[string]any{"order_id": "LD-000000"})
	act(desk.Escalating, map[string]any{"team": "finance"})
	act(desk.Escalating, map[string]any{"team": "marketing"})
	act(desk.RespondUser, map[string]any{"message": "Could you tell me your order number?"})
	act(desk.RespondUser, map[string]any{"message": w.References.Bad[0].Text})
	act(desk.RespondUser, map[string]any{})
	return append(out, `{"action_type":"dance"}`, `{}`)
}

// goldReturn is the sum of the rewards of all steps and the resolution.
func goldReturn(w *scenarios.Workflow) int64 {
	if w.Policy != nil {
		return stepPoints + casePoints
	}
	return stepPoints*int64(len(w.Steps)) + resolutionPoints
}

// TestNoSequenceBeatsGold plays actions like those of gold in random orders, and checks that
// immediate repetitions of an action never raise the return. It leaves out instances with a
// scripted failure, because retrying a failed call isn't a repetition, and sequences that exceed
// the step limit.
func TestNoSequenceBeatsGold(t *testing.T) {
	all, err := instances()
	if err != nil {
		t.Fatal(err)
	}
	_, kind := publicKind(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.SampledFrom(all).Draw(rt, "instance")
		actions := rapid.SliceOfN(rapid.SampledFrom(candidates(w)), 1, 10).Draw(rt, "actions")
		total, final := run(rt, begin(kind, w, episode.Dense), actions)
		if total > goldReturn(w) {
			rt.Fatalf("%s: return %d is above gold's %d", w.ScenarioID, total, goldReturn(w))
		}
		held, heldFinal := run(rt, begin(kind, w, episode.Terminal), actions)
		if final != nil && held != total || final == nil && held != 0 {
			rt.Fatalf("terminal rewards add up to %d, dense ones to %d", held, total)
		}
		if diff := cmp.Diff(final, heldFinal); diff != "" {
			rt.Fatalf("final of dense and terminal rewards differ:\n%s", diff)
		}
		i := rapid.IntRange(0, len(actions)-1).Draw(rt, "repeated")
		k := rapid.IntRange(2, 6).Draw(rt, "times")
		repeated := slices.Concat(actions[:i], slices.Repeat(actions[i:i+1], k), actions[i+1:])
		if again, _ := run(rt, begin(kind, w, episode.Dense), repeated); len(w.Faults) == 0 &&
			len(repeated) <= w.MaxSteps && again > total {
			rt.Fatalf("%s: %s done %d times raises the return from %d to %d", w.ScenarioID, actions[i], k, total, again)
		}
	})
}

// TestGoldAndNullAreTheEnds checks both ends of the scale: gold scores 1, and useless actions score
// 0.
func TestGoldAndNullAreTheEnds(t *testing.T) {
	eachOf(t, manySeeds, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		null := slices.Repeat([]string{`{"action_type":"respond_user","payload":{}}`}, w.MaxSteps)
		_, final := run(t, begin(kind, w, episode.Dense), null)
		if final == nil || final.Score != 0 || final.Outcome != score.Failed {
			t.Errorf("empty messages: final = %+v, want failed with 0", final)
		}
		var gold []string
		for _, s := range inOrder(w.Steps) {
			gold = append(gold, goldAction(w, s))
			for _, f := range w.Faults {
				if f.Action == s.Action {
					gold = append(gold, goldAction(w, s))
				}
			}
		}
		total, final := run(t, begin(kind, w, episode.Dense), gold)
		if final == nil || final.Score != score.One || total != goldReturn(w) {
			t.Errorf("gold: return %d, final %+v, want %d and all points", total, final, goldReturn(w))
		}
	})
}

// TestMissingRetryPreventsResolution plays gold without repeating the calls that fail by the
// script.
func TestMissingRetryPreventsResolution(t *testing.T) {
	faulty := 0
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		if len(w.Faults) == 0 {
			return
		}
		faulty++
		var gold []string
		for _, s := range inOrder(w.Steps) {
			gold = append(gold, goldAction(w, s))
		}
		if _, final := run(t, begin(kind, w, episode.Dense), gold); final == nil || final.Dimensions[1].Earned != 0 ||
			final.Score >= score.One/2 {
			t.Errorf("final = %+v, want no resolution", final)
		}
	})
	if faulty == 0 {
		t.Error("no workflow has a fault")
	}
}

// hidden lists what an agent must look up: the teams that handle the issues, and the facts that the
// customer doesn't state.
func hidden(w *scenarios.Workflow) []string {
	var tokens []string
	for _, s := range w.Steps {
		for _, arg := range s.Args {
			for _, v := range arg.In {
				if team, ok := v.(string); ok && arg.Name == "team" {
					tokens = append(tokens, team+" team", "to "+team)
				}
				if cents, ok := v.(int64); ok {
					tokens = append(tokens, scenarios.Cents(cents).String())
				}
			}
		}
	}
	for _, f := range w.Facts {
		if !strings.Contains(w.Query, f.Value) {
			tokens = append(tokens, f.Value)
		}
	}
	for _, p := range w.Records.Payments {
		tokens = append(tokens, p.ID, p.Status)
	}
	for _, o := range w.Records.Orders {
		tokens = append(tokens, `"`+o.Status+`"`)
	}
	return tokens
}

// TestRecordsAreHiddenBeforeLookUps searches the first observation, and the one after a look-up of
// a missing record, for texts that only the records contain.
func TestRecordsAreHiddenBeforeLookUps(t *testing.T) {
	eachOf(t, manySeeds, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		e := begin(kind, w, episode.Dense)
		seen := testkit.EncodeJSON(e.state.observation())
		seen += testkit.EncodeJSON(
			step(t, e, `{"action_type":"check_order_status","payload":{"order_id":"LD-000000"}}`).Observation) +
			testkit.EncodeJSON(e.State())
		for _, token := range hidden(w) {
			if strings.Contains(strings.ToLower(seen), strings.ToLower(token)) {
				t.Errorf("%q is visible without a look-up: %s", token, seen)
			}
		}
	})
}

// TestLookUpsReturnNewRecords checks that every required look-up returns a record that earlier
// observations don't contain.
func TestLookUpsReturnNewRecords(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		w = withoutFaults(w)
		e := begin(kind, w, episode.Dense)
		for _, s := range inOrder(w.Steps) {
			before := testkit.EncodeJSON(e.state.observation())
			after := step(t, e, goldAction(w, s)).Observation.(Observation)
			look := s.Action == desk.CheckOrder || s.Action == desk.CheckPayment
			if look && (len(after.LastResult) < 100 || strings.Contains(before, string(after.LastResult))) {
				t.Errorf("%s returns nothing new: %s", s.ID, after.LastResult)
			}
		}
		// A look-up of another id isn't the required one.
		wrong := fmt.Sprintf(`{"action_type":"check_order_status","payload":{"order_id":%q}}`, "LD-000000")
		if r := step(t, begin(kind, w, episode.Dense), wrong); r.Reward >= 0 {
			t.Errorf("looking up a missing order pays %d", r.Reward)
		}
	})
}

func withoutFaults(w *scenarios.Workflow) *scenarios.Workflow {
	calm := *w
	calm.Faults = nil
	return &calm
}

// TestSessionsAreIndependent interleaves two sessions of one instance, one of which makes many
// changes, and also plays them alone, all concurrently.
func TestSessionsAreIndependent(t *testing.T) {
	all, err := instances()
	if err != nil {
		t.Fatal(err)
	}
	_, kind := publicKind(t)
	var wg sync.WaitGroup
	for _, w := range all {
		if w.Seed > 1 {
			continue
		}
		wg.Go(func() {
			one, other := candidates(w), candidates(w)
			slices.Reverse(other)
			a, b := begin(kind, w, episode.Dense), begin(kind, w, episode.Dense)
			var both [2]string
			for i := range one {
				both[0] += transcript(t, a, one[i])
				both[1] += transcript(t, b, other[i])
			}
			var alone [2]string
			for i, actions := range [][]string{one, other} {
				e := begin(kind, w, episode.Dense)
				for _, action := range actions {
					alone[i] += transcript(t, e, action)
				}
			}
			if both != alone {
				t.Errorf("%s: interleaved sessions differ from those played alone", w.ScenarioID)
			}
		})
	}
	wg.Wait()
}

func transcript(t *testing.T, e *environment, action string) string {
	r, err := e.Step(t.Context(), json.RawMessage(action))
	return fmt.Sprintln(testkit.EncodeJSON(r.Observation), r.Reward, r.Done, err, testkit.EncodeJSON(e.State()))
}

// TestStateIsAvailableAtAnyTime requests the state before the reset, during and after the episode.
func TestStateIsAvailableAtAnyTime(t *testing.T) {
	_, kind := publicKind(t)
	schema := testkit.CompileSchema(t, kind.Schemas().State)
	env := kind.New()
	testkit.ValidateJSON(t, schema, testkit.EncodeJSON(env.State()))
	if _, err := env.Reset(episode.Options{Task: "refund", Seed: 3, EpisodeID: "e"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := env.Step(t.Context(), json.RawMessage(
			`{"action_type":"check_payment","payload":{"order_id":"LD-000000"}}`)); err != nil {
			t.Fatal(err)
		}
		got, ok := env.State().(State)
		testkit.ValidateJSON(t, schema, testkit.EncodeJSON(got))
		if !ok || got.StepCount != i+1 || got.Done || testkit.EncodeJSON(got) != testkit.EncodeJSON(env.State()) {
			t.Errorf("after step %d: state %+v", i+1, got)
		}
	}
	if _, err := env.Step(t.Context(), json.RawMessage(
		`{"action_type":"respond_user","payload":{"message":"Bye."}}`)); err != nil {
		t.Fatal(err)
	}
	if got, ok := env.State().(State); !ok || !got.Done {
		t.Errorf("after the end: state %+v, want done", got)
	}
}

// TestUnknownActionsDoNothing sends actions outside the schema. They use no step, get no answer,
// and don't end the episode.
func TestUnknownActionsDoNothing(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		e := begin(kind, w, episode.Dense)
		before := testkit.EncodeJSON(e.state.observation())
		for _, action := range []string{`{"action_type":"approve"}`,
			`{"action_type":"respond_user","payload":{"message":"Hi","mood":"good"}}`, `"respond_user"`, ``} {
			r, err := e.Step(t.Context(), json.RawMessage(action))
			if _, refused := errors.AsType[*episode.ActionError](err); !refused || r.Done {
				t.Errorf("Step(%s) = %+v, %v, want it refused", action, r, err)
			}
		}
		if after := testkit.EncodeJSON(e.state.observation()); after != before {
			t.Errorf("the observation changed from\n%s to\n%s", before, after)
		}
		if got := e.state.currentPoints(); got != -4*wrongPenalty {
			t.Errorf("balance = %d, want %d", got, -4*wrongPenalty)
		}
	})
}

// TestBranchesKeepTheBalance counts the outcomes of the issues at every seed: branches that remove
// a refund or an escalation from one workflow add it to another.
func TestBranchesKeepTheBalance(t *testing.T) {
	all, err := instances()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int64]map[string]int{}
	for _, w := range all {
		if counts[w.Seed] == nil {
			counts[w.Seed] = map[string]int{}
		}
		for _, action := range []string{desk.Refunding, desk.Escalating} {
			if slices.ContainsFunc(w.Steps, func(s scenarios.WorkflowStep) bool { return s.Action == action }) {
				counts[w.Seed][action]++
			}
		}
	}
	for seed, got := range counts {
		if diff := cmp.Diff(counts[0], got); diff != "" || got[desk.Refunding] != 6 ||
			got[desk.Escalating] != 6 {
			t.Errorf("seed %d: %v, want 6 with a refund and 6 with an escalation (-seed 0 +got):\n%s", seed, got, diff)
		}
	}
}

// TestLastActionAloneScoresNothing sends the perfect reply immediately, and after every single
// look-up.
func TestLastActionAloneScoresNothing(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		last := inOrder(w.Steps)[len(w.Steps)-1]
		_, final := run(t, begin(kind, w, episode.Dense), []string{goldAction(w, last)})
		if final == nil || final.Score != 0 || final.Dimensions[1].Earned != 0 {
			t.Errorf("final = %+v, want nothing", final)
		}
	})
}

func BenchmarkInstantiate(b *testing.B) {
	catalog := testkit.Catalog(b)
	workflows := catalog.Workflows()
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if _, err := workflows[i%int64(len(workflows))].Instantiate(i); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEpisode plays gold on real instances, with the grader reading the replies.
func BenchmarkEpisode(b *testing.B) {
	all, err := instances()
	if err != nil {
		b.Fatal(err)
	}
	_, kind := publicKind(b)
	scripts := make([][]json.RawMessage, len(all))
	for i, w := range all {
		for _, s := range inOrder(w.Steps) {
			scripts[i] = append(scripts[i], json.RawMessage(goldAction(w, s)))
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := begin(kind, withoutFaults(all[i%len(all)]), episode.Dense)
		for _, action := range scripts[i%len(all)] {
			if _, err := e.Step(b.Context(), action); err != nil {
				b.Fatal(err)
			}
		}
	}
}
