package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// failing is a policy whose endpoint fails a number of times with a class, and then does nothing.
type failing struct {
	policy.Policy
	left *int
	err  error
}

func (f failing) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	if *f.left > 0 {
		*f.left--
		return nil, f.err
	}
	return f.Policy.Act(ctx, turn)
}

func (failing) Usage() score.Tokens { return score.Tokens{Prompt: 10, Completion: 1} }

// The wait depends on the failure: longest for a full endpoint, shorter for a failing one, shortest
// for others; and at least as long as the endpoint requests, within a limit.
func TestWaitsByClass(t *testing.T) {
	asked := func(after time.Duration) error {
		return &policy.EndpointError{Class: score.ClassAgentRateLimited, After: after, Err: errors.New("x")}
	}
	tests := map[string]struct {
		class string
		err   error
		waits []time.Duration
	}{
		"full": {score.ClassAgentRateLimited, &policy.EndpointError{Class: score.ClassAgentRateLimited,
			Err: errors.New("x")}, []time.Duration{2500 * time.Millisecond, 5 * time.Second, 10 * time.Second}},
		"asked for a minute": {score.ClassAgentRateLimited, asked(time.Minute),
			[]time.Duration{time.Minute, time.Minute, time.Minute}},
		"asked for a day": {score.ClassAgentRateLimited, asked(24 * time.Hour),
			[]time.Duration{maxAfter, maxAfter, maxAfter}},
		"down": {score.ClassAgentUnavailable, &policy.EndpointError{Class: score.ClassAgentUnavailable,
			Err: errors.New("x")}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		"late": {score.ClassAgentTimeout, &policy.EndpointError{Class: score.ClassAgentTimeout,
			Err: errors.New("x")}, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}},
		"wrong": {score.ClassAgentError, &policy.EndpointError{Class: score.ClassAgentError,
			Err: errors.New("x")}, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}},
		"broken": {score.ClassPolicy, errors.New("x"),
			[]time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { checkWaits(t, tc.class, tc.err, tc.waits) })
	}
}

func checkWaits(t *testing.T, class string, err error, waits []time.Duration) {
	t.Helper()
	tickets := ticketKind(t, offline.New())
	_, pod := serve(t, tickets, 0)
	cfg := config(t, only(t, tickets, "ticket-classify", 1, 1), policy.Oracle, pod)
	cfg.Concurrency, cfg.EpisodeAttempts = 1, 4
	var slept []time.Duration
	cfg.Clock.Sleep = func(ctx context.Context, d time.Duration) error {
		slept = append(slept, d)
		return ctx.Err()
	}
	left, inner := 3, cfg.Policy
	cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
		agent, failed := inner(planned)
		return failing{agent, &left, err}, failed
	}
	var recorded record.Episode
	cfg.Record = func(e record.Episode) { recorded = e }
	cfg.Tokens = score.Tokens{Prompt: 500, Completion: 50} // of earlier episodes
	ledger, summary := run(t, cfg)
	if ledger.Scored != 1 || summary.Retried != 3 || !cmp.Equal(summary.RetriedBy, map[string]int64{class: 3}) {
		t.Errorf("%d scored, retried %d, %v", ledger.Scored, summary.Retried, summary.RetriedBy)
	}
	if diff := cmp.Diff(waits, slept); diff != "" {
		t.Errorf("waits (-want +got)\n%s", diff)
	}
	if want := (score.Tokens{Prompt: 540, Completion: 54}); summary.Tokens != want {
		t.Errorf("%+v tokens, want those of all four attempts and of earlier episodes: %+v", summary.Tokens, want)
	}
	if want := (score.Tokens{Prompt: 40, Completion: 4}); recorded.Tokens == nil || *recorded.Tokens != want {
		t.Errorf("the record has %+v tokens, want %+v", recorded.Tokens, want)
	}
}

// An attempt has time for each step that its observation announces, and for refused actions, up to
// a limit.
func TestAttemptsHaveTimeForTheirSteps(t *testing.T) {
	tests := map[string]struct {
		episode, act time.Duration
		observation  string
		want         time.Duration
	}{
		"no bound":       {0, time.Minute, `{"max_steps": 10}`, 0},
		"a quick policy": {10 * time.Minute, 0, `{"max_steps": 10}`, 10 * time.Minute},
		"a model":        {10 * time.Minute, time.Minute, `{"max_steps": 10}`, 25 * time.Minute},
		"no steps":       {10 * time.Minute, time.Minute, `{}`, 15 * time.Minute},
		"a text":         {10 * time.Minute, time.Minute, `{"max_steps": "all"}`, 15 * time.Minute},
		"nothing":        {10 * time.Minute, time.Minute, ``, 15 * time.Minute},
		"too many":       {10 * time.Minute, time.Minute, `{"max_steps": 1000000}`, 1015 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &shard{Config: Config{EpisodeTimeout: tc.episode, ActTimeout: tc.act}}
			ctx, cancel := s.boundStep(t.Context(), client.Observation{Observation: json.RawMessage(tc.observation)})
			defer cancel()
			deadline, bounded := ctx.Deadline()
			if left := time.Until(deadline); bounded != (tc.want > 0) || bounded &&
				(left > tc.want || left < tc.want-time.Minute) {
				t.Errorf("%v left, want %v", left, tc.want)
			}
		})
	}
}

