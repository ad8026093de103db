package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader/judgeflags"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/scenarios"
	"github.com/spf13/pflag"
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
	messageRate        float64
	drainTimeout       time.Duration
	terminationLog     string
	peers              []string
	advertise          string
	mode               string
	tokenFile          string
	tlsCertFile        string
	tlsKeyFile         string
	rewardMode         string
	ledgerKey          string
	runsOnly           bool
	scenarios          string
	packs              []string
	splits             []string
	judge              judgeflags.Options
	logLevel           string
	// check checks packs instead of serving them. A server runs itself with it.
	check bool
	// listening is called with the addresses once both ports are open.
	listening func(protocol, ops net.Addr)
}

func defaultOptions() *options {
	return &options{
		environment: "ticket", addr: ":8000", opsAddr: ":9000", maxSessions: openenv.DefaultMaxSessions,
		sessionIdleTimeout: time.Hour, sessionMaxDuration: 2 * time.Hour, drainTimeout: time.Hour,
		capacityWait: 500 * time.Millisecond, clientShare: 100, mode: string(openenv.Simulation),
		rewardMode: string(episode.Dense), logLevel: "info", judge: judgeflags.Default(),
		listening: func(_, _ net.Addr) {},
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.environment, "environment", o.environment, "environment to serve: ticket or workflow")
	f.StringVar(&o.addr, "addr", o.addr, "address of the protocol")
	f.StringVar(&o.opsAddr, "ops-addr", o.opsAddr, "address of /healthz, /readyz, /stats, /rollouts and "+
		"/metrics; with --ledger-key, all but the first two need a token that follows from the key")
	f.IntVar(&o.maxSessions, "max-sessions", o.maxSessions,
		"sessions at a time; more are refused with CAPACITY_REACHED")
	f.DurationVar(&o.sessionIdleTimeout, "session-idle-timeout", o.sessionIdleTimeout,
		"end a session without a reset or step for so long; 0 for never")
	f.DurationVar(&o.sessionMaxDuration, "session-max-duration", o.sessionMaxDuration,
		"end a session that has lasted so long, once its "+
			"episode has ended or has lasted as long again; 0 for never")
	f.DurationVar(&o.sessionGrace, "session-grace", o.sessionGrace, "keep a session so long after its connection was "+
		"lost, for another one to attach to it; 0 for not at all")
	f.DurationVar(&o.capacityWait, "capacity-wait", o.capacityWait,
		"let a new session wait so long for a slot before it is refused; 0 for not at all")
	f.IntVar(&o.clientShare, "client-share", o.clientShare, "percentage of --max-sessions that one client, told by "+
		"its address and token, may have at a time")
	f.Float64Var(&o.messageRate, "message-rate", o.messageRate, "messages per second that a session is answered at "+
		"most, others wait; 0 for as many as come")
	f.StringSliceVar(&o.peers, "peers", nil, "HOST:PORT of the pool's servers; each address of the name is one. "+
		"Every session can then be reached through each of them, and new ones go where there is room")
	f.StringVar(&o.advertise, "advertise", o.advertise, "IP:PORT of this server among --peers; by default the "+
		"variable POD_IP with the port of --addr")
	f.StringVar(&o.mode, "mode", o.mode, "simulation, or production: tools alone, without reset, step and state")
	f.StringVar(&o.tokenFile, "token-file", o.tokenFile, "file with bearer tokens, one per line, of which every "+
		"request but GET /health must carry one; it is read again when it changes")
	f.StringVar(&o.tlsCertFile, "tls-cert-file", o.tlsCertFile, "file with the certificate (PEM) to serve TLS on "+
		"--addr with; it is read again when it changes")
	f.StringVar(&o.tlsKeyFile, "tls-key-file", o.tlsKeyFile, "file with the certificate's private key (PEM)")
	f.DurationVar(&o.drainTimeout, "drain-timeout", o.drainTimeout,
		"after SIGTERM, wait so long for the running sessions to end")
	f.StringVar(&o.terminationLog, "termination-log", o.terminationLog, "file to write to at the end what came of "+
		"the sessions, as JSON: how many there were on SIGTERM, how many were cut, and how long it took")
	f.StringVar(&o.rewardMode, "reward-mode", o.rewardMode, "when reward is paid if a reset doesn't say: dense or "+
		"terminal")
	f.StringVar(&o.ledgerKey, "ledger-key", o.ledgerKey, "file with the Ed25519 key (PKCS#8 PEM) that signs ledgers, "+
		"which the operator has too: runs then need the credential that it derives; without the flag a key is "+
		"made for this process")
	f.BoolVar(&o.runsOnly, "runs-only", o.runsOnly, "refuse every reset but those of the runners of evaluation runs, "+
		"which have a credential that follows from --ledger-key")
	f.StringVar(&o.scenarios, "scenarios", o.scenarios, "folder with a catalogue to serve instead of the built-in one")
	f.StringArrayVar(&o.packs, "pack", nil, "folder with a pack of scenarios to serve as well; may be repeated")
	f.StringSliceVar(&o.splits, "split", nil, "serve only the scenarios of these splits: "+strings.Join(
		scenarios.Splits(), ", "))
	o.judge.AddFlags(f)
	f.StringVar(&o.logLevel, "log-level", o.logLevel, "least level to log: debug, info, warn or error")
	f.BoolVar(&o.check, "check", false, "print what would be played as JSON, and end")
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
	if ip, ok := lookup("POD_IP"); ok && len(o.peers) > 0 && o.advertise == "" {
		_, port, _ := net.SplitHostPort(o.addr) // opening an invalid address fails later
		o.advertise = net.JoinHostPort(ip, port)
	}
	o.judge.FromEnvironment(lookup)
	return nil
}

