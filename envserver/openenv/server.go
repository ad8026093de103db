// Package openenv serves an environment over the OpenEnv protocol.
//
// A session is an environment that holds one slot of the server's capacity. One registry holds all
// sessions, whether a socket opened them, a request of OpenEnv's MCP dialect or an MCP client.
// Sockets, plain HTTP and tools play on a session in turns.
//
// A socket costs one goroutine, which reads: so pings are answered, and a close is noticed, during
// a long step. A second goroutine lives only as long as messages wait for their answers; it answers
// them one by one, in order. The server sends nothing on a socket but answers and pings.
//
// Every end of a session (a close message, a close frame, a lost peer, a timeout, a drain) goes
// through session.end. It frees the slot first and closes the socket after that, so that a client
// that closes and reconnects is never refused because of its own session.
//
// The packages below it, none of which imports this one: protocol (messages and their encoding),
// slots (capacity), documents (what needs no session), ledger (episodes of runs), player (plays
// episodes, on documents and ledger), mesh (peers of a pool, on slots), client.
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
	"github.com/csenv/csenv/envserver/openenv/documents"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
	"github.com/csenv/csenv/envserver/score"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

const (
	// deadPeerAfter is how long a peer may send nothing at all, not even a pong. It is minutes
	// because a trainer's event loop stands still while its model generates; a host that is gone is
	// detected sooner, by TCP's own keepalive.
	deadPeerAfter = 10 * time.Minute
	// refusalTimeout is how long a refused connection stays open for the client to send its first
	// message, which the refusal answers. A client that finds a closed socket never learns why.
	refusalTimeout = 5 * time.Second
	// sweepInterval is the resolution of every timeout of a session.
	sweepInterval = time.Second
	// ledgerGrace is how long a drained server waits for the runners to fetch the ledgers of the
	// sessions that ended last.
	ledgerGrace = 15 * time.Second
	// rolloutGrace is how long it waits for the operator, which may be restarting, to collect their
	// rollouts.
	rolloutGrace = time.Minute
	// collectGrace is how long a closed server waits for that if its drain was cut short.
	collectGrace = 10 * time.Second
	// maxRefusals bounds the refused connections that are held open.
	maxRefusals = 1024
	// maxStateless bounds the plain HTTP requests, each with an environment of its own, that are
	// answered at a time. They are meant for trying things out, beside the sessions.
	maxStateless = 64
)

// Config configures a server. Kind and LedgerKey are required.
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
	// MaxClientSessions is the number of sessions at a time for one client, identified by its
	// address and token, 0 for any number.
	MaxClientSessions int
	// MessageRate is the maximum number of messages per second that a session answers; more wait. 0
	// is no limit.
	MessageRate float64
	// Mode is "" for Simulation.
	Mode Mode
	// Tokens, if not nil, returns the bearer tokens of which every request but GET /health must
	// carry one.
	Tokens func() []string
	// Peers, if not nil, connects the server with the other servers of its pool, so that every
	// session can be reached through each of them.
	Peers *mesh.Config
	// RewardMode is for episodes whose reset doesn't name one, "" for dense.
	RewardMode episode.RewardMode
	// Packs, if not nil, returns what a server that is started now would play.
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

// Mode is what agents may reach.
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
	cfg       Config
	log       *slog.Logger
	docs      documents.Documents
	tasks     *documents.Tasks
	players   *player.Factory
	mcp       *mcpServer
	mesh      *mesh.Mesh
	upgrader  websocket.Upgrader
	sessions  *registry
	ledgers   *ledger.Ledgers
	rollouts  *ledger.Rollouts
	metrics   *metrics
	refusals  *semaphore.Weighted
	stateless *semaphore.Weighted
	bulk      *semaphore.Weighted
	ctx       context.Context
	stop      context.CancelFunc
	buffers   buffers
	running   sync.WaitGroup

	closing sync.Mutex
	closed  bool
}

// New makes a server. It accepts sessions as soon as its Handler is served; Close ends it.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Mode = cmp.Or(cfg.Mode, Simulation)
	docs, err := documents.New(cfg.Kind, cfg.Version, cfg.Mode == Simulation)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default()), docs: docs, tasks: documents.NewTasks(cfg.Kind),
		upgrader: newUpgrader(),
		sessions: newRegistry(slots.New(cmp.Or(cfg.MaxSessions, DefaultMaxSessions), cfg.CapacityWait),
			cfg.MaxClientSessions),
		refusals: semaphore.NewWeighted(maxRefusals), stateless: semaphore.NewWeighted(maxStateless),
		bulk: semaphore.NewWeighted(bulkBudget), ledgers: ledger.New(cfg.Kind),
	}
	s.rollouts = ledger.NewRollouts(cfg.Kind, cfg.Pod, cfg.LedgerKey, s.log)
	s.metrics = newMetrics(s)
	s.players, err = player.NewFactory(player.Config{
		Kind: cfg.Kind, RewardMode: cmp.Or(cfg.RewardMode, episode.Dense), Tasks: s.tasks, Ledgers: s.ledgers,
		Rollouts: s.rollouts, Key: cfg.LedgerKey, Metrics: s.metrics, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if s.mesh, err = mesh.New(cfg.Peers, mesh.Host{
		Key: cfg.LedgerKey, Slots: s.sessions.slots, Free: s.sessions.free, Spawn: s.spawn, Context: s.ctx,
		Cut: func() { s.metrics.cut.Add(1) }, Metrics: s.metrics.registry, Log: s.log,
	}); err != nil {
		s.stop()
		return nil, err
	}
	s.mcp = newMCPServer(s)
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
		return fmt.Errorf("invalid mode %q: choose %s or %s", cfg.Mode, Simulation, Production)
	}
	return cfg.Peers.Validate()
}

// newUpgrader shares write buffers between sessions: an idle session needs none. Like the official
// server it doesn't check the origin. It doesn't compress: that would save 750 bytes of an
// observation of 1,150 and triple the work of a step (hack/bench).
func newUpgrader() websocket.Upgrader {
	return websocket.Upgrader{
		ReadBufferSize: 1024, WriteBufferSize: 4096, WriteBufferPool: &sync.Pool{},
		CheckOrigin: func(*http.Request) bool { return true },
	}
}

// spawn runs f in a goroutine that Close waits for. It reports false once the server is closed.
func (s *Server) spawn(f func()) bool {
	return s.begin(func() {
		defer s.running.Done()
		f()
	})
}

// begin runs f in a goroutine. Close waits until running.Done is called, by f or by a goroutine
// that continues its work. It reports false once the server is closed.
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

// sweep checks the timeouts and pings of all sessions in one goroutine.
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
			s.ledgers.Expire(now)
			s.rollouts.Expire(now)
		}
	}
}

// openError answers a client that gets no session.
func (s *Server) openError(cause error) *protocol.Error {
	if errors.Is(cause, player.ErrFactory) {
		return &protocol.Error{Code: protocol.CodeFactory, Message: cause.Error(), FactoryName: s.cfg.Kind.Name()}
	}
	active, limit := s.sessions.active(), s.sessions.slots.Capacity
	advice := "close a session, or try again later or on another replica"
	if errors.Is(cause, slots.ErrDraining) {
		advice = "connect again to reach another replica"
	}
	return &protocol.Error{
		Code: protocol.CodeCapacity, Message: fmt.Sprintf("%v (%d/%d sessions): %s", cause, active, limit, advice),
		ActiveSessions: &active, MaxSessions: &limit,
	}
}
