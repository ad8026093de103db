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

	"github.com/csenv/csenv/envserver/openenv/client"
)

// clients is the number of clients that play during an attack, and thinking their pause between
// two requests.
const (
	clients  = 12
	thinking = 20 * time.Millisecond
)

// row is what came of an attack.
type row struct {
	result               string
	peak                 int64 // bytes
	peace, war, returned time.Duration
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
	for i := range clients {
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

// playOne plays episodes until the second context ends.
func (s *server) playOne(ctx, until context.Context, seed int) (took []time.Duration, err error) {
	c, err := client.Dial(ctx, "http://"+s.Address, client.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	timed := func(f func() error) error {
		began := time.Now()
		err := f()
		took = append(took, time.Since(began))
		sleepContext(until, thinking)
		return err
	}
	for until.Err() == nil {
		seed += clients
		if err := s.kind.episode(ctx, c, seed, timed); err != nil {
			return took, err
		}
	}
	return took, nil
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

// watch returns the largest resident memory until the context ends.
func (s *server) watch(ctx context.Context) (peak int64) {
	for ctx.Err() == nil {
		peak = max(peak, s.resident())
		sleepContext(ctx, 20*time.Millisecond)
	}
	return peak
}

// resident returns the resident memory in bytes, 0 if it can't be read.
func (s *server) resident() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID()))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// occupation is what clients occupy of a server.
type occupation struct{ sessions, goroutines int }

func (s *server) occupied(ctx context.Context) (o occupation, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Ops+"/metrics", http.NoBody)
	if err != nil {
		return o, err
	}
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
		if err == nil && now.sessions <= before.sessions && now.goroutines <= before.goroutines+5 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("%v after the attack the server has %+v, before it %+v", returnTime, now,
				before))
		}
		sleepContext(ctx, 200*time.Millisecond)
	}
}
