package ledger

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
)

// elapse waits in simulated time.
func elapse(d time.Duration) { <-time.After(d) }

func TestFullLedgerRefuses(t *testing.T) {
	store := New(echo.Kind{}, nil, false)
	l, err := store.Open(protocol.RunTag{Run: "u"}, score.PlannedEpisode{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(maxEnded) {
		l.ended[i] = struct{}{}
	}
	if _, err := store.Open(protocol.RunTag{Run: "u"}, score.PlannedEpisode{}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("opened with %v", err)
	}
}

// fill opens the given number of ledgers of a run and ends an episode in each.
func fill(tb testing.TB, store *Ledgers, run string, shards int, ends bool) {
	tb.Helper()
	for i := range shards {
		l, err := store.Open(protocol.RunTag{Run: run, Shard: i}, score.PlannedEpisode{})
		if err != nil {
			tb.Fatal(err)
		}
		l.Begin()
		if ends {
			finish(tb, l, 0)
		}
	}
}

// fillRuns opens a ledger of each of the given number of runs, and ends an episode in each.
func fillRuns(tb testing.TB, store *Ledgers, run string, runs int, ends bool) {
	tb.Helper()
	for i := range runs {
		fill(tb, store, fmt.Sprintf("%s-%d", run, i), 1, ends)
	}
}

func finish(tb testing.TB, l *ShardLedger, index int64) {
	tb.Helper()
	if _, err := l.Finish(score.PlannedEpisode{Index: index, Task: "talk", Scenario: "E01"},
		score.Episode{Outcome: score.Scored}); err != nil && !errors.Is(err, ErrEnded) {
		tb.Fatal(err)
	}
}

// A new ledger replaces an empty one, then a fetched one, then an abandoned one, and never one that
// a runner will still fetch.
func TestUselessLedgersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New(echo.Kind{}, nil, false)
		fillRuns(t, store, "needed", maxLedgers-2, true)
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
		if _, err := store.Open(protocol.RunTag{Run: "late"}, score.PlannedEpisode{}); !errors.Is(err, ErrFull) {
			t.Errorf("a ledger beyond the maximum was opened with %v", err)
		}
		if _, err := store.AddReceipts(protocol.RunTag{Run: "late"}, "", true, nil); !errors.Is(err, ErrFull) {
			t.Errorf("a ledger beyond the maximum was opened for receipts with %v", err)
		}
		elapse(time.Second) // so that one ledger is the last used
		if _, err := store.Open(protocol.RunTag{Run: "needed-5"}, score.PlannedEpisode{}); err != nil {
			t.Errorf("an existing ledger: %v", err)
		}
		elapse(ledgerIdle)
		store.Expire(time.Now())
		fill(t, store, "late", 1, true)
		if got := store.Figures().Open; got != maxLedgers || store.byKey[Key{"needed-5", 0}] == nil {
			t.Errorf("%d ledgers, or the last used one is missing", got)
		}
	})
}

