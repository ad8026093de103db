package rollout

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
)

// poolKey signs the ledgers of all servers of a test's pool.
var poolKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func ticketKind(tb testing.TB, judge grader.Judge) episode.Kind {
	tb.Helper()
	kind, err := ticket.New(testkit.Catalog(tb), judge)
	if err != nil {
		tb.Fatal(err)
	}
	return kind
}

// serve starts a server and returns its address.
func serve(tb testing.TB, kind episode.Kind, maxSessions int) (*httptest.Server, string) {
	tb.Helper()
	server, err := openenv.New(openenv.Config{Kind: kind, MaxSessions: maxSessions, LedgerKey: poolKey,
		Logger: quiet()})
	if err != nil {
		tb.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	tb.Cleanup(func() {
		server.Close()
		front.Close()
	})
	return front, strings.TrimPrefix(front.URL, "http://")
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// instantClock never waits. Its time stands still, and its random numbers are one half.
func instantClock() Clock {
	return Clock{
		Now:    func() time.Time { return time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC) },
		Sleep:  func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Jitter: func() float64 { return 0.5 },
	}
}

// plan returns a plan of the first n scenarios of the kind's tasks.
func plan(tb testing.TB, kind episode.Kind, n, trials, shards int) score.Plan {
	tb.Helper()
	draft := score.Plan{
		Run: "run-1", Seed: 42, PassScore: 750_000, ScenarioDigest: kind.ScenarioDigest(),
		GraderVersion: kind.GraderVersion(), Judge: kind.Judge(),
		LedgerKey: score.FormatPublicKey(poolKey.Public().(ed25519.PublicKey)),
	}
	for _, t := range kind.Tasks() {
		task := score.PlanTask{Name: t.Name, Trials: trials}
		for _, s := range t.Scenarios[:n] {
			task.Scenarios = append(task.Scenarios, s.ID)
		}
		draft.Tasks = append(draft.Tasks, task)
	}
	p, err := score.NewPlan(draft, shards)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func builtin(tb testing.TB, name string) policy.Factory {
	tb.Helper()
	factory, err := policy.NewBuiltin(name, "ticket", testkit.Catalog(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return factory
}

func config(tb testing.TB, p score.Plan, name string, pods ...string) Config {
	tb.Helper()
	return Config{
		Plan: p, Environment: "ticket", Policy: builtin(tb, name),
		Pods:        func(context.Context) ([]string, error) { return pods, nil },
		Concurrency: 4, EpisodeAttempts: 3, Clock: instantClock(), Log: quiet(),
	}
}

// ledgerOf decodes a summary's ledger.
func ledgerOf(tb testing.TB, s score.Summary) *score.Ledger {
	tb.Helper()
	l, err := s.Ledger.Verify(poolKey.Public().(ed25519.PublicKey))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestShardsPlayThePlan(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, first := serve(t, kind, 0)
	_, second := serve(t, kind, 0)
	p := plan(t, kind, 5, 2, 3)
	var all score.Accumulator
	for shard := range p.Shards {
		cfg := config(t, p, policy.Oracle, first, second)
		cfg.Shard = shard
		summary, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatalf("Run(shard %d) error = %v", shard, err)
		}
		l := ledgerOf(t, summary)
		if l.Failed != 0 || l.Replayed != 0 || l.Opened != l.Scored || len(summary.Errored) != 0 ||
			summary.Retried != 0 {
			t.Errorf("shard %d: %d opened, %d scored, %d failed, %d replayed, errored %v, %d retried", shard, l.Opened,
				l.Scored, l.Failed, l.Replayed, summary.Errored, summary.Retried)
		}
		all.FoldSummary(l, summary)
	}
	figures := all.Figures()
	if got, want := figures.Episodes, p.Episodes(); got != want {
		t.Errorf("%d episodes were played, want %d", got, want)
	}
}

func TestSummaryFitsATerminationMessage(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, len(kind.Tasks()[0].Scenarios), 8, 1)
	summary, err := Run(t.Context(), config(t, p, policy.Random, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	message, err := summary.Encode()
	if err != nil || len(message) > score.MaxSummaryBytes {
		t.Fatalf("Encode() = %d bytes, %v", len(message), err)
	}
	t.Logf("%d episodes make a summary of %d bytes", p.Episodes(), len(message))
	if _, err := score.DecodeSummary(message); err != nil {
		t.Errorf("DecodeSummary() error = %v", err)
	}
}

// counted counts the sessions of a kind.
type counted struct {
	episode.Kind
	sessions atomic.Int64
}

func (c *counted) New() episode.Environment {
	c.sessions.Add(1)
	return c.Kind.New()
}

// TestConcurrencyIsBounded checks that all sessions are in use, and no more are opened: the agents
// wait for each other.
func TestConcurrencyIsBounded(t *testing.T) {
	const concurrency = 6
	kind := &counted{Kind: ticketKind(t, offline.New())}
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 6, 2, 1)
	cfg := config(t, p, policy.Oracle, pod)
	cfg.Concurrency = concurrency
	var acting atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	oracle := cfg.Policy
	cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
		agent, err := oracle(planned)
		return policyFunc(func(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
			n := acting.Add(1)
			defer acting.Add(-1)
			if n == concurrency {
				once.Do(func() { close(full) })
			}
			select {
			case <-full:
			case <-time.After(10 * time.Second):
				return nil, errors.New("the other agents didn't come")
			}
			return agent.Act(ctx, turn)
		}), err
	}
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if got := kind.sessions.Load(); got != concurrency {
		t.Errorf("%d sessions were opened, want %d", got, concurrency)
	}
}

func TestFewerSessionsThanWanted(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 2)
	p := plan(t, kind, 4, 2, 1)
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Scored != p.Episodes() {
		t.Errorf("%d scored, want %d", l.Scored, p.Episodes())
	}
}

func TestChangedPoolIsRefused(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	changes := map[string]func(*score.Plan){
		"scenario digest": func(p *score.Plan) { p.ScenarioDigest = "sha256:0" },
		"grader version":  func(p *score.Plan) { p.GraderVersion = "v0" },
		"judge":           func(p *score.Plan) { p.Judge = "oracle-of-delphi" },
	}
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			p := plan(t, kind, 2, 1, 1)
			p.Run = what
			change(&p)
			acted := false
			cfg := config(t, p, policy.Noop, pod)
			cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) {
				return policyFunc(func(context.Context, policy.Turn) (json.RawMessage, error) {
					acted = true
					return nil, errors.New("must not be called")
				}), nil
			}
			_, err := Run(t.Context(), cfg)
			if !errors.Is(err, ErrPoolChanged) || !strings.Contains(err.Error(), what) {
				t.Errorf("Run() error = %v, want ErrPoolChanged with the %s", err, what)
			}
			if acted {
				t.Error("the agent was called before the pool was checked")
			}
		})
	}
}

