package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score"
)

// volume is a folder in the kubelet's layout: links to files in a folder to which another link
// points, which is swapped.
type volume struct {
	t       *testing.T
	folder  string
	version int
}

func newVolume(t *testing.T, files map[string]string) *volume {
	t.Helper()
	v := &volume{t: t, folder: t.TempDir()}
	v.swap(files)
	return v
}

func (v *volume) swap(files map[string]string) {
	v.t.Helper()
	v.version++
	content := fmt.Sprintf("..2026_01_01_%d", v.version)
	must := func(err error) {
		v.t.Helper()
		if err != nil {
			v.t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(v.folder, content), 0o755))
	for name, text := range files {
		must(os.WriteFile(filepath.Join(v.folder, content, name), []byte(text), 0o600))
		if _, err := os.Lstat(filepath.Join(v.folder, name)); err != nil {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(v.folder, name)))
		}
	}
	before, _ := os.Readlink(filepath.Join(v.folder, "..data"))
	must(os.Symlink(content, filepath.Join(v.folder, "..data_tmp")))
	must(os.Rename(filepath.Join(v.folder, "..data_tmp"), filepath.Join(v.folder, "..data")))
	if before != "" {
		must(os.RemoveAll(filepath.Join(v.folder, before)))
	}
}

// watching is a packWatch whose check reports its calls.
type watching struct {
	*packWatch
	checks int
	answer score.Packs
	err    error
	during func()
}

func watch(folders ...string) *watching {
	w := &watching{during: func() {}}
	w.packWatch = &packWatch{folders: folders, log: slog.New(slog.DiscardHandler), seen: hashFolders(folders)}
	w.check = func(context.Context) (score.Packs, error) {
		w.checks++
		w.during()
		return w.answer, w.err
	}
	return w
}

// A server checks its packs about every packInterval, until it ends.
func TestLooks(t *testing.T) {
	v := newVolume(t, map[string]string{"T1.yaml": "first"})
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		w := watch(v.folder)
		w.check = func(context.Context) (score.Packs, error) {
			checks.Add(1)
			return score.Packs{}, errors.New("looked at again")
		}
		ctx, stop := context.WithCancel(t.Context())
		go w.run(ctx)
		v.swap(map[string]string{"T1.yaml": "second"})
		<-time.After(10*packInterval + packInterval/2)
		stop()
		synctest.Wait()
		looks := checks.Load()
		if looks < 9 || looks > 11 {
			t.Errorf("%d looks in ten intervals and a half", looks)
		}
		<-time.After(10 * packInterval)
		if checks.Load() != looks {
			t.Error("looked at after the end")
		}
	})
}

