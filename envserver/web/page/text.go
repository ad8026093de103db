package page

import "unicode/utf8"

// maxText is the length, in characters, to which pages cut a text from outside.
const maxText = 20_000

// cutText is the beginning of a text and the number of characters that are left out.
type cutText struct {
	Text string
	Left int
}

// cut shortens a long text.
func cut(text string) cutText {
	if len(text) <= maxText {
		return cutText{Text: text}
	}
	shown := 0
	for at := range text {
		if shown == maxText {
			return cutText{text[:at], utf8.RuneCountInString(text[at:])}
		}
		shown++
	}
	return cutText{Text: text}
}
