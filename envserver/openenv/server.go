// Package openenv serves an environment over the OpenEnv protocol.
//
// A session is an environment that holds one slot of the server's capacity. The registry holds all
// sessions, whichever transport opened them. Sockets, plain HTTP and tools take turns on a session.
//
// A socket costs one goroutine, which reads, so that pings are answered and a close is noticed
// during a long step. A second goroutine exists only while messages are queued; it answers them in
// order. The server sends only answers and pings on a socket.
//
// Every end of a session (close message, close frame, lost peer, timeout, drain) goes through
// session.end. It frees the slot before it closes the socket, so that a client that closes and
// reconnects is never refused because of its own session.
//
// The packages below do not import this one: protocol (messages and their encoding), slots
// (capacity), memory (sizes and budgets of messages and bodies), documents (static answers and task
// lists), ledger (episodes of runs), player (plays episodes, uses documents and ledger), ors
// (routes of OpenReward's clients, uses player and documents), mesh (peers of a pool, uses slots
// and ledger), client.
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
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/documents"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/memory"
	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxRefusals bounds the refused connections that are held open, half of them of one client.
	maxRefusals = 1024
	// maxStateless bounds the plain HTTP requests without a session that are answered at a time.
	// Each has an environment of its own; they are meant for trying things out.
	maxStateless = 64
)

// Config configures a server. Kind and LedgerKey are required.
type Config struct {
	Kind episode.Kind
	// MaxSessions is the number of sessions at a time, 0 for DefaultMaxSessions.
	MaxSessions int
	// IdleTimeout ends a session after this time without a reset or step, 0 for never.
	IdleTimeout time.Duration
	// MaxDuration ends a session this long after it began, 0 for never. An episode that is being
	// played may continue for as long again.
	MaxDuration time.Duration
	// CapacityWait is how long a session waits for a slot before it is refused, 0 for not at all.
	CapacityWait time.Duration
	// SessionGrace is how long a session is kept after its socket was lost, so that another socket
	// can attach to it, 0 for not at all.
	SessionGrace time.Duration
	// MaxClientSessions is the number of sessions at a time of one client (address and token), 0
	// for any number.
	MaxClientSessions int
	// Mode is "" for Simulation.
	Mode Mode
	// Tokens, if not nil, returns the bearer tokens. Every request but GET /health must carry one.
	Tokens func() []string
	// Peers, if not nil, connects the servers of a pool: each of them can reach every session.
	Peers *mesh.Config
	// RewardMode is the default of resets, "" for terminal.
	RewardMode episode.RewardMode
	// TryJudge, if not nil, learns whether the judge can grade. It is called at the start, and
	// after an episode that could not be graded, until it returns nil. No session begins before
	// that.
	TryJudge func(ctx context.Context) error
	// Packs, if not nil, returns the packs that a server started now would play.
	Packs func() score.Packs
	// LedgerKey signs ledgers.
	LedgerKey ed25519.PrivateKey
	// SharedKey means that the operator also has the LedgerKey. Ledgers and the operations port
	// then require secrets derived from it, and the ids in episodes of runs are keyed.
	SharedKey bool
	// RunsOnly refuses resets that are not of a run's plan, which needs a SharedKey.
	RunsOnly bool
	// WithholdScores keeps the scores and verdicts of planned runs' episodes from their clients.
	WithholdScores bool
	// Pod is the name of the server's pod, which segments of rollouts carry.
	Pod string
	// Web serves the playground at /web/, on which people play by hand.
	Web bool
	// Version is reported at /metadata.
	Version string
	// Collectors are served at /metrics with the server's own.
	Collectors []prometheus.Collector
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
}

// Mode is the set of operations that clients may use.
type Mode string

const (
	// Simulation serves the tools and the orchestrator's operations.
	Simulation Mode = "simulation"
	// Production serves only the tools: reset, step and state don't exist as routes or messages.
	Production Mode = "production"
)

// DefaultMaxSessions is several times a trainer's batch and takes well under a gigabyte.
const DefaultMaxSessions = 2000

// Server serves one environment to many sessions.
type Server struct {
	cfg      Config
	secrets  *poolkey.Secrets
	log      *slog.Logger
	docs     documents.Documents
	tasks    *documents.Tasks
	players  *player.Factory
	mcp      *mcpServer
	mesh     *mesh.Mesh
	upgrader websocket.Upgrader
	sessions *registry
	past     past
	// releasing is true in the second half of a drain.
	releasing atomic.Bool
	ledgers   *ledger.Ledgers
	rollouts  *ledger.Rollouts
	metrics   *metrics
	refusals  *fairness.Budget
	stateless *fairness.Budget
	// medium and large are the budgets of messages and bodies by their size, and processors is the
	// budget of readings that occupy a processor for long.
	medium, large, processors *fairness.Budget
	// untried is the last error of TryJudge, nil before the first one and after a success.
	untried atomic.Pointer[error]
	// trying is true while the judge is tried.
	trying  atomic.Bool
	ctx     context.Context
	stop    context.CancelFunc
	buffers buffers
	running sync.WaitGroup
	// memory serves connections within the process from its first call on.
	memory func() *memoryListener

	closing sync.Mutex
	closed  bool
}

