package workflow

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
)

func BenchmarkStep(b *testing.B) {
	actions := []json.RawMessage{json.RawMessage(order), json.RawMessage(payment), json.RawMessage(refundGood),
		json.RawMessage(reply)}
	e, w := start(calm(), episode.Dense), calm()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(actions) == 0 {
			e.state = newState(e.state.task, w, comparing(), episode.Dense)
		}
		if _, err := e.Step(b.Context(), actions[i%len(actions)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnswer plays a look-up of a workflow or a case of the catalogue, the fourth of its
// episode, and writes the answer.
func BenchmarkAnswer(b *testing.B) {
	_, kind := publicKind(b)
	action := json.RawMessage(`{"action_type":"check_order_status","payload":{"order_id":"LD-1"}}`)
	for _, task := range []string{"refund", "case-medium"} {
		b.Run(task, func(b *testing.B) {
			e := kind.New().(*environment)
			if _, err := e.Reset(episode.Options{Seed: 7, Task: task}); err != nil {
				b.Fatal(err)
			}
			for range 3 {
				if _, err := e.Step(b.Context(), action); err != nil {
					b.Fatal(err)
				}
			}
			s, third := e.state, *e.state
			var out bytes.Buffer
			b.ReportAllocs()
			for b.Loop() {
				*s = third
				r, err := e.Step(b.Context(), action)
				if err != nil {
					b.Fatal(err)
				}
				out.Reset()
				if err := protocol.WriteResult(&out, kind, r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(out.Len()), "B/answer")
		})
	}
}

// played is an instance with the actions of gold.
type played struct {
	*scenarios.Workflow
	actions []json.RawMessage
}

// gold returns instances of scenarios without scripted failures.
func gold(b *testing.B, from []*scenarios.WorkflowScenario) []played {
	b.Helper()
	out := make([]played, len(from))
	for i, s := range from {
		w, err := s.Instantiate(int64(i))
		if err != nil {
			b.Fatal(err)
		}
		out[i].Workflow = withoutFaults(w)
		for _, step := range w.Steps {
			out[i].actions = append(out[i].actions, json.RawMessage(goldAction(w, step)))
		}
	}
	return out
}

// casesAndTalks are the catalogue's cases with and without conversations.
func casesAndTalks(catalog *scenarios.Catalog) map[string][]*scenarios.WorkflowScenario {
	out := map[string][]*scenarios.WorkflowScenario{}
	for _, s := range catalog.Cases() {
		name := map[bool]string{false: "case", true: "talk"}[s.Talks]
		out[name] = append(out[name], s)
	}
	return out
}

// BenchmarkCaseStep plays gold of generated cases without the reply, which is judged.
func BenchmarkCaseStep(b *testing.B) {
	catalog, kind := publicKind(b)
	for name, from := range casesAndTalks(catalog) {
		b.Run(name, func(b *testing.B) {
			cases := gold(b, from)
			b.ReportAllocs()
			at, step := 0, 0
			e := begin(kind, cases[0].Workflow, episode.Dense)
			for b.Loop() {
				if _, err := e.Step(b.Context(), cases[at].actions[step]); err != nil {
					b.Fatal(err)
				}
				if step++; step == len(cases[at].actions)-1 {
					at, step = (at+1)%len(cases), 0
					e = begin(kind, cases[at].Workflow, episode.Dense)
				}
			}
		})
	}
}

// BenchmarkSession reports the memory of a session that has played all but the reply of an instance
// of its own.
func BenchmarkSession(b *testing.B) {
	catalog, kind := publicKind(b)
	kinds := casesAndTalks(catalog)
	kinds["workflow"] = catalog.Workflows()
	for name, from := range kinds {
		b.Run(name, func(b *testing.B) {
			scripts := gold(b, from)
			const sessions = 2000
			for b.Loop() {
				held := make([]*environment, sessions)
				before := testkit.HeapInUse()
				for i := range held {
					k := i % len(from)
					held[i] = kind.New().(*environment)
					if _, err := held[i].Reset(episode.Options{Task: from[k].Task(), Scenario: from[k].ID, Seed: int64(k)}); err != nil {
						b.Fatal(err)
					}
					for _, action := range scripts[k].actions[:len(scripts[k].actions)-1] {
						if _, err := held[i].Step(b.Context(), action); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(testkit.HeapInUse()-before)/sessions, "B/session")
				runtime.KeepAlive(held)
			}
		})
	}
}
