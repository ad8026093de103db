package openenv

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

const (
	// deadPeerAfter is how long a peer may send nothing at all, not even a pong. It is minutes
	// because a trainer's event loop stands still while its model generates; a host that is gone is
	// found out sooner, by TCP's own keepalive.
	deadPeerAfter = 10 * time.Minute
	// refusalHold is how long a refused connection stays open for the client to send its first
	// message, whose answer the refusal is. A client that meets a closed socket instead never
	// learns why.
	refusalHold = 5 * time.Second
	// closeWait bounds the closing handshake and the writing of a control frame.
	closeWait = 5 * time.Second
	// writeWait bounds the writing of a reply to a client that doesn't read.
	writeWait = 2 * time.Minute
	// sweepInterval is the resolution of every timeout of a session.
	sweepInterval = time.Second
	// ledgerGrace is how long a drained server waits for the runners to fetch the ledgers of the
	// sessions that ended last.
	ledgerGrace = 15 * time.Second
	// rolloutGrace is how long it waits for the operator to collect their rollouts. The operator
	// may be starting anew itself.
	rolloutGrace = time.Minute
	// handOverGrace is how long it waits for that when it is closed: what is left of the time to
	// exit of a drain that was cut short.
	handOverGrace = 10 * time.Second
	// maxRefusals bounds the refused connections that are held open.
	maxRefusals = 1024
	// maxStateless bounds the plain HTTP requests, each with an environment of its own, that are
	// answered at a time. They are for trying things out, beside the sessions.
	maxStateless = 64
)

