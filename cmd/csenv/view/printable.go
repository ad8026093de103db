package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/web/printable"
)

// Agents, models, judges, packs and stores write much of what commands show. The functions of this
// file make their texts harmless, one for each format.

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
	return printable.EscapeHidden(b.String(), notation), nil
}

// encodeYAML encodes a value as YAML. The encoder leaves some unprintable characters as they are,
// so a value that has one is written in the braces of JSON, which are YAML too.
func encodeYAML(v any) (string, error) {
	braces, err := encodeJSON(v, printable.YAMLEscape)
	if err != nil {
		return "", err
	}
	data, err := yaml.JSONToYAML([]byte(braces))
	if err != nil {
		return "", fmt.Errorf("encoding as YAML: %w", err)
	}
	if bytes.ContainsFunc(data, printable.IsHidden) {
		return braces, nil
	}
	return string(data), nil
}

var markdown = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "\\`",
	"[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "~", `\~`)

// markdownText escapes what Markdown or HTML would interpret, and puts the text on one line.
func markdownText(s string) string { return markdown.Replace(printable.EscapeLine(s)) }
