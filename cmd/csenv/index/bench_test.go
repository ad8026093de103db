package index

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/csenv/csenv/envserver/testkit/largestore"
)

func BenchmarkUpdate(b *testing.B) {
	folder, _ := largestore.Folder(b)
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "i.db")
		x := openIndex(b, path)
		b.ReportMetric(float64(update(b, x, folder).Episodes), "episodes")
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size()), "file-bytes")
	}
}

// BenchmarkQueries measures queries without their cache.
func BenchmarkQueries(b *testing.B) {
	folder, path := largestore.Folder(b)
	x := openIndex(b, path)
	update(b, x, folder)
	infos, err := x.Runs(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	id := infos[0].ID
	queries := map[string]Query{"first page": {}, "page 5000": {Offset: 5000 * DefaultLimit}, "passed": {Passed: new(true)},
		"score range": {Least: new(int64(1)), Most: new(int64(100_000))}, "class": {Class: "timeout"},
		"outcome": {Outcomes: []string{"errored"}}, "rare word": {Text: "wef3125 "}, "common word": {Text: "wba1 "},
		"two words": {Text: "wba1 wca2 "}, "prefix": {Text: "wca"}, "word by score": {Text: "wba1 ", Sort: ByScore}}
	for _, sort := range Sorts {
		queries["by "+string(sort)] = Query{Sort: sort, Descending: true}
	}
	for name, q := range queries {
		q.Run = id
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x.loaded[0].cache.clear()
				page, err := x.Episodes(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(page.Total), "selected")
			}
		})
	}
	page, err := x.Episodes(b.Context(), Query{Run: id, Limit: MaxLimit})
	if err != nil {
		b.Fatal(err)
	}
	var scenarios []string
	for _, e := range page.Episodes[:min(50, len(page.Episodes))] {
		scenarios = append(scenarios, e.Scenario)
	}
	for name, s := range map[string]Search{"common word": {Text: "wba1"}, "two words": {Text: "wba1 wca2"},
		"no word": {Text: "xyzzy"}, "scenarios": {Scenarios: scenarios}, "a run": {Run: id, Text: "wba1"}} {
		s.Limit = 100
		b.Run("all runs, "+name, func(b *testing.B) {
			for b.Loop() {
				found, _, err := x.Search(b.Context(), s)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(found)), "selected")
			}
		})
	}
	b.Run("neighbours", func(b *testing.B) {
		for b.Loop() {
			if _, err := x.Neighbours(b.Context(), Query{Run: id, Sort: ByScore}, 50); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			x.loaded = nil
			if _, err := x.Episodes(b.Context(), Query{Run: id}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("figures, cached %v", cached), func(b *testing.B) {
			for b.Loop() {
				if !cached {
					if _, err := x.db.ExecContext(b.Context(), "UPDATE runs SET summed = -1"); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := loaded(b.Context(), x, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
