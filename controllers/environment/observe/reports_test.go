package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/score"
)

// statsFunc reads the reports of servers with a function.
type statsFunc func(ctx context.Context, podIP string) (score.Report, error)

func (f statsFunc) Report(ctx context.Context, podIP, _ string, _ ...string) (score.Report, error) {
	return f(ctx, podIP)
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
	got := readReports(t.Context(), stats, "", []corev1.Pod{
		server("ready"),
		server("full", unready),
		server("draining", terminating),
		server("silent", at("10.0.0.9")),
		server("without-address", at("")),
		server("pending", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }),
		server("crashed", waiting("CrashLoopBackOff", "")),
		server("without-container", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }),
	}, snapshot.Snapshot{Pool: children.Pool{Env: pool(), Image: testpool.Image}}.SelectNewest(""))
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"draining", "full", "ready"}, names); diff != "" {
		t.Errorf("pods with a report (-want +got):\n%s", diff)
	}
}

// If a network policy drops the packets to a thousand servers, a pass takes no longer than the
// budget, and never queries more servers at once than allowed. For any order of the answers, only
// one report keeps its offer: that of the first server of the newest template.
func TestReadReportsKeepsOneOffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		answers := rapid.Permutation([]string{"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"}).Draw(r, "answers")
		turns := map[string]chan struct{}{}
		for _, ip := range answers {
			turns[ip] = make(chan struct{})
		}
		close(turns[answers[0]])
		answer := report(1)
		answer.Packs = &score.Packs{Digest: "sha256:" + strings.Repeat("d", 2*snapshot.MaxDigest),
			Error: strings.Repeat("e", 2*maxPackError)}
		stats := statsFunc(func(_ context.Context, podIP string) (score.Report, error) {
			<-turns[podIP]
			if next := slices.Index(answers, podIP) + 1; next < len(answers) {
				close(turns[answers[next]])
			}
			return answer, nil
		})
		var pods []corev1.Pod
		for i, edit := range []func(*corev1.Pod){outdated, terminating, func(*corev1.Pod) {}, func(*corev1.Pod) {}} {
			pods = append(pods, server(fmt.Sprintf("support-%d", i), edit,
				func(pod *corev1.Pod) { pod.Status.PodIP = fmt.Sprintf("10.0.0.%d", i) }))
		}
		got := readReports(t.Context(), stats, "", pods, snapshot.Snapshot{Pool: children.Pool{Env: pool(), Image: testpool.Image}}.SelectNewest(""))
		packs := &score.Packs{Digest: "sha256:" + strings.Repeat("d", snapshot.MaxDigest-7),
			Error: strings.Repeat("e", maxPackError)}
		bare := score.Report{Sessions: answer.Sessions, Episodes: answer.Episodes,
			ScenarioDigest: answer.ScenarioDigest, Packs: packs}
		want := map[string]score.Report{"support-0": bare, "support-1": bare, "support-2": answer, "support-3": bare}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("reports (-want +got):\n%s", diff)
		}
	})
}

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
		got := readReports(t.Context(), stats, "", pods, snapshot.Snapshot{Pool: children.Pool{Env: pool(), Image: testpool.Image}}.SelectNewest(""))
		if took := time.Since(start); took != statsBudget || len(got) != 0 {
			t.Errorf("%d reports after %s, want none after %s", len(got), took, statsBudget)
		}
		if most.Load() != statsInFlight {
			t.Errorf("%d concurrent requests, want %d", most.Load(), statsInFlight)
		}
	})
}
