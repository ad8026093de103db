package endpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Config configures a Caller. MaxConcurrency, MaxQueue and Attempts are at least 1.
type Config struct {
	// MaxConcurrency bounds the requests that run at a time, MaxQueue those that wait.
	MaxConcurrency, MaxQueue int
	// Attempts is the number of times a request is sent. An endpoint that has answered before is
	// waited for as long as Patience, with further attempts. Refusals means that a request is also
	// repeated after a failure that may depend on it.
	Attempts int
	Patience time.Duration
	Refusals bool
	// FirstBackoff is the longest wait before the second attempt. It doubles up to MaxBackoff.
	FirstBackoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest wait between two attempts that an endpoint may request. 0 is no
	// bound but the context.
	MaxRetryAfter time.Duration
	// PerMinute bounds the requests that begin in a minute, 0 for no bound.
	PerMinute float64
	// PauseAll delays every request for as long as the endpoint has asked one of them to wait.
	PauseAll bool
	// Now, Random (from 0 to 1) and Wait are for tests; nil for the real ones.
	Now    func() time.Time
	Random func() float64
	Wait   func(ctx context.Context, d time.Duration) error
}

// Caller calls one endpoint. It is safe for concurrent use, and all sessions of a process share it.
type Caller struct {
	config  Config
	limiter *limiter
	pace    *rate.Limiter

	mu sync.Mutex
	// pausedUntil is when the endpoint accepts requests again, and answered that it has answered
	// one.
	pausedUntil time.Time
	answered    bool
}

// NewCaller makes a caller.
func NewCaller(c Config) *Caller {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Wait == nil {
		c.Wait = SleepContext
	}
	caller := &Caller{config: c, limiter: newLimiter(c.MaxConcurrency, c.MaxQueue)}
	if c.PerMinute > 0 {
		caller.pace = rate.NewLimiter(rate.Limit(c.PerMinute/60), 1)
	}
	return caller
}

// SleepContext waits for a time, or until the context ends.
func SleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Backoff is the wait before attempt n+1, n from 1: a random part (full jitter) of a bound that
// doubles from first up to most. Random returns a number from 0 to 1.
func Backoff(first, most time.Duration, n int, random func() float64) time.Duration {
	return time.Duration(random() * float64(min(first<<min(n-1, 10), most)))
}

const (
	// Patience is how long an endpoint that is down or full is waited for: at the start, for an
	// agent's request, and by a judge with the attempts of a step.
	Patience = 2 * time.Minute
	// LongestAsked is the longest pause that an endpoint may ask for within that.
	LongestAsked = 90 * time.Second
)

// errNoTime means that the next attempt would come too late.
var errNoTime = errors.New("no time for another attempt")

// Do sends a request until it completes or another attempt is of no use. The error comes from the
// last attempt. Send makes one attempt: after an *Error it may be called again, and any other error
// ends the call. Again, unless nil, is called before each further attempt with the reason.
func (c *Caller) Do(ctx context.Context, send func(context.Context) error, again func(*Error)) error {
	began, waited := c.config.Now(), time.Duration(0)
	for attempt := 0; ; {
		err := c.sendOnce(ctx, send)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Anew && !e.Class.Again() && !c.config.Refusals {
			return err
		}
		if !e.Anew {
			if attempt++; attempt >= c.config.Attempts && !c.waitsFor(e, max(waited, c.config.Now().Sub(began))) {
				return fmt.Errorf("%d attempts: %w", attempt, err)
			}
			wait, err := c.waitBackoff(ctx, attempt, e)
			if err != nil {
				return err
			}
			waited += wait
		}
		if again != nil {
			again(e)
		}
	}
}

// waitsFor reports whether an endpoint that failed is waited for, after so much time.
func (c *Caller) waitsFor(e *Error, waited time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered && e.Class.Again() && waited < c.config.Patience
}

// waitBackoff waits for the backoff before the next attempt, and at least as long as the endpoint
// hasMessage requested. It fails at once if there is no time for that.
func (c *Caller) waitBackoff(ctx context.Context, attempt int, e *Error) (time.Duration, error) {
	wait := max(Backoff(c.config.FirstBackoff, c.config.MaxBackoff, attempt, c.config.Random), e.After)
	deadline, bounded := ctx.Deadline()
	longest := c.config.MaxRetryAfter
	if bounded && c.config.Now().Add(wait).After(deadline) || longest > 0 && wait > longest {
		return 0, fmt.Errorf("%w, which is due in %v: %w", errNoTime, wait, e)
	}
	return wait, c.config.Wait(ctx, wait)
}

// sendOnce sends a request once, when the limiter and the pace allow it.
func (c *Caller) sendOnce(ctx context.Context, send func(context.Context) error) error {
	cuts, err := c.limiter.acquire(ctx)
	if err != nil {
		return err
	}
	ended := unsent
	defer func() { c.limiter.release(cuts, ended) }()
	if err := c.keepPace(ctx); err != nil {
		return err
	}
	err = send(ctx)
	switch class := ClassOf(err); {
	case isOverload(err), class == Abandoned && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		ended = overloaded
	case class == Completed || class == Unparsable:
		ended = answered
	}
	if e, ok := errors.AsType[*Error](err); ok && c.config.PauseAll && e.Class == Throttled {
		c.pauseAll(e.After)
	}
	if err == nil {
		c.mu.Lock()
		c.answered = true
		c.mu.Unlock()
	}
	return err
}

// pauseAll delays all requests for a time of at most MaxRetryAfter.
func (c *Caller) pauseAll(d time.Duration) {
	if c.config.MaxRetryAfter > 0 {
		d = min(d, c.config.MaxRetryAfter)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.config.Now().Add(d); until.After(c.pausedUntil) {
		c.pausedUntil = until
	}
}

// keepPace waits until a request may begin.
func (c *Caller) keepPace(ctx context.Context) error {
	c.mu.Lock()
	left := c.pausedUntil.Sub(c.config.Now())
	c.mu.Unlock()
	if left > 0 {
		if err := c.config.Wait(ctx, left); err != nil {
			return err
		}
	}
	if c.pace == nil {
		return ctx.Err()
	}
	now := c.config.Now()
	turn := c.pace.ReserveN(now, 1)
	if err := c.config.Wait(ctx, turn.DelayFrom(now)); err != nil {
		turn.CancelAt(c.config.Now())
		return err
	}
	return nil
}

// Load returns the requests in flight, those that wait, and the bound of those in flight.
func (c *Caller) Load() (inFlight, waiting, limit int) { return c.limiter.load() }

// Lowered is the bound of the requests in flight if the endpoint answers no more than so many, and
// otherwise 0.
func (c *Caller) Lowered() int {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.limiter.cuts == 0 || int(c.limiter.limit) >= c.limiter.most {
		return 0
	}
	return c.limiter.bound()
}
