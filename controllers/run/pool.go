package run

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// reportTimeout is for one server, reportBudget for all that are asked in a pass: it must end although a network policy swallows every packet.
	reportTimeout = 3 * time.Second
	reportBudget  = 10 * time.Second
	// maxReportBytes bounds an answer: a report lists every scenario once for each task, in some 150 bytes.
	maxReportBytes = 4 << 20
)

// PoolReader reads what a pool offers from one of its servers.
type PoolReader interface {
	// Report asks the server at a pod's address.
	Report(ctx context.Context, podIP string) (score.Report, error)
}

// httpPool reads reports over HTTP from the operations port.
type httpPool struct {
	client *http.Client
	port   int
}

func newHTTPPool() *httpPool {
	return &httpPool{
		client: &http.Client{
			Timeout: reportTimeout,
			// No proxy stands between the operator and a pod, and no pod sends it elsewhere.
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		port: v1alpha1.OperationsPort,
	}
}

// Report implements PoolReader.
func (p *httpPool) Report(ctx context.Context, podIP string) (score.Report, error) {
	url := "http://" + net.JoinHostPort(podIP, strconv.Itoa(p.port)) + "/stats"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return score.Report{}, fmt.Errorf("asking for its report: %w", err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return score.Report{}, fmt.Errorf("asking for its report: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return score.Report{}, fmt.Errorf("asking for its report: %s answered %s", url, response.Status)
	}
	var report score.Report
	if err := json.NewDecoder(io.LimitReader(response.Body, maxReportBytes)).Decode(&report); err != nil {
		return score.Report{}, fmt.Errorf("decoding the report of %s: %w", url, err)
	}
	return report, nil
}
