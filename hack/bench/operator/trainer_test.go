package operator

import (
	"crypto/ed25519"
	"encoding/json"
	"testing"

	"github.com/csenv/csenv/envserver/score"
)

// The operator accepts the segments of a simulated server. One that it doesn't acknowledge, it gets
// again, and that is counted once.
func TestCollect(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayers(nil)
	question := score.CollectRequest{Tag: "grpo", Run: "uid", PassScore: score.One / 2}
	var encoded []string
	for _, ack := range []int64{0, 0, 1} {
		question.Ack = ack
		segment, err := p.collect(question, "pod-1", private)
		if err != nil {
			t.Fatal(err)
		}
		ledger, err := segment.Verify("uid", "pod-1", public)
		if err != nil {
			t.Fatal(err)
		}
		if ledger.Scored != segmentEpisodes {
			t.Errorf("segment %d has %d episodes", segment.Number, ledger.Scored)
		}
		text, err := json.Marshal(segment)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, string(text))
	}
	if encoded[0] != encoded[1] || encoded[1] == encoded[2] {
		t.Error("a segment isn't the same until it is acknowledged")
	}
	question.Ack, question.Done = 2, true
	if segment, err := p.collect(question, "pod-1", private); err != nil || segment.Ledger != nil {
		t.Errorf("a run that has ended gets %+v, %v", segment, err)
	}
	if n := p.trained("grpo"); n != 2*segmentEpisodes {
		t.Errorf("%d episodes, want those of two segments", n)
	}
}
