package ledger

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// elapse waits in simulated time.
func elapse(d time.Duration) { <-time.After(d) }

func TestFullLedgerRefuses(t *testing.T) {
	store := New(echo.Kind{}, nil)
	l, err := store.Open(protocol.RunTag{Run: "u"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(maxEnded) {
		l.ended[i] = struct{}{}
	}
	if _, err := store.Open(protocol.RunTag{Run: "u"}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("opened with %v", err)
	}
}

// fill opens the given number of ledgers of a run and ends an episode in each.
func fill(tb testing.TB, store *Ledgers, run string, shards int, ends bool) {
	tb.Helper()
	for i := range shards {
		l, err := store.Open(protocol.RunTag{Run: run, Shard: i})
		if err != nil {
			tb.Fatal(err)
		}
		l.Begin()
		if ends {
			finish(tb, l, 0)
		}
	}
}

func finish(tb testing.TB, l *ShardLedger, index int64) {
	tb.Helper()
	if _, err := l.Finish(score.PlannedEpisode{Index: index, Task: "talk", Scenario: "E01"},
		score.Episode{Outcome: score.Scored}); err != nil {
		tb.Fatal(err)
	}
}

// A new ledger replaces an empty one, then a fetched one, then an abandoned one, and never one that
// a runner will still fetch.
func TestUselessLedgersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New(echo.Kind{}, nil)
		fill(t, store, "needed", maxLedgers-2, true)
		fill(t, store, "fetched", 1, true)
		if _, err := store.Sign(Key{"fetched", 0}, echo.LedgerKey()); err != nil {
			t.Fatal(err)
		}
		store.Fetched(Key{"fetched", 0})
		fill(t, store, "empty", 1, false)
		for _, gone := range []string{"fetched", "empty"} {
			fill(t, store, "instead of "+gone, 1, true)
			if store.byKey[Key{gone, 0}] != nil {
				t.Errorf("the %s ledger still exists", gone)
			}
		}
		if _, err := store.Open(protocol.RunTag{Run: "late"}); !errors.Is(err, ErrFull) {
			t.Errorf("a ledger beyond the maximum was opened with %v", err)
		}
		if _, err := store.AddReceipts(protocol.RunTag{Run: "late"}, true, nil); !errors.Is(err, ErrFull) {
			t.Errorf("a ledger beyond the maximum was opened for receipts with %v", err)
		}
		if _, err := store.Open(protocol.RunTag{Run: "needed", Shard: 5}); err != nil {
			t.Errorf("an existing ledger: %v", err)
		}
		elapse(ledgerIdle)
		fill(t, store, "late", 1, true)
		if got := store.Figures().Open; got != maxLedgers || store.byKey[Key{"needed", 5}] == nil {
			t.Errorf("%d ledgers, or the last used one is missing", got)
		}
	})
}

// Neither invented runs nor many finished ones prevent a new run.
func TestManyRunsDoNotPreventNewOnes(t *testing.T) {
	for name, ends := range map[string]bool{"invented runs": false, "finished runs": true} {
		store := New(echo.Kind{}, nil)
		for i := range maxLedgers + 100 {
			run := fmt.Sprintf("run-%d", i)
			fill(t, store, run, 1, ends)
			store.Fetched(Key{run, 0})
		}
		fill(t, store, "real", 1, true)
		if _, err := store.Sign(Key{"real", 0}, echo.LedgerKey()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An episode whose ledger was deleted before its end is counted once.
func TestLedgerReturnsWithAnEpisode(t *testing.T) {
	store := New(echo.Kind{}, nil)
	first, err := store.Open(protocol.RunTag{Run: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	first.Begin()
	fill(t, store, "invented", maxLedgers, false)
	if store.byKey[first.key] != nil {
		t.Fatal("the empty ledger still exists")
	}
	finish(t, first, 0)
	second, err := store.Open(protocol.RunTag{Run: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	second.Begin()
	finish(t, second, 1)
	finish(t, first, 1)
	if l := store.byKey[first.key]; l.sums.Scored != 2 || l.sums.Opened != 2 || l.sums.Replayed != 1 {
		t.Errorf("%d scored of %d opened, %d replayed", l.sums.Scored, l.sums.Opened, l.sums.Replayed)
	}
	if got := store.Figures().Open; got != maxLedgers {
		t.Errorf("%d ledgers, want %d", got, maxLedgers)
	}
}

// Receipts of another shard create no ledger.
func TestForeignReceiptsOpenNoLedger(t *testing.T) {
	store := New(echo.Kind{}, nil)
	r := score.Receipt{Run: "other", ScenarioDigest: store.scenarioDigest, GraderVersion: store.graderVersion,
		Judge: store.judge}
	if _, err := store.AddReceipts(protocol.RunTag{Run: "made-up"}, false, []score.Receipt{r}); err == nil {
		t.Error("the receipt of another run is counted")
	}
	if got := store.Figures().Open; got != 0 {
		t.Errorf("%d ledgers", got)
	}
}

// For any order of concurrent ends of episodes, each index counts once.
func TestConcurrentEndsCountOnce(t *testing.T) {
	store := New(echo.Kind{}, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l, err := store.Open(protocol.RunTag{Run: "u"})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range int64(100) {
				l.Begin()
				if _, err := l.Finish(score.PlannedEpisode{Index: i, Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: score.Scored}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sums := store.byKey[Key{"u", 0}].sums
	if sums.Scored != 100 || sums.Replayed != 700 || sums.Opened != 800 {
		t.Errorf("%d scored, %d replayed, %d opened", sums.Scored, sums.Replayed, sums.Opened)
	}
}

func TestRunReportsAreBounded(t *testing.T) {
	store := New(echo.Kind{}, nil)
	for i := range score.MaxRunReports + 10 {
		l, err := store.Open(protocol.RunTag{Run: fmt.Sprintf("run-%03d", i), PassScore: 1})
		if err != nil {
			t.Fatal(err)
		}
		l.touched = time.Unix(int64(i), 0)
	}
	got := store.RunReports(nil)
	if len(got) != score.MaxRunReports || got[0].Run != "run-010" || got[len(got)-1].Run != "run-265" {
		t.Errorf("%d runs from %s, want the %d most recent ones", len(got), got[0].Run, score.MaxRunReports)
	}
}
