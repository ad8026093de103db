package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// unreachableRounds is how often all servers are tried while none answers.
	unreachableRounds = 8
	// fullRounds is how often they are tried while one is full or draining: other shards end and
	// new servers start.
	fullRounds = 150
	// dialAttempts is how often a worker tries to get a session from the shard's server.
	dialAttempts = 8
	// dialTimeout bounds one try.
	dialTimeout = 10 * time.Second
)

// choosePod finds the shard's server, opens the first session and the ledger there, and returns the
// episodes that the ledger has. The order is that of
// rendezvous hashing: shards spread evenly over the pool, a shard that is played again starts with
// the same server, and a change of the pool moves few shards.
func (c *Config) choosePod(ctx context.Context) (string, *client.Client, score.IndexSet, error) {
	var refusals error
	for round := 0; ; round++ {
		pods, err := c.Pods(ctx)
		if err != nil {
			pods, refusals = nil, fmt.Errorf("looking the pool's pods up: %w", err)
		} else if len(pods) == 0 {
			refusals = errors.New("the pool has no pods: is the environment there and available?")
		}
		full := false
		for i, pod := range rendezvous(c.Plan.Run, c.Shard, pods) {
			session, ended, err := c.begin(ctx, pod)
			if err == nil {
				c.Log.Info("Playing", "shard", c.Shard, "of", c.Plan.Shards, "pod", pod)
				return pod, session, ended, nil
			}
			if i == 0 {
				refusals = nil
			}
			refusals = errors.Join(refusals, fmt.Errorf("env pod %s: %w", pod, err))
			full = full || classify(err) == score.ClassCapacity
		}
		if ctx.Err() != nil {
			return "", nil, score.IndexSet{}, ctx.Err()
		}
		if !full && round+1 >= unreachableRounds || round+1 >= fullRounds {
			return "", nil, score.IndexSet{}, fmt.Errorf("no env pod takes shard %d: %w", c.Shard, refusals)
		}
		if err := c.Clock.backOff(ctx, round); err != nil {
			return "", nil, score.IndexSet{}, err
		}
	}
}

// begin opens a session and the shard's ledger on a server.
func (c *Config) begin(ctx context.Context, pod string) (*client.Client, score.IndexSet, error) {
	session, err := c.dial(ctx, pod)
	if err != nil {
		return nil, score.IndexSet{}, err
	}
	ended, err := c.resume(ctx, pod)
	if err != nil {
		return nil, score.IndexSet{}, errors.Join(err, session.Close())
	}
	return session, ended, nil
}

// rendezvous orders the pods for a shard by the hash of shard and pod, highest first.
func rendezvous(run string, shard int, pods []string) []string {
	weight := func(pod string) []byte {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", run, shard, pod))
		return sum[:]
	}
	return slices.SortedFunc(slices.Values(pods), func(a, b string) int { return bytes.Compare(weight(b), weight(a)) })
}

// dial opens a session and checks that the server has accepted it: one that is full reports so in
// its first answer.
func (c *Config) dial(ctx context.Context, pod string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	session, err := client.Dial(ctx, pod, c.client())
	if err != nil {
		return nil, err
	}
	if _, err := session.State(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}
