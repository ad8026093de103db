package ticket

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/tasks"
)

// BenchmarkStep labels a ticket repeatedly, without ending the episode.
func BenchmarkStep(b *testing.B) {
	for _, task := range []string{"ticket-resolve", tasks.QueueManagement} {
		b.Run(task, func(b *testing.B) {
			e := start(task, episode.Terminal, goodJudge)
			fresh := e.state
			b.ReportAllocs()
			for b.Loop() {
				e.state = fresh
				if _, err := e.Step(b.Context(), json.RawMessage(classifyRight)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAnswer plays a step of a ticket of the catalogue and writes its answer.
func BenchmarkAnswer(b *testing.B) {
	kind, err := New(testkit.Catalog(b), offline.New())
	if err != nil {
		b.Fatal(err)
	}
	for name, action := range map[string]string{
		"search": `{"action_type":"search_knowledge_base","query":"refund"}`, "classify": classifyRight,
	} {
		b.Run(name, func(b *testing.B) {
			e := kind.New().(*environment)
			if _, err := e.Reset(episode.Options{Seed: 7, Task: "ticket-resolve"}); err != nil {
				b.Fatal(err)
			}
			fresh := e.state
			var out bytes.Buffer
			b.ReportAllocs()
			for b.Loop() {
				e.state = fresh
				r, err := e.Step(b.Context(), json.RawMessage(action))
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

// BenchmarkEnd measures the last step of an episode, without the judge.
func BenchmarkEnd(b *testing.B) {
	for task, actions := range map[string][]string{"ticket-resolve": {classifyRight, say(respond, goodReply)},
		tasks.QueueManagement: upToLast(perfectShift())} {
		b.Run(task, func(b *testing.B) {
			e := start(task, episode.Terminal, goodJudge)
			e.state.task = roomy(e.state.task)
			play(b, e, actions...)
			last := e.state
			b.ReportAllocs()
			for b.Loop() {
				e.state = last
				if r, err := e.Step(b.Context(), json.RawMessage(justResolve)); err != nil || r.Final == nil {
					b.Fatal(r, err)
				}
			}
		})
	}
}

func upToLast(actions []string) []string { return actions[:len(actions)-1] }

// BenchmarkSession reports the memory of a session that has searched and labelled an instance of
// its own.
func BenchmarkSession(b *testing.B) {
	kind, err := New(testkit.Catalog(b), offline.New())
	if err != nil {
		b.Fatal(err)
	}
	actions := []string{`{"action_type":"search_knowledge_base","query":"refund team"}`, classifyRight}
	from := kind.catalog.Tickets()
	const sessions = 2000
	for b.Loop() {
		held := make([]*environment, sessions)
		before := testkit.HeapInUse()
		for i := range held {
			held[i] = kind.New().(*environment)
			opts := episode.Options{Task: "ticket-resolve", Scenario: from[i%len(from)].ID, Seed: int64(i)}
			if _, err := held[i].Reset(opts); err != nil {
				b.Fatal(err)
			}
			play(b, held[i], actions...)
		}
		b.ReportMetric(float64(testkit.HeapInUse()-before)/sessions, "B/session")
		runtime.KeepAlive(held)
	}
}
