package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// endurance is what was measured of many sessions.
type endurance struct {
	sessions, open          int
	refused                 int64 // connects while the sessions were opened
	opening                 time.Duration
	connectP50, connectP99  time.Duration
	serverRSS, serverHeap   float64 // bytes per session
	clientRSS               float64 // bytes per session
	played                  time.Duration
	steps                   int64 // answers, resets included
	stepP50, stepP99        time.Duration
	cpu                     time.Duration // of the servers, per answer
	tally                   tally
	replaced                int
	replacing, longestDrain time.Duration
	openAtEnd               int
	causes                  map[string]int
}

// endure opens the sessions, lets them play, and replaces all servers one after the other.
func (b *bench) endure(ctx context.Context) (e endurance, err error) {
	b.tell("endurance: %d servers, %d sessions", b.options.servers, b.sessions)
	if err := b.start(ctx, b.options.servers); err != nil {
		return e, err
	}
	idle, err := b.serverUsage(ctx)
	if err != nil {
		return e, err
	}
	clients, err := startClients(ctx, b.playOrders(), b.tell)
	if err != nil {
		return e, err
	}
	defer clients.kill()
	e.sessions = b.sessions
	if err := b.open(ctx, clients, idle, &e); err != nil {
		return e, err
	}
	before, err := b.serverUsage(ctx)
	if err != nil {
		return e, err
	}
	if err := clients.tell(order{Go: true}); err != nil {
		return e, err
	}
	began := time.Now()
	b.tell("episodes of %d messages with a pause of %v, for %v", len(episodeMessages), b.pause, b.settle)
	if err := b.watch(ctx, clients, b.settle); err != nil {
		return e, err
	}
	after, err := b.serverUsage(ctx)
	if err != nil {
		return e, err
	}
	e.cpu = after.minus(before).cpu / time.Duration(max(sumOf(clients.reports()).Steps, 1))
	if err := b.replaceAll(ctx, clients, &e); err != nil {
		return e, err
	}
	// The sessions that moved last begin an episode of their own.
	if err := b.watch(ctx, clients, b.episode()); err != nil {
		return e, err
	}
	e.openAtEnd = sumOf(clients.reports()).Open
	e.played = time.Since(began)
	return e, b.end(ctx, clients, &e)
}

func (b *bench) playOrders() []order {
	orders := make([]order, b.options.servers)
	for i := range orders {
		orders[i] = order{
			Kind:     kindPlay,
			Servers:  b.addresses(),
			Sessions: sessionShare(b.sessions, b.options.servers, i),
			Source:   clientAddress(i),
			Seed:     int64(1 + i*seedsPerClient),
			Dialing:  b.dialing,
			Pause:    b.pause,
		}
	}
	return orders
}

// open waits until all sessions have been tried, and measures what they take.
func (b *bench) open(ctx context.Context, c *clients, idle usage, e *endurance) error {
	began := time.Now()
	if err := c.await(ctx, func(r report) bool { return r.Opened }); err != nil {
		return err
	}
	e.opening = time.Since(began)
	sum := sumOf(c.reports())
	e.open, e.refused = sum.Open, sum.Refused
	slices.Sort(sum.Connects)
	e.connectP50, e.connectP99 = sortedQuantile(sum.Connects, 0.5), sortedQuantile(sum.Connects, 0.99)
	used, err := b.serverUsage(ctx)
	if err != nil {
		return err
	}
	clientUse, err := c.usage()
	if err != nil {
		return err
	}
	grown, n := used.minus(idle), float64(max(e.open, 1))
	e.serverRSS, e.serverHeap, e.clientRSS = grown.resident/n, grown.heap/n, clientUse.resident/n
	b.tell("%d sessions are open after %v, %d connects refused; connect p50 %v, p99 %v; a session takes %.1f KiB "+
		"of the servers' memory", e.open, e.opening.Round(time.Second), e.refused, e.connectP50, e.connectP99,
		e.serverRSS/1024)
	return nil
}

func sortedQuantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// watch prints progress for a time.
func (b *bench) watch(ctx context.Context, c *clients, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		sleepContext(ctx, min(progressEvery, time.Until(until)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.tell("  %s", sumOf(c.reports()))
	}
	return nil
}

// replaceAll replaces the servers one after the other, as a rolling update does.
func (b *bench) replaceAll(ctx context.Context, c *clients, e *endurance) error {
	began := time.Now()
	for i := range b.servers {
		b.tell("replacing server %d of %d", i+1, len(b.servers))
		started := time.Now()
		watched, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { _ = b.watch(watched, c, b.drain) }) // its only error is that of the context
		err := b.replace(ctx, i, func(addresses []string) error { return c.tell(order{Servers: addresses}) })
		stop()
		watching.Wait()
		if err != nil {
			return err
		}
		e.replaced++
		e.longestDrain = max(e.longestDrain, time.Since(started))
		b.tell("  done after %v: %s", time.Since(started).Round(time.Second), sumOf(c.reports()))
	}
	e.replacing = time.Since(began)
	return nil
}

// replace starts a server and then ends the one at the place, whose sessions move as their episodes
// end. Only the new one is offered to sessions that connect.
func (b *bench) replace(ctx context.Context, place int, announce func([]string) error) error {
	old := b.servers[place]
	fresh, err := b.startOne(ctx)
	if err != nil {
		return err
	}
	b.servers[place] = fresh
	if err := announce(b.addresses()); err != nil {
		return errors.Join(err, old.Stop(0))
	}
	const closing = 30 * time.Second // after the drain: closing sockets, and the last ledgers
	return old.StopCleanly(b.drain + closing)
}

// end stops the clients and reads their last reports.
func (b *bench) end(ctx context.Context, c *clients, e *endurance) error {
	if err := c.tell(order{Stop: true}); err != nil {
		return err
	}
	if err := c.await(ctx, func(r report) bool { return r.Done }); err != nil {
		return err
	}
	all := c.reports()
	sum := sumOf(all)
	e.tally, e.steps, e.causes = sum.tally, sum.Steps, sum.Causes
	latency := hdrhistogram.New(1, 120_000_000, 3)
	for _, r := range all {
		one, err := hdrhistogram.Decode(r.Latency)
		if err != nil {
			return fmt.Errorf("reading the latencies of a client: %w", err)
		}
		latency.Merge(one)
	}
	at := func(q float64) time.Duration { return time.Duration(latency.ValueAtQuantile(q)) * time.Microsecond }
	e.stepP50, e.stepP99 = at(50), at(99)
	return c.finish(ctx)
}
