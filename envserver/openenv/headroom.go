package openenv

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// headroom is the garbage, in bytes, that triggers a collection. Go's own rule, as much as is
	// in use, would cost a server with few sessions a tenth of its processor time.
	headroom = 64 << 20
	// minGCPercent is Go's own rule; maxGCPercent gives a tiny heap the headroom.
	minGCPercent, maxGCPercent = 100, 1600
	// headroomInterval is the time between two measurements of the heap.
	headroomInterval = time.Second
)

// KeepHeadroom makes the process collect garbage once there are 64 MiB of it, or as much as is in
// use if that is more. It returns when the context ends, or at once if the variable GOGC is set.
// The memory limit (GOMEMLIMIT) still applies.
func KeepHeadroom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	keepHeadroom(ctx, heapInUse)
}

// keepHeadroom takes the memory in use, in bytes, from a function.
func keepHeadroom(ctx context.Context, inUse func() uint64) {
	ticker := time.NewTicker(headroomInterval)
	defer ticker.Stop()
	percent := minGCPercent
	for {
		// Ignore small changes, because setting it stops the world.
		if wanted := gcPercent(inUse()); wanted > percent+percent/4 || wanted < percent-percent/4 {
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

// gcPercent is the headroom as a percentage of the memory in use.
func gcPercent(inUse uint64) int {
	return int(min(max(headroom*100/max(inUse, 1), minGCPercent), maxGCPercent))
}

// heapInUse is the memory that the last collection found in use, in bytes, stacks included.
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
