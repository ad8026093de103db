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

// Config says how an endpoint is called. MaxConcurrency, MaxQueue and Attempts are at least 1.
type Config struct {
	// MaxConcurrency bounds the requests that run at a time, MaxQueue those that wait.
	MaxConcurrency, MaxQueue int
	// Attempts is how often a request is sent at most.
	Attempts int
	// FirstBackoff is the most that is waited before the second attempt. It doubles up to
	// MaxBackoff.
	FirstBackoff, MaxBackoff time.Duration
	// Patience is the longest wait between two attempts that an endpoint may ask for; 0 is as long
	// as the context lasts.
	Patience time.Duration
	// PerMinute bounds the requests that are begun in a minute, 0 for no bound.
	PerMinute float64
	// Hold makes every request wait where one was asked to.
	Hold bool
	// Now, Random (from 0 to 1) and Wait are the clock and the chance; nil for the real ones.
	Now    func() time.Time
	Random func() float64
	Wait   func(ctx context.Context, d time.Duration) error
}

// Caller calls one endpoint. It is safe for concurrent use and meant to be shared by all sessions
// of a process.
type Caller struct {
	config  Config
	limiter *limiter
	pace    *rate.Limiter

	mu sync.Mutex
	// held is when the endpoint wants to hear of the process again.
	held time.Time
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
		c.Wait = Wait
	}
	caller := &Caller{config: c, limiter: newLimiter(c.MaxConcurrency, c.MaxQueue)}
	if c.PerMinute > 0 {
		caller.pace = rate.NewLimiter(rate.Limit(c.PerMinute/60), 1)
	}
	return caller
}

// Wait waits for the time to pass or the context to end.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNoTime means that the next attempt would come too late.
var ErrNoTime = errors.New("no time for another attempt")

// Do sends a request until it has completed, or until sending it again is of no use: then the error
// is that of the last attempt. Send makes one attempt; its errors are of the type *Error, and any
// other one ends the call as it is. Again, unless it is nil, is told why the request is sent once
// more.
func (c *Caller) Do(ctx context.Context, send func(context.Context) error, again func(*Error)) error {
	for attempt := 0; ; {
		err := c.attempt(ctx, send)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Anew && !e.Class.Again() {
			return err
		}
		if !e.Anew {
			if attempt++; attempt == c.config.Attempts {
				return fmt.Errorf("%d attempts: %w", attempt, err)
			}
			if err := c.pause(ctx, attempt, e); err != nil {
				return err
			}
		}
		if again != nil {
			again(e)
		}
	}
}

// pause waits before the next attempt: a random part of the backoff, and at least what the endpoint
// asks for. It gives up at once if there is no time for that.
func (c *Caller) pause(ctx context.Context, attempt int, e *Error) error {
	backoff := min(c.config.FirstBackoff<<(attempt-1), c.config.MaxBackoff)
	wait := max(time.Duration(c.config.Random()*float64(backoff)), e.After)
	deadline, bounded := ctx.Deadline()
	if bounded && c.config.Now().Add(wait).After(deadline) || c.config.Patience > 0 && wait > c.config.Patience {
		return fmt.Errorf("%w, which is due in %v: %w", ErrNoTime, wait, e)
	}
	return c.config.Wait(ctx, wait)
}

// attempt sends a request once, in its turn.
func (c *Caller) attempt(ctx context.Context, send func(context.Context) error) error {
	round, err := c.limiter.acquire(ctx)
	if err != nil {
		return err
	}
	ended := Unsent
	defer func() { c.limiter.release(round, ended) }()
	if err := c.keepPace(ctx); err != nil {
		return err
	}
	err = send(ctx)
	ended = ClassOf(err)
	if e, ok := errors.AsType[*Error](err); ok && c.config.Hold && e.Class == Throttled {
		c.hold(e.After)
	}
	return err
}

// hold keeps all requests back for a time, as far as there is patience for it.
func (c *Caller) hold(d time.Duration) {
	if c.config.Patience > 0 {
		d = min(d, c.config.Patience)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.config.Now().Add(d); until.After(c.held) {
		c.held = until
	}
}

// keepPace waits until a request may begin.
func (c *Caller) keepPace(ctx context.Context) error {
	c.mu.Lock()
	left := c.held.Sub(c.config.Now())
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

// Load are the requests in flight, those that wait, and the bound of those in flight.
func (c *Caller) Load() (inFlight, waiting, limit int) { return c.limiter.load() }
