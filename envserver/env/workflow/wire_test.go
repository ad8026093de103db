package workflow_test

import (
	"crypto/ed25519"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/desk"
)

// TestPenaltiesReachTheClient plays wrong actions through a server: rewards are negative, and the
// score of the episode is 0.
func TestPenaltiesReachTheClient(t *testing.T) {
	catalog := testkit.Catalog(t)
	kind, err := workflow.New(catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	server, err := openenv.New(openenv.Config{Kind: kind,
		LedgerKey: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	h := httptest.NewServer(server.Handler())
	t.Cleanup(h.Close)
	session, err := client.Dial(t.Context(), h.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if _, err := session.Reset(t.Context(), map[string]any{"seed": 0, "task": "order-inquiry",
		"scenario": "C01", "reward_mode": "dense"}); err != nil {
		t.Fatal(err)
	}
	var rewards []float64
	var last client.Observation
	for range 6 {
		last, err = session.Step(t.Context(), map[string]any{"action_type": desk.Escalating,
			"payload": map[string]any{"team": "finance"}})
		if err != nil {
			t.Fatal(err)
		}
		rewards = append(rewards, last.Reward)
	}
	if diff := cmp.Diff([]float64{-0.1, -0.1, -0.1, -0.1, -0.1, -0.3}, rewards); diff != "" {
		t.Errorf("rewards on the wire (-want +got):\n%s", diff)
	}
	if !last.Done || last.Metadata.EpisodeScore == nil || *last.Metadata.EpisodeScore != 0 {
		t.Errorf("last = %+v, want done with a score of 0", last)
	}
}
