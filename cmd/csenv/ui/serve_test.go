package ui

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/web/page"
)

func TestForThisMachine(t *testing.T) {
	handler := forHosts([]string{"hub.example"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost:8400": http.StatusOK, "LOCALHOST": http.StatusOK, "127.0.0.1:1": http.StatusOK,
		"[::1]:8400": http.StatusOK, "[::1]": http.StatusOK, "hub.example": http.StatusOK,
		"evil.example":                http.StatusMisdirectedRequest,
		"localhost.evil.example:8400": http.StatusMisdirectedRequest, "10.0.0.1:8400": http.StatusMisdirectedRequest,
		"": http.StatusMisdirectedRequest,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("Host %q: status %d, want %d", host, w.Code, want)
		}
	}
}

func TestServe(t *testing.T) {
	seen := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "seen") })
	for address, foreign := range map[string]int{"localhost:0": http.StatusMisdirectedRequest, ":0": http.StatusOK} {
		t.Run(address, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			started, ended := make(chan string, 1), make(chan error, 1)
			go func() { ended <- servePages(ctx, address, nil, seen, func(url string) { started <- url }) }()
			url := <-started
			if code, text := fetch(t, url); code != http.StatusOK || text != "seen\n" {
				t.Errorf("%s: status %d, %s", url, code, text)
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "evil.example"
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != foreign {
				t.Errorf("status %d for another host, want %d", response.StatusCode, foreign)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := servePages(t.Context(), taken.Addr().String(), nil, seen, nil); err == nil ||
		!strings.Contains(err.Error(), "another program serves at "+taken.Addr().String()) {
		t.Error(err)
	}
}

// flushedOnce ends a stream of updates after the first one.
type flushedOnce struct {
	*httptest.ResponseRecorder
	stop func()
}

func (w flushedOnce) Flush() { w.stop() }

// Below a path all paths of pages, updates and redirects have it, whether a proxy passes it on or
// not.
func TestBelowAPath(t *testing.T) {
	run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: "12345678-1", Name: "one"}}
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pages: pages, sources: holding([]*source.LoadedRun{{EvaluationRun: run}}),
		log: slog.New(slog.DiscardHandler)}
	s.games = http.RedirectHandler("/play/games/x", http.StatusSeeOther)
	handler, err := serveBelow("/user/ann/", s.handler())
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		ctx, stop := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		handler.ServeHTTP(flushedOnce{w, stop}, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		return w
	}
	links := regexp.MustCompile(` (?:href|src|action|formaction|hx-[a-z:-]+)="(/[^"]*)"`)
	for _, prefix := range []string{"", "/user/ann"} {
		for _, path := range []string{"/", "/live", "/leaderboard", "/compare"} {
			answer := get(prefix + path)
			found := links.FindAllStringSubmatch(answer.Body.String(), -1)
			if answer.Code != http.StatusOK || len(found) == 0 {
				t.Errorf("%s%s: status %d, %d links", prefix, path, answer.Code, len(found))
			}
			for _, link := range found {
				if !strings.HasPrefix(link[1], "/user/ann/") {
					t.Errorf("%s%s links to %s", prefix, path, link[1])
				}
			}
		}
		if at := get(prefix + "/play/").Header().Get("Location"); at != "/user/ann/play/games/x" {
			t.Errorf("%s/play/ leads to %s", prefix, at)
		}
	}
	if at := get("/user/ann").Header().Get("Location"); at != "/user/ann/" {
		t.Errorf("the path without a slash leads to %q", at)
	}
	for _, wrong := range []string{"csenv", "/a//b", "/a b", `/"x`, "//host"} {
		if _, err := serveBelow(wrong, s.handler()); err == nil || !strings.Contains(err.Error(), "as in /csenv") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// Without a terminal the browser stays closed.
func TestBrowser(t *testing.T) {
	t.Setenv("DISPLAY", ":0")
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if command := findBrowser(file, "http://localhost/"); command != nil {
		t.Errorf("without a terminal: %v", command)
	}
}

// holding are sources with some stored runs.
func holding(runs []*source.LoadedRun) *sources {
	s := &stored{runs: runs, ready: make(chan struct{})}
	close(s.ready)
	return &sources{stored: s}
}

// Runs are paged, with those under way first.
func TestPages(t *testing.T) {
	var runs []*source.LoadedRun
	for i := range 250 {
		run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: "12345678-1",
			Name: "run-" + strings.Repeat("x", i+1)}}
		run.CreationTimestamp = metav1.Unix(int64(1e9+i), 0)
		if i > 0 {
			run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue,
				Reason: v1alpha1.ReasonCompleted}}
		}
		runs = append(runs, &source.LoadedRun{EvaluationRun: run})
	}
	pages, err := page.New("")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pages: pages, sources: holding(runs),
		log: slog.New(slog.DiscardHandler)}
	server := serving(t, s)
	for query, want := range map[string]string{
		"":                               "Runs 1 to 100 of 250",
		"?page=2":                        "Runs 101 to 200 of 250",
		"?page=3":                        "Runs 201 to 250 of 250",
		"?page=99":                       "Runs 201 to 250 of 250",
		"?state=Completed&page=2":        "Runs 101 to 200 of 249",
		"?state=under-way":               "Runs 1 to 1 of 1",
		"?text=nothing":                  "None of the 250 runs matches.",
		"?text=%22%3E%3Cscript%3E":       `value="&#34;&gt;&lt;script&gt;"`,
		"?state=Completed&text=x&page=1": `hx-sse:connect="/live?state=Completed&amp;text=x"`,
	} {
		if code, text := fetch(t, server.URL+"/"+query); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, no %q in %s", query, code, want, text)
		}
	}
	if _, text := fetch(t, server.URL); strings.Index(text, "</span>run-x<") > strings.Index(text, "</span>run-xx") {
		t.Error("the run under way isn't first")
	}
}

