package rollout

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// broken plays a shard until n episodes have ended, and returns their receipts.
func broken(t *testing.T, cfg Config, n int) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var receipts []string
	cfg.Concurrency = 1
	cfg.Record = func(e record.Episode) {
		mu.Lock()
		defer mu.Unlock()
		if receipts = append(receipts, e.Receipt); len(receipts) == n {
			cancel()
		}
	}
	if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("Run() error = %v, want that it was stopped", err)
	}
	return receipts
}

// An interrupted shard is resumed on its server, or on another one with the receipts, and has the
// ledger of an uninterrupted one.
func TestResumes(t *testing.T) {
	kind := ticketKind(t, offline.New())
	p := plan(t, kind, 4, 2, 1)
	all := int(p.Episodes())
	_, undisturbed := serve(t, kind, 0)
	summary, err := Run(t.Context(), config(t, p, policy.Heuristic, undisturbed))
	if err != nil {
		t.Fatal(err)
	}
	want := ledgerOf(t, summary)
	cases := map[string]struct {
		played, handed int
		samePod        bool
		again          int
	}{
		"on its pod":                             {10, 0, true, all - 10},
		"on its pod, which needs no receipts":    {10, 7, true, all - 10},
		"on another pod":                         {10, 10, false, all - 10},
		"on another pod, with less than all":     {10, 6, false, all - 6},
		"on another pod, with nothing":           {10, 0, false, all},
		"with nothing left to play":              {all - 1, all - 1, false, 1},
		"with nothing that was ever interrupted": {0, 0, false, all},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, pod := serve(t, kind, 0)
			cfg := config(t, p, policy.Heuristic, pod)
			if tc.played > 0 {
				cfg.Receipts = broken(t, cfg, tc.played)[:tc.handed]
			}
			if !tc.samePod {
				_, pod = serve(t, kind, 0)
				cfg.Pods = func(context.Context) ([]string, error) { return []string{pod}, nil }
			}
			var records atomic.Int64
			cfg.Record = func(record.Episode) { records.Add(1) }
			summary, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := ledgerOf(t, summary)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(score.Ledger{}, "Opened")); diff != "" ||
				got.Opened < want.Opened || got.Opened > want.Opened+1 {
				t.Errorf("opened %d; (-undisturbed +gone on)\n%s", got.Opened, diff)
			}
			if records.Load() != int64(tc.again) {
				t.Errorf("%d episodes were played, want %d", records.Load(), tc.again)
			}
		})
	}
}

// A shard that is complete on its server is not played again.
func TestNothingLeftToPlay(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	cfg := config(t, plan(t, kind, 3, 1, 1), policy.Oracle, pod)
	for range 2 {
		summary, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatalf("Run() error = %v", err)
		}
		if l := ledgerOf(t, summary); l.Scored != 9 || l.Replayed != 0 || l.Opened != 9 {
			t.Errorf("%d scored, %d replayed, %d opened; want 9, 0, 9", l.Scored, l.Replayed, l.Opened)
		}
		cfg.Policy = func(score.PlannedEpisode) (policy.Policy, error) {
			return nil, errors.New("an episode is played again")
		}
	}
}

// If a server refuses the receipts, the shard is played again.
func TestRefusedReceipts(t *testing.T) {
	kind := ticketKind(t, offline.New())
	_, pod := serve(t, kind, 0)
	cfg := config(t, plan(t, kind, 2, 1, 1), policy.Oracle, pod)
	cfg.Receipts = broken(t, cfg, 3)
	server, err := openenv.New(openenv.Config{Kind: kind,
		LedgerKey: ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32))), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	defer server.Close()
	defer front.Close()
	other := strings.TrimPrefix(front.URL, "http://")
	cfg.Pods = func(context.Context) ([]string, error) { return []string{other}, nil }
	otherKey := ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32)))
	cfg.Plan.LedgerKey = score.FormatPublicKey(otherKey.Public().(ed25519.PublicKey))
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary.Durations.Count(); got != cfg.Plan.Episodes() {
		t.Errorf("%d episodes were played, want all %d", got, cfg.Plan.Episodes())
	}
}
