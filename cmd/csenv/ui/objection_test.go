package ui

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/play/results"
)

// A person on this machine writes why a grade is wrong: it is kept beside the run's files and
// shown. Visitors from elsewhere, forms of other sites and public pages write nothing.
func TestObjection(t *testing.T) {
	s, paths := played(t, map[string][]string{"one": {"ticket-resolve", "--scenario", "B06", "--agent", "heuristic"}})
	path := paths["one"] + "/episodes/0"
	request := func(s *site, method, path, from, because string, header http.Header) *httptest.ResponseRecorder {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(from)})
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(url.Values{"because": {because}}.Encode()))
		if header != nil {
			r.Header = header
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		return w
	}
	kept := func() map[int64]results.Objection {
		runs, err := s.sources.runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found, err := runs[0].Objections(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	public := *s
	public.public = true
	const text = "it does say <b>when</b>\r\n  by Friday "
	for name, tt := range map[string]struct {
		site    *site
		path    string
		from    string
		because string
		header  http.Header
		want    int
	}{
		"from elsewhere":    {s, path, "10.0.0.1", text, nil, http.StatusForbidden},
		"of another site":   {s, path, "127.0.0.1", text, http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		"on a public site":  {&public, path, "127.0.0.1", text, nil, http.StatusMethodNotAllowed},
		"of no episode":     {s, paths["one"] + "/episodes/99", "127.0.0.1", text, nil, http.StatusNotFound},
		"a text too long":   {s, path, "127.0.0.1", strings.Repeat("x", results.MaxObjection+1), nil, http.StatusBadRequest},
		"a form too long":   {s, path, "127.0.0.1", strings.Repeat("x", 1<<20), nil, http.StatusBadRequest},
		"to be kept":        {s, path, "::1", "", nil, http.StatusSeeOther},
		"kept, with a list": {s, path, "127.0.0.1", "", nil, http.StatusSeeOther},
	} {
		if w := request(tt.site, http.MethodPost, tt.path+"/objection?sort=score", tt.from, tt.because, tt.header); w.Code != tt.want ||
			w.Code == http.StatusSeeOther && w.Header().Get("Location") != path+"?sort=score" {
			t.Errorf("an objection %s: status %d to %q, want %d", name, w.Code, w.Header().Get("Location"), tt.want)
		}
	}
	if found := kept(); len(found) != 0 {
		t.Errorf("kept: %v", found)
	}
	if w := request(s, http.MethodPost, path+"/objection", "127.0.0.1", text, nil); w.Code != http.StatusSeeOther {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if found := kept(); len(found) != 1 || found[0].Because != "it does say <b>when</b>\n  by Friday" {
		t.Errorf("kept: %v", found)
	}
	for from, form := range map[string]bool{"127.0.0.1": true, "10.0.0.1": false} {
		if page := request(s, http.MethodGet, path, from, "", nil).Body.String(); !strings.Contains(page, "it does say &lt;b&gt;when") ||
			strings.Contains(page, "<textarea") != form {
			t.Errorf("the page for %s: %s", from, page)
		}
	}
}
