package openenv

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
)

// decoded parses JSON for comparison; a path of keys goes down into objects.
func decoded(tb testing.TB, text string, path ...string) any {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	for _, key := range path {
		v = v.(map[string]any)[key]
	}
	return v
}

func TestGoldenExchanges(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	exchanges := []struct{ send, want string }{
		{`{"type":"state"}`,
			`{"type":"state","data":{"episode_id":null,"step_count":0,"seed":0,"task":"","scenario":"","reward_mode":""}}`},
		{`{"type":"step","data":{"kind":"say"}}`,
			`{"type":"error","data":{"message":"no episode yet: send reset first","code":"EXECUTION_ERROR"}}`},
		{`{"type":"reset","data":{"seed":3,"episode_id":"E","prompt":[{"role":"user"}],"unknown":null}}`,
			`{"type":"observation","data":{"observation":{"text":"hello","seed":3},"reward":0.0,"done":false}}`},
		{`{"type":"step","data":{"kind":"say","text":"<hi> ü","reward":-20}}`,
			`{"type":"observation","data":{"observation":{"text":"<hi> ü","seed":3},"reward":-0.02,"done":false}}`},
		{`{"type":"state"}`,
			`{"type":"state","data":{"episode_id":"E","step_count":1,"seed":3,"task":"talk","scenario":"E02","reward_mode":"dense"}}`},
		{`{"type":"step"}`,
			`{"type":"error","data":{"message":"Invalid message: a step message has the action's fields in data","code":"VALIDATION_ERROR",` +
				`"errors":[{"type":"missing","loc":["data"],"msg":"a step message has the action's fields in data"}]}}`},
		{`{"type":"step","data":{"kind":"zzz"}}`,
			`{"type":"error","data":{"message":"Invalid message: kind should be say","code":"VALIDATION_ERROR",` +
				`"errors":[{"type":"literal_error","loc":["kind"],"msg":"kind should be say","input":"zzz"}]}}`},
		{`{"type":"state","data":{}}`,
			`{"type":"error","data":{"message":"Invalid message: a state message has no data","code":"VALIDATION_ERROR",` +
				`"errors":[{"type":"extra_forbidden","loc":["data"],"msg":"a state message has no data","input":{}}]}}`},
		{`{"type":"step","data":{"kind":"finish","reward":1000,"score":850000}}`,
			`{"type":"observation","data":{"observation":{"text":"","seed":3,"metadata":{"episode_score":0.85,"score_breakdown":[{"name":"talk","earned":0.85,"offered":1.0}],` +
				`"outcome":"scored","judge":"rules","scenario_digest":"sha256:00ff","grader_version":"echo.1"}},"reward":1.0,"done":true,` +
				`"metadata":{"episode_score":0.85,"score_breakdown":[{"name":"talk","earned":0.85,"offered":1.0}],` +
				`"outcome":"scored","judge":"rules","scenario_digest":"sha256:00ff","grader_version":"echo.1"}}}`},
		{`{"type":"step","data":{"kind":"say"}}`,
			`{"type":"observation","data":{"observation":{"text":"","seed":3},"reward":0.0,"done":true}}`},
	}
	for _, e := range exchanges {
		if diff := cmp.Diff(e.want, p.ask(e.send)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", e.send, diff)
		}
	}
	p.send(`{"type":"close"}`)
	if code, reason := p.closed(); code != websocket.CloseNormalClosure || reason != "" {
		t.Errorf("closed with %d %q, want 1000 without a reason", code, reason)
	}
}

