package evaluate

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// Progress says which endpoint has not answered, since when, and how long the agent's one is left
// alone.
func TestTraffic(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	seen := newTraffic(func() time.Time { return now })
	asked, answer := make(chan bool), make(chan int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		w.WriteHeader(<-answer)
	}))
	defer server.Close()
	said := func(want string) {
		t.Helper()
		if got := seen.waits(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	call := func(to peer, status int, during func()) {
		t.Helper()
		ended := make(chan error)
		go func() {
			response, err := seen.client(to, 1).Get(server.URL)
			if err == nil {
				err = response.Body.Close()
			}
			ended <- err
		}()
		<-asked
		during()
		answer <- status
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	said("")
	call(agentPeer, http.StatusTooManyRequests, func() {
		said("")
		now = now.Add(75 * time.Second)
		said("waits for the agent's endpoint (1 request without an answer, the oldest for 1m15s); if its answers " +
			"don't end, set --max-tokens")
	})
	said("")
	resumed := seen.pause(30 * time.Second)
	said("waits for the rate limit of the agent's endpoint, until 12:01:45")
	call(judgePeer, http.StatusOK, func() {
		now = now.Add(10 * time.Second)
		said("waits for the judge (1 request without an answer, the oldest for 10s) and " +
			"the rate limit of the agent's endpoint, until 12:01:45")
	})
	resumed()
	call(agentPeer, http.StatusOK, func() {})
	seen.pause(2 * time.Second)
	said("waits for the next attempt at the agent's endpoint, until 12:01:27")
	call(agentPeer, http.StatusBadGateway, func() {})
	said("waits for the next attempt at the agent's endpoint (HTTP 502 Bad Gateway), until 12:01:27")
	refused := seen.client(agentPeer, 1)
	if _, err := refused.Get("http://127.0.0.1:1"); err == nil { //nolint:noctx,bodyclose // nothing answers there
		t.Fatal("port 1 answers")
	}
	if got := seen.waits(); !strings.Contains(got, "connection refused") {
		t.Error(got)
	}
	now = now.Add(35 * time.Second)
	said("")
	seen.count(record.Episode{Tokens: &score.Tokens{Prompt: 300, Completion: 100}})
	if got, want := seen.pace(), "2 requests/min, 200 tokens/min"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
