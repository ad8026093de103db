package openenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// Every request of the dialect without a session, with its complete answer. POST /mcp always
// answers with 200.
func TestPlainMCP(t *testing.T) {
	_, url := serve(t, Config{MaxSessions: 1})
	fault := func(id string, code int, message, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":%s}}`, id, code, message,
			data)
	}
	call := func(id, method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	}
	for _, c := range []struct{ send, want string }{
		{`{}`, fault("null", -32600, `"Invalid request: jsonrpc should be \"2.0\""`, "null")},
		{``, fault("null", -32700, `"a request is one JSON object"`, "null")},
		{`[]`, fault("null", -32700, `"a request is one JSON object"`, "null")},
		{`[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, fault("null", -32700, `"a request is one JSON object"`,
			"null")},
		{`{"jsonrpc":"1.0","id":3,"method":"tools/list"}`,
			fault("3", -32600, `"Invalid request: jsonrpc should be \"2.0\""`, "null")},
		{`{"jsonrpc":"2.0","id":3}`, fault("3", -32600, `"Invalid request: method should be a string"`, "null")},
		{`{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`,
			fault("null", -32600, `"Invalid request: id should be a string, an integer or null"`, "null")},
		{`{"jsonrpc":"2.0","id":true,"method":"tools/list"}`,
			fault("null", -32600, `"Invalid request: id should be a string, an integer or null"`, "null")},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","extra":1}`,
			fault("1", -32600, `"Invalid request: unknown member \"extra\""`, "null")},
		{call(`1`, "tools/list", `null`), fault("1", -32600, `"Invalid request: params should be a JSON object"`,
			"null")},
		{call(`1`, "tools/list", `[]`), fault("1", -32600, `"Invalid request: params should be a JSON object"`,
			"null")},
		{call(`"a"`, "notifications/initialized", `{}`), fault(`"a"`, -32601,
			`"method not found: \"notifications/initialized\"; tools/list, tools/call, openenv/session/create, openenv/session/close, session/fork, session/checkpoint and session/restore need no initialize; other MCP methods do"`, "null")},
		{call(`1`, "tools/list", `{"session_id":"x"}`),
			fault("1", -32602, `"unknown session_id: begin a session with openenv/session/create"`, "null")},
		{call(`1`, "tools/call", `{}`), fault("1", -32602, `"params.name should be the name of a tool"`, "null")},
		{call(`1`, "tools/call", `{"name":"say","arguments":[]}`),
			fault("1", -32602, `"params.arguments should be a JSON object"`, "null")},
		{call(`1`, "tools/call", `{"name":"reset"}`), fault("1", -32603, `"tool \"reset\" not found"`, "null")},
		{call(`1`, "tools/call", `{"name":"fail"}`), fault("1", -32603, `"the backend is gone"`, "null")},
		{call(`1`, "tools/call", `{"name":"zzz"}`), fault("1", -32602, `"Invalid arguments: kind should be say"`,
			`{"errors":[{"type":"literal_error","loc":["kind"],"msg":"kind should be say","input":"zzz"}]}`)},
		{call(`1`, "openenv/session/close", `{}`), fault("1", -32602, `"params.session_id is required"`, "null")},
		{call(`1`, "ping", `{}`), `{"jsonrpc":"2.0","id":1,"result":{}}`},
	} {
		if status, got := wire.PostBody(t, url+"/mcp", c.send); status != 200 || got != c.want {
			t.Errorf("%s: %d (-want +got)\n%s", c.send, status, cmp.Diff(c.want, got))
		}
	}
	wire.CreateSession(t, url)
	refused := wire.CallRPC(t, url, "openenv/session/create", `{}`)
	if diff := cmp.Diff(map[string]any{"active_sessions": 1.0, "max_sessions": 1.0},
		wire.DecodePath(t, refused, "error", "data")); diff != "" ||
		wire.DecodePath(t, refused, "error", "code") != -32000.0 {
		t.Errorf("a session beyond the capacity: %s", refused)
	}
}

