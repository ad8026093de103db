package load

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/server"
)

func serve(t *testing.T, maxSessions int) *server.Server {
	t.Helper()
	catalog := testkit.Catalog(t)
	kind, err := ticket.New(catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return server.Start(t, openenv.Config{Kind: kind, MaxSessions: maxSessions})
}

func searches(url string, sessions int) Config {
	return Config{
		URL: url, Sessions: sessions, Duration: 200 * time.Millisecond,
		Reset: json.RawMessage(`{"seed":7,"task":"ticket-resolve"}`),
		Actions: []json.RawMessage{json.RawMessage(`{"action_type":"search_knowledge_base","query":"refund"}`),
			json.RawMessage(`{"action_type":"resolve","message":"Hello"}`)},
	}
}

func TestRunMeasures(t *testing.T) {
	front := serve(t, 20)
	got, err := Run(t.Context(), searches(front.URL, 20))
	if err != nil {
		t.Fatal(err)
	}
	if got.Sessions != 20 || got.Steps < 20 || len(got.Failures) != 0 {
		t.Errorf("%d sessions, %d steps, failures %v: want 20 sessions with steps", got.Sessions, got.Steps,
			got.Failures)
	}
	if got.Elapsed < 200*time.Millisecond || got.StepsPerSecond() <= 0 {
		t.Errorf("%v steps/s in %v", got.StepsPerSecond(), got.Elapsed)
	}
	for name, l := range map[string]Latencies{"step": got.Step, "connect": got.Connect} {
		if l.P50 <= 0 || l.P99 < l.P50 || l.Max < l.P99 {
			t.Errorf("%s latencies %+v are not ascending", name, l)
		}
	}
}

// When Run returns, the slots are free again.
func TestRunLeavesNothing(t *testing.T) {
	front := serve(t, 5)
	for range 3 {
		if got, err := Run(t.Context(), searches(front.URL, 5)); err != nil || len(got.Failures) != 0 {
			t.Errorf("%v %v", got.Failures, err)
		}
	}
}

func TestRunCountsFailures(t *testing.T) {
	front := serve(t, 3)
	got, err := Run(t.Context(), searches(front.URL, 5))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for cause, n := range got.Failures {
		if strings.HasPrefix(cause, "answered CAPACITY_REACHED") {
			refused += n
		}
	}
	if got.Sessions != 3 || refused != 2 {
		t.Errorf("%d sessions, failures %v, want 3 and 2 refused for capacity", got.Sessions, got.Failures)
	}
}

func TestRunCountsSessionsThatBreakOff(t *testing.T) {
	front := serve(t, 10)
	cfg := searches(front.URL, 10)
	cfg.Duration = 2 * time.Second
	var closing atomic.Bool
	cfg.Progress = func(p Progress) {
		if p.Phase == "step" && !closing.Swap(true) {
			go front.Close()
		}
	}
	got, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, n := range got.Failures {
		lost += n
	}
	if got.Sessions != 10 || lost != 10 {
		t.Errorf("%d sessions, failures %v, want 10 that all broke off", got.Sessions, got.Failures)
	}
}

func TestRunErrors(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no server":   {func(c *Config) { c.URL = gone.URL }, "no session opened"},
		"no OpenEnv":  {func(c *Config) { c.URL = notFound.URL }, "handshake refused with 404"},
		"no sessions": {func(c *Config) { c.Sessions = 0 }, "at least one session"},
		"no actions":  {func(c *Config) { c.Actions = nil }, "one action"},
		"a bad action": {func(c *Config) { c.Actions = []json.RawMessage{json.RawMessage("{")} },
			"encoding a step message"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := searches(gone.URL, 2)
			c.change(&cfg)
			if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	front := serve(t, 5)
	cfg := searches(front.URL, 5)
	cfg.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Progress = func(p Progress) {
		if p.Steps > 0 {
			cancel()
		}
	}
	if got, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) || got.Steps == 0 {
		t.Errorf("%d steps, error %v", got.Steps, err)
	}
}

// echoing answers every message, including close messages, and never closes the connection.
func echoing(t *testing.T, silentOnClose bool) string {
	t.Helper()
	up := websocket.Upgrader{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if silentOnClose && strings.Contains(string(message), "close") {
				continue
			}
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"observation","data":{}}`))
		}
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// A server that ignores close messages doesn't delay the end of a load.
func TestRunEndsIfTheServerIgnoresClose(t *testing.T) {
	cfg := searches(echoing(t, false), 500)
	if got, err := Run(t.Context(), cfg); err != nil || len(got.Failures) != 0 {
		t.Fatalf("%v %v", got.Failures, err)
	}
	cfg.URL, cfg.Duration = echoing(t, true), time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Run(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled load: %v", err)
	}
	if took := time.Since(began); took > closeTimeout {
		t.Errorf("cancelling took %v", took)
	}
}

func TestEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		"http://h:8000": "ws://h:8000/ws", "https://h/envs/a/": "wss://h/envs/a/ws", "ws://h": "ws://h/ws",
		"h:8000": "ws://h:8000/ws",
	} {
		if diff := cmp.Diff(want, buildSocketURL(url)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", url, diff)
		}
	}
}
