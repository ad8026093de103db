package client_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/server"
)

// startTickets starts a server of tickets.
func startTickets(tb testing.TB, cfg openenv.Config) *server.Server {
	tb.Helper()
	kind, err := ticket.New(testkit.Catalog(tb), offline.New())
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Kind = kind
	return server.Start(tb, cfg)
}

// play plays actions and returns their answers and the state before the last one.
func play(tb testing.TB, c *client.Client, actions ...map[string]any) []any {
	tb.Helper()
	var answers []any
	for i, action := range actions {
		if i == len(actions)-1 {
			state, err := c.State(tb.Context())
			if err != nil {
				tb.Fatal(err)
			}
			answers = append(answers, string(state))
		}
		answer, err := c.Step(tb.Context(), action)
		if err != nil {
			tb.Fatal(err)
		}
		answers = append(answers, answer)
	}
	return answers
}

// begin begins an episode of a ticket and returns its last observation.
func begin(tb testing.TB, c *client.Client) client.Observation {
	tb.Helper()
	if _, err := c.Reset(tb.Context(), map[string]any{"seed": 3, "task": "ticket-resolve",
		"reward_mode": "dense", "episode_id": "E"}); err != nil {
		tb.Fatal(err)
	}
	last, err := c.Step(tb.Context(), map[string]any{"action_type": "classify", "category": "billing",
		"priority": "high"})
	if err != nil {
		tb.Fatal(err)
	}
	return last
}

var (
	searches = map[string]any{"action_type": "search_knowledge_base", "query": "refund charge"}
	resolves = map[string]any{"action_type": "resolve", "message": "I have refunded the duplicate charge."}
)

