package ui

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
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

// updates sends the template "live" of a page whenever its content changes, as server-sent events.
func (s *site) updates(show func(*http.Request) (shown, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := show(r); err != nil {
			_, status := s.failed(r, err)
			http.Error(w, http.StatusText(status), status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // nginx would hold the events back
		stream := http.NewResponseController(w)
		ticker := time.NewTicker(liveInterval)
		defer ticker.Stop()
		var sent []byte
		version, at := int64(-1), time.Now()
		for {
			if now := s.sources.version.Load(); now != version {
				version = now
				found, err := show(r)
				if err != nil {
					return
				}
				part, err := s.pages.Part(found.template, "live", found.main)
				if err != nil {
					s.log.Error("An update can't be rendered", "path", r.URL.Path, "error", err)
					return
				}
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
			if stream.Flush() != nil {
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
