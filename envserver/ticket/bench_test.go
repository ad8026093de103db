package ticket

import (
	"encoding/json"
	"testing"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/queue"
)

// BenchmarkStep labels a ticket repeatedly, without ending the episode.
func BenchmarkStep(b *testing.B) {
	for _, task := range []string{"ticket-resolve", queue.Task} {
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

// BenchmarkEnd measures the last step of an episode, without the judge.
func BenchmarkEnd(b *testing.B) {
	for task, actions := range map[string][]string{"ticket-resolve": {classifyRight, say(respond, goodReply)},
		queue.Task: upToLast(perfectShift())} {
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