func TestForeignKeyIsRefused(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 1, 1, 1)
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", ed25519.SeedSize)))
	p.LedgerKey = score.FormatPublicKey(other.Public().(ed25519.PublicKey))
	if _, err := Run(t.Context(), config(t, p, policy.Noop, pod)); !errors.Is(err, score.ErrSignature) {
		t.Errorf("Run() error = %v, want ErrSignature", err)
	}
}

func TestCancelledRunEnds(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := config(t, plan(t, kind, 6, 4, 1), policy.Oracle, pod)
	cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) {
		return policyFunc(func(ctx context.Context, _ policy.Turn) (json.RawMessage, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}), nil
	}
	if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() error = %v, want context.Canceled", err)
	}
}

func TestInvalidConfig(t *testing.T) {
	cfg := config(t, plan(t, ticketKind(t, offline.New()), 1, 1, 1), policy.Noop)
	cfg.Shard, cfg.Concurrency, cfg.EpisodeAttempts, cfg.Plan.LedgerKey = 1, 0, 0, "?"
	_, err := Run(t.Context(), cfg)
	for _, want := range []string{"shard 1 is not within 0 and 0", "concurrency 0", "0 attempts", "ledger key"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run() error = %v, want it to contain %q", err, want)
		}
	}
}

func TestRendezvous(t *testing.T) {
	pods := []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000", "10.0.0.4:8000"}
	const shards = 400
	first := map[string]int{}
	moved := 0
	for shard := range shards {
		order := rankPods("run", shard, pods)
		first[order[0]]++
		if diff := cmp.Diff(order, rankPods("run", shard, []string{pods[2], pods[0], pods[3], pods[1]})); diff != "" {
			t.Fatalf("the order depends on that of the look-up:\n%s", diff)
		}
		if fewer := rankPods("run", shard, pods[:3]); order[0] != pods[3] && fewer[0] != order[0] {
			moved++
		}
	}
	for _, pod := range pods {
		if first[pod] < shards/8 || first[pod] > shards*3/8 {
			t.Errorf("pod %s is first for %d of %d shards", pod, first[pod], shards)
		}
	}
	if moved != 0 {
		t.Errorf("%d shards moved although their server remains", moved)
	}
}

func TestBackOff(t *testing.T) {
	var slept []time.Duration
	c := Clock{Jitter: func() float64 { return 0.5 }, Sleep: func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	}}
	for n := range 7 {
		if err := c.backOff(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
		4 * time.Second, 4 * time.Second, 4 * time.Second}
	if diff := cmp.Diff(want, slept); diff != "" {
		t.Errorf("slept (-want +got):\n%s", diff)
	}
}

// TestPressureIsPassedOn plays a run under simulated time. The oracle always replies in time.
func TestPressureIsPassedOn(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 2, 1, 1)
	p.Pressure = true
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	for _, task := range ledgerOf(t, summary).Tasks {
		timely := slices.ContainsFunc(task.Dimensions,
			func(d score.Dimension) bool { return d.Name == "timeliness" && d.Offered > 0 })
		if want := task.Name != "ticket-classify"; timely != want {
			t.Errorf("%s reports timeliness: %v, want %v", task.Name, timely, want)
		}
	}
}
