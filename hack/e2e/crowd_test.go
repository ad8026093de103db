//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
)

// crowd is a fixed number of clients outside the cluster. Each client plays an episode slowly in
// its own session, then starts the next one in a new session.
type crowd struct {
	url     string
	run     string        // tag of the episodes, or ""
	think   time.Duration // before each action
	clients sync.WaitGroup
	enough  chan struct{}

	playing  atomic.Int64 // sessions with an unfinished episode
	episodes atomic.Int64 // episodes that ended with a score
	turned   atomic.Int64 // refused or failed handshakes, which were retried

	mu   sync.Mutex
	lost []string // sessions that broke off during an episode, or ended without a score
	sum  int64    // sum of the scores, in micro-points
}

// gather starts clients and waits until all of them play.
func gather(ctx SpecContext, url, run string, clients int, think time.Duration) *crowd {
	GinkgoHelper()
	c := &crowd{url: url, run: run, think: think, enough: make(chan struct{})}
	c.join(ctx, clients)
	return c
}

// join adds clients.
func (c *crowd) join(ctx SpecContext, clients int) {
	GinkgoHelper()
	before := c.playing.Load()
	for i := range clients {
		c.clients.Go(func() { c.play(int(before) + i) })
	}
	Eventually(ctx, c.playing.Load).Should(BeNumerically(">=", before+int64(clients)*95/100))
}

// leave lets every client finish its episode, and waits for them.
func (c *crowd) leave(ctx SpecContext) {
	GinkgoHelper()
	close(c.enough)
	gone := make(chan struct{})
	go func() {
		c.clients.Wait()
		close(gone)
	}()
	Eventually(ctx, gone).Should(BeClosed())
}

func (c *crowd) losses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *crowd) String() string {
	return fmt.Sprintf("%d episodes ended with a score, %d sessions lost, %d handshakes tried again", c.episodes.Load(),
		len(c.losses()), c.turned.Load())
}

// play runs one client. It has its own context, because it outlives a single spec.
func (c *crowd) play(seed int) {
	for {
		select {
		case <-c.enough:
			return
		default:
		}
		seed += liveSessions
		ctx, cancel := context.WithTimeout(context.Background(), specBound)
		err := c.episode(ctx, seed)
		cancel()
		if err != nil {
			c.mu.Lock()
			c.lost = append(c.lost, err.Error())
			c.mu.Unlock()
		}
	}
}

// errLost means that a session broke off, or its episode ended without a score.
var errLost = errors.New("session lost")

// episode plays one episode. If a server refuses the session, the client tries again, and no
// session is lost.
func (c *crowd) episode(ctx context.Context, seed int) error {
	e, err := begin(ctx, c.url, c.run, seed)
	if err != nil {
		c.turned.Add(1)
		pause(ctx, 200*time.Millisecond)
		return nil
	}
	defer e.session.Close()
	c.playing.Add(1)
	defer c.playing.Add(-1)
	points, err := e.finish(ctx, c.think)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum += points
	c.episodes.Add(1)
	return nil
}

// episode is one that the heuristic policy plays in a session of its own.
type episode struct {
	session *client.Client
	agent   policy.Policy
	seen    client.Observation
	steps   int
}

// begin opens a session as OpenEnv's own clients do: a server that is full or terminating may
// forward it to another server. The episode belongs to the run, if it isn't "".
func begin(ctx context.Context, url, run string, seed int) (*episode, error) {
	factory, err := policy.NewBuiltin(policy.Heuristic, "ticket", nil)
	if err != nil {
		return nil, err
	}
	agent, err := factory(score.PlannedEpisode{Task: "ticket-resolve", Seed: int64(seed)})
	if err != nil {
		return nil, err
	}
	session, err := client.Dial(ctx, url, client.Options{Spread: true})
	if err != nil {
		return nil, err
	}
	options := map[string]any{"task": "ticket-resolve", "seed": seed}
	if run != "" {
		options["run"] = run
	}
	seen, err := session.Reset(ctx, options)
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return &episode{session: session, agent: agent, seen: seen}, nil
}

// act takes the next action.
func (e *episode) act(ctx context.Context) error {
	action, err := e.agent.Act(ctx, policy.Turn{Environment: "ticket", Task: "ticket-resolve",
		Observation: e.seen.Observation, Step: e.steps})
	if err != nil {
		return fmt.Errorf("%w: choosing step %d: %w", errLost, e.steps, err)
	}
	var members map[string]any
	if err := json.Unmarshal(action, &members); err != nil {
		return fmt.Errorf("%w: reading step %d: %w", errLost, e.steps, err)
	}
	delete(members, "facts") // servers of the previous release don't know them
	if e.seen, err = e.session.Step(ctx, members); err != nil {
		return fmt.Errorf("%w: step %d: %w", errLost, e.steps, err)
	}
	e.steps++
	return nil
}

// finish plays the rest, thinks before each action, and returns the score in micro-points.
func (e *episode) finish(ctx context.Context, think time.Duration) (points int64, err error) {
	for !e.seen.Done {
		pause(ctx, think)
		if err := e.act(ctx); err != nil {
			return 0, err
		}
	}
	if e.seen.Metadata.Outcome != score.Scored || e.seen.Metadata.EpisodeScore == nil {
		return 0, fmt.Errorf("%w: ended as %q without a score", errLost, e.seen.Metadata.Outcome)
	}
	return int64(math.Round(*e.seen.Metadata.EpisodeScore * score.One)), nil
}

// pause waits for d, or until the context is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// statusOf returns the HTTP status in an error of the client, or 0.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*client.StatusError](err); ok {
		return refused.Status
	}
	return 0
}

// get sends a GET request and returns the response and its body.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
