//go:build conformance

// Package judge tests the judge of replies against LiteLLM's proxy, a third-party implementation of
// the OpenAI protocol. litellm.sh starts the proxy and runs the tests.
package judge

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// settings returns the variables that litellm.sh sets.
func settings(t *testing.T) (url, key string) {
	t.Helper()
	url, key = os.Getenv("CONFORMANCE_LITELLM_URL"), os.Getenv("LITELLM_MASTER_KEY")
	if url == "" || key == "" {
		t.Fatal("no proxy is running: start this test with make conformance CONFORMANCEFLAGS='--suites judge'")
	}
	return url, key
}

func newJudge(t *testing.T, model string, change func(*llm.Config)) *llm.Judge {
	t.Helper()
	url, key := settings(t)
	c := llm.Config{BaseURL: url, APIKey: key, Model: model, Votes: 1, Timeout: 20 * time.Second}
	if change != nil {
		change(&c)
	}
	j, err := llm.New(c, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// cases returns a good reply to each of n tickets.
func cases(t *testing.T, n int) []grader.Case {
	t.Helper()
	catalogue, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	var out []grader.Case
	for seed := int64(0); len(out) < n; seed++ {
		for _, s := range catalogue.Tickets() {
			ticket, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			c := grader.Case{Ticket: ticket, Reply: ticket.References.Good[0], Stated: facts.Stated(ticket.Required()),
				Actions: grader.Actions{Ending: grader.Resolved}}
			if ticket.Gold.Escalate {
				c.Actions = grader.Actions{Ending: grader.Escalated, Team: ticket.Gold.Team}
			}
			out = append(out, c)
		}
	}
	return out[:n]
}

// An answer of a model becomes a score, and a failure becomes a cause without a score, unless the
// reply provoked it: then its facts are compared. After a failure the model is asked about a
// harmless reply, as often as about the reply itself.
func TestAnswersAndFailures(t *testing.T) {
	tests := map[string]struct {
		cause grader.Cause
		// calls is the number of requests, or the least one if the endpoint is waited for until the
		// deadline.
		calls int64
		waits bool
		// most and least bound the points of a verdict. A failure has none if most is 0.
		least, most int64
		change      func(*llm.Config)
	}{
		"gullible":         {calls: 1, least: 450, most: 500},
		"denying":          {calls: 1, least: 0, most: 20},
		"alarmed":          {calls: 1, least: 80, most: 80},
		"inventive":        {calls: 1, least: 0, most: 20},
		"chatty":           {calls: 1, least: 450, most: 500},
		"formatless":       {calls: 3, least: 450, most: 500}, // a format that is refused twice is left out
		"late":             {calls: 3, least: 450, most: 500},
		"flaky":            {calls: 3, least: 450, most: 500},
		"undecided":        {cause: grader.CauseFailed, calls: 4},
		"leaky":            {cause: grader.CauseFailed, calls: 6},
		"forgetful":        {cause: grader.CauseUnparsable, calls: 6},
		"overzealous":      {cause: grader.CauseUnparsable, calls: 6},
		"stuttering":       {cause: grader.CauseUnparsable, calls: 6},
		"wavering":         {cause: grader.CauseUnparsable, calls: 6},
		"cut":              {cause: grader.CauseUnparsable, calls: 6},
		"prose":            {cause: grader.CauseUnparsable, calls: 6},
		"huge":             {cause: grader.CauseUnparsable, calls: 6},
		"hijacked":         {cause: grader.CauseUnparsable, calls: 6},
		"mocked-prose":     {cause: grader.CauseUnparsable, calls: 6},
		"down":             {cause: grader.CauseUnavailable, calls: 8, waits: true},
		"mocked-throttled": {cause: grader.CauseUnavailable, calls: 8, waits: true},
		"mocked-broken":    {cause: grader.CauseUnavailable, calls: 8, waits: true},
		"mocked-too-long":  {cause: grader.CauseFailed, calls: 8},
		"mocked-filtered":  {cause: grader.CauseFailed, calls: 8},
		// Of the two proofs each takes four refusals and an answer about the harmless reply.
		"offended":      {cause: grader.CauseFailed, calls: 10, least: 150, most: 150},
		"no-such-model": {cause: grader.CauseFailed, calls: 8},
		"slow": {cause: grader.CauseTimeout, calls: 1, waits: true,
			change: func(c *llm.Config) { c.Timeout = 2 * time.Second }},
	}
	c := cases(t, 1)[0]
	for model, tc := range tests {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			v, err := newJudge(t, model, tc.change).Judge(t.Context(), c)
			t.Logf("%s: status %s, cause %q, %d points, %+v", model, v.Status, v.Cause, v.PostGate, v.Usage)
			if v.Cause != tc.cause || (err != nil) != (tc.most == 0) || v.Usage.Calls < tc.calls ||
				!tc.waits && v.Usage.Calls != tc.calls {
				t.Errorf("%+v, %v, want cause %q after %d calls", v, err, tc.cause, tc.calls)
			}
			if tc.most == 0 && (v.Scored() || v.PostGate != 0 || v.PreGate != 0) {
				t.Errorf("a failure has points: %+v", v)
			}
			if tc.most > 0 && (v.PostGate < tc.least || v.PostGate > tc.most || v.Unread() != (tc.cause != "")) {
				t.Errorf("%d points, want %d to %d", v.PostGate, tc.least, tc.most)
			}
		})
	}
	t.Run("wrong key", func(t *testing.T) { // which LiteLLM refuses with 400
		v, err := newJudge(t, "gullible", func(c *llm.Config) { c.APIKey = "sk-wrong" }).Judge(t.Context(), c)
		if err == nil || v.Cause != grader.CauseFailed || v.Usage.Calls != 8 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// Many sessions grade the same replies at the same time. Each reply is sent once, and each session
// gets its verdict.
func TestManySessions(t *testing.T) {
	const replies, sessions = 40, 16
	j := newJudge(t, "gullible", func(c *llm.Config) {
		c.CacheDir, c.Timeout, c.MaxConcurrency = t.TempDir(),
			2*time.Minute, 8
	})
	began := time.Now()
	var mu sync.Mutex
	var usage grader.Usage
	status := map[grader.Status]int{}
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			for _, c := range cases(t, replies) {
				v, err := j.Judge(t.Context(), c)
				if err != nil || v.PostGate < 400 {
					t.Errorf("%s: %+v, %v", c.Ticket.ScenarioID, v, err)
				}
				mu.Lock()
				usage.Add(v.Usage)
				status[v.Status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d judgements of %d replies in %v: %v, %+v", replies*sessions, replies,
		time.Since(began).Round(time.Millisecond), status, usage)
	if usage.Calls != replies || usage.CacheHits != replies*(sessions-1) {
		t.Errorf("%d calls and %d cache hits, want %d and %d", usage.Calls, usage.CacheHits, replies,
			replies*(sessions-1))
	}
}

// Another process reads a cached verdict and grades without calling the endpoint.
func TestCachedVerdicts(t *testing.T) {
	folder := t.TempDir()
	c := cases(t, 1)[0]
	first, err := newJudge(t, "gullible", func(c *llm.Config) { c.CacheDir = folder }).Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newJudge(t, "gullible", func(c *llm.Config) {
		c.CacheDir, c.CacheMode = folder,
			llm.CacheFrozen
	}).Judge(t.Context(), c)
	if err != nil || again.Status != grader.StatusCached || again.PostGate != first.PostGate || again.Usage.Calls != 0 {
		t.Errorf("frozen: %+v, %v", again, err)
	}
	kept := first
	kept.Case = c.Digest()
	replayed, err := llm.NewReplay(offline.New(), first.Judge, kept).Judge(t.Context(), c)
	if err != nil || replayed.PostGate != first.PostGate {
		t.Errorf("replayed: %+v, %v", replayed, err)
	}
}