func TestWatchedPacks(t *testing.T) {
	v := newVolume(t, map[string]string{"T1.yaml": "first"})
	w := watch(v.folder)
	pass := func() { w.look(t.Context()) }
	report := w.reporter("sha256:loaded")
	expect := func(what string, checks int, want score.Packs) {
		t.Helper()
		if diff := cmp.Diff(want, report()); diff != "" || w.checks != checks {
			t.Errorf("%s: %d checks, want %d; report (-want +got):\n%s", what, w.checks, checks, diff)
		}
	}
	loaded, changed := score.Packs{Digest: "sha256:loaded"}, score.Packs{Digest: "sha256:changed"}
	pass()
	pass()
	expect("nothing has changed", 0, loaded)

	w.answer = changed
	v.swap(map[string]string{"T1.yaml": "2nd.."}) // with the same length
	pass()
	expect("a change", 1, changed)
	pass()
	pass()
	expect("the same change", 1, changed)

	w.answer = score.Packs{Error: "T1.yaml:3: wrong"}
	v.swap(map[string]string{"T1.yaml": "third"})
	pass()
	expect("a fault", 2, w.answer)

	w.answer, w.err = score.Packs{}, errors.New("no process")
	v.swap(map[string]string{"T1.yaml": "fourth"})
	pass()
	expect("a check that isn't possible", 3, score.Packs{Error: "T1.yaml:3: wrong"})
	w.answer, w.err = changed, nil
	pass()
	expect("a check that is possible again", 4, changed)

	w.during = func() {
		w.during = func() {}
		v.swap(map[string]string{"T1.yaml": "sixth"})
	}
	w.answer = score.Packs{Digest: "sha256:torn"}
	v.swap(map[string]string{"T1.yaml": "fifth"})
	pass()
	expect("a change while it is checked", 5, changed)
	w.answer = score.Packs{Digest: "sha256:sixth"}
	pass()
	expect("the look after it", 6, score.Packs{Digest: "sha256:sixth"})

	w.answer = score.Packs{Error: "gone"}
	if err := os.RemoveAll(v.folder); err != nil {
		t.Fatal(err)
	}
	pass()
	expect("a folder that is gone", 7, score.Packs{Error: "gone"})
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	nested := func(t *testing.T) string {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, "tickets"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(folder, "tickets", "T1.yaml"), "text", 1)
		return folder
	}
	tests := map[string]struct {
		change func(t *testing.T, folder string)
		same   bool
	}{
		"nothing": {func(*testing.T, string) {}, true},
		"a hidden file": {func(t *testing.T, f string) { writeFile(t, filepath.Join(f, ".T1.yaml.swp"), "x", 2) },
			true},
		"another time": {func(t *testing.T, f string) {
			writeFile(t, filepath.Join(f, "tickets", "T1.yaml"), "text",
				2)
		}, false},
		"another length": {func(t *testing.T, f string) {
			writeFile(t, filepath.Join(f, "tickets", "T1.yaml"), "texts",
				1)
		}, false},
		"a file more": {func(t *testing.T, f string) {
			writeFile(t, filepath.Join(f, "tickets", "T2.yaml"), "text",
				1)
		}, false},
		"a file less": {func(t *testing.T, f string) {
			if err := os.Remove(filepath.Join(f, "tickets", "T1.yaml")); err != nil {
				t.Fatal(err)
			}
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := nested(t)
			link := filepath.Join(t.TempDir(), "pack")
			if err := os.Symlink(folder, link); err != nil {
				t.Fatal(err)
			}
			before := hashFolders([]string{link})
			tt.change(t, folder)
			if same := hashFolders([]string{link}) == before; same != tt.same {
				t.Errorf("the same fingerprint: %v, want %v", same, tt.same)
			}
		})
	}
}

// --check reports what a server with the same flags would play, or its error.
func TestCheck(t *testing.T) {
	const pack = "../../../scenarios/testdata/pack"
	broken := t.TempDir()
	writeFile(t, filepath.Join(broken, "T9.yaml"), "kind: TicketScenario\nprioritiy: high\n", 1)
	check := func(args ...string) score.Packs {
		t.Helper()
		var out strings.Builder
		cmd := NewCommand(Setting{Use: "envserver", LookupEnv: noEnvironment})
		cmd.SetArgs(append(args, "--check"))
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		var packs score.Packs
		if err := json.Unmarshal([]byte(out.String()), &packs); err != nil {
			t.Fatal(err)
		}
		return packs
	}
	for _, args := range [][]string{{"--pack", pack}, {"--pack", pack, "--split", "public-train"},
		{"--environment", "workflow", "--scenarios", pack, "--pack", pack + "/../../../nowhere"}} {
		kind, _, err := newKind(parse(t, args, nil))
		got := check(args...)
		if err == nil && (got.Error != "" || got.Digest != kind.ScenarioDigest()) || err != nil &&
			(got.Digest != "" || !strings.HasSuffix(err.Error(), got.Error)) {
			t.Errorf("%v: %+v, %v at the start", args, got, err)
		}
	}
	if got := check("--pack", broken); !strings.HasPrefix(got.Error, filepath.Join(broken, "T9.yaml")+":") {
		t.Errorf("a fault: %q", got.Error)
	}
	// A judge without its key is not a fault of the packs.
	if got := check("--pack", pack, "--judge", "llm", "--judge-base-url", "https://x.test/v1", "--judge-model", "m",
		"--judge-api-key-file", "none.key"); got.Digest == "" {
		t.Errorf("with a judge: %+v", got)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	line := func(n int) string { return fmt.Sprintf("T%d.yaml:1: ", n) + strings.Repeat("x", 500) }
	var lines []string
	for n := range 9 {
		lines = append(lines, line(n))
	}
	for name, tt := range map[string]struct{ err, want string }{
		"short":         {loadingFailed + "\nT1.yaml:3: wrong", "T1.yaml:3: wrong"},
		"many":          {strings.Join(lines, "\n"), strings.Join(lines[:4], "\n") + "\n… and 5 more"},
		"one long line": {strings.Repeat("y", 3000), strings.Repeat("y", 2048)},
	} {
		if diff := cmp.Diff(tt.want, formatFault(errors.New(tt.err))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
