package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/envserver/tracing/otlp"
	"github.com/csenv/csenv/scenarios"
)

// episodeTimeout bounds an attempt at an episode, not counting the agent's own time. A built-in
// policy takes milliseconds.
const episodeTimeout = 10 * time.Minute

// play plays the shard.
func play(ctx context.Context, o options, traces *otlp.Tracing, log *slog.Logger) (score.Summary, error) {
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
	cfg := rollout.Config{
		Plan: plan, Shard: o.shard, Pods: pods(host, port), Token: firstToken(os.Getenv(envvars.PoolToken)),
		Credential:      os.Getenv(envvars.RunCredential),
		Concurrency:     o.concurrency,
		EpisodeAttempts: o.episodeAttempts, EpisodeTimeout: episodeTimeout, Clock: rollout.SystemClock(), Log: log,
	}
	if err := configureAgent(&cfg, o); err != nil {
		return score.Summary{}, err
	}
	stored := store(ctx, &cfg, o, log)
	summary, err := traced(ctx, traces, cfg)
	summary.Stored = stored(ctx)
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", errStopped, err)
	}
	return summary, err
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
func configureAgent(cfg *rollout.Config, o options) error {
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
	setting := policy.Options{Environment: cfg.Environment, Key: os.Getenv(envvars.AgentKey), Share: o.agentShare,
		Concurrency: o.concurrency, IDKey: poolkey.IDKey(cfg.Credential)}
	if agent.Builtin != nil && agent.Builtin.Policy == policy.Oracle {
		if setting.Catalog, err = scenarios.Public(); err != nil {
			return fmt.Errorf("loading the catalogue: %w", err)
		}
	}
	cfg.Identity = agent.Identity()
	cfg.ActTimeout = agent.ActTimeout(setting)
	made, err := policy.New(agent, setting)
	if err != nil {
		return err
	}
	cfg.Policy, cfg.Try, cfg.Rehearse = made.Play, made.Try, made.Rehearse
	return nil
}

// pods looks up the addresses of a headless Service, one for each pod.
func pods(host, port string) func(context.Context) ([]string, error) {
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
