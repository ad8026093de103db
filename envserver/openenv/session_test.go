package openenv

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestGoldenExchanges(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	exchanges := []struct{ send, want string }{
		{`{"type":"state"}`,
			`{"type":"state","data":{"episode_id":null,"step_count":0,"seed":0,"task":"","scenario":"","reward_mode":"","dataset_size":2}}`},
		{`{"type":"step","data":{"kind":"say"}}`,
			`{"type":"error","data":{"message":"no episode yet: send reset first","code":"EXECUTION_ERROR"}}`},
		{`{"type":"reset","data":{"seed":3,"episode_id":"E","prompt":[{"role":"user"}],"unknown":null}}`,
			`{"type":"observation","data":{"observation":{"text":"hello","seed":3},"reward":0.0,` +
				`"done":false,"metadata":{"ignored_options":["prompt","unknown"]}}}`},
		{`{"type":"step","data":{"kind":"say","text":"<hi> ü","reward":-20}}`,
			`{"type":"observation","data":{"observation":{"text":"<hi> ü","seed":3},"reward":-0.02,"done":false}}`},
		{`{"type":"state"}`,
			`{"type":"state","data":{"episode_id":"E","step_count":1,"seed":3,"task":"talk","scenario":"E02","reward_mode":"terminal","dataset_size":2}}`},
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
			`{"type":"observation","data":{"observation":{"text":"","seed":3,"metadata":{"episode_score":0.85,"score_breakdown":[{"name":"talk","earned":0.85,"offered":1.0}],"right":true,` +
				`"outcome":"scored","judge":"rules","scenario_digest":"sha256:00ff","grader_version":"echo.1"}},"reward":1.0,"done":true,` +
				`"metadata":{"episode_score":0.85,"score_breakdown":[{"name":"talk","earned":0.85,"offered":1.0}],"right":true,` +
				`"outcome":"scored","judge":"rules","scenario_digest":"sha256:00ff","grader_version":"echo.1"}}}`},
		{`{"type":"step","data":{"kind":"say"}}`,
			`{"type":"observation","data":{"observation":{"text":"","seed":3},"reward":0.0,"done":true}}`},
	}
	for _, e := range exchanges {
		if diff := cmp.Diff(e.want, p.Ask(e.send)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", e.send, diff)
		}
	}
	p.Send(`{"type":"close"}`)
	if code, reason := p.Closed(); code != websocket.CloseNormalClosure || reason != "" {
		t.Errorf("closed with %d %q, want 1000 without a reason", code, reason)
	}
}

