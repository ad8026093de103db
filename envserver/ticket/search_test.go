package ticket

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A text contains exactly the terms that are among its words.
func TestOverlap(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"refund", "refunds", "Refund", "re", "fund", "zoë", "ZOË", "überweisung",
		"42", "a", " ", "-", "\u0301", "\xff", "İ", "ſ", "世界", "."})
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

func TestSearchRanksByWords(t *testing.T) {
	ids := func(query string) (ids []string) {
		for _, a := range findArticles(testTicket().Articles, query) {
			ids = append(ids, a.ID)
		}
		return ids
	}
	tests := map[string]struct {
		query string
		want  []string
	}{
		"title before body":     {"warranty refunds", []string{"POL-WAR", "POL-REF"}},
		"more words first":      {"finance team refund", []string{"POL-REF", "POL-WAR"}},
		"ties by id":            {"settled hour", []string{"POL-DUP", "POL-SLA"}},
		"at most three":         {"duplicate refund urgent claim", []string{"POL-WAR", "POL-DUP", "POL-REF"}},
		"short words don't hit": {"is an up to", nil},
		"any case":              {"WARRANTY!", []string{"POL-WAR"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ids(tc.query)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}
