package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/gorilla/websocket"
)

// Report counts what became of sessions and episodes.
type Report struct {
	// Open sessions and Failed ones, which couldn't be opened.
	Open, Failed int
	// Steps counts the answers to messages other than resets.
	Steps, Episodes int64
	// LostEpisodes broke off after their reset, or their last message didn't end them.
	LostEpisodes int64
	// Refused counts connects that a server refused.
	Refused int64
	// Moved counts sessions that a server ended between two episodes, and that went on with
	// another one. LostSessions found no other one.
	Moved, LostSessions int64
	Causes              map[string]int
	// Connects are from the dial to the answer of the first reset, Answers from a message to its
	// answer, in microseconds.
	Connects, Answers *hdrhistogram.Snapshot
}

func (r *Report) add(o Report) {
	r.Open += o.Open
	r.Failed += o.Failed
	r.Steps += o.Steps
	r.Episodes += o.Episodes
	r.LostEpisodes += o.LostEpisodes
	r.Refused += o.Refused
	r.Moved += o.Moved
	r.LostSessions += o.LostSessions
	for cause, n := range o.Causes {
		if r.Causes == nil {
			r.Causes = map[string]int{}
		}
		r.Causes[cause] += n
	}
	r.Connects, r.Answers = mergeTimes(r.Connects, o.Connects), mergeTimes(r.Answers, o.Answers)
}

func mergeTimes(a, b *hdrhistogram.Snapshot) *hdrhistogram.Snapshot {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := hdrhistogram.Import(a)
	sum.Merge(hdrhistogram.Import(b))
	return sum.Export()
}

// quantile of times, 0 without any.
func quantile(times *hdrhistogram.Snapshot, percent float64) time.Duration {
	if times == nil {
		return 0
	}
	return time.Duration(hdrhistogram.Import(times).ValueAtQuantile(percent)) * time.Microsecond
}

func (r Report) String() string {
	return fmt.Sprintf("%d sessions open, %d failed; %d steps; %d episodes ended, %d lost; %d sessions moved, %d lost",
		r.Open, r.Failed, r.Steps, r.Episodes, r.LostEpisodes, r.Moved, r.LostSessions)
}

// Player plays the sessions of a client process. Its exported methods are called by the parent.
type Player struct {
	ctx     context.Context //nolint:containedctx // the process's
	dialer  websocket.Dialer
	dialing chan struct{} // one place for each concurrent connect
	started chan struct{}
	cancel  context.CancelFunc
	playing sync.WaitGroup

	mu       sync.Mutex
	order    Order
	sessions []*session
	placed   map[string]int // sessions by server
	report   Report
	connects *hdrhistogram.Histogram
	answers  *hdrhistogram.Histogram
}

func newPlayer(ctx context.Context) *Player {
	times := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120_000_000, 3) }
	p := &Player{started: make(chan struct{}), placed: map[string]int{}, report: Report{Causes: map[string]int{}},
		connects: times(), answers: times()}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// Open opens the sessions, some at a time.
func (p *Player) Open(o Order, r *Report) error {
	p.order, p.dialing = o, make(chan struct{}, o.Dialing)
	p.dialer = websocket.Dialer{NetDialContext: newDialer(o.Source), HandshakeTimeout: 30 * time.Second,
		ReadBufferSize: 1024, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{}}
	var opening sync.WaitGroup
	next := make(chan int64)
	for range min(o.Dialing, o.Sessions) {
		opening.Go(func() {
			for i := range next {
				p.openOne(o.Seed + i)
			}
		})
	}
	for i := range int64(o.Sessions) {
		next <- i
	}
	close(next)
	opening.Wait()
	return p.Report(0, r)
}

func (p *Player) openOne(seed int64) {
	s := &session{player: p, seed: seed}
	began := time.Now()
	if err := s.connect(); err != nil {
		p.count(func(r *Report) { r.Failed++ })
		p.note(err)
		return
	}
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(p.connects, took)
	p.report.Open++
	p.sessions = append(p.sessions, s)
	p.playing.Go(s.play)
}

// Begin has the sessions go on, spread over a pause.
func (p *Player) Begin(_ int, _ *Report) error {
	close(p.started)
	p.mu.Lock()
	opened := slices.Clone(p.sessions)
	p.mu.Unlock()
	for i, s := range opened {
		s.sendAfter(p.order.Pause * time.Duration(i) / time.Duration(len(opened)))
	}
	return nil
}

// Move has sessions that connect again choose among these servers.
func (p *Player) Move(servers []string, _ *Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order.Servers = servers
	return nil
}

// Report returns the counters so far.
func (p *Player) Report(_ int, r *Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	*r = p.report
	r.Causes = maps.Clone(p.report.Causes)
	r.Connects, r.Answers = p.connects.Export(), p.answers.Export()
	return nil
}

// Stop closes all sessions and returns the counters.
func (p *Player) Stop(_ int, r *Report) error {
	err := p.Report(0, r)
	p.cancel() // no session connects again
	p.mu.Lock()
	for _, s := range p.sessions {
		_ = s.link.Load().Close()
	}
	p.mu.Unlock()
	p.playing.Wait()
	return err
}

// note counts the cause of a failure, without addresses.
func (p *Player) note(err error) {
	cause := err.Error()
	if i := strings.Index(cause, " tcp "); i >= 0 {
		cause = cause[:i] + cause[strings.LastIndex(cause, ": "):]
	}
	p.count(func(r *Report) { r.Causes[cause]++ })
}

func (p *Player) count(change func(*Report)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.report)
}

// record needs the lock.
func (p *Player) record(times *hdrhistogram.Histogram, took time.Duration) {
	_ = times.RecordValue(min(took.Microseconds(), times.HighestTrackableValue()))
}

// place chooses the server with the fewest sessions of this client.
func (p *Player) place() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := slices.MinFunc(p.order.Servers, func(a, b string) int { return p.placed[a] - p.placed[b] })
	p.placed[least]++
	return least
}

func (p *Player) leave(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.placed[server]--
}

// bindLate is IP_BIND_ADDRESS_NO_PORT: the kernel chooses the port when the connection's
// destination is known, so that the ports of an address are counted by destination.
const bindLate = 24

// newDialer returns a function that connects from an address.
func newDialer(source string) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)},
		Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) {
				failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindLate, 1)
			})
			if err != nil {
				return err
			}
			return failed
		}}
	return d.DialContext
}