// Config says what a server serves. Kind and LedgerKey are required.
type Config struct {
	Kind episode.Kind
	// MaxSessions is the number of sessions at a time, 0 for DefaultMaxSessions.
	MaxSessions int
	// IdleTimeout ends a session that has neither reset nor stepped for so long, 0 for never.
	IdleTimeout time.Duration
	// MaxDuration ends a session this long after it began, 0 for never.
	MaxDuration time.Duration
	// CapacityWait is how long a session waits for a slot before it is refused, 0 for not at all.
	CapacityWait time.Duration
	// SessionGrace keeps the session of a socket that was lost, so that another one can attach to
	// it, 0 for not at all.
	SessionGrace time.Duration
	// MaxClientSessions is the number of sessions at a time for one client, told by its address and
	// token, 0 for any number.
	MaxClientSessions int
	// MessageRate is the number of messages per second that a session answers at most; more wait. 0
	// means as many as come.
	MessageRate float64
	// Mode is "" for Simulation.
	Mode Mode
	// Tokens, if not nil, returns the bearer tokens of which every request but GET /health must
	// carry one.
	Tokens func() []string
	// Peers, if not nil, are the other servers of the pool, among which every session can be
	// reached through each of them.
	Peers *Peers
	// RewardMode is for episodes whose reset doesn't name one, "" for dense.
	RewardMode episode.RewardMode
	// Packs, if not nil, says what a server started now would play.
	Packs func() score.Packs
	// LedgerKey signs ledgers.
	LedgerKey ed25519.PrivateKey
	// Pod is the name of the pod that the server runs in, which segments of rollouts carry.
	Pod string
	// Version is the server's own, for /metadata.
	Version string
	// Collectors are served at /metrics with the server's own.
	Collectors []prometheus.Collector
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// Mode says what agents may reach.
type Mode string

const (
	// Simulation serves the tools of agents and the operations of the orchestrator.
	Simulation Mode = "simulation"
	// Production serves the tools alone: there is no reset, no step and no state, neither as a
	// route nor as a message.
	Production Mode = "production"
)

// DefaultMaxSessions is a multiple of any trainer's batch and takes well under a gigabyte.
const DefaultMaxSessions = 2000

// Server serves one environment to many sessions.
type Server struct {
	kind          episode.Kind
	mode          Mode
	idleTimeout   time.Duration
	maxDuration   time.Duration
	sessionGrace  time.Duration
	messageRate   float64
	tokens        func() []string
	packs         func() score.Packs
	sessionPrefix string
	peers         *peers
	rewardMode    episode.RewardMode
	key           ed25519.PrivateKey
	log           *slog.Logger
	scenarios     map[string]score.Scenario
	docs          documents
	tools         *toolset
	mcp           *mcpServer
	taskAPI       taskAPI
	upgrader      websocket.Upgrader
	sessions      *registry
	ledgers       *ledgers
	rollouts      *rollouts
	metrics       *metrics
	refusals      *semaphore.Weighted
	stateless     *semaphore.Weighted
	bulk          *semaphore.Weighted
	ctx           context.Context
	stop          context.CancelFunc
	buffers       buffers
	running       sync.WaitGroup

	closing sync.Mutex
	closed  bool
}

// New makes a server. It accepts sessions as soon as its Handler is served; Close ends it.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Mode = cmp.Or(cfg.Mode, Simulation)
	docs, err := newDocuments(cfg.Kind, cfg.Version, cfg.Mode)
	if err != nil {
		return nil, err
	}
	tools, err := newToolset(cfg.Kind)
	if err != nil {
		return nil, err
	}
	s := &Server{
		kind: cfg.Kind, mode: cfg.Mode, idleTimeout: cfg.IdleTimeout, maxDuration: cfg.MaxDuration,
		sessionGrace: cfg.SessionGrace,
		messageRate:  cfg.MessageRate, tokens: cfg.Tokens, packs: cfg.Packs,
		rewardMode: cmp.Or(cfg.RewardMode, episode.Dense), key: cfg.LedgerKey, log: cmp.Or(cfg.Logger, slog.Default()),
		scenarios: map[string]score.Scenario{}, docs: docs, tools: tools, taskAPI: newTaskAPI(cfg.Kind),
		upgrader: newUpgrader(),
		sessions: newRegistry(cmp.Or(cfg.MaxSessions, DefaultMaxSessions), cfg.CapacityWait, cfg.MaxClientSessions),
		refusals: semaphore.NewWeighted(maxRefusals), stateless: semaphore.NewWeighted(maxStateless),
		bulk: semaphore.NewWeighted(bulkBudget),
	}
	if s.peers, err = newPeers(cfg.Peers, cfg.LedgerKey, s.log); err != nil {
		return nil, err
	}
	if s.peers != nil {
		s.sessionPrefix = s.peers.token + "."
	}
	s.mcp = newMCPServer(s, cfg.Version)
	for _, task := range cfg.Kind.Tasks() {
		for _, scenario := range task.Scenarios {
			s.scenarios[scenario.ID] = scenario
		}
	}
	s.ledgers, s.rollouts = newLedgers(cfg.Kind), newRollouts(cfg.Kind, cfg.Pod, cfg.LedgerKey, s.log)
	s.metrics = newMetrics(s, cfg.Collectors...)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.spawn(s.sweep)
	return s, nil
}

func (cfg *Config) validate() error {
	switch {
	case cfg.Kind == nil || len(cfg.LedgerKey) != ed25519.PrivateKeySize:
		return errors.New("an OpenEnv server needs a Kind and an Ed25519 LedgerKey")
	case cfg.MaxSessions < 0 || cfg.MaxClientSessions < 0:
		return fmt.Errorf("MaxSessions %d and MaxClientSessions %d must not be negative", cfg.MaxSessions,
			cfg.MaxClientSessions)
	case cfg.Mode != "" && cfg.Mode != Simulation && cfg.Mode != Production:
		return fmt.Errorf("the mode is %q: it is %s or %s", cfg.Mode, Simulation, Production)
	}
	return cfg.Peers.validate()
}

