package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/gorilla/websocket"
)

// tally counts what became of sessions and episodes.
type tally struct {
	Episodes int64
	// LostEpisodes broke off after their reset, or ended without a reward.
	LostEpisodes int64
	// Refused counts connects that a server refused.
	Refused int64
	// Moved counts sessions that a server ended between two episodes, and that went on with
	// another one. LostSessions found no other one.
	Moved, LostSessions int64
}

func (t tally) plus(o tally) tally {
	return tally{t.Episodes + o.Episodes, t.LostEpisodes + o.LostEpisodes, t.Refused + o.Refused, t.Moved + o.Moved,
		t.LostSessions + o.LostSessions}
}

// player plays the sessions of a client process.
type player struct {
	order

	dialer  websocket.Dialer
	dialing chan struct{} // one place for each concurrent connect
	stopped chan struct{}
	started chan struct{}

	mu       sync.Mutex
	sessions []*playedSession
	servers  []string       // that take sessions
	placed   map[string]int // sessions by server
	tally    tally
	connects []time.Duration
	latency  *hdrhistogram.Histogram
	causes   map[string]int
	open     atomic.Int64
	failed   atomic.Int64
	steps    atomic.Int64
}

// playEpisodes opens the sessions, plays episodes from the first order to go on until that to stop,
// and reports every second.
func playEpisodes(ctx context.Context, o order, later <-chan order, to *reporter) error {
	p := &player{
		order: o, dialing: make(chan struct{}, o.Dialing), stopped: make(chan struct{}), started: make(chan struct{}),
		servers: o.Servers, placed: map[string]int{}, causes: map[string]int{},
		latency: hdrhistogram.New(1, 120_000_000, 3),
	}
	p.dialer = websocket.Dialer{NetDialContext: newDialer(o.Source), HandshakeTimeout: 30 * time.Second,
		ReadBufferSize: 1024, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reporting sync.WaitGroup
	defer reporting.Wait()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	var opened atomic.Bool
	reporting.Go(func() { p.reportEverySecond(watched, &opened, to) })
	var playing sync.WaitGroup
	p.openAll(ctx, &playing)
	opened.Store(true)
	r := p.report(true)
	r.Connects = p.connects
	to.send(r)
	for o := range later {
		p.obey(o)
		if o.Stop {
			break
		}
	}
	if !isClosed(p.stopped) { // the parent is gone
		close(p.stopped)
	}
	cancel() // no session connects again
	p.hangUp()
	playing.Wait()
	stop()
	reporting.Wait()
	return p.sendLast(to)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *player) obey(o order) {
	p.mu.Lock()
	if len(o.Servers) > 0 {
		p.servers = o.Servers
	}
	p.mu.Unlock()
	if o.Go {
		close(p.started)
		p.begin()
	}
	if o.Stop {
		close(p.stopped)
	}
}

func (p *player) reportEverySecond(ctx context.Context, opened *atomic.Bool, to *reporter) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// The report of all sessions has more.
			if !opened.Load() || isClosed(p.started) {
				to.send(p.report(opened.Load()))
			}
		case <-ctx.Done():
			return
		}
	}
}

func (p *player) report(opened bool) report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return report{Opened: opened, Open: int(p.open.Load()), Failed: int(p.failed.Load()), Steps: p.steps.Load(),
		tally: p.tally, Causes: maps.Clone(p.causes)}
}

func (p *player) sendLast(to *reporter) error {
	r := p.report(true)
	r.Done = true
	var err error
	if r.Latency, err = p.latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
		return fmt.Errorf("encoding the latencies: %w", err)
	}
	to.send(r)
	return nil
}

// openAll opens the sessions, some at a time. Each goes on in a goroutine of its own.
func (p *player) openAll(ctx context.Context, playing *sync.WaitGroup) {
	var next atomic.Int64
	var opening sync.WaitGroup
	for range min(p.Dialing, p.Sessions) {
		opening.Go(func() {
			for i := next.Add(1) - 1; i < int64(p.Sessions) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if s := p.openOne(ctx, p.Seed+i); s != nil {
					playing.Go(func() { s.run(ctx) })
				}
			}
		})
	}
	opening.Wait()
}

// openOne opens a session, or returns nil if that fails.
func (p *player) openOne(ctx context.Context, seed int64) *playedSession {
	s := &playedSession{player: p, seed: seed}
	began := time.Now()
	if err := s.connect(ctx); err != nil {
		p.failed.Add(1)
		p.note(err)
		return nil
	}
	took := time.Since(began)
	p.open.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connects = append(p.connects, took)
	p.sessions = append(p.sessions, s)
	return s
}

// begin has the sessions go on, spread over a pause.
func (p *player) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.sessions {
		s.begin(p.Pause * time.Duration(i) / time.Duration(len(p.sessions)))
	}
}

// hangUp closes all connections.
func (p *player) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		_ = s.conn.Load().Close()
	}
}

// note counts the cause of a failure, without addresses.
func (p *player) note(err error) {
	cause := err.Error()
	if i := strings.Index(cause, " tcp "); i >= 0 {
		cause = cause[:i] + cause[strings.LastIndex(cause, ": "):]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causes[cause]++
}

func (p *player) count(change func(*tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.tally)
}

// place chooses the server with the fewest sessions of this client.
func (p *player) place() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := slices.MinFunc(p.servers, func(a, b string) int { return p.placed[a] - p.placed[b] })
	p.placed[least]++
	return least
}

func (p *player) leave(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.placed[server]--
}
