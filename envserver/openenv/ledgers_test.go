package openenv

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
	"github.com/google/go-cmp/cmp"
)

// ledgerOf fetches and verifies a ledger.
func ledgerOf(tb testing.TB, url, run string, shard int) *score.Ledger {
	tb.Helper()
	signed, err := client.FetchLedger(tb.Context(), url, run, shard, client.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := signed.Verify(testKey().Public().(ed25519.PublicKey))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestLedger(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	play := func(index, seed int, end string) {
		t.Helper()
		p.ask(
			fmt.Sprintf(
				`{"type":"reset","data":{"run":"uid","shard":3,"episode":%d,"seed":%d,"pass_score":700000,"reward_mode":"terminal"}}`, index, seed))
		if end != "" {
			p.ask(fmt.Sprintf(`{"type":"step","data":{"kind":%s}}`, end))
		}
	}
	play(0, 10, `"finish","score":900000`)
	play(1, 11, `"failed","score":100000`)
	play(0, 10, `"finish","score":0`)       // again
	play(2, 12, `"errored","score":500000`) // of no figure
	play(2, 12, `"panic"`)                  // of no figure
	play(2, 12, "")                         // abandoned
	play(2, 12, `"finish","score":700000`)
	got := ledgerOf(t, url, "uid", 3)

	want := &score.Ledger{Run: "uid", Shard: 3, PassScore: 700_000, ScenarioDigest: "sha256:00ff",
		GraderVersion: "echo.1", Judge: "rules", Opened: 7, Replayed: 1}
	for _, e := range []struct {
		planned score.PlannedEpisode
		ended   score.Episode
	}{
		{score.PlannedEpisode{Index: 0, Seed: 10, Scenario: "E01"}, score.Episode{Outcome: score.Scored, Score: 900_000,
			Difficulty: "easy", Language: "en"}},
		{score.PlannedEpisode{Index: 1, Seed: 11, Scenario: "E02"}, score.Episode{Outcome: score.Failed, Score: 100_000,
			Difficulty: "hard", Language: "de"}},
		{score.PlannedEpisode{Index: 2, Seed: 12, Scenario: "E01"}, score.Episode{Outcome: score.Scored, Score: 700_000,
			Difficulty: "easy", Language: "en"}},
	} {
		e.planned.Task, e.ended.Category = "talk", "billing"
		e.ended.Dimensions = []score.Dimension{{Name: "talk", Earned: e.ended.Score / 1000, Offered: 1000}}
		if err := want.Add(e.planned, e.ended); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What an episode without a run earns is in no ledger, and one run's episodes are in no other's.
func TestLedgersAreApart(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	for _, tag := range []string{``, `"run":"a","shard":0,"episode":0`, `"run":"a","shard":1,"episode":0`,
		`"run":"b","shard":0,"episode":0`} {
		p.ask(`{"type":"reset","data":{` + tag + `}}`)
		p.ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	}
	for _, key := range []ledgerKey{{"a", 0}, {"a", 1}, {"b", 0}} {
		if got := ledgerOf(t, url, key.run, key.shard); got.Scored != 1 || got.Opened != 1 {
			t.Errorf("ledger %v has %d scored and %d opened episodes", key, got.Scored, got.Opened)
		}
	}
	if _, err := client.FetchLedger(t.Context(), url, "b", 1, client.Options{}); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("a ledger that isn't there: %v", err)
	}
}

// An episode of a run is played with terminal rewards, whatever its reset asks for.
func TestRunsArePlayedWithTerminalRewards(t *testing.T) {
	_, url := serve(t, Config{RewardMode: episode.Dense})
	p := connect(t, url)
	for name, c := range map[string]struct{ options, want string }{
		"a run that asks for dense":       {`"run":"u","shard":0,"episode":0,"reward_mode":"dense"`, "terminal"},
		"a run that asks for nothing":     {`"run":"u","shard":0,"episode":1`, "terminal"},
		"no run, which asks for dense":    {`"reward_mode":"dense"`, "dense"},
		"no run, which asks for terminal": {`"reward_mode":"terminal"`, "terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			p.ask(`{"type":"reset","data":{` + c.options + `}}`)
			if got := decoded(t, p.ask(`{"type":"state"}`), "data", "reward_mode"); got != c.want {
				t.Errorf("played with %v rewards, want %s", got, c.want)
			}
		})
	}
}

func TestLedgerRefusals(t *testing.T) {
	_, url := serve(t, Config{})
	p := connect(t, url)
	p.ask(`{"type":"reset","data":{"run":"u","shard":0,"episode":0,"pass_score":500000}}`)
	if got := p.code(
		`{"type":"reset","data":{"run":"u","shard":0,"episode":1,"pass_score":600000}}`); got != codeValidation {
		t.Errorf("another pass score in the same ledger was answered with %s", got)
	}
	if got := p.code(`{"type":"step","data":{"kind":"finish"}}`); got != "observation" {
		t.Errorf("after a refused reset, the running episode was answered with %s", got)
	}
	for query, want := range map[string]int{"": 400, "?run=u": 400, "?run=u&shard=x": 400, "?run=u&shard=9": 404,
		"?run=u&shard=0": 200} {
		if status, body := getBody(t, url+"/ledger"+query); status != want || !json.Valid([]byte(body)) {
			t.Errorf("/ledger%s: %d %s", query, status, body)
		}
	}
}

func TestFullLedgerRefuses(t *testing.T) {
	store := newLedgers(echoKind{})
	l, err := store.open(runTag{run: "u"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(maxEnded) {
		l.ended[i] = struct{}{}
	}
	if _, err := store.open(runTag{run: "u"}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("opened with %v", err)
	}
}

// Shards of made-up runs push no ledger out that is in use; one that has been idle for long makes
// room.
func TestIdleLedgerMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLedgers(echoKind{})
		for i := range maxLedgers {
			if _, err := store.open(runTag{run: "u", shard: i}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.open(runTag{run: "made-up"}); err == nil || !strings.Contains(err.Error(), "more servers") {
			t.Errorf("a ledger too many was opened with %v", err)
		}
		if _, err := store.open(runTag{run: "u", shard: 5}); err != nil {
			t.Errorf("a ledger that is there: %v", err)
		}
		pass(ledgerIdle)
		for i := range maxLedgers {
			if i == 1 {
				continue
			}
			if _, err := store.sign(ledgerKey{"u", i}, testKey()); err != nil { // touches all but one
				t.Fatal(err)
			}
		}
		if _, err := store.open(runTag{run: "v"}); err != nil {
			t.Errorf("an idle ledger makes no room: %v", err)
		}
		if got := store.figures().open; got != maxLedgers {
			t.Errorf("%d ledgers, want %d", got, maxLedgers)
		}
		if _, err := store.sign(ledgerKey{"u", 1}, testKey()); !errors.Is(err, errNoLedger) {
			t.Errorf("the idle ledger is still there: %v", err)
		}
		if _, err := store.open(runTag{run: "w"}); err == nil {
			t.Error("a second ledger found room")
		}
	})
}

// However the ends of episodes interleave, each index counts once.
func TestConcurrentEndsCountOnce(t *testing.T) {
	store := newLedgers(echoKind{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l, err := store.open(runTag{run: "u"})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range int64(100) {
				l.begin()
				if _, err := l.finish(score.PlannedEpisode{Index: i, Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: score.Scored}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sums := store.byKey[ledgerKey{"u", 0}].sums
	if sums.Scored != 100 || sums.Replayed != 700 || sums.Opened != 800 {
		t.Errorf("%d scored, %d replayed, %d opened", sums.Scored, sums.Replayed, sums.Opened)
	}
}

func TestLoadLedgerKey(t *testing.T) {
	encode := func(kind string, key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"Ed25519":        {encode("PRIVATE KEY", testKey()), ""},
		"another type":   {encode("PRIVATE KEY", other), "not Ed25519"},
		"another block":  {encode("CERTIFICATE", testKey()), "openssl genpkey"},
		"no PEM":         {[]byte("secret"), "openssl genpkey"},
		"a broken block": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "parsing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key.pem")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			key, err := LoadLedgerKey(path)
			if c.want == "" && (err != nil || !bytes.Equal(key, testKey())) {
				t.Errorf("loaded %v, %v", key, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := LoadLedgerKey(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
}
