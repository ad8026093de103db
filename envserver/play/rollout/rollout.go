// Package rollout plays one shard of a run against a pool of environment servers.
//
// A shard is played on one server, because the server that grades an episode also keeps the shard's
// ledger, which it signs at the end. Each of the shard's workers has a session in which it plays
// one episode after the other. An episode that fails by no fault of the agent's is played again.
// After the allowed attempts it is reported as errored, by class, and has no score. So every
// planned episode is either in the ledger or errored, which Run checks before it returns.
//
// A shard that is played again continues where it stopped: the server reports which episodes its
// ledger has, and adds those that other servers graded from their receipts.
//
// The clock and the random numbers are the caller's, so that tests neither wait nor vary.
package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/stats"
)

// Config configures Run.
type Config struct {
	Plan score.Plan
	// PlanText is the plan's JSON as the run was planned with it, whose fingerprint is in the
	// credential, nil for Plan's.
	PlanText []byte
	// Shard is the index of the plan's shard.
	Shard int
	// Environment is "ticket" or "workflow"; it is passed to policies.
	Environment string
	Policy      policy.Factory
	// Identity names the agent in the spans of episodes, which are made if the context has the
	// recorded span of a shard.
	Identity policy.Identity
	// Try, unless nil, tries the agent's endpoint without playing, as policy.Agent does.
	Try func(ctx context.Context) error
	// Rehearse, unless nil, is called before the first episode of the plan's first shard with a
	// turn that has the environment, the task and the schema, as policy.Agent does. What it saw is
	// in the summary.
	Rehearse func(ctx context.Context, turn policy.Turn) (policy.Rehearsal, bool, error)
	// LeftOut, unless nil, says what requests to the agent's endpoint have left out, as
	// policy.Agent does. The summary has it as it is at the end.
	LeftOut func() string
	// Pods looks up the addresses of the pool's pods, host and port each.
	Pods func(ctx context.Context) ([]string, error)
	// Connect opens connections to the pods, nil for TCP ones.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
	// Token is the pool's bearer token, "" for none.
	Token string
	// Credential is the run's, with which a pool's servers open ledgers, "" for a server without a
	// configured ledger key.
	Credential string
	// Concurrency is the number of sessions, at least 1.
	Concurrency int
	// EpisodeAttempts is the maximum number of attempts at an episode, at least 1.
	EpisodeAttempts int
	// EpisodeTimeout bounds one attempt, not counting the time of the agent's actions. 0 is no
	// bound at all.
	EpisodeTimeout time.Duration
	// ActTimeout bounds one action of the agent. An attempt takes at most ActTimeout for each of
	// its steps, and EpisodeTimeout.
	ActTimeout time.Duration
	// Receipts are from the shard's episodes that were played before. These episodes count
	// without being played again, whichever server is chosen.
	Receipts []string
	// Tokens were used by the episodes that were played before.
	Tokens score.Tokens
	// Meter, unless nil, stops the shard when its limit is reached. The summary then counts the
	// episodes that were not played.
	Meter *Meter
	// Record, unless nil, is called with every episode after its last attempt, errored ones
	// included. Several goroutines call it at a time.
	Record func(record.Episode)
	Clock  Clock
	Log    *slog.Logger
}

// Clock is the clock and the source of random numbers of a shard.
type Clock struct {
	Now func() time.Time
	// Sleep waits, or returns the context's error when that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Jitter draws from 0 up to 1.
	Jitter func() float64
}

// SystemClock is the real clock, with real random numbers.
func SystemClock() Clock {
	return Clock{Now: time.Now, Sleep: endpoint.SleepContext, Jitter: rand.Float64}
}

// ErrPoolChanged means that the pool's scenarios, grader or judge differ from the run's plan.
// Its scores would not belong to the run.
var ErrPoolChanged = errors.New("the pool is not the one that the run was planned with")

// ErrScoresLost means that episodes of the shard have ended, and that their scores are lost. They
// are not graded again, so the shard can't be completed.
var ErrScoresLost = errors.New("scores of the shard are lost")

// progressInterval is the least time between two lines of progress.
const progressInterval = 10 * time.Second

