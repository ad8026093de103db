package ledger

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// Whatever has happened to ledgers, the one at the top of the order is the one that makeRoom
// describes: one that isn't needed, of the namespace that has most, of its run that has most, and
// of these the least useful and least recently used. Of what is gone, nothing is kept.
func TestOrderOfDeletion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := New(echo.Kind{}, nil, false)
		now := time.Now()
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			namespace := rapid.IntRange(0, 3).Draw(t, "namespace")
			id := fmt.Sprintf("%d-%d", namespace, rapid.IntRange(0, 3).Draw(t, "run"))
			if store.runs[id] == nil {
				store.storeRun(id, &run{share: store.shareOf(fmt.Sprint(namespace))})
			}
			l, err := store.openLedger(protocol.RunTag{Run: id, Shard: rapid.IntRange(0, 3).Draw(t, "shard")}, store.runs[id])
			if err != nil {
				t.Fatal(err)
			}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				_, _ = l.Finish(score.PlannedEpisode{Index: int64(step), Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: score.Scored})
			case 1:
				store.Fetched(l.key)
			case 2:
				store.deleteLedger(l)
			case 3:
				store.deleteLedger(store.order[0].runs[0].ledgers[0])
			case 4:
				l.touched = now.Add(-ledgerIdle)
				store.reorderLedger(l)
				store.Expire(now)
			}
			checkOrder(t, store)
		}
		for len(store.order) > 0 {
			store.deleteLedger(store.order[0].runs[0].ledgers[0])
			checkOrder(t, store)
		}
		if len(store.shares) > 0 || len(store.runs) > 0 || store.remembered != 0 || store.unread != 0 {
			t.Errorf("%d shares, %d runs and %d bytes are kept, %d ledgers are unread", len(store.shares),
				len(store.runs), store.remembered, store.unread)
		}
	})
}

// checkOrder compares the top of the order with all ledgers.
func checkOrder(t *rapid.T, store *Ledgers) {
	ofRun, ofShare, unread := map[*run]int{}, map[*share]int{}, 0
	for _, l := range store.byKey {
		ofRun[l.run]++
		ofShare[l.run.share]++
		if l.unread {
			unread++
		}
	}
	before := func(l, o *ShardLedger) bool {
		if (l.use == needed) != (o.use == needed) {
			return o.use == needed
		}
		return cmp.Or(cmp.Compare(ofShare[o.run.share], ofShare[l.run.share]), cmp.Compare(ofRun[o.run], ofRun[l.run]),
			cmp.Compare(l.use, o.use), l.touched.Compare(o.touched)) < 0
	}
	for _, l := range store.byKey {
		if first := store.order[0].runs[0].ledgers[0]; before(l, first) {
			t.Fatalf("%v (%d) goes before %v (%d)", l.key, l.use, first.key, first.use)
		}
	}
	if unread != store.unread || len(ofShare) != len(store.order) {
		t.Fatalf("%d are unread, want %d; %d shares, want %d", store.unread, unread, len(store.order), len(ofShare))
	}
}

// Room for a ledger costs the same however many there are: the store is locked meanwhile.
func BenchmarkMakeRoom(b *testing.B) {
	store := New(echo.Kind{}, nil, false)
	fillRuns(b, store, "run", maxLedgers, false)
	for i := 0; b.Loop(); i++ {
		fill(b, store, fmt.Sprintf("late-%d", i), 1, false)
	}
}
