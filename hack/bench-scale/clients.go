package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// The kinds of clients.
const (
	kindLoad = "load"
	kindPlay = "play"
)

// order is a line to a client process. The first has its kind and size.
type order struct {
	Kind     string        `json:"kind,omitempty"`
	Servers  []string      `json:"servers,omitempty"` // also in later orders: those that take sessions
	Sessions int           `json:"sessions,omitempty"`
	Source   string        `json:"source,omitempty"`
	Seed     int64         `json:"seed,omitempty"`
	Dialing  int           `json:"dialing,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	Pause    time.Duration `json:"pause,omitempty"`
	// Go begins the steps.
	Go bool `json:"go,omitempty"`
	// Stop ends episodes.
	Stop bool `json:"stop,omitempty"`
}

// report is a line from a client process: its counters so far.
type report struct {
	// Opened, Stepped and Done are set when all sessions have been tried, when the steps of a load
	// are over, and when all sessions are closed.
	Opened, Stepped, Done bool
	Open, Failed          int
	Steps                 int64
	Rate                  float64
	StepP99               time.Duration
	tally
	// Connects and Latencies are in the reports with Opened and with Done.
	Connects []time.Duration `json:",omitempty"`
	Latency  []byte          `json:",omitempty"`
	Causes   map[string]int  `json:",omitempty"`
}

// clients are the client processes.
type clients struct {
	say     func(format string, args ...any)
	all     []*clientProcess
	changed chan struct{}
}

type clientProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	faults strings.Builder
	done   chan struct{}

	mu   sync.Mutex
	last report
	err  error // after done
}

// startClients starts a client for each order.
func startClients(ctx context.Context, orders []order, say func(string, ...any)) (*clients, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	c := &clients{say: say, changed: make(chan struct{}, 1)}
	for _, o := range orders {
		p := &clientProcess{done: make(chan struct{})}
		p.cmd = exec.CommandContext(ctx, self, clientCommand)
		p.cmd.Stderr = &p.faults
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			c.kill()
			return nil, err
		}
		stdout, err := p.cmd.StdoutPipe()
		if err != nil {
			c.kill()
			return nil, err
		}
		if err := p.cmd.Start(); err != nil {
			c.kill()
			return nil, fmt.Errorf("starting a client: %w", err)
		}
		c.all = append(c.all, p)
		go c.follow(p, stdout)
		if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
			c.kill()
			return nil, fmt.Errorf("starting a client: %w", err)
		}
	}
	return c, nil
}

// follow reads the reports of a client until it ends.
func (c *clients) follow(p *clientProcess, stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	decoder := json.NewDecoder(lines)
	for {
		var r report
		if err := decoder.Decode(&r); err != nil {
			break
		}
		p.mu.Lock()
		p.last = r
		p.mu.Unlock()
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	if err != nil {
		p.err = fmt.Errorf("a client failed: %w: %s", err, strings.TrimSpace(p.faults.String()))
	}
	p.mu.Unlock()
	close(p.done)
}

// tell sends an order to all clients.
func (c *clients) tell(o order) error {
	for _, p := range c.all {
		if err := json.NewEncoder(p.stdin).Encode(o); err != nil {
			return fmt.Errorf("telling a client: %w", err)
		}
	}
	return nil
}

func (c *clients) reports() []report {
	all := make([]report, len(c.all))
	for i, p := range c.all {
		p.mu.Lock()
		all[i] = p.last
		p.mu.Unlock()
	}
	return all
}

// progressEvery is the time between two lines of progress.
const progressEvery = 10 * time.Second

// await waits until the condition holds for the reports of all clients.
func (c *clients) await(ctx context.Context, holds func(report) bool) error {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	ended := make(chan error, len(c.all))
	for _, p := range c.all {
		go func() {
			<-p.done
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.err != nil || !holds(p.last) {
				ended <- errors.Join(p.err, errors.New("a client ended too early"))
			}
		}()
	}
	for {
		if c.allHold(holds) {
			return nil
		}
		select {
		case <-c.changed:
		case <-time.After(time.Second):
		case <-ticker.C:
			c.say("  %s", sumOf(c.reports()))
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *clients) allHold(holds func(report) bool) bool {
	for _, r := range c.reports() {
		if !holds(r) {
			return false
		}
	}
	return true
}

// finish waits until the clients have closed their sessions and ended.
func (c *clients) finish(ctx context.Context) error {
	for _, p := range c.all {
		_ = p.stdin.Close()
	}
	for _, p := range c.all {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.mu.Lock()
		err := p.err
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *clients) kill() {
	for _, p := range c.all {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// usage sums up the clients.
func (c *clients) usage() (usage, error) {
	var sum usage
	for _, p := range c.all {
		u, err := usageOf(p.cmd.Process.Pid)
		if err != nil {
			return usage{}, err
		}
		sum = sum.plus(u)
	}
	return sum, nil
}

// sumOf adds the counters of the clients.
func sumOf(all []report) report {
	sum := report{Causes: map[string]int{}}
	for _, r := range all {
		sum.Open += r.Open
		sum.Failed += r.Failed
		sum.Steps += r.Steps
		sum.tally = sum.plus(r.tally)
		sum.Connects = append(sum.Connects, r.Connects...)
		for cause, n := range r.Causes {
			sum.Causes[cause] += n
		}
	}
	return sum
}

func (r report) String() string {
	return fmt.Sprintf("%d sessions open, %d failed; %d answers; %d episodes ended, %d lost; %d sessions moved, "+
		"%d lost", r.Open, r.Failed, r.Steps, r.Episodes, r.LostEpisodes, r.Moved, r.LostSessions)
}