// Every invalid message gets one error, and the session continues.
func TestBadMessagesKeepTheSession(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	for _, c := range []struct{ send, want string }{
		{``, protocol.CodeInvalidJSON},
		{`{bad`, protocol.CodeInvalidJSON},
		{`{"type":"state"}{}`, protocol.CodeInvalidJSON},
		{`{"type":"state","type":"reset"}`, protocol.CodeInvalidJSON},
		{`{"type":"step","type":"state","data":{"kind":"say"}}`, protocol.CodeInvalidJSON},
		{"{\"type\":\"reset\",\"data\":{\"task\":\"\xff\"}}", protocol.CodeInvalidJSON},
		{`{"type":"reset","data":{"seed":nan}}`, protocol.CodeInvalidJSON},
		{`{"type":"step","data":{"kind":"say","text":NaN}}`, protocol.CodeInvalidJSON},
		{`{"type":"reset","data":{"seed":NaN,"note":-Infinity}}`, "observation"},
		{strings.Repeat(`[`, 100_000), protocol.CodeInvalidJSON},
		{strings.Repeat(`{"a":`, 100_000), protocol.CodeInvalidJSON},
		{`[]`, protocol.CodeValidation},
		{`7`, protocol.CodeValidation},
		{`"reset"`, protocol.CodeValidation},
		{`null`, protocol.CodeValidation},
		{`{}`, protocol.CodeUnknownType},
		{`{"type":null}`, protocol.CodeUnknownType},
		{`{"type":7}`, protocol.CodeUnknownType},
		{`{"type":"ping"}`, protocol.CodeUnknownType},
		{`{"TYPE":"state"}`, protocol.CodeUnknownType},
		{`{"type":"mcp"}`, protocol.CodeValidation},
		{`{"type":"mcp","data":[]}`, protocol.CodeValidation},
		{`{"type":"mcp","data":{}}`, "mcp"},
		{`{"type":"mcp","data":{"jsonrpc":"2.0","id":{},"method":7}}`, "mcp"},
		{`{"type":"state","extra":1}`, protocol.CodeValidation},
		{`{"type":"state","Data":1}`, protocol.CodeValidation},
		{`{"type":"close","data":{}}`, protocol.CodeValidation},
		{`{"type":"reset","data":null}`, protocol.CodeValidation},
		{`{"type":"reset","data":[]}`, protocol.CodeValidation},
		{`{"type":"step","data":"say"}`, protocol.CodeValidation},
		{`{"type":"step","data":null}`, protocol.CodeValidation},
		{`{"type":"step","action":{"kind":"say"}}`, protocol.CodeValidation},
		{`{"type":"reset","data":{"seed":1.5}}`, "observation"},
		{`{"type":"reset","data":{"csenv":{"seed":1.5}}}`, protocol.CodeValidation},
		{`{"type":"reset","data":{"task":"juggle","csenv":{}}}`, "observation"},
		{`{"type":"reset","data":{"task":"juggle"}}`, protocol.CodeValidation},
		{`{"type":"reset","data":{"scenario":"X99"}}`, protocol.CodeValidation},
		{`{"type":"reset"}`, "observation"},
		{`{"type":"reset","data":{}}`, "observation"},
		{` {"data":{"seed":null,"task":null,"task_id":"E02"} , "type" : "re\u0073et"} `, "observation"},
		{`{"type":"step","data":{"kind":"fail"}}`, protocol.CodeExecution},
		{`{"type":"step","data":{"kind":"unencodable"}}`, protocol.CodeExecution},
		{`{"type":"step","data":{"kind":"list"}}`, protocol.CodeExecution},
		{`{"type":"step","data":{"kind":"say","extra":1}}`, protocol.CodeValidation},
		{`{"type":"step","data":{"kind":"say"}}`, "observation"},
	} {
		if got := p.Code(c.send); got != c.want {
			t.Errorf("%.100q was answered with %s, want %s", c.send, got, c.want)
		}
	}
}

func TestBinaryFrames(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	for text, want := range map[string]string{`{"type":"state"}`: "state", "\x00\x01\xff": protocol.CodeInvalidJSON} {
		if err := p.Conn.WriteMessage(websocket.BinaryMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := wire.CodeOf(t, p.Receive()); got != want {
			t.Errorf("binary %q was answered with %s, want %s", text, got, want)
		}
	}
}

// Messages sent without waiting are answered one by one, in order, even if they exceed the queue.
func TestPipelinedMessagesAreAnsweredInOrder(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	const messages = 500
	p.Send(`{"type":"reset","data":{"seed":1}}`)
	go func() {
		for i := range messages {
			if p.Conn.WriteMessage(websocket.TextMessage,
				fmt.Appendf(nil, `{"type":"step","data":{"kind":"say","text":"%d"}}`, i)) != nil {
				return
			}
		}
	}()
	p.Receive()
	for i := range messages {
		if got := wire.DecodePath(t, p.Receive(), "data", "observation", "text"); got != fmt.Sprint(i) {
			t.Fatalf("answer %d is for message %v", i, got)
		}
	}
}

func TestPanicCostsOneEpisode(t *testing.T) {
	s, url := serve(t, Config{})
	p, other := wire.Connect(t, url), wire.Connect(t, url)
	other.Ask(`{"type":"reset"}`)
	p.Ask(`{"type":"reset"}`)
	if got := p.Code(`{"type":"step","data":{"kind":"panic"}}`); got != protocol.CodeExecution {
		t.Errorf("a panic was answered with %s", got)
	}
	if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != protocol.CodeExecution {
		t.Errorf("a step of the lost episode was answered with %s", got)
	}
	p.Ask(`{"type":"reset"}`)
	for _, p := range []*wire.Peer{p, other} {
		if got := p.Code(`{"type":"step","data":{"kind":"say"}}`); got != "observation" {
			t.Errorf("after the panic, a step was answered with %s", got)
		}
	}
	if got := s.makeReport(nil).Episodes.Errored; got != 1 {
		t.Errorf("%d errored episodes, want 1", got)
	}
}

func TestFactoryError(t *testing.T) {
	for name, kind := range map[string]echo.Kind{"no environment": {Broken: true}, "panic": {Explosive: true}} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, Config{Kind: kind})
			p := wire.Connect(t, url)
			answer := p.Ask(`{"type":"reset"}`)
			if wire.CodeOf(t, answer) != protocol.CodeFactory ||
				wire.DecodePath(t, answer, "data", "factory_name") != "echo" {
				t.Errorf("answer %s", answer)
			}
			if code, _ := p.Closed(); code != websocket.CloseNormalClosure {
				t.Errorf("closed with %d, want 1000", code)
			}
			wire.AwaitCondition(t, "no slot is taken", func() bool { return s.sessions.countActive() == 0 })
		})
	}
}

