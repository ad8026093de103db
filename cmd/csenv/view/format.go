package view

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/envserver/web/printable"
)

// Result is the result of a command in each of the formats.
type Result struct {
	Value    any        // JSON and YAML
	Header   []string   // CSV
	Rows     [][]string // CSV
	Document Document   // text and Markdown
}

// LimitFlag adds the flag of commands that print lists: how many rows they print, 0 for all.
func LimitFlag(f *pflag.FlagSet, of string) *uint {
	return f.Uint("limit", 0, "maximum `number` of "+of+"; 0 for all")
}

// TakeFirst returns as many of the first items as a limit allows.
func TakeFirst[T any](items []T, limit uint) []T {
	if limit == 0 || limit > uint(len(items)) {
		return items
	}
	return items[:limit]
}

// Print writes a result in the format.
func (f *Format) Print(w io.Writer, r Result) error {
	switch f.Name {
	case "json", "yaml":
		return f.Encode(w, r.Value)
	case "csv":
		return writeCSV(w, r.Header, r.Rows)
	}
	r.Document.Print(w, f.Name)
	return nil
}

// writeCSV writes a header and records.
func writeCSV(w io.Writer, header []string, records [][]string) error {
	lines := make([][]string, 0, 1+len(records))
	for _, record := range append([][]string{header}, records...) {
		lines = append(lines, MapItems(record, csvCell))
	}
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// csvCell is a printable cell. A text that a spreadsheet would evaluate as a formula gets a leading
// apostrophe.
func csvCell(s string) string {
	s = printable.EscapeText(s)
	if s == "" || s == "-" || !strings.ContainsRune("=+-@\t\n", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// Format is the value of -o: one of a few names.
type Format struct {
	Name    string
	allowed []string
}

// FormatFlag adds -o with the allowed formats; the first is the default.
func FormatFlag(flags *pflag.FlagSet, allowed ...string) *Format {
	f := &Format{allowed[0], allowed}
	flags.VarP(f, "output", "o", "output format: "+strings.Join(allowed, ", "))
	return f
}

// String returns the name of the format.
func (f *Format) String() string { return f.Name }

// Type names the kind of value in help texts.
func (f *Format) Type() string { return "format" }

// Set accepts an allowed name.
func (f *Format) Set(name string) error {
	if !slices.Contains(f.allowed, name) {
		if strings.Contains(name, ".") {
			return fmt.Errorf("choose one of %s; -o is a format, and -O or > names a file",
				strings.Join(f.allowed, ", "))
		}
		return fmt.Errorf("choose one of %s", strings.Join(f.allowed, ", "))
	}
	f.Name = name
	return nil
}

// Encode writes a value as JSON or YAML.
func (f *Format) Encode(w io.Writer, v any) error {
	text, err := encodeJSON(v, jsonEscape)
	if f.Name == "yaml" {
		text, err = encodeYAML(v)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// jsonEscape is the notation of JSON, which has no code points of more than four digits.
func jsonEscape(r rune) string {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
