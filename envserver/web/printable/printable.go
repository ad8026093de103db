// Package printable makes texts of agents, models, judges, packs and stores harmless to display.
package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// IsHidden reports whether a character may change how a text is displayed: control characters, line
// separators, and invisible characters such as those that change the direction of text. The two
// joiners are exceptions, because scripts and emojis need them.
func IsHidden(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	return r != '\n' && r != '\t' && r != zeroWidthNonJoiner && r != zeroWidthJoiner &&
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// EscapeText writes the hidden characters of a text as in YAML, for example \u202e. Line feeds and
// tabs remain.
func EscapeText(s string) string {
	return EscapeHidden(strings.ReplaceAll(s, "\r\n", "\n"), YAMLEscape)
}

// EscapeLine is a text without hidden characters on one line.
func EscapeLine(s string) string { return strings.Join(strings.Fields(EscapeText(s)), " ") }

// EscapeHidden writes the hidden characters of a text in a notation. Bytes that aren't UTF-8 come
// out as U+FFFD.
func EscapeHidden(s string, notation func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if IsHidden(r) {
			b.WriteString(notation(r))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// YAMLEscape is the notation of YAML, which knows no pairs of surrogates.
func YAMLEscape(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
