package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
)

// hostile begins like a formula, and contains terminal escapes, changes of direction, HTML and
// Markdown.
const hostile = "=cmd\x1b[2J\u009b31m\u202egnp\u2066\x00\a\x7f\U000e0041|`<b>[x](https://evil.example)"

// hostileRun stores a run in which every external text is hostile, and returns the folder.
func hostileRun(t *testing.T) (folder, run string) {
	t.Helper()
	folder = t.TempDir()
	must(t, "eval", "--task", "ticket-resolve", "--scenarios", "B06,B07,S03", "--agent", "noop", "--results", folder)
	stored, err := filepath.Glob(filepath.Join(folder, "noop-*"))
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	edit(t, filepath.Join(stored[0], "manifest.json"), func(m *results.Manifest) {
		m.Plan.Judge, m.Plan.GraderVersion, m.Runner = hostile, hostile, hostile
		name, err := json.Marshal(hostile)
		if err != nil {
			t.Fatal(err)
		}
		m.Agent = json.RawMessage(`{"type":"OpenAI","openAI":{"model":` + string(name) + `}}`)
		m.Plan.Tasks[0].Name = hostile
	})
	segment := filepath.Join(stored[0], "shard-00000", "000001.jsonl")
	lines, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(lines)) {
		var e record.Episode
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		action := mustMarshal(t, map[string]any{"action_type": hostile, hostile: hostile, "b": []string{hostile}})
		e.Turns = append(e.Turns, record.Turn{Action: action, Refused: hostile})
		e.Judge, e.Class, e.GraderVersion, e.Task, e.Receipt = hostile, hostile, hostile, hostile, ""
		verdict := mustMarshal(t, map[string]any{"criteria": []any{map[string]any{"id": hostile, "reason": hostile}},
			"gates": []any{map[string]any{"id": hostile, "reason": hostile}}, "invented": []string{hostile}})
		e.Verdicts = []json.RawMessage{verdict}
		if err := record.NewWriter(&out).Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(segment, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run = "=\u009b31m\u202e|<b>"
	if err := os.Rename(stored[0], filepath.Join(folder, run+"-01234567")); err != nil {
		t.Fatal(err)
	}
	return folder, run
}

func edit[T any](t *testing.T, file string, change func(*T)) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	change(&v)
	if data, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// No text of a store, an agent or a judge can make the output of a command control a terminal, a
// spreadsheet or a page.
func TestHostileTexts(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder, run := hostileRun(t)
	for _, args := range [][]string{
		{"results", run}, {"episodes", run}, {"transcript", run, "0"}, {"leaderboard"}, {"compare", run, run},
		{"results", "no" + hostile}, {"transcript", run, "no" + hostile},
	} {
		formats := []string{"table", "markdown", "csv", "json", "yaml"}
		switch args[0] {
		case "transcript":
			formats = []string{"text", "json", "yaml"}
		}
		for _, format := range formats {
			t.Run(args[0]+" "+format, func(t *testing.T) {
				full := append(slices.Clone(args), "--results", folder)
				if format != "" {
					full = append(full, "-o", format)
				}
				out, errs, _ := csenv(t, full...)
				for _, r := range out + errs {
					if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) {
						t.Fatalf("%q in %s%s", r, out, errs)
					}
				}
				// None of the run's scores counts, so there is nothing to compare.
				fails := strings.HasPrefix(args[len(args)-1], "no") || args[0] == "compare"
				if out = strings.TrimPrefix(out, "runs of "+folder+"\n"); (out == "") != fails {
					t.Fatalf("it printed %q and %q", out, errs)
				}
				checkFormat(t, format, out)
			})
		}
	}
}

var decoders = map[string]func([]byte, any) error{
	"json": json.Unmarshal, "yaml": func(data []byte, v any) error { return yaml.Unmarshal(data, v) }}

func checkFormat(t *testing.T, format, out string) {
	t.Helper()
	switch format {
	case "csv":
		cells, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range cells {
			for _, cell := range row {
				if strings.HasPrefix(cell, "=") {
					t.Errorf("the cell %q contains a formula", cell)
				}
			}
		}
	case "markdown", "":
		if strings.Contains(out, "<b>[x]") || format != "" && strings.Contains(out, "[x]") {
			t.Errorf("HTML or a link in %s", out)
		}
		columns := 0
		for line := range strings.Lines(out) {
			if n := strings.Count(line, "|"); format == "" || !strings.HasPrefix(line, "|") {
				columns = 0
			} else if columns > 0 && n != columns {
				t.Errorf("a row with %d bars, not %d: %s", n, columns, line)
			} else {
				columns = n
			}
		}
	case "json", "yaml":
		var v any
		if err := decoders[format]([]byte(out), &v); out != "" && err != nil {
			t.Errorf("%v in %s", err, out)
		}
	}
}

// JSON and YAML keep the text, in escaped form.
func TestHostileTextsRemain(t *testing.T) {
	folder, run := hostileRun(t)
	for format, decode := range decoders {
		var e record.Episode
		if err := decode([]byte(must(t, "transcript", run, "0", "--results", folder, "-o", format)),
			&e); err != nil || e.Class != hostile {
			t.Errorf("%s: %q, %v", format, e.Class, err)
		}
	}
}

func mustMarshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
