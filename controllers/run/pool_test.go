package run

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score"
)

// serve answers on an address of its own and returns a reader of that port.
func serve(t *testing.T, handler http.HandlerFunc) (*httpPool, string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	p := newHTTPPool()
	if p.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	return p, host
}

func TestHTTPPool(t *testing.T) {
	p, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats" {
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(offer()); err != nil {
			t.Error(err)
		}
	})
	got, err := p.Report(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(offer(), got); diff != "" {
		t.Error(diff)
	}
}

func TestHTTPPoolFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"not found": {http.NotFound, "404"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, "302"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		}, "decoding the report"},
		"no end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"environment":"` + strings.Repeat("x", maxReportBytes)))
		}, "decoding the report"},
	} {
		t.Run(name, func(t *testing.T) {
			p, host := serve(t, tc.handler)
			if got, err := p.Report(t.Context(), host); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("report %+v, error %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestHTTPPoolGivesUp(t *testing.T) {
	released := make(chan struct{})
	p, host := serve(t, func(http.ResponseWriter, *http.Request) { <-released })
	// Before the server is closed, which waits for its handlers.
	t.Cleanup(func() { close(released) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Report(ctx, host); err == nil {
		t.Error("a server that doesn't answer is read")
	}
	if p.client.Timeout != reportTimeout {
		t.Errorf("a server may take %v, want %v", p.client.Timeout, reportTimeout)
	}
}

func TestSameGrader(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*score.Report)
		same   bool
	}{
		"same":            {func(*score.Report) {}, true},
		"other scenarios": {func(r *score.Report) { r.ScenarioDigest = "sha256:bb" }, false},
		"other grader":    {func(r *score.Report) { r.GraderVersion = "2" }, false},
		"other judge":     {func(r *score.Report) { r.Judge = "llm" }, false},
		"more sessions":   {func(r *score.Report) { r.Sessions.Active = 7 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			report := offer()
			tc.change(&report)
			if err := sameGrader(pool(), report); (err == nil) != tc.same {
				t.Errorf("error %v", err)
			}
		})
	}
}
