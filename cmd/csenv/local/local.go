// Package local plays an EvaluationRun on this machine, against an env server in this process, with
// the plan, policies, grader, judge and statistics of a cluster. So the same manifest gives the
// same figures, digit for digit.
//
// Only Kubernetes and sockets are missing: goroutines play the shards in place of pods, over
// connections within the process, and the ledgers are signed with a key of this process, since no
// other program can reach the server.
package local

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
)

// episodeTimeout bounds an attempt at an episode, with the same value as in the runners of a
// cluster.
const episodeTimeout = 10 * time.Minute

// NoteAnnotation has what a run was for, in its author's words.
const NoteAnnotation = "csenv.dev/note"

// Options are the settings of a run that are not in its manifest.
type Options struct {
	// Kind is the environment, see NewKind.
	Kind episode.Kind
	// Pool is its name in messages, and Limits are what its spec allows runs.
	Pool   string
	Limits v1alpha1.RunLimits
	// Agent plays, and may take ActTimeout for an action.
	Agent      policy.Factory
	ActTimeout time.Duration
	// Rehearse, if set, plays a made-up episode before the first one, as policy.Agent does.
	Rehearse func(ctx context.Context, turn policy.Turn) (policy.Rehearsal, bool, error)
	// LeftOut, if set, says what requests to the agent's endpoint have left out, as policy.Agent
	// does.
	LeftOut func() string
	// LedgerKey signs, nil for a key of this call alone.
	LedgerKey ed25519.PrivateKey
	Version   string
	Log       *slog.Logger
	Clock     rollout.Clock
	// Progress, if set, is called after every episode.
	Progress func(Progress)
	// Record, if set, is called with every episode.
	Record func(record.Episode)
	// Store, at Location, keeps the episodes; nil for none. Episodes that an earlier call stored
	// are counted without being played again.
	Store    *results.Store
	Location string
	// Baseline is the run of spec.baselineRef.
	Baseline evaluation.Baseline
	// Shards is the number of shards of the stored plan, 0 if nothing is stored yet.
	Shards int
}

// Progress is how far a run is.
type Progress struct {
	Ended, Total, Errored int64
	// Resumed is the number of ended episodes that an earlier call played.
	Resumed int64
	// Scores is the sum of the scores of Scored episodes, in micro-points.
	Scores, Scored int64
}

// Play plays the run and writes its status. It returns nil once the run has completed or failed,
// which its conditions report. If the context ends early, the status contains the episodes scored
// by then. An error means that no episode could be played; an invalid plan is also in the
// conditions.
func Play(ctx context.Context, run *v1alpha1.EvaluationRun, o Options) error {
	g, err := newGame(run, o)
	if err != nil {
		return err
	}
	stop, err := g.startServer(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := g.openStore(ctx); err != nil {
		return err
	}
	return g.playShards(ctx)
}

// openStore writes the run's manifest, before the first shard.
func (g *game) openStore(ctx context.Context) error {
	if g.Store == nil {
		return nil
	}
	config, err := AgentConfig(g.run.Spec.Agent)
	if err != nil {
		return err
	}
	agent, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("writing the agent: %w", err)
	}
	limits, err := json.Marshal(evaluation.LimitsOf(g.run))
	if err != nil {
		return fmt.Errorf("writing the limits: %w", err)
	}
	g.run.Status.Results = results.JoinLocation(g.Location, g.folder())
	return g.Store.WriteManifest(ctx, g.folder(), results.Manifest{Environment: g.Kind.Name(), Plan: g.plan,
		Agent: agent, Limits: limits, Labels: g.run.Labels, Note: g.run.Annotations[NoteAnnotation],
		Runner: g.Version, Written: g.Clock.Now()})
}

func (g *game) folder() string {
	return results.RunFolder(g.run.Namespace, g.run.Name, string(g.run.UID))
}

// PublicSeedKey is the key of a stored run where this machine can keep none: a function of its UID,
// so that the receipts of stored episodes are valid when the run is resumed. It proves nothing,
// because anybody can compute it.
func PublicSeedKey(uid types.UID) ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte("csenv eval "), uid...))
	return ed25519.NewKeyFromSeed(seed[:])
}

