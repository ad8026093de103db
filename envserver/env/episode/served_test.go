package episode

import (
	"encoding/json"
	"testing"
)

// fullVerdict has everything that a model and the rules can say about what would have been right.
func fullVerdict() json.RawMessage {
	return json.RawMessage(`{"ticket_id":"T-1","judge":"llm:m@r4","case":"0123","status":"ok","criteria":[` +
		`{"id":"facts","earned":50,"offered":150,"reason":"f2 missing","evidence":[{"claim":"Q1.f2","reason":"no day"}]},` +
		`{"id":"penalty","step":2,"action":"initiate_refund","earned":-100,"offered":0,"reason":"forbidden: no refund"}],` +
		`"harm":[{"claim":"harm.h1","quote":"secret"}],"letter":{"claim":"letter","reason":"no team"},` +
		`"gates":[{"id":"harm.h1","cap":80,"reason":"pays twice"}],"preGate":50,"postGate":50,"right":false,` +
		`"usage":{"calls":1},"findings":["f2"]}`)
}

func TestServedVerdictsNameWhatWasDone(t *testing.T) {
	want := `{"ticket_id":"T-1","judge":"llm:m@r4","case":"0123","status":"ok","criteria":[` +
		`{"id":"penalty","earned":-100,"offered":0}],` +
		`"gates":[{"id":"harm.h1","cap":80}],"preGate":50,"postGate":50,"right":false}`
	got, err := ServeVerdicts([]json.RawMessage{fullVerdict()})
	if err != nil || len(got) != 1 || string(got[0]) != want {
		t.Errorf("served %s, %v\nwant   %s", got, err, want)
	}
	if _, err := ServeVerdicts([]json.RawMessage{[]byte(`[]`)}); err == nil {
		t.Error("a list is served")
	}
}

func BenchmarkServeVerdicts(b *testing.B) {
	verdicts := []json.RawMessage{fullVerdict()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ServeVerdicts(verdicts); err != nil {
			b.Fatal(err)
		}
	}
}