// A run of the cluster and its stored episodes are one run.
func TestMerged(t *testing.T) {
	run := func(name string) *source.LoadedRun {
		return &source.LoadedRun{EvaluationRun: &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: "a",
			Name: name, UID: "12345678-90"}}}
	}
	for name, want := range map[string]string{"r": "/runs/a/r-12345678", "r-12345678": "/runs/a/r-12345678"} {
		if got := runPath(run(name)); got != want {
			t.Errorf("the path of %s is %s, want %s", name, got, want)
		}
	}
	inCluster, stored, forged := run("r"), run("r"), run("r")
	inCluster.Status.Progress, stored.Lost, forged.Lost = "1/2", []source.LostPoints{{}}, []source.LostPoints{{}, {}}
	forged.UID = "12345678-forged"
	key := "b2ZmaWNpYWwtb2ZmaWNpYWwtb2ZmaWNpYWwtb2ZmaWM="
	stored.Status.Provenance = &v1alpha1.Provenance{LedgerKey: key}
	pool := &v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "acme"}}
	pool.Status.LedgerPublicKey = key
	s := &sources{cluster: &cluster.Watcher{}}
	vouchers := s.vouch([]*v1alpha1.CustomerSupportEnv{pool})
	if both := s.mergeRuns(inCluster, stored, vouchers); both.Status.Progress != "1/2" || len(both.Lost) != 1 ||
		both.Apart != "" {
		t.Errorf("merged: %+v", both)
	}
	if both := s.mergeRuns(inCluster, forged, vouchers); both.Status.Progress != "1/2" || both.Lost != nil {
		t.Errorf("merged with another run in its folder: %+v", both)
	}
	// Whoever may write to the store can add runs.
	if alone := s.mergeRuns(nil, stored, vouchers); alone.Apart != notInCluster ||
		!strings.HasPrefix(alone.Signer, "stored episodes of pool bench/acme, ") {
		t.Errorf("beside the cluster: %+v", alone)
	}
	if alone := (&sources{}).mergeRuns(nil, stored, source.Vouchers{}); alone.Apart != "" || alone.Signer != "" {
		t.Errorf("without a cluster: %+v", alone)
	}
}

// Visitors can't use up the pages: headers and connections are bounded, and a further one closes
// one of the visitor with most, streams included.
func TestPagesAreBounded(t *testing.T) {
	const limit = 4
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/live" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "page")
	})
	server := newHTTPServer(t.Context(), page, limit)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	url := "http://" + listener.Addr().String()
	var streams []io.Reader
	for range 3 * limit {
		response, err := (&http.Client{Transport: &http.Transport{}, Timeout: time.Minute}).Get(url + "/live")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		streams = append(streams, response.Body)
	}
	for i, stream := range streams[:2*limit] {
		if _, err := io.ReadAll(stream); errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("stream %d of %d is still open", i, len(streams))
		}
	}
	if code, text := fetch(t, url); code != http.StatusOK || text != "page\n" {
		t.Errorf("beside streams: %d %s", code, text)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X", strings.Repeat("x", 2*maxHeader))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge || server.IdleTimeout == 0 {
		t.Errorf("a large header: %d, idle connections stay for %v", response.StatusCode, server.IdleTimeout)
	}
}
