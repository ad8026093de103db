package workflow

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/testkit"
)

// An observation writes what encoding/json writes.
func TestAppendJSON(t *testing.T) {
	texts := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"<a&b>", "\u2028\xff\"\\\n"}))
	documents := rapid.Custom(func(t *rapid.T) document {
		if rapid.Bool().Draw(t, "none") {
			return ""
		}
		d, err := encodeDocument(result{Error: texts.Draw(t, "error"), Policy: texts.Draw(t, "policy")})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
	entry := rapid.Custom(func(t *rapid.T) Entry {
		return Entry{rapid.Int().Draw(t, "step"), texts.Draw(t, "action"), documents.Draw(t, "payload"),
			documents.Draw(t, "result")}
	})
	rapid.Check(t, func(t *rapid.T) {
		testkit.CheckAppendJSON(t, Observation{
			Task: texts.Draw(t, "task"), Now: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "now"), 0).UTC(),
			CustomerName: texts.Draw(t, "name"), AccountLevel: texts.Draw(t, "level"), Language: texts.Draw(t, "language"),
			UserQuery: texts.Draw(t, "query"), OrderStatus: rapid.Ptr(texts, true).Draw(t, "order"),
			PaymentStatus: rapid.Ptr(texts, true).Draw(t, "payment"), History: rapid.SliceOfN(entry, 0, 3).Draw(t, "history"),
			LastResult: documents.Draw(t, "last"), Step: rapid.Int().Draw(t, "step"), MaxSteps: rapid.Int().Draw(t, "max"),
			MinutesUsed: rapid.Int().Draw(t, "minutes"),
		})
	})
}