// New makes a server, which accepts sessions once its Handler is served. Close ends it.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Mode = cmp.Or(cfg.Mode, Simulation)
	secrets, err := cfg.secrets()
	if err != nil {
		return nil, err
	}
	docs, err := documents.New(cfg.Kind, cfg.Version, cfg.Mode == Simulation)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, secrets: secrets, log: cmp.Or(cfg.Logger, slog.Default()), docs: docs,
		tasks:    documents.NewTasks(cfg.Kind),
		upgrader: newUpgrader(),
		sessions: newRegistry(slots.New(cmp.Or(cfg.MaxSessions, DefaultMaxSessions), cfg.CapacityWait),
			cfg.MaxClientSessions, cfg.RunsOnly),
		past: newPast(), refusals: fairness.NewBudget(maxRefusals, maxRefusals/2),
		stateless: fairness.NewBudget(maxStateless, maxStateless/2),
		medium:    memory.NewMedium(), large: memory.NewLarge(), processors: fairness.NewProcessors(),
		ledgers: ledger.New(cfg.Kind, secrets, cfg.RunsOnly),
	}
	s.rollouts = ledger.NewRollouts(cfg.Kind, cfg.Pod, cfg.LedgerKey, s.log)
	s.metrics = newMetrics(s)
	s.players, err = player.NewFactory(player.Config{
		Kind: cfg.Kind, RewardMode: cmp.Or(cfg.RewardMode, episode.Terminal), Tasks: s.tasks, Ledgers: s.ledgers,
		Rollouts: s.rollouts, Key: cfg.LedgerKey, Secrets: secrets, RunsOnly: cfg.RunsOnly,
		WithholdScores: cfg.WithholdScores, Metrics: s.metrics, Unjudged: s.distrustJudge, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.memory = sync.OnceValue(s.listenMemory)
	if s.mesh, err = mesh.New(cfg.Peers, mesh.Host{
		Key: cfg.LedgerKey, Slots: s.sessions.slots, Free: s.sessions.freeSlots,
		Admits: s.hasRoomFor, Spawn: s.spawn, Context: s.ctx,
		Cut: func() { s.metrics.cut.Add(1) }, Take: s.takeEpisode, SendAway: s.sendAway,
		GiveUp: func(key ledger.Key, plan string) (ledger.ShardState, error) {
			return s.ledgers.GiveUp(key, plan, cfg.LedgerKey)
		},
		Keep:    func(p ledger.Parcel) error { return s.ledgers.Keep(p, s.publicKey()) },
		Metrics: s.metrics.registry, Log: s.log,
	}); err != nil {
		s.stop()
		return nil, err
	}
	s.mcp = newMCPServer(s)
	s.spawn(s.sweepSessions)
	if cfg.TryJudge != nil {
		s.sessions.slots.Block(errNoJudge)
		s.distrustJudge()
	}
	return s, nil
}

func (s *Server) publicKey() ed25519.PublicKey {
	return s.cfg.LedgerKey.Public().(ed25519.PublicKey) //nolint:forcetypeassert // always is one
}

func (cfg *Config) validate() error {
	switch {
	case cfg.Kind == nil || len(cfg.LedgerKey) != ed25519.PrivateKeySize:
		return errors.New("missing Kind or Ed25519 LedgerKey: set both")
	case cfg.RunsOnly && !cfg.SharedKey:
		return errors.New("RunsOnly needs a SharedKey, from which the credentials of runs follow")
	case cfg.MaxSessions < 0 || cfg.MaxClientSessions < 0:
		return fmt.Errorf("MaxSessions %d and MaxClientSessions %d must not be negative", cfg.MaxSessions,
			cfg.MaxClientSessions)
	case cfg.Mode != "" && cfg.Mode != Simulation && cfg.Mode != Production:
		return fmt.Errorf("invalid mode %q: choose %s or %s", cfg.Mode, Simulation, Production)
	}
	return cfg.Peers.Validate()
}

// secrets derives the secrets of a shared key, nil for a key that isn't shared.
func (cfg *Config) secrets() (*poolkey.Secrets, error) {
	if !cfg.SharedKey {
		return nil, nil //nolint:nilnil // nil admits everybody
	}
	return poolkey.DeriveSecrets(cfg.LedgerKey)
}

// newUpgrader shares write buffers between sessions. Like the official server it doesn't check the
// origin. Compression would save 750 of an observation's 1,150 bytes and triple the work of a step.
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

// begin is like spawn, but f, or a goroutine that continues its work, must call running.Done.
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

// openError is the answer to a client that gets no session.
func (s *Server) openError(cause error) *protocol.Error {
	if errors.Is(cause, player.ErrFactory) {
		return &protocol.Error{Code: protocol.CodeFactory, Message: cause.Error(), FactoryName: s.cfg.Kind.Name()}
	}
	active, limit := s.sessions.countActive(), s.sessions.slots.Capacity
	advice := "close a session, or try again later or on another replica"
	if errors.Is(cause, slots.ErrDraining) {
		advice = "connect again to reach another replica"
	}
	if errors.Is(cause, errNoJudge) {
		advice = "try again later; the pool's condition Degraded and the server's log say why"
	}
	if _, ok := errors.AsType[clientFullError](cause); ok {
		advice = "close some of this client's sessions; who runs the server can raise the share of one client " +
			"(sessions.clientSharePercent of the pool, --client-share)"
	}
	return &protocol.Error{
		Code: protocol.CodeCapacity, Message: fmt.Sprintf("%v (%d/%d sessions): %s", cause, active, limit, advice),
		ActiveSessions: &active, MaxSessions: &limit,
	}
}
