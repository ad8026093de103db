package rollout

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// serveShared starts a server whose key the operator has too, and returns its address and secrets.
func serveShared(tb testing.TB, kind episode.Kind, changes ...func(*openenv.Config)) (string, *poolkey.Secrets) {
	tb.Helper()
	secrets, err := poolkey.DeriveSecrets(poolKey)
	if err != nil {
		tb.Fatal(err)
	}
	serverConfig := openenv.Config{Kind: kind, LedgerKey: poolKey, SharedKey: true, Logger: quiet()}
	for _, change := range changes {
		change(&serverConfig)
	}
	server, err := openenv.New(serverConfig)
	if err != nil {
		tb.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	tb.Cleanup(func() {
		server.Close()
		front.Close()
	})
	return strings.TrimPrefix(front.URL, "http://"), secrets
}

// The runner of a pool that withholds scores passes on a ledger that it can't read.
func TestRunnersPassOnSealedLedgers(t *testing.T) {
	kind := ticketKind(t, offline.New())
	pod, secrets := serveShared(t, kind, func(c *openenv.Config) { c.WithholdScores = true })
	cfg := config(t, plan(t, kind, 2, 1, 1), policy.Oracle, pod)
	cfg.Credential = secrets.RunCredential(cfg.Plan.Run, poolkey.Grant{Plan: fingerprint(t, cfg.Plan)})
	summary, err := Run(t.Context(), cfg)
	if err != nil || !summary.Ledger.IsSealed() {
		t.Fatalf("the summary %+v is readable, %v", summary, err)
	}
	if summary.Ledger, err = summary.Ledger.Open(secrets.Scores); err != nil {
		t.Fatal(err)
	}
	if l := ledgerOf(t, summary); l.Scored != cfg.Plan.Episodes() {
		t.Errorf("the ledger has %+v", l)
	}
}

// A pool plays a shard only for the run's runner, and the stored episodes can be graded again.
func TestShardsNeedTheRunsCredential(t *testing.T) {
	kind := ticketKind(t, offline.New())
	pod, secrets := serveShared(t, kind)
	cfg := config(t, plan(t, kind, 2, 1, 1), policy.Oracle, pod)
	cfg.Clock = sleepingClock()
	for name, c := range map[string]struct{ credential, want string }{
		"none":          {"", "server of an earlier release than this runner's"},
		"another run's": {secrets.RunCredential("run-2", poolkey.Grant{Plan: fingerprint(t, cfg.Plan)}), "credential is missing or wrong"},
		"another plan's": {secrets.RunCredential(cfg.Plan.Run, poolkey.Grant{Plan: fingerprint(t, plan(t, kind, 1, 1, 1))}),
			"not the one of the run's credential"},
	} {
		cfg.Credential = c.credential
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
	cfg.Credential = secrets.RunCredential(cfg.Plan.Run, poolkey.Grant{Plan: fingerprint(t, cfg.Plan)})
	var mu sync.Mutex
	var played []record.Episode
	cfg.Record = func(e record.Episode) {
		mu.Lock()
		defer mu.Unlock()
		played = append(played, e)
	}
	summary, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if l := ledgerOf(t, summary); l.Scored != cfg.Plan.Episodes() {
		t.Errorf("%d scored of %d", l.Scored, cfg.Plan.Episodes())
	}
	for _, e := range played {
		again, err := record.RegradeEpisode(t.Context(), kind, e)
		if err != nil || *again.Score != *e.Score {
			t.Errorf("%s %s is graded again as %+v, %v", e.Task, e.Scenario, again.Grade, err)
		}
	}
}

// The order of play follows from the run's credential, so that an agent that counts its episodes
// doesn't learn their places in the plan. Without one it follows from the seed, so that what is
// played first is of all categories.
func TestTheOrderOfPlayIsTheRunsOwn(t *testing.T) {
	p := plan(t, ticketKind(t, offline.New()), 8, 2, 1)
	order := func(credential string) (indices []int64) {
		cfg := config(t, p, policy.Noop)
		cfg.Credential = credential
		for _, j := range newShard(cfg, "pod").queue {
			indices = append(indices, j.episode.Index)
		}
		return indices
	}
	planned, run, other := order(""), order("a"), order("b")
	if slices.Equal(run, planned) || slices.Equal(run, other) || !slices.Equal(run, order("a")) {
		t.Errorf("played %v, in another run %v, again %v", run, other, order("a"))
	}
	if slices.IsSorted(planned) || !slices.Equal(planned, order("")) ||
		!slices.Equal(slices.Sorted(slices.Values(run)), slices.Sorted(slices.Values(planned))) {
		t.Errorf("played %v, without a credential %v", run, planned)
	}
}

// If a server has no space for a ledger, the shard is played on the next one.
func TestServersWithoutSpaceForALedgerAreSkipped(t *testing.T) {
	kind := ticketKind(t, offline.New())
	p := plan(t, kind, 2, 1, 1)
	fronts := map[string]*httptest.Server{}
	var pods []string
	for range 2 {
		front, pod := serve(t, kind, 0)
		fronts[pod], pods = front, append(pods, pod)
	}
	first := rankPods(p.Run, 0, pods)[0]
	inner := fronts[first].Config.Handler
	refused := 0
	fronts[first].Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/ledger" {
			refused++
			http.Error(w, `{"detail":"the maximum of ledgers"}`, http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	})
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pods...))
	if err != nil {
		t.Fatal(err)
	}
	if l := ledgerOf(t, summary); l.Scored != p.Episodes() || refused != 1 {
		t.Errorf("%d scored of %d after %d refusals", l.Scored, p.Episodes(), refused)
	}
}

