package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// columns is the width within which everything for people stays.
const columns = 100

// format is the value of -o: one of a few names.
type format struct {
	name    string
	allowed []string
}

func formats(flags *pflag.FlagSet, allowed ...string) *format {
	f := &format{allowed[0], allowed}
	flags.VarP(f, "output", "o", "output format: "+strings.Join(allowed, ", "))
	return f
}

func (f *format) String() string { return f.name }
func (f *format) Type() string   { return "format" }

func (f *format) Set(name string) error {
	if !slices.Contains(f.allowed, name) {
		return fmt.Errorf("choose %s", strings.Join(f.allowed, ", "))
	}
	f.name = name
	return nil
}

// encode writes a value as JSON or YAML.
func (f *format) encode(w io.Writer, v any) error {
	if f.name == "yaml" {
		data, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("encoding as YAML: %w", err)
		}
		_, err = w.Write(data)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// newTable makes a table without lines, as kubectl's are.
func newTable(header ...string) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	row := make(table.Row, len(header))
	for i, h := range header {
		row[i] = h
	}
	t.AppendHeader(row)
	return t
}

// printable shows what would steer a terminal instead of letting it: control characters other than
// line feeds and tabs, and those that turn the direction of writing. Texts of agents, judges and
// packs are anybody's.
func printable(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(s, "\r\n", "\n") { // bytes that aren't UTF-8 come out as U+FFFD
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Bidi_Control) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// paragraph writes a text, wrapped and indented.
func paragraph(w io.Writer, indent, s string) {
	for line := range strings.SplitSeq(strings.TrimRight(printable(s), "\n"), "\n") {
		for part := range strings.SplitSeq(text.WrapSoft(line, columns-len(indent)), "\n") {
			fmt.Fprintln(w, strings.TrimRight(indent+part, " "))
		}
	}
}

// field writes a name and its value. The value's lines stand below each other.
func field(w io.Writer, name, value string) {
	const width = 14
	if value == "" {
		return
	}
	label := fmt.Sprintf("  %-*s ", width, name)
	for line := range strings.SplitSeq(strings.TrimRight(printable(value), "\n"), "\n") {
		for part := range strings.SplitSeq(text.WrapSoft(line, columns-len(label)), "\n") {
			fmt.Fprintln(w, strings.TrimRight(label+part, " "))
			label = strings.Repeat(" ", len(label))
		}
	}
}

func heading(w io.Writer, s string) { fmt.Fprintf(w, "\n%s\n", strings.ToUpper(s)) }

// writeCSV writes a header and records. A cell that a spreadsheet would take for a formula is
// marked as text.
func writeCSV(w io.Writer, header []string, records [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for _, record := range records {
		for i, cell := range record {
			if cell != "" && strings.ContainsRune("=+@\t\r", rune(cell[0])) {
				record[i] = "'" + cell
			}
		}
		if err := out.Write(record); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}
