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

// crowd are clients outside the cluster, so many at a time. Each plays an episode slowly, in a
// session of its own; whose episode is over begins another one in a new session.
type crowd struct {
	url     string
	run     string        // that the episodes are tagged with, "" for none
	think   time.Duration // before each action
	factory policy.Factory
	clients sync.WaitGroup
	enough  chan struct{}

	playing  atomic.Int64 // sessions whose episode has begun and isn't over
	episodes atomic.Int64 // that ended with a score
	turned   atomic.Int64 // handshakes that were refused or failed, and were tried again

	mu   sync.Mutex
	lost []string // sessions that broke off in the middle of their episode, or ended without a score
	sum  int64    // of the scores, in micro-points
}

// gather has clients begin to play, and waits until all of them do.
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

// leave lets every client finish its episode, and waits for that.
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

// play is one client. Its context has nothing to do with a spec's: it plays through many of them.
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

// errLost means that an episode ended with an error.
var errLost = errors.New("session lost")

// episode plays one episode. A server that takes no new session loses none: the client comes again.
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

// begin opens a session as OpenEnv's own clients do, which lets a server that is full or
// terminating pass it on.
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

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// statusOf is the HTTP status in an error of the client, 0 for none.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*client.StatusError](err); ok {
		return refused.Status
	}
	return 0
}

// get asks over HTTP and returns status and body.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
