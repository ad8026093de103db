package stats

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score"
)

// serve serves on a separate address and returns a reader of that port.
func serve(t *testing.T, handler http.HandlerFunc) (*Reader, string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader()
	if r.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	return r, host
}

// The report of the largest supported pool is read completely.
func TestReport(t *testing.T) {
	want := score.Report{Environment: "ticket", ScenarioDigest: "sha256:aa", GraderVersion: "1", Judge: "offline-v1",
		Sessions: score.Sessions{Active: 3, Capacity: 10}}
	for task := range 3 {
		offered := score.Task{Name: fmt.Sprintf("a-task-of-the-pool-%d", task)}
		for i := range 1000 {
			offered.Scenarios = append(offered.Scenarios, score.Scenario{
				ID: fmt.Sprintf("A-LONG-SCENARIO-NAME-%04d", i), Category: "general-and-other", Difficulty: "medium",
				Language: "en-GB", Split: "public-train", Modifiers: []string{"flaky-customer", "mixed-payment",
					"no-order-number", "several-items"},
			})
		}
		want.Tasks = append(want.Tasks, offered)
	}
	r, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats" || r.Header.Get("Authorization") != "Bearer token" {
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(want); err != nil {
			t.Error(err)
		}
	})
	got, err := r.Report(t.Context(), host, "token")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The largest segment that a server signs is read completely. A larger one is refused.
func TestRollouts(t *testing.T) {
	question := score.CollectRequest{Tag: "team/grpo-7", Run: "uid", PassScore: 800_000, Instance: "i", Ack: 3}
	want := score.Segment{Instance: "i", Number: 4, Ledger: &score.SignedLedger{
		Payload: make([]byte, score.MaxLedgerBytes), Signature: make([]byte, 64)}, Dropped: 1, Active: 2}
	r, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked, err := score.ParseCollectRequest(r.URL.Query())
		if err != nil || r.URL.Path != "/rollouts" || asked != question {
			t.Errorf("asked for %s: %+v, %v", r.URL, asked, err)
		}
		if err := json.NewEncoder(w).Encode(want); err != nil {
			t.Error(err)
		}
	})
	got, err := r.Rollouts(t.Context(), host, "token", question)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	want.Ledger.Payload = make([]byte, 2*score.MaxLedgerBytes)
	if _, err := r.Rollouts(t.Context(), host, "token", question); err == nil ||
		!strings.Contains(err.Error(), "limited to 131072 bytes") {
		t.Errorf("error %v", err)
	}
}

func TestReportOfALaterReleaseIsRead(t *testing.T) {
	r, host := serve(t, func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, `{"judge":"offline-v1","later":true}`)
	})
	if got, err := r.Report(t.Context(), host, "token"); err != nil || got.Judge != "offline-v1" {
		t.Errorf("report %+v, error %v", got, err)
	}
}

func TestReportFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"not found": {http.NotFound, "/stats returned status 404"},
		"a reason": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"detail":"no\nroom%s"}`, strings.Repeat("x", 1000))
		}, `/stats returned status 503 "no\nroom` + strings.Repeat("x", 249) + `"`},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "302"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "decoding the report"},
		"far more scenarios than a server has": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tasks":[{"scenarios":[{}`+strings.Repeat(",{}", 300_000)+`]}]}`)
		}, "its report has 300002 tasks and scenarios"},
		"more than is read": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"judge":"`+strings.Repeat("x", 1<<20)+`"}`)
		}, "limited to 1048576 bytes: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			r, host := serve(t, tc.handler)
			if got, err := r.Report(t.Context(), host, "token"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("report %+v, error %v, want %q", got, err, tc.want)
			}
		})
	}
}

// A report keeps no more runs than a server sends, and no names that are no UIDs.
func TestReportIsBounded(t *testing.T) {
	r, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"runs":[{"run":"`+strings.Repeat("x", 65)+`"}`+strings.Repeat(`,{"run":"uid"}`, 5000)+`]}`)
	})
	got, err := r.Report(t.Context(), host, "token")
	if err != nil || len(got.Runs) != score.MaxRunReports-1 || cap(got.Runs) > 2*score.MaxRunReports {
		t.Errorf("%d runs, %v", len(got.Runs), err)
	}
}

