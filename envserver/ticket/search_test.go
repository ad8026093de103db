package ticket

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A text holds exactly those terms that are among its words.
func TestOverlap(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"refund", "refunds", "Refund", "re", "fund", "zoë", "ZOË", "überweisung", "42",
		"a", " ", "-", "\u0301", "\xff", "İ", "ſ", "世界", "."})
	text := func(rt *rapid.T, name string) string {
		return strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(rt, name), "")
	}
	rapid.Check(t, func(rt *rapid.T) {
		query, body := text(rt, "query"), text(rt, "body")
		words, want := strings.FieldsFunc(strings.ToLower(body), isGap), 0
		for _, term := range terms(query) {
			if slices.Contains(words, term) {
				want++
			}
		}
		if got := overlap(terms(query), body); got != want {
			rt.Fatalf("%q in %q: %d, want %d", query, body, got, want)
		}
	})
	if overlap([]string{"refund"}, "refundrefund") != 0 {
		t.Error("a word was found in the middle of another")
	}
}

func BenchmarkSearch(b *testing.B) {
	articles := testTicket().Articles
	b.ReportAllocs()
	for b.Loop() {
		findArticles(articles, "refund for a duplicate charge")
	}
}
