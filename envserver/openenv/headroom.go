package openenv

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// headroom is the garbage, in bytes, that is worth a collection. With Go's own rule, as much as
	// is in use, a server with few sessions would collect many times a second, at a tenth of its
	// processor time.
	headroom = 64 << 20
	// minGCPercent is Go's own rule, maxGCPercent what a heap of next to nothing needs for the
	// headroom.
	minGCPercent, maxGCPercent = 100, 1600
	// headroomInterval is how often the heap is looked at.
	headroomInterval = time.Second
)

// KeepHeadroom has the process collect garbage once there are 64 MiB of it, or as much as is in use
// if that is more. It returns when the context ends, or at once where the variable GOGC says
// otherwise. The memory limit (GOMEMLIMIT) holds as ever.
func KeepHeadroom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(headroomInterval)
	defer ticker.Stop()
	percent := minGCPercent
	for {
		// Setting it stops the world: a little more or less is no reason.
		if wanted := gcPercent(heapInUse()); wanted > percent+percent/4 || wanted < percent-percent/4 {
			percent = wanted
			debug.SetGCPercent(percent)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			debug.SetGCPercent(minGCPercent)
			return
		}
	}
}

// gcPercent is the share of what is in use that makes up the headroom.
func gcPercent(inUse uint64) int {
	return int(min(max(headroom*100/max(inUse, 1), minGCPercent), maxGCPercent))
}

// heapInUse is what the last collection found in use, in bytes, stacks included, as the collector's
// own rule counts it.
func heapInUse() uint64 {
	samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	runtimemetrics.Read(samples)
	sum := uint64(0)
	for _, s := range samples {
		if s.Value.Kind() == runtimemetrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	return sum
}