// Many servers that answer as much as they may are read one after another.
func TestAnswersShareABudget(t *testing.T) {
	r, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"judge":"`, strings.Repeat("x", maxReport-20), `"}`)
	})
	var held []func()
	for i := range maxBodies - maxReport/bodyPart/2 {
		release, err := r.bodies.Take(t.Context(), fmt.Sprint(i%3))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // for the answer to begin
	defer cancel()
	if _, err := r.Report(ctx, host, "token"); err == nil ||
		!strings.Contains(err.Error(), "answers of other servers") {
		t.Errorf("an answer beyond the budget of bytes: %v", err)
	}
	for _, release := range held {
		release()
	}
	if !r.decoding.TryAcquire(maxDecoding) {
		t.Fatal("the budget of decoding is smaller")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Report(ctx, host, "token"); err == nil {
		t.Error("an answer beyond the budget of decoding was decoded")
	}
	r.decoding.Release(maxDecoding)
	if got, err := r.Report(t.Context(), host, "token"); err != nil || len(got.Judge) != maxReport-20 {
		t.Errorf("an answer within the budgets: %d bytes, %v", len(got.Judge), err)
	}
	if r.bodies.Users() != 0 || !r.decoding.TryAcquire(maxDecoding) {
		t.Error("an answer keeps a part of the budgets")
	}
}

// slowBody sends a number of bytes, and then nothing until it is closed.
type slowBody struct {
	io.Reader
	closed chan struct{}
}

func (b *slowBody) Read(to []byte) (int, error) {
	if n, err := b.Reader.Read(to); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, io.ErrClosedPipe
}

func (b *slowBody) Close() error { close(b.closed); return nil }

// The servers of one tenant that answer slowly, with few bytes or nearly all, don't delay the
// reports of others.
func TestSlowAnswersDelayNobody(t *testing.T) {
	for _, sent := range []int{1, maxReport - 1} {
		synctest.Test(t, func(t *testing.T) {
			r := NewReader()
			var stalled sync.WaitGroup
			for i := range 128 {
				body := &slowBody{strings.NewReader(strings.Repeat(" ", sent)), make(chan struct{})}
				time.AfterFunc(timeout, func() { // as the request's timeout does
					select {
					case <-body.closed:
					default:
						_ = body.Close()
					}
				})
				stalled.Go(func() {
					var report score.Report
					if r.decode(t.Context(), fmt.Sprint("hostile ", i%2), &http.Response{Body: body, ContentLength: -1}, maxReport,
						&report) == nil {
						t.Error("half an answer was decoded")
					}
				})
			}
			synctest.Wait()
			began := time.Now()
			var report score.Report
			answer := &http.Response{Body: io.NopCloser(strings.NewReader(`{"judge":"j"}`)), ContentLength: 13}
			if err := r.decode(t.Context(), "another", answer, maxReport, &report); err != nil || report.Judge != "j" ||
				time.Since(began) > 2*bodyPatience {
				t.Errorf("the report of another pool took %v: %v", time.Since(began), err)
			}
			stalled.Wait()
		})
	}
}

func TestReportGivesUp(t *testing.T) {
	released := make(chan struct{})
	r, host := serve(t, func(http.ResponseWriter, *http.Request) { <-released })
	// This runs before the server is closed, which waits for its handlers.
	t.Cleanup(func() { close(released) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Report(ctx, host, "token"); err == nil {
		t.Error("no error for a server that doesn't answer")
	}
	if r.client.Timeout != timeout {
		t.Errorf("the timeout is %v, want %v", r.client.Timeout, timeout)
	}
}