// If an agent exceeds its time, the episode has the agent's class of timeout.
func TestSlowAgentsTimeOut(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	for class, act := range map[string]time.Duration{score.ClassTimeout: 0, score.ClassAgentTimeout: time.Millisecond} {
		cfg := config(t, only(t, kind, "ticket-classify", 1, 1), policy.Oracle, pod)
		cfg.Plan.Run = class
		cfg.EpisodeAttempts, cfg.EpisodeTimeout, cfg.ActTimeout = 1, 200*time.Millisecond, act
		cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) { return sleeper{}, nil }
		_, summary := run(t, cfg)
		if classes := classesOf(summary); !slices.Equal(classes, []string{class}) {
			t.Errorf("errored by %v, want %s", classes, class)
		}
	}
}

type sleeper struct{}

func (sleeper) Act(ctx context.Context, _ policy.Turn) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func classesOf(s score.Summary) (classes []string) {
	for _, c := range s.Errored {
		classes = append(classes, c.Class)
	}
	return classes
}

// The classes of judges and of agents' endpoints are listed, so that metrics count them.
func TestClassesOfJudgesAndEndpointsAreListed(t *testing.T) {
	for _, class := range []string{
		string(grader.CauseFailed), string(grader.CauseUnparsable), string(grader.CauseTimeout),
		string(grader.CauseUnavailable), score.ClassAgentRateLimited, score.ClassAgentTimeout,
		score.ClassAgentUnavailable, score.ClassAgentError,
	} {
		if !slices.Contains(score.ErrorClasses(), class) {
			t.Errorf("class %s is not listed", class)
		}
	}
}

// quitting plays until a step, at which the agent refuses to go on.
type quitting struct {
	policy.Policy
	at  int
	own bool
}

func (q quitting) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	if turn.Step == q.at {
		return nil, &policy.EndpointError{Class: score.ClassAgentError, Own: q.own, Err: errors.New("400")}
	}
	return q.Policy.Act(ctx, turn)
}

// An agent can't take its moves back: if it has acted and then refuses to go on, the attempt counts
// as failed. If it hasn't acted, or a trial shows that its endpoint is down, the episode has no
// score and is played again.
func TestAgentCannotTakeItsMovesBack(t *testing.T) {
	tickets := ticketKind(t, offline.New())
	for name, tc := range map[string]struct {
		at              int
		model           bool
		try             error
		failed, retried int64
	}{
		"after it has acted":      {at: 1, failed: 1},
		"before it has acted":     {at: 0, retried: 9},
		"at a model's endpoint":   {at: 1, model: true, retried: 9},
		"while it can't be tried": {at: 1, try: errors.New("connection refused"), retried: 9},
	} {
		t.Run(name, func(t *testing.T) {
			_, pod := serve(t, tickets, 0)
			cfg := config(t, only(t, tickets, "ticket-resolve", 1, 1), policy.Oracle, pod)
			cfg.Concurrency, cfg.EpisodeAttempts = 1, 10
			inner, tried := cfg.Policy, false
			cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
				agent, err := inner(planned)
				return quitting{agent, tc.at, !tc.model}, err
			}
			cfg.Try = func(context.Context) error {
				if !tried {
					tried = true
					return nil
				}
				return tc.try
			}
			var recorded record.Episode
			cfg.Record = func(e record.Episode) { recorded = e }
			ledger, summary := run(t, cfg)
			if ledger.Failed != tc.failed || summary.Retried != tc.retried || ledger.Opened != tc.retried+1 ||
				summary.ErroredEpisodes() != 1-tc.failed {
				t.Errorf("%d failed, %d opened, %d retried, %d errored", ledger.Failed, ledger.Opened, summary.Retried,
					summary.ErroredEpisodes())
			}
			if got := recorded.Outcome == score.Failed; got != (tc.failed == 1) || got && recorded.Receipt == "" {
				t.Errorf("the record has outcome %s, receipt %q", recorded.Outcome, recorded.Receipt)
			}
		})
	}
}
