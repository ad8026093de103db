package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// statsTimeout is for one pod, statsBudget for all of a pool: a pass must end although a network policy swallows every packet.
	statsTimeout = 2 * time.Second
	statsBudget  = 10 * time.Second
	// statsInFlight is how many pods of a pool are asked at the same time.
	statsInFlight = 32
	// maxStatsBytes bounds an answer: a report lists every scenario once for each task, in some 150 bytes.
	maxStatsBytes = 4 << 20
)

// statsReader reads what the environment server at a pod's address says of itself.
type statsReader interface {
	Stats(ctx context.Context, podIP string) (score.Report, error)
}

// readReports asks every pod that runs, terminating ones too, and returns the answers by name of the pod. A pod that doesn't answer is left out.
func readReports(ctx context.Context, stats statsReader, pods []corev1.Pod) map[string]score.Report {
	ctx, cancel := context.WithTimeout(ctx, statsBudget)
	defer cancel()
	var (
		group   errgroup.Group
		mu      sync.Mutex
		reports = map[string]score.Report{}
	)
	group.SetLimit(statsInFlight)
	for _, pod := range pods {
		if !serves(pod) {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, statsTimeout)
			defer cancel()
			report, err := stats.Stats(ctx, pod.Status.PodIP)
			if err != nil {
				logf.FromContext(ctx).V(1).Info("Statistics not read", "pod", pod.Name, "reason", err.Error())
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			reports[pod.Name] = report
			return nil
		})
	}
	// The functions return no errors.
	_ = group.Wait()
	return reports
}

// serves reports whether the pod's server has been started and runs. It may be full, starting or draining.
func serves(pod corev1.Pod) bool {
	if pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	status := serverStatus(pod)
	return status != nil && status.State.Running != nil
}

// httpStats reads statistics over HTTP from the operations port.
type httpStats struct{ client *http.Client }

func newHTTPStats() *httpStats {
	return &httpStats{client: &http.Client{
		// No proxy stands between the operator and a pod, and no pod sends it elsewhere.
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * pollInterval},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Stats implements statsReader.
func (h *httpStats) Stats(ctx context.Context, podIP string) (score.Report, error) {
	address := net.JoinHostPort(podIP, strconv.Itoa(v1alpha1.OperationsPort))
	return h.get(ctx, "http://"+address+"/stats")
}

func (h *httpStats) get(ctx context.Context, url string) (score.Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return score.Report{}, fmt.Errorf("asking for statistics: %w", err)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return score.Report{}, fmt.Errorf("asking for statistics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return score.Report{}, fmt.Errorf("asking for statistics: %s answered %s", url, response.Status)
	}
	var report score.Report
	if err := json.NewDecoder(io.LimitReader(response.Body, maxStatsBytes)).Decode(&report); err != nil {
		return score.Report{}, fmt.Errorf("decoding statistics of %s: %w", url, err)
	}
	return report, nil
}
