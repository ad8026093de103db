package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// options are the command's flags.
type options struct {
	environment        string
	addr               string
	opsAddr            string
	maxSessions        int
	sessionIdleTimeout time.Duration
	sessionMaxDuration time.Duration
	sessionGrace       time.Duration
	capacityWait       time.Duration
	clientShare        int
	drainTimeout       time.Duration
	handOver           bool
	terminationLog     string
	peers              []string
	advertise          string
	mode               string
	web                bool
	tokenFile          string
	// personal is a developer's server, beside which a browser runs.
	personal       bool
	allowOrigins   []string
	rewardMode     string
	ledgerKey      string
	runsOnly       bool
	withholdScores bool
	scenarios      string
	packs          []string
	splits         []string
	judge          modelflags.Judge
	customer       modelflags.Customer
	logLevel       string
	// check checks packs instead of serving them. A server runs itself with it.
	check bool
	// listening is called with the addresses once both ports are open.
	listening func(protocol, ops net.Addr)
}

func defaultOptions() *options {
	return &options{
		environment: tasks.Ticket, addr: ":8000", opsAddr: ":9000", maxSessions: openenv.DefaultMaxSessions,
		sessionIdleTimeout: time.Hour, sessionMaxDuration: 2 * time.Hour, drainTimeout: time.Hour,
		capacityWait: 500 * time.Millisecond, clientShare: 100, mode: string(openenv.Simulation),
		rewardMode: string(episode.Terminal), logLevel: "info", judge: modelflags.DefaultJudge(),
		customer:  modelflags.DefaultCustomer(),
		listening: func(_, _ net.Addr) {},
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.environment, "environment", o.environment, "environment to serve: ticket or workflow")
	f.StringVar(&o.addr, "addr", o.addr, "address of the OpenEnv protocol")
	f.StringVar(&o.opsAddr, "ops-addr", o.opsAddr, "address of /healthz, /readyz, /stats, /rollouts and "+
		"/metrics. With --ledger-key, all but the first two require a token that is derived from the key")
	f.IntVar(&o.maxSessions, "max-sessions", o.maxSessions,
		"maximum number of sessions; further ones are refused with CAPACITY_REACHED")
	f.DurationVar(&o.sessionIdleTimeout, "session-idle-timeout", o.sessionIdleTimeout,
		"time without a reset or step after which a session ends; 0 means never")
	f.DurationVar(&o.sessionMaxDuration, "session-max-duration", o.sessionMaxDuration,
		"maximum duration of a session; an episode in progress may run until twice that time; 0 means no limit")
	f.DurationVar(&o.sessionGrace, "session-grace", o.sessionGrace, "time for which a session is kept after its "+
		"connection was lost, so that another connection can attach to it; 0 ends it at once")
	f.DurationVar(&o.capacityWait, "capacity-wait", o.capacityWait,
		"time for which a new session waits for a free slot before it is refused; 0 refuses it at once")
	f.IntVar(&o.clientShare, "client-share", o.clientShare, "maximum percentage of --max-sessions for one client; "+
		"a client is an address and a token")
	f.StringSliceVar(&o.peers, "peers", nil, "`HOST:PORT` of the pool's servers; every address of the name is a "+
		"server. Each session is then reachable through all of them, and new sessions use those with free slots")
	f.StringVar(&o.advertise, "advertise", o.advertise, "`IP:PORT` of this server among --peers; the variable "+
		"POD_IP with the port of --addr by default")
	f.StringVar(&o.mode, "mode", o.mode, "simulation, or production (only tools, without reset, step and state)")
	f.BoolVar(&o.web, "web", false, "serve pages at /web/ on which people play by hand. With --token-file they ask "+
		"for a token")
	f.StringVar(&o.tokenFile, "token-file", o.tokenFile, "`file` with bearer tokens, one per line. Every request "+
		"except GET /health must have one of them. The file is read again when it changes")
	f.DurationVar(&o.drainTimeout, "drain-timeout", o.drainTimeout,
		"maximum time to wait after SIGTERM for the running sessions to end")
	f.BoolVar(&o.handOver, "hand-over", o.handOver, "after --drain-timeout, hand sessions over to servers of --peers "+
		"instead of cutting them, and close their sockets with code 1012, after which clients have to connect again")
	f.StringVar(&o.terminationLog, "termination-log", o.terminationLog, "`file` for the JSON report at the end: the "+
		"number of sessions at SIGTERM, how many were cut, and the duration")
	f.StringVar(&o.rewardMode, "reward-mode", o.rewardMode, "when rewards are paid, unless a reset chooses: dense (at "+
		"each step) or terminal (at the end)")
	f.StringVar(&o.ledgerKey, "ledger-key", o.ledgerKey, "`file` with the Ed25519 key (PKCS#8 PEM) that signs "+
		"ledgers. Runs then need the credential that the operator derives from the key. Without the flag, the process "+
		"makes a key of its own")
	f.BoolVar(&o.runsOnly, "runs-only", o.runsOnly, "refuse resets except of the planned episodes of evaluation runs, "+
		"whose runners have a credential for their plan that is derived from --ledger-key")
	f.BoolVar(&o.withholdScores, "withhold-scores", o.withholdScores, "end the episodes of evaluation runs without "+
		"score and verdicts, which are then only in the run's results")
	f.StringVar(&o.scenarios, "scenarios", o.scenarios, "`folder` with a catalogue that replaces the built-in one")
	f.StringArrayVar(&o.packs, "pack", nil, "`folder` with a pack of scenarios that is served too; may be repeated")
	f.StringSliceVar(&o.splits, "split", nil, "serve only the scenarios of these splits: "+strings.Join(
		scenarios.Splits, ", "))
	o.judge.AddFlags(f)
	o.customer.AddFlags(f)
	f.StringVar(&o.logLevel, "log-level", o.logLevel, "minimum level of log lines: debug, info, warn or error")
	f.BoolVar(&o.check, "check", false, "print as JSON what would be played, and exit")
	_ = f.MarkHidden("check") // the flag exists
}