// Run plays the shard, or the part of it for which the budget suffices, and returns its summary,
// which Plan.Check accepts. It fails if no server
// accepts the shard, if the server is lost, and with ErrPoolChanged, ErrAgentRefused and
// ErrAgentUnavailable. Then nothing of the shard counts and it can be run again.
func Run(ctx context.Context, cfg Config) (score.Summary, error) {
	if err := cfg.validate(); err != nil {
		return score.Summary{}, err
	}
	if err := cfg.tryAgent(ctx); err != nil {
		return score.Summary{}, err
	}
	found, err := cfg.choosePod(ctx)
	if err != nil {
		return score.Summary{}, err
	}
	s := newShard(cfg, found.pod)
	s.skipEnded(found.ledger.Ended)
	s.begun, s.turn = found.ledger.Begun, found.ledger.Turn
	s.tokens = s.tokens.Larger(found.ledger.Used)
	s.Meter.Use(s.tokens)
	if err := s.playShard(ctx, found.session); err != nil {
		return score.Summary{}, err
	}
	return s.makeSummary(ctx)
}

// tryAgent tries the agent's endpoint before the first episode.
func (c *Config) tryAgent(ctx context.Context) error {
	began := c.Clock.Now()
	for round := 0; ; round++ {
		err := c.tryOnce(ctx, c.Try)
		switch {
		case err == nil || errors.Is(err, ErrAgentRefused):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case c.Clock.Now().Sub(began) >= agentPatience:
			return fmt.Errorf("%w: %w", ErrAgentUnavailable, err)
		}
		if err := c.Clock.backOff(ctx, round); err != nil {
			return err
		}
	}
}

// tryOnce tries the agent's endpoint, and once more if it refuses the request. An endpoint that
// requests a wait counts as reachable.
func (c *Config) tryOnce(ctx context.Context, try func(context.Context) error) error {
	if try == nil {
		return nil
	}
	for refused := false; ; refused = true {
		err := try(ctx)
		if err == nil || endpoint.ClassOf(err) == endpoint.Throttled {
			return nil
		}
		e, ok := errors.AsType[*endpoint.Error](err)
		permanent := ok && e.Permanent()
		c.Log.Warn("The probe of the agent's endpoint failed", "shard", c.Shard, "permanent", permanent, "error", err)
		switch {
		case !permanent:
			return err
		case refused:
			return fmt.Errorf("%w: %s: %w", ErrAgentRefused, e.Advice(), err)
		}
		if err := c.Clock.Sleep(ctx, confirmAfter); err != nil {
			return err
		}
	}
}

// skipEnded removes episodes that have ended from the queue.
func (s *shard) skipEnded(ended score.IndexSet) {
	s.queue = slices.DeleteFunc(s.queue, func(j job) bool { return ended.Contains(j.episode.Index) })
	s.ended = s.planned - int64(len(s.queue))
	if s.ended > 0 {
		s.Log.Info("Continuing", "shard", s.Shard, "of", s.Plan.Shards, "pod", s.pod, "ended", s.ended, "episodes",
			s.planned)
	}
}

// clientOptions returns the options for the pool's servers. A session isn't passed on, because the
// shard's ledger is on its server. A session whose server is silent counts as lost.
func (c *Config) clientOptions() client.Options {
	return client.Options{Token: c.Token, Credential: c.Credential, Connect: c.Connect, Silence: protocol.MaxSilence}
}

func (c *Config) validate() error {
	var errs []error
	if c.Shard < 0 || c.Shard >= c.Plan.Shards {
		errs = append(errs, fmt.Errorf("shard %d is not within 0 and %d", c.Shard, c.Plan.Shards-1))
	}
	if c.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("concurrency %d: use at least 1", c.Concurrency))
	}
	if c.EpisodeAttempts < 1 {
		errs = append(errs, fmt.Errorf("%d attempts at an episode: use at least 1", c.EpisodeAttempts))
	}
	if _, err := score.ParsePublicKey(c.Plan.LedgerKey); err != nil {
		errs = append(errs, fmt.Errorf("reading the plan's ledger key: %w", err))
	}
	return errors.Join(errs...)
}

// job is a planned episode and how often it was begun.
type job struct {
	episode  score.PlannedEpisode
	attempts int
	tokens   score.Tokens // of the attempts so far
}