// validate reports all invalid options.
func (o *options) validate() error {
	var errs []error
	if o.environment != "ticket" && o.environment != "workflow" {
		errs = append(errs, fmt.Errorf("--environment is %q: choose ticket or workflow", o.environment))
	}
	if o.maxSessions < 1 {
		errs = append(errs, fmt.Errorf("--max-sessions is %d: it must be at least 1", o.maxSessions))
	}
	errs = append(errs, o.validateSessions()...)
	errs = append(errs, o.validatePeers()...)
	errs = append(errs, o.judge.Validate(o.environment))
	if (o.tlsCertFile == "") != (o.tlsKeyFile == "") {
		errs = append(errs, errors.New("only one of --tls-cert-file and --tls-key-file is set: set both or none"))
	}
	if o.runsOnly && o.ledgerKey == "" {
		errs = append(errs, errors.New("--runs-only is set without --ledger-key, from which the credentials of runs "+
			"follow: set --ledger-key"))
	}
	if mode := episode.RewardMode(o.rewardMode); mode != episode.Dense && mode != episode.Terminal {
		errs = append(errs, fmt.Errorf("--reward-mode is %q: choose dense or terminal", o.rewardMode))
	}
	for _, split := range o.splits {
		if !slices.Contains(scenarios.Splits(), split) {
			errs = append(errs, fmt.Errorf("--split is %q: choose one of %s", split,
				strings.Join(scenarios.Splits(), ", ")))
		}
	}
	if err := new(slog.LevelVar).UnmarshalText([]byte(o.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level is %q: choose debug, info, warn or error", o.logLevel))
	}
	return errors.Join(errs...)
}

// maxClientSessions returns the number of sessions of one client, rounded up, 0 for any number.
func (o *options) maxClientSessions() int {
	if o.clientShare == 100 {
		return 0
	}
	return (o.maxSessions*o.clientShare + 99) / 100
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
	if !(o.messageRate >= 0) || math.IsInf(o.messageRate, 0) {
		errs = append(errs, errors.New("--message-rate must be finite and not negative"))
	}
	if mode := openenv.Mode(o.mode); mode != openenv.Simulation && mode != openenv.Production {
		errs = append(errs, fmt.Errorf("--mode is %q: choose %s or %s", o.mode, openenv.Simulation, openenv.Production))
	}
	return errs
}
