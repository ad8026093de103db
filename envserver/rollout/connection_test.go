package rollout

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/policy"
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

// serveOn starts a pod on a line that trouble can cut after some steps.
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
		"none": {func(context.Context) ([]string, error) { return nil, nil }, "the pool has no pods"},
		"no name": {func(context.Context) ([]string, error) { return nil, errors.New("no such host") },
			"looking the pool's pods up: no such host"},
		"unreachable": {func(context.Context) ([]string, error) { return []string{"127.0.0.1:1"}, nil },
			"env pod 127.0.0.1:1: dialling"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, p, policy.Null)
			looked := 0
			cfg.Pods = func(ctx context.Context) ([]string, error) {
				looked++
				return tc.pods(ctx)
			}
			_, err := Run(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run() error = %v, want %q", err, tc.want)
			}
			if looked != unreachableRounds {
				t.Errorf("the pods were looked up %d times, want %d", looked, unreachableRounds)
			}
		})
	}
}
