package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// shards keep the sessions' goroutines from waiting for one another's measurements.
const shards = 16

// recorder collects durations.
type recorder [shards]struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
}

func (r *recorder) record(i int, d time.Duration) {
	s := &r[i%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.histogram == nil {
		s.histogram = newHistogram()
	}
	// What is beyond the histogram's range counts as its end.
	_ = s.histogram.RecordValue(min(d.Microseconds(), s.histogram.HighestTrackableValue()))
}

// newHistogram has three significant digits from a microsecond to two minutes.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120_000_000, 3) }

func (r *recorder) latencies() Latencies {
	all := newHistogram()
	for i := range r {
		r[i].mu.Lock()
		if r[i].histogram != nil {
			all.Merge(r[i].histogram)
		}
		r[i].mu.Unlock()
	}
	at := func(q float64) time.Duration { return time.Duration(all.ValueAtQuantile(q)) * time.Microsecond }
	return Latencies{P50: at(50), P99: at(99), Max: time.Duration(all.Max()) * time.Microsecond}
}
