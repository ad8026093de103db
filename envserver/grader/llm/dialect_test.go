package llm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit/dialect"
)

// gullibleEndpoint judges every reply as good.
func gullibleEndpoint(t *testing.T) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := read(r, 1)
		if err != nil {
			t.Error(err)
		}
		respond(w, http.StatusOK, completion("```json\n"+gullible(c)+"\n```"))
	})
}

// judgeAt makes a judge that doesn't wait between attempts. Its requests depend on the endpoint's
// URL, so that has no port, which differs from run to run.
func judgeAt(t *testing.T, endpoint http.Handler) *Judge {
	t.Helper()
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	j, err := New(Config{BaseURL: "http://model.test/v1", Model: "m", Votes: 1, CacheMode: CacheOff,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}, Random: func() float64 { return 0 },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// A judge behind any endpoint gives the same verdict.
func TestDialects(t *testing.T) {
	for _, d := range slices.Concat(dialect.Servers(), dialect.Providers()) {
		t.Run(d.Name, func(t *testing.T) {
			v, err := judgeAt(t, d.Wrap(gullibleEndpoint(t))).Judge(t.Context(), goodCase(t))
			if err != nil || v.PostGate != 500 || v.Status != grader.StatusOK {
				t.Errorf("%d points, %s %s: %v", v.PostGate, v.Status, v.Cause, err)
			}
		})
	}
}

// Where a quarter of the answers is a failure of the endpoint, no verdict is another one.
func TestFaultsChangeNoVerdict(t *testing.T) {
	f := dialect.NewFaulty(gullibleEndpoint(t), 0)
	j := judgeAt(t, f)
	for i := range 200 {
		c := goodCase(t)
		c.Reply += fmt.Sprintf(" Your reference is %d.", i)
		want, err := judgeAt(t, gullibleEndpoint(t)).Judge(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		v, err := j.Judge(t.Context(), c)
		for repeated := 0; err != nil && repeated < 2; repeated++ { // as a step is
			v, err = j.Judge(t.Context(), c)
		}
		if err != nil || v.PostGate != want.PostGate || v.Status != grader.StatusOK {
			t.Errorf("%d points instead of %d, %s %s: %v", v.PostGate, want.PostGate, v.Status, v.Cause, err)
		}
	}
	if f.Kinds() < dialect.Faults*3/4 {
		t.Errorf("%d of %d faults were injected", f.Kinds(), dialect.Faults)
	}
}
