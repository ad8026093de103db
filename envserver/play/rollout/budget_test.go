package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
)

// answers is the budget of the tests, in answers of the scripted endpoint.
const answers = 60

// budgets are those for the answers, in tokens and in money.
func budgets() map[string]score.Budget {
	return map[string]score.Budget{
		"tokens": {MaxTokens: answers * (scripted.PromptTokens + scripted.CompletionTokens)},
		"money":  {MaxCost: "0.0102", Prices: score.Prices{Input: "1", Output: "10"}}, // 170 millionths an answer
	}
}

// classifying is a plan of 200 episodes of one request each, in shards.
func classifying(t *testing.T, shards int) score.Plan {
	t.Helper()
	p, err := score.NewPlan(only(t, ticketKind(t, offline.New()), "ticket-classify", 40, 5), shards)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// meterOf is what a runner of a shard makes of the budget.
func meterOf(b score.Budget, p score.Plan, shard int) *Meter {
	var episodes int64
	for range p.Shard(shard) {
		episodes++
	}
	return NewMeter(b.Share(episodes, p.Episodes()))
}

// However many runners and sessions play a run, its requests exceed the budget by one for each
// runner at most. Every episode ended, or is reported as not played.
func TestBudgetStopsRunners(t *testing.T) {
	_, pod := serve(t, ticketKind(t, offline.New()), 0)
	for name, budget := range budgets() {
		for _, runners := range []int{1, 4, 16} {
			for _, sessions := range []int{1, 16} {
				t.Run(fmt.Sprintf("%s, %d runners, %d sessions", name, runners, sessions), func(t *testing.T) {
					p := classifying(t, runners)
					p.Run = t.Name()
					model := newModel(t, p, policy.Heuristic)
					var played, unplayed, prompt atomic.Int64
					var group errgroup.Group
					for shard := range p.Shards {
						group.Go(func() error {
							cfg := config(t, p, policy.Heuristic, pod)
							cfg.Shard, cfg.Concurrency, cfg.Meter = shard, sessions, meterOf(budget, p, shard)
							cfg.Policy = model.agent(t, "ticket", sessions, nil)
							summary, err := Run(t.Context(), cfg)
							if err != nil {
								return err
							}
							l := ledgerOf(t, summary)
							played.Add(l.Scored + l.Failed)
							unplayed.Add(summary.Unplayed)
							prompt.Add(summary.Tokens.Prompt)
							return nil
						})
					}
					if err := group.Wait(); err != nil {
						t.Fatal(err)
					}
					over := model.Calls() - answers
					if over < 0 || over > int64(runners) {
						t.Errorf("%d requests, %d above the budget", model.Calls(), over)
					}
					if played.Load() != model.Calls() || played.Load()+unplayed.Load() != p.Episodes() {
						t.Errorf("%d episodes played by %d requests, and %d not played", played.Load(), model.Calls(),
							unplayed.Load())
					}
					if prompt.Load() != model.Calls()*scripted.PromptTokens {
						t.Errorf("%d tokens of %d prompts", prompt.Load(), model.Calls())
					}
					t.Logf("overshoot: %d requests", over)
				})
			}
		}
	}
}

// A runner that takes a stopped one's place continues the shard with what is left of its share, and
// reports the tokens of both. It may lose those of requests that were in flight.
func TestBudgetOutlivesARunner(t *testing.T) {
	pod, secrets := serveShared(t, ticketKind(t, offline.New()))
	p := classifying(t, 1)
	model := newModel(t, p, policy.Heuristic)
	model.Episodes = nil
	budget := budgets()["tokens"]
	cfg := config(t, p, policy.Heuristic, pod)
	cfg.Credential, cfg.Concurrency = secrets.RunCredential(p.Run, poolkey.Grant{Plan: fingerprint(t, p)}), 1
	for _, stopped := range []int64{20, 40} {
		ctx, stop := context.WithCancel(t.Context())
		model.Trouble = func(http.ResponseWriter, *http.Request, scripted.Request) bool {
			if model.Calls() == stopped {
				stop()
			}
			return false
		}
		cfg.Policy, cfg.Meter = model.agent(t, "ticket", 1, nil), meterOf(budget, p, 0)
		if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Fatalf("the runner was not stopped: %v", err)
		}
	}
	model.Trouble, cfg.Meter = nil, meterOf(budget, p, 0)
	cfg.Policy = model.agent(t, "ticket", 1, nil)
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const inFlight = 2
	if got := model.Calls(); got < answers || got > answers+inFlight {
		t.Errorf("%d requests with a budget of %d", got, answers)
	}
	if got := summary.Tokens.Prompt; got < answers*scripted.PromptTokens || got > model.Calls()*scripted.PromptTokens {
		t.Errorf("%d tokens of prompts are reported of %d requests", got, model.Calls())
	}
	l := ledgerOf(t, summary)
	if lost := l.Opened - l.Scored - l.Failed - summary.Begun - summary.Retried; lost > 0 {
		t.Errorf("%d attempts are not reported", lost)
	}
}

// growing is an agent whose requests cost more and more.
type growing struct {
	policy.Policy
	used     score.Tokens
	requests *atomic.Int64
}

func (g *growing) Usage() score.Tokens { return g.used }

func (g *growing) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	g.used.Prompt += 100 + g.requests.Add(1)
	return g.Policy.Act(ctx, turn)
}

// Near the end of a budget requests are made one at a time, so that even sixteen sessions whose
// requests grow exceed it by little more than one.
func TestBudgetAllowsForLargerRequests(t *testing.T) {
	_, pod := serve(t, ticketKind(t, offline.New()), 0)
	p := classifying(t, 1)
	heuristic, requests := builtin(t, policy.Heuristic), &atomic.Int64{}
	cfg := config(t, p, policy.Heuristic, pod)
	cfg.Concurrency, cfg.Meter = 16, meterOf(score.Budget{MaxTokens: 8000}, p, 0)
	cfg.Policy = func(planned score.PlannedEpisode) (policy.Policy, error) {
		agent, err := heuristic(planned)
		return &growing{Policy: agent, requests: requests}, err
	}
	_, summary := run(t, cfg)
	if used, largest := summary.Tokens.Prompt, 100+requests.Load(); used < 8000 || used >= 8000+2*largest {
		t.Errorf("%d tokens are used of 8000, and a request costs up to %d", used, largest)
	}
	if summary.Unplayed == 0 {
		t.Error("the budget stopped nothing")
	}
}
