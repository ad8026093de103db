package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// unreachablePatience is the maximum time of the attempts while no server answers.
	unreachablePatience = 10 * time.Minute
	// maxPodBackoff is the longest wait between two rounds of all servers. A thousand runners may
	// wait for the same pool.
	maxPodBackoff = 30 * time.Second
	// waitingReports is the minimum time between two log lines with the reason for waiting.
	waitingReports = time.Minute
	// dialAttempts is the number of a worker's attempts to get a session on the shard's server.
	dialAttempts = 8
	// dialTimeout bounds one try.
	dialTimeout = 10 * time.Second
)

// choosePod finds the shard's server, and opens the first session and the ledger there. The order
// comes from rendezvous hashing: shards spread evenly over the pool, a shard that is played again
// starts with the same server, and a change of the pool moves few shards.
//
// It waits without a bound of its own while servers are full or draining, or while the pool has
// none: the operator shows both, and the run's deadline ends it. Servers that don't answer, which
// may be visible to the operator alone, are an error after unreachablePatience.
func (c *Config) choosePod(ctx context.Context) (place, error) {
	var reported time.Time
	answered := c.Clock.Now()
	for round := 0; ; round++ {
		found, waits, err := c.tryPods(ctx)
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil:
			return place{}, ctx.Err()
		case errors.Is(err, ErrPoolChanged), errors.Is(err, ErrScoresLost):
			return place{}, err
		}
		now := c.Clock.Now()
		if waits {
			answered = now
		}
		if now.Sub(answered) >= unreachablePatience {
			return place{}, fmt.Errorf("no env pod takes shard %d: %w", c.Shard, err)
		}
		if now.Sub(reported) >= waitingReports {
			reported = now
			c.Log.Warn("Waiting for a server of the pool", "shard", c.Shard, "reason", err)
		}
		if err := c.Clock.Sleep(ctx, c.Clock.jittered(firstBackoff, maxPodBackoff, round)); err != nil {
			return place{}, err
		}
	}
}

// place is a server for a shard, with the first session on it and what its ledger has.
type place struct {
	pod     string
	session *client.Client
	ledger  protocol.ReceiptsAnswer
}

// tryPods tries every server once. The error is the reason why none was found; waits reports
// whether the pool is known to have no free server.
func (c *Config) tryPods(ctx context.Context) (found place, waits bool, err error) {
	pods, err := c.Pods(ctx)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound || err == nil && len(pods) == 0 {
		return place{}, true, errors.New("the pool has no servers: is it there and available?")
	}
	if err != nil {
		return place{}, false, fmt.Errorf("looking the pool's pods up: %w", err)
	}
	var refusals error
	for _, pod := range rankPods(c.Plan.Run, c.Shard, pods) {
		session, ledger, err := c.openShard(ctx, pod)
		if err == nil {
			c.Log.Info("Playing", "shard", c.Shard, "of", c.Plan.Shards, "pod", pod)
			return place{pod, session, ledger}, false, nil
		}
		if refused, ok := errors.AsType[*client.StatusError](err); ok && refused.Status == http.StatusForbidden {
			err = fmt.Errorf("%w (a server of an earlier release than this runner's also answers so, until it is "+
				"replaced)", err)
		}
		refusals = errors.Join(refusals, fmt.Errorf("env pod %s: %w", pod, err))
		waits = waits || classifyError(err) == score.ClassCapacity
	}
	return place{}, waits, refusals
}

// openShard opens a session and the shard's ledger on a server.
func (c *Config) openShard(ctx context.Context, pod string) (*client.Client, protocol.ReceiptsAnswer, error) {
	session, err := c.dialPod(ctx, pod)
	if err != nil {
		return nil, protocol.ReceiptsAnswer{}, err
	}
	ledger, err := c.openLedger(ctx, pod)
	if err != nil {
		return nil, ledger, errors.Join(err, session.Close())
	}
	return session, ledger, nil
}

// openLedger opens the shard's ledger on a server, sends it the plan and the receipts of episodes
// that other servers graded, and returns what the ledger has. Its episodes need not be played. An
// error means that the server doesn't take the shard, or with ErrPoolChanged and ErrScoresLost that
// none does. If the receipts alone fail, the ledger is opened without them.
func (c *Config) openLedger(ctx context.Context, pod string) (answer protocol.ReceiptsAnswer, err error) {
	text := c.PlanText
	if text == nil {
		if text, err = json.Marshal(c.Plan); err != nil {
			return answer, fmt.Errorf("encoding the plan: %w", err)
		}
	}
	shard := client.Shard{Run: c.Plan.Run, Shard: c.Shard, PassScore: c.Plan.PassScore, Plan: text}
	receipts := c.Receipts
	for attempt := range resumeAttempts {
		answer, err = client.OpenLedger(ctx, pod, shard, receipts, c.clientOptions())
		switch {
		case err == nil && answer.Lost.Len() > 0:
			return answer, fmt.Errorf("%w: episodes %.200s have ended and count only by their receipts, which "+
				"the result store doesn't have; create the run again", ErrScoresLost, answer.Lost)
		case err == nil:
			return answer, nil
		}
		c.Log.Warn("A server did not open the shard's ledger", "shard", c.Shard, "pod", pod, "receipts",
			len(receipts), "attempt", attempt+1, "error", err)
		refused, answered := errors.AsType[*client.StatusError](err)
		// The server reads too many bodies, or read this one too slowly; it has room for the shard.
		busy := answered &&
			(refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusRequestTimeout)
		switch {
		case answered && refused.Status == http.StatusPreconditionFailed:
			return answer, fmt.Errorf("%w: env pod %s: %w; create the run again", ErrPoolChanged, pod, err)
		case answered && !busy && (refused.Status == http.StatusServiceUnavailable ||
			refused.Status == http.StatusForbidden || len(receipts) == 0):
			return answer, err
		case answered && !busy:
			receipts = nil
		default:
			if slept := c.Clock.backOff(ctx, attempt); slept != nil {
				return answer, errors.Join(err, slept)
			}
		}
	}
	return answer, fmt.Errorf("the shard's ledger was not opened in %d attempts: %w", resumeAttempts, err)
}

// rankPods orders the pods for a shard by the hash of shard and pod, highest first.
func rankPods(run string, shard int, pods []string) []string {
	weight := func(pod string) []byte {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", run, shard, pod))
		return sum[:]
	}
	return slices.SortedFunc(slices.Values(pods), func(a, b string) int { return bytes.Compare(weight(b), weight(a)) })
}

// dialPod opens a session and checks that the server has accepted it: one that is full reports so
// in its first answer.
func (c *Config) dialPod(ctx context.Context, pod string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	session, err := client.Dial(ctx, pod, c.clientOptions())
	if err != nil {
		return nil, err
	}
	if _, err := session.State(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

// resumeAttempts is the maximum number of requests for the episodes that a server's ledger has.
const resumeAttempts = 3
