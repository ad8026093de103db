package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// requestBudget bounds all requests of a pass, which must end even if a network policy drops every
// packet.
const requestBudget = 10 * time.Second

// concurrentPolls is the number of runs that are polled at a time. Each sends at most requestWidth
// requests at a time.
const concurrentPolls = 16

// PoolReader reads the report and the segments of the server at a pod's address.
type PoolReader interface {
	// The report has the counts of the runs with these UIDs.
	Report(ctx context.Context, podIP, token string, runs ...string) (score.Report, error)
	Rollouts(ctx context.Context, podIP, token string, request score.CollectRequest) (score.Segment, error)
}

// ErrPolling means that servers are being polled. The poller requests another pass.
var ErrPolling = errors.New("servers are being polled")

// Polled is what a poll for a run returns: a report before the run has begun or if the pool seems
// to have changed, and segments after.
type Polled struct {
	report    *score.Report
	reportErr error
	digests   []string // of the image of the servers that are ready
	segments  []tally.Reply
}

// forEach calls f with each item, in order and so many at a time. All calls together have
// requestBudget.
func forEach[T any](ctx context.Context, items []T, width int, f func(context.Context, T)) {
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	var group sync.WaitGroup
	slots := make(chan struct{}, width)
	for _, item := range items {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f(ctx, item)
		})
	}
	group.Wait()
}