// Whatever comes in, the answer is one error and the session goes on.
func TestBadMessagesKeepTheSession(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	for _, c := range []struct{ send, want string }{
		{``, codeInvalidJSON},
		{`{bad`, codeInvalidJSON},
		{`{"type":"state"}{}`, codeInvalidJSON},
		{`{"type":"state","type":"reset"}`, codeInvalidJSON},
		{`{"type":"step","data":{"kind":"say","kind":"panic"}}`, codeInvalidJSON},
		{"{\"type\":\"reset\",\"data\":{\"task\":\"\xff\"}}", codeInvalidJSON},
		{`{"type":"reset","data":{"seed":NaN}}`, codeInvalidJSON},
		{strings.Repeat(`[`, 100_000), codeInvalidJSON},
		{strings.Repeat(`{"a":`, 100_000), codeInvalidJSON},
		{`[]`, codeValidation},
		{`7`, codeValidation},
		{`"reset"`, codeValidation},
		{`null`, codeValidation},
		{`{}`, codeUnknownType},
		{`{"type":null}`, codeUnknownType},
		{`{"type":7}`, codeUnknownType},
		{`{"type":"ping"}`, codeUnknownType},
		{`{"TYPE":"state"}`, codeUnknownType},
		{`{"type":"mcp"}`, codeValidation},
		{`{"type":"mcp","data":[]}`, codeValidation},
		{`{"type":"mcp","data":{}}`, "mcp"},
		{`{"type":"mcp","data":{"jsonrpc":"2.0","id":{},"method":7}}`, "mcp"},
		{`{"type":"state","extra":1}`, codeValidation},
		{`{"type":"state","Data":1}`, codeValidation},
		{`{"type":"close","data":{}}`, codeValidation},
		{`{"type":"reset","data":null}`, codeValidation},
		{`{"type":"reset","data":[]}`, codeValidation},
		{`{"type":"step","data":"say"}`, codeValidation},
		{`{"type":"step","data":null}`, codeValidation},
		{`{"type":"step","action":{"kind":"say"}}`, codeValidation},
		{`{"type":"reset","data":{"seed":1.5}}`, codeValidation},
		{`{"type":"reset","data":{"task":"juggle"}}`, codeValidation},
		{`{"type":"reset","data":{"scenario":"X99"}}`, codeValidation},
		{`{"type":"reset"}`, "observation"},
		{`{"type":"reset","data":{}}`, "observation"},
		{` {"data":{"seed":null,"task":null,"task_id":"E02"} , "type" : "re\u0073et"} `, "observation"},
		{`{"type":"step","data":{"kind":"fail"}}`, codeExecution},
		{`{"type":"step","data":{"kind":"unencodable"}}`, codeExecution},
		{`{"type":"step","data":{"kind":"list"}}`, codeExecution},
		{`{"type":"step","data":{"kind":"say","extra":1}}`, codeValidation},
		{`{"type":"step","data":{"kind":"say"}}`, "observation"},
	} {
		if got := p.code(c.send); got != c.want {
			t.Errorf("%.100q was answered with %s, want %s", c.send, got, c.want)
		}
	}
}

func TestBinaryFrames(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	for text, want := range map[string]string{`{"type":"state"}`: "state", "\x00\x01\xff": codeInvalidJSON} {
		if err := p.conn.WriteMessage(websocket.BinaryMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := codeOf(t, p.receive()); got != want {
			t.Errorf("binary %q was answered with %s, want %s", text, got, want)
		}
	}
}

// Messages sent without waiting are answered one by one, in order, and more of them than the queue
// holds.
func TestPipelinedMessagesAreAnsweredInOrder(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	const messages = 500
	p.send(`{"type":"reset","data":{"seed":1}}`)
	go func() {
		for i := range messages {
			if p.conn.WriteMessage(websocket.TextMessage,
				fmt.Appendf(nil, `{"type":"step","data":{"kind":"say","text":"%d"}}`, i)) != nil {
				return
			}
		}
	}()
	p.receive()
	for i := range messages {
		if got := decoded(t, p.receive(), "data", "observation", "text"); got != fmt.Sprint(i) {
			t.Fatalf("answer %d is for message %v", i, got)
		}
	}
}

func TestPanicCostsOneEpisode(t *testing.T) {
	s, url := serve(t, Config{})
	p, other := connect(t, url), connect(t, url)
	other.ask(`{"type":"reset"}`)
	p.ask(`{"type":"reset"}`)
	if got := p.code(`{"type":"step","data":{"kind":"panic"}}`); got != codeExecution {
		t.Errorf("a panic was answered with %s", got)
	}
	if got := p.code(`{"type":"step","data":{"kind":"say"}}`); got != codeExecution {
		t.Errorf("a step of the lost episode was answered with %s", got)
	}
	p.ask(`{"type":"reset"}`)
	for _, p := range []*peer{p, other} {
		if got := p.code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
			t.Errorf("after the panic, a step was answered with %s", got)
		}
	}
	if got := s.report().Episodes.Errored; got != 1 {
		t.Errorf("%d errored episodes, want 1", got)
	}
}

