package openenv

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// ledgerOf fetches and verifies a ledger.
func ledgerOf(tb testing.TB, url, run string, shard int) *score.Ledger {
	tb.Helper()
	signed, err := client.FetchLedger(tb.Context(), url, run, shard, client.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := signed.Verify(echo.LedgerKey().Public().(ed25519.PublicKey))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestLedger(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	play := func(index, seed int, end string) {
		t.Helper()
		p.Ask(
			fmt.Sprintf(
				`{"type":"reset","data":{"run":"uid","shard":3,"episode":%d,"seed":%d,"pass_score":700000,"reward_mode":"terminal"}}`, index, seed))
		if end != "" {
			p.Ask(fmt.Sprintf(`{"type":"step","data":{"kind":%s}}`, end))
		}
	}
	play(0, 10, `"finish","score":900000`)
	play(1, 11, `"failed","score":100000`)
	play(0, 10, `"finish","score":0`)       // repeated
	play(2, 12, `"errored","score":500000`) // not in the figures
	play(2, 12, `"panic"`)                  // not in the figures
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

// Episodes without a run are in no ledger, and ledgers contain only their own run's episodes.
func TestLedgersAreSeparate(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	for _, tag := range []string{``, `"run":"a","shard":0,"episode":0`, `"run":"a","shard":1,"episode":0`,
		`"run":"b","shard":0,"episode":0`} {
		p.Ask(`{"type":"reset","data":{` + tag + `}}`)
		p.Ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	}
	for _, key := range []ledger.Key{{Run: "a"}, {Run: "a", Shard: 1}, {Run: "b"}} {
		if got := ledgerOf(t, url, key.Run, key.Shard); got.Scored != 1 || got.Opened != 1 {
			t.Errorf("ledger %v has %d scored and %d opened episodes", key, got.Scored, got.Opened)
		}
	}
	if _, err := client.FetchLedger(t.Context(), url, "b", 1, client.Options{}); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("a missing ledger: %v", err)
	}
}

// Episodes of runs are played with terminal rewards, regardless of the options of the reset.
func TestRunsArePlayedWithTerminalRewards(t *testing.T) {
	_, url := serve(t, Config{RewardMode: episode.Dense})
	p := wire.Connect(t, url)
	for name, c := range map[string]struct{ options, want string }{
		"a run that requests dense":  {`"run":"u","shard":0,"episode":0,"reward_mode":"dense"`, "terminal"},
		"a run without a mode":       {`"run":"u","shard":0,"episode":1`, "terminal"},
		"no run, dense requested":    {`"reward_mode":"dense"`, "dense"},
		"no run, terminal requested": {`"reward_mode":"terminal"`, "terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Ask(`{"type":"reset","data":{` + c.options + `}}`)
			if got := wire.DecodePath(t, p.Ask(`{"type":"state"}`), "data", "reward_mode"); got != c.want {
				t.Errorf("played with %v rewards, want %s", got, c.want)
			}
		})
	}
}

func TestLedgerRefusals(t *testing.T) {
	_, url := serve(t, Config{})
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{"run":"u","shard":0,"episode":0,"pass_score":500000}}`)
	if got := p.Code(
		`{"type":"reset","data":{"run":"u","shard":0,"episode":1,"pass_score":600000}}`); got != protocol.CodeValidation {
		t.Errorf("another pass score in the same ledger was answered with %s", got)
	}
	if got := p.Code(`{"type":"step","data":{"kind":"finish"}}`); got != "observation" {
		t.Errorf("after a refused reset, the running episode was answered with %s", got)
	}
	for query, want := range map[string]int{"": 400, "?run=u": 400, "?run=u&shard=x": 400, "?run=u&shard=9": 404,
		"?run=u&shard=0": 200} {
		if status, body := wire.GetBody(t, url+"/ledger"+query); status != want || !json.Valid([]byte(body)) {
			t.Errorf("/ledger%s: %d %s", query, status, body)
		}
	}
}
