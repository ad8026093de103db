// Package load plays many concurrent sessions on an OpenEnv server. It measures the latency of
// connecting and of steps, the rate of steps, and failures by cause.
//
// A session is one WebSocket with one message in flight, as in every OpenEnv client, so the load is
// closed: a slow server gets fewer requests. The generator often shares the machine with the
// server. It encodes its messages once, and reads only the type and the end of the episode from
// answers.
package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// Config configures a load.
type Config struct {
	// URL is the server's URL, ws or http; "/ws" is appended to its path.
	URL string
	// Header is sent with the handshake, for a bearer token.
	Header http.Header
	// Sessions is the number of concurrent sessions.
	Sessions int
	// Duration is the duration of the steps, after all sessions are open.
	Duration time.Duration
	// Reset is the data of the reset messages, a JSON object. Its seed, if it has one, is replaced.
	Reset json.RawMessage
	// Seed is the seed of the first episode; episode n has Seed + n. Session i of N sessions plays
	// the episodes i, i + N, i + 2N and so on, so no two episodes of a load share a seed.
	Seed int64
	// Actions are played in order by each session, which resets after the last one and after the
	// end of an episode.
	Actions []json.RawMessage
	// Dialing is the number of concurrent handshakes, 0 for 128, which fit into a listener's
	// backlog.
	Dialing int
	// Progress, if not nil, is called about once a second.
	Progress func(Progress)
}

// Progress is the state of a run.
type Progress struct {
	// Phase is "connect", "step" or "close".
	Phase            string
	Sessions, Failed int
	Steps            int64
}

// Latencies contains quantiles.
type Latencies struct {
	P50, P99, Max time.Duration
}

// Result contains the measurements.
type Result struct {
	// Sessions is the number of sessions that were open when the steps began.
	Sessions int
	Steps    int64
	Elapsed  time.Duration
	// Connect is the time from the dial to the answer of the first reset. Step is the time of one
	// step message and its answer.
	Connect, Step Latencies
	// Failures counts failed sessions by cause.
	Failures map[string]int
}

// StepsPerSecond is the rate of answered steps.
func (r Result) StepsPerSecond() float64 { return float64(r.Steps) / r.Elapsed.Seconds() }

const (
	defaultDialing = 128
	// The timeouts and maxReply are the same as the official client's.
	messageTimeout   = 60 * time.Second
	handshakeTimeout = 10 * time.Second
	progressInterval = time.Second
	maxReply         = 100 << 20 // bytes
)

// Run opens the sessions, steps them for the duration and closes them. It fails if no session
// opened or the context ended. The result counts failed sessions.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if cfg.Sessions < 1 || len(cfg.Actions) == 0 {
		return Result{}, errors.New("a load needs at least one session and one action")
	}
	g, err := newGenerator(cfg)
	if err != nil {
		return Result{}, err
	}
	stop := g.watch(ctx)
	defer stop()
	defer g.hangUp(ctx)
	g.connectAll(ctx)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if len(g.sessions) == 0 {
		return Result{}, fmt.Errorf("no session opened at %s: %v", cfg.URL, g.failures)
	}
	elapsed := g.stepAll(ctx)
	return Result{
		Sessions: len(g.sessions), Steps: g.steps.Load(), Elapsed: elapsed, Connect: g.connects.latencies(),
		Step: g.latency.latencies(), Failures: g.failures,
	}, ctx.Err()
}

// generator runs a load.
type generator struct {
	Config
	url      string
	dialer   websocket.Dialer
	resets   resets
	actions  [][]byte
	phase    atomic.Value
	steps    atomic.Int64
	connects recorder
	latency  recorder

	mu       sync.Mutex
	sessions []*session
	failures map[string]int
	failed   int
}

func newGenerator(cfg Config) (*generator, error) {
	g := &generator{Config: cfg, failures: map[string]int{}, url: buildSocketURL(cfg.URL)}
	g.phase.Store("connect")
	g.dialer = websocket.Dialer{HandshakeTimeout: handshakeTimeout, ReadBufferSize: 1024, WriteBufferSize: 1024,
		WriteBufferPool: &sync.Pool{}}
	var err error
	if g.resets, err = newResets(cfg.Reset, cfg.Seed); err != nil {
		return nil, err
	}
	for _, action := range cfg.Actions {
		encoded, err := encodeStep(action)
		if err != nil {
			return nil, err
		}
		g.actions = append(g.actions, encoded)
	}
	return g, nil
}

func buildSocketURL(url string) string {
	url = strings.TrimSuffix(url, "/") + "/ws"
	if rest, ok := strings.CutPrefix(url, "http"); ok {
		return "ws" + rest
	}
	if !strings.Contains(url, "://") {
		return "ws://" + url
	}
	return url
}

