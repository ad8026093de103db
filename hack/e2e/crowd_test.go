//go:build e2e

package e2e

import (
	"context"
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
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/score"
)

// crowd is a fixed number of clients outside the cluster. Each client plays an episode slowly in
// its own session, then starts the next one in a new session.
type crowd struct {
	url     string
	run     string        // tag of the episodes, or ""
	think   time.Duration // before each action
	factory policy.Factory
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
	factory, err := policy.Builtin(policy.Heuristic, "ticket", nil)
	Expect(err).NotTo(HaveOccurred())
	c := &crowd{url: url, run: run, think: think, factory: factory, enough: make(chan struct{})}
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
	Eventually(ctx, c.playing.Load).WithTimeout(time.Minute).Should(BeNumerically(">=", before+int64(clients)*95/100))
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
	Eventually(ctx, gone).WithTimeout(2 * time.Minute).Should(BeClosed())
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
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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
	session, observation, err := c.begin(ctx, seed)
	if err != nil {
		c.turned.Add(1)
		pause(ctx, 200*time.Millisecond)
		return nil
	}
	defer session.Close()
	c.playing.Add(1)
	defer c.playing.Add(-1)
	agent, err := c.factory(score.PlannedEpisode{Task: "ticket-resolve", Seed: int64(seed)})
	if err != nil {
		return err
	}
	for step := 0; !observation.Done; step++ {
		pause(ctx, c.think)
		action, err := agent.Act(ctx, policy.Turn{Environment: "ticket", Task: "ticket-resolve",
			Observation: observation.Observation, Step: step})
		if err != nil {
			return fmt.Errorf("%w: choosing step %d: %w", errLost, step, err)
		}
		if observation, err = session.Step(ctx, action); err != nil {
			return fmt.Errorf("%w: step %d: %w", errLost, step, err)
		}
	}
	if observation.Metadata.Outcome != score.Scored || observation.Metadata.EpisodeScore == nil {
		return fmt.Errorf("%w: ended as %q without a score", errLost, observation.Metadata.Outcome)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum += int64(math.Round(*observation.Metadata.EpisodeScore * score.One))
	c.episodes.Add(1)
	return nil
}

// begin opens a session as OpenEnv's own clients do: a server that is full or terminating may
// forward it to another server.
func (c *crowd) begin(ctx context.Context, seed int) (*client.Client, client.Observation, error) {
	session, err := client.Dial(ctx, c.url, client.Options{Spread: true})
	if err != nil {
		return nil, client.Observation{}, err
	}
	options := map[string]any{"task": "ticket-resolve", "seed": seed}
	if c.run != "" {
		options["run"] = c.run
	}
	observation, err := session.Reset(ctx, options)
	if err != nil {
		_ = session.Close()
	}
	return session, observation, err
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