// Forks and restored sessions play on as the original does, each by itself.
func TestClientForks(t *testing.T) {
	s, other := startTickets(t, openenv.Config{}), startTickets(t, openenv.Config{})
	original := dialTest(t, s.URL)
	last := begin(t, original)
	ids, err := original.Fork(t.Context(), 2)
	if err != nil || len(ids) != 2 {
		t.Fatalf("forked into %v: %v", ids, err)
	}
	var sessions []*client.Client
	for _, id := range ids {
		fork, err := original.Attach(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, fork)
	}
	checkpoint, err := sessions[0].Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := dialTest(t, other.URL)
	if got, err := elsewhere.Restore(t.Context(), checkpoint); err != nil || cmp.Diff(last, got) != "" {
		t.Errorf("restored: %v %s", err, cmp.Diff(last, got))
	}
	want := play(t, original, searches, resolves)
	if end, ok := want[2].(client.Observation); !ok || !end.Done || !end.Metadata.Forked {
		t.Errorf("the episode ends with %+v", want[2])
	}
	for i, session := range append(sessions, elsewhere) {
		if diff := cmp.Diff(want, play(t, session, searches, resolves)); diff != "" {
			t.Errorf("copy %d: %s", i, diff)
		}
		_ = session.Close()
	}
	if s.Active() != 1 || other.Active() != 0 {
		t.Errorf("%d and %d sessions, want the original alone", s.Active(), other.Active())
	}
	late, err := original.Attach(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	var refused *client.ServerError
	if _, err := late.State(t.Context()); !errors.As(err, &refused) || refused.Code != protocol.CodeSession {
		t.Errorf("a fork that has ended: %v", err)
	}
}

// regraded is an environment with another grader.
type regraded struct{ echo.Kind }

func (regraded) GraderVersion() string { return "echo.2" }

func TestClientForkRefusals(t *testing.T) {
	s := server.Start(t, openenv.Config{})
	playing := func(url string, options any) *client.Client {
		c := dialTest(t, url)
		if _, err := c.Reset(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ready := playing(s.URL, nil)
	checkpoint, err := ready.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(checkpoint)
	changed[len(changed)/2] ^= 1
	long := playing(s.URL, nil)
	if _, err := long.Step(t.Context(), echo.Action{Kind: "say", Text: strings.Repeat("x", 70_000)}); err != nil {
		t.Fatal(err)
	}
	fork := func(n int) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error { _, err := c.Fork(ctx, n); return err }
	}
	restore := func(text string) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error { _, err := c.Restore(ctx, text); return err }
	}
	save := func(ctx context.Context, c *client.Client) error { _, err := c.Checkpoint(ctx); return err }
	planned := playing(s.URL, map[string]any{"run": "u", "shard": 0, "episode": 0})
	full := playing(server.Start(t, openenv.Config{MaxSessions: 2}).URL, nil)
	idle := func(cfg openenv.Config) *client.Client { return dialTest(t, server.Start(t, cfg).URL) }
	foreign := openenv.Config{LedgerKey: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	for name, tc := range map[string]struct {
		client *client.Client
		do     func(context.Context, *client.Client) error
		want   protocol.ForkRefusal
	}{
		"no forks":        {ready, fork(0), protocol.ForkCount},
		"too many forks":  {ready, fork(257), protocol.ForkCount},
		"no episode":      {dialTest(t, s.URL), fork(1), protocol.ForkNoEpisode},
		"a planned run":   {planned, save, protocol.ForkPlanned},
		"long actions":    {long, save, protocol.ForkTooLong},
		"plays already":   {ready, restore(checkpoint), protocol.ForkPlaying},
		"no slots":        {full, fork(2), protocol.ForkNoSlot},
		"a changed text":  {idle(openenv.Config{}), restore(string(changed)), protocol.ForkUnreadable},
		"a foreign pool":  {idle(foreign), restore(checkpoint), protocol.ForkUnreadable},
		"an older grader": {idle(openenv.Config{Kind: regraded{}}), restore(checkpoint), protocol.ForkOtherVersion},
		"a pool for runs": {idle(openenv.Config{RunsOnly: true, SharedKey: true}), restore(checkpoint), ""},
		"no text":         {idle(openenv.Config{}), restore(""), protocol.ForkUnreadable},
	} {
		var refused *client.ForkError
		if err := tc.do(t.Context(), tc.client); !errors.As(err, &refused) || refused.Reason != tc.want ||
			refused.Message == "" {
			t.Errorf("%s: %v, want the reason %q", name, err, tc.want)
		}
		if _, err := tc.client.State(t.Context()); err != nil {
			t.Errorf("%s: the session after the refusal: %v", name, err)
		}
	}
}

// scoresOf returns the scores of final actions on the same ticket.
func scoresOf(ctx context.Context, url string, actions ...map[string]any) ([]float64, error) {
	root, err := client.Dial(ctx, url, client.Options{})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := root.Reset(ctx, map[string]any{"task": "ticket-resolve", "scenario": "B07", "seed": 7}); err != nil {
		return nil, err
	}
	ids, err := root.Fork(ctx, len(actions))
	if err != nil {
		return nil, err // a *client.ForkError says why the server refuses
	}
	scores := make([]float64, len(ids))
	for i, id := range ids {
		fork, err := root.Attach(ctx, id)
		if err != nil {
			return nil, err
		}
		last, err := fork.Step(ctx, actions[i])
		_ = fork.Close()
		if err != nil {
			return nil, err
		}
		scores[i] = *last.Metadata.EpisodeScore
	}
	return scores, nil
}

// The example of docs/forking.md is scoresOf.
func TestDocumentedForks(t *testing.T) {
	scores, err := scoresOf(t.Context(), startTickets(t, openenv.Config{}).URL,
		map[string]any{"action_type": "escalate", "team": "finance"}, map[string]any{"action_type": "resolve"})
	if err != nil || len(scores) != 2 || scores[1] <= scores[0] {
		t.Errorf("scores %v, %v, want the second action to have the better one", scores, err)
	}
	page, err := os.ReadFile("../../../docs/forking.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := os.ReadFile("fork_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```go\n")
	code, _, found := strings.Cut(code, "```")
	if !found || !strings.Contains(string(sources), code) {
		t.Errorf("docs/forking.md has another example:\n%s", code)
	}
}
