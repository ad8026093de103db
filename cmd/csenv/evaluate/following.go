package evaluate

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
)

// every calls a function at an interval until the returned function is called.
func every(interval time.Duration, call func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		view.Every(ctx, interval, call)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// announce says what is waited for while the endpoints are tried, until the returned function is
// called.
func (e *evalCommand) announce(errs io.Writer) (stop func()) {
	return every(view.LineInterval, func() {
		if waits := e.traffic.waits(); waits != "" {
			fmt.Fprintf(errs, "trying the endpoints: %s\n", waits)
		}
	})
}

// following shows how far an evaluation is.
type following struct {
	meter *view.Meter
	stop  func()

	mu   sync.Mutex
	last view.Progress
}

// remindInterval is how often a terminal is drawn anew although nothing has ended.
const remindInterval = time.Second

// newFollowing follows the play of a run with the given options.
func (e *evalCommand) newFollowing(errs io.Writer, run *v1alpha1.EvaluationRun, o *local.Options) *following {
	f := &following{meter: view.NewMeter(errs, "playing "+run.Name, o.Clock.Now)}
	o.Record = e.traffic.count
	o.Progress = func(p local.Progress) {
		shown := view.Progress{Ended: p.Ended, Total: p.Total, Errored: p.Errored, Resumed: p.Resumed,
			Notes: []string{e.traffic.pace()}}
		if p.Scored > 0 {
			shown.Score = score.Decimal(p.Scores / p.Scored)
		}
		f.mu.Lock()
		f.last = shown
		f.mu.Unlock()
		f.meter.Set(shown)
	}
	f.stop = every(remindInterval, func() {
		f.mu.Lock()
		shown := f.last
		f.mu.Unlock()
		waits := e.traffic.waits()
		if shown.Total == 0 && waits == "" {
			return // nothing has ended, and nothing is late
		}
		if shown.Total == 0 {
			shown.Total = view.UnknownTotal
		}
		shown.Notes = []string{e.traffic.pace(), waits}
		f.meter.Remind(shown)
	})
	return f
}

// finish ends the progress, and returns the number of episodes that an earlier call played.
func (f *following) finish() (resumed int64) {
	f.stop()
	f.meter.Finish()
	return f.last.Resumed
}
