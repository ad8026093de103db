package openenv

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// shard3 is the shard of playFor.
var shard3 = client.Shard{Run: "uid", Shard: 3, PassScore: 700_000}

// playFor plays an episode of shard 3 of run "uid" to its end and returns the receipt, or "".
func playFor(tb testing.TB, url string, index int, end string) string {
	tb.Helper()
	p := wire.Connect(tb, url)
	defer p.Leave()
	p.Ask(fmt.Sprintf(`{"type":"reset","data":{"run":"uid","shard":3,"episode":%d,"seed":%d,"pass_score":700000}}`,
		index, 10+index))
	return receiptIn(tb, p.Ask(`{"type":"step","data":{"kind":`+end+`}}`))
}

// receiptIn finds the receipt in an observation's metadata.
func receiptIn(tb testing.TB, message string) string {
	tb.Helper()
	var answer struct {
		Data struct {
			Metadata map[string]json.RawMessage `json:"metadata"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(message), &answer); err != nil {
		tb.Fatal(err)
	}
	var text string
	if raw, ok := answer.Data.Metadata["receipt"]; ok {
		if err := json.Unmarshal(raw, &text); err != nil {
			tb.Fatal(err)
		}
	}
	return text
}

// A ledger that a second server makes from the first one's receipts equals the first ledger, even
// if receipts are repeated.
func TestReceiptsRestoreTheLedger(t *testing.T) {
	_, first := serve(t, Config{})
	_, second := serve(t, Config{})
	receipts := []string{
		playFor(t, first, 0, `"finish","score":900000`), playFor(t, first, 1, `"failed","score":100000`),
		playFor(t, first, 7, `"finish","score":700000`),
	}
	for _, texts := range [][]string{receipts[:1], receipts, nil, receipts[1:]} {
		answer, err := client.OpenLedger(t.Context(), second, shard3, texts, client.Options{})
		if want := map[bool]string{true: "0", false: "0-1,7"}[len(texts) == 1]; err != nil || answer.Ended.String() != want {
			t.Errorf("%d receipts sent: the ledger has episodes %s (%v), want %s", len(texts), answer.Ended, err, want)
		}
	}
	if diff := cmp.Diff(ledgerOf(t, first, "uid", 3), ledgerOf(t, second, "uid", 3)); diff != "" {
		t.Errorf("(-played +taken over)\n%s", diff)
	}
	if text := playFor(t, second, 1, `"finish","score":1000000`); text != "" {
		t.Error("a restored episode has a receipt for its second end")
	}
	if got := ledgerOf(t, second, "uid", 3); got.Replayed != 1 || got.Failed != 1 {
		t.Errorf("%d replayed, %d failed after the second end", got.Replayed, got.Failed)
	}
}

func TestReceiptOfAnEpisode(t *testing.T) {
	_, url := serve(t, Config{})
	got, err := score.VerifyReceipt(playFor(t, url, 5, `"finish","score":900000`),
		echo.LedgerKey().Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	want := score.Receipt{
		Run: "uid", Shard: 3, PassScore: 700_000, ScenarioDigest: "sha256:00ff", GraderVersion: "echo.1",
		Judge:   "rules",
		Planned: score.PlannedEpisode{Index: 5, Task: "talk", Scenario: got.Planned.Scenario, Seed: 15},
		Episode: score.Episode{
			Outcome: score.Scored, Score: 900_000, Category: "billing", Difficulty: got.Episode.Difficulty,
			Language:   got.Episode.Language,
			Dimensions: []score.Dimension{{Name: "talk", Earned: 900, Offered: 1000}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Only the first end of an episode of a run has a receipt.
func TestNoReceipt(t *testing.T) {
	_, url := serve(t, Config{})
	playFor(t, url, 0, `"finish","score":900000`)
	if text := playFor(t, url, 0, `"finish","score":1000000`); text != "" {
		t.Error("a second end has a receipt")
	}
	if text := playFor(t, url, 1, `"errored","score":0`); text != "" {
		t.Error("an errored episode has a receipt")
	}
	p := wire.Connect(t, url)
	p.Ask(`{"type":"reset","data":{}}`)
	if answer := p.Ask(`{"type":"step","data":{"kind":"finish","score":900000}}`); strings.Contains(answer, "receipt") {
		t.Errorf("an episode without a run: %s", answer)
	}
}

func TestReceiptsRefused(t *testing.T) {
	_, url := serve(t, Config{})
	good := playFor(t, url, 0, `"finish","score":900000`)
	r, err := score.VerifyReceipt(good, echo.LedgerKey().Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(change func(*score.Receipt), key ed25519.PrivateKey) string {
		changed := r
		changed.Planned.Index = 9
		change(&changed)
		text, err := changed.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := func(*score.Receipt) {}
	list := func(texts ...string) string { return `{"receipts":["` + strings.Join(texts, `","`) + `"]}` }
	for name, c := range map[string]struct {
		query, body string
		want        int
	}{
		"no run":           {"", list(good), 400},
		"no shard":         {"?run=uid", list(good), 400},
		"a negative shard": {"?run=uid&shard=-1", list(good), 400},
		"no body":          {"?run=uid&shard=3", ``, 422},
		"no list":          {"?run=uid&shard=3", `{"receipts":"x"}`, 422},
		"too many": {"?run=uid&shard=3", list(strings.Split(strings.Repeat("x,", protocol.MaxReceipts),
			",")...), 422},
		"too long": {"?run=uid&shard=3", list(strings.Repeat("x", protocol.MaxBody)), 413},
		"prose":    {"?run=uid&shard=3", list(sign(same, echo.LedgerKey()), "x"), 422},
		"another pool's": {"?run=uid&shard=3",
			list(sign(same, echo.LedgerKey()), sign(same, ed25519.NewKeyFromSeed(make([]byte, 32)))), 422},
		"another shard's": {"?run=uid&shard=3",
			list(sign(same, echo.LedgerKey()), sign(func(r *score.Receipt) { r.Shard = 4 }, echo.LedgerKey())), 409},
		"another run's": {"?run=other&shard=3", list(good), 409},
		"another grader's": {"?run=uid&shard=3",
			list(sign(func(r *score.Receipt) { r.GraderVersion = "x" }, echo.LedgerKey())), 409},
		"another pass score": {"?run=uid&shard=3",
			list(good, sign(func(r *score.Receipt) { r.PassScore++ }, echo.LedgerKey())), 409},
		"its own, again": {"?run=uid&shard=3", list(good, good), 200},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := wire.PostBody(t, url+"/ledger"+c.query, c.body)
			if status != c.want || !json.Valid([]byte(body)) {
				t.Errorf("%d %.200s, want %d", status, body, c.want)
			}
		})
	}
	if got := ledgerOf(t, url, "uid", 3); got.Scored != 1 {
		t.Errorf("%d episodes are counted, want the played one", got.Scored)
	}
}

func TestReceiptsNeedTheToken(t *testing.T) {
	_, url := serve(t, Config{Tokens: func() []string { return []string{"secret"} }})
	var refused *client.StatusError
	if _, err := client.OpenLedger(t.Context(), url, shard3, nil, client.Options{}); !errors.As(err, &refused) ||
		refused.Status != 401 {
		t.Errorf("without a token: %v", err)
	}
	answer, err := client.OpenLedger(t.Context(), url, shard3, nil, client.Options{Token: "secret"})
	if err != nil || answer.Ended.Len() != 0 {
		t.Errorf("an unknown run: %s, %v", answer.Ended, err)
	}
}
