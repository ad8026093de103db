package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/envserver/envvars"
)

// deadCluster is a kubeconfig of a cluster that doesn't answer.
const deadCluster = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n" +
	"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"

// inStore changes to an empty folder, where csenv eval has stored runs a and b of two episodes.
func inStore(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv(envvars.Results, "")
	for name, agent := range map[string]string{"a": "oracle", "b": "noop"} {
		must(t, "eval", "ticket-classify", "--scenarios", "B06,S03", "--name", name, "--agent", agent)
	}
}

// Whatever the kubeconfig holds, stored runs are read where csenv eval has written them. The first
// line says so, and an error names the cluster.
func TestStoredRunsBesideAKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	t.Setenv("KUBECONFIG", file)
	inStore(t)
	for name, text := range map[string]string{"dead": deadCluster, "broken": "clusters: [", "of no cluster": "",
		"without its context": strings.Replace(deadCluster, "current-context: a", "current-context: b", 1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"runs"}, {"results", "a"}, {"episodes", "a"}, {"transcript", "a", "0"},
			{"compare", "a", "b"}, {"leaderboard"}, {"replay", "a", "B06"}} {
			if out := must(t, args...); !strings.HasPrefix(out, "runs of csenv-results\n") {
				t.Errorf("%s, %s: %s", name, args, out)
			}
		}
		for _, args := range [][]string{{"runs", "-o", "json"}, {"results", "a", "-o", "csv"}, {"export", "a"}} {
			out, errs, code := csenv(t, args...)
			if code != exitDone || strings.Contains(out, "runs of") || !strings.HasPrefix(errs, "runs of csenv-results\n") {
				t.Errorf("%s, %s: exit code %d, %s", name, args, code, errs)
			}
		}
		if _, errs, code := csenv(t, "results", "c"); code != exitError || !strings.Contains(errs, "choose one of a, b") ||
			!strings.Contains(errs, "--cluster reads those of a cluster") {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
		if _, errs, code := csenv(t, "runs", "--cluster"); code != exitError ||
			!strings.Contains(errs, "the stored runs of csenv-results are read") || strings.Contains(errs, "has none") {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
		if out, _, _ := csenv(t, "doctor", "--model", "m", "--base-url", "http://127.0.0.1:1/v1"); strings.Contains(out,
			"kubeconfig") {
			t.Errorf("%s: a model is tried, and the cluster too:\n%s", name, out)
		}
	}
	if _, errs, code := csenv(t, "runs", "--results", "csenv-results", "--context", "a"); code != exitError ||
		!strings.Contains(errs, "give one of them") {
		t.Errorf("two sources: exit code %d: %s", code, errs)
	}
}