// Tools are listed and called before any reset, with and without a session.
func TestToolsWithoutReset(t *testing.T) {
	_, url := serve(t, Config{})
	list := wire.CallRPC(t, url, "tools/list", `{}`)
	if strings.Contains(list, "input_schema") {
		t.Errorf("tools/list has input_schema: %s", list)
	}
	var listed struct {
		Result struct {
			Tools []struct {
				Name, Description *string
				InputSchema       struct{ Type string }
			}
		}
	}
	if err := json.Unmarshal([]byte(list), &listed); err != nil || len(listed.Result.Tools) == 0 {
		t.Errorf("tools/list: %v in %s", err, list)
	}
	for i, tool := range listed.Result.Tools {
		if tool.Name == nil || *tool.Name == "" || tool.Description == nil || tool.InputSchema.Type != "object" {
			t.Errorf("tool %d is not complete: %s", i, list)
		}
	}
	answer := wire.CallRPC(t, url, "tools/call", `{"name":"say","arguments":{"text":"hi","reward":100}}`)
	if wire.DecodePath(t, answer, "result", "data", "observation", "text") != "hi" ||
		wire.DecodePath(t, answer, "result", "data", "reward") != 0.1 ||
		wire.DecodePath(t, answer, "result", "data", "done") != false {
		t.Errorf("tools/call: %s", answer)
	}
	native := wire.DecodePath(t, answer, "result", "data")
	for _, name := range []string{"structured_content", "structuredContent"} {
		if diff := cmp.Diff(native, wire.DecodePath(t, answer, "result", name)); diff != "" {
			t.Errorf("%s (-data +got)\n%s", name, diff)
		}
	}
	var called struct {
		Result struct{ Content []struct{ Type, Text string } }
	}
	if err := json.Unmarshal([]byte(answer), &called); err != nil || len(called.Result.Content) == 0 {
		t.Fatalf("tools/call: %v in %s", err, answer)
	}
	content := called.Result.Content[0]
	if diff := cmp.Diff(native, wire.DecodePath(t, content.Text)); diff != "" || content.Type != "text" ||
		wire.DecodePath(t, answer, "result", "is_error") != false || wire.DecodePath(t, answer, "result", "isError") != false {
		t.Errorf("result %s", answer)
	}
}

