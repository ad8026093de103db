package queue_test

import (
	"testing"

	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/scenarios"
)

func public(tb testing.TB) *scenarios.Catalog {
	tb.Helper()
	catalog, err := scenarios.Public()
	if err != nil {
		tb.Fatal(err)
	}
	return catalog
}

func BenchmarkBest(b *testing.B) {
	cases := [queue.Size]queue.Case{{"urgent", true}, {"low", false}, {"high", true}, {"medium", false},
		{"urgent", true}}
	b.ReportAllocs()
	for b.Loop() {
		queue.Best(cases)
	}
}

func BenchmarkCompose(b *testing.B) {
	catalog := public(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := queue.Compose(catalog); err != nil {
			b.Fatal(err)
		}
	}
}
