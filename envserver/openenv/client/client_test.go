package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/server"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func dialTest(tb testing.TB, url string) *client.Client {
	tb.Helper()
	c, err := client.Dial(tb.Context(), url, client.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func TestClient(t *testing.T) {
	s := server.Start(t, openenv.Config{})
	c := dialTest(t, s.URL)
	got, err := c.Reset(t.Context(), map[string]any{"seed": 5, "episode_id": "E"})
	want := client.Observation{Observation: json.RawMessage(`{"text":"hello","seed":5}`), HasReward: true}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("reset: %v %s", err, cmp.Diff(want, got))
	}
	got, err = c.Step(t.Context(), echo.Action{Kind: "say", Text: "x", Reward: -20})
	want = client.Observation{Observation: json.RawMessage(`{"text":"x","seed":5}`), Reward: -0.02, HasReward: true}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("step: %v %s", err, cmp.Diff(want, got))
	}
	state, err := c.State(t.Context())
	if err != nil || wire.DecodePath(t, string(state), "episode_id") != "E" {
		t.Errorf("state: %v %s", err, state)
	}
	got, err = c.Step(t.Context(), echo.Action{Kind: "finish", Score: 850_000})
	episodeScore := 0.85
	metadata := client.Metadata{
		EpisodeScore: &episodeScore, ScoreBreakdown: []client.Points{{Name: "talk", Earned: 0.85, Offered: 1}},
		Right: new(true), Outcome: score.Scored,
		Judge: "rules", ScenarioDigest: "sha256:00ff", GraderVersion: "echo.1",
	}
	if err != nil || !got.Done || cmp.Diff(metadata, got.Metadata) != "" {
		t.Errorf("last step: %v %s", err, cmp.Diff(metadata, got.Metadata))
	}
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Errorf("reset without options: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	if got := s.Active(); got != 0 {
		t.Errorf("%d sessions after Close returned", got)
	}
	if _, err := c.State(t.Context()); err == nil {
		t.Error("a closed client still answers")
	}
}

func TestClientErrors(t *testing.T) {
	s := server.Start(t, openenv.Config{MaxSessions: 1})
	c := dialTest(t, s.URL)
	_, err := c.Step(t.Context(), echo.Action{Kind: "zzz"})
	var refused *client.ServerError
	if !errors.As(err, &refused) || refused.Code != "VALIDATION_ERROR" ||
		!strings.Contains(err.Error(), "VALIDATION_ERROR") {
		t.Errorf("an invalid action: %v", err)
	}
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Errorf("the session after an error: %v", err)
	}
	late := dialTest(t, s.URL)
	if _, err := late.Reset(t.Context(), nil); !errors.As(err, &refused) || refused.Code != "CAPACITY_REACHED" {
		t.Errorf("a session beyond the capacity: %v", err)
	}
	if _, err := late.State(t.Context()); err == nil || errors.As(err, new(*client.ServerError)) {
		t.Errorf("use of a refused session: %v", err)
	}
}

// A refused client reads the reason, even if it sends its first message late.
func TestClientReadsALateRefusal(t *testing.T) {
	s := server.Start(t, openenv.Config{MaxSessions: 1})
	dialTest(t, s.URL)
	wire.AwaitCondition(t, "one session", func() bool { return s.Active() == 1 })
	late := dialTest(t, s.URL)
	wire.AwaitCondition(t, "the refusal has arrived", func() bool { return late.Answered() })
	_ = late.NetConn().SetWriteDeadline(time.Unix(1, 0)) // as if the server had closed already
	var refused *client.ServerError
	if _, err := late.Reset(t.Context(), nil); !errors.As(err, &refused) || refused.Code != "CAPACITY_REACHED" {
		t.Errorf("got %v", err)
	}
}

func TestClientContext(t *testing.T) {
	s := server.Start(t, openenv.Config{})
	c := dialTest(t, s.URL)
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Step(ctx, echo.Action{Kind: "wait", Wait: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a step after its deadline: %v", err)
	}
	if _, err := c.State(t.Context()); err == nil {
		t.Error("after a lost answer the session must end: the next answer would be the wrong one")
	}
}

// An agent that thinks for half an hour still answers the server's pings.
func TestClientAnswersPingsWhileTheAgentThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, network, stop := server.StartPipe(t, openenv.Config{})
		defer stop()
		defer network.Close()
		c := client.New(wire.ConnectPipe(t, network).Conn, protocol.MaxSilence)
		if _, err := c.Reset(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Minute)
		if _, err := c.Step(t.Context(), echo.Action{Kind: "say"}); err != nil {
			t.Errorf("after half an hour: %v", err)
		}
		if err := c.Close(); err != nil || s.Active() != 0 {
			t.Errorf("closed with %v, %d sessions", err, s.Active())
		}
	})
}

