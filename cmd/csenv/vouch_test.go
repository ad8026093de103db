package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/score"
	"k8s.io/apimachinery/pkg/types"
)

// rewrite changes the lines of all segments of a stored run.
func rewrite(t *testing.T, folder string, change func(*record.Episode)) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(folder, "shard-*", "*.jsonl"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, segment := range segments {
		text, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for line := range bytes.Lines(text) {
			var e record.Episode
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			change(&e)
			if err := record.NewWriter(&out).Write(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(segment, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// sign gives all episodes of a stored run the best score, with receipts of a key that its manifest
// names.
func sign(t *testing.T, folder string, key ed25519.PrivateKey) {
	t.Helper()
	var plan score.Plan
	edit(t, filepath.Join(folder, "manifest.json"), func(m *results.Manifest) {
		m.Plan.LedgerKey = score.FormatPublicKey(key.Public().(ed25519.PublicKey))
		plan = m.Plan
	})
	index := plan.NewIndex()
	rewrite(t, folder, func(e *record.Episode) {
		planned, shard, _ := index.Episode(e.Index)
		r := (&score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore,
			ScenarioDigest: plan.ScenarioDigest, GraderVersion: plan.GraderVersion, Judge: plan.Judge}).Receipt(planned,
			score.Episode{Outcome: score.Scored, Score: score.One})
		text, err := r.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		e.Outcome, e.Score, e.Receipt = score.Scored, new(1.0), text
	})
}

// Whoever may write to a store can put anything there, but nothing that a board ranks: a run has a
// place if every one of its episodes has a receipt of a key that the reader trusts.
func TestForgedStores(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		forge  func(t *testing.T, folder string)
		reason string
	}{
		"edited scores without receipts": {func(t *testing.T, folder string) {
			rewrite(t, folder, func(e *record.Episode) { e.Score, e.Receipt = new(1.0), "" })
		}, "4 episodes stored without a valid receipt"},
		"edited scores beside old receipts": {func(t *testing.T, folder string) {
			rewrite(t, folder, func(e *record.Episode) { e.Score = new(1.0) })
		}, ""}, // the receipts count, so the scores are the old ones
		"a key of the forger's": {func(t *testing.T, folder string) { sign(t, folder, own) },
			"nobody vouches for the key of its signatures: add --key " +
				score.FormatPublicKey(own.Public().(ed25519.PublicKey))},
		"the key that anybody can compute": {func(t *testing.T, folder string) {
			var plan score.Plan
			edit(t, filepath.Join(folder, "manifest.json"), func(m *results.Manifest) { plan = m.Plan })
			sign(t, folder, local.PublicSeedKey(types.UID(plan.Run)))
		}, "nobody vouches for the key"},
		"failures called errors": {func(t *testing.T, folder string) {
			edit(t, filepath.Join(folder, "manifest.json"), func(m *results.Manifest) {
				m.Limits = json.RawMessage(`{"maxErroredPercent":100}`)
			})
			rewrite(t, folder, func(e *record.Episode) {
				if *e.Score < 0.5 {
					e.Outcome, e.Class, e.Score, e.Receipt = score.Errored, "timeout", nil, ""
				}
			})
		}, "errored, which no receipt proves"},
		"another seed in the manifest": {func(t *testing.T, folder string) {
			edit(t, filepath.Join(folder, "manifest.json"), func(m *results.Manifest) { m.Plan.Seed = 99 })
		}, "4 episodes stored without a valid receipt"},
		"another catalogue in the manifest": {func(t *testing.T, folder string) {
			edit(t, filepath.Join(folder, "manifest.json"), func(m *results.Manifest) {
				m.Plan.ScenarioDigest = "sha256:" + strings.Repeat("0", 64)
			})
		}, "4 episodes stored without a valid receipt"},
		"episodes of another run": {func(t *testing.T, folder string) {
			edit(t, filepath.Join(folder, "manifest.json"), func(m *results.Manifest) { m.Plan.Run = "another" })
		}, "4 episodes stored without a valid receipt"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "board")
			for run, agent := range map[string]string{"good": "oracle", "bad": "heuristic"} {
				must(t, "eval", "--task", "ticket-resolve", "--scenarios", "B06,B07,S03,T01", "--agent", agent,
					"--name", run, "--results", folder)
			}
			before := rankedRuns(t, folder)
			if before != "good bad; " {
				t.Fatalf("the board is %q", before)
			}
			stored, err := filepath.Glob(filepath.Join(folder, "bad-*"))
			if err != nil || len(stored) != 1 {
				t.Fatal(stored, err)
			}
			copied := filepath.Join(folder, "forged-01234567")
			if err := os.CopyFS(copied, os.DirFS(stored[0])); err != nil {
				t.Fatal(err)
			}
			tt.forge(t, copied)
			if tt.reason == "" {
				if got := rankedRuns(t, folder); got != "good bad forged; " {
					t.Errorf("the board is %q", got)
				}
				return
			}
			if got := rankedRuns(t, folder); got != "good bad; forged" {
				t.Errorf("the board is %q", got)
			}
			flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
			results, _, _ := csenv(t, "results", "forged", "--results", folder)
			board := must(t, "leaderboard", "--results", folder, "-o", "csv")
			for said, text := range map[string]string{"results": results, "leaderboard": board} {
				text = strings.ReplaceAll(text, "&#43;", "+")
				if !strings.Contains(flat(text), tt.reason) {
					t.Errorf("csenv %s doesn't say %q:\n%.2000s", said, tt.reason, text)
				}
			}
		})
	}
}

// rankedRuns are the runs that the first board ranks, and those without a place.
func rankedRuns(t *testing.T, folder string, args ...string) string {
	t.Helper()
	var boards []figures.Board
	if err := json.Unmarshal([]byte(must(t, append([]string{"leaderboard", "--results", folder, "-o", "json"},
		args...)...)), &boards); err != nil {
		t.Fatal(err)
	}
	var ranked, left []string
	for _, b := range boards {
		for _, e := range b.Entries {
			ranked = append(ranked, e.Run)
		}
		for _, u := range b.Unranked {
			left = append(left, u.Run)
		}
	}
	return strings.Join(ranked, " ") + "; " + strings.Join(left, " ")
}

// The runs of another machine are ranked if the user gives its key, and played again rather than
// continued without it.
func TestKeyOfAnotherMachine(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder, elsewhere := filepath.Join(t.TempDir(), "board"), filepath.Join(t.TempDir(), "key.pem")
	play := func(t *testing.T) string {
		t.Helper()
		_, errs, code := csenv(t, "eval", "--task", "ticket-resolve", "--scenarios", "B06,S03", "--agent", "oracle",
			"--name", "shared", "--results", folder)
		if code != exitDone {
			t.Fatal(errs)
		}
		return errs
	}
	t.Run("there", func(t *testing.T) {
		t.Setenv(envvars.EvalKeyFile, elsewhere)
		play(t)
		if got := rankedRuns(t, folder); got != "shared; " {
			t.Errorf("the board is %q", got)
		}
	})
	if got := rankedRuns(t, folder); got != "; shared" {
		t.Errorf("the board is %q", got)
	}
	var key string
	edit(t, firstManifest(t, folder), func(m *results.Manifest) { key = m.Plan.LedgerKey })
	if got := rankedRuns(t, folder, "--key", key); got != "shared; " {
		t.Errorf("the board with the key is %q", got)
	}
	if board := must(t, "leaderboard", "--results", folder, "--key", key); !strings.Contains(
		strings.Join(strings.Fields(board), " "), "can't show whether each was played once") {
		t.Errorf("the board doesn't say what no store shows:\n%s", board)
	}
	if _, errs, code := csenv(t, "leaderboard", "--results", folder, "--key", "x"); code != exitError ||
		!strings.Contains(errs, "reading --key") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if errs := play(t); !strings.Contains(strings.Join(strings.Fields(errs), " "),
		"is stored with the key of another machine") || strings.Contains(errs, "reused") {
		t.Errorf("the run was continued: %s", errs)
	}
	t.Run("there again", func(t *testing.T) {
		t.Setenv(envvars.EvalKeyFile, elsewhere)
		if errs := play(t); !strings.Contains(errs, "2 episodes reused") {
			t.Errorf("the run was not reused: %s", errs)
		}
	})
}

func firstManifest(t *testing.T, folder string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*", "manifest.json"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// Where no key can be kept, csenv eval plays and stores, and says that no board ranks it.
func TestNoPlaceForAKey(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(envvars.EvalKeyFile, filepath.Join(file, "key.pem"))
	folder := filepath.Join(t.TempDir(), "board")
	args := []string{"eval", "--task", "ticket-classify", "--scenarios", "B06", "--agent", "oracle", "--results", folder}
	if _, errs, code := csenv(t, args...); code != exitDone || !strings.Contains(errs, envvars.EvalKeyFile) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, errs, code := csenv(t, args...); code != exitDone || !strings.Contains(errs, "1 episode reused") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