func TestFactoryError(t *testing.T) {
	for name, kind := range map[string]echoKind{"no environment": {broken: true}, "panic": {explosive: true}} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, Config{Kind: kind})
			p := connect(t, url)
			answer := p.ask(`{"type":"reset"}`)
			if codeOf(t, answer) != codeFactory || decoded(t, answer, "data", "factory_name") != "echo" {
				t.Errorf("answer %s", answer)
			}
			if code, _ := p.closed(); code != websocket.CloseNormalClosure {
				t.Errorf("closed with %d, want 1000", code)
			}
			eventually(t, "no slot is taken", func() bool { return s.sessions.active() == 0 })
		})
	}
}

func TestUnknownSessionID(t *testing.T) {
	_, url := serve(t, Config{})
	p := dialPeer(t, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/ws?session_id=abc")
	if got := p.code(`{"type":"state"}`); got != codeSession {
		t.Errorf("answered with %s", got)
	}
}

func TestTooLargeMessage(t *testing.T) {
	s, url := serve(t, Config{})
	p := connect(t, url)
	largest := `{"type":"reset","data":{"x":"` + strings.Repeat("x", maxMessage-32) + `"}}`
	if got := p.code(largest[:maxMessage-3] + `"}}`); got != "observation" {
		t.Errorf("a message of %d bytes was answered with %s", maxMessage, got)
	}
	p.send(`{"type":"reset","data":{"x":"` + strings.Repeat("x", maxMessage+1<<20) + `"}}`)
	if code, _ := p.closed(); code != websocket.CloseMessageTooBig {
		t.Errorf("closed with %d, want 1009", code)
	}
	eventually(t, "the slot is free", func() bool { return s.sessions.active() == 0 })
	if !s.bulk.TryAcquire(bulkBudget) {
		t.Error("the memory of large messages was not given back")
	}
}

func TestCapacityRefusal(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 2})
	first := connect(t, url)
	connect(t, url)
	eventually(t, "two sessions", func() bool { return s.sessions.active() == 2 })
	third := connect(t, url)
	answer := third.ask(`{"type":"reset"}`)
	if codeOf(t, answer) != codeCapacity || decoded(t, answer, "data", "active_sessions") != 2.0 ||
		decoded(t, answer, "data", "max_sessions") != 2.0 {
		t.Errorf("answer %s", answer)
	}
	if !strings.Contains(answer, "2/2") {
		t.Errorf("the message doesn't tell the numbers: %s", answer)
	}
	if code, _ := third.closed(); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d, want 1000", code)
	}
	first.send(`{"type":"close"}`)
	first.closed()
	if got := connect(t, url).code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("after a close, the next session was answered with %s", got)
	}
}

