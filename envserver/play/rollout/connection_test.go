package rollout

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
)

// line is a listener whose connections can be cut.
type line struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *line) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	return conn, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// serveOn starts a server on a listener that trouble can cut after some steps.
func serveOn(t *testing.T, steps int64, trouble func(*line)) (episode.Kind, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener}
	var n atomic.Int64
	kind := faulty{ticketKind(t, offline.New()), func(episode.Options, int) error {
		if n.Add(1) == steps {
			trouble(l)
		}
		return nil
	}}
	server, err := openenv.New(openenv.Config{Kind: kind, LedgerKey: poolKey, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	front := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = front.Serve(l) })
	t.Cleanup(func() {
		server.Close()
		_ = front.Close()
		serving.Wait()
	})
	return kind, listener.Addr().String()
}

func TestLostPod(t *testing.T) {
	kind, pod := serveOn(t, 20, func(l *line) {
		_ = l.Close()
		l.cut()
	})
	_, err := Run(t.Context(), config(t, plan(t, kind, 6, 2, 1), policy.Oracle, pod))
	if want := "env pod " + pod + " was lost after "; err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "of 36 episodes") {
		t.Errorf("Run() error = %v, want %q", err, want)
	}
}

func TestCutConnectionsAreDialledAgain(t *testing.T) {
	kind, pod := serveOn(t, 20, (*line).cut)
	p := plan(t, kind, 6, 2, 1)
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Scored != p.Episodes() || summary.Retried == 0 || summary.Retried > 4 ||
		len(summary.Errored) != 0 {
		t.Errorf("%d of %d scored, %d retried, errored %v; want all, and a retry for each cut session", l.Scored,
			p.Episodes(), summary.Retried, summary.Errored)
	}
}

func TestNextPodWhenOneRefuses(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, roomy := serve(t, kind, 0)
	front, fullPod := serve(t, kind, 1)
	squatter, err := client.Dial(t.Context(), front.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	if _, err := squatter.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := plan(t, kind, 6, 1, 6)
	for shard := range p.Shards {
		cfg := config(t, p, policy.Oracle, "127.0.0.1:1", fullPod, roomy)
		cfg.Shard = shard
		if _, err := Run(t.Context(), cfg); err != nil {
			t.Errorf("Run(shard %d) error = %v", shard, err)
		}
	}
}

func TestNoPod(t *testing.T) {
	p := plan(t, ticketKind(t, offline.New()), 1, 1, 1)
	tests := map[string]struct {
		pods func(context.Context) ([]string, error)
		want string
	}{
		"no name service": {func(context.Context) ([]string, error) { return nil, errors.New("timeout") },
			"looking the pool's pods up: timeout"},
		"unreachable": {func(context.Context) ([]string, error) { return []string{"127.0.0.1:1"}, nil },
			"env pod 127.0.0.1:1: dialling"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, p, policy.Noop)
			cfg.Clock = sleepingClock()
			cfg.Pods = tc.pods
			began := cfg.Clock.Now()
			_, err := Run(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run() error = %v, want %q", err, tc.want)
			}
			took := cfg.Clock.Now().Sub(began)
			if took < unreachablePatience || took > unreachablePatience+maxPodBackoff {
				t.Errorf("the runner gave up after %v, want %v", took, unreachablePatience)
			}
		})
	}
}

// sleepingClock is a clock in which only sleeping takes time.
func sleepingClock() Clock {
	c := instantClock()
	var mu sync.Mutex
	now := c.Now()
	c.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	c.Sleep = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
		return ctx.Err()
	}
	return c
}

// A pool that is full or has no servers is waited for, for hours if need be.
func TestFullPoolIsWaitedFor(t *testing.T) {
	kind := ticketKind(t, offline.New())
	front, pod := serve(t, kind, 1)
	squatter, err := client.Dial(t.Context(), front.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := squatter.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(waited time.Duration) ([]string, error){
		"full": func(waited time.Duration) ([]string, error) {
			if waited > 3*time.Hour {
				squatter.Close()
			}
			return []string{pod}, nil
		},
		"no servers": func(waited time.Duration) ([]string, error) {
			if waited < 3*time.Hour {
				return nil, nil
			}
			return []string{pod}, nil
		},
		"no name": func(waited time.Duration) ([]string, error) {
			if waited < 3*time.Hour {
				return nil, &net.DNSError{IsNotFound: true}
			}
			return []string{pod}, nil
		},
	}
	for _, name := range []string{"full", "no servers", "no name"} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, plan(t, kind, 1, 1, 1), policy.Oracle)
			cfg.Clock, cfg.Concurrency = sleepingClock(), 1
			began := cfg.Clock.Now()
			cfg.Pods = func(context.Context) ([]string, error) { return tests[name](cfg.Clock.Now().Sub(began)) }
			var log bytes.Buffer
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			if _, err := Run(t.Context(), cfg); err != nil {
				t.Error(err)
			}
			if waited := cfg.Clock.Now().Sub(began); waited < 3*time.Hour {
				t.Errorf("waited %v", waited)
			}
			if n := strings.Count(log.String(), "Waiting for a server of the pool"); n < 100 || n > 181 {
				t.Errorf("%d lines say so in three hours", n)
			}
		})
	}
}
