package ui

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/web/page"
)

// follow requests a page's updates for a visitor until the context ends.
func follow(ctx context.Context, serve http.HandlerFunc, path, visitor string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.RemoteAddr = visitor + ":1"
	serve(w, r)
	return w
}

// Those who follow a page share one rendering of each of its versions, and nothing of it is kept
// when they have gone.
func TestFollowersShareARendering(t *testing.T) {
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &site{pages: pages, sources: &sources{}, log: slog.New(slog.DiscardHandler)}
		s.handler()
		var made atomic.Int64
		serve := s.updates(func(*http.Request) (shown, error) {
			made.Add(1)
			return shown{template: "overview", main: &overviewPage{Live: "/live"}}, nil
		})
		ctx, leave := context.WithCancel(t.Context())
		answers := make(chan *httptest.ResponseRecorder)
		for visitor := range strings.FieldsSeq(strings.Repeat("192.0.2.1 192.0.2.2 192.0.2.3 ", 5)) {
			go func() { answers <- follow(ctx, serve, "/live", visitor) }()
		}
		for versions := range int64(3) {
			synctest.Wait()
			if made.Load() != versions+1 {
				t.Errorf("%d renderings of %d versions", made.Load(), versions+1)
			}
			s.sources.version.Add(1)
			<-time.After(liveInterval)
		}
		leave()
		for range 15 {
			if w := <-answers; w.Code != http.StatusOK || strings.Count(w.Body.String(), "\n\n") != 1 {
				t.Errorf("status %d, %d events of a page that didn't change", w.Code, strings.Count(w.Body.String(), "\n\n"))
			}
		}
		if len(s.feeds.byPage) > 0 {
			t.Errorf("%d feeds are kept", len(s.feeds.byPage))
		}
	})
}

// A visitor whose next requests are there already doesn't keep the processor from page to page.
func TestPagesLetOthersGoFirst(t *testing.T) {
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pages: pages, sources: &sources{}, log: slog.New(slog.DiscardHandler)}
	s.handler()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const requested = 100
	var made, waited atomic.Int64
	var other sync.WaitGroup
	serve := s.serve(func(*http.Request) (shown, error) {
		if made.Add(1) == 1 {
			other.Go(func() { waited.Store(made.Load()) })
		}
		return shown{}, notFound("nothing")
	})
	for range requested {
		follow(t.Context(), serve, "/", "192.0.2.1")
	}
	other.Wait()
	if waited.Load() > requested/10 {
		t.Errorf("another goroutine waited for %d of %d pages", waited.Load(), requested)
	}
}

// A visitor has few pages made at a time, however many are requested, while others' are made.
func TestVisitorsTakeTurns(t *testing.T) {
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &site{pages: pages, sources: &sources{}, log: slog.New(slog.DiscardHandler)}
		s.handler()
		var made atomic.Int64
		release := make(chan struct{})
		show := func(*http.Request) (shown, error) {
			made.Add(1)
			<-release
			return shown{}, notFound("nothing")
		}
		answer := s.answerInTurn(func(_ http.ResponseWriter, r *http.Request) { _, _ = show(r) })
		for i, serve := range []http.HandlerFunc{s.serve(show), s.updates(show), answer} {
			made.Store(0)
			for n := range 50 {
				go follow(t.Context(), serve, "/?page="+strings.Repeat("1", n+1), "192.0.2.1")
			}
			synctest.Wait()
			if made.Load() != maxMadeFor {
				t.Errorf("case %d: %d pages are made at a time for one visitor", i, made.Load())
			}
			go follow(t.Context(), serve, "/", "192.0.2.2")
			synctest.Wait()
			if made.Load() != maxMadeFor+1 {
				t.Errorf("case %d: another visitor waits", i)
			}
			for range 51 {
				release <- struct{}{}
			}
			synctest.Wait()
		}
	})
}
