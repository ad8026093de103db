package observe

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// statsBudget limits the polls of a pool if a network policy drops every packet.
	statsBudget = 10 * time.Second
	// statsInFlight bounds the concurrent polls of a pool.
	statsInFlight = 32
	maxPackError  = 4096 // bytes
	maxJudgeFault = 1024 // bytes
)

// StatsReader reads the report of the server at an address.
type StatsReader interface {
	Report(ctx context.Context, podIP, token string, runs ...string) (score.Report, error)
}

// readReports polls every running pod and returns the reports by pod name. A pod that doesn't
// answer is left out. Only the first pod that describes the pool's tasks keeps its list of them,
// because a pool may have many servers.
func readReports(ctx context.Context, stats StatsReader, token string, servers []corev1.Pod,
	describes func(corev1.Pod) bool) map[string]score.Report {
	ctx, cancel := context.WithTimeout(ctx, statsBudget)
	defer cancel()
	var (
		group   errgroup.Group
		mu      sync.Mutex
		reports = map[string]score.Report{}
		first   = len(servers) // pod that describes the pool's tasks
	)
	group.SetLimit(statsInFlight)
	for i, pod := range servers {
		if !pods.IsServing(&pod) {
			continue
		}
		group.Go(func() error {
			report, err := stats.Report(ctx, pod.Status.PodIP, token)
			if err != nil {
				logf.FromContext(ctx).V(1).Info("Statistics not read", "pod", pod.Name, "reason", err.Error())
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if i < first && describes(pod) {
				if first < len(servers) {
					reports[servers[first].Name] = dropOffer(reports[servers[first].Name])
				}
				first = i
			} else {
				report = dropOffer(report)
			}
			reports[pod.Name] = report
			return nil
		})
	}
	// The functions return no errors.
	_ = group.Wait()
	return reports
}

// dropOffer drops the list of tasks from a report.
func dropOffer(r score.Report) score.Report {
	if p := r.Packs; p != nil {
		r.Packs = &score.Packs{Digest: pods.ClipText(p.Digest, snapshot.MaxDigest),
			Error: pods.ClipText(p.Error, maxPackError)}
	}
	return score.Report{
		ScenarioDigest: pods.ClipText(r.ScenarioDigest, snapshot.MaxDigest), Packs: r.Packs,
		JudgeFault: pods.ClipText(r.JudgeFault, maxJudgeFault),
		Draining:   r.Draining, Sessions: r.Sessions, Episodes: r.Episodes, JudgeFailures: r.JudgeFailures,
	}
}