// encodeStep encodes a step message.
func encodeStep(action json.RawMessage) ([]byte, error) {
	encoded, err := json.Marshal(struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}{"step", action})
	if err != nil {
		return nil, fmt.Errorf("encoding a step message: %w", err)
	}
	return encoded, nil
}

// watch reports progress until it is stopped.
func (g *generator) watch(ctx context.Context) (stop func()) {
	if g.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				g.report()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func (g *generator) report() {
	g.mu.Lock()
	p := Progress{Sessions: len(g.sessions), Failed: g.failed, Steps: g.steps.Load()}
	g.mu.Unlock()
	p.Phase, _ = g.phase.Load().(string)
	g.Progress(p)
}

// connectAll opens the sessions, some at a time, and resets each.
func (g *generator) connectAll(ctx context.Context) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(cmp.Or(g.Dialing, defaultDialing), g.Sessions) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(g.Sessions) && ctx.Err() == nil; i = next.Add(1) - 1 {
				g.connect(ctx, int(i))
			}
		})
	}
	workers.Wait()
}

func (g *generator) connect(ctx context.Context, i int) {
	began := time.Now()
	conn, response, err := g.dialer.DialContext(ctx, g.url, g.Header) //nolint:bodyclose // needs no closing
	if err != nil {
		g.fail(fmt.Errorf("%s: %w", describeRefusal(response), err))
		return
	}
	conn.SetReadLimit(maxReply)
	s := &session{conn: conn, episode: int64(i)}
	_ = conn.SetReadDeadline(began.Add(handshakeTimeout + messageTimeout))
	if err := g.begin(s); err != nil {
		_ = conn.Close()
		g.fail(err)
		return
	}
	g.connects.record(i, time.Since(began))
	g.mu.Lock()
	g.sessions = append(g.sessions, s)
	g.mu.Unlock()
}

func describeRefusal(response *http.Response) string {
	if response == nil {
		return "connect"
	}
	return fmt.Sprintf("handshake refused with %d", response.StatusCode)
}

func (g *generator) fail(err error) {
	cause := err.Error()
	if coded := (*answerError)(nil); errors.As(err, &coded) {
		cause = coded.Error()
	}
	// Remove addresses, which differ in each error.
	if i := strings.Index(cause, " tcp "); i >= 0 {
		cause = cause[:i] + cause[strings.LastIndex(cause, ": "):]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures[cause]++
	g.failed++
}

// stepAll steps all sessions until the duration has passed or the context ends, and returns the
// elapsed time.
func (g *generator) stepAll(ctx context.Context) time.Duration {
	g.phase.Store("step")
	defer context.AfterFunc(ctx, func() { g.deadline(time.Now()) })()
	ctx, cancel := context.WithTimeout(ctx, g.Duration)
	defer cancel()
	began := time.Now()
	// Set one deadline for all messages: one per message would distort the measurement.
	g.deadline(began.Add(g.Duration + messageTimeout))
	var playing sync.WaitGroup
	for i, s := range g.sessions {
		playing.Go(func() {
			if err := g.play(ctx, i, s); err != nil {
				g.fail(err)
			}
		})
	}
	playing.Wait()
	return time.Since(began)
}

func (g *generator) play(ctx context.Context, i int, s *session) error {
	over := func() bool { return ctx.Err() != nil }
	for !over() {
		for _, action := range g.actions {
			if over() {
				break
			}
			began := time.Now()
			done, err := s.exchange(action)
			if err != nil {
				return err
			}
			g.latency.record(i, time.Since(began))
			g.steps.Add(1)
			if done {
				break
			}
		}
		if over() {
			break
		}
		if err := g.begin(s); err != nil {
			return err
		}
	}
	return nil
}

// begin resets the session to its next episode.
func (g *generator) begin(s *session) error {
	s.reset = g.resets.message(s.reset[:0], s.episode)
	s.episode += int64(g.Sessions)
	_, err := s.exchange(s.reset)
	return err
}

// deadline bounds the reads of all sessions.
func (g *generator) deadline(at time.Time) {
	for _, s := range g.sessions {
		_ = s.conn.SetReadDeadline(at)
	}
}

// hangUp closes all sessions concurrently, within one bound in case the server doesn't answer.
func (g *generator) hangUp(ctx context.Context) {
	g.phase.Store("close")
	until := time.Now().Add(closeTimeout)
	if ctx.Err() != nil {
		until = time.Now().Add(abortTimeout)
	}
	g.deadline(until)
	var closing sync.WaitGroup
	for _, s := range g.sessions {
		closing.Go(s.close)
	}
	closing.Wait()
}

// close ends the session and waits for the close frame, so that the slot is free for the next load.
func (s *session) close() {
	defer s.conn.Close()
	_ = s.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	if s.conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"close"}`)) == nil {
		_, _, _ = s.conn.NextReader()
	}
}
