package shard

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/isolated"
	"github.com/csenv/csenv/scenarios"
)

func TestMain(m *testing.M) { isolated.Main(m) }

var poolKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func ticketKind(t *testing.T) episode.Kind {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := ticket.New(catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// pool starts a server and returns its host and port.
func pool(t *testing.T, kind episode.Kind, tokens ...string) string {
	t.Helper()
	cfg := openenv.Config{Kind: kind, LedgerKey: poolKey, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if len(tokens) > 0 {
		cfg.Tokens = func() []string { return tokens }
	}
	server, err := openenv.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		server.Close()
		front.Close()
	})
	return strings.TrimPrefix(front.URL, "http://")
}

// planFile writes a plan over three tickets in two shards.
func planFile(t *testing.T, kind episode.Kind, change func(*score.Plan)) string {
	t.Helper()
	draft := score.Plan{
		Run: "run-1", ScenarioDigest: kind.ScenarioDigest(), GraderVersion: kind.GraderVersion(), Judge: kind.Judge(),
		PassScore: 800_000,
		LedgerKey: score.FormatPublicKey(poolKey.Public().(ed25519.PublicKey)),
		Tasks:     []score.PlanTask{{Name: "ticket-resolve", Trials: 2}},
	}
	for _, s := range kind.Tasks()[1].Scenarios[:3] {
		draft.Tasks[0].Scenarios = append(draft.Tasks[0].Scenarios, s.ID)
	}
	change(&draft)
	plan, err := score.NewPlan(draft, 2)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs the command and returns its termination message.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	message := filepath.Join(t.TempDir(), "termination-log")
	var logs bytes.Buffer
	cmd := newCommand(&logs)
	cmd.SetArgs(append(args, "--termination-log="+message))
	cmd.SetContext(t.Context())
	err := cmd.Execute()
	t.Log(logs.String())
	data, readErr := os.ReadFile(message)
	if readErr != nil && !errors.Is(readErr, os.ErrNotExist) {
		t.Fatal(readErr)
	}
	return string(data), err
}

func builtin(name string) string {
	return `--agent={"type":"Builtin","builtin":{"policy":"` + name + `"}}`
}

func TestRunnerLeavesASummary(t *testing.T) {
	kind := ticketKind(t)
	pod, plan := pool(t, kind), planFile(t, kind, func(*score.Plan) {})
	for _, policy := range []string{"Heuristic", "Oracle"} {
		message, err := run(t, "--plan="+plan, "--shard=0", "--shards=1", "--pool="+pod, builtin(policy))
		if err != nil {
			t.Fatalf("%s: error = %v", policy, err)
		}
		summary, err := score.DecodeSummary([]byte(message))
		if err != nil {
			t.Fatalf("%s: %v: %s", policy, err, message)
		}
		ledger, err := summary.Ledger.Verify(poolKey.Public().(ed25519.PublicKey))
		if err != nil || ledger.Scored != 2 || ledger.Shard != 1 {
			t.Errorf("%s: ledger = %+v, %v; want shard 1 with 2 scored episodes", policy, ledger, err)
		}
	}
}

// The Secret of a pool's tokens contains several tokens during a rotation.
func TestRunnerSendsOneOfThePoolsTokens(t *testing.T) {
	kind := ticketKind(t)
	pod, plan := pool(t, kind, "new", "old"), planFile(t, kind, func(*score.Plan) {})
	t.Setenv(envvars.PoolToken, "new\nold\n")
	if message, err := run(t, "--plan="+plan, "--pool="+pod, builtin("Heuristic")); err != nil {
		t.Errorf("%v: %s", err, message)
	}
}

func TestRunnerReportsErrors(t *testing.T) {
	kind := ticketKind(t)
	pod := pool(t, kind)
	plan := planFile(t, kind, func(*score.Plan) {})
	other := planFile(t, kind, func(p *score.Plan) { p.GraderVersion = "v0" })
	foreign := planFile(t, kind, func(p *score.Plan) { p.Tasks[0].Name = "chess" })
	tests := map[string]struct {
		args []string
		want string
	}{
		"no plan": {[]string{builtin("Heuristic"), "--plan=/nonexistent", "--pool=" + pod},
			"reading the plan: open /nonexistent"},
		"unknown policy": {[]string{"--plan=" + plan, "--pool=" + pod, builtin("Genius")}, `unknown policy "Genius"`},
		"no JSON": {[]string{"--plan=" + plan, "--pool=" + pod, "--agent=Heuristic"},
			"reading --agent: reading the agent: invalid character"},
		"no port": {[]string{builtin("Heuristic"), "--plan=" + plan, "--pool=localhost"},
			"reading --pool: address localhost: missing port"},
		"foreign task": {[]string{builtin("Heuristic"), "--plan=" + foreign, "--pool=" + pod},
			`a runner can't play the plan's task "chess"`},
		"no such agent": {[]string{"--plan=" + plan, "--pool=" + pod, "--agent=@/nonexistent"},
			"reading --agent: open /nonexistent"},
		"no such shards": {[]string{"--plan=" + plan, "--pool=" + pod, "--shards=1-0", builtin("Heuristic")},
			`reading --shards: index set: range "1-0"`},
		"few shards": {[]string{"--plan=" + plan, "--pool=" + pod, "--shards=1", "--shard=1", builtin("Heuristic")},
			"--shard 1 is not within the 1 of --shards 1"},
		"shard too high": {[]string{builtin("Heuristic"), "--plan=" + plan, "--pool=" + pod, "--shard=2"},
			"shard 2 is not within 0 and 1"},
		"another agent": {[]string{"--plan=" + plan, "--pool=" + pod, builtin("Oracle"), "--inputs=" + inputs(t, plan)},
			"is not the one that the Job was created for"},
		"another plan": {[]string{"--plan=" + other, "--pool=" + pod, builtin("Heuristic"), "--inputs=" + inputs(t, plan)},
			"is not the one that the Job was created for"},
		"changed pool": {[]string{builtin("Heuristic"), "--plan=" + other, "--pool=" + pod},
			"the plan is not of this server's scenarios, grader and judge: the grader version"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			message, err := run(t, tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
			if !strings.HasPrefix(message, "error: ") || !strings.Contains(message, tc.want) {
				t.Errorf("termination message = %q, want the error", message)
			}
		})
	}
}

// inputs returns the digest of a plan and of the agent Heuristic.
func inputs(t *testing.T, plan string) string {
	t.Helper()
	data, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	return score.InputsDigest(data, []byte(strings.TrimPrefix(builtin("Heuristic"), "--agent=")))
}

func TestRunnerPlaysItsInputs(t *testing.T) {
	kind := ticketKind(t)
	plan := planFile(t, kind, func(*score.Plan) {})
	if message, err := run(t, "--plan="+plan, "--pool="+pool(t, kind), builtin("Heuristic"),
		"--inputs="+inputs(t, plan)); err != nil {
		t.Errorf("%v: %s", err, message)
	}
}

func TestMessageIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	err := writeMessage(path, func() (score.Summary, error) {
		return score.Summary{},
			errors.New(strings.Repeat("ü", 10_000))
	})
	if err == nil {
		t.Error("writeMessage() lost the error")
	}
	message, readErr := os.ReadFile(path)
	if readErr != nil || len(message) > score.MaxSummaryBytes || len(message) < score.MaxSummaryBytes-1 ||
		!utf8.Valid(message) {
		t.Errorf("the message has %d bytes, %v; want at most %d that are UTF-8", len(message), readErr,
			score.MaxSummaryBytes)
	}
}

