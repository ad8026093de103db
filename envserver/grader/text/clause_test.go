package text

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The parts of a sentence that are found once are those that a search for each clause finds.
func TestStatements(t *testing.T) {
	search := func(d *Document, s, c Span) Span {
		for i := s.Lo + 1; i < s.Hi; i++ {
			if !d.Tokens[i].Is(Simple) || !d.begins(s, i) ||
				!slices.ContainsFunc(d.Tokens[i:s.Hi], func(t Token) bool { return t.Text == "," }) {
				continue
			}
			if c.Lo < i && c.Hi <= i {
				s.Hi = i
				return s
			}
			s.Lo = i
		}
		return s
	}
	english := LoadLexicon("en")
	word := rapid.SampledFrom([]string{"if", "and", ",", ";", "we", "refund", "(", ")", ".", "or", "unless", "when"})
	rapid.Check(t, func(t *rapid.T) {
		d := Parse(strings.Join(rapid.SliceOfN(word, 1, 40).Draw(t, "words"), " "), english)
		for _, clause := range d.spans {
			sentence := d.wholeSentenceOf(clause.Lo)
			if got, want := d.statement(sentence, clause), search(d, sentence, clause); got != want {
				t.Fatalf("clause %v of %v is in %v, want %v", clause, sentence, got, want)
			}
		}
	})
}

// Characters that normalisation makes longer don't make a text longer than the judge reads.
func TestBoundCountsNormalisedCharacters(t *testing.T) {
	for character, want := range map[string]bool{"x": true, "…": false, "\ufdfa": false} {
		got, whole := NormaliseReply(strings.Repeat(character, MaxReplyRunes))
		if n := utf8.RuneCountInString(got); whole != want || n > maxNormalisedRunes {
			t.Errorf("%q: %d characters, whole %v", character, n, whole)
		}
	}
	if _, whole := NormaliseReply(strings.Repeat("\ufdfa", MaxReplyRunes/10)); !whole {
		t.Error("a text that is short enough when normalised is cut")
	}
}
