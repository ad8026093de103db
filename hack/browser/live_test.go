package browser

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// liveTimeout is the time within which a page shows a change of its store.
const liveTimeout = 20 * time.Second

// scriptDelay is how late the script of live updates arrives.
const scriptDelay = 300 * time.Millisecond

// A page shows new episodes of a run that is under way, without loading again, even if its scripts
// arrive late.
func (w *world) testLive(t *testing.T) {
	for _, tc := range []struct{ name, path string }{
		{"run", "/runs/_/%s"},
		{"overview", "/"},
		{"episodes", "/runs/_/%s/episodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := t.TempDir()
			folder, rest := interrupted(t, w.store, store)
			tab := w.open(t, Looks[0], late(t, w.serve(t, store)))
			path := tc.path
			if path != "/" {
				path = fmt.Sprintf(path, folder)
			}
			load(t, tab, path, 200)
			before := eval[string](t, tab, `window.__marker = "kept", document.querySelector("main").innerText`)
			segment := filepath.Join(store, folder, "shard-00000", "000002.jsonl")
			if err := os.WriteFile(segment+".tmp", rest, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(segment+".tmp", segment); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			changed := fmt.Sprintf(`document.querySelector("main").innerText !== %q`, before)
			if err := tab.Await(changed, liveTimeout); err != nil {
				t.Fatalf("the page doesn't show new episodes within %s: %v", liveTimeout, err)
			}
			t.Logf("the page changed after %s", time.Since(began).Round(10*time.Millisecond))
			if eval[string](t, tab, `window.__marker ?? ""`) != "kept" {
				t.Error("the page was loaded again")
			}
			sound(t, tab)
			tab.Close()
		})
	}
}

// late returns a proxy of a site that delays the script of live updates.
func late(t *testing.T, site *Site) *Site {
	t.Helper()
	target, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hx-sse.min.js") {
			select {
			case <-time.After(scriptDelay):
			case <-r.Context().Done():
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return &Site{URL: proxy.URL}
}

// interrupted copies a run that has only the first half of its episodes, and returns its folder and
// the records of the other half.
func interrupted(t *testing.T, from, to string) (folder string, rest []byte) {
	t.Helper()
	folder, err := FindRunFolder(from, "resolve-heuristic")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(to, folder), os.DirFS(filepath.Join(from, folder))); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(to, folder, "shard-*", "*.jsonl"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("the run has no segments: %v", err)
	}
	var lines []byte
	for _, segment := range segments {
		data, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, data...)
		if err := os.Remove(segment); err != nil {
			t.Fatal(err)
		}
	}
	half := len(lines)/2 + bytes.IndexByte(lines[len(lines)/2:], '\n') + 1
	if err := os.WriteFile(segments[0], lines[:half], 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, lines[half:]
}