// newUpgrader shares write buffers between sessions: an idle session needs none. There is no check
// of the origin, as in the official server, and no compression: it would make 400 bytes of an
// observation of 1,150, and three times the work of a step (hack/bench).
func newUpgrader() websocket.Upgrader {
	return websocket.Upgrader{
		ReadBufferSize: 1024, WriteBufferSize: 4096, WriteBufferPool: &sync.Pool{},
		CheckOrigin: func(*http.Request) bool { return true },
	}
}

// Drain refuses new sessions and waits until the running ones have ended, and until their ledgers
// have been fetched and their rollouts collected or the time for that is over; or until the context
// ends, whose error it then returns.
func (s *Server) Drain(ctx context.Context) error {
	empty := s.sessions.drain()
	select {
	case <-empty:
		if err := s.peers.settle(ctx); err != nil {
			return err
		}
		over := time.Now()
		for _, last := range []struct {
			settle func(context.Context)
			grace  time.Duration
		}{{s.ledgers.settle, ledgerGrace}, {s.rollouts.settle, rolloutGrace}} {
			grace, cancel := context.WithDeadline(ctx, over.Add(last.grace))
			last.settle(grace)
			cancel()
		}
		return ctx.Err()
	case <-ctx.Done():
		return fmt.Errorf("waiting for %d sessions to end: %w", s.sessions.active(), ctx.Err())
	}
}

// Close ends every session with the close code 1001 and waits for the sockets to close, a few
// seconds at most.
func (s *Server) Close() {
	s.sessions.drain()
	var closing sync.WaitGroup
	for _, session := range s.sessions.all() {
		closing.Go(func() { session.end(endDrained, websocket.CloseGoingAway, "the server is shutting down") })
	}
	closing.Wait()
	s.closing.Lock()
	s.closed = true
	s.closing.Unlock()
	s.stop()
	s.running.Wait()
}

// HandOver waits, once the server is closed, until runs have collected what its rollouts came to: a
// drain that was cut short has not. OpsHandler has to be served meanwhile.
func (s *Server) HandOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverGrace)
	defer cancel()
	s.rollouts.settle(ctx)
}

// Farewell is what there is to say of the drain, once the server is closed.
func (s *Server) Farewell() score.Farewell {
	began, sessions := s.sessions.drainBegan()
	if began.IsZero() {
		return score.Farewell{}
	}
	return score.Farewell{Sessions: int64(sessions), Cut: s.metrics.cut.Load(),
		Seconds: int64(time.Since(began).Round(time.Second).Seconds())}
}

// spawn runs f in a goroutine that Close waits for. It reports false once the server is closed.
func (s *Server) spawn(f func()) bool {
	return s.begin(func() {
		defer s.running.Done()
		f()
	})
}

// begin runs f in a goroutine. Close waits until f, or who goes on with its work, calls
// running.Done. It reports false once the server is closed.
func (s *Server) begin(f func()) bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	go f()
	return true
}

// sweep looks after the sessions' timeouts and the server's pings: one goroutine for all of them.
func (s *Server) sweep() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-ticker.C:
			for _, session := range s.sessions.all() {
				session.check(now)
			}
			s.ledgers.expire(now)
			s.rollouts.expire(now)
		}
	}
}

// report is the server's /stats.
func (s *Server) report() score.Report {
	report := score.Report{
		Environment: s.kind.Name(), ScenarioDigest: s.kind.ScenarioDigest(), GraderVersion: s.kind.GraderVersion(),
		Judge:    s.kind.Judge(),
		Draining: s.sessions.isDraining(),
		Sessions: score.Sessions{Active: int64(s.sessions.active()), Capacity: int64(s.sessions.capacity)},
		Episodes: s.metrics.episodes(), Tasks: s.kind.Tasks(), JudgeFailures: s.metrics.unjudged.Load(),
		Cut:  s.metrics.cut.Load(),
		Runs: s.runReports(),
	}
	if s.packs != nil {
		report.Packs = new(s.packs())
	}
	return report
}