// Where csenv eval has stored nothing, an error says so before it speaks of a cluster that nobody
// has asked for.
func TestNothingStored(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(envvars.Results, "")
	dead, missing := filepath.Join(t.TempDir(), "dead"), filepath.Join(t.TempDir(), "missing")
	if err := os.WriteFile(dead, []byte(deadCluster), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, cause := range map[string]string{dead: "doesn't answer", missing: "$KUBECONFIG names " + missing} {
		t.Setenv("KUBECONFIG", file)
		for _, args := range [][]string{{"runs"}, {"results", "a"}, {"transcript", "a", "0"}} {
			out, errs, code := csenv(t, args...)
			if code != exitError || !strings.HasPrefix(errs, "error: there are no stored runs in ./csenv-results") ||
				!strings.Contains(errs, cause) || out != "" {
				t.Errorf("%s: exit code %d: %s%s", args, code, out, errs)
			}
		}
		if _, errs, _ := csenv(t, "runs", "--cluster"); strings.HasPrefix(errs, "error: there are no stored") ||
			!strings.Contains(errs, "./csenv-results has none") {
			t.Error(errs)
		}
		if out, errs, code := csenv(t, "doctor"); code != exitDone {
			t.Errorf("a cluster that nobody asked for: exit code %d: %s%s", code, out, errs)
		}
	}
	t.Setenv(envvars.Results, "nowhere")
	if _, errs, code := csenv(t, "runs"); code != exitError || !strings.Contains(errs, "there is no folder nowhere") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Several runs of a name are named by their folders, in lists and in errors.
func TestRunsOfOneName(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	inStore(t)
	must(t, "eval", "ticket-classify", "--scenarios", "B06,S03", "--name", "b", "--agent", "noop")
	folders, err := filepath.Glob("csenv-results/*-*")
	if err != nil || len(folders) != 3 {
		t.Fatal(folders, err)
	}
	list := must(t, "runs")
	_, errs, _ := csenv(t, "results", "b-")
	for _, folder := range folders {
		id := filepath.Base(folder)
		if !strings.Contains(list, id+" ") {
			t.Errorf("%s is missing: %s", id, list)
		}
		if !strings.Contains(errs, id) {
			t.Errorf("%s is missing: %s", id, errs)
		}
	}
}

// A run that no process plays is interrupted at once.
func TestInterruptedAtOnce(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	inStore(t)
	folders, err := filepath.Glob("csenv-results/a-*")
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	segments, err := filepath.Glob(folders[0] + "/shard-00000/*.jsonl")
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	lines, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	first := strings.SplitAfter(string(lines), "\n")[0]
	if err := os.WriteFile(segments[0], []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "runs", "a"); !strings.Contains(out, "Interrupted") {
		t.Error(out)
	}
	unlock, err := cli.LockFolder(folders[0])
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if out := must(t, "runs", "a"); !strings.Contains(out, "Running") {
		t.Error(out)
	}
}

// csenv eval names the episode with the lowest score, and a misspelt scenario is corrected.
func TestWorstEpisode(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Chdir(t.TempDir())
	t.Setenv(envvars.Results, "")
	out := must(t, "eval", "ticket-classify", "--scenarios", "B06,S03,T09", "--agent", "heuristic", "--name", "x")
	var episodes []struct {
		Index int
		Score float64
	}
	if err := json.Unmarshal([]byte(must(t, "episodes", "x", "-o", "json")), &episodes); err != nil || len(episodes) != 3 {
		t.Fatal(episodes, err)
	}
	worst := episodes[0]
	for _, e := range episodes {
		if e.Score < worst.Score {
			worst = e
		}
	}
	folders, _ := filepath.Glob("csenv-results/x-*")
	if want := fmt.Sprintf("csenv transcript %s %d` the episode with the lowest score", filepath.Base(folders[0]),
		worst.Index); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("%q is missing: %s", want, out)
	}
	if _, errs, _ := csenv(t, "transcript", "x", "B0"); !strings.Contains(errs, "did you mean B06?") {
		t.Error(errs)
	}
}

// A store may be a link, and so may a run. --fresh plays every episode again.
func TestLinkedStore(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Chdir(t.TempDir())
	t.Setenv(envvars.Results, "")
	if err := errors.Join(os.Mkdir("disk", 0o700), os.Symlink("disk", "csenv-results")); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"action":{"action_type":"classify","category":"billing","priority":"low"}}`)
	}))
	defer agent.Close()
	play := func(more ...string) int64 {
		asked.Store(0)
		must(t, append([]string{"eval", "ticket-classify", "--scenarios", "B06,S03", "--agent-url", agent.URL,
			"--name", "mine"}, more...)...)
		return asked.Load()
	}
	first := play()
	for _, more := range [][]string{{}, {"--fresh"}, {"--fresh", "--results", "csenv-results"}} {
		if again := play(more...); again != first {
			t.Errorf("%s: %d requests, %d at first", more, again, first)
		}
	}
	if reused := play("--results", "csenv-results"); reused >= first {
		t.Errorf("a stored run is not reused: %d requests", reused)
	}
	stored, err := filepath.Glob("disk/mine-*")
	if err != nil || len(stored) != 4 {
		t.Fatal(stored, err)
	}
	elsewhere := filepath.Join(t.TempDir(), filepath.Base(stored[0]))
	if err := errors.Join(os.Rename(stored[0], elsewhere), os.Symlink(elsewhere, stored[0]),
		os.Symlink("nowhere", "disk/gone")); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "runs"); strings.Count(out, "mine-") != 4 {
		t.Error(out)
	}
	must(t, "results", filepath.Base(stored[0]))
}

// What can't be read of a store is named, hides nothing else, and makes the exit code 1.
func TestBadRunInAStore(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	inStore(t)
	manifests, err := filepath.Glob("csenv-results/b-*/manifest.json")
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}
	good, err := os.ReadFile(manifests[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"empty": "", "of a newer release": strings.Replace(string(good),
		`"version": 1`, `"version": 99`, 1), "not JSON": "\ufeff{", "another object": "{}"} {
		if err := os.WriteFile(manifests[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"runs", "leaderboard"} {
			out, errs, code := csenv(t, command)
			if code != exitOutcome || !strings.Contains(out, "Oracle") || !strings.Contains(errs, "left out run b-") {
				t.Errorf("%s, %s: exit code %d: %s%s", name, command, code, out[:min(len(out), 300)], errs)
			}
		}
		if _, errs, code := csenv(t, "results", "b"); code != exitError || !strings.Contains(errs, "b-") {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
		must(t, "results", "a")
	}
	_, errs, code := csenv(t, "eval", "ticket-classify", "--scenarios", "B06,S03", "--name", "b", "--agent", "noop")
	if code != exitDone || !strings.Contains(strings.Join(strings.Fields(errs), " "), "b is played again beside it") {
		t.Errorf("the same run is not played: exit code %d: %s", code, errs)
	}
}

// A line of a store that is no record is named and left out.
func TestBadLineInAStore(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	inStore(t)
	segments, err := filepath.Glob("csenv-results/a-*/shard-00000/000001.jsonl")
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	lines, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segments[0], append([]byte("garbage\n"), lines...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"runs"}, {"results", "a"}, {"episodes", "a"}, {"export", "a"}, {"compare", "a", "b"}} {
		out, errs, code := csenv(t, args...)
		if code != exitOutcome || !strings.Contains(errs, "left out 1 line of run a-") || strings.Count(out, "\n") < 2 {
			t.Errorf("%s: exit code %d: %s%s", args, code, out, errs)
		}
	}
}

// The date of a run is that of its manifest, however the store was copied.
func TestDatesOfACopiedStore(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	inStore(t)
	created := func() (found []time.Time) {
		var runs []struct{ Created time.Time }
		if err := json.Unmarshal([]byte(must(t, "runs", "-o", "json")), &runs); err != nil || len(runs) != 2 {
			t.Fatal(runs, err)
		}
		return append(found, runs[0].Created, runs[1].Created)
	}
	before := created()
	manifests, err := filepath.Glob("csenv-results/*/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range manifests {
		if err := os.Chtimes(file, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if after := created(); !slices.EqualFunc(before, after, time.Time.Equal) {
		t.Errorf("%v became %v", before, after)
	}
}

// The same command at the same time says which process plays the run, and plays nothing.
func TestSameCommandTwiceAtOnce(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Chdir(t.TempDir())
	t.Setenv(envvars.Results, "")
	args := []string{"eval", "ticket-classify", "--scenarios", "B06,S03", "--results", "runs", "--name", "x"}
	must(t, args...)
	folders, err := filepath.Glob("runs/x-*")
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	unlock, err := cli.LockFolder(folders[0])
	if err != nil {
		t.Fatalf("the lock outlives its command: %v", err)
	}
	want := fmt.Sprintf("process %d plays this run in %s", os.Getpid(), folders[0])
	if out, errs, code := csenv(t, args...); code != exitError || !strings.Contains(errs, want) || out != "" {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	unlock()
	must(t, args...)
}

// The linter reports a ticket whose good reply loses points.
func TestLintGradesReferences(t *testing.T) {
	for name, tt := range map[string]struct{ old, replacement, want string }{
		"a poor reply": {"the sum is {{ money(sum) }}, says finance.", "it is.", "the right reply earns"},
		"another sum":  {`value: "{{ money(sum) }}"`, `value: "$77,771.13"`, "the right reply earns"},
	} {
		t.Run(name, func(t *testing.T) {
			inPack(t)
			change(t, "pack/tickets/T1.yaml", tt.old, tt.replacement)
			if out, errs, code := csenv(t, "scenarios", "lint", "pack"); code != exitOutcome ||
				!strings.Contains(strings.Join(strings.Fields(out), " "), tt.want) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}

// A hang-up ends a command as SIGTERM does, unless it is ignored.
func TestHangUp(t *testing.T) {
	heeded := make(chan os.Signal, 1)
	signal.Notify(heeded, syscall.SIGHUP) // the test itself may run under nohup
	defer signal.Stop(heeded)
	if !slices.Contains(stopSignals(), os.Signal(syscall.SIGHUP)) {
		t.Error("a closed terminal loses episodes")
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	if slices.Contains(stopSignals(), os.Signal(syscall.SIGHUP)) {
		t.Error("nohup is not heeded")
	}
}

// The commands that print lists print as many rows as --limit says.
func TestLimit(t *testing.T) {
	store := t.TempDir()
	for _, name := range []string{"one", "two", "three"} {
		if out, errs, code := csenv(t, "eval", "ticket-classify", "--category", "billing", "--agent", "noop", "--name",
			name, "--results", store); code != exitDone {
			t.Fatalf("exit code %d: %s%s", code, out, errs)
		}
	}
	for _, args := range [][]string{
		{"runs", "--results", store}, {"leaderboard", "--results", store}, {"episodes", "one", "--results", store},
		{"scenarios", "list"},
	} {
		for limit, want := range map[string]int{"2": 2, "0": 0, "1000000": 0} {
			out, errs, code := csenv(t, append(args, "-o", "csv", "--limit", limit)...)
			rows := strings.Count(out, "\n") - 1
			if code != exitDone || want > 0 && rows != want || want == 0 && rows < 3 {
				t.Errorf("%v --limit %s: exit code %d, %d rows: %s%s", args, limit, code, rows, out, errs)
			}
		}
		if _, errs, code := csenv(t, append(args, "--limit", "-1")...); code != exitError {
			t.Errorf("%v --limit -1: exit code %d: %s", args, code, errs)
		}
	}
}

// An empty value of a list, as of a variable that isn't set, doesn't select everything.
func TestEmptyValuesOfLists(t *testing.T) {
	for _, flag := range []string{"--scenario=", "--category=", "--threshold=", "--pack=", "--scenario=B01,,B02"} {
		out, errs, code := csenv(t, "eval", "ticket-classify", "--dry-run", flag)
		if code != exitError || !strings.Contains(errs, "has an empty value") {
			t.Errorf("%s: exit code %d: %s%s", flag, code, out, errs)
		}
	}
	out, errs, code := csenv(t, "eval", "ticket-classify", "--dry-run", "--scenario", "B01, B02")
	if code != exitDone || !strings.Contains(out, "2 episodes") {
		t.Errorf("blanks: exit code %d: %s%s", code, out, errs)
	}
}
