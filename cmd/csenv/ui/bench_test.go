package ui

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/testkit/largestore"
)

// BenchmarkPages measures the pages over a large store. No query of a list is in the cache.
func BenchmarkPages(b *testing.B) {
	folder, index := largestore.Folder(b)
	s, _ := opened(b, "--results", folder, "--index", index)
	s.sources.stored.settle(b.Context())
	runs, err := s.sources.runs(b.Context())
	if err != nil || len(runs) == 0 {
		b.Fatalf("%d runs, %v", len(runs), err)
	}
	run := runPath(runs[0])
	n := 0
	for _, page := range []struct{ name, path string }{
		{"overview", "/"}, {"run", run}, {"leaderboard", "/leaderboard"},
		{"list", run + "/episodes?max=0.N"}, {"list by score", run + "/episodes?sort=score&max=0.N"},
		{"list by scenario", run + "/episodes?sort=scenario&order=desc&max=0.N"},
		{"list with a word", run + "/episodes?text=wba1&max=0.N"}, {"episode", run + "/episodes/7?max=0.N"},
		{"search", "/search?q=wba1"},
	} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				n++
				path := strings.ReplaceAll(page.path, "N", strconv.Itoa(999_999-n))
				if w := get(s, path); w.Code != http.StatusOK {
					b.Fatalf("%s: status %d", path, w.Code)
				}
			}
		})
	}
}
