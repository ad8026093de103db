package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/envserver/play/record"
)

// Reading a stored run gives the same figures, episodes, transcripts, comparison, leaderboard and
// report.
func TestStoredRuns(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder := filepath.Join(t.TempDir(), "results")
	evaluated := map[string]v1alpha1.EvaluationRun{}
	for _, agent := range []string{"heuristic", "oracle", "noop"} {
		out := must(t, "eval", "--task", "ticket-resolve", "--scenarios", "B06,B07,S03,T01", "--trials", "2", "--agent",
			agent, "--results", folder, "-o", "json")
		var run v1alpha1.EvaluationRun
		if err := json.Unmarshal([]byte(out), &run); err != nil {
			t.Fatal(err)
		}
		evaluated[agent] = run
	}
	t.Run("results", func(t *testing.T) {
		var run v1alpha1.EvaluationRun
		if err := json.Unmarshal([]byte(must(t, "results", "heuristic", "--results", folder, "-o", "json")),
			&run); err != nil {
			t.Fatal(err)
		}
		for name, pair := range map[string][2]any{
			"score":      {evaluated["heuristic"].Status.Score, run.Status.Score},
			"tasks":      {evaluated["heuristic"].Status.Tasks, run.Status.Tasks},
			"categories": {evaluated["heuristic"].Status.Categories, run.Status.Categories},
			"passHatK":   {evaluated["heuristic"].Status.PassHatK, run.Status.PassHatK},
		} {
			if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if err := figures.OutcomeOf(&run); err != nil || run.Status.Results == "" {
			t.Errorf("conditions %v, results %q", run.Status.Conditions, run.Status.Results)
		}
	})
	t.Run("again", func(t *testing.T) {
		_, errs, code := csenv(t, "eval", "--task", "ticket-resolve", "--scenarios", "B06,B07,S03,T01", "--trials", "2",
			"--agent", "oracle", "--results", folder)
		if code != exitDone || !strings.Contains(errs, "8 episodes reused from") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
	t.Run("episodes", func(t *testing.T) {
		if out := must(t, "episodes", "heuristic", "--results", folder, "--scenario", "B07", "-o",
			"csv"); strings.Count(out, "\n") != 3 {
			t.Error(out)
		}
		if out := must(t, "episodes", "noop", "--results", folder, "--below", "0.1", "--limit", "3", "-o",
			"json"); strings.Count(out, `"index"`) != 3 {
			t.Error(out)
		}
		if out := must(t, "episodes", "oracle", "--results", folder, "--errored",
			"--failed"); !strings.HasSuffix(out, "\nno matching episodes\n") {
			t.Error(out)
		}
		narrow(t, must(t, "episodes", "oracle", "--results", folder))
	})
	t.Run("transcript", func(t *testing.T) { transcribed(t, folder) })
	listed(t, folder)
	t.Run("another selection", func(t *testing.T) { rankedApart(t, folder) })
	misread(t, folder)
}

func listed(t *testing.T, folder string) {
	t.Run("compare", func(t *testing.T) {
		out := must(t, "compare", "oracle", "noop", "--results", folder)
		if !strings.Contains(strings.Join(strings.Fields(out), " "),
			"over 4 scenarios: oracle is better (95 % interval +") {
			t.Error(out)
		}
	})
	t.Run("leaderboard", func(t *testing.T) {
		out := must(t, "leaderboard", "--results", folder)
		narrow(t, out)
		if !strings.Contains(out, "oracle") || strings.Index(out, "oracle ") > strings.Index(out, "noop ") {
			t.Error(out)
		}
	})
	t.Run("runs", func(t *testing.T) {
		out := must(t, "runs", "--results", folder)
		narrow(t, out)
		if strings.Count(out, "Completed") != 3 || !strings.Contains(out, "8/8") || !strings.Contains(out, "(UTC)") {
			t.Error(out)
		}
	})
}

func misread(t *testing.T, folder string) {
	t.Run("errors", func(t *testing.T) {
		for name, tt := range map[string]struct {
			args []string
			want string
		}{
			"unknown": {[]string{"results", "oracles", "--results", folder}, "there is no run oracles in " +
				folder + ": choose one of heuristic, noop, oracle"},
			"no folder": {[]string{"results", "x", "--results", filepath.Join(folder, "none")},
				"there is no folder"},
			"no runs": {[]string{"leaderboard", "--results", t.TempDir()}, "contains no runs"},
			"no episode": {[]string{"transcript", "oracle", "99", "--results", folder},
				"run oracle has no stored episode 99"},
			"which trial": {[]string{"transcript", "oracle", "B07", "--results", folder},
				"scenario B07 was played in episodes"},
			"a file as a format": {[]string{"runs", "-o", "rep.json", "--results", folder},
				"choose one of table, json, yaml, csv, markdown; -o is a format, and -O or > names a file"},
			"no task": {[]string{"episodes", "oracle", "--task", "nope", "--results", folder},
				"run oracle has no episode of task \"nope\": choose one of ticket-resolve"},
			"labels there": {[]string{"leaderboard", "-l", "a=b", "--results", folder}, "has the labels a=b"},
		} {
			if out, errs, code := csenv(t, tt.args...); code != exitError || !strings.Contains(errs, tt.want) {
				t.Errorf("%s: exit code %d, %s%s", name, code, out, errs)
			}
		}
	})
}

func transcribed(t *testing.T, folder string) {
	out := must(t, "transcript", "oracle", "0", "--results", folder)
	narrow(t, out)
	for _, want := range []string{"OBSERVATIONS", "ACTION 1 OF", "action         ", "GRADE",
		"response ", "facts", "GIVEN AND GOLD", "priority "} {
		if !strings.Contains(out, want) {
			t.Errorf("the transcript does not contain %q:\n%s", want, out)
		}
	}
	var e record.Episode
	if err := json.Unmarshal([]byte(must(t, "transcript", "oracle", "0", "--results", folder, "-o", "json")),
		&e); err != nil || e.Receipt == "" {
		t.Errorf("%+v, %v", e, err)
	}
}

// A run of chosen scenarios is not ranked above those that played all.
func rankedApart(t *testing.T, folder string) {
	for _, args := range [][]string{{"--name", "picked", "--scenarios", "B06"}, {"--name", "seeded", "--scenarios",
		"B06,B07,S03,T01", "--trials", "2", "--seed", "7"}} {
		must(t, append([]string{"eval", "ticket-resolve", "--agent", "oracle", "--results", folder}, args...)...)
	}
	var boards []struct {
		Apart   string
		Entries []struct{ Run string }
	}
	if err := json.Unmarshal([]byte(must(t, "leaderboard", "--results", folder, "-o", "json")), &boards); err != nil {
		t.Fatal(err)
	}
	if len(boards) != 3 || len(boards[0].Entries) != 3 || boards[0].Apart != "" {
		t.Fatalf("%+v", boards)
	}
	for _, b := range boards[1:] {
		want := map[string]string{"picked": "on 1 scenario (", "seeded": "in: seed 7"}[b.Entries[0].Run]
		if len(b.Entries) != 1 || want == "" || !strings.Contains(b.Apart, want) {
			t.Errorf("%+v", b)
		}
	}
}

// A stored run that failed or missed a threshold has the same outcome as when it was played.
func TestStoredOutcomes(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the model is gone", http.StatusBadRequest)
	}))
	defer broken.Close()
	folder := t.TempDir()
	for name, args := range map[string][]string{
		"errs":   {"--agent", "http", "--agent-url", broken.URL},
		"misses": {"--agent", "noop", "--threshold", "meanScore=0.9"},
	} {
		_, errs, code := csenv(t, append([]string{"eval", "--task", "ticket-classify", "--scenarios", "B06,S03",
			"--name", name, "--results", folder}, args...)...)
		if code != exitOutcome {
			t.Fatalf("%s: exit code %d: %s", name, code, errs)
		}
	}
	for name, want := range map[string]string{
		"errs":   "errs: TooManyErrored, 0 of 2 episodes scored, ",
		"misses": "meanScore is 0.0000, below 0.9",
	} {
		out, errs, code := csenv(t, "results", name, "--results", folder)
		if code != exitOutcome || errs != "" || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q; want %q:\n%s", code, errs, want, out)
		}
	}
	if out := must(t, "leaderboard", "--results", folder, "-o", "csv"); !strings.Contains(out,
		"not ranked,,errs,127.0.0.1") || !strings.Contains(out, ",TooManyErrored\n") {
		t.Error(out)
	}
}

