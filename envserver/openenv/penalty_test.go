package openenv

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// With a penalty an invalid action is an observation, over every transport, and the episode goes
// on.
func TestInvalidActionPenalty(t *testing.T) {
	_, url := serve(t, Config{})
	const items = `"errors":[{"type":"literal_error","loc":["kind"],"msg":"kind should be say","input":"zzz"}]`
	const refused = `{"observation":{"text":"hello","seed":3,"feedback":"invalid action: kind should be say",` + items +
		`},"reward":-0.1,"done":false}`
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"seed":3,"invalid_action_penalty":0.1}}`)
	if diff := cmp.Diff(`{"type":"observation","data":`+refused+`}`,
		p.Ask(`{"type":"step","data":{"kind":"zzz"}}`)); diff != "" {
		t.Errorf("/ws (-want +got)\n%s", diff)
	}
	for _, call := range []string{`{"type":"call_tool","tool_name":"zzz"}`,
		`{"type":"call_tool","tool_name":"juggle"}`, `{"type":"call_tool","tool_name":"say","arguments":[]}`} {
		if answer := p.Ask(`{"type":"step","data":` + call + `}`); wire.DecodePath(t, answer, "data", "reward") != -0.1 {
			t.Errorf("%s: %s", call, answer)
		}
	}
	if got := p.Ask(`{"type":"step","data":{"kind":"say","text":"hi","reward":200}}`); !strings.Contains(got, `"reward":0.2`) {
		t.Errorf("the next step: %s", got)
	}
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 5.0 {
		t.Errorf("%v steps after five that were answered with an observation", got)
	}

	id := wire.CreateSession(t, url)
	wire.PostBody(t, url+"/reset?session_id="+id, `{"seed":3,"csenv":{"invalid_action_penalty":0.1}}`)
	if status, body := wire.PostBody(t, url+"/step?session_id="+id, `{"action":{"kind":"zzz"}}`); status != 200 ||
		body != refused {
		t.Errorf("by POST: %d (-want +got)\n%s", status, cmp.Diff(refused, body))
	}
	if status, body := wire.PostBody(t, url+"/step", `{"action":{"kind":"zzz"},"seed":3,"invalid_action_penalty":0.1}`); status != 200 ||
		body != refused {
		t.Errorf("without a session: %d (-want +got)\n%s", status, cmp.Diff(refused, body))
	}
	answer := wire.CallRPC(t, url, "tools/call", `{"name":"zzz","session_id":"`+id+`"}`)
	if wire.DecodePath(t, answer, "result", "data", "reward") != -0.1 || wire.DecodePath(t, answer, "result", "isError") != false {
		t.Errorf("tools/call: %s", answer)
	}

	p.Ask(`{"type":"reset","data":{"seed":3}}`)
	if got := p.Code(`{"type":"step","data":{"kind":"zzz"}}`); got != protocol.CodeValidation {
		t.Errorf("a later episode without the option: %s", got)
	}
}

func TestPenaltyOptions(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	for data, want := range map[string]string{
		`{"invalid_action_penalty":0}`:                                 "observation",
		`{"invalid_action_penalty":1}`:                                 "observation",
		`{"invalid_action_penalty":"0.125"}`:                           "observation",
		`{"invalid_action_penalty":"none of these"}`:                   "observation",
		`{"invalid_action_penalty":null,"run":"grpo"}`:                 "observation",
		`{"invalid_action_penalty":0.1,"run":"grpo"}`:                  "observation",
		`{"invalid_action_penalty":1.5}`:                               protocol.CodeValidation,
		`{"invalid_action_penalty":-0.1}`:                              protocol.CodeValidation,
		`{"invalid_action_penalty":0.0001}`:                            protocol.CodeValidation,
		`{"invalid_action_penalty":1e400}`:                             protocol.CodeValidation,
		`{"csenv":{"invalid_action_penalty":"0.1"}}`:                   protocol.CodeValidation,
		`{"invalid_action_penalty":0,"run":"u","shard":0,"episode":0}`: protocol.CodeValidation,
	} {
		if got := p.Code(`{"type":"reset","data":` + data + `}`); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}
