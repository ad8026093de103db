package openenv

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestGCPercent(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 1600, 1 << 20: 1600, 4 << 20: 1600, 16 << 20: 400, 32 << 20: 200,
		64 << 20: 100, 1 << 30: 100} {
		if got := gcPercent(inUse); got != want {
			t.Errorf("%d bytes in use: %d, want %d", inUse, got, want)
		}
	}
	runtime.GC()
	if heapInUse() == 0 {
		t.Error("no memory is in use: was a metric renamed?")
	}
}

func TestKeepHeadroom(t *testing.T) {
	t.Setenv("GOGC", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The heap of this process depends on the tests that ran before.
		keepHeadroom(ctx, func() uint64 { return 16 << 20 })
	}()
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	wire.AwaitCondition(t, "a small heap is collected less often", func() bool { return percent() == 400 })
	cancel()
	<-ended
	if got := percent(); got != 100 {
		t.Errorf("afterwards: %d", got)
	}
	t.Setenv("GOGC", "50")
	KeepHeadroom(t.Context()) // returns at once
}
