package workflow

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/internal/testkit"
	"github.com/csenv/csenv/scenarios"
)

// caseAction is the action of a step, written as an agent does.
func caseAction(t *testing.T, w *scenarios.Workflow, step scenarios.WorkflowStep) json.RawMessage {
	t.Helper()
	payload := map[string]any{}
	for _, a := range step.Args {
		payload[a.Name] = a.In[0]
		if cents, ok := a.In[0].(int64); ok {
			payload[a.Name] = scenarios.Cents(cents)
		}
	}
	switch {
	case step.Ask:
		payload["message"] = "Please tell me: " + step.About[0] + "?"
	case step.Terminal:
		payload["message"] = w.References.Good[0]
	}
	raw, err := json.Marshal(map[string]any{"action_type": step.Action, "payload": payload})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestGoldResolvesEveryCase plays the steps of the decision.
func TestGoldResolvesEveryCase(t *testing.T) {
	catalog := testkit.Catalog(t)
	kind, err := New(catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	env := kind.New()
	for _, s := range catalog.Cases() {
		for seed := range int64(10) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := env.Reset(episode.Options{Seed: seed, Task: s.Task(), Scenario: s.ID}); err != nil {
				t.Fatal(err)
			}
			var last episode.Result
			for _, step := range w.Steps {
				action := caseAction(t, w, step)
				last, err = env.Step(context.Background(), action)
				for _, f := range w.Faults {
					if err == nil && f.Action == step.Action && f.Call == 1 && !last.Done {
						if e := env.(*environment).state; e.faults > 0 && e.calls[step.Action] == 1 {
							last, err = env.Step(context.Background(), action)
						}
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if last.Final == nil || last.Final.Score != 1_000_000 {
				verdict := ""
				if last.Final != nil {
					verdict = string(last.Final.Verdicts[0])
				}
				t.Errorf("%s seed %d: %+v\n%s\n%s", s.ID, seed, last.Reward, w.References.Good[0], verdict)
				return
			}
		}
	}
}

func TestEveryCaseIsProved(t *testing.T) {
	catalog := testkit.Catalog(t)
	reader := offline.New()
	tried, cases := 0, 0
	for _, s := range catalog.Cases() {
		for seed := range int64(10) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			p := Prove(w, reader)
			tried += p.Tried
			cases++
			if len(p.Faults) > 0 {
				t.Errorf("%s seed %d: %q", s.ID, seed, p.Faults[0])
			}
		}
	}
	t.Logf("%d cases, %d paths", cases, tried)
}
