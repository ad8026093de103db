package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

func publicKind(t testing.TB) (*scenarios.Catalog, *Kind) {
	t.Helper()
	catalog := testkit.Catalog(t)
	kind, err := New(catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return catalog, kind
}

// goldAction returns an action that fulfils the step.
func goldAction(w *scenarios.Workflow, step scenarios.WorkflowStep) string {
	payload := map[string]any{}
	for _, arg := range step.Args {
		if len(arg.In) > 0 {
			payload[arg.Name] = arg.In[0]
		} else {
			payload[arg.Name] = w.Records.Orders[0].ID
		}
		if cents, ok := payload[arg.Name].(int64); ok {
			payload[arg.Name] = scenarios.Cents(cents)
		}
	}
	if step.Action == desk.Tell {
		payload = w.Message(step)
		if cents, ok := payload["amount"].(int64); ok {
			payload["amount"] = scenarios.Cents(cents)
		}
	}
	if step.Ask {
		payload["message"] = "Which order is it?"
		if len(step.About) > 0 {
			payload["message"] = "What is the " + step.About[0] + "?"
		}
	}
	if step.Terminal {
		payload["message"], payload["facts"] = w.References.Good[0], facts.Stated(w.Required())
	}
	text, err := json.Marshal(map[string]any{"action_type": step.Action, "payload": payload})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// orders calls yield with every order of the steps in which each follows those that it requires.
func orders(steps []scenarios.WorkflowStep, done []scenarios.WorkflowStep, yield func([]scenarios.WorkflowStep)) {
	if len(done) == len(steps) {
		yield(done)
		return
	}
	for _, s := range steps {
		if isNext(done, s) {
			orders(steps, append(slices.Clip(done), s), yield)
		}
	}
}

// isNext reports whether a step may follow those that are done.
func isNext(done []scenarios.WorkflowStep, s scenarios.WorkflowStep) bool {
	has := func(id string) bool {
		return slices.ContainsFunc(done, func(s scenarios.WorkflowStep) bool { return s.ID == id })
	}
	return !has(s.ID) && !slices.ContainsFunc(s.Requires, func(id string) bool { return !has(id) })
}

// playAll plays the steps in a new episode, repeating each call that fails, until the episode ends.
func playAll(t *testing.T, kind *Kind, w *scenarios.Workflow, steps []scenarios.WorkflowStep) *episode.Final {
	t.Helper()
	e := &environment{kind: kind}
	e.beginEpisode(&task{Task: tasks.Task{Name: "any"}}, w, episode.Options{RewardMode: episode.Dense})
	var total int64
	for _, s := range steps {
		for range 1 + len(w.Faults) {
			faults := e.state.faults
			r := step(t, e, goldAction(w, s))
			if total += r.Reward; r.Final != nil {
				if booked := r.Final.Dimensions[0].Earned + r.Final.Dimensions[1].Earned +
					r.Final.Dimensions[2].Earned; booked != total {
					t.Errorf("%s: rewards add up to %d, the state has %d", w.ScenarioID, total, booked)
				}
				return r.Final
			}
			if e.state.faults == faults {
				break
			}
		}
	}
	return nil
}

// fewSeeds and manySeeds are numbers of instances of each workflow for a test.
const fewSeeds, manySeeds = 6, 20

// instances contains instances of every workflow of the public catalogue, for all tests.
var instances = sync.OnceValues(func() ([]*scenarios.Workflow, error) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return nil, err
	}
	var all []*scenarios.Workflow
	for _, s := range catalog.Workflows() {
		for seed := range int64(manySeeds) {
			w, err := s.Instantiate(seed)
			if err != nil {
				return nil, err
			}
			all = append(all, w)
		}
	}
	return all, nil
})

// each calls f with a few instances of every workflow of the catalogue.
func each(t *testing.T, f func(t *testing.T, kind *Kind, w *scenarios.Workflow)) {
	t.Helper()
	eachOf(t, fewSeeds, f)
}

// eachOf calls f with the instances of the first seeds.
func eachOf(t *testing.T, seeds int64, f func(t *testing.T, kind *Kind, w *scenarios.Workflow)) {
	t.Helper()
	all, err := instances()
	if err != nil {
		t.Fatal(err)
	}
	_, kind := publicKind(t)
	for _, w := range all {
		if w.Seed < seeds {
			t.Run(fmt.Sprintf("%s-%d", w.ScenarioID, w.Seed), func(t *testing.T) { f(t, kind, w) })
		}
	}
}

