package ui

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/scenarios"
)

// This machine plays tickets and cases, without a cluster; a public site plays none.
func TestPlayground(t *testing.T) {
	catalog, err := scenarios.LoadFolders("")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	for want, test := range map[string]struct {
		public bool
		target string
	}{
		"<h2>Ticket</h2>": {false, "ticket"}, "<h2>Request</h2>": {false, "workflow"},
		"This site is public": {true, "ticket"}, "connection refused": {false, "server-1"},
	} {
		s := &site{pages: pages, sources: &sources{}, public: test.public, log: log}
		games, err := s.playground(t.Context(), newArena(t.Context(), catalog, []string{"http://127.0.0.1:1"}, log))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(page.ProtectHandler(games))
		response, err := server.Client().PostForm(server.URL+"/play/start",
			url.Values{"target": {test.target}, "seed": {"1"}})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %v\n%s", test.target, response.StatusCode, err, body)
		}
		response.Body.Close()
		server.Close()
	}
	// Only the places of this machine show what was right.
	places := newArena(t.Context(), catalog, []string{"http://127.0.0.1:1"}, log)
	if len(places.here) != 3 || places.here[0].Review == nil || places.here[2].Review != nil {
		t.Errorf("the places are %+v", places.here)
	}
	replayed, err := places.here[0].Review(t.Context(), resolved(0, "B07"))
	if err != nil || len(replayed.Reviews) != 1 || replayed.Reviews[0].Good == "" {
		t.Errorf("the review is %+v, %v", replayed.Reviews, err)
	}
	s := &site{pages: pages, sources: &sources{}, games: http.NotFoundHandler()}
	if len(s.layout(t.Context(), shown{}).Nav) != 4 {
		t.Error("the navigation has no playground")
	}
}
