package rollout

import (
	"encoding/json"
	"testing"
)

func TestQuoteAnswer(t *testing.T) {
	for action, want := range map[string]string{
		`{"action_type":"I would classify it."}`:     `"I would classify it."`,
		`{"action_type":"dance","partner":"nobody"}`: `{"action_type":"dance","partner":"nobody"}`,
		`{"message":"Hello"}`:                        `{"message":"Hello"}`,
		`{}`:                                         `{}`,
	} {
		if got := quoteAnswer(json.RawMessage(action)); got != want {
			t.Errorf("%s: %s, want %s", action, got, want)
		}
	}
}
