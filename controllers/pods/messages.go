package pods

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of messages, in bytes.
const (
	MaxNote  = 1024 // bytes of an event's note, the API's limit, and of a condition's message
	MaxQuote = 600  // bytes of a quotation in a message
)

// QuoteMessage puts a message of another program on one line of at most MaxQuote bytes, without
// control characters.
func QuoteMessage(text string) string {
	words := strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	})
	if len(words) == 0 {
		return "(no message)"
	}
	return ShortenText(strings.Join(words, " "), MaxQuote)
}

// ShortenText cuts a text to at most limit bytes of whole characters, the last of which is an
// ellipsis.
func ShortenText(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	return ClipText(text, limit-len(ellipsis)) + ellipsis
}

// ClipText cuts a text to at most limit bytes of whole characters.
func ClipText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// LastWords returns the part of a log that explains why the program ended: the last panic if there
// is one, else the last lines.
func LastWords(log string) string {
	for _, mark := range []string{"panic: ", "fatal error: "} {
		if i := strings.LastIndex(log, mark); i >= 0 {
			return log[i:]
		}
	}
	return log[max(0, len(log)-MaxQuote):]
}
