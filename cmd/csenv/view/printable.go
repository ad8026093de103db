package view

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// Agents, models, judges, packs and stores write much of what commands show. The functions of this
// file make their texts harmless, one for each format.

// unprintable reports whether a character may change how a text is displayed: control characters,
// line separators, and invisible characters such as those that change the direction of text. The
// two joiners are exceptions, because scripts and emojis need them.
func unprintable(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	return r != '\n' && r != '\t' && r != zeroWidthNonJoiner && r != zeroWidthJoiner &&
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Printable escapes unprintable characters of a text. Line feeds and tabs remain.
func Printable(s string) string { return escape(strings.ReplaceAll(s, "\r\n", "\n"), yamlEscape) }

// Line is a printable text on one line.
func Line(s string) string { return strings.Join(strings.Fields(Printable(s)), " ") }

// escape writes the unprintable characters of a text in a notation. Bytes that aren't UTF-8 come
// out as U+FFFD.
func escape(s string, notation func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			b.WriteString(notation(r))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// jsonEscape is the notation of JSON, which has no code points of more than four digits.
func jsonEscape(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// yamlEscape is the notation of YAML, which knows no pairs of surrogates.
func yamlEscape(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
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
	return escape(b.String(), notation), nil
}

// encodeYAML encodes a value as YAML. The encoder leaves some unprintable characters as they are,
// so a value that has one is written in the braces of JSON, which are YAML too.
func encodeYAML(v any) (string, error) {
	braces, err := encodeJSON(v, yamlEscape)
	if err != nil {
		return "", err
	}
	data, err := yaml.JSONToYAML([]byte(braces))
	if err != nil {
		return "", fmt.Errorf("encoding as YAML: %w", err)
	}
	if bytes.ContainsFunc(data, unprintable) {
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
	s = Printable(s)
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
func markdownText(s string) string { return markdown.Replace(Line(s)) }

// WriteHTML writes a page with its unprintable characters escaped. The page's template has escaped
// the rest.
func WriteHTML(w io.Writer, page string) error {
	_, err := io.WriteString(w, Printable(page))
	return err
}
