package serve

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/mesh"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// shutdownTimeout bounds the end of the plain HTTP requests after the sessions have ended.
const shutdownTimeout = 5 * time.Second

// writeTimeout bounds a response, from the end of its request's header, without that of models.
const writeTimeout = 2 * time.Minute

// runServer serves until the context ends, and then drains. A context that ends before the server
// listens ends it at once, however long it takes to load packs.
func runServer(ctx context.Context, o *options, setting Setting) error {
	log := newLogger(o.logLevel, setting)
	collecting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go openenv.KeepHeadroom(collecting)
	watch := newPackWatch(o, setting.Command, log)
	var config openenv.Config
	made := make(chan error, 1)
	go func() {
		var err error
		config, err = configureServer(o, setting, watch, log)
		made <- err
	}()
	select {
	case <-ctx.Done():
		log.Info("Ended before serving")
		return nil
	case err := <-made:
		if err != nil {
			return err
		}
	}
	server, err := openenv.New(config)
	if err != nil {
		return fmt.Errorf("making the server: %w", err)
	}
	defer server.Close()
	l, err := openListeners(ctx, o)
	if err != nil {
		return err
	}
	kind, key := config.Kind, config.LedgerKey
	log.Info("Serving", "environment", kind.Name(), "addr", l.protocol.Addr().String(), "opsAddr",
		l.ops.Addr().String(), "maxSessions", o.maxSessions,
		"scenarioDigest", kind.ScenarioDigest(), "graderVersion", kind.GraderVersion(), "judge", kind.Judge(),
		"ledgerPublicKey", score.FormatPublicKey(key.Public().(ed25519.PublicKey)), "version", setting.Version)
	var watching sync.WaitGroup
	defer watching.Wait()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() { watch.run(watched) })
	go debug.FreeOSMemory() // a third of the memory so far may be garbage of loading packs
	o.listening(l.protocol.Addr(), l.ops.Addr())
	return l.serve(ctx, server, o, log)
}

// configureServer loads what the server needs.
func configureServer(o *options, setting Setting, watch *packWatch, log *slog.Logger) (openenv.Config, error) {
	kind, judge, err := newKind(o)
	if err != nil {
		return openenv.Config{}, err
	}
	customer, err := o.customer.New()
	if err != nil {
		return openenv.Config{}, err
	}
	if talking, ok := kind.(*workflow.Kind); ok && customer != nil {
		talking.SetCustomer(customer)
	}
	key, err := ledgerKey(o.ledgerKey, log)
	if err != nil {
		return openenv.Config{}, err
	}
	var tokens func() []string
	if o.tokenFile != "" {
		file, err := newTokenFile(o.tokenFile, time.Now, log)
		if err != nil {
			return openenv.Config{}, err
		}
		tokens = file.get
	}
	pod, err := os.Hostname()
	if err != nil {
		return openenv.Config{}, fmt.Errorf("reading the name of the pod: %w", err)
	}
	config := openenv.Config{
		Kind: kind, MaxSessions: o.maxSessions, IdleTimeout: o.sessionIdleTimeout, MaxDuration: o.sessionMaxDuration,
		SessionGrace: o.sessionGrace, CapacityWait: o.capacityWait, MaxClientSessions: o.maxClientSessions(),
		Mode: openenv.Mode(o.mode), Tokens: tokens,
		Peers: o.pool(), RewardMode: episode.RewardMode(o.rewardMode), LedgerKey: key,
		SharedKey: o.ledgerKey != "", RunsOnly: o.runsOnly,
		WithholdScores: o.withholdScores, Pod: pod, Web: o.web,
		Packs: watch.reporter(kind.ScenarioDigest()), Version: setting.Version, Logger: log,
	}
	if model, ok := judge.(modelJudge); ok {
		config.Collectors, config.TryJudge = []prometheus.Collector{model}, model.Try
	}
	if customer != nil {
		config.Collectors = append(config.Collectors, customer)
		go func() {
			if err := customer.Try(context.Background()); err != nil {
				log.Warn("The customer's model doesn't answer, so the words are the template's until it does",
					"error", err)
			}
		}()
	}
	return config, nil
}

// maxClientSessions returns the number of sessions of one client, rounded up, 0 for any number.
func (o *options) maxClientSessions() int {
	if o.clientShare == 100 {
		return 0
	}
	return (o.maxSessions*o.clientShare + 99) / 100
}

// pool configures the server's peers, nil for none.
func (o *options) pool() *mesh.Config {
	if len(o.peers) == 0 {
		return nil
	}
	return &mesh.Config{Lookup: func(ctx context.Context) ([]string, error) { return lookUp(ctx, o.peers) },
		Self: o.advertise}
}

// lookUp finds the addresses of all names. It fails only if no name has an address.
func lookUp(ctx context.Context, names []string) ([]string, error) {
	var addresses []string
	var errs []error
	for _, name := range names {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		errs = append(errs, err)
		for _, ip := range found {
			addresses = append(addresses, net.JoinHostPort(ip, port))
		}
	}
	if len(addresses) == 0 {
		return nil, errors.Join(errs...)
	}
	return addresses, nil
}

