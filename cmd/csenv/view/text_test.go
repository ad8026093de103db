package view

import (
	"strings"
	"testing"
)

// Texts of others change nothing on a terminal.
func TestTextsArePrintable(t *testing.T) {
	var out strings.Builder
	const attack = "\x1b]0;title\a"
	WriteParagraph(&out, "", attack)
	WriteField(&out, "name", attack)
	for _, format := range []string{"table", "markdown"} {
		Document{Title: attack, Sections: []Section{{Heading: attack, Header: []string{"why"},
			Rows: [][]string{{attack}}, Note: attack}}}.Print(&out, format)
	}
	if strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("%q", out.String())
	}
}

// A name is whole in a table that doesn't fit, and the texts beside it wrap.
func TestNamesAreNotBroken(t *testing.T) {
	name := strings.Repeat("heuristic-", 4) + "d1ee2d1f"
	var out strings.Builder
	Document{Sections: []Section{{Header: []string{"run", "scenario", "why"}, Rows: [][]string{{name,
		name, strings.Repeat("because ", 30)}}}}}.Print(&out, "table")
	if strings.Count(out.String(), name) != 2 || strings.Count(out.String(), "\n") < 3 {
		t.Error(out.String())
	}
}
