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