// shard is the state that the workers share.
type shard struct {
	Config
	pod   string
	began time.Time
	// prepared fetches the schema of the pool's actions and rehearses, once.
	prepared func() error
	schema   json.RawMessage
	// agent guards tried, the time of the last trial of the agent while episodes are played.
	agent sync.Mutex
	tried time.Time

	mu   sync.Mutex
	wake *sync.Cond
	// queue are the jobs that no worker has taken.
	queue   []job
	planned int64
	ended   int64
	// sessions is the number of workers with a session or attempts left to get one; lost is why the
	// last worker failed to get one.
	sessions  int
	lost      error
	errored   map[string]*score.IndexSet
	durations stats.Durations
	retried   int64
	begun     int64 // attempts that earlier runners, or the budget, left unfinished
	turn      int64 // the runner's on its server
	// retriedBy counts the attempts after the first by the class of the failure before.
	retriedBy map[string]int64
	tokens    score.Tokens
	mute      int64
	counts    score.Counts
	seen      string // by the rehearsal
	reported  time.Time
}

func newShard(cfg Config, pod string) *shard {
	s := &shard{Config: cfg, pod: pod, began: cfg.Clock.Now(), tokens: cfg.Tokens,
		errored:   map[string]*score.IndexSet{},
		retriedBy: map[string]int64{}}
	s.wake = sync.NewCond(&s.mu)
	for episode := range cfg.Plan.Shard(cfg.Shard) {
		s.queue = append(s.queue, job{episode: episode})
	}
	shuffleJobs(s.queue, poolkey.IDKey(cfg.Credential))
	s.planned, s.reported = int64(len(s.queue)), s.began
	return s
}

// shuffleJobs orders jobs by the ids that agents receive, which follow from their seeds. In the
// plan's order an agent could count the episodes to find out which one it plays, and the episodes
// that have ended would belong to the first categories, so that their score said nothing of the
// others.
func shuffleJobs(jobs []job, idKey string) {
	ids := make(map[int64]string, len(jobs))
	for _, j := range jobs {
		ids[j.episode.Index], _ = policy.EpisodeID(idKey, j.episode)
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(ids[a.episode.Index], ids[b.episode.Index]) })
}

