package openenv

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/gorilla/websocket"
)

// echoKind is an environment that does what its actions say.
type echoKind struct {
	// broken makes New return no environment, and explosive makes it panic.
	broken, explosive bool
	// made counts the environments.
	made func()
}

func (echoKind) Name() string           { return "echo" }
func (echoKind) Description() string    { return "Says what it is told." }
func (echoKind) ScenarioDigest() string { return "sha256:00ff" }
func (echoKind) GraderVersion() string  { return "echo.1" }
func (echoKind) Judge() string          { return "rules" }

func (echoKind) Tasks() []score.Task {
	return []score.Task{{Name: "talk", Scenarios: []score.Scenario{
		{ID: "E01", Category: "billing", Difficulty: "easy", Language: "en", Split: "public-train"},
		{ID: "E02", Category: "shipping", Difficulty: "hard", Language: "de", Split: "public-train"},
		{ID: "E03", Category: "shipping", Difficulty: "hard", Language: "de", Split: "public-test"},
	}}}
}

func (echoKind) Schemas() episode.Schemas {
	return episode.Schemas{
		Action: json.RawMessage(
			`{"type":"object","properties":{"kind":{"type":"string"}},"additionalProperties":false}`),
		Observation: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		State:       json.RawMessage(`{"type":"object","properties":{"step_count":{"type":"integer"}}}`),
		Tools:       echoTools,
	}
}

// echoTools are two of its actions; wait is there to be interrupted, panic to be survived.
var echoTools = []episode.Tool{
	{Name: "say", Description: "Says a text.", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"text":{"type":"string"}}}`)},
	{Name: "finish", Description: "Ends the episode.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}}}`)},
	{Name: "zzz", Description: "Is refused.", InputSchema: json.RawMessage(`{"type":"object"}`)},
	{Name: "fail", Description: "Fails.", InputSchema: json.RawMessage(`{"type":"object"}`)},
	{Name: "panic", Description: "Panics.", InputSchema: json.RawMessage(`{"type":"object"}`)},
}

func (k echoKind) New() episode.Environment {
	switch {
	case k.explosive:
		panic("no environments today")
	case k.broken:
		return nil
	}
	if k.made != nil {
		k.made()
	}
	return &echo{}
}

type echo struct {
	options episode.Options
	steps   int
	reset   bool
	done    bool
}

type echoAction struct {
	Type   string        `json:"action_type"`
	Kind   string        `json:"kind"`
	Text   string        `json:"text"`
	Reward int64         `json:"reward"`
	Score  int64         `json:"score"`
	Bytes  int           `json:"bytes"`
	Wait   time.Duration `json:"wait"`
}

type echoObservation struct {
	Text string `json:"text"`
	Seed int64  `json:"seed"`
}

type echoState struct {
	EpisodeID  *string            `json:"episode_id"`
	StepCount  int                `json:"step_count"`
	Seed       int64              `json:"seed"`
	Task       string             `json:"task"`
	Scenario   string             `json:"scenario"`
	RewardMode episode.RewardMode `json:"reward_mode"`
}

func (e *echo) Reset(o episode.Options) (episode.Result, error) {
	if o.Task != "" && o.Task != "talk" {
		return episode.Result{}, fmt.Errorf("%w %q: the task is talk", episode.ErrUnknownTask, o.Task)
	}
	if o.Scenario == "" {
		o.Scenario = []string{"E01", "E02"}[o.Seed%2]
	}
	if o.Scenario != "E01" && o.Scenario != "E02" && o.Scenario != "E03" {
		return episode.Result{}, fmt.Errorf("%w %q", episode.ErrUnknownScenario, o.Scenario)
	}
	o.Task = "talk"
	*e = echo{options: o, reset: true}
	return episode.Result{Observation: echoObservation{Text: "hello", Seed: o.Seed}}, nil
}

func (e *echo) Step(ctx context.Context, raw json.RawMessage) (episode.Result, error) {
	var a echoAction
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&a)
	if a.Kind == "" {
		a.Kind = a.Type
	}
	if err != nil || a.Kind == "zzz" {
		return episode.Result{}, &episode.ActionError{Items: []episode.ErrorItem{
			{Type: "literal_error", Loc: []any{"kind"}, Msg: "kind should be say", Input: json.RawMessage(`"zzz"`)},
		}}
	}
	if !e.reset {
		return episode.Result{}, episode.ErrNotReset
	}
	result := episode.Result{Observation: echoObservation{Text: a.Text + strings.Repeat("x", a.Bytes),
		Seed: e.options.Seed}, Reward: a.Reward, Done: e.done}
	switch a.Kind {
	case "wait":
		select {
		case <-time.After(a.Wait):
		case <-ctx.Done():
			return episode.Result{}, ctx.Err()
		}
	case "fail":
		return episode.Result{}, errors.New("the backend is gone")
	case "unjudged":
		return episode.Result{}, &episode.JudgeError{Cause: "judge_timeout", Err: fmt.Errorf("no answer to %q", a.Text)}
	case "panic":
		panic("out of ideas")
	case "unencodable":
		result.Observation = map[string]any{"text": func() {}}
	case "list":
		result.Observation = []int{1}
	case "finish", "failed", "errored":
		outcome := map[string]score.Outcome{"finish": score.Scored, "failed": score.Failed,
			"errored": score.Errored}[a.Kind]
		result.Done, e.done = true, true
		result.Final = &episode.Final{
			Task: "talk", Scenario: e.options.Scenario, Category: "billing", Outcome: outcome, Score: a.Score,
			Judge:      "rules",
			Dimensions: []score.Dimension{{Name: "talk", Earned: a.Score / 1000, Offered: 1000}},
		}
	}
	e.steps++
	return result, nil
}