func TestUnknownSessionID(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.DialPeer(t, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/ws?session_id=abc")
	if got := p.Code(`{"type":"state"}`); got != protocol.CodeSession {
		t.Errorf("answered with %s", got)
	}
}

func TestTooLargeMessage(t *testing.T) {
	s, url := serve(t, Config{})
	p := wire.Connect(t, url)
	largest := `{"type":"reset","data":{"x":"` + strings.Repeat("x", memory.Large-32) + `"}}`
	if got := p.Code(largest[:memory.Large-3] + `"}}`); got != "observation" {
		t.Errorf("a message of %d bytes was answered with %s", memory.Large, got)
	}
	p.Send(`{"type":"reset","data":{"x":"` + strings.Repeat("x", memory.Large+1<<20) + `"}}`)
	if code, _ := p.Closed(); code != websocket.CloseMessageTooBig {
		t.Errorf("closed with %d, want 1009", code)
	}
	wire.AwaitCondition(t, "the slot is free", func() bool { return s.sessions.countActive() == 0 })
	if s.medium.Users()+s.large.Users() > 0 {
		t.Error("the memory of large messages was not released")
	}
}

// Messages above 16 KiB that one client sends slowly occupy what has arrived of them, and hold back
// neither its other ones of that size nor a short message.
func TestSlowMessagesHoldBackNobody(t *testing.T) {
	_, url := serve(t, Config{})
	large := strings.Repeat(" ", 2*memory.Small) + `{"type":"reset"}`
	var slow []*wire.Peer
	var writers []io.WriteCloser
	for range 40 {
		p := wire.Connect(t, url)
		w, err := p.Conn.NextWriter(websocket.TextMessage)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, large); err != nil {
			t.Fatal(err)
		}
		slow, writers = append(slow, p), append(writers, w)
	}
	for _, message := range []string{large, `{"type":"reset"}`} {
		if got := wire.Connect(t, url).Code(message); got != "observation" {
			t.Errorf("a message of %d bytes was answered with %s", len(message), got)
		}
	}
	for i, w := range writers {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := slow[i].Receive(); !strings.Contains(got, `"observation"`) {
			t.Errorf("a slow message was answered with %s", got)
		}
	}
}

func TestCapacityRefusal(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 2})
	first := wire.Connect(t, url)
	wire.Connect(t, url)
	wire.AwaitCondition(t, "two sessions", func() bool { return s.sessions.countActive() == 2 })
	third := wire.Connect(t, url)
	answer := third.Ask(`{"type":"reset"}`)
	if wire.CodeOf(t, answer) != protocol.CodeCapacity || wire.DecodePath(t, answer, "data", "active_sessions") != 2.0 ||
		wire.DecodePath(t, answer, "data", "max_sessions") != 2.0 {
		t.Errorf("answer %s", answer)
	}
	if !strings.Contains(answer, "2/2") {
		t.Errorf("the message doesn't contain the numbers: %s", answer)
	}
	if code, _ := third.Closed(); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d, want 1000", code)
	}
	first.Send(`{"type":"close"}`)
	first.Closed()
	if got := wire.Connect(t, url).Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("after a close, the next session was answered with %s", got)
	}
}

