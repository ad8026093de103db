package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// shards reduces the contention of the sessions' goroutines.
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
	// Values beyond the range count as its maximum.
	_ = s.histogram.RecordValue(min(d.Microseconds(), s.histogram.HighestTrackableValue()))
}

// newHistogram makes a histogram from 1 µs to 2 min with three significant digits.
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
