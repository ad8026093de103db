package rollout

import (
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/internal/testkit"
)

// poolKey signs the ledgers of all pods of a test's pool.
var poolKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func ticketKind(tb testing.TB, judge grader.Judge) episode.Kind {
	tb.Helper()
	kind, err := ticket.New(testkit.Catalog(tb), judge)
	if err != nil {
		tb.Fatal(err)
	}
	return kind
}

// serve starts a pod and returns its address.
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

// instantClock never waits: it stands still and has the middle of every chance.
func instantClock() Clock {
	return Clock{
		Now:    func() time.Time { return time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC) },
		Sleep:  func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Jitter: func() float64 { return 0.5 },
	}
}

// plan plans the first n scenarios of the kind's tasks.
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
	factory, err := policy.Builtin(name, "ticket", testkit.Catalog(tb))
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

// ledgerOf opens a summary's ledger.
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

// faulty wraps a kind: each session's environment asks trouble what to do before a reset or a step.
type faulty struct {
	episode.Kind
	trouble func(opts episode.Options, step int) error
}

func (f faulty) New() episode.Environment {
	return &faultyEnvironment{Environment: f.Kind.New(), faulty: f}
}

type faultyEnvironment struct {
	episode.Environment
	faulty faulty
	opts   episode.Options
	step   int
}

func (e *faultyEnvironment) Reset(opts episode.Options) (episode.Result, error) {
	e.opts, e.step = opts, 0
	if err := e.faulty.trouble(opts, 0); err != nil {
		return episode.Result{}, err
	}
	return e.Environment.Reset(opts)
}

func (e *faultyEnvironment) Step(ctx context.Context, action json.RawMessage) (episode.Result, error) {
	e.step++
	if err := e.faulty.trouble(e.opts, e.step); err != nil {
		return episode.Result{}, err
	}
	return e.Environment.Step(ctx, action)
}

// attempt is the number of the attempt that an episode id tells of.
func attempt(opts episode.Options) string {
	return opts.EpisodeID[strings.LastIndex(opts.EpisodeID, "-")+1:]
}

func TestErroredEpisodesAreRetried(t *testing.T) {
	kind := faulty{ticketKind(t, offline.New()), func(opts episode.Options, step int) error {
		switch {
		case step == 0 && attempt(opts) == "1", step == 2 && attempt(opts) == "2":
			return errors.New("a backend was lost")
		}
		return nil
	}}
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 4, 1, 1)
	p.Tasks = p.Tasks[1:2] // ticket-resolve, which takes three steps
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Scored != 4 || summary.Retried != 8 || len(summary.Errored) != 0 {
		t.Errorf("%d scored, %d retried, errored %v; want 4, 8, none", l.Scored, summary.Retried, summary.Errored)
	}
}

// flakyJudge fails twice at every reply before it judges it.
type flakyJudge struct {
	sound *offline.Judge
	mu    sync.Mutex
	calls map[string]int
}

func (f *flakyJudge) Name() string { return f.sound.Name() }

func (f *flakyJudge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[c.Reply]++
	if f.calls[c.Reply] < episode.MaxJudgeFailures {
		return grader.Verdict{Status: grader.StatusError}, errors.New("the judge is busy")
	}
	return f.sound.Judge(ctx, c)
}

// TestJudgeFailuresCostNoEpisode has every verdict fail twice: the action is sent again, the
// episode isn't played again.
func TestJudgeFailuresCostNoEpisode(t *testing.T) {
	kind := ticketKind(t, &flakyJudge{sound: offline.New(), calls: map[string]int{}})
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 4, 1, 1)
	p.Tasks = p.Tasks[1:2] // ticket-resolve
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Scored != 4 || l.Opened != 4 || summary.Retried != 0 || len(summary.Errored) != 0 {
		t.Errorf("%d opened, %d scored, %d retried, errored %v; want 4, 4, 0, none", l.Opened, l.Scored,
			summary.Retried, summary.Errored)
	}
}

// brokenJudge can't judge.
type brokenJudge struct{}

func (brokenJudge) Name() string { return "broken" }

func (brokenJudge) Judge(context.Context, grader.Case) (grader.Verdict, error) {
	return grader.Verdict{Status: grader.StatusError}, errors.New("the judge is away")
}

