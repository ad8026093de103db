//go:build conformance

package agent

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// settings returns the variables that litellm.sh sets.
func settings(t *testing.T) (url, key string) {
	t.Helper()
	url, key = os.Getenv("CONFORMANCE_LITELLM_URL"), os.Getenv("LITELLM_MASTER_KEY")
	if url == "" || key == "" {
		t.Fatal("no proxy is running: start this test with make conformance CONFORMANCEFLAGS='--suites agent'")
	}
	return url, key
}

var ledgerKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// kindOf returns the environment of a task.
func kindOf(t *testing.T, task string) episode.Kind {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	var kind episode.Kind
	if row, _ := tasks.Find(task); row.Environment == tasks.Ticket {
		kind, err = ticket.New(catalog, offline.New())
	} else {
		kind, err = workflow.New(catalog, offline.New())
	}
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// play plays two scenarios of the task with the model, on a new server.
func play(t *testing.T, task, model string, change func(*policy.OpenAIConfig, *policy.Options)) (*score.Ledger,
	score.Summary) {
	t.Helper()
	kind := kindOf(t, task)
	server, err := openenv.New(openenv.Config{Kind: kind, LedgerKey: ledgerKey, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	defer func() { server.Close(); front.Close() }()
	url, key := settings(t)
	c := policy.OpenAIConfig{BaseURL: url, Model: model, MaxTokens: 500}
	o := policy.Options{Environment: kind.Name(), Key: key, Concurrency: 2,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	if change != nil {
		change(&c, &o)
	}
	agent, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &c}, o)
	if err != nil {
		t.Fatal(err)
	}
	clock := rollout.SystemClock()
	clock.Sleep = o.Wait
	summary, err := rollout.Run(t.Context(), rollout.Config{
		Plan: planOf(t, kind, task), Environment: kind.Name(), Policy: agent.Play, Pods: func(context.Context) ([]string,
			error) {
			return []string{strings.TrimPrefix(front.URL, "http://")}, nil
		},
		Concurrency: 2, EpisodeAttempts: 4, Clock: clock, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := summary.Ledger.Verify(ledgerKey.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return ledger, summary
}

func planOf(t *testing.T, kind episode.Kind, task string) score.Plan {
	t.Helper()
	draft := score.Plan{
		Run: "run-1", Seed: 42, PassScore: 800_000, ScenarioDigest: kind.ScenarioDigest(),
		GraderVersion: kind.GraderVersion(), Judge: kind.Judge(),
		LedgerKey: score.FormatPublicKey(ledgerKey.Public().(ed25519.PublicKey)),
	}
	for _, offered := range kind.Tasks() {
		if offered.Name == task {
			draft.Tasks = []score.PlanTask{{Name: task, Trials: 1, Scenarios: []string{offered.Scenarios[0].ID,
				offered.Scenarios[1].ID}}}
		}
	}
	plan, err := score.NewPlan(draft, 1)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A model completes its episodes with tools, without tools, after failures and with several tool
// calls in one answer.
func TestModelsPlay(t *testing.T) {
	for _, task := range []string{"ticket-resolve", "queue-management", "payment-exception"} {
		for _, model := range []string{"player", "toolless", "flaky", "twice"} {
			t.Run(task+"/"+model, func(t *testing.T) {
				t.Parallel()
				ledger, summary := play(t, task, model, nil)
				t.Logf("%d scored, %d failed, errored %v, retried %v, %+v tokens, mean %s",
					ledger.Scored, ledger.Failed, summary.Errored, summary.RetriedBy, summary.Tokens, score.FormatDecimal(
						ledger.Tasks[0].Sum/2))
				if ledger.Scored != 2 || len(summary.Errored) > 0 || summary.Tokens.Prompt < 4000 ||
					summary.Tokens.Completion*10 != summary.Tokens.Prompt {
					t.Errorf("%d scored, %d failed, errored %v, %+v tokens", ledger.Scored, ledger.Failed,
						summary.Errored, summary.Tokens)
				}
			})
		}
	}
}

// In the mode JSON no tools are offered.
func TestModeJSON(t *testing.T) {
	ledger, summary := play(t, "ticket-resolve", "player",
		func(c *policy.OpenAIConfig, _ *policy.Options) { c.Mode = policy.ModeJSON })
	if ledger.Scored != 2 || len(summary.Errored) > 0 {
		t.Errorf("%d scored, %d failed, errored %v", ledger.Scored, ledger.Failed, summary.Errored)
	}
}

// Mistakes of the model are scored; failures of its endpoint are not.
func TestModelAndEndpointFailures(t *testing.T) {
	tests := map[string]struct {
		failed, scored int64
		class          string
		change         func(*policy.OpenAIConfig, *policy.Options)
	}{
		"mocked-calls": {scored: 2},
		"prose":        {failed: 2},
		"broken":       {failed: 2},
		"mocked-prose": {failed: 2},
		"down":         {class: score.ClassAgentUnavailable},
		"slow": {class: score.ClassAgentTimeout,
			change: func(c *policy.OpenAIConfig, _ *policy.Options) { c.TimeoutSeconds = 1 }},
		"mocked-throttled": {class: score.ClassAgentRateLimited},
		"mocked-broken":    {class: score.ClassAgentUnavailable},
		"mocked-too-long":  {class: score.ClassAgentError},
		"no-such-model":    {class: score.ClassAgentError},
		"player": {class: score.ClassAgentError,
			change: func(_ *policy.OpenAIConfig, o *policy.Options) { o.Key = "sk-wrong" }},
	}
	for model, tc := range tests {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			ledger, summary := play(t, "ticket-resolve", model, tc.change)
			if ledger.Scored != tc.scored || ledger.Failed != tc.failed {
				t.Errorf("%d scored and %d failed, want %d and %d", ledger.Scored, ledger.Failed, tc.scored, tc.failed)
			}
			if tc.class == "" && len(summary.Errored) > 0 || tc.class != "" &&
				(len(summary.Errored) != 1 || summary.Errored[0].Class != tc.class) {
				t.Errorf("errored %v, want %q", summary.Errored, tc.class)
			}
		})
	}
}
