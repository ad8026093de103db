package ui

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// liveInterval is how often a page looks for changes.
	liveInterval = time.Second
	// keepAlive is how often a silent stream sends a comment, so that proxies keep it open.
	keepAlive = 20 * time.Second
)

// livePath is the path of a page's updates.
func livePath(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, "{$}"), "/") + "/live"
}

// feeds are the pages that are followed, by path and query.
type feeds struct {
	mu     sync.Mutex
	byPage map[string]*feed
}

// feed is what all followers of a page see.
type feed struct {
	followers int // guarded by the lock of feeds

	mu      sync.Mutex
	version int64 // of the sources from which part was made, -1 for none
	part    []byte
}

// follow returns the feed of a page.
func (s *feeds) follow(page string) (f *feed, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.byPage[page]; f == nil {
		f = &feed{version: -1}
		s.byPage[page] = f
	}
	f.followers++
	return f, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.followers--; f.followers == 0 {
			delete(s.byPage, page)
		}
	}
}

// read returns the content of a version of the sources, which the first follower renders.
func (f *feed) read(version int64, render func() ([]byte, error)) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version < version {
		part, err := render()
		if err != nil {
			return nil, err
		}
		f.version, f.part = version, part
	}
	return f.part, nil
}

// updates sends the template "live" of a page whenever its content changes, as server-sent events.
func (s *site) updates(show func(*http.Request) (shown, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		followed, leave := s.feeds.follow(r.URL.RequestURI())
		defer leave()
		render := func() ([]byte, error) {
			found, err := show(r)
			if err != nil {
				return nil, err
			}
			return s.pages.Part(found.template, "live", found.main)
		}
		ticker := time.NewTicker(liveInterval)
		defer ticker.Stop()
		var sent []byte
		version, at := int64(-1), time.Now()
		for {
			if now := s.sources.version.Load(); now != version {
				part, err := s.inTurn(r, func() ([]byte, error) { return followed.read(now, render) })
				if err != nil {
					if version < 0 {
						_, status := s.failed(r, err)
						http.Error(w, http.StatusText(status), status)
					}
					return
				}
				if version < 0 {
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("X-Accel-Buffering", "no") // nginx would hold the events back
				}
				version = now
				if !bytes.Equal(part, sent) {
					if sent, at = part, time.Now(); writeEvent(w, part) != nil {
						return
					}
				}
			}
			if time.Since(at) > keepAlive {
				at = time.Now()
				fmt.Fprint(w, ":\n\n")
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// writeEvent writes a message of the event stream, with a data field for each line.
func writeEvent(w http.ResponseWriter, html []byte) error {
	var event bytes.Buffer
	for line := range bytes.Lines(html) {
		event.WriteString("data: ")
		event.Write(bytes.TrimRight(line, "\r\n"))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	_, err := w.Write(event.Bytes())
	return err
}