func TestObserveTool(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"seed":5}}`)
	p.Ask(`{"type":"step","data":{"kind":"say","text":"now"}}`)
	const look = `{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_observation"}}}`
	want := map[string]any{"observation": map[string]any{"text": "now", "seed": 5.0}, "reward": 0.0, "done": false}
	for range 2 {
		if diff := cmp.Diff(want, wire.DecodePath(t, p.Ask(look), "data", "result", "data")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 1.0 {
		t.Errorf("get_observation counts as a step: %v", got)
	}
	p.Ask(`{"type":"step","data":{"kind":"finish"}}`)
	if got := wire.DecodePath(t, p.Ask(look), "data", "result", "data", "done"); got != true {
		t.Errorf("done is %v after the end", got)
	}
}

// The shapes of MCP clients on the step path. They are exact, because those clients decode them
// strictly.
func TestMCPActions(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"seed":5}}`)
	step := func(data string) string { return p.Ask(`{"type":"step","data":` + data + `}`) }
	tools := step(`{"type":"list_tools"}`)
	if wire.DecodePath(t, tools, "data", "reward") != 0.0 || wire.DecodePath(t, tools, "data", "done") != false {
		t.Errorf("list_tools: %s", tools)
	}
	descriptors, _ := wire.DecodePath(t, tools, "data", "observation", "tools").([]any)
	if len(descriptors) == 0 {
		t.Errorf("no tools: %s", tools)
	}
	for _, tool := range descriptors {
		descriptor, _ := tool.(map[string]any)
		_, hasSchema := descriptor["input_schema"].(map[string]any)
		if _, isText := descriptor["description"].(string); !isText || !hasSchema || len(descriptor) != 3 {
			t.Errorf("descriptor %v", descriptor)
		}
	}
	result := `{"content":[{"annotations":null,"meta":null,"text":"{\"observation\":{\"text\":\"hi\",\"seed\":5},\"reward\":0.2,\"done\":false}","type":"text"}],` +
		`"data":{"observation":{"text":"hi","seed":5},"reward":0.2,"done":false},"is_error":false,"meta":null,` +
		`"structured_content":{"observation":{"text":"hi","seed":5},"reward":0.2,"done":false}}`
	said := `{"type":"observation","data":{"observation":{"tool_name":"say","result":` + result +
		`,"error":null},"reward":0.2,"done":false}}`
	failed := func(tool, kind, message string) string {
		return fmt.Sprintf(
			`{"type":"observation","data":{"observation":{"tool_name":%q,"result":null,"error":{"error_type":%q,"message":%s}},"reward":0.0,"done":false}}`, tool, kind, message)
	}
	for _, c := range []struct{ send, want string }{
		{`{"type":"call_tool","tool_name":"say","arguments":{"text":"hi","reward":200}}`, said},
		{`{"tool_name":"say","arguments":{"text":"hi","reward":200},"metadata":{"x":1}}`, said},
		{`{"type":"call_tool","tool_name":"juggle"}`,
			failed("juggle", "tool_not_found", `"tool \"juggle\" not found"`)},
		{`{"type":"call_tool","tool_name":"step"}`, failed("step", "tool_not_found", `"tool \"step\" not found"`)},
		{`{"type":"call_tool","tool_name":"zzz","arguments":null}`,
			failed("zzz", "invalid_args", `"kind should be say"`)},
		{`{"type":"call_tool","tool_name":"fail"}`, failed("fail", "execution_error", `"the backend is gone"`)},
	} {
		if diff := cmp.Diff(c.want, step(c.send)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.send, diff)
		}
	}
	for _, bad := range []string{
		`{"type":"call_tool","tool_name":7}`, `{"type":"call_tool","tool_name":"say","arguments":[]}`,
		`{"type":"call_tool","tool_name":"say","extra":1}`,
		`{"type":"list_tools","extra":1}`, `{"type":"call_tool"}`,
	} {
		if got := wire.CodeOf(t, step(bad)); got != protocol.CodeValidation {
			t.Errorf("%s: %s", bad, got)
		}
	}
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 7.0 {
		t.Errorf("%v steps after seven that were answered with an observation", got)
	}
	p.Ask(`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_observation"}}}`)
	if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "step_count"); got != 7.0 {
		t.Errorf("%v steps after a look outside of a step", got)
	}
	if got := wire.CodeOf(t, step(`{"type":"call_tool","tool_name":"panic"}`)); got != protocol.CodeExecution {
		t.Errorf("a panic of a tool: %s", got)
	}
	end := step(`{"type":"call_tool","tool_name":"finish","arguments":{"score":500000,"reward":500}}`)
	if wire.DecodePath(t, end, "data", "done") != true || wire.DecodePath(t, end, "data", "reward") != 0.5 ||
		wire.DecodePath(t, end, "data", "metadata", "episode_score") != 0.5 {
		t.Errorf("a tool ends the episode: %s", end)
	}
}

func TestMCPOverWebSocket(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	dial := func() *wire.Peer {
		return wire.DialPeer(t, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/mcp")
	}
	p := dial()
	for _, c := range []struct {
		send string
		code any
	}{
		{`{bad`, -32700.0}, {`[]`, -32700.0}, {`7`, -32700.0}, {`{}`, -32600.0},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, -32601.0},
	} {
		if got := wire.DecodePath(t, p.Ask(c.send), "error", "code"); got != c.code {
			t.Errorf("%s: %v, want %v", c.send, got, c.code)
		}
	}
	const create = `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`
	id, _ := wire.DecodePath(t, p.Ask(create), "result", "session_id").(string)
	if again := wire.DecodePath(t, p.Ask(create), "result", "session_id"); again != id || s.sessions.findSession(id) == nil {
		t.Errorf("the socket's session is %v and then %v", id, again)
	}
	for i := range 3 {
		answer := p.Ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say"}}`)
		_, state := wire.GetBody(t, url+"/state?session_id="+id)
		if wire.DecodePath(t, state, "step_count") != float64(i+1) {
			t.Errorf("call %d: %s, state %s", i, answer, state)
		}
	}
	second := dial()
	refusal := second.Ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if wire.DecodePath(t, refusal, "id") != nil || wire.DecodePath(t, refusal, "error", "code") != -32000.0 ||
		wire.DecodePath(t, refusal, "error", "data", "max_sessions") != 1.0 {
		t.Errorf("a connection beyond the capacity: %s", refusal)
	}
	if code, _ := second.Closed(); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d, want 1000", code)
	}
	_ = p.Conn.Close()
	wire.AwaitCondition(t, "the slot is free", func() bool { return s.sessions.countActive() == 0 })
}