// A server that reads too many bodies for now isn't full: the ledger is opened there a little
// later.
func TestABusyServerIsAskedAgain(t *testing.T) {
	kind := ticketKind(t, offline.New())
	p := plan(t, kind, 2, 1, 1)
	front, pod := serve(t, kind, 0)
	inner := front.Config.Handler
	opened := 0
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/ledger" {
			if opened++; opened < resumeAttempts {
				http.Error(w, `{"detail":"too many bodies"}`, http.StatusTooManyRequests)
				return
			}
		}
		inner.ServeHTTP(w, r)
	})
	summary, err := Run(t.Context(), config(t, p, policy.Oracle, pod))
	if err != nil {
		t.Fatal(err)
	}
	if l := ledgerOf(t, summary); l.Scored != p.Episodes() || opened != resumeAttempts {
		t.Errorf("%d scored of %d after %d requests for the ledger", l.Scored, p.Episodes(), opened)
	}
}

// Playing a run's scenarios with many seeds in advance doesn't reveal the ids of its episodes,
// which are the same on all servers of a pool.
func TestPractisingIdentifiesNoEpisode(t *testing.T) {
	kind := ticketKind(t, offline.New())
	pod, secrets := serveShared(t, kind)
	twin, _ := serveShared(t, kind)
	draft := plan(t, kind, 3, 2, 1)
	ids := func(pod string, options func(score.PlannedEpisode) any, p score.Plan) []string {
		session, err := client.Dial(t.Context(), pod, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for e := range p.Shard(0) {
			begun, err := session.Reset(t.Context(), options(e))
			if err != nil {
				t.Fatal(err)
			}
			var o struct {
				ID string `json:"ticket_id"`
			}
			if err := json.Unmarshal(begun.Observation, &o); err != nil || o.ID == "" {
				t.Fatal(o, err)
			}
			seen = append(seen, o.ID)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	tagged := func(run string) func(score.PlannedEpisode) any {
		return func(e score.PlannedEpisode) any {
			return resetOptions{Seed: e.Seed, Task: e.Task, Scenario: e.Scenario, Run: run, Episode: e.Index,
				Credential: secrets.OldRunCredential(run)}
		}
	}
	practised := map[string]bool{}
	for seed := range int64(101) {
		p := draft
		p.Seed = seed
		untagged := func(e score.PlannedEpisode) any {
			return map[string]any{"seed": e.Seed, "task": e.Task, "scenario": e.Scenario}
		}
		for _, options := range []func(score.PlannedEpisode) any{tagged("another-run"), untagged} {
			for _, id := range ids(pod, options, p) {
				practised[id] = true
			}
		}
	}
	played := ids(pod, tagged("run-1"), draft)
	for _, id := range played {
		if practised[id] {
			t.Errorf("an episode of the run is recognised by %s", id)
		}
	}
	if other := ids(twin, tagged("run-1"), draft); strings.Join(other, " ") != strings.Join(played, " ") {
		t.Errorf("a second server gives %v, the first %v", other, played)
	}
}

// fingerprint is that of a plan's JSON.
func fingerprint(tb testing.TB, p score.Plan) string {
	tb.Helper()
	text, err := p.Fingerprint()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
