package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/isolated"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

// asProgram makes the test program act as the server, which runs itself to check packs. Its value
// is the name by which the program is called, which the image needs, or 1 for any.
const asProgram = "CSENV_TEST_AS_ENVSERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		if name != "1" && name != os.Args[0] {
			os.Exit(3)
		}
		main()
		return
	}
	isolated.Main(m)
}

// launch starts the server as a process and returns the addresses of its ports. It stops with the
// test.
func launch(t *testing.T, args ...string) (protocol, ops string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0],
		append([]string{"--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0", "--drain-timeout", "1s"}, args...)...)
	cmd.Args[0] = "envserver"
	cmd.Env = append(os.Environ(), asProgram+"="+cmd.Args[0])
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var line struct{ Msg, Addr, OpsAddr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "Serving" {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return "http://" + line.Addr, "http://" + line.OpsAddr
		}
	}
	t.Fatal("the server doesn't serve")
	return "", ""
}

// swap replaces the files of a folder atomically, like the kubelet.
func swap(t *testing.T, folder, content string, files map[string]string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(folder, content), 0o755))
	for name, text := range files {
		must(os.WriteFile(filepath.Join(folder, content, name), []byte(text), 0o600))
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)))
		}
	}
	must(os.Symlink(content, filepath.Join(folder, "..data_tmp")))
	must(os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
}

func stats(t *testing.T, ops string) score.Report {
	t.Helper()
	response, err := http.Get(ops + "/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var report score.Report
	if err := json.NewDecoder(response.Body).Decode(&report); err != nil {
		t.Fatal(err)
	}
	return report
}

// eventually waits until the server has checked its packs again, which it does in another process.
func eventually(t *testing.T, ops string, holds func(score.Packs) bool) score.Report {
	t.Helper()
	var report score.Report
	wire.AwaitCondition(t, "the server reports its packs anew", func() bool {
		report = stats(t, ops)
		return report.Packs != nil && holds(*report.Packs)
	})
	return report
}

// After a change of a pack, the running server keeps the loaded scenarios, and reports the fault of
// the new ones or the digest that a new server would play.
func TestPacksChange(t *testing.T) {
	t.Parallel()
	with := func(change func(string) string) map[string]string {
		files := map[string]string{}
		for _, name := range []string{"kb/POL-REF.md", "kb/POL-SLA.md", "names/en.yaml", "tickets/T1.yaml"} {
			text, err := os.ReadFile(filepath.Join("../../scenarios/testdata/pack", name))
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(name)] = string(text)
		}
		files["T1.yaml"] = change(files["T1.yaml"])
		return files
	}
	folder := t.TempDir()
	swap(t, folder, "..1", with(func(text string) string { return text }))
	protocol, ops := launch(t, "--pack", folder)
	loaded := stats(t, ops)
	if loaded.Packs == nil || *loaded.Packs != (score.Packs{Digest: loaded.ScenarioDigest}) {
		t.Fatalf("at the start, the packs are %+v and the digest %s", loaded.Packs, loaded.ScenarioDigest)
	}
	client, err := client.Dial(t.Context(), protocol, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reset := func() {
		t.Helper()
		if _, err := client.Reset(t.Context(), map[string]any{"task": "ticket-resolve", "scenario": "T1"}); err != nil {
			t.Error(err)
		}
	}
	reset()

	swap(t, folder, "..2", with(func(text string) string { return "prioritiy: high\n" + text }))
	broken := eventually(t, ops, func(p score.Packs) bool { return p.Error != "" })
	if want := filepath.Join(folder, "T1.yaml") + ":1: "; !strings.HasPrefix(broken.Packs.Error, want) ||
		broken.ScenarioDigest != loaded.ScenarioDigest {
		t.Errorf("with a fault: %q, want it at %s; the digest went from %s to %s", broken.Packs.Error, want,
			loaded.ScenarioDigest, broken.ScenarioDigest)
	}
	reset()

	swap(t, folder, "..3", with(func(text string) string {
		return strings.Replace(text, "version: 1", "version: 2",
			1)
	}))
	changed := eventually(t, ops, func(p score.Packs) bool { return p.Error == "" })
	if changed.ScenarioDigest != loaded.ScenarioDigest || changed.Packs.Digest == loaded.ScenarioDigest {
		t.Errorf("changed: played %s, of packs %s, loaded %s", changed.ScenarioDigest, changed.Packs.Digest,
			loaded.ScenarioDigest)
	}
	reset()
	_, newOps := launch(t, "--pack", folder)
	if got := stats(t, newOps).ScenarioDigest; got != changed.Packs.Digest {
		t.Errorf("a new server plays %s, but the running one reported %s", got, changed.Packs.Digest)
	}
}

// A token that is replaced in its Secret replaces the old one without a restart, and no session
// ends.
func TestTokensChange(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	swap(t, folder, "..1", map[string]string{"token": "old\n"})
	protocol, ops := launch(t, "--token-file", filepath.Join(folder, "token"))
	status := func(url, token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	for url, want := range map[string]int{protocol + "/health": 200, protocol + "/ledger?run=r&shard=0": 401,
		protocol + "/metadata": 401, ops + "/readyz": 200, ops + "/stats": 200} {
		if got := status(url, "wrong"); got != want {
			t.Errorf("%s with a wrong token: %d, want %d", url, got, want)
		}
	}
	client, err := client.Dial(t.Context(), protocol, client.Options{Token: "old"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	swap(t, folder, "..2", map[string]string{"token": "new\n"})
	deadline, ticker := time.After(5*time.Minute), time.NewTicker(200*time.Millisecond)
	defer ticker.Stop()
	for status(protocol+"/metadata", "new") != http.StatusOK {
		select {
		case <-deadline:
			t.Fatal("the new token isn't accepted")
		case <-ticker.C:
		}
	}
	if got := status(protocol+"/metadata", "old"); got != http.StatusUnauthorized {
		t.Errorf("the old token: %d", got)
	}
	if _, err := client.Reset(t.Context(), nil); err != nil {
		t.Errorf("a session that began with the old token: %v", err)
	}
}