// mostOrders bounds the orders of gold, so that all of them can be played.
const mostOrders = 8

func TestEveryOrderOfGoldScoresAll(t *testing.T) {
	eachOf(t, manySeeds, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		n := 0
		orders(w.Steps, nil, func(steps []scenarios.WorkflowStep) {
			n++
			if final := playAll(t, kind, w, steps); final == nil || final.Score != score.One ||
				final.Outcome != score.Scored {
				t.Errorf("order %d: final = %+v, want all points", n, final)
			}
		})
		if n == 0 || n > mostOrders {
			t.Errorf("the steps have %d orders, want 1 to %d", n, mostOrders)
		}
		if want, ok := map[string]int{"C15": 8, "C17": 5}[w.ScenarioID]; ok && n != want {
			t.Errorf("the steps have %d orders, want %d", n, want)
		}
	})
}

func TestMissingStepPreventsResolution(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		var gold []scenarios.WorkflowStep
		orders(w.Steps, nil, func(steps []scenarios.WorkflowStep) { gold = slices.Clone(steps) })
		for i, s := range gold {
			if s.Terminal {
				continue
			}
			final := playAll(t, kind, w, slices.Delete(slices.Clone(gold), i, i+1))
			if final == nil || final.Dimensions[1].Earned != 0 || final.Score >= 750_000 {
				t.Errorf("without %s: final = %+v, want no resolution", s.ID, final)
			}
		}
	})
}

// TestWrongFinalStatePreventsResolution makes a refund twice: every step is done, but the backend's
// final state is wrong.
func TestWrongFinalStatePreventsResolution(t *testing.T) {
	refunded := 0
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		i := slices.IndexFunc(w.Steps,
			func(s scenarios.WorkflowStep) bool { return s.Action == desk.Refunding })
		if i < 0 {
			return
		}
		refunded++
		final := playAll(t, kind, w, slices.Insert(slices.Clone(w.Steps), i, w.Steps[i]))
		if final == nil || final.Dimensions[1].Earned != 0 ||
			final.Dimensions[0].Earned != stepPoints*int64(len(w.Steps)) {
			t.Errorf("two refunds: final = %+v, want all steps and no resolution", final)
		}
	})
	if refunded == 0 {
		t.Error("no workflow has a refund")
	}
}

func TestReversedGoldIsWorthLess(t *testing.T) {
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		reversed := slices.Clone(w.Steps)
		slices.Reverse(reversed)
		if final := playAll(t, kind, w, reversed); final != nil && final.Score >= score.One/2 {
			t.Errorf("reversed gold: final = %+v", final)
		}
	})
}

// TestForbiddenActionsCost plays gold with a simple forbidden action before the reply: a refund of
// a dollar, or an escalation.
func TestForbiddenActionsCost(t *testing.T) {
	forbidden := 0
	each(t, func(t *testing.T, kind *Kind, w *scenarios.Workflow) {
		e := &environment{kind: kind}
		e.beginEpisode(&task{Task: tasks.Task{Name: "any"}}, w, episode.Options{RewardMode: episode.Dense})
		for _, act := range []string{
			fmt.Sprintf(`{"action_type":"initiate_refund","payload":{"order_id":%q,"amount":1}}`, w.Records.Orders[0].ID),
			`{"action_type":"escalate_issue","payload":{"team":"marketing"}}`,
		} {
			r := step(t, e, act)
			if r.Reward >= 0 {
				t.Errorf("%s pays %d", act, r.Reward)
			}
		}
		if len(e.state.breaches) > 0 {
			forbidden++
		}
	})
	if forbidden == 0 {
		t.Error("no workflow forbids a refund of a dollar or an escalation to marketing")
	}
}

func TestKind(t *testing.T) {
	catalog, kind := publicKind(t)
	n := 0
	for _, task := range kind.Tasks() {
		n += len(task.Scenarios)
		for _, s := range task.Scenarios {
			if (s.Category == "workflow") == (strings.HasPrefix(task.Name, "case-") || strings.HasPrefix(task.Name, "talk-")) || s.Difficulty == "" || s.Language == "" || s.Split == "" {
				t.Errorf("%s %s: %+v", task.Name, s.ID, s)
			}
		}
	}
	if want := len(catalog.Workflows()) + len(catalog.Cases()); n != want {
		t.Errorf("the tasks have %d scenarios, the catalogue %d workflows and cases", n, want)
	}
	if got := []string{kind.Name(), kind.Judge(), kind.ScenarioDigest()}; !cmp.Equal(got,
		[]string{"workflow", "rules", catalog.Digest()}) {
		t.Errorf("name, judge, digest = %q", got)
	}
}

