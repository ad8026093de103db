package view

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/web/printable"
)

// Agents, models, judges, packs and stores write much of what commands show. The functions of this
// file make their texts harmless, one for each format.

// jsonEscape is the notation of JSON, which has no code points of more than four digits.
func jsonEscape(r rune) string {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// encodeJSON encodes a value as JSON in which strings have unprintable characters in a notation, so
// that readers get the same value.
func encodeJSON(v any, notation func(rune) string) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encoding as JSON: %w", err)
	}
	return printable.Escape(b.String(), notation), nil
}

// encodeYAML encodes a value as YAML. The encoder leaves some unprintable characters as they are,
// so a value that has one is written in the braces of JSON, which are YAML too.
func encodeYAML(v any) (string, error) {
	braces, err := encodeJSON(v, printable.YAML)
	if err != nil {
		return "", err
	}
	data, err := yaml.JSONToYAML([]byte(braces))
	if err != nil {
		return "", fmt.Errorf("encoding as YAML: %w", err)
	}
	if bytes.ContainsFunc(data, printable.Hidden) {
		return braces, nil
	}
	return string(data), nil
}

// writeCSV writes a header and records.
func writeCSV(w io.Writer, header []string, records [][]string) error {
	lines := make([][]string, 0, 1+len(records))
	for _, record := range append([][]string{header}, records...) {
		lines = append(lines, Each(record, csvCell))
	}
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// csvCell is a printable cell. A text that a spreadsheet would evaluate as a formula gets a leading
// apostrophe.
func csvCell(s string) string {
	s = printable.Text(s)
	if s == "" || s == "-" || !strings.ContainsRune("=+-@\t\n", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

var markdown = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "\\`",
	"[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "~", `\~`)

// markdownText escapes what Markdown or HTML would interpret, and puts the text on one line.
func markdownText(s string) string { return markdown.Replace(printable.Line(s)) }