func TestMCPFactoryError(t *testing.T) {
	_, url := serve(t, Config{Kind: echo.Kind{Broken: true}})
	for _, method := range []string{"openenv/session/create", "tools/call"} {
		answer := wire.CallRPC(t, url, method, `{"name":"say"}`)
		if method == "openenv/session/create" && wire.DecodePath(t, answer, "error", "data", "factory_name") != "echo" ||
			wire.DecodePath(t, answer, "error") == nil {
			t.Errorf("%s: %s", method, answer)
		}
	}
}

func TestMCPNeverRedirects(t *testing.T) {
	_, url := serve(t, Config{})
	request, _ := http.NewRequest(http.MethodPost, url+"/mcp", strings.NewReader(`{}`)) // without a Content-Type
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Request.URL.Path != "/mcp" {
		t.Errorf("%s of %s", response.Status, response.Request.URL)
	}
	if status, body := wire.GetBody(t, url+"/mcp"); status != 405 || body != `{"detail":"Method Not Allowed"}` {
		t.Errorf("GET: %d %s", status, body)
	}
}

// A server in production mode serves tools and none of the orchestrator's operations.
func TestProduction(t *testing.T) {
	_, url := serve(t, Config{Mode: Production})
	for _, path := range []string{"/reset", "/step"} {
		if status, _ := wire.PostBody(t, url+path, `{}`); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := wire.GetBody(t, url+"/state"); status != 404 {
		t.Errorf("/state: %d", status)
	}
	_, openapi := wire.GetBody(t, url+"/openapi.json")
	for _, path := range []string{"/reset", "/step", "/state"} {
		if wire.DecodePath(t, openapi, "paths", path) != nil {
			t.Errorf("openapi.json has %s", path)
		}
	}
	p := wire.Connect(t, url)
	for _, message := range []string{`{"type":"reset"}`, `{"type":"step","data":{}}`, `{"type":"state"}`} {
		if got := p.Code(message); got != protocol.CodeUnknownType {
			t.Errorf("%s: %s", message, got)
		}
	}
	answer := p.Ask(
		`{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"text":"hi"}}}}`)
	if got := wire.DecodePath(t, answer, "data", "result", "data", "observation", "text"); got != "hi" {
		t.Errorf("tools/call: %s", answer)
	}
	p.Leave()
}

// The answer to every input is one valid response, with a result or an error.
func FuzzRPC(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, ``, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"say","arguments":{"text":"x"}}}`,
		`{"jsonrpc":"2.0","id":1e3,"method":"openenv/session/close","params":{"session_id":null}}`,
		`{"jsonrpc":"2.0","id":-0,"method":"x","method":"y"}`,
	} {
		f.Add([]byte(seed))
	}
	s := newTestServer(f, Config{MaxSessions: 4, IdleTimeout: time.Minute})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.Contains(raw, []byte("panic")) {
			t.Skip("the test's environment panics on demand")
		}
		var out bytes.Buffer
		s.answerRPC(t.Context(), &out, raw, nil, "")
		var answer map[string]json.RawMessage
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatalf("%q: %s: %v", raw, out.Bytes(), err)
		}
		_, failed := answer["error"]
		if _, ok := answer["result"]; ok == failed || answer["id"] == nil || len(answer) != 3 {
			t.Errorf("%q: %s", raw, out.Bytes())
		}
	})
}
