package protocol

import (
	"net/http/httptest"
	"testing"
)

func TestRepaired(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud83d"`: `"\ufffd"`, `"\uDE00a"`: `"\ufffda"`, `"\ud83d\ude00"`: `"\ud83d\ude00"`,
		`"\ud83d\ud83d\ude00"`: `"\ufffd\ud83d\ude00"`, `"\\ud83d"`: `"\\ud83d"`, `"\\\ud83d"`: `"\\\ufffd"`,
		`"\ud83d\n"`: `"\ufffd\n"`, `"\ud8"`: `"\ud8"`, `"\ud83d`: `"\ufffd`, `\`: `\`, `"\u00e9\ud83`: `"\u00e9\ud83`,
	} {
		raw := []byte(text)
		if got := string(repairSurrogates(raw)); got != want || string(raw) != text {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Half a surrogate pair is played wherever an action comes from.
func TestSurrogatesArePlayed(t *testing.T) {
	m, fault := DecodeMessage([]byte(`{"type": "step", "data": {"message": "\ud83d"}}`))
	if fault != nil || string(m.Data) != `{"message": "\ufffd"}` {
		t.Errorf("a message: %s, %v", m.Data, fault)
	}
	r, err := DecodeRPC([]byte(`{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"message": "\ud83d"}}`))
	if err != nil || string(r.Params) != `{"message": "\ufffd"}` {
		t.Errorf("a call: %s, %v", r.Params, err)
	}
	request := httptest.NewRequest("POST", "/step", NewBody([]byte(`{"message": "\ud83d"}`)))
	body, ok := ReadObject(httptest.NewRecorder(), request, RequiredBody)
	if !ok || string(body) != `{"message": "\ufffd"}` {
		t.Errorf("a body: %s", body)
	}
}