func (e *echo) State() any {
	s := echoState{StepCount: e.steps, Seed: e.options.Seed, Task: e.options.Task, Scenario: e.options.Scenario,
		RewardMode: e.options.RewardMode}
	if e.reset {
		s.EpisodeID = &e.options.EpisodeID
	}
	return s
}

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func newTestServer(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	if cfg.Kind == nil {
		cfg.Kind = echoKind{}
	}
	if cfg.LedgerKey == nil {
		cfg.LedgerKey = testKey()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// serve runs a server on the loopback interface for the length of the test.
func serve(tb testing.TB, cfg Config) (*Server, string) {
	tb.Helper()
	s := newTestServer(tb, cfg)
	h := httptest.NewServer(s.Handler())
	tb.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return s, h.URL
}

// pipeNet is a network of net.Pipe connections, whose waiting testing/synctest understands.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeNet() *pipeNet { return &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeNet) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipeNet) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipeNet) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- newRoomy(far):
		return newRoomy(near), nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// roomy is an end of a pipe whose writes don't wait for the reader, as a socket's buffer makes it.
type roomy struct {
	net.Conn
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func newRoomy(c net.Conn) *roomy {
	r := &roomy{Conn: c, out: make(chan []byte, 1024), closed: make(chan struct{})}
	go r.pump()
	return r
}

func (r *roomy) Write(b []byte) (int, error) {
	select {
	case <-r.closed:
		return 0, net.ErrClosed
	case r.out <- bytes.Clone(b):
		return len(b), nil
	}
}

func (r *roomy) pump() {
	defer r.Conn.Close()
	for {
		select {
		case b := <-r.out:
			if _, err := r.Conn.Write(b); err != nil {
				return
			}
		case <-r.closed:
			if len(r.out) == 0 {
				return
			}
		}
	}
}

// Close lets what was written go out for a second.
func (r *roomy) Close() error {
	r.once.Do(func() {
		_ = r.SetReadDeadline(time.Unix(1, 0))
		_ = r.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		close(r.closed)
	})
	return nil
}

func (r *roomy) SetWriteDeadline(time.Time) error { return nil }

func (r *roomy) SetDeadline(t time.Time) error { return r.SetReadDeadline(t) }

// servePipe runs a server within a synctest bubble. The returned function ends it.
func servePipe(tb testing.TB, cfg Config) (*Server, *pipeNet, func()) {
	tb.Helper()
	s := newTestServer(tb, cfg)
	network := newPipeNet()
	h := &http.Server{Handler: s.Handler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(network) })
	return s, network, func() {
		s.Close()
		_ = h.Close()
		serving.Wait()
	}
}

// peer is a client that sends and expects raw frames.
type peer struct {
	tb   testing.TB
	conn *websocket.Conn
}

func connect(tb testing.TB, url string) *peer {
	tb.Helper()
	return dialPeer(tb, websocket.DefaultDialer, "ws"+strings.TrimPrefix(url, "http")+"/ws")
}

func dialPeer(tb testing.TB, dialer *websocket.Dialer, url string) *peer {
	tb.Helper()
	conn, response, err := dialer.Dial(url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	_ = response.Body.Close()
	tb.Cleanup(func() { _ = conn.Close() })
	return &peer{tb: tb, conn: conn}
}

func connectPipe(tb testing.TB, network *pipeNet) *peer {
	tb.Helper()
	return dialPeer(tb, &websocket.Dialer{NetDialContext: network.dial}, "ws://pipe/ws")
}

func (p *peer) send(text string) {
	p.tb.Helper()
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		p.tb.Fatalf("sending %.80s: %v", text, err)
	}
}

func (p *peer) receive() string {
	p.tb.Helper()
	_, raw, err := p.conn.ReadMessage()
	if err != nil {
		p.tb.Fatalf("receiving: %v", err)
	}
	return string(raw)
}

// ask sends a message and returns its answer.
func (p *peer) ask(text string) string {
	p.tb.Helper()
	p.send(text)
	return p.receive()
}

// code asks and returns the code of the error that answers, or the type of the answer.
func (p *peer) code(text string) string {
	p.tb.Helper()
	return codeOf(p.tb, p.ask(text))
}

func codeOf(tb testing.TB, answer string) string {
	tb.Helper()
	var m struct {
		Type string
		Data struct{ Code string }
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		tb.Fatalf("%s: %v", answer, err)
	}
	if m.Data.Code != "" {
		return m.Data.Code
	}
	return m.Type
}

// closed reads to the end of the connection and returns the code and the reason of the close frame.
func (p *peer) closed() (int, string) {
	p.tb.Helper()
	for {
		_, raw, err := p.conn.ReadMessage()
		if err == nil {
			p.tb.Fatalf("unexpected message %s", raw)
		}
		if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
			return closed.Code, closed.Text
		}
		p.tb.Fatalf("no close frame: %v", err)
	}
}

func getBody(tb testing.TB, url string) (int, string) {
	tb.Helper()
	response, err := http.Get(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// eventually polls until the condition holds, for ten seconds at most.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			tb.Fatalf("still not true: %s", what)
		case <-tick.C:
		}
	}
}
