package view

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"a\tb\nc é":             "a\tb\nc é",
		"a\r\nb":                "a\nb",
		"\x1b[2Jgone\rover":     `\u001b[2Jgone\u000dover`,
		"\u009b31m":             `\u009b31m`,
		"\u202egnp\u2066":       `\u202egnp\u2066`,
		"\x9b31m, not of UTF-8": "\ufffd31m, not of UTF-8",
	} {
		if got := Printable(s); got != want {
			t.Errorf("printable(%q) = %q, want %q", s, got, want)
		}
	}
	var out strings.Builder
	const attack = "\x1b]0;title\a"
	Paragraph(&out, "", attack)
	Field(&out, "name", attack)
	for _, format := range []string{"table", "markdown"} {
		Document{Title: attack, Sections: []Section{{Heading: attack, Header: []string{"why"},
			Rows: [][]string{{attack}}, Note: attack}}}.Print(&out, format)
	}
	if strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("%q", out.String())
	}
}
