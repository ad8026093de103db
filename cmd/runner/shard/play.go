package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/results/buckets"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
	"github.com/csenv/csenv/envserver/tracing/otlp"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// episodeTimeout bounds an attempt at an episode, not counting the agent's own time. A built-in
// policy takes milliseconds.
const episodeTimeout = 10 * time.Minute

// playShard plays the shard.
func playShard(ctx context.Context, o options, traces *otlp.Tracing, log *slog.Logger) (score.Summary, error) {
	o, err := o.resolved()
	if err != nil {
		return score.Summary{}, err
	}
	data, err := os.ReadFile(o.plan)
	if err != nil {
		return score.Summary{}, fmt.Errorf("reading the plan: %w", err)
	}
	if got := score.InputsDigest(data, []byte(o.agent)); o.inputs != "" && got != o.inputs {
		return score.Summary{}, fmt.Errorf("the plan in %s or the agent is not the one that the Job was created for "+
			"(digest %s, not %s): the operator replaces a changed ConfigMap; find out what changes it", o.plan, got,
			o.inputs)
	}
	plan, err := score.ParsePlan(data)
	if err != nil {
		return score.Summary{}, err
	}
	host, port, err := net.SplitHostPort(o.pool)
	if err != nil {
		return score.Summary{}, fmt.Errorf("reading --pool: %w", err)
	}
	secrets, err := readSecrets(o)
	if err != nil {
		return score.Summary{}, err
	}
	cfg := rollout.Config{
		Plan: plan, PlanText: data, Shard: o.shard, Pods: newPodResolver(host, port),
		Token: firstToken(secrets.poolToken), Credential: secrets.credential,
		Concurrency:     o.concurrency,
		EpisodeAttempts: o.episodeAttempts, EpisodeTimeout: episodeTimeout, Clock: rollout.SystemClock(), Log: log,
	}
	if err := configureAgent(&cfg, o, secrets.agentKey); err != nil {
		return score.Summary{}, err
	}
	if cfg.Meter, err = newMeter(o, plan); err != nil {
		return score.Summary{}, err
	}
	stored := storeEpisodes(ctx, &cfg, o, log)
	summary, err := traceShard(ctx, traces, cfg)
	summary.Stored = stored(ctx)
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", errStopped, err)
	}
	return summary, err
}

// newMeter stops the shard when its share of --budget is used up, nil without a budget.
func newMeter(o options, plan score.Plan) (*rollout.Meter, error) {
	if o.budget == "" {
		return nil, nil
	}
	var budget score.Budget
	if err := json.Unmarshal([]byte(o.budget), &budget); err != nil {
		return nil, fmt.Errorf("reading --budget: %w", err)
	}
	all := plan.Episodes()
	if o.shards != "" {
		set, err := score.ParseIndexSet(o.shards)
		if err != nil {
			return nil, fmt.Errorf("reading --shards: %w", err)
		}
		all = 0
		for shard := range set.All {
			all += countEpisodes(plan, int(shard))
		}
	}
	return rollout.NewMeter(budget.Share(countEpisodes(plan, o.shard), all)), nil
}

// openAttempts is the number of attempts to open a store.
const openAttempts = 3

// storeEpisodes stores the shard's episodes in --results, and resumes from the stored ones. After
// the shard was played, the returned function reports what is stored. A failure of the store never
// stops a runner.
func storeEpisodes(
	ctx context.Context,
	cfg *rollout.Config,
	o options,
	log *slog.Logger,
) func(context.Context) score.Stored {
	if o.results == "" {
		return func(context.Context) score.Stored { return score.Stored{} }
	}
	shard, err := openStore(ctx, cfg, o, log)
	for attempt := 1; err != nil && attempt < openAttempts && ctx.Err() == nil; attempt++ {
		log.Warn("The results can't be stored yet", "attempt", attempt, "error", err)
		if cfg.Clock.Sleep(ctx, time.Duration(attempt)*time.Second) == nil {
			shard, err = openStore(ctx, cfg, o, log)
		}
	}
	if err != nil {
		log.Error("The results are not stored", "error", err)
		return func(context.Context) score.Stored { return score.Stored{Error: err.Error()} }
	}
	cfg.Receipts, cfg.Tokens, cfg.Record = shard.Receipts(), shard.Tokens(), shard.Record
	return func(ctx context.Context) score.Stored {
		stored := shard.Close(ctx, countEpisodes(cfg.Plan, cfg.Shard))
		log.Info("Stored", "shard", cfg.Shard, "episodes", stored.Episodes, "error", stored.Error)
		return stored
	}
}