// ComputeUID is a function of what the run plays, so that the same manifest is the same run. How
// fast it is played and what is made of its scores doesn't matter.
func ComputeUID(run *v1alpha1.EvaluationRun, kind episode.Kind) (types.UID, error) {
	run = run.DeepCopy()
	run.Spec.Concurrency, run.Spec.ActiveDeadlineSeconds = nil, nil
	run.Spec.BaselineRef, run.Spec.Results = nil, nil
	run.Spec.Prices, run.Spec.CustomerPrices, run.Spec.Budget = nil, nil, nil
	run.Spec.Thresholds, run.Spec.Retries = nil, v1alpha1.Retries{}
	provenance, err := evaluation.NewProvenance(run, evaluation.Offer{Report: reportOf(kind)})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%s\n%s", run.Namespace, run.Name,
		provenance.SpecHash, provenance.ScenarioDigest,
		provenance.GraderVersion, provenance.Judge))
	return types.UID(uuid.NewSHA1(uuid.Nil, sum[:]).String()), nil
}

// LimitScenarios restricts a run to a number of scenarios of each task, which its seed draws.
func LimitScenarios(run *v1alpha1.EvaluationRun, kind episode.Kind, limit int) error {
	planned := run.DeepCopy()
	planned.UID = "limited"
	plan, err := evaluation.NewPlan(planned, evaluation.Offer{Report: reportOf(kind)}, 1)
	if err != nil {
		return explainScenario(run, err)
	}
	for i, t := range plan.Tasks {
		slices.SortFunc(t.Scenarios, func(a, b string) int {
			return cmp.Compare(score.EpisodeSeed(plan.Seed, t.Name, a, 0), score.EpisodeSeed(plan.Seed, t.Name, b, 0))
		})
		selected := ptr.Deref(run.Spec.Tasks[i].Scenarios, v1alpha1.ScenarioSelection{})
		selected.IDs = slices.Sorted(slices.Values(t.Scenarios[:min(limit, len(t.Scenarios))]))
		run.Spec.Tasks[i].Scenarios = &selected
	}
	return nil
}

func reportOf(kind episode.Kind) score.Report {
	return score.Report{Environment: kind.Name(), ScenarioDigest: kind.ScenarioDigest(),
		GraderVersion: kind.GraderVersion(), Judge: kind.Judge(), Tasks: kind.Tasks()}
}

// game is a run that is being played.
type game struct {
	Options
	run  *v1alpha1.EvaluationRun
	plan score.Plan
	// server is the env server of this process.
	server *openenv.Server

	// giveUp ends the play early.
	giveUp context.CancelCauseFunc

	meter    *rollout.Meter // nil without a budget
	mu       sync.Mutex
	seen     string // by the rehearsal
	progress Progress
	errored  map[string]*score.IndexSet // by class
	table    score.ScenarioTable
	stored   score.Stored
	sums     score.Accumulator
	done     score.IndexSet
}

func newGame(run *v1alpha1.EvaluationRun, o Options) (*game, error) {
	if o.LedgerKey == nil {
		var err error
		if _, o.LedgerKey, err = ed25519.GenerateKey(nil); err != nil {
			return nil, fmt.Errorf("making a ledger key: %w", err)
		}
	}
	g := &game{Options: o, run: run, errored: map[string]*score.IndexSet{}}
	if budget := evaluation.BudgetOf(&run.Spec, score.Tokens{}); budget != nil {
		g.meter = rollout.NewMeter(budget.Share(1, 1))
	}
	run.Status = v1alpha1.EvaluationRunStatus{ObservedGeneration: run.Generation,
		Agent: evaluation.AgentName(run.Spec.Agent)}
	var err error
	planned := run.DeepCopy()
	if o.Shards > 0 {
		planned.Spec.Parallelism = new(int32(o.Shards)) //nolint:gosec // of a plan
	}
	g.plan, g.sums, err = evaluation.BeginRun(planned, &run.Status, evaluation.Offer{
		Pool: o.Pool, Image: "csenv eval " + o.Version, Version: o.Version,
		LedgerKey: score.FormatPublicKey(o.LedgerKey.Public().(ed25519.PublicKey)), Report: reportOf(o.Kind),
		Limits: o.Limits,
	})
	if err != nil {
		g.endRun(evaluation.BuildConditions(run, run.Status, g.sums, evaluation.InvalidPlan(err)))
		return nil, explainScenario(run, err)
	}
	g.progress.Total, run.Status.StartTime = g.plan.Episodes(), g.now()
	return g, nil
}

