package page

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// The bounds of scripts: what this project wrote, in lines, and all that a page loads, in bytes.
const (
	maxOwnLines = 500
	maxScript   = 60_000
)

// Files of others are those of the listed packages, and nothing else.
func TestVendoredFiles(t *testing.T) {
	text, err := os.ReadFile("vendored.json")
	if err != nil {
		t.Fatal(err)
	}
	var vendored []struct{ File, Package, Path, License, SHA256 string }
	if err := json.Unmarshal(text, &vendored); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, v := range vendored {
		data, err := ReadStatic(v.File)
		if digest := sha256.Sum256(data); err != nil || hex.EncodeToString(digest[:]) != v.SHA256 {
			t.Errorf("%s is not that of %s (%v): take %s of `npm pack %[2]s`", v.File, v.Package, err, v.Path)
		}
		known[v.File] = true
	}
	files, err := static.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	own, sent := 0, 0
	for _, f := range files {
		data, err := ReadStatic(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name(), ".js") {
			if sent += len(data); !known[f.Name()] {
				own += strings.Count(string(data), "\n")
			}
		}
		if strings.Contains(f.Name(), ".min.") && !known[f.Name()] {
			t.Errorf("%s is not listed in vendored.json", f.Name())
		}
	}
	if own > maxOwnLines || sent > maxScript {
		t.Errorf("%d own lines and %d bytes of script, want at most %d and %d", own, sent, maxOwnLines, maxScript)
	}
}

// Every template of a page can be rendered by its name, and texts from outside stay texts.
func TestTextsStayTexts(t *testing.T) {
	set, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	const attack = "<script>alert(1)</script>\" onload=x \u202e\x1b[31m \x00"
	html, err := set.Page("error", Page{Title: attack, Main: struct{ Title, Message string }{attack, attack}})
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"<script>", "\u202e", "\x1b", "\x00", `" onload`} {
		if strings.Contains(string(html), forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	if !strings.Contains(string(html), `&lt;script&gt;alert(1)&lt;/script&gt;&#34; onload=x \u202e\u001b[31m`) {
		t.Errorf("the text is not shown: %s", html)
	}
}

func TestProtect(t *testing.T) {
	handler := ProtectHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	ask := func(method, site string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		method, site string
		want         int
	}{
		{http.MethodGet, "cross-site", http.StatusOK}, {http.MethodPost, "same-origin", http.StatusOK},
		{http.MethodPost, "cross-site", http.StatusForbidden}, {http.MethodPost, "same-site", http.StatusForbidden},
	} {
		answer := ask(c.method, c.site)
		if answer.Code != c.want {
			t.Errorf("%s from %s: %d, want %d", c.method, c.site, answer.Code, c.want)
		}
		csp := answer.Header().Get("Content-Security-Policy")
		if strings.Contains(csp, "unsafe") || !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'") {
			t.Errorf("the policy is %q", csp)
		}
	}
}

func TestServeStatic(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{digest}/{name}", ServeStatic)
	for path, want := range map[string]int{"/static/x/csenv.css": 200, "/static/x/none.css": 404,
		"/static/x/..%2fpage.go": 404} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
