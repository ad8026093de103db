package policy

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
)

// Sentences are those of the expression that defines them.
func TestPiecesAreSentences(t *testing.T) {
	pattern := regexp.MustCompile(`[^.!?\n]+[.!?]?`)
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("ab .!?\né")
	for range 20_000 {
		text := make([]rune, random.IntN(12))
		for i := range text {
			text[i] = alphabet[random.IntN(len(alphabet))]
		}
		got, want := slices.Collect(splitSentences(string(text))), pattern.FindAllString(string(text), -1)
		if !slices.Equal(got, want) {
			t.Fatalf("pieces of %q = %q, want %q", string(text), got, want)
		}
	}
}
