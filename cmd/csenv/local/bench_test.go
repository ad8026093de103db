package local

import (
	"runtime"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
)

// BenchmarkPlay plays each ticket 50 times with the policy that knows the right answers, as
// csenv eval does, and reports the episodes per second and what an episode allocates.
func BenchmarkPlay(b *testing.B) {
	o := options(b, "Oracle")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var episodes int64
	for b.Loop() {
		run := testRun(func(r *v1alpha1.EvaluationRun) {
			r.Spec.Concurrency = new(int32(8))
			r.Spec.Tasks = []v1alpha1.TaskSelection{{Name: "ticket-resolve", Trials: 50}}
		})
		if err := Play(b.Context(), run, o); err != nil {
			b.Fatal(err)
		}
		episodes += run.Status.Episodes.Scored
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(episodes)/b.Elapsed().Seconds(), "episodes/s")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(episodes), "B/episode")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(episodes), "allocs/episode")
}
