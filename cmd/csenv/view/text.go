// Package view writes what commands show: text, tables, JSON, YAML, CSV, Markdown and progress.
package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/csenv/csenv/envserver/web/printable"
)

// ShortDigest shortens a digest for display.
func ShortDigest(digest string) string {
	const shown = len("sha256:") + 12
	if len(digest) > shown {
		return digest[:shown]
	}
	return digest
}

// FormatCount returns a number and a noun: "no pools", "1 pool", "2 pools".
func FormatCount(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OrDash returns a dash for an empty text.
func OrDash(s string) string { return cmp.Or(s, "-") }

// YesNo returns yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Width is the maximum width of text output.
const Width = 100

// WriteParagraph writes a text, wrapped and indented.
func WriteParagraph(w io.Writer, indent, s string) {
	for line := range strings.SplitSeq(strings.TrimRight(printable.EscapeText(s), "\n"), "\n") {
		for part := range strings.SplitSeq(text.WrapSoft(line, Width-len(indent)), "\n") {
			fmt.Fprintln(w, strings.TrimRight(indent+part, " "))
		}
	}
}

// WriteField writes a name and its value. Further lines of the value are aligned.
func WriteField(w io.Writer, name, value string) {
	const width = 14
	if value == "" {
		return
	}
	label := fmt.Sprintf("  %-*s ", width, printable.EscapeLine(name))
	for line := range strings.SplitSeq(strings.TrimRight(printable.EscapeText(value), "\n"), "\n") {
		for part := range strings.SplitSeq(text.WrapSoft(line, Width-len(label)), "\n") {
			fmt.Fprintln(w, strings.TrimRight(label+part, " "))
			label = strings.Repeat(" ", len(label))
		}
	}
}

// WriteHeading writes an empty line and a heading.
func WriteHeading(w io.Writer, s string) {
	fmt.Fprintf(w, "\n%s\n", strings.ToUpper(printable.EscapeLine(s)))
}

// WriteTitledText writes a title and, below it, an indented text.
func WriteTitledText(w io.Writer, title, body string) {
	fmt.Fprintf(w, "\n  %s:\n", printable.EscapeLine(title))
	WriteParagraph(w, "    ", body)
}

// FormatCustomer describes a customer in a line.
func FormatCustomer(name, company, since string) string {
	if company != "" {
		name += ", " + company
	}
	if since != "" {
		name += ", customer since " + since
	}
	return name
}

// SortedKeys returns the sorted keys of a map.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// MapItems converts the items of a list; the result of an empty list is nil.
func MapItems[T, U any](items []T, convert func(T) U) []U {
	if len(items) == 0 {
		return nil
	}
	out := make([]U, len(items))
	for i, item := range items {
		out[i] = convert(item)
	}
	return out
}

// FormatUTC writes a time in full.
func FormatUTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ClockTime is the format of times in text output.
const ClockTime = "Monday, 2006-01-02 15:04"

// FormatYAML encodes a value whose type is known to encode.
func FormatYAML(v any) string {
	text, err := encodeYAML(v)
	if err != nil {
		return err.Error()
	}
	return text
}
