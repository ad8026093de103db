package printable

import "testing"

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"a\tb\nc é":             "a\tb\nc é",
		"a\r\nb":                "a\nb",
		"\x1b[2Jgone\rover":     `\u001b[2Jgone\u000dover`,
		"\u009b31m":             `\u009b31m`,
		"\u202egnp\u2066":       `\u202egnp\u2066`,
		"\U000e0041":            `\U000e0041`,
		"\x9b31m, not of UTF-8": "\ufffd31m, not of UTF-8",
	} {
		if got := EscapeText(s); got != want {
			t.Errorf("Text(%q) = %q, want %q", s, got, want)
		}
	}
	if got := EscapeLine(" a\n\tb\x07 "); got != `a b\u0007` {
		t.Errorf("Line = %q", got)
	}
}