func (g *game) now() *metav1.Time {
	// The API's times are whole seconds.
	return new(metav1.NewTime(g.Clock.Now()).Rfc3339Copy())
}

// sessionMargin is for sessions that the client has closed and the server has not.
const sessionMargin = 64

// serverName is the name of the env server where a cluster has a host.
const serverName = "local"

// startServer starts the env server.
func (g *game) startServer(ctx context.Context) (stop func(), err error) {
	g.server, err = openenv.New(openenv.Config{
		Kind: g.Kind, MaxSessions: g.parallelism()*g.concurrency() + sessionMargin, CapacityWait: time.Second,
		LedgerKey: g.LedgerKey, Version: g.Version, Logger: g.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("making the env server: %w", err)
	}
	collecting, stopCollecting := context.WithCancel(ctx)
	go openenv.KeepHeadroom(collecting)
	return func() {
		stopCollecting()
		g.server.Close()
	}, nil
}

func (g *game) parallelism() int {
	return min(int(ptr.Deref(g.run.Spec.Parallelism, 1)), g.plan.Shards)
}

// concurrency is the number of episodes at a time in a shard. A resumed plan may have fewer shards
// than the run now plays at a time.
func (g *game) concurrency() int {
	all := int(ptr.Deref(g.run.Spec.Concurrency, 1)) * int(ptr.Deref(g.run.Spec.Parallelism, 1))
	return (all + g.parallelism() - 1) / g.parallelism()
}

func (g *game) playShards(ctx context.Context) error {
	deadline, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	g.giveUp = giveUp
	if seconds := g.run.Spec.ActiveDeadlineSeconds; seconds != nil {
		var cancel context.CancelFunc
		deadline, cancel = context.WithTimeoutCause(deadline, time.Duration(*seconds)*time.Second, errDeadline)
		defer cancel()
	}
	shards, playing := errgroup.WithContext(deadline)
	shards.SetLimit(g.parallelism())
	for shard := range g.plan.Shards {
		shards.Go(func() error { return g.playShard(playing, shard) })
	}
	err := shards.Wait()
	switch {
	case err == nil:
	case deadline.Err() != nil:
		err = context.Cause(deadline)
		g.countPartial(context.WithoutCancel(ctx))
	default:
		return err
	}
	evaluation.WriteFigures(&g.run.Status, g.sums, g.done)
	evaluation.WriteCosts(&g.run.Status, &g.run.Spec)
	g.concludeRun(err)
	return nil
}

// The causes of a context that ends by spec.activeDeadlineSeconds or spec.retries.
var (
	errDeadline = errors.New("the deadline is over")
	errErrored  = errors.New("too many episodes errored")
)

func (g *game) playShard(ctx context.Context, shard int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	kept := g.openShard(ctx, shard)
	summary, err := rollout.Run(ctx, rollout.Config{
		Plan: g.plan, Shard: shard, Receipts: kept.receipts(), Tokens: kept.tokens(),
		Environment: g.Kind.Name(), Policy: g.Agent, Concurrency: g.concurrency(),
		Connect: g.server.Connect(serverName), Pods: g.listPods,
		EpisodeAttempts: int(max(g.run.Spec.Retries.EpisodeAttempts, 1)), EpisodeTimeout: episodeTimeout,
		Meter: g.meter, ActTimeout: g.ActTimeout, Rehearse: g.Rehearse, LeftOut: g.LeftOut,
		Record: kept.recorder(g.reportEpisode), Clock: g.Clock, Log: g.Log,
	})
	summary.Stored = kept.close(ctx)
	g.addStored(summary.Stored)
	if err != nil {
		return err
	}
	ledger, err := summary.Ledger.Verify(g.LedgerKey.Public().(ed25519.PublicKey))
	if err != nil {
		return fmt.Errorf("reading the ledger of shard %d: %w", shard, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = cmp.Or(g.seen, summary.Endpoint)
	g.sums.FoldSummary(ledger, summary)
	g.table.Fold(ledger)
	if summary.Unplayed == 0 {
		g.done.Add(int64(shard))
	}
	return nil
}

// listPods lists the one server where a cluster has pods.
func (g *game) listPods(context.Context) ([]string, error) { return []string{serverName}, nil }

// kept is where a shard's episodes are stored.
type kept struct {
	// shard is nil if they are not stored, which lost reports.
	shard   *results.Shard
	planned int64
	lost    score.Stored
}

// openShard opens a shard of the store. A shard that can't be read is played from its start and not
// stored.
func (g *game) openShard(ctx context.Context, index int) kept {
	if g.Store == nil {
		return kept{}
	}
	shard, err := g.Store.Shard(ctx, g.folder(), g.plan, index, g.Log)
	if err != nil {
		g.Log.Warn("A shard is not stored", "shard", index, "error", err)
		return kept{lost: score.Stored{Error: err.Error()}}
	}
	k := kept{shard: shard}
	for range g.plan.Shard(index) {
		k.planned++
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.progress.Ended += int64(len(shard.Receipts()))
	g.progress.Resumed += int64(len(shard.Receipts()))
	for _, receipt := range shard.Receipts() {
		r, err := score.VerifyReceipt(receipt, g.LedgerKey.Public().(ed25519.PublicKey))
		if err != nil {
			continue // the shard has verified it
		}
		g.progress.Scored++
		g.progress.Scores += r.Episode.Score
	}
	if g.Progress != nil {
		g.Progress(g.progress)
	}
	return k
}

// receipts returns the receipts of the stored episodes.
func (k kept) receipts() []string {
	if k.shard == nil {
		return nil
	}
	return k.shard.Receipts()
}

// tokens returns the tokens that the stored episodes used.
func (k kept) tokens() score.Tokens {
	if k.shard == nil {
		return score.Tokens{}
	}
	return k.shard.Tokens()
}

// recorder stores episodes before it passes them on.
func (k kept) recorder(next func(record.Episode)) func(record.Episode) {
	if k.shard == nil {
		return next
	}
	return func(e record.Episode) {
		k.shard.Record(e)
		next(e)
	}
}

// close writes the remaining episodes, even if the run was stopped.
func (k kept) close(ctx context.Context) score.Stored {
	if k.shard == nil {
		return k.lost
	}
	return k.shard.Close(ctx, k.planned)
}

// addStored adds up the stored episodes of the shards.
func (g *game) addStored(s score.Stored) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stored.Episodes += s.Episodes
	if g.stored.Error == "" {
		g.stored.Error = s.Error
	}
}

// reportEpisode reports an episode that has ended.
func (g *game) reportEpisode(e record.Episode) {
	if g.Record != nil {
		g.Record(e)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.progress.Ended++
	if e.Outcome == score.Errored {
		g.progress.Errored++
		if g.errored[e.Class] == nil {
			g.errored[e.Class] = &score.IndexSet{}
		}
		g.errored[e.Class].Add(e.Index)
		if evaluation.TooManyErrored(g.run, g.progress.Errored, g.progress.Total) {
			g.giveUp(errErrored)
		}
	}
	if e.Score != nil {
		g.progress.Scored++
		g.progress.Scores += int64(*e.Score*score.One + 0.5)
	}
	if g.Progress != nil {
		g.Progress(g.progress)
	}
}

// countPartial adds the episodes of interrupted shards: those that were graded from the server's
// ledgers, and those that errored.
func (g *game) countPartial(ctx context.Context) {
	for shard := range g.plan.Shards {
		if g.done.Contains(int64(shard)) {
			continue
		}
		ledger := &score.Ledger{Shard: shard}
		signed, err := client.FetchLedger(ctx, serverName, g.plan.Run, shard,
			client.Options{Connect: g.server.Connect(serverName)})
		if err == nil { // otherwise nothing of it was graded
			if verified, err := signed.Verify(g.LedgerKey.Public().(ed25519.PublicKey)); err == nil {
				ledger = verified
			}
		}
		g.sums.FoldSummary(ledger, score.Summary{Errored: g.erroredIn(shard)})
	}
}

// erroredIn returns the errored episodes of a shard by class.
func (g *game) erroredIn(shard int) []score.ErrorClass {
	g.mu.Lock()
	defer g.mu.Unlock()
	var classes []score.ErrorClass
	for _, class := range slices.Sorted(maps.Keys(g.errored)) {
		of := score.ErrorClass{Class: class}
		for planned := range g.plan.Shard(shard) {
			if g.errored[class].Contains(planned.Index) {
				of.Episodes.Add(planned.Index)
			}
		}
		if of.Episodes.Len() > 0 {
			classes = append(classes, of)
		}
	}
	return classes
}
