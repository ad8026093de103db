package serve

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
)

// BenchmarkStart makes the environment of a server as at its start: the built-in catalogue is
// loaded each time.
func BenchmarkStart(b *testing.B) {
	for _, environment := range []string{"ticket", "workflow"} {
		b.Run(environment, func(b *testing.B) {
			o := &options{environment: environment}
			b.ReportAllocs()
			for b.Loop() {
				catalog, err := scenarios.LoadPacks(scenarios.PublicPack())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := kindOf(o, catalog, offline.New()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
