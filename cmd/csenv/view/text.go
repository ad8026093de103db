// Package view writes what commands show: text, tables, JSON, YAML, CSV, Markdown and progress.
package view

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"sigs.k8s.io/yaml"
)

// ShortDigest is enough of a digest to tell it from others.
func ShortDigest(digest string) string {
	const shown = len("sha256:") + 12
	if len(digest) > shown {
		return digest[:shown]
	}
	return digest
}

func Count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func Thousandths(thousandths int64) string { return fmt.Sprintf("%.3f", float64(thousandths)/1000) }

func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Width is the width within which everything for people stays.
const Width = 100

// Printable shows what would steer a terminal instead of letting it: control characters other than
// line feeds and tabs, and those that turn the direction of writing. Texts of agents, judges and
// packs are anybody's.
func Printable(s string) string {
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

// Paragraph writes a text, wrapped and indented.
func Paragraph(w io.Writer, indent, s string) {
	for line := range strings.SplitSeq(strings.TrimRight(Printable(s), "\n"), "\n") {
		for part := range strings.SplitSeq(text.WrapSoft(line, Width-len(indent)), "\n") {
			fmt.Fprintln(w, strings.TrimRight(indent+part, " "))
		}
	}
}

// Field writes a name and its value. The value's lines stand below each other.
func Field(w io.Writer, name, value string) {
	const width = 14
	if value == "" {
		return
	}
	label := fmt.Sprintf("  %-*s ", width, name)
	for line := range strings.SplitSeq(strings.TrimRight(Printable(value), "\n"), "\n") {
		for part := range strings.SplitSeq(text.WrapSoft(line, Width-len(label)), "\n") {
			fmt.Fprintln(w, strings.TrimRight(label+part, " "))
			label = strings.Repeat(" ", len(label))
		}
	}
}

func Heading(w io.Writer, s string) { fmt.Fprintf(w, "\n%s\n", strings.ToUpper(s)) }

// Titled writes a title and, below it, an indented text.
func Titled(w io.Writer, title, body string) {
	fmt.Fprintf(w, "\n  %s:\n", Printable(title))
	Paragraph(w, "    ", body)
}

// Customer describes a customer in a line.
func Customer(name, company, since string) string {
	if company != "" {
		name += ", " + company
	}
	if since != "" {
		name += ", customer since " + since
	}
	return name
}

// SortedKeys are a map's keys in order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Each converts a list.
func Each[T, U any](items []T, convert func(T) U) []U {
	if len(items) == 0 {
		return nil
	}
	out := make([]U, len(items))
	for i, item := range items {
		out[i] = convert(item)
	}
	return out
}

// ClockTime is how times are written for people.
const ClockTime = "Monday, 2006-01-02 15:04"

// YAML is a record as YAML. The values here always encode.
func YAML(v any) string {
	data, err := yaml.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// JSON is a value as one line of JSON. The values here always encode.
func JSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