// fromEnvironment reads the variables that OpenEnv servers share, for flags that were not given.
func (o *options) fromEnvironment(f *pflag.FlagSet, lookup func(string) (string, bool)) error {
	if text, ok := lookup("MAX_CONCURRENT_ENVS"); ok && text != "" && !f.Changed("max-sessions") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("MAX_CONCURRENT_ENVS is %q: set it to a whole number such as 64", text)
		}
		o.maxSessions = n
	}
	if text, ok := lookup("SESSION_IDLE_TIMEOUT_S"); ok && text != "" && !f.Changed("session-idle-timeout") {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(math.Abs(seconds) < 1e9) {
			return fmt.Errorf(
				"SESSION_IDLE_TIMEOUT_S is %q: set it to a number of seconds such as 600, or 0 for no timeout", text)
		}
		o.sessionIdleTimeout = time.Duration(seconds * float64(time.Second))
	}
	if text, ok := lookup("OPENENV_MODE"); ok && text != "" && !f.Changed("mode") {
		if mode := strings.ToLower(text); mode != string(openenv.Simulation) && mode != string(openenv.Production) {
			return fmt.Errorf("OPENENV_MODE is %q: set it to %s or %s", text, openenv.Simulation, openenv.Production)
		}
		o.mode = text
	}
	o.mode = strings.ToLower(o.mode)
	if text, ok := lookup("ENABLE_WEB_INTERFACE"); ok && !f.Changed("web") {
		o.web = slices.Contains([]string{"true", "1", "yes"}, strings.ToLower(text))
	}
	if ip, ok := lookup("POD_IP"); ok && len(o.peers) > 0 && o.advertise == "" {
		_, port, _ := net.SplitHostPort(o.addr) // opening an invalid address fails later
		o.advertise = net.JoinHostPort(ip, port)
	}
	o.judge.FromEnvironment(lookup)
	o.customer.FromEnvironment(lookup)
	return nil
}

// validate reports all invalid options.
func (o *options) validate() error {
	var errs []error
	if o.environment != tasks.Ticket && o.environment != tasks.Workflow {
		errs = append(errs, fmt.Errorf("--environment is %q: choose ticket or workflow", o.environment))
	}
	if o.maxSessions < 1 {
		errs = append(errs, fmt.Errorf("--max-sessions is %d: it must be at least 1", o.maxSessions))
	}
	if o.customer.StepTimeout() > 0 && o.environment != tasks.Workflow {
		errs = append(errs, errors.New("--customer is for conversations: set --environment workflow, or leave it out"))
	}
	errs = append(errs, o.validateSessions()...)
	errs = append(errs, o.validatePeers()...)
	errs = append(errs, o.judge.Validate(), o.customer.Validate())
	if o.runsOnly && o.ledgerKey == "" {
		errs = append(errs, errors.New("--runs-only is set without --ledger-key, from which the credentials of runs "+
			"follow: set --ledger-key"))
	}
	if mode := episode.RewardMode(o.rewardMode); mode != episode.Dense && mode != episode.Terminal {
		errs = append(errs, fmt.Errorf("--reward-mode is %q: choose dense or terminal", o.rewardMode))
	}
	for _, split := range o.splits {
		if !slices.Contains(scenarios.Splits, split) {
			errs = append(errs, fmt.Errorf("--split is %q: choose one of %s", split,
				strings.Join(scenarios.Splits, ", ")))
		}
	}
	if err := new(slog.LevelVar).UnmarshalText([]byte(o.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level is %q: choose debug, info, warn or error", o.logLevel))
	}
	return errors.Join(errs...)
}

// validatePeers reports invalid options of peers.
func (o *options) validatePeers() []error {
	if len(o.peers) == 0 {
		return nil
	}
	var errs []error
	for _, peer := range o.peers {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			errs = append(errs, fmt.Errorf("--peers is %q: name servers as HOST:PORT", peer))
		}
	}
	if _, err := netip.ParseAddrPort(o.advertise); err != nil {
		errs = append(errs, fmt.Errorf("--advertise is %q: with --peers set it to this server's IP:PORT, or set POD_IP",
			o.advertise))
	}
	if o.ledgerKey == "" {
		errs = append(errs, errors.New("--peers needs --ledger-key, by which servers of a pool authenticate"))
	}
	return errs
}

// validateSessions reports invalid options of sessions.
func (o *options) validateSessions() []error {
	var errs []error
	if min(o.sessionIdleTimeout, o.sessionMaxDuration, o.drainTimeout, o.sessionGrace, o.capacityWait) < 0 {
		errs = append(errs, errors.New("--session-idle-timeout, --session-max-duration, --session-grace, "+
			"--capacity-wait and --drain-timeout must not be negative"))
	}
	if o.clientShare < 1 || o.clientShare > 100 {
		errs = append(errs, fmt.Errorf("--client-share is %d: it must be from 1 to 100", o.clientShare))
	}
	if mode := openenv.Mode(o.mode); mode != openenv.Simulation && mode != openenv.Production {
		errs = append(errs, fmt.Errorf("--mode is %q: choose %s or %s", o.mode, openenv.Simulation, openenv.Production))
	}
	return errs
}
