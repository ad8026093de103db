package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/envserver/score"
)

// statsFunc makes a statsReader of a function.
type statsFunc func(ctx context.Context, podIP string) (score.Report, error)

func (f statsFunc) Stats(ctx context.Context, podIP string) (score.Report, error) {
	return f(ctx, podIP)
}

func TestHTTPStats(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status  int
		header  http.Header
		body    string
		want    score.Report
		wantErr string
	}{
		"a report": {status: 200, body: `{"judge":"offline-v1","sessions":{"active":3,"capacity":10},"later":true}`,
			want: score.Report{Judge: "offline-v1", Sessions: score.Sessions{Active: 3, Capacity: 10}}},
		"an error":       {status: 503, wantErr: "503 Service Unavailable"},
		"no JSON":        {status: 200, body: "<html>", wantErr: "decoding statistics"},
		"a redirect":     {status: 302, header: http.Header{"Location": {"http://169.254.169.254/"}}, wantErr: "302 Found"},
		"an endless one": {status: 200, body: `{"judge":"` + strings.Repeat("x", maxStatsBytes) + `"}`, wantErr: "unexpected EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), tt.header)
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			defer pod.Close()
			got, err := newHTTPStats().get(t.Context(), pod.URL+"/stats")
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error = %v, want one with %q", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadReports(t *testing.T) {
	t.Parallel()
	at := func(ip string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Status.PodIP = ip } }
	stats := statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
		if podIP == "10.0.0.9" {
			return score.Report{}, errors.New("connection refused")
		}
		return report(1), nil
	})
	got := readReports(t.Context(), stats, []corev1.Pod{
		server("ready"),
		server("full", unready),
		server("draining", terminating),
		server("silent", at("10.0.0.9")),
		server("without-address", at("")),
		server("pending", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }),
		server("crashed", waiting("CrashLoopBackOff", "")),
		server("without-container", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }),
	})
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"draining", "full", "ready"}, names); diff != "" {
		t.Errorf("pods with a report (-want +got):\n%s", diff)
	}
}

// A thousand servers behind a network policy that swallows packets hold up a pass for the budget and no longer, and never are more asked at once
// than allowed.
func TestReadReportsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inFlight, most atomic.Int64
		stats := statsFunc(func(ctx context.Context, _ string) (score.Report, error) {
			n := inFlight.Add(1)
			defer inFlight.Add(-1)
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
			}
			<-ctx.Done()
			return score.Report{}, ctx.Err()
		})
		pods := make([]corev1.Pod, 1000)
		for i := range pods {
			pods[i] = server(fmt.Sprintf("support-%d", i))
		}
		start := time.Now()
		got := readReports(t.Context(), stats, pods)
		if took := time.Since(start); took != statsBudget || len(got) != 0 {
			t.Errorf("%d reports after %s, want none after %s", len(got), took, statsBudget)
		}
		if most.Load() != statsInFlight {
			t.Errorf("%d pods were asked at the same time, want %d", most.Load(), statsInFlight)
		}
	})
}