// Neither invented runs nor many finished ones prevent a new run.
func TestManyRunsDoNotPreventNewOnes(t *testing.T) {
	for name, ends := range map[string]bool{"invented runs": false, "finished runs": true} {
		store := New(echo.Kind{}, nil, false)
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
	store := New(echo.Kind{}, nil, false)
	first, err := store.Open(protocol.RunTag{Run: "slow"}, score.PlannedEpisode{})
	if err != nil {
		t.Fatal(err)
	}
	first.Begin()
	fillRuns(t, store, "invented", maxLedgers, false)
	if store.byKey[first.key] != nil {
		t.Fatal("the empty ledger still exists")
	}
	finish(t, first, 0)
	second, err := store.Open(protocol.RunTag{Run: "slow"}, score.PlannedEpisode{})
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
	store := New(echo.Kind{}, nil, false)
	r := score.Receipt{Run: "other", ScenarioDigest: store.scenarioDigest, GraderVersion: store.graderVersion,
		Judge: store.judge}
	if _, err := store.AddReceipts(protocol.RunTag{Run: "made-up"}, "", false, []score.Receipt{r}); err == nil {
		t.Error("the receipt of another run is counted")
	}
	if got := store.Figures().Open; got != 0 {
		t.Errorf("%d ledgers", got)
	}
}

// For any order of concurrent ends of episodes, each index counts once.
func TestConcurrentEndsCountOnce(t *testing.T) {
	store := New(echo.Kind{}, nil, false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l, err := store.Open(protocol.RunTag{Run: "u"}, score.PlannedEpisode{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range int64(100) {
				l.Begin()
				if _, err := l.Finish(score.PlannedEpisode{Index: i, Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: score.Scored}); err != nil && !errors.Is(err, ErrEnded) {
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

// The operator reads the counts of the runs that it asks for, whatever others are played.
func TestRunReportsAreOfTheRunsAskedFor(t *testing.T) {
	store := New(echo.Kind{}, nil, false)
	fill(t, store, "wanted", 1, true)
	for i := range score.MaxRunReports + 10 {
		fill(t, store, fmt.Sprintf("run-%03d", i), 1, true)
	}
	if got := store.RunReports([]string{"none", "wanted"}, map[string]int64{"wanted": 2}); len(got) != 1 ||
		got[0] != (score.RunReport{Run: "wanted", Active: 2, Opened: 1, Scored: 1}) {
		t.Errorf("reports %+v", got)
	}
	if got := store.RunReports(nil, nil); len(got) != score.MaxRunReports {
		t.Errorf("%d runs, want %d", len(got), score.MaxRunReports)
	}
}

// One run can't keep others out, however many of its ledgers are needed: a new one replaces one of
// the run that has most.
func TestOneRunCannotUseUpTheLedgers(t *testing.T) {
	store := New(echo.Kind{}, nil, false)
	fill(t, store, "honest", 3, true)
	fill(t, store, "greedy", maxLedgers-3, true)
	fill(t, store, "late", 4, true)
	if got := store.Figures().Open; got != maxLedgers {
		t.Errorf("%d ledgers", got)
	}
	for run, want := range map[string]int{"honest": 3, "late": 4, "greedy": maxLedgers - 7} {
		if got := len(store.runs[run].ledgers); got != want {
			t.Errorf("run %s has %d ledgers, want %d", run, got, want)
		}
	}
	if _, err := store.Open(protocol.RunTag{Run: "greedy", Shard: maxLedgers}, score.PlannedEpisode{}); !errors.Is(err,
		ErrFull) {
		t.Errorf("the run with most gets another one: %v", err)
	}
}

// The runs of one namespace can't keep those of others out, however many they are and however large
// their plans: no more than half of what the others leave is theirs. Nothing of a run that is being
// played is forgotten for that, so that no episode is graded again.
func TestNamespacesShareTheMemory(t *testing.T) {
	store := New(echo.Kind{}, nil, true)
	fillMemory := func(namespace string, runs int) error {
		for i := range runs {
			id := fmt.Sprintf("%s-%d", namespace, i)
			if err := store.Plan(id, poolkey.Grant{Namespace: namespace}, bigPlan(t, id, score.MaxTrials)); err != nil {
				return err
			}
			store.runs[id].ended.Add(0)
		}
		return nil
	}
	if err := fillMemory("greedy", 1<<20); !errors.Is(err, ErrFull) {
		t.Fatalf("one namespace takes all: %v", err)
	}
	greedy := len(store.runs)
	for i := range 10 {
		if err := fillMemory(fmt.Sprintf("other-%d", i), 50); err != nil {
			t.Fatalf("namespace %d is kept out: %v", i, err)
		}
	}
	if err := fillMemory("second", 1<<20); !errors.Is(err, ErrFull) {
		t.Errorf("a second namespace takes the rest: %v", err)
	}
	if err := fillMemory("late", 50); err != nil {
		t.Errorf("after it: %v", err)
	}
	for i := range greedy {
		if r := store.runs[fmt.Sprintf("greedy-%d", i)]; r == nil || !r.ended.Contains(0) {
			t.Fatalf("run %d is forgotten: %+v", i, r)
		}
	}
}

// Many runs of a namespace with a ledger each can't keep others out either.
func TestOneNamespaceCannotUseUpTheLedgers(t *testing.T) {
	store := New(echo.Kind{}, nil, true)
	begin := func(namespace string, i int) error {
		id := fmt.Sprintf("%s-%d", namespace, i)
		text := bigPlan(t, id, 2)
		if err := store.Plan(id, poolkey.Grant{Namespace: namespace}, text); err != nil {
			return err
		}
		if err := takeOver(store, Key{id, 0}); err != nil {
			return err
		}
		plan, err := score.ParsePlan(text)
		if err != nil {
			return err
		}
		for planned := range plan.Shard(0) {
			_, err := store.AddReceipts(protocol.RunTag{Run: id, PassScore: 1}, score.FingerprintOf(text), true,
				[]score.Receipt{{Run: id, PassScore: 1, ScenarioDigest: plan.ScenarioDigest,
					GraderVersion: plan.GraderVersion, Judge: plan.Judge, Planned: planned,
					Episode: score.Episode{Outcome: score.Scored}}})
			return err
		}
		return nil
	}
	for i := range maxLedgers {
		if err := begin("greedy", i); err != nil {
			t.Fatal(i, err)
		}
	}
	for i := range 20 {
		if err := begin("late", i); err != nil {
			t.Fatalf("run %d of another namespace is kept out: %v", i, err)
		}
	}
	if err := begin("greedy", maxLedgers); !errors.Is(err, ErrFull) {
		t.Errorf("the namespace with most gets another one: %v", err)
	}
	if store.shares["late"].ledgers != 20 || store.Figures().Open != maxLedgers {
		t.Errorf("%d ledgers of the late namespace, %d in all", store.shares["late"].ledgers, store.Figures().Open)
	}
}

// bigPlan plans a run of the echo's scenarios with so many trials of each.
func bigPlan(tb testing.TB, run string, trials int) []byte {
	tb.Helper()
	plan, err := score.NewPlan(score.Plan{Run: run, PassScore: 1, ScenarioDigest: echo.Kind{}.ScenarioDigest(),
		GraderVersion: echo.Kind{}.GraderVersion(), Judge: echo.Kind{}.Judge(),
		Tasks: []score.PlanTask{{Name: "talk", Trials: trials, Scenarios: []string{"E01", "E02", "E03"}}}}, 3)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// Runs are remembered within a bound, and one that was used today isn't forgotten for another.
func TestRememberedRunsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New(echo.Kind{}, nil, true)
		last := ""
		for i := 0; ; i++ {
			run := fmt.Sprintf("run-%d", i)
			err := store.Plan(run, poolkey.Grant{}, bigPlan(t, run, score.MaxTrials))
			if errors.Is(err, ErrFull) {
				last = run
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(store.runs) < 5_000 || store.remembered > maxRemembered/2 {
			t.Errorf("%d runs with %d bytes", len(store.runs), store.remembered)
		}
		elapse(runIdle)
		if err := store.Plan(last, poolkey.Grant{}, bigPlan(t, last, score.MaxTrials)); err != nil || store.runs[last] == nil {
			t.Errorf("after a day: %v", err)
		}
	})
}

func takeOver(store *Ledgers, key Key) error {
	asked, err := store.Ask(key, nil)
	if err != nil {
		return err
	}
	return store.TakeOver(key, asked, nil, false, nil)
}

// Runs that nobody has used for a day don't prevent new ones, although they still have ledgers.
func TestIdleRunsWithLedgersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New(echo.Kind{}, nil, false)
		begin := func(run string) error {
			text := bigPlan(t, run, 2)
			if err := store.Plan(run, poolkey.Grant{}, text); err != nil {
				return err
			}
			key := Key{run, 0}
			if err := takeOver(store, key); err != nil {
				return err
			}
			_, err := store.AddReceipts(protocol.RunTag{Run: run}, score.FingerprintOf(text), true, nil)
			return err
		}
		if err := begin("first"); err != nil {
			t.Fatal(err)
		}
		store.chargeShare(store.runs["first"].share, 0, maxRemembered/2-store.remembered) // as if it were a large one
		if err := begin("second"); !errors.Is(err, ErrFull) {
			t.Errorf("beyond the bound: %v", err)
		}
		elapse(runIdle)
		if err := begin("second"); err != nil || store.remembered > maxRemembered {
			t.Errorf("after a day: %v, %d bytes", err, store.remembered)
		}
		if store.runs["first"] != nil || store.byKey[Key{"first", 0}] != nil || store.Figures().Open != 1 {
			t.Error("the run of yesterday is still there")
		}
	})
}

// A planned episode costs a server less than a byte, beyond the constant of its run.
func TestMemoryOfAPlannedEpisode(t *testing.T) {
	const trials = score.MaxTrials
	r := func() *run {
		store := New(echo.Kind{}, nil, true)
		if err := store.Plan("run", poolkey.Grant{}, bigPlan(t, "run", trials)); err != nil {
			t.Fatal(err)
		}
		return store.runs["run"]
	}()
	perEpisode := float64(r.bytes()-runBytes) / float64(r.plan.Episodes())
	t.Logf("%.3f bytes an episode", perEpisode)
	if perEpisode > 1 || cap(r.ended)*64 > 3*trials+2*64 {
		t.Errorf("%.3f bytes an episode, and %d words of bits", perEpisode, cap(r.ended))
	}
}

// Two servers that ask each other for a shard at the same time don't both play it.
func TestServersThatAskAtOnce(t *testing.T) {
	text := bigPlan(t, "run", 2)
	key, tag := Key{"run", 0}, protocol.RunTag{Run: "run", PassScore: 1}
	public, _ := echo.LedgerKey().Public().(ed25519.PublicKey)
	planned := score.PlannedEpisode{}
	a, b := New(echo.Kind{}, nil, false), New(echo.Kind{}, nil, false)
	for _, store := range []*Ledgers{a, b} {
		if err := store.Plan("run", poolkey.Grant{}, text); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := score.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	for planned = range plan.Shard(0) {
		break
	}
	giveUp := func(store *Ledgers) []ShardState {
		state, err := store.GiveUp(key, score.FingerprintOf(text), echo.LedgerKey())
		if err != nil {
			t.Fatal(err)
		}
		return []ShardState{state}
	}
	ask := func(store *Ledgers) int64 {
		asked, err := store.Ask(key, public)
		if err != nil {
			t.Fatal(err)
		}
		return asked
	}
	askedA := ask(a)
	toA := giveUp(b)
	askedB := ask(b)
	toB := giveUp(a)
	if err := a.TakeOver(key, askedA, toA, false, public); !errors.Is(err, ErrTaken) {
		t.Errorf("the server whose peer asked last: %v", err)
	}
	if err := b.TakeOver(key, askedB, toB, false, public); err != nil {
		t.Errorf("the server that asked last: %v", err)
	}
	if _, err := a.Open(tag, planned); !errors.Is(err, ErrNoPlan) {
		t.Errorf("both play the shard: %v", err)
	}
	if _, err := b.Open(tag, planned); err != nil {
		t.Errorf("none plays the shard: %v", err)
	}
	// Of two requests to one server, the one that asked last counts.
	before, after := ask(a), ask(a)
	toA = giveUp(b)
	if err := a.TakeOver(key, before, toA, false, public); !errors.Is(err, ErrTaken) {
		t.Errorf("the request that asked first: %v", err)
	}
	if err := a.TakeOver(key, after, toA, false, public); err != nil {
		t.Errorf("the request that asked last: %v", err)
	}
}

// A shard is not played again while a peer that may be grading it is silent, unless it stays so.
func TestShardsWaitForSilentPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := New(echo.Kind{}, nil, false), Key{"run", 0}
		if err := store.Plan("run", poolkey.Grant{}, bigPlan(t, "run", 2)); err != nil {
			t.Fatal(err)
		}
		begin := func(silent bool) error {
			asked, err := store.Ask(key, nil)
			if err != nil {
				t.Fatal(err)
			}
			return store.TakeOver(key, asked, nil, silent, nil)
		}
		for _, after := range []time.Duration{0, silentPatience / 2, silentPatience/2 - 1} {
			elapse(after)
			if err := begin(true); !errors.Is(err, ErrSilent) || store.runs["run"].playsShard(0) {
				t.Errorf("the shard is played, %v", err)
			}
		}
		elapse(1)
		if err := begin(true); err != nil || !store.runs["run"].playsShard(0) {
			t.Errorf("the peer doesn't come back: %v", err)
		}
		if err := begin(true); err != nil || !store.runs["run"].playsShard(0) {
			t.Errorf("the server no longer plays its shard: %v", err)
		}
		key.Shard = 1
		if err := begin(false); err != nil {
			t.Errorf("all peers answer: %v", err)
		}
	})
}

// A parcel of a server that ends doesn't let a peer play a shard that another one may have taken
// over, which gets the parcel when it asks.
func TestParcelIsNotPlayed(t *testing.T) {
	text := bigPlan(t, "run", 2)
	key, plan := Key{"run", 0}, score.FingerprintOf(text)
	public, _ := echo.LedgerKey().Public().(ed25519.PublicKey)
	var state ShardState
	state.Ended.Add(0)
	for name, known := range map[string]bool{"a known plan": true, "an unknown plan": false} {
		store := New(echo.Kind{}, nil, false)
		learn := func() {
			if err := store.Plan("run", poolkey.Grant{}, text); err != nil {
				t.Fatal(err)
			}
		}
		if known {
			learn()
		}
		if err := store.Keep(Parcel{Run: "run", Plan: plan, State: state}, public); err != nil {
			t.Fatal(err)
		}
		learn()
		parsed, err := score.ParsePlan(text)
		if err != nil {
			t.Fatal(err)
		}
		for planned := range parsed.Shard(0) {
			if _, err := store.Open(protocol.RunTag{Run: "run", PassScore: 1}, planned); err == nil {
				t.Errorf("%s: episode %d is played", name, planned.Index)
			}
		}
		if parcels, err := store.GiveAway(echo.LedgerKey()); err != nil || len(parcels) != 1 {
			t.Errorf("%s: the server gives away %d parcels when it ends, %v", name, len(parcels), err)
		}
		if err := store.Keep(Parcel{Run: "run", Plan: plan, State: state}, public); err != nil {
			t.Fatal(err)
		}
		if got, err := store.GiveUp(key, plan, echo.LedgerKey()); err != nil || got.Ended.String() != "0" {
			t.Errorf("%s: a peer that asks gets %s, %v", name, got.Ended, err)
		}
	}
}

// The parcels of one namespace keep those of others neither out of a server nor from being sent in
// time.
func TestNamespacesShareTheParcels(t *testing.T) {
	store := New(echo.Kind{}, nil, true)
	var state ShardState
	state.Ended.Add(0)
	keep := func(namespace string, parcels int) {
		for i := range parcels {
			if err := store.Keep(Parcel{Run: namespace, Namespace: namespace, Shard: i, State: state}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep("honest", 3)
	keep("greedy", 2*maxParcels)
	keep("late", 4)
	parcels, err := store.GiveAway(echo.LedgerKey())
	if err != nil || len(parcels) != maxParcels {
		t.Fatalf("%d parcels, %v", len(parcels), err)
	}
	of := map[string]int{}
	for i, p := range parcels {
		if of[p.Namespace]++; p.Namespace != "greedy" && i >= 3*4 {
			t.Errorf("parcel %d is of %s", i, p.Namespace)
		}
	}
	if want := map[string]int{"honest": 3, "late": 4, "greedy": maxParcels - 7}; !maps.Equal(of, want) {
		t.Errorf("parcels %v, want %v", of, want)
	}
}
