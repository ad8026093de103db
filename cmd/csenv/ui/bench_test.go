package ui

import (
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/testkit/largestore"
)

// BenchmarkPages measures the pages over a large store. No query of a list is in the cache.
func BenchmarkPages(b *testing.B) {
	folder, index := largestore.Folder(b)
	s, _ := opened(b, "--results", folder, "--index", index)
	s.sources.stored.settle(b.Context())
	benchmarkPages(b, s)
}

// BenchmarkPagesWhileRead measures the pages while the store is read into a new index.
func BenchmarkPagesWhileRead(b *testing.B) {
	folder, _ := largestore.Folder(b)
	s, _ := opened(b, "--results", folder, "--index", filepath.Join(b.TempDir(), "index.db"))
	for s.sources.stored.reading() == "" || len(s.sources.state(b.Context()).runs) == 0 {
		select { // the index is read by another goroutine, which tells nobody
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	benchmarkPages(b, s)
	if s.sources.stored.reading() == "" {
		b.Error("the store was read before all pages were measured: measure fewer, or a larger store")
	}
}

func benchmarkPages(b *testing.B, s *site) {
	b.Helper()
	runs, err := s.sources.runs(b.Context())
	if err != nil || len(runs) == 0 {
		b.Fatalf("%d runs, %v", len(runs), err)
	}
	run, id := runPath(runs[0]), newComparedRun(runs[0]).ID
	n := 0
	for _, page := range []struct{ name, path string }{
		{"overview", "/"}, {"run", run}, {"leaderboard", "/leaderboard"},
		{"compare", "/compare?" + url.Values{"run": {id, id}}.Encode()},
		{"list", run + "/episodes?max=0.N"}, {"list by score", run + "/episodes?sort=score&max=0.N"},
		{"list by scenario", run + "/episodes?sort=scenario&order=desc&max=0.N"},
		{"list with a word", run + "/episodes?text=wba1&max=0.N"}, {"episode", run + "/episodes/7?max=0.N"},
		{"search", "/search?q=wba1"},
	} {
		b.Run(page.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				n++
				path := strings.ReplaceAll(page.path, "N", strconv.Itoa(999_999-n))
				began := time.Now()
				if w := get(s, path); w.Code != http.StatusOK {
					b.Fatalf("%s: status %d", path, w.Code)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
