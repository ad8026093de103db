package view

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestText(t *testing.T) {
	for name, tt := range map[string]struct{ got, want string }{
		"zero of a noun":    {got: FormatCount(0, "pool"), want: "no pools"},
		"one of a noun":     {got: FormatCount(1, "pool"), want: "1 pool"},
		"several of a noun": {got: FormatCount(2, "pool"), want: "2 pools"},
		"an empty cell":     {got: OrDash(""), want: "-"},
		"a filled cell":     {got: OrDash("a"), want: "a"},
		"a long digest":     {got: ShortDigest("sha256:0123456789abcdef"), want: "sha256:0123456789ab"},
		"a short digest":    {got: ShortDigest("sha256:01"), want: "sha256:01"},
		"a customer":        {got: FormatCustomer("Ann", "Co", "2020-01-02"), want: "Ann, Co, customer since 2020-01-02"},
		"a customer's name": {got: FormatCustomer("Ann", "", ""), want: "Ann"},
		"a plain level":     {got: ColourOf(false, LevelBad), want: "bad"},
		"a coloured level":  {got: ColourOf(true, LevelOK), want: "\x1b[32mok\x1b[0m"},
		"an unknown level":  {got: ColourOf(true, "odd"), want: "odd"},
		"an indented cell":  {got: wrapCell("  one two", 6), want: "  one \n  two"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%q, want %q", tt.got, tt.want)
			}
		})
	}
}

func TestObject(t *testing.T) {
	for name, tt := range map[string]struct {
		object Object
		want   string
	}{
		"the order of its names": {object: Object{"b", 1, "a", "<"}, want: `{"b":1,"a":"<"}`},
		"omitted empty values": {object: Object{"a", 1, "s,omitempty", "", "n,omitempty", 0, "l,omitempty", []int{},
			"m,omitempty", map[string]int{}}, want: `{"a":1}`},
		"kept empty values": {object: Object{"s", "", "l", []int{}}, want: `{"s":"","l":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(tt.object)
			if got := strings.ReplaceAll(string(data), `\u003c`, "<"); err != nil || got != tt.want {
				t.Errorf("%s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	result := Result{Value: []string{"a"}, Header: []string{"x", "y"}, Rows: [][]string{{"=1+1", "b,c"}},
		Document: Document{Title: "Title", Sections: []Section{
			{Heading: "Empty", Header: []string{"x"}},
			{Heading: "One", Header: []string{"x"}, Rows: [][]string{{"1"}}, Note: "A note"},
		}}}
	for format, want := range map[string]string{
		"json":     "[\n  \"a\"\n]\n",
		"yaml":     "- a\n",
		"csv":      "x,y\n'=1+1,\"b,c\"\n",
		"table":    "Title\n\nOne\nX\n1\nA note\n",
		"markdown": "Title\n\n### One\n\n| x |\n| --- |\n| 1 |\n\nA note\n\n",
	} {
		t.Run(format, func(t *testing.T) {
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			flags.SetOutput(io.Discard)
			f := FormatFlag(flags, "table", "json", "yaml", "csv", "markdown")
			if err := flags.Parse([]string{"-o", format}); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := f.Print(&out, result); err != nil || out.String() != want {
				t.Errorf("%q (%v), want %q", out.String(), err, want)
			}
			if err := f.Set("xml"); err == nil || err.Error() != "choose one of table, json, yaml, csv, markdown" {
				t.Errorf("an unknown format: %v", err)
			}
		})
	}
}

func TestCSVCells(t *testing.T) {
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", "+1+1": "'+1+1", "-1+1": "'-1+1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\n=1": "'\n=1",
		"\r=1": `\u000d=1`, "\x1b[2J": `\u001b[2J`, "-0.2632": "-0.2632", "-": "-", "": "", "B07": "B07",
	} {
		if got := csvCell(cell); got != want {
			t.Errorf("csvCell(%q) = %q, want %q", cell, got, want)
		}
	}
}

func TestMarkdownCells(t *testing.T) {
	for cell, want := range map[string]string{
		"a|b": "a&#124;b", `a\|b`: `a\\&#124;b`, "`rm`": "\\`rm\\`", "<b>": "&lt;b&gt;",
		"![x](y)": `!\[x\](y)`, "a\nb": "a b", "&lt;": "&amp;lt;", "\x1b": `\\u001b`,
	} {
		if got := markdownText(cell); got != want {
			t.Errorf("markdownText(%q) = %q, want %q", cell, got, want)
		}
	}
}

func TestFoldsWideTables(t *testing.T) {
	cell := strings.Repeat("word ", 60)
	var out strings.Builder
	Document{Sections: []Section{{Header: []string{"a", "b"}, Rows: [][]string{{cell, cell}}}}}.Print(&out, "table")
	for line := range strings.Lines(out.String()) {
		if len(strings.TrimSpace(line)) > Width {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// A long name keeps its width if the texts beside it can be wrapped.
func TestKeepsWordsWhole(t *testing.T) {
	name, cell := "csenv-system/csenv-manager-metrics-service-name", strings.Repeat("word ", 30)
	var out strings.Builder
	Document{Sections: []Section{{Header: []string{"a", "b", "c"},
		Rows: [][]string{{name, cell, cell}}}}}.Print(&out, "table")
	if !strings.Contains(out.String(), name) {
		t.Error(out.String())
	}
}
