package queue_test

import (
	"testing"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/testkit"
)

func BenchmarkBest(b *testing.B) {
	cases := [queue.Size]queue.Case{{"urgent", true}, {"low", false}, {"high", true}, {"medium", false},
		{"urgent", true}}
	b.ReportAllocs()
	for b.Loop() {
		queue.FindBestSchedule(cases)
	}
}

func BenchmarkCompose(b *testing.B) {
	catalog := testkit.Catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		queue.ComposeQueues(catalog)
	}
}

func BenchmarkInstantiate(b *testing.B) {
	catalog := testkit.Catalog(b)
	queues := queue.ComposeQueues(catalog)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := queues[i%len(queues)].Instantiate(catalog, int64(i)); err != nil {
			b.Fatal(err)
		}
	}
}
