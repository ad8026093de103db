package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// episodeTimeout bounds an attempt at an episode. A built-in policy takes milliseconds, so that whatever takes longer hangs.
const episodeTimeout = 10 * time.Minute

// play plays the shard.
func play(ctx context.Context, o options, log *slog.Logger) (score.Summary, error) {
	data, err := os.ReadFile(o.plan)
	if err != nil {
		return score.Summary{}, fmt.Errorf("reading the plan: %w", err)
	}
	plan, err := score.ParsePlan(data)
	if err != nil {
		return score.Summary{}, err
	}
	environment, agent, err := agentFor(plan, o.policy)
	if err != nil {
		return score.Summary{}, err
	}
	host, port, err := net.SplitHostPort(o.pool)
	if err != nil {
		return score.Summary{}, fmt.Errorf("reading --pool: %w", err)
	}
	cfg := rollout.Config{
		Plan: plan, Shard: o.shard, Environment: environment, Policy: agent, Pods: pods(host, port),
		Concurrency: o.concurrency, EpisodeAttempts: o.episodeAttempts, EpisodeTimeout: episodeTimeout, Clock: rollout.SystemClock(), Log: log,
	}
	if o.episodes != "" {
		file, err := os.OpenFile(o.episodes, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return score.Summary{}, fmt.Errorf("opening --episodes: %w", err)
		}
		defer file.Close()
		cfg.Record = recorder(file, log)
	}
	summary, err := rollout.Run(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("the runner was told to stop: %w", err)
	}
	return summary, err
}

// recorder writes episodes to out. What can't be written is logged: a full disk must not cost a score.
func recorder(out io.Writer, log *slog.Logger) func(record.Episode) {
	w := record.NewWriter(out)
	return func(e record.Episode) {
		if err := w.Write(e); err != nil {
			log.Error("An episode is not recorded", "error", err)
		}
	}
}

// agentFor finds the environment of the plan's tasks and the policy that plays it.
func agentFor(plan score.Plan, name string) (string, policy.Factory, error) {
	environment := policy.EnvironmentOf(plan.Tasks[0].Name)
	if environment == "" {
		return "", nil, fmt.Errorf("the plan's task %q is none that a built-in policy can play", plan.Tasks[0].Name)
	}
	var catalog *scenarios.Catalog
	if name == policy.Oracle {
		var err error
		if catalog, err = scenarios.Public(); err != nil {
			return "", nil, fmt.Errorf("loading the catalogue: %w", err)
		}
	}
	agent, err := policy.Builtin(name, environment, catalog)
	return environment, agent, err
}

// pods looks the addresses of a headless Service up: one for each pod.
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