func TestDoctor(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	out, errs, code := csenv(t, "doctor")
	narrow(t, out)
	if code == exitError || errs != "" || !strings.Contains(out, "kubeconfig") ||
		!strings.Contains(out, "40 tickets and 20 workflows") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// Reading a store creates no folder.
func TestRegradeMissingFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "none")
	if _, errs, code := csenv(t, "regrade", "file://"+folder); code != exitError ||
		!strings.Contains(errs, "there is no folder") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("regrade made the folder: %v", err)
	}
}

// If the store can't be read, the score stays and the run reports that it isn't stored.
func TestEvalWithoutItsStore(t *testing.T) {
	folder := t.TempDir()
	args := []string{"eval", "--task", "ticket-resolve", "--scenarios", "B06,S03", "--results", folder}
	scored := must(t, args...)
	segments, err := filepath.Glob(filepath.Join(folder, "*", "shard-00000", "000001.jsonl"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	if err := errors.Join(os.Remove(segments[0]), os.Mkdir(segments[0], 0o700),
		os.WriteFile(filepath.Join(segments[0], "foreign"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	out, errs, code := csenv(t, args...)
	if code != exitOutcome || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"StoreFailed, 2 of 2 episodes scored", "0 of 2 episodes are stored",
		"000001.jsonl: file does not exist", "The score stands", lineWith(t, scored, "Score 0.")} {
		if !strings.Contains(strings.ReplaceAll(out, "\n", " "), want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
}

// lineWith returns the line of a text that contains the words.
func lineWith(t *testing.T, text, words string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, words) {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no line says %q:\n%s", words, text)
	return ""
}
