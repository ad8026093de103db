package openenv

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// plannedRun is a run on a server with a shared key. Its plan has two trials of three scenarios in
// three shards.
type plannedRun struct {
	url        string
	plan       score.Plan
	text       []byte
	credential string
	episodes   []score.PlannedEpisode
	shards     []int
}

// newPlannedRun plans run "uid" with two trials and makes its plan known to a server.
func newPlannedRun(tb testing.TB, url string) *plannedRun {
	tb.Helper()
	r := planRun(tb, 2)
	r.url = url
	for shard := range r.plan.Shards {
		if _, err := r.open(tb, url, shard, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// planRun plans run "uid".
func planRun(tb testing.TB, trials int) *plannedRun {
	tb.Helper()
	draft := score.Plan{Run: "uid", Seed: 42, PassScore: 700_000, ScenarioDigest: echo.Kind{}.ScenarioDigest(),
		GraderVersion: echo.Kind{}.GraderVersion(), Judge: echo.Kind{}.Judge(),
		LedgerKey: score.FormatPublicKey(echo.LedgerKey().Public().(ed25519.PublicKey)),
		Tasks:     []score.PlanTask{{Name: "talk", Trials: trials, Scenarios: []string{"E01", "E02", "E03"}}}}
	plan, err := score.NewPlan(draft, 3)
	if err != nil {
		tb.Fatal(err)
	}
	r := &plannedRun{plan: plan}
	if r.text, err = json.Marshal(plan); err != nil {
		tb.Fatal(err)
	}
	r.credential = poolSecrets(tb).RunCredential("uid", poolkey.Grant{Plan: score.FingerprintOf(r.text)})
	for shard := range plan.Shards {
		for ep := range plan.Shard(shard) {
			r.episodes, r.shards = append(r.episodes, ep), append(r.shards, shard)
		}
	}
	return r
}

// open opens a shard's ledger as its runner does, and returns the indexes in it.
func (r *plannedRun) open(tb testing.TB, url string, shard int, receipts []string) (string, error) {
	tb.Helper()
	answer, err := client.OpenLedger(tb.Context(), url, client.Shard{Run: "uid", Shard: shard,
		PassScore: r.plan.PassScore, Plan: r.text}, receipts, client.Options{Credential: r.credential})
	return answer.Ended.String(), err
}

// reset is the message that begins the i-th episode, with changed options.
func (r *plannedRun) reset(i int, changes ...string) string {
	ep := r.episodes[i]
	options := map[string]any{"seed": ep.Seed, "task": ep.Task, "scenario": ep.Scenario, "run": "uid",
		"shard": r.shards[i], "episode": ep.Index, "pass_score": r.plan.PassScore, "run_credential": r.credential}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		options[name] = json.RawMessage(value)
	}
	text, _ := json.Marshal(options) //nolint:errchkjson // texts and numbers
	return `{"type":"reset","data":` + string(text) + `}`
}

// play plays the i-th episode to its end and returns the answers.
func (r *plannedRun) play(tb testing.TB, url string, i int, micro int64) (begun, ended string) {
	tb.Helper()
	p := wire.Connect(tb, url)
	defer p.Leave()
	if begun = p.Ask(r.reset(i)); !strings.Contains(begun, `"observation"`) {
		return begun, ""
	}
	return begun, p.Ask(fmt.Sprintf(`{"type":"step","data":{"kind":"finish","score":%d}}`, micro))
}

// A run's credential is for the episodes of its plan: no other scenario, task, seed, index or
// shard, on a server that is played by runs only. Nobody can practise on a scenario with it.
func TestCredentialIsThePlans(t *testing.T) {
	s, url := serve(t, Config{SharedKey: true, RunsOnly: true})
	r := newPlannedRun(t, url)
	p := wire.Connect(t, url)
	for name, c := range map[string]struct{ change, want string }{
		"another shard":      {"shard=77777", "belongs to shard 0"},
		"another index":      {"episode=5", "are episodes 0 to 1"},
		"an index of none":   {"episode=99", "are episodes 0 to 1"},
		"another scenario":   {`scenario="E02"`, "are episodes 2 to 3"},
		"no scenario":        {`scenario=null`, "has no episodes"},
		"an unknown one":     {`scenario="E99"`, "has no episodes"},
		"another seed":       {"seed=7", "has the seed"},
		"pressure":           {"pressure=true", "has pressure false"},
		"another run":        {`run="other"`, "credential is missing or wrong"},
		"no run":             {"run=null", "only the runners"},
		"a trainer's tag":    {"shard=null", "required"},
		"a changed plan":     {`run_credential="` + strings.Replace(r.credential, "sha256:", "sha256:0", 1) + `"`, "wrong"},
		"an old credential":  {`run_credential="` + poolSecrets(t).OldRunCredential("uid") + `"`, "earlier release"},
		"another pass score": {"pass_score=1", "pass_score 700000, not 1"},
	} {
		if answer := p.Ask(r.reset(0, c.change)); !strings.Contains(answer, c.want) ||
			strings.Contains(answer, `"observation"`) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if got := s.ledgers.RunReports([]string{"uid"}, nil)[0].Opened; got != 0 {
		t.Errorf("%d episodes were begun", got)
	}
	for i := range r.episodes {
		if begun, ended := r.play(t, url, i, 500_000); receiptIn(t, ended) == "" {
			t.Errorf("episode %d: %s %s", i, begun, ended)
		}
	}
}

// A server that doesn't know a run's plan plays nothing of it, and learns only the credential's.
func TestPlanIsLearnedByItsCredential(t *testing.T) {
	_, url := serve(t, Config{SharedKey: true, RunsOnly: true})
	r := newPlannedRun(t, url)
	_, other := serve(t, Config{SharedKey: true, RunsOnly: true})
	p := wire.Connect(t, other)
	if answer := p.Ask(r.reset(0)); !strings.Contains(answer, "PLAN_UNKNOWN") {
		t.Errorf("a server that has restarted: %s", answer)
	}
	var refused *client.StatusError
	for name, c := range map[string]struct {
		change func(*plannedRun)
		want   int
	}{
		"without a plan":     {func(r *plannedRun) { r.text = nil }, http.StatusConflict},
		"a changed plan":     {func(r *plannedRun) { r.text = append(slices.Clone(r.text), ' ') }, http.StatusConflict},
		"another credential": {func(r *plannedRun) { r.credential = "x" + r.credential }, http.StatusForbidden},
	} {
		changed := *r
		c.change(&changed)
		if _, err := changed.open(t, other, 0, nil); !errors.As(err, &refused) || refused.Status != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	changed := *r
	changed.plan.GraderVersion = "echo.2"
	changed.text, _ = json.Marshal(changed.plan) //nolint:errchkjson // a plan
	changed.credential = poolSecrets(t).RunCredential("uid", poolkey.Grant{Plan: score.FingerprintOf(changed.text)})
	if _, err := changed.open(t, other, 0, nil); !errors.As(err, &refused) ||
		refused.Status != http.StatusPreconditionFailed {
		t.Errorf("a plan of another grader: %v", err)
	}
	if _, err := r.open(t, other, r.plan.Shards, nil); !errors.As(err, &refused) ||
		refused.Status != http.StatusConflict {
		t.Errorf("a shard beyond the plan: %v", err)
	}
}

// An episode is graded once: neither a second play, nor one that was begun at the same time, nor
// the eviction of a fetched ledger by thousands of others gives another score, verdict or receipt.
func TestEpisodeIsGradedOnce(t *testing.T) {
	s, url := serve(t, Config{SharedKey: true})
	r := newPlannedRun(t, url)
	same := wire.Connect(t, url)
	same.Ask(r.reset(0)) // begun before the other ends
	_, first := r.play(t, url, 0, 333_000)
	if receiptIn(t, first) == "" {
		t.Fatal(first)
	}
	late := same.Ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`)
	if !strings.Contains(late, `"outcome":"withheld"`) || !strings.Contains(late, `"reward":null`) ||
		strings.Contains(late, "episode_score") || receiptIn(t, late) != "" {
		t.Errorf("an episode that was graded meanwhile: %s", late)
	}
	own := client.Options{Credential: r.credential}
	if _, err := client.FetchLedger(t.Context(), url, "uid", 0, own); err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		run := fmt.Sprintf("other-%d", i)
		o := client.Options{Credential: poolSecrets(t).OldRunCredential(run)}
		if _, err := client.OpenLedger(t.Context(), url, client.Shard{Run: run}, nil, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.FetchLedger(t.Context(), url, "uid", 0, own); err == nil {
		t.Fatal("the ledger still exists")
	}
	if begun, ended := r.play(t, url, 0, 1_000_000); !strings.Contains(begun, "EPISODE_ENDED") {
		t.Errorf("a second play: %s %s", begun, ended)
	}
	answer, err := client.OpenLedger(t.Context(), url, client.Shard{Run: "uid", PassScore: r.plan.PassScore,
		Plan: r.text}, nil, own)
	if err != nil || answer.Lost.String() != "0" || answer.Ended.Len() != 0 {
		t.Errorf("a shard whose ledger is gone: %+v, %v", answer, err)
	}
	if ended, err := r.open(t, url, 0, []string{receiptIn(t, first)}); err != nil || ended != "0" {
		t.Errorf("the receipt of its first end counts as %s, %v", ended, err)
	}
	if got := s.ledgers.RunReports([]string{"uid"}, nil); !slices.ContainsFunc(got, func(r score.RunReport) bool {
		return r.Run == "uid" && r.Opened == 2 && r.Scored == 1 && r.ScoreSum == 333_000
	}) {
		t.Errorf("no report says that the episode was graded once")
	}
}

// What has ended on a server that ends, as in a rolling update, is known to the next ones: a peer
// that knows the run, and one that doesn't, pass it on, also to a server that has restarted.
func TestEndedEpisodesSurviveTheirServers(t *testing.T) {
	config := Config{SharedKey: true, RunsOnly: true}
	for name, learns := range map[string]bool{"a peer that knows the run": true, "one that doesn't": false} {
		members := servePool(t, config, config)
		r := newPlannedRun(t, members[0].url)
		if _, ended := r.play(t, members[0].url, 0, 333_000); receiptIn(t, ended) == "" {
			t.Fatal(ended)
		}
		if learns {
			if _, err := r.open(t, members[1].url, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		members[0].Close()
		members[0].kill()
		if ended, err := r.open(t, members[1].url, 0, nil); err != nil || ended != "0" {
			t.Errorf("%s: %q has ended, %v", name, ended, err)
		}
		if begun, _ := r.play(t, members[1].url, 0, 1_000_000); !strings.Contains(begun, "EPISODE_ENDED") {
			t.Errorf("%s plays the episode again: %s", name, begun)
		}
		if _, ended := r.play(t, members[1].url, 1, 500_000); receiptIn(t, ended) == "" {
			t.Errorf("%s doesn't play the others: %s", name, ended)
		}
	}
}

// With withheld scores, neither the agent nor whoever stores its episodes learns a score or a
// verdict, and the sealed receipts still restore a ledger.
func TestScoresAreWithheld(t *testing.T) {
	_, url := serve(t, Config{SharedKey: true, RunsOnly: true, WithholdScores: true})
	r := newPlannedRun(t, url)
	_, good := r.play(t, url, 0, 1_000_000)
	_, bad := r.play(t, url, 1, 100_000)
	hide := func(i int, end string) string {
		return strings.NewReplacer(receiptIn(t, end), "", fmt.Sprint(r.episodes[i].Seed), "").Replace(end)
	}
	if !strings.Contains(good, `"outcome":"withheld"`) || hide(0, good) != hide(1, bad) || len(receiptIn(t, good)) !=
		len(receiptIn(t, bad)) {
		t.Errorf("the ends of a good and a bad episode differ:\n%s\n%s", good, bad)
	}
	sealed := receiptIn(t, good)
	if _, err := score.VerifyReceipt(sealed, echo.LedgerKey().Public().(ed25519.PublicKey)); err == nil || sealed == "" {
		t.Errorf("the receipt %q can be read", sealed)
	}
	signed, err := client.FetchLedger(t.Context(), url, "uid", 0, client.Options{Credential: r.credential})
	empty, none := client.FetchLedger(t.Context(), url, "uid", 1, client.Options{Credential: r.credential})
	if err = errors.Join(err, none); err != nil || !signed.IsSealed() || len(signed.Payload) != len(empty.Payload) {
		t.Errorf("the ledger is readable: %+v, %v", signed, err)
	}
	if signed, err = signed.Open(poolSecrets(t).Scores); err != nil {
		t.Fatal(err)
	}
	if l, err := signed.Verify(echo.LedgerKey().Public().(ed25519.PublicKey)); err != nil || l.Tasks[0].Sum != 1_100_000 {
		t.Errorf("the operator reads %+v, %v", l, err)
	}
	_, other := serve(t, Config{SharedKey: true, RunsOnly: true})
	again := newPlannedRun(t, other)
	if ended, err := again.open(t, other, 0, []string{sealed}); err != nil || ended != "0" {
		t.Errorf("the sealed receipt counts as %s, %v", ended, err)
	}
	var refused *client.StatusError
	if _, err := again.open(t, other, 0, []string{sealed[:len(sealed)-8] + "AAAAAAAA"}); !errors.As(err, &refused) ||
		refused.Status != http.StatusUnprocessableEntity {
		t.Errorf("a forged receipt: %v", err)
	}
}

// A run that began under the release before is played to its end on a pool that is open to all.
func TestOldCredentialStillCounts(t *testing.T) {
	_, url := serve(t, Config{SharedKey: true})
	o := client.Options{Credential: poolSecrets(t).OldRunCredential("uid")}
	if _, err := client.OpenLedger(t.Context(), url, shard3, nil, o); err != nil {
		t.Fatal(err)
	}
	p := wire.Connect(t, url)
	p.Ask(fmt.Sprintf(`{"type":"reset","data":{"run":"uid","shard":3,"episode":0,"seed":7,"pass_score":700000,`+
		`"run_credential":%q}}`, o.Credential))
	if receiptIn(t, p.Ask(`{"type":"step","data":{"kind":"finish","score":900000}}`)) == "" {
		t.Error("its episode doesn't count")
	}
	// The runners of its next attempt are of this release, and send the plan.
	text, err := json.Marshal(planRun(t, 2).plan)
	if err != nil {
		t.Fatal(err)
	}
	planned := shard3
	planned.Plan = text
	if answer, err := client.OpenLedger(t.Context(), url, planned, nil, o); err != nil || answer.Ended.String() != "0" {
		t.Errorf("its next attempt finds %s, %v", answer.Ended, err)
	}
}

// A runner that plays on after another one has begun its shard begins no more episodes. The episode
// that it is playing is graded, once.
func TestRunnersThatPlayOnAreRefused(t *testing.T) {
	s, url := serve(t, Config{SharedKey: true, RunsOnly: true})
	r := newPlannedRun(t, url)
	begin := func() string {
		answer, err := client.OpenLedger(t.Context(), url, client.Shard{Run: "uid", PassScore: r.plan.PassScore,
			Plan: r.text}, nil, client.Options{Credential: r.credential})
		if err != nil || answer.Turn == 0 {
			t.Fatalf("%+v, %v", answer, err)
		}
		return fmt.Sprintf("turn=%d", answer.Turn)
	}
	old, late := begin(), wire.Connect(t, url)
	late.Ask(r.reset(0, old))
	next := begin()
	if end := late.Ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`); receiptIn(t, end) == "" {
		t.Errorf("its last episode is lost: %s", end)
	}
	opened := s.ledgers.RunReports([]string{"uid"}, nil)[0].Opened
	if got := late.Ask(r.reset(1, old)); !strings.Contains(got, "PLAN_UNKNOWN") || !strings.Contains(got, "another runner") {
		t.Errorf("it begins another: %s", got)
	}
	if got := s.ledgers.RunReports([]string{"uid"}, nil)[0].Opened; got != opened {
		t.Errorf("which counts as begun: %d, not %d", got, opened)
	}
	if got := late.Ask(r.reset(1, next)); !strings.Contains(got, `"observation"`) {
		t.Errorf("the next runner: %s", got)
	}
}

// A shard that is played on another server of the pool continues there with the scores that the
// first one gave, without receipts, and the first server then grades none of its episodes. No
// server of the pool plays an episode that has ended on another one.
func TestShardContinuesOnAPeer(t *testing.T) {
	config := Config{SharedKey: true, RunsOnly: true}
	members := servePool(t, config, config, config)
	first, second, third := members[0].url, members[1].url, members[2].url
	r := newPlannedRun(t, first)
	begun := wire.Connect(t, first)
	begun.Ask(r.reset(1))
	if _, ended := r.play(t, first, 0, 333_000); receiptIn(t, ended) == "" {
		t.Fatal(ended)
	}
	if ended, err := r.open(t, second, 0, nil); err != nil || ended != "0" {
		t.Fatalf("on the second server %s has ended, %v", ended, err)
	}
	for name, url := range map[string]string{"first": first, "second": second} {
		if answer, _ := r.play(t, url, 0, 1_000_000); strings.Contains(answer, `"observation"`) {
			t.Errorf("the %s server plays an episode again", name)
		}
	}
	if late := begun.Ask(`{"type":"step","data":{"kind":"finish","score":1000000}}`); receiptIn(t, late) != "" ||
		strings.Contains(late, "episode_score") {
		t.Errorf("the first server grades an episode of a shard that it gave up: %s", late)
	}
	if _, ended := r.play(t, second, 1, 500_000); receiptIn(t, ended) == "" {
		t.Errorf("the second server doesn't grade: %s", ended)
	}
	// The shard goes on to the third server, and back to the first.
	for _, url := range []string{third, first} {
		if ended, err := r.open(t, url, 0, nil); err != nil || ended != "0-1" {
			t.Errorf("%s has ended, %v", ended, err)
		}
	}
	signed, err := client.FetchLedger(t.Context(), first, "uid", 0, client.Options{Credential: r.credential})
	if err != nil {
		t.Fatal(err)
	}
	l, err := signed.Verify(echo.LedgerKey().Public().(ed25519.PublicKey))
	if err != nil || l.Scored != 2 || l.Tasks[0].Sum != 833_000 {
		t.Errorf("the ledger has %+v, %v", l, err)
	}
	var graded int64
	for _, m := range members {
		for _, report := range m.ledgers.RunReports([]string{"uid"}, nil) {
			graded += report.Scored + report.Failed
		}
	}
	if graded != 2 {
		t.Errorf("the servers have graded %d episodes, want 2", graded)
	}
}

// A server that knows the plan by another shard doesn't play a shard that a peer plays, neither at
// once nor after receipts without the plan.
func TestShardIsPlayedByOneServer(t *testing.T) {
	config := Config{SharedKey: true, RunsOnly: true}
	members := servePool(t, config, config)
	first, second := members[0].url, members[1].url
	r := newPlannedRun(t, first)
	if _, ended := r.play(t, first, 0, 333_000); receiptIn(t, ended) == "" {
		t.Fatal(ended)
	}
	if _, err := r.open(t, second, 1, nil); err != nil {
		t.Fatal(err)
	}
	if begun, _ := r.play(t, second, 0, 1_000_000); !strings.Contains(begun, "PLAN_UNKNOWN") {
		t.Errorf("the second server plays the first one's shard: %s", begun)
	}
	unplanned := *r
	unplanned.text = nil
	if _, err := unplanned.open(t, second, 0, nil); err == nil {
		t.Error("the second server opened the shard's ledger without asking the first")
	}
	if begun, _ := r.play(t, second, 0, 1_000_000); !strings.Contains(begun, "PLAN_UNKNOWN") {
		t.Errorf("after a request without the plan, the second server plays the first one's shard: %s", begun)
	}
	if begun, ended := r.play(t, first, 1, 500_000); receiptIn(t, ended) == "" {
		t.Errorf("the first server no longer plays its shard: %s %s", begun, ended)
	}
}
