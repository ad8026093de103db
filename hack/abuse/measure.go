package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/csenv/csenv/envserver/openenv/client"
)

const (
	// clients is the number of clients that play during an attack, unless a kind has another.
	clients = 12
	// interval is about the time between two requests of all clients.
	interval = 2 * time.Millisecond
)

// row is what came of an attack.
type row struct {
	result               string
	peak                 int64 // bytes
	peace, war, returned time.Duration
	// busy is the share of the processors that the machine's work took in peace, from 0 to 1.
	busy float64
}

// isSlow reports whether the attack made the clients slow.
func (r row) isSlow() bool { return r.war > max(slowdown*r.peace, noise) }

func (r row) verdict() string {
	if r.isSlow() {
		return fmt.Sprintf("ok; times not compared: the machine was busy (%.0f %%) without the attack", 100*r.busy)
	}
	return "ok"
}

func sleepContext(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// play lets clients play while something happens, and returns the 99th percentile of the times of
// their requests.
func (s *server) play(ctx context.Context, happens func(context.Context)) (time.Duration, error) {
	var mu sync.Mutex
	var took []time.Duration
	var lost []error
	ends, end := context.WithCancel(ctx)
	var playing sync.WaitGroup
	for i := range s.kind.count() {
		playing.Go(func() {
			times, err := s.playOne(ctx, ends, i)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, times...)
			lost = append(lost, err)
		})
	}
	happens(ctx)
	end()
	playing.Wait()
	slices.Sort(took)
	if len(took) == 0 {
		return 0, errors.Join(append(lost, errors.New("no client played"))...)
	}
	return took[len(took)*99/100], errors.Join(lost...)
}

// playFor lets clients play for a time.
func (s *server) playFor(ctx context.Context, d time.Duration) (time.Duration, error) {
	return s.play(ctx, func(ctx context.Context) { sleepContext(ctx, d) })
}

// playOne plays until the second context ends.
func (s *server) playOne(ctx, until context.Context, seed int) (took []time.Duration, err error) {
	return took, s.kind.play(ctx, until, s, seed, func(f func() error) error {
		began := time.Now()
		err := f()
		took = append(took, time.Since(began))
		sleepContext(until, time.Duration(s.kind.count())*interval)
		return err
	})
}

// onSession plays episodes in one session.
func onSession(episode func(context.Context, *client.Client, int, func(func() error) error) error) func(ctx,
	until context.Context, s *server, seed int, each func(func() error) error) error {
	return func(ctx, until context.Context, s *server, seed int, each func(func() error) error) error {
		c, err := client.Dial(ctx, "http://"+s.front, client.Options{Spread: true})
		for err == nil && until.Err() == nil {
			seed += clients
			err = episode(ctx, c, seed, each)
		}
		if c == nil {
			return err
		}
		return errors.Join(err, c.Close())
	}
}

// playTicket plays an episode of ticket-resolve.
func playTicket(ctx context.Context, c *client.Client, seed int, each func(func() error) error) error {
	return playActions(ctx, c, each, map[string]any{"task": "ticket-resolve", "seed": seed},
		map[string]any{"action_type": "classify", "category": "billing", "priority": "low"},
		map[string]any{"action_type": "respond",
			"message": "Hello, I am looking into your charge and write again today."},
		map[string]any{"action_type": "resolve"})
}

// playWorkflow looks up an order that isn't the customer's.
func playWorkflow(ctx context.Context, c *client.Client, seed int, each func(func() error) error) error {
	look := map[string]any{"action_type": "check_order_status", "payload": map[string]any{"order_id": "LD-9"}}
	return playActions(ctx, c, each, map[string]any{"task": "refund", "seed": seed}, look, look, look)
}

func playActions(ctx context.Context, c *client.Client, each func(func() error) error, reset map[string]any,
	actions ...map[string]any) error {
	if err := each(func() error { _, err := c.Reset(ctx, reset); return err }); err != nil {
		return err
	}
	for _, action := range actions {
		if err := each(func() error { _, err := c.Step(ctx, action); return err }); err != nil {
			return err
		}
	}
	return nil
}

// watchMemory returns the largest resident memory of a process until the context ends.
func watchMemory(ctx context.Context, pid int) (peak int64) {
	for ctx.Err() == nil {
		peak = max(peak, readResident(pid))
		sleepContext(ctx, 20*time.Millisecond)
	}
	return peak
}

// readResident returns the resident memory of a process in bytes, 0 if it can't be read.
func readResident(pid int) int64 {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := process.Stat()
	if err != nil {
		return 0
	}
	return int64(stat.ResidentMemory())
}

// work is how long the machine's processors have worked, and how long there were any, in seconds.
type work struct{ worked, all float64 }

func workOfMachine() work {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return work{}
	}
	stat, err := fs.Stat()
	if err != nil {
		return work{}
	}
	c := stat.CPUTotal
	worked := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return work{worked, worked + c.Idle + c.Iowait}
}

// since is the share of the processors that worked since then.
func (w work) since(then work) float64 { return (w.worked - then.worked) / max(w.all-then.all, 1) }

// occupation is what clients occupy of a server: of the pages, descriptors alone are known.
type occupation struct{ sessions, goroutines, descriptors int }

func (s *server) occupied(ctx context.Context) (o occupation, err error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err == nil && s.Ops != "" {
		o, err = s.readMetrics(ctx)
	}
	o.descriptors = len(open)
	return o, err
}

// readMetrics returns what the server's metrics say of it, without its descriptors.
func (s *server) readMetrics(ctx context.Context) (o occupation, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Ops+"/metrics", http.NoBody)
	if err != nil {
		return o, err
	}
	request.Header.Set("Authorization", "Bearer "+poolSecrets().Operations)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return o, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return o, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "csenv_sessions_active":
			o.sessions = int(n)
		case "go_goroutines":
			o.goroutines = int(n)
		}
	}
	if o.goroutines == 0 {
		return o, fmt.Errorf("/metrics tells nothing: %s %.100s", response.Status, text)
	}
	return o, nil
}

// awaitReturned waits until the server has as much as before the attack.
func (s *server) awaitReturned(ctx context.Context, before occupation) error {
	deadline := time.Now().Add(returnTime)
	for {
		now, err := s.occupied(ctx)
		if err == nil && now.sessions <= before.sessions && now.goroutines <= before.goroutines+5 &&
			now.descriptors <= before.descriptors+8 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("%v after the attack the server has %+v, before it %+v", returnTime, now,
				before))
		}
		sleepContext(ctx, 200*time.Millisecond)
	}
}