func newLogger(level string, setting Setting) *slog.Logger {
	var least slog.LevelVar
	_ = least.UnmarshalText([]byte(level)) // validated with the other options
	options := &slog.HandlerOptions{Level: &least}
	if setting.Text {
		return slog.New(slog.NewTextHandler(setting.Logs, options))
	}
	return slog.New(slog.NewJSONHandler(setting.Logs, options))
}

// modelJudge is a judge that can fail to grade.
type modelJudge interface {
	prometheus.Collector
	Try(ctx context.Context) error
}

// newKind makes the environment of the options, and its judge.
func newKind(o *options) (episode.Kind, grader.Judge, error) {
	catalog, err := loadCatalog(o)
	if err != nil {
		return nil, nil, err
	}
	judge, err := o.judge.New()
	if err != nil {
		return nil, nil, err
	}
	kind, err := kindOf(o, catalog, judge)
	return kind, judge, err
}

// kindOf makes the environment of a catalogue.
func kindOf(o *options, catalog *scenarios.Catalog, judge grader.Judge) (episode.Kind, error) {
	if o.environment == tasks.Workflow {
		return workflow.NewJudged(catalog, judge)
	}
	return ticket.New(catalog, judge)
}

// loadingFailed precedes the list of the packs' faults.
const loadingFailed = "loading the scenarios of --scenarios and --pack:"

// loadCatalog loads the packs. It fails if no scenario is left for the environment.
func loadCatalog(o *options) (*scenarios.Catalog, error) {
	catalog, err := scenarios.LoadFolders(o.scenarios, o.packs...)
	if err != nil {
		return nil, fmt.Errorf("%s\n%w", loadingFailed, err)
	}
	if len(o.splits) > 0 {
		catalog = catalog.Split(o.splits...)
	}
	if left := map[string]int{tasks.Ticket: len(catalog.Tickets()),
		tasks.Workflow: len(catalog.Workflows()) + len(catalog.Cases())}[o.environment]; left == 0 {
		return nil, fmt.Errorf("--scenarios, --pack and --split %s leave no scenario of the %s environment: "+
			"choose other splits or packs", strings.Join(o.splits, ","), o.environment)
	}
	return catalog, nil
}

// ledgerKey loads the key, or makes one for this process.
func ledgerKey(path string, log *slog.Logger) (ed25519.PrivateKey, error) {
	if path != "" {
		return poolkey.Load(path)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("making a ledger key: %w", err)
	}
	log.Debug("No --ledger-key: the key for ledgers is temporary")
	return key, nil
}

type listeners struct {
	protocol, ops net.Listener
}

func openListeners(ctx context.Context, o *options) (listeners, error) {
	var config net.ListenConfig
	protocol, err := config.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return listeners{}, fmt.Errorf("opening --addr: %w", err)
	}
	ops, err := config.Listen(ctx, "tcp", o.opsAddr)
	if err != nil {
		return listeners{}, errors.Join(fmt.Errorf("opening --ops-addr: %w", err), protocol.Close())
	}
	return listeners{protocol, ops}, nil
}

// serve runs both ports until the context ends or one of them fails. The ops port closes last, so
// that the drain can be observed.
func (l listeners) serve(ctx context.Context, server *openenv.Server, o *options, log *slog.Logger) error {
	handler := server.Handler()
	if o.personal {
		handler = refuseOrigins(handler, o.allowOrigins)
	}
	models := max(o.judge.Model.Timeout, o.customer.StepTimeout())
	protocol := newHTTPServer(handler, models, 2*o.maxSessions+spareConnections, log)
	ops := newHTTPServer(server.OpsHandler(), 0, opsConnections, log)
	failed := make(chan error, 2)
	go func() { failed <- protocol.Serve(fairness.TakeTurns(l.protocol)) }()
	go func() { failed <- ops.Serve(l.ops) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	log.Info("Draining", "timeout", o.drainTimeout.String())
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drainTimeout)
	defer cancel()
	if err := server.Drain(drained); err != nil {
		log.Warn("The drain timed out: closing the running sessions", "error", err)
		if o.handOver {
			server.HandOver(context.WithoutCancel(ctx))
		}
	}
	server.Close()
	writeDrainReport(o.terminationLog, server.DrainReport(), log)
	server.WaitCollected(context.WithoutCancel(ctx))
	end, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancelEnd()
	err := errors.Join(protocol.Shutdown(end), ops.Shutdown(end))
	log.Info("Ended")
	return err
}

// writeDrainReport logs the report and writes it to a file, unless the path is "".
func writeDrainReport(path string, report score.DrainReport, log *slog.Logger) {
	log.Info("Drained", "sessions", report.Sessions, "cut", report.Cut, "seconds", report.Seconds)
	if path == "" {
		return
	}
	data, err := json.Marshal(report)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		log.Error("Writing the drain report to --termination-log failed", "error", err)
	}
}

const (
	// spareConnections is the number of a port's connections in addition to two per session, which
	// MCP clients need.
	spareConnections = 1024
	// opsConnections bounds the connections of the operations port.
	opsConnections = 256
)

// maxHeader bounds the header of a request, in bytes. Each waiting connection may hold one.
const maxHeader = 16 << 10

// newHTTPServer bounds requests, but not WebSockets. A response may take the given time longer for
// a model.
func newHTTPServer(handler http.Handler, model time.Duration, maxConnections int, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: writeTimeout + model, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	fairness.BoundConnections(server, maxConnections)
	return server
}