func TestResetRefuses(t *testing.T) {
	_, kind := publicKind(t)
	env := kind.New()
	if _, err := env.Step(t.Context(), json.RawMessage(`{}`)); !errors.Is(err, episode.ErrNotReset) {
		t.Errorf("Step() before Reset() error = %v, want ErrNotReset", err)
	}
	foreign := kind.tasks[1].scenarios[0].ID
	for name, tc := range map[string]struct {
		opts episode.Options
		want error
	}{
		"task":             {episode.Options{Task: "chess"}, episode.ErrUnknownTask},
		"scenario":         {episode.Options{Scenario: "X99"}, episode.ErrUnknownScenario},
		"foreign scenario": {episode.Options{Task: kind.tasks[0].Name, Scenario: foreign}, episode.ErrUnknownScenario},
	} {
		if _, err := env.Reset(tc.opts); !errors.Is(err, tc.want) {
			t.Errorf("%s: Reset() error = %v, want %v", name, err, tc.want)
		}
	}
}

// Episodes that share their workflow end alike when they are played at the same time.
func TestEpisodesOfOneSeedTogether(t *testing.T) {
	_, kind := publicKind(t)
	for _, task := range kind.tasks {
		results := make([]episode.Result, 4)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() {
				env := kind.New()
				if _, err := env.Reset(episode.Options{Seed: 3, Task: task.Name}); err != nil {
					t.Error(err)
				}
				for _, action := range []string{order, payment, refundGood, reply} {
					var err error
					if results[i], err = env.Step(t.Context(), json.RawMessage(action)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i, r := range results {
			if diff := cmp.Diff(results[0], r); diff != "" {
				t.Errorf("%s: episode %d has another end (-first +it):\n%s", task.Name, i, diff)
			}
		}
	}
}

func BenchmarkReset(b *testing.B) {
	_, kind := publicKind(b)
	env := kind.New()
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if _, err := env.Reset(episode.Options{Seed: i, Task: "refund"}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTrialsDoNotRevealArguments tries each escalation and refund before any look-up. If the case
// requires one of them, the result doesn't reveal which.
func TestTrialsDoNotRevealArguments(t *testing.T) {
	all, err := instances()
	if err != nil {
		t.Fatal(err)
	}
	_, kind := publicKind(t)
	for _, w := range all {
		for _, s := range w.Steps {
			if !desk.IsChange(s.Action) || len(s.Requires) == 0 {
				continue
			}
			gold := goldAction(w, s)
			tries := []string{`{"action_type":"initiate_refund","payload":{}}`,
				fmt.Sprintf(`{"action_type":"initiate_refund","payload":{"order_id":%q,"amount":0.01}}`,
					w.Records.Orders[0].ID)}
			if s.Action == desk.Escalating {
				tries = nil
				for _, team := range []string{"finance", "logistics", "disputes", "security", "legal"} {
					tries = append(tries, fmt.Sprintf(`{"action_type":"escalate_issue","payload":{"team":%q}}`, team))
				}
			}
			wantResult, wantReward := firstAnswer(t, kind, w, gold)
			for _, try := range tries {
				if result, reward := firstAnswer(t, kind, w, try); result != wantResult || reward != wantReward {
					t.Fatalf("%s: %s answers %s and pays %d, the right %s answers %s and pays %d", w.ScenarioID, try,
						result, reward, gold, wantResult, wantReward)
				}
			}
		}
	}
}

// firstAnswer returns the answer and the reward of an episode's first action, which must not change
// the backend.
func firstAnswer(t *testing.T, kind *Kind, w *scenarios.Workflow, action string) (document, int64) {
	t.Helper()
	e := &environment{kind: kind}
	e.beginEpisode(&task{Task: tasks.Task{Name: "any"}}, w, episode.Options{RewardMode: episode.Dense})
	r := step(t, e, action)
	if diff := cmp.Diff(w.Records, *e.state.records); diff != "" {
		t.Errorf("%s: %s changed the backend (-before +after):\n%s", w.ScenarioID, action, diff)
	}
	return r.Observation.(Observation).LastResult, r.Reward
}