func TestUnwritableMessageIsAnError(t *testing.T) {
	err := writeMessage(t.TempDir(), func() (score.Summary, error) { return score.Summary{}, nil })
	if err == nil || !strings.Contains(err.Error(), "writing the termination message") {
		t.Errorf("writeMessage() error = %v", err)
	}
}

// A second runner of a shard counts the episodes that the first one stored as played, on a server
// that never played them.
func TestRunnerStoresAndResumes(t *testing.T) {
	kind := ticketKind(t)
	plan, folder := planFile(t, kind, func(*score.Plan) {}), filepath.Join(t.TempDir(), "results")
	var payloads [2]string
	for i := range payloads {
		message, err := run(t, "--plan="+plan, "--shard=1", "--pool="+pool(t, kind), builtin("Heuristic"),
			"--results="+folder)
		if err != nil {
			t.Fatal(err)
		}
		summary, err := score.DecodeSummary([]byte(message))
		if err != nil {
			t.Fatal(err)
		}
		payloads[i] = string(summary.Ledger.Payload)
		if want := int64(2 - 2*i); summary.Stored != (score.Stored{Episodes: 2}) || summary.Durations.Count() != want {
			t.Errorf("runner %d: stored %+v, %d played; want 2, %d", i, summary.Stored, summary.Durations.Count(), want)
		}
	}
	if payloads[0] != payloads[1] {
		t.Error("the ledgers differ")
	}
	store, err := results.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	m, err := store.Manifest(t.Context(), "")
	if err != nil || m.Environment != "ticket" || m.Plan.Run == "" || !strings.Contains(string(m.Agent), "Heuristic") {
		t.Errorf("manifest %+v (%v)", m, err)
	}
	for e, err := range store.Episodes(t.Context(), "") {
		if err != nil || e.Receipt == "" || len(e.Turns) == 0 || e.Score == nil {
			t.Errorf("episode %+v (%v)", e, err)
		}
	}
}

// A store that can't be opened costs no score.
func TestRunnerWithoutItsStore(t *testing.T) {
	kind := ticketKind(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	message, err := run(t, "--plan="+planFile(t, kind, func(*score.Plan) {}), "--pool="+pool(t, kind),
		builtin("Heuristic"), "--results="+filepath.Join(file, "below"))
	if err != nil {
		t.Fatal(err)
	}
	summary, err := score.DecodeSummary([]byte(message))
	if err != nil || summary.Stored.Episodes != 0 || !strings.Contains(summary.Stored.Error, "not a directory") {
		t.Errorf("stored %+v (%v)", summary.Stored, err)
	}
}