// A lost host sends neither answers nor pings, and no close frame.
func TestClientOfASilentServer(t *testing.T) {
	upgrader := websocket.Upgrader{}
	over := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer conn.Close()
			<-over
		}
	}))
	defer h.Close()
	defer close(over)
	c, err := client.Dial(t.Context(), h.URL, client.Options{Silence: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reset(t.Context(), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reset: %v", err)
	}
}

func TestClientOfABadServer(t *testing.T) {
	for name, answers := range map[string][]string{
		"not JSON":         {`{`},
		"the wrong type":   {`{"type":"state","data":{}}`},
		"a bad reward":     {`{"type":"observation","data":{"observation":{},"reward":"x","done":false}}`},
		"too many answers": {`{"type":"error","data":[]}`, `{}`, `{}`},
		"silence":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			upgrader := websocket.Upgrader{}
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := upgrader.Upgrade(w, r, nil)
				if err != nil {
					return
				}
				defer conn.Close()
				_, _, _ = conn.ReadMessage()
				for _, answer := range answers {
					_ = conn.WriteMessage(websocket.TextMessage, []byte(answer))
				}
			}))
			defer h.Close()
			c := dialTest(t, h.URL)
			if got, err := c.Reset(t.Context(), nil); err == nil || errors.As(err, new(*client.ServerError)) {
				t.Errorf("reset returned %+v, %v", got, err)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for base, want := range map[string]string{
		"host:8000":            "ws://host:8000/ws",
		"http://host:8000":     "ws://host:8000/ws",
		"http://host:8000/":    "ws://host:8000/ws",
		"ws://host":            "ws://host/ws",
		"https://host/envs/a/": "wss://host/envs/a/ws",
		"wss://host/envs/a":    "wss://host/envs/a/ws",
		"[::1]:8000":           "ws://[::1]:8000/ws",
		"ftp://host":           "",
		"http://":              "",
		"http://a b":           "",
		"":                     "",
	} {
		got, err := client.Endpoint(base, "ws", "/ws")
		if (want == "") != (err != nil) || (err == nil && got.String() != want) {
			t.Errorf("%q: %v, %v; want %q", base, got, err, want)
		}
	}
}

// The author of a run sets its runner's variables, and must not read the credential behind a proxy.
func TestCredentialsPassNoProxy(t *testing.T) {
	behind, err := url.Parse("http://proxy.example:3128")
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodGet, "http://10.0.0.1:8000/ws", nil)
	if got, err := client.ProxyOf(request, behind); err != nil || got != behind {
		t.Errorf("without a credential: %v, %v", got, err)
	}
	request.Header.Set(protocol.CredentialHeader, "secret")
	if got, err := client.ProxyOf(request, behind); err != nil || got != nil {
		t.Errorf("with a credential: %v, %v", got, err)
	}
}

func TestDialErrorsNameTheServer(t *testing.T) {
	h := httptest.NewServer(http.NotFoundHandler())
	defer h.Close()
	if _, err := client.Dial(t.Context(), h.URL, client.Options{}); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("a server without /ws: %v", err)
	}
	if _, err := client.Dial(t.Context(), "127.0.0.1:1", client.Options{}); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("no server: %v", err)
	}
}

// A client of a protected server needs its token for every request. The error explains that.
func TestClientToken(t *testing.T) {
	s := server.Start(t, openenv.Config{Tokens: func() []string { return []string{"secret"} }})
	for token, want := range map[string]int{"": 401, "guess": 401, "secret": 0} {
		o := client.Options{Token: token}
		c, dialErr := client.Dial(t.Context(), s.URL, o)
		_, schemaErr := client.FetchSchema(t.Context(), s.URL, "", o)
		for what, err := range map[string]error{"dial": dialErr, "schema": schemaErr} {
			refused, ok := errors.AsType[*client.StatusError](err)
			if want == 0 && err != nil || want != 0 &&
				(!ok || refused.Status != want || !strings.Contains(err.Error(), "token")) {
				t.Errorf("%s with the token %q: %v", what, token, err)
			}
		}
		if c == nil {
			continue
		}
		if _, err := c.Reset(t.Context(), map[string]any{"run": "uid", "shard": 0, "episode": 0}); err != nil {
			t.Error(err)
		}
		if _, err := client.FetchLedger(t.Context(), s.URL, "uid", 0, o); err != nil {
			t.Error(err)
		}
		if _, err := client.FetchLedger(t.Context(), s.URL, "uid", 0, client.Options{}); err == nil {
			t.Error("no error for a ledger without a token")
		}
		_ = c.Close()
	}
}

func TestClientAttaches(t *testing.T) {
	s := server.Start(t, openenv.Config{})
	id := wire.CreateSession(t, s.URL)
	c, err := client.Dial(t.Context(), s.URL, client.Options{SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	if _, answer := wire.PostBody(t, s.URL+"/step",
		`{"session_id":"`+id+`","action":{"kind":"say","text":"x"}}`); !strings.Contains(answer, `"x"`) {
		t.Errorf("the session after its connection: %s", answer)
	}
}

func TestFittingReceipts(t *testing.T) {
	texts := make([]string, 2*protocol.MaxReceipts)
	for i := range texts {
		texts[i] = "x"
	}
	long := []string{strings.Repeat("x", protocol.MaxBody*6/10), strings.Repeat("x", protocol.MaxBody*6/10)}
	for want, list := range map[int][]string{0: nil, protocol.MaxReceipts: texts, 1: long} {
		if got := client.Fitting(list); got != want {
			t.Errorf("%d of %d fit, want %d", got, len(list), want)
		}
	}
}
