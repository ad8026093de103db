package openenv

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/testkit/wire"
)

// browser sends requests with cookies, and doesn't follow redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func visit(t *testing.T, b *http.Client, method, address string, form url.Values) (status int, location, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Location"), string(text)
}

func TestWebRoutes(t *testing.T) {
	_, off := serve(t, Config{})
	_, on := serve(t, Config{Web: true})
	for address, want := range map[string]struct {
		status   int
		location string
		body     string
	}{
		off + "/":     {http.StatusOK, "", "This is an OpenEnv server"},
		off + "/web":  {http.StatusNotFound, "", "Not Found"},
		off + "/web/": {http.StatusNotFound, "", "Not Found"},
		on + "/":      {http.StatusTemporaryRedirect, "/web/", ""},
		on + "/web":   {http.StatusTemporaryRedirect, "/web/", ""},
		on + "/web/":  {http.StatusOK, "", "<h1>Playground</h1>"},
	} {
		status, location, body := visit(t, browser(t), http.MethodGet, address, nil)
		if status != want.status || location != want.location || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q\n%s", address, status, location, body)
		}
	}
	if status, body := wire.GetBody(t, on+"/"); status != http.StatusOK || !strings.Contains(body, "This is an OpenEnv server") {
		t.Errorf("a program's GET /: %d %s", status, body)
	}
}

func TestWebClosed(t *testing.T) {
	for want, cfg := range map[string]Config{"production mode": {Mode: Production}, "--runs-only": {SharedKey: true, RunsOnly: true}} {
		cfg.Web = true
		_, address := serve(t, cfg)
		if status, _, body := visit(t, browser(t), http.MethodGet, address+"/web/", nil); status != http.StatusForbidden ||
			!strings.Contains(body, want) {
			t.Errorf("%s: %d\n%s", want, status, body)
		}
	}
}

// A game takes a slot of the server, for its visitor and with the visitor's token.
func TestWebTokens(t *testing.T) {
	s, address := serve(t, Config{Web: true, MaxClientSessions: 1, Tokens: func() []string { return []string{"one", "two"} }})
	first := browser(t)
	login := func(b *http.Client, token string) int {
		status, _, _ := visit(t, b, http.MethodPost, address+"/web/login", url.Values{"token": {token}})
		return status
	}
	start := func(b *http.Client) (int, string, string) {
		return visit(t, b, http.MethodPost, address+"/web/start", url.Values{"target": {"here"}, "seed": {"1"}})
	}
	if status, _, body := start(first); status != http.StatusUnauthorized || !strings.Contains(body, "needs a token") {
		t.Errorf("without a token: %d\n%s", status, body)
	}
	if status := login(first, "three"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	if status := login(first, " one\n"); status != http.StatusSeeOther {
		t.Fatalf("a token: %d", status)
	}
	at, err := url.Parse(address + "/web/")
	if err != nil {
		t.Fatal(err)
	}
	if cookies := first.Jar.Cookies(at); len(cookies) != 1 || strings.Contains(cookies[0].Value, "one") {
		t.Errorf("the cookies are %v", cookies)
	}
	status, game, body := start(first)
	if status != http.StatusSeeOther || s.sessions.countActive() != 1 {
		t.Fatalf("a game: %d, %d sessions\n%s", status, s.sessions.countActive(), body)
	}
	if status, _, body := start(first); status != http.StatusBadGateway || !strings.Contains(body, "the maximum of one client") {
		t.Errorf("a second game of the client: %d\n%s", status, body)
	}
	// Another token can't see the game, and may begin one.
	second := browser(t)
	login(second, "two")
	if status, _, _ := visit(t, second, http.MethodGet, address+game, nil); status != http.StatusNotFound {
		t.Errorf("another visitor's game: %d", status)
	}
	if status, _, body := start(second); status != http.StatusSeeOther {
		t.Errorf("a game of the second client: %d\n%s", status, body)
	}
	if status, _, _ := visit(t, first, http.MethodPost, address+game+"/end", nil); status != http.StatusSeeOther {
		t.Errorf("the end: %d", status)
	}
	for deadline := time.Now().Add(5 * time.Second); s.sessions.countActive() > 1 && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	if s.sessions.countActive() != 1 {
		t.Errorf("%d sessions are left", s.sessions.countActive())
	}
	visit(t, first, http.MethodPost, address+"/web/logout", nil)
	if status, _, _ := visit(t, first, http.MethodGet, address+"/web/", nil); status != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", status)
	}
}
