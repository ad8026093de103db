package view

import (
	"context"
	"time"
)

// CallEvery calls a function at an interval until the context ends.
func CallEvery(ctx context.Context, interval time.Duration, call func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			call()
		}
	}
}