func TestErrorsAreReportedByClass(t *testing.T) {
	p := plan(t, ticketKind(t, brokenJudge{}), 6, 1, 1)
	p.Tasks = p.Tasks[:2] // of one ticket each
	resolve := map[string][]int64{}
	var indexes []int64
	for ep := range p.Shard(0) {
		if ep.Task == "ticket-resolve" {
			indexes = append(indexes, ep.Index)
		}
	}
	resolve[score.ClassJudgeFailed], resolve[score.ClassEnvironment], resolve[score.ClassPolicy], resolve[score.ClassTimeout] = indexes[:2], indexes[2:4], indexes[4:5], indexes[5:]
	is := func(class string, index int64) bool {
		return slices.Contains(resolve[class], index)
	}
	kind := faulty{ticketKind(t, brokenJudge{}), func(opts episode.Options, step int) error {
		for _, index := range resolve[score.ClassEnvironment] {
			if step == 1 && strings.HasPrefix(opts.EpisodeID, fmt.Sprintf("run-1-%d-", index)) {
				return errors.New("a backend is lost")
			}
		}
		return nil
	}}
	_, pod := serve(t, kind, 0)
	cfg := config(t, p, policy.Oracle, pod)
	oracle := cfg.Policy
	cfg.EpisodeTimeout = 500 * time.Millisecond
	cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
		agent, err := oracle(planned)
		switch {
		case is(score.ClassPolicy, planned.Index):
			return policyFunc(func(context.Context, policy.Turn) (json.RawMessage, error) {
				return json.RawMessage("{"),
					nil
			}), nil
		case is(score.ClassTimeout, planned.Index):
			return policyFunc(func(ctx context.Context, _ policy.Turn) (json.RawMessage, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}), nil
		}
		return agent, err
	}
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	want := map[string]string{}
	for class, indexes := range resolve {
		var set score.IndexSet
		for _, i := range indexes {
			set.Add(i)
		}
		want[class] = set.String()
	}
	got := map[string]string{}
	for _, c := range summary.Errored {
		got[c.Class] = c.Episodes.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errored (-want +got):\n%s", diff)
	}
	if l := ledgerOf(t, summary); l.Scored != 6 || summary.Retried != 12 {
		t.Errorf("%d scored, %d retried; want the 6 of ticket-classify, and 2 retries of each of the 6 others",
			l.Scored, summary.Retried)
	}
}

type policyFunc func(ctx context.Context, turn policy.Turn) (json.RawMessage, error)

func (f policyFunc) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	return f(ctx, turn)
}

func TestRefusedActionsAreTheAgentsFault(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	p := plan(t, kind, 1, 1, 1)
	cfg := config(t, p, policy.Null, pod)
	var refused atomic.Int64
	cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) {
		return policyFunc(func(_ context.Context, turn policy.Turn) (json.RawMessage, error) {
			if strings.Contains(turn.Refused, "action_type") {
				refused.Add(1)
			}
			return json.RawMessage(`{"action_type":"dance"}`), nil
		}), nil
	}
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Run() error = %v", err)
	}
	if l := ledgerOf(t, summary); l.Failed != 3 || refused.Load() != 3*(episode.MaxInvalidActions-1) {
		t.Errorf("%d failed, %d refusals told; want 3, %d", l.Failed, refused.Load(), 3*(episode.MaxInvalidActions-1))
	}
}

// counted counts the sessions that a kind is asked for.
type counted struct {
	episode.Kind
	sessions atomic.Int64
}

func (c *counted) New() episode.Environment {
	c.sessions.Add(1)
	return c.Kind.New()
}

// TestConcurrencyIsBounded wants all sessions in use, and no other opened: the agents of a full
// house wait for each other.
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
			cfg := config(t, p, policy.Null, pod)
			cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) {
				return policyFunc(func(context.Context, policy.Turn) (json.RawMessage, error) {
					acted = true
					return nil, errors.New("not to be asked")
				}), nil
			}
			_, err := Run(t.Context(), cfg)
			if !errors.Is(err, ErrPoolChanged) || !strings.Contains(err.Error(), what) {
				t.Errorf("Run() error = %v, want ErrPoolChanged that names the %s", err, what)
			}
			if acted {
				t.Error("the agent was asked before the pool was checked")
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
	if _, err := Run(t.Context(), config(t, p, policy.Null, pod)); !errors.Is(err, score.ErrSignature) {
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
	cfg := config(t, plan(t, ticketKind(t, offline.New()), 1, 1, 1), policy.Null)
	cfg.Shard, cfg.Concurrency, cfg.EpisodeAttempts, cfg.Plan.LedgerKey = 1, 0, 0, "?"
	_, err := Run(t.Context(), cfg)
	for _, want := range []string{"shard 1 is not within 0 and 0", "concurrency 0", "0 attempts", "ledger key"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run() error = %v, want %q in it", err, want)
		}
	}
}

func TestRendezvous(t *testing.T) {
	pods := []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000", "10.0.0.4:8000"}
	const shards = 400
	first := map[string]int{}
	moved := 0
	for shard := range shards {
		order := rendezvous("run", shard, pods)
		first[order[0]]++
		if diff := cmp.Diff(order, rendezvous("run", shard, []string{pods[2], pods[0], pods[3], pods[1]})); diff != "" {
			t.Fatalf("the order depends on the look-up's:\n%s", diff)
		}
		if fewer := rendezvous("run", shard, pods[:3]); order[0] != pods[3] && fewer[0] != order[0] {
			moved++
		}
	}
	for _, pod := range pods {
		if first[pod] < shards/8 || first[pod] > shards*3/8 {
			t.Errorf("pod %s is first for %d of %d shards", pod, first[pod], shards)
		}
	}
	if moved != 0 {
		t.Errorf("%d shards moved though their pod stayed", moved)
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

// TestPressureIsPassedOn plays a run under simulated time, in which the oracle is never late.
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