// playShard runs the workers until every episode has ended. The first worker already has a session.
func (s *shard) playShard(ctx context.Context, first *client.Client) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.prepared = sync.OnceValue(func() error { return s.prepareAgent(ctx) })
	defer context.AfterFunc(ctx, s.wakeAll)()
	s.sessions = min(s.Concurrency, max(len(s.queue), 1))
	var workers sync.WaitGroup
	for range s.sessions {
		w := &worker{shard: s, client: first}
		first = nil
		workers.Go(func() {
			if err := w.playJobs(ctx); err != nil {
				stop(err)
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.ended < s.planned && !s.isSpent() {
		return fmt.Errorf("env pod %s was lost after %d of %d episodes, play the shard again: %w", s.pod, s.ended,
			s.planned, s.lost)
	}
	return nil
}

func (s *shard) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake.Broadcast()
}

// endJob counts an episode as played, or as errored if there is a class.
func (s *shard) endJob(j job, class string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	if class == "" {
		s.durations.Observe(took.Milliseconds())
	} else {
		if s.errored[class] == nil {
			s.errored[class] = &score.IndexSet{}
		}
		s.errored[class].Add(j.episode.Index)
	}
	s.reportProgress()
	if s.ended == s.planned {
		s.wake.Broadcast()
	}
}

func (s *shard) reportProgress() {
	now := s.Clock.Now()
	if s.ended < s.planned && now.Sub(s.reported) < progressInterval {
		return
	}
	s.reported = now
	var errored int64
	for _, set := range s.errored {
		errored += set.Len()
	}
	s.Log.Info("Progress", "shard", s.Shard, "episodes", s.ended, "of", s.planned, "errored", errored, "retried",
		s.retried, "sessions", s.sessions, "seconds", int(now.Sub(s.began).Seconds()))
}

// ledgerAttempts is the maximum number of requests for a ledger or a schema.
const ledgerAttempts = 6

func (s *shard) fetchLedger(ctx context.Context) (signed score.SignedLedger, err error) {
	for attempt := range ledgerAttempts {
		if signed, err = client.FetchLedger(ctx, s.pod, s.Plan.Run, s.Shard, s.clientOptions()); err == nil {
			return signed, nil
		}
		if err := s.Clock.backOff(ctx, attempt); err != nil {
			return signed, err
		}
	}
	return signed, fmt.Errorf("env pod %s: %w", s.pod, err)
}

// prepareAgent fetches the schema and rehearses. The server has compared its scenarios, grader and
// judge with the plan's.
func (s *shard) prepareAgent(ctx context.Context) error {
	if err := s.fetchSchema(ctx); err != nil {
		return err
	}
	return s.rehearseAgent(ctx)
}

// rehearseAgent plays a made-up episode with the agent before the plan's first one. Its tokens
// aren't counted: a run's tokens are the sum of its episodes'. It returns only ErrAgentRefused:
// after any other failure the episodes tell whether the agent can play.
func (s *shard) rehearseAgent(ctx context.Context) error {
	if s.Rehearse == nil || s.Shard != 0 {
		return nil
	}
	first := s.Plan.Tasks[0].Name
	err := s.tryOnce(ctx, func(ctx context.Context) error {
		seen, is, err := s.Rehearse(ctx, policy.Turn{Environment: s.Environment, Task: first, Schema: s.schema,
			Planned: score.PlannedEpisode{Task: first, Scenario: "trial", Seed: s.Plan.Seed}})
		if is && err == nil {
			s.seen = seen.String()
		}
		return err
	})
	if errors.Is(err, ErrAgentRefused) {
		return err
	}
	return ctx.Err()
}

// fetchSchema fetches the schema of the pool's actions.
func (s *shard) fetchSchema(ctx context.Context) error {
	var schema client.Schema
	var err error
	for attempt := range ledgerAttempts {
		if schema, err = client.FetchSchema(ctx, s.pod, "", s.clientOptions()); err == nil {
			break
		}
		if err := s.Clock.backOff(ctx, attempt); err != nil {
			return err
		}
	}
	s.schema = schema.Action
	return err
}

// makeSummary fetches the ledger and accounts for every planned episode.
func (s *shard) makeSummary(ctx context.Context) (score.Summary, error) {
	signed, err := s.fetchLedger(ctx)
	if err != nil {
		return score.Summary{}, err
	}
	summary := score.Summary{Ledger: signed, Retried: s.retried, Begun: s.begun, RetriedBy: s.retriedBy,
		Durations: s.durations, Tokens: s.tokens, Mute: s.mute, Counts: s.counts, Endpoint: s.seen,
		Unplayed: s.planned - s.ended}
	if s.LeftOut != nil {
		if left := s.LeftOut(); left != "" {
			summary.Endpoint = strings.TrimSpace(s.seen + " Requests leave out: " + left + ".")
		}
	}
	for _, class := range slices.Sorted(maps.Keys(s.errored)) {
		summary.Errored = append(summary.Errored, score.ErrorClass{Class: class, Episodes: *s.errored[class]})
	}
	return summary, s.checkSummary(summary)
}

// checkSummary checks the summary as the operator does, who alone can read a sealed ledger.
func (s *shard) checkSummary(summary score.Summary) error {
	if summary.Ledger.IsSealed() {
		return nil
	}
	key, err := score.ParsePublicKey(s.Plan.LedgerKey)
	if err != nil {
		return fmt.Errorf("reading the plan's ledger key: %w", err)
	}
	ledger, err := summary.Ledger.Verify(key)
	if err == nil {
		err = s.Plan.Check(s.Shard, ledger, summary)
	}
	if err != nil {
		return fmt.Errorf("checking the ledger of env pod %s: %w", s.pod, err)
	}
	return nil
}

// The backoff between attempts: full jitter below an exponential bound.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 8 * time.Second
)

// backOff waits before attempt n+1, n from 0.
func (c Clock) backOff(ctx context.Context, n int) error {
	return c.Sleep(ctx, c.jittered(firstBackoff, maxBackoff, n))
}

// jittered is a random part of the backoff before attempt n+1, n from 0.
func (c Clock) jittered(first, most time.Duration, n int) time.Duration {
	return endpoint.Backoff(first, most, n+1, c.Jitter)
}

var (
	// ErrAgentRefused means that the agent's endpoint refuses every request. Further attempts fail
	// until what endpoint.Error.Advice names is corrected.
	ErrAgentRefused = errors.New("the agent can't play")
	// ErrAgentUnavailable means that the agent's endpoint didn't answer within agentPatience.
	ErrAgentUnavailable = errors.New("the agent's endpoint can't be used")
)

const (
	// agentPatience is the maximum time of the trials of an endpoint that may be starting or
	// recovering.
	agentPatience = endpoint.Patience
	// confirmAfter is the pause before a refusal is confirmed, because starting gateways refuse
	// too.
	confirmAfter = 5 * time.Second
	// betweenTrials is the least time between two trials while episodes are played.
	betweenTrials = 30 * time.Second
)
