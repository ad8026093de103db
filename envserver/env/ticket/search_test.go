package ticket

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/words"
)

// A page weighs exactly the terms that its texts contain as words.
func TestWeight(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"refund", "refunds", "Refund", "re", "fund", "zoë", "ZOË", "überweisung",
		"42", "a", " ", "-", "\u0301", "\xff", "İ", "ſ", "世界", "."})
	text := func(rt *rapid.T, name string) string {
		return strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(rt, name), "")
	}
	rapid.Check(t, func(rt *rapid.T) {
		query, title, body := text(rt, "query"), text(rt, "title"), text(rt, "body")
		want := 0
		for _, term := range splitTerms(query) {
			if words.Contains(strings.ToLower(title), term) {
				want += 2
			}
			if words.Contains(strings.ToLower(body), term) {
				want++
			}
		}
		if got := newPage(scenarios.Article{Title: title, Body: body}).weight(splitTerms(query)); got != want {
			rt.Fatalf("%q in %q and %q: %d, want %d", query, title, body, got, want)
		}
	})
	if newPage(scenarios.Article{Body: "refundrefund"}).weight([]string{"refund"}) != 0 {
		t.Error("a word was found in the middle of another")
	}
}

// A full library begins again, and pages stay right.
func TestLibraryIsBounded(t *testing.T) {
	var l library
	for i := range 2*maxPages + 10 {
		body := fmt.Sprintf("refund number%d", i)
		pages := l.listPages([]scenarios.Article{{ID: "A", Body: body}})
		found := findArticles(pages, "number"+strconv.Itoa(i))
		if len(found) != 1 || found[0].Body != body || len(l.pages) > maxPages {
			t.Fatalf("article %d: %v, %d pages", i, found, len(l.pages))
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	var l library
	pages := l.listPages(testTicket().Articles)
	b.ReportAllocs()
	for b.Loop() {
		findArticles(pages, "refund for a duplicate charge")
	}
}

func TestSearchRanksByWords(t *testing.T) {
	ids := func(query string) (ids []string) {
		for _, a := range findArticles(new(library).listPages(testTicket().Articles), query) {
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

// BenchmarkPage makes the page of an article that no episode has searched yet.
func BenchmarkPage(b *testing.B) {
	article := scenarios.Article{Title: "Refunds", Body: strings.Repeat("An agent may refund up to $200. ", 36)}
	b.ReportAllocs()
	for b.Loop() {
		newPage(article)
	}
}
