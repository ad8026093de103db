package guides

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/testkit/isolated"
)

func TestMain(m *testing.M) { isolated.Main(m) }

var update = flag.Bool("update", false, "write the output of the commands into the guides")

const (
	root = "../.."
	// limit is the time of all commands of one guide.
	limit = 8 * time.Minute
	// marker separates the output of two blocks.
	marker = "----8<---- end of block"
)

// masks replace what differs between two executions: dates, durations, addresses, digests, versions
// and widths of columns. Scores have four decimals, seconds three.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?`), "DATE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`\b\d+\.\d{3}\b`), "SECONDS"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|s|m\d+s|m)\b`), "TIME"},
	{regexp.MustCompile(`\b(sha256:)?[0-9a-f]{8,64}\b`), "ID"},
	{regexp.MustCompile(`\bv?\d+\.\d+\.\d+(-\S+)?|\bdev\b`), "VERSION"},
	{regexp.MustCompile(`[ ─-╿-]{2,}`), " "},
}

func masked(text string) string {
	for _, mask := range masks {
		text = mask.what.ReplaceAllString(text, mask.with)
	}
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

func TestTheGuidesShowWhatTheirCommandsPrint(t *testing.T) {
	if testing.Short() {
		t.Skip("builds csenv and plays some hundred episodes")
	}
	bin := filepath.Join(t.TempDir(), "csenv")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", bin, "./cmd/csenv")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building csenv: %v\n%s", err, output)
	}
	pages, err := filepath.Glob(root + "/docs/guides/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("found %d guides: %v", len(pages), err)
	}
	pages = append(pages, root+"/README.md")
	model := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(model.Close)
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			folder := t.TempDir()
			if err := MakeCheckout(folder, root, map[string]string{"csenv": bin}); err != nil {
				t.Fatal(err)
			}
			follow(t, page, folder, model.URL)
		})
	}
}

// follow executes a guide's blocks in order, in one shell.
func follow(t *testing.T, path, folder, model string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	all := ParseBlocks(page)
	script := "set -euo pipefail\n"
	ran, left := 0, map[string]int{}
	for _, b := range all {
		switch {
		case b.Language != "sh":
		case b.Why != "":
			left[b.Why]++
		default:
			ran++
			script += page[b.Start:b.End] + "echo '" + marker + "'\n"
		}
	}
	t.Logf("%d blocks executed, not executed: %v", ran, left)
	if ran == 0 {
		t.Fatal("the guide has no command that can be executed")
	}
	outputs := strings.Split(run(t, script, folder, model), marker+"\n")
	if len(outputs) != ran+1 {
		t.Fatalf("%d of %d blocks were executed", len(outputs)-1, ran)
	}
	compare(t, path, page, all, outputs)
}

func compare(t *testing.T, path, page string, all []Block, outputs []string) {
	t.Helper()
	var written strings.Builder
	done, next := 0, 0
	for i, b := range all {
		if b.Language != "sh" || b.Why != "" {
			continue
		}
		output := strings.TrimSpace(outputs[next]) + "\n"
		next++
		if i+1 == len(all) || all[i+1].Language != "text" {
			continue
		}
		shown := all[i+1]
		if diff := cmp.Diff(masked(page[shown.Start:shown.End]), masked(output)); diff != "" && !*update {
			t.Errorf("%s\nshows (-), but the commands print (+):\n%s", page[b.Start:b.End], diff)
		} else if diff != "" {
			written.WriteString(page[done:shown.Start] + output)
			done = shown.End
		}
	}
	if *update && done > 0 {
		if err := os.WriteFile(path, []byte(written.String()+page[done:]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// run returns the standard output of a script and ends what the script leaves running.
func run(t *testing.T, script, folder, model string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir = folder
	shell.Env = append(os.Environ(), "MODEL_URL="+model+"/v1", "CSENV_AGENT_KEY=unused", "NO_COLOR=1",
		"CSENV_RESULTS=", "KUBECONFIG="+filepath.Join(folder, "none"),
		"CSENV_EVAL_KEY_FILE="+filepath.Join(folder, "eval-key.pem"))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	err := shell.Run()
	if shell.Process != nil {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// answer is a model of the OpenAI-compatible chat completions that calls one tool after another.
func answer(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Role string }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turn := 0
	for _, message := range request.Messages {
		if message.Role == "assistant" {
			turn++
		}
	}
	calls := []string{
		`{"name":"classify","arguments":"{\"category\":\"billing\",\"priority\":\"high\"}"}`,
		`{"name":"respond","arguments":"{\"message\":\"Thank you. We are looking into it and write again by tomorrow.\"}"}`,
		`{"name":"resolve","arguments":"{}"}`,
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"scripted","choices":[{"index":0,
		"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[
		{"id":"c%d","type":"function","function":%s}]}}],
		"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`, turn, calls[min(turn, len(calls)-1)])
}
