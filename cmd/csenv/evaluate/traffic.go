package evaluate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/record"
)

// peer is an endpoint that an evaluation sends requests to.
type peer int

const (
	agentPeer peer = iota
	judgePeer
	customerPeer
	peers
)

// String names the endpoint in a sentence.
func (p peer) String() string {
	return [peers]string{"the agent's endpoint", "the judge", "the customer"}[p]
}

// traffic counts the requests of an evaluation, and knows which of them have no answer yet. It is
// safe for concurrent use.
type traffic struct {
	now func() time.Time

	mu     sync.Mutex
	began  time.Time // of the first request, zero before
	sent   int64
	tokens int64
	next   int64
	// open are the times at which requests without an answer were sent, by endpoint and number.
	open [peers]map[int64]time.Time
	// lowered is the number of requests that the agent's endpoint answers at a time, if that is
	// fewer than wanted, and otherwise 0; nil before the agent is made.
	lowered func() int
	// limited is set if the last answer of an agent's endpoint was a refusal for too many requests.
	limited bool
	// failure is why the last request to the agent's endpoint failed, "" if it was answered.
	failure string
	// pauses are the ends of the pauses before requests to the agent's endpoint.
	pauses map[int64]time.Time
}

func newTraffic(now func() time.Time) *traffic {
	return &traffic{now: now, open: [peers]map[int64]time.Time{{}, {}, {}}, pauses: map[int64]time.Time{}}
}

// client sends requests to an endpoint. At most idle connections stay open.
func (t *traffic) client(to peer, idle int) *http.Client {
	base := http.DefaultTransport
	if transport, ok := base.(*http.Transport); ok {
		transport = transport.Clone()
		transport.MaxIdleConnsPerHost = idle
		base = transport
	}
	return &http.Client{Transport: &counting{t, to, base}}
}

// counting counts the requests to an endpoint.
type counting struct {
	*traffic
	to   peer
	next http.RoundTripper
}

// RoundTrip sends a request, which is open until its answer is read.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	number := c.send(c.to)
	response, err := c.next.RoundTrip(r)
	if err != nil {
		c.end(c.to, number)
		if r.Context().Err() == nil {
			c.note(false, err.Error())
		}
		return nil, err
	}
	failure := ""
	if response.StatusCode >= http.StatusBadRequest {
		failure = "HTTP " + response.Status
	}
	c.note(response.StatusCode == http.StatusTooManyRequests, failure)
	response.Body = &body{response.Body, func() { c.end(c.to, number) }}
	return response, nil
}

// note notes how the last request to the agent's endpoint ended.
func (c *counting) note(limited bool, failure string) {
	if c.to == agentPeer {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.limited, c.failure = limited, failure
	}
}

// body calls a function when it is closed.
type body struct {
	io.ReadCloser
	closed func()
}

// Close closes the body.
func (b *body) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

func (t *traffic) send(to peer) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.began.IsZero() {
		t.began = now
	}
	t.sent++
	t.next++
	t.open[to][t.next] = now
	return t.next
}

func (t *traffic) end(to peer, number int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open[to], number)
}

// wait waits before a request to the agent's endpoint.
func (t *traffic) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return endpoint.SleepContext(ctx, d)
	}
	defer t.pause(d)()
	return endpoint.SleepContext(ctx, d)
}

// pause notes a pause before a request, until the returned function is called.
func (t *traffic) pause(d time.Duration) (ended func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	number := t.next
	t.pauses[number] = t.now().Add(d)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.pauses, number)
	}
}

// count adds the tokens of an episode.
func (t *traffic) count(e record.Episode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Tokens != nil {
		t.tokens += e.Tokens.Prompt + e.Tokens.Completion
	}
}

// minPace is the time before which a number of requests a minute means nothing.
const minPace = 10 * time.Second

// pace says how much is sent in a minute, "" as long as that is unknown.
func (t *traffic) pace() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	elapsed := t.now().Sub(t.began)
	if t.sent == 0 || elapsed < minPace {
		return ""
	}
	text := fmt.Sprintf("%.0f requests/min", float64(t.sent)/elapsed.Minutes())
	if t.tokens > 0 {
		text += fmt.Sprintf(", %.0f tokens/min", float64(t.tokens)/elapsed.Minutes())
	}
	return text
}

// slow is the age from which an open request is worth a word, and verySlow that from which the
// flags are named that help a small server.
const (
	slow     = 5 * time.Second
	verySlow = 10 * time.Second
)

// concurrencyFlags bound the requests to an endpoint.
var concurrencyFlags = [peers]string{"--concurrency", "--judge-max-concurrency", "--customer-max-concurrency"}

// bound says that the agent's endpoint answers fewer requests at a time than wanted, "" if it
// doesn't.
func (t *traffic) bound() string {
	if t.lowered == nil {
		return ""
	}
	n := t.lowered()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s at a time: the endpoint answers no more (--concurrency)", view.FormatCount(n, "request"))
}

// waits says what an evaluation waits for and since when, "" for nothing.
func (t *traffic) waits() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	var parts []string
	for to := range peers {
		oldest := now
		for _, sent := range t.open[to] {
			if sent.Before(oldest) {
				oldest = sent
			}
		}
		if age := now.Sub(oldest); age >= slow {
			part := fmt.Sprintf("%s (%s without an answer, the oldest for %s)", to,
				view.FormatCount(len(t.open[to]), "request"), age.Round(time.Second))
			if age >= verySlow && len(t.open[to]) > 1 {
				part += fmt.Sprintf("; if it answers one at a time, set %s 1", concurrencyFlags[to])
			}
			if age >= verySlow && to == agentPeer {
				part += "; if its answers don't end, set --max-tokens"
			}
			parts = append(parts, part)
		}
	}
	until := now
	for _, end := range t.pauses {
		if end.After(until) {
			until = end
		}
	}
	if until.Sub(now) >= time.Second {
		reason := "the next attempt at " + agentPeer.String()
		if t.limited {
			reason = "the rate limit of " + agentPeer.String()
		} else if t.failure != "" {
			reason += " (" + t.failure + ")"
		}
		parts = append(parts, fmt.Sprintf("%s, until %s", reason, until.Format(time.TimeOnly)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "waits for " + strings.Join(parts, " and ")
}
