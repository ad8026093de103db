package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxMessageRunes is the maximum length of a message, in characters, without a deduction.
	MaxMessageRunes = 4000
	// MaxReplyRunes is the maximum length of a reply: ten messages and their separators. Longer
	// replies earn nothing, so that nothing can be hidden in a part that isn't read.
	MaxReplyRunes = 10*MaxMessageRunes + 1000
	// maxNormalisedRunes is the maximum length of a normalised text. NFKC makes up to 18 characters
	// of one.
	maxNormalisedRunes = 2 * MaxReplyRunes
)

// NormaliseReply normalises an untrusted text, and cuts one that is too long.
func NormaliseReply(s string) string {
	return ClipRunes(Normalise(ClipRunes(s, MaxReplyRunes)), maxNormalisedRunes)
}

// ClipRunes returns at most that many characters of a text.
func ClipRunes(s string, runes int) string {
	if len(s) <= runes {
		return s
	}
	for i := range s {
		if runes == 0 {
			return s[:i]
		}
		runes--
	}
	return s
}

// Normalise makes texts comparable: NFKC, plain quotes and hyphens, and no invisible or control
// characters, which could hide a word from a matcher but not from a person.
func Normalise(s string) string {
	if isPlain(s) {
		return s
	}
	// Invisible characters would prevent composition, and composition may produce others.
	return strings.Map(toPlainRune, norm.NFKC.String(strings.Map(toPlainRune, strings.ToValidUTF8(s, " "))))
}

// isPlain reports whether a text has only the characters of ASCII that Normalise keeps.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c >= 0x7f) && c != '\n' {
			return false
		}
	}
	return true
}

// toPlainRune maps a rune to its plain form, or to -1 if it is invisible.
func toPlainRune(r rune) rune {
	switch {
	case r == '\n', r >= ' ' && r < 0x7f:
		return r
	case r < ' ', r >= 0x7f && r < 0xa0:
		return ' '
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0xfeff, unicode.Is(unicode.Cf, r),
		unicode.Is(unicode.Variation_Selector, r):
		return -1
	case r == '‘', r == '’', r == 'ʼ', r == '´', r == '′':
		return '\''
	case r == '“', r == '”', r == '„', r == '«', r == '»':
		return '"'
	case r == '‐', r == '‑', r == '–', r == '−':
		return '-'
	}
	return r
}

// Fold lower-cases a normalised text and strips the diacritics of Latin letters, so that
// "Rückerstattung" and "ruckerstattung" are one word.
func Fold(s string) string {
	ascii := true
	for i := 0; i < len(s) && ascii; i++ {
		ascii = s[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range norm.NFD.String(s) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(unicode.ToLower(r))
		case unicode.Is(unicode.Mn, r):
		case r == 'ß':
			b.WriteString("ss")
		case r == 'œ', r == 'Œ':
			b.WriteString("oe")
		case r == 'æ', r == 'Æ':
			b.WriteString("ae")
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}