func openStore(ctx context.Context, cfg *rollout.Config, o options, log *slog.Logger) (*results.Shard, error) {
	if err := useStoreCredentials(o, log); err != nil {
		return nil, err
	}
	s, err := buckets.Open(ctx, o.results)
	if err != nil {
		return nil, err
	}
	manifest := results.Manifest{Environment: cfg.Environment, Plan: cfg.Plan, Agent: []byte(o.agent),
		Limits: []byte(o.limits), Runner: version, Written: cfg.Clock.Now()}
	if err := s.WriteManifest(ctx, "", manifest); err != nil {
		return nil, err
	}
	shard, err := s.Shard(ctx, "", cfg.Plan, cfg.Shard, log)
	if err != nil {
		return nil, fmt.Errorf("reading what is stored of the shard: %w", err)
	}
	return shard, nil
}

func countEpisodes(plan score.Plan, shard int) int64 {
	var n int64
	for range plan.Shard(shard) {
		n++
	}
	return n
}

// traceShard plays the shard within its span.
func traceShard(ctx context.Context, traces *otlp.Tracing, cfg rollout.Config) (score.Summary, error) {
	ctx, span := traces.Shard(ctx, cfg.Plan.Run, cfg.Shard)
	defer span.End()
	summary, err := rollout.Run(ctx, cfg)
	if err != nil {
		tracing.FailSpan(span, nameShardError(err))
	}
	return summary, err
}

// nameShardError names the error of a shard.
func nameShardError(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped"
	case errors.Is(err, rollout.ErrAgentRefused):
		return "agent_refused"
	case errors.Is(err, rollout.ErrAgentUnavailable):
		return "agent_unavailable"
	case errors.Is(err, rollout.ErrPoolChanged):
		return "pool_changed"
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// firstToken is the first of a Secret's tokens. A pool accepts several during a rotation, and any
// of them is valid.
func firstToken(lines string) string {
	if tokens := strings.Fields(lines); len(tokens) > 0 {
		return tokens[0]
	}
	return ""
}

// resolved returns the options with the plan's own index of the shard, and with the agent's JSON
// read from its file.
func (o options) resolved() (options, error) {
	if file, isFile := strings.CutPrefix(o.agent, "@"); isFile {
		data, err := os.ReadFile(file) //nolint:gosec // the file is named by a flag
		if err != nil {
			return o, fmt.Errorf("reading --agent: %w", err)
		}
		o.agent = string(data)
	}
	if o.shards == "" {
		return o, nil
	}
	set, err := score.ParseIndexSet(o.shards)
	if err != nil {
		return o, fmt.Errorf("reading --shards: %w", err)
	}
	shard, ok := set.At(int64(o.shard))
	if !ok {
		return o, fmt.Errorf("--shard %d is not within the %d of --shards %s", o.shard, set.Len(), o.shards)
	}
	o.shard = int(shard)
	return o, nil
}

// configureAgent finds the environment of the plan's tasks and makes the agent that plays it.
func configureAgent(cfg *rollout.Config, o options, key string) error {
	task, known := tasks.Find(cfg.Plan.Tasks[0].Name)
	cfg.Environment = task.Environment
	if !known {
		return fmt.Errorf("a runner can't play the plan's task %q: use an image of the operator's release",
			cfg.Plan.Tasks[0].Name)
	}
	agent, err := policy.ParseConfig([]byte(o.agent))
	if err != nil {
		return fmt.Errorf("reading --agent: %w", err)
	}
	setting := policy.Options{Environment: cfg.Environment, Key: key, Share: o.agentShare,
		Concurrency: o.concurrency, IDKey: poolkey.IDKey(cfg.Credential)}
	if agent.Builtin != nil && agent.Builtin.Policy == policy.Oracle {
		if setting.Catalog, err = scenarios.LoadPublic(); err != nil {
			return fmt.Errorf("loading the catalogue: %w", err)
		}
	}
	cfg.Identity = agent.Identity()
	cfg.ActTimeout = agent.ActTimeout(setting)
	made, err := policy.New(agent, setting)
	if err != nil {
		return err
	}
	cfg.Policy, cfg.Try, cfg.Rehearse, cfg.LeftOut = made.Play, made.Try, made.Rehearse, made.LeftOut
	return nil
}

// newPodResolver looks up the addresses of a headless Service, one for each pod.
func newPodResolver(host, port string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		addresses, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		for i, address := range addresses {
			addresses[i] = net.JoinHostPort(address, port)
		}
		return addresses, nil
	}
}