// If many clients connect at the same time, exactly as many as the capacity are accepted.
func TestCapacityRace(t *testing.T) {
	const capacity, clients = 10, 60
	s, url := serve(t, Config{MaxSessions: capacity})
	var admitted, refused atomic.Int32
	var wg sync.WaitGroup
	for range clients {
		p := wire.Connect(t, url)
		wg.Go(func() {
			if p.Conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"reset"}`)) != nil {
				return
			}
			_, raw, err := p.Conn.ReadMessage()
			switch {
			case err == nil && strings.Contains(string(raw), protocol.CodeCapacity):
				refused.Add(1)
			case err == nil:
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != capacity || refused.Load() != clients-capacity || s.sessions.countActive() != capacity {
		t.Errorf("%d admitted, %d refused, %d active", admitted.Load(), refused.Load(), s.sessions.countActive())
	}
}

// A client that closes, in either way, and connects again is never refused because of its old
// session.
func TestCloseThenReopenAtLimitOne(t *testing.T) {
	_, url := serve(t, Config{MaxSessions: 1})
	for i := range 200 {
		p := wire.Connect(t, url)
		if got := p.Code(`{"type":"reset"}`); got != "observation" {
			t.Fatalf("round %d: %s", i, got)
		}
		if i%2 == 0 {
			p.Send(`{"type":"close"}`)
		} else if err := p.Conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000,
			"")); err != nil {
			t.Fatal(err)
		}
		if code, _ := p.Closed(); code != websocket.CloseNormalClosure {
			t.Fatalf("round %d: closed with %d", i, code)
		}
		_ = p.Conn.Close()
	}
}

// The same after a message that was too large.
func TestTooLargeThenReopenAtLimitOne(t *testing.T) {
	_, url := serve(t, Config{MaxSessions: 1})
	for range 3 {
		p := wire.Connect(t, url)
		p.Send(strings.Repeat("x", memory.Large+1))
		if code, _ := p.Closed(); code != websocket.CloseMessageTooBig {
			t.Fatalf("closed with %d", code)
		}
	}
	if got := wire.Connect(t, url).Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("the next session was answered with %s", got)
	}
}

func TestLostConnectionFreesTheSlot(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 1})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset"}`)
	_ = p.Conn.Close()
	wire.AwaitCondition(t, "the slot is free", func() bool { return s.sessions.countActive() == 0 })
}

// Frames that violate RFC 6455 end their connection and nothing else.
func TestHostileFrames(t *testing.T) {
	s, url := serve(t, Config{})
	healthy := wire.Connect(t, url)
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
			p := wire.Connect(t, url)
			if _, err := p.Conn.NetConn().Write(frame); err != nil {
				t.Fatal(err)
			}
			if name == "length that never ends" {
				_ = p.Conn.NetConn().Close()
			}
			for {
				if _, _, err := p.Conn.ReadMessage(); err != nil {
					break
				}
			}
		})
	}
	wire.AwaitCondition(t, "only the healthy session is left", func() bool { return s.sessions.countActive() == 1 })
	if got := healthy.Code(`{"type":"reset"}`); got != "observation" {
		t.Errorf("the healthy session was answered with %s", got)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	s, url := serve(t, Config{MaxSessions: 200})
	var wg sync.WaitGroup
	for i := range 200 {
		p := wire.Connect(t, url)
		wg.Go(func() {
			reset := fmt.Sprintf(`{"type":"reset","data":{"seed":%d,"run":"r","shard":0,"episode":%d}}`, i, i)
			if _, err := roundTrip(p, reset); err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				answer, err := roundTrip(p, `{"type":"step","data":{"kind":"say","text":"x"}}`)
				if err != nil || wire.DecodePath(t, answer, "data", "observation", "seed") != float64(i) {
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
	if got := s.makeReport(nil).Episodes; got.Scored != 200 || got.ScoreSum != 200*500_000 {
		t.Errorf("episodes %+v", got)
	}
}

func roundTrip(p *wire.Peer, text string) (string, error) {
	if err := p.Conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		return "", err
	}
	_, raw, err := p.Conn.ReadMessage()
	return string(raw), err
}
