package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
)

const (
	// maxWordBytes bounds a word: the rest is cut off. maxWords bounds the distinct words of a
	// record.
	maxWordBytes = 48
	maxWords     = 20_000
	// maxSearchWords bounds the words of a search, minPrefix the letters of the beginning of a
	// word.
	maxSearchWords = 16
	minPrefix      = 2
)

// words collects the distinct words of texts, in lower case and without accents. A word consists of
// letters and digits, so that neither it nor a search for it has syntax. A character of a script
// without spaces is a word.
type words struct {
	seen map[string]struct{}
	list bytes.Buffer
	word []byte
}

func newWords() *words { return &words{seen: map[string]struct{}{}} }

func (w *words) reset() {
	clear(w.seen)
	w.list.Reset()
}

// add adds the words of a text.
func (w *words) add(text string) {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			text = norm.NFKD.String(text)
			break
		}
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			w.word = append(w.word, byte(r)) //nolint:gosec // an ASCII letter
		case 'A' <= r && r <= 'Z':
			w.word = append(w.word, byte(r)+'a'-'A')
		case r < utf8.RuneSelf:
			w.end()
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			w.end()
			w.word = utf8.AppendRune(w.word, r)
			w.end()
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			w.word = utf8.AppendRune(w.word, unicode.ToLower(r))
		default:
			w.end()
		}
	}
	w.end()
}

func (w *words) end() {
	word := w.word
	if len(word) > maxWordBytes {
		word = bytes.ToValidUTF8(word[:maxWordBytes], nil)
	}
	if _, seen := w.seen[string(word)]; len(word) > 0 && !seen && len(w.seen) < maxWords {
		w.seen[string(word)] = struct{}{}
		w.list.Write(word)
		w.list.WriteByte(' ')
	}
	w.word = w.word[:0]
}

// episode returns the words by which a record is found, separated by spaces.
func (w *words) episode(e record.Episode, lost []source.Lost) string {
	w.reset()
	for _, l := range lost {
		w.add(lostWord(l.Reason))
	}
	for _, text := range []string{e.Scenario, e.Class} {
		w.add(text)
	}
	for _, t := range e.Turns {
		w.action(t.Action)
		w.add(t.Said)
		w.add(t.Refused)
	}
	return w.list.String()
}

// lostWord is the word of the records that lost points for a reason.
func lostWord(reason string) string {
	sum := sha256.Sum256([]byte(reason))
	return "lost" + hex.EncodeToString(sum[:8])
}

// action adds the texts that an agent writes to people.
func (w *words) action(raw json.RawMessage) {
	var action any
	if json.Unmarshal(raw, &action) == nil {
		w.value("", action)
	}
}

func (w *words) value(member string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			w.value(name, inner)
		}
	case []any:
		for _, inner := range v {
			w.value(member, inner)
		}
	case string:
		if member == "message" || member == "reason" || member == "query" {
			w.add(v)
		}
	}
}

// buildMatchQuery is the full-text query for a search: all words, the last of which may be
// incomplete. It is "" if the text has no word.
func buildMatchQuery(text string) string {
	w := newWords()
	w.add(text)
	list := strings.Fields(w.list.String())
	list = list[:min(len(list), maxSearchWords)]
	if len(list) == 0 {
		return ""
	}
	query := `"` + strings.Join(list, `" AND "`) + `"`
	if last, _ := utf8.DecodeLastRuneInString(text); utf8.RuneCountInString(list[len(list)-1]) >= minPrefix &&
		(unicode.IsLetter(last) || unicode.IsNumber(last) || unicode.Is(unicode.Mn, last)) {
		query += " *"
	}
	return query
}

// A document's number has the run, the place of its segment and its line.
const (
	lineBits  = 18
	placeBits = 24
	maxLines  = 1 << lineBits
	maxPlaces = 1 << placeBits
)

func docID(run int64, place, line int) int64 {
	return run<<(placeBits+lineBits) | int64(place)<<lineBits | int64(line)
}
