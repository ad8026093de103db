package workflow

import (
	"encoding/json"
	"testing"

	"github.com/csenv/csenv/envserver/episode"
)

func BenchmarkStep(b *testing.B) {
	actions := []json.RawMessage{json.RawMessage(order), json.RawMessage(payment), json.RawMessage(refundGood),
		json.RawMessage(reply)}
	e, w := start(calm(), episode.Dense), calm()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(actions) == 0 {
			e.state = newState(e.state.task, w, plainReader{}, episode.Dense)
		}
		if _, err := e.Step(b.Context(), actions[i%len(actions)]); err != nil {
			b.Fatal(err)
		}
	}
}