// However many connect at once, exactly the capacity gets in.
func TestCapacityRace(t *testing.T) {
	const capacity, clients = 10, 60
	s, url := serve(t, Config{MaxSessions: capacity})
	var admitted, refused atomic.Int32
	var wg sync.WaitGroup
	for range clients {
		p := connect(t, url)
		wg.Go(func() {
			if p.conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"reset"}`)) != nil {
				return
			}
			_, raw, err := p.conn.ReadMessage()
			switch {
			case err == nil && strings.Contains(string(raw), codeCapacity):
				refused.Add(1)
			case err == nil:
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != capacity || refused.Load() != clients-capacity || s.sessions.active() != capacity {
		t.Errorf("%d admitted, %d refused, %d active", admitted.Load(), refused.Load(), s.sessions.active())
	}
}

// A client that closes, in either way, and connects again is never refused for its own old session.
func TestCloseThenReopenAtLimitOne(t *testing.T) {
	_, url := serve(t, Config{MaxSessions: 1})
	for i := range 200 {
		p := connect(t, url)
		if got := p.code(`{"type":"reset"}`); got != "observation" {
			t.Fatalf("round %d: %s", i, got)
		}
		if i%2 == 0 {
			p.send(`{"type":"close"}`)
		} else if err := p.conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000,
			"")); err != nil {
			t.Fatal(err)
		}
		if code, _ := p.closed(); code != websocket.CloseNormalClosure {
			t.Fatalf("round %d: closed with %d", i, code)
		}
		_ = p.conn.Close()
	}
}

// The same after a message that was too large.
func TestTooLargeThenReopenAtLimitOne(t *testing.T) {
	_, url := serve(t, Config{MaxSessions: 1})
	for range 3 {
		p := connect(t, url)
		p.send(strings.Repeat("x", maxMessage+1))
		if code, _ := p.closed(); code != websocket.CloseMessageTooBig {
			t.Fatalf("closed with %d", code)
		}
	}
	if got := connect(t, url).code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("the next session was answered with %s", got)
	}
}

func TestLostConnectionFreesTheSlot(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	p := connect(t, url)
	p.ask(`{"type":"reset"}`)
	_ = p.conn.Close()
	eventually(t, "the slot is free", func() bool { return s.sessions.active() == 0 })
}

// Frames that break RFC 6455 end the connection and nothing else.
func TestHostileFrames(t *testing.T) {
	s, url := serve(t, Config{})
	healthy := connect(t, url)
	for name, frame := range map[string][]byte{
		"unmasked":               {0x81, 0x02, '{', '}'},
		"reserved bits":          {0xF1, 0x80, 0, 0, 0, 0},
		"unknown opcode":         {0x83, 0x80, 0, 0, 0, 0},
		"fragmented control":     {0x09, 0x80, 0, 0, 0, 0},
		"orphan continuation":    {0x80, 0x80, 0, 0, 0, 0},
		"length of 2^63":         {0x81, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"length that never ends": {0x81, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		"close code 1005":        {0x88, 0x82, 0, 0, 0, 0, 0x03, 0xED},
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, url)
			if _, err := p.conn.NetConn().Write(frame); err != nil {
				t.Fatal(err)
			}
			if name == "length that never ends" {
				_ = p.conn.NetConn().Close()
			}
			for {
				if _, _, err := p.conn.ReadMessage(); err != nil {
					break
				}
			}
		})
	}
	eventually(t, "only the healthy session is left", func() bool { return s.sessions.active() == 1 })
	if got := healthy.code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("the healthy session was answered with %s", got)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 200})
	var wg sync.WaitGroup
	for i := range 200 {
		p := connect(t, url)
		wg.Go(func() {
			reset := fmt.Sprintf(`{"type":"reset","data":{"seed":%d,"run":"r","shard":0,"episode":%d}}`, i, i)
			if _, err := roundTrip(p, reset); err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				answer, err := roundTrip(p, `{"type":"step","data":{"kind":"say","text":"x"}}`)
				if err != nil || decoded(t, answer, "data", "observation", "seed") != float64(i) {
					t.Errorf("session %d: %s, %v", i, answer, err)
					return
				}
			}
			if _, err := roundTrip(p, `{"type":"step","data":{"kind":"finish","score":500000}}`); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.report().Episodes; got.Scored != 200 || got.ScoreSum != 200*500_000 {
		t.Errorf("episodes %+v", got)
	}
}

func roundTrip(p *peer, text string) (string, error) {
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		return "", err
	}
	_, raw, err := p.conn.ReadMessage()
	return string(raw), err
}
