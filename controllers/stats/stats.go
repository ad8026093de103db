// Package stats reads the operations port of environment servers: their reports on /stats and the
// episodes of trainers on /rollouts. Users choose the image of a pool, so answers are bounded in
// time and size, and redirects aren't followed.
package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/score"
)

const (
	timeout = 3 * time.Second // of one request
	// idleTimeout exceeds the time between two polls of a pool.
	idleTimeout = 30 * time.Second
	// maxReport is the limit in bytes. A report needs at most 250 bytes per scenario and task.
	maxReport = 1 << 20
	// maxSegment is the limit in bytes. A pass holds the segments of all servers in memory.
	maxSegment = 128 << 10
	// maxBodies bounds the answers that are read at a time, in parts of bodyPart bytes. While
	// others wait, an answer may take as long as bodyPatience.
	maxBodies    = 1024
	bodyPart     = 64 << 10
	bodyPatience = 100 * time.Millisecond
	// maxDecoding bounds the answers that are decoded at a time: the smallest JSON of a list takes
	// thirty times as much memory when decoded.
	maxDecoding = 2
	// maxOffered bounds the scenarios of a report's tasks, and maxRunName the bytes of a run's UID.
	maxOffered = 16_384
	maxRunName = 64
	// maxDetail is the limit in bytes of the detail of an error, which events and conditions quote.
	maxDetail = 256
)

// Reader reads reports over HTTP from the operations port. It is safe for concurrent use.
type Reader struct {
	client *http.Client
	port   int
	// bodies and decoding are shared by all pools, whose servers may answer as much as is allowed.
	bodies   *fairness.Budget
	decoding *semaphore.Weighted
}

// NewReader returns a reader.
func NewReader() *Reader {
	return &Reader{
		client: &http.Client{
			Timeout: timeout,
			// Without the proxy of the environment, which doesn't reach pods.
			Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: idleTimeout},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		port:   v1alpha1.OperationsPort,
		bodies: fairness.NewMemory(maxBodies, bodyPart, bodyPatience), decoding: semaphore.NewWeighted(maxDecoding),
	}
}

// Report reads the statistics of the server at a pod's address, with the counts of at most
// score.MaxRunReports runs, by UID. The token opens its operations port.
func (r *Reader) Report(ctx context.Context, podIP, token string, runs ...string) (score.Report, error) {
	path := "/stats?" + url.Values{"run": runs}.Encode()
	report, err := getJSON[score.Report](ctx, r, podIP, token, path, "report", maxReport)
	if err != nil {
		return report, err
	}
	return boundReport(report)
}

// boundReport returns a report that is safe to keep. Servers send no more than it keeps.
func boundReport(report score.Report) (score.Report, error) {
	offered := len(report.Tasks)
	for _, task := range report.Tasks {
		offered += len(task.Scenarios)
	}
	if offered > maxOffered {
		return score.Report{}, fmt.Errorf("its report has %d tasks and scenarios: a server may offer %d; use more "+
			"pools", offered, maxOffered)
	}
	report.Runs = slices.Clone(report.Runs[:min(len(report.Runs), score.MaxRunReports)])
	report.Runs = slices.DeleteFunc(report.Runs, func(run score.RunReport) bool { return len(run.Run) > maxRunName })
	return report, nil
}

// Rollouts reads the next segment of a run's rollouts from the server at a pod's address.
func (r *Reader) Rollouts(ctx context.Context, podIP, token string, question score.CollectRequest) (score.Segment,
	error) {
	return getJSON[score.Segment](ctx, r, podIP, token, "/rollouts?"+question.Query().Encode(), "rollouts", maxSegment)
}

// StatusError is a response with another status than 200.
type StatusError struct {
	Path   string
	Code   int
	Detail string // of at most maxDetail bytes
}

func (e *StatusError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s returned status %d", e.Path, e.Code)
	}
	return fmt.Sprintf("%s returned status %d %q", e.Path, e.Code, e.Detail)
}

// detailOf reads the detail of an error, "" from a body in another format.
func detailOf(body io.Reader) string {
	var problem struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(body, maxReport)).Decode(&problem)
	return strings.ToValidUTF8(problem.Detail[:min(len(problem.Detail), maxDetail)], "")
}

func getJSON[T any](
	ctx context.Context,
	r *Reader,
	podIP, token, path, what string,
	limit int64,
) (answer T, err error) {
	url := "http://" + net.JoinHostPort(podIP, strconv.Itoa(r.port)) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("requesting its %s: %w", what, err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := r.client.Do(request)
	if err != nil {
		return answer, fmt.Errorf("requesting its %s: %w", what, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("requesting its %s: %w", what,
			&StatusError{response.Request.URL.Path, response.StatusCode, detailOf(response.Body)})
	}
	if err := r.decode(ctx, token, response, limit, &answer); err != nil {
		return answer, fmt.Errorf("decoding the %s of %s, limited to %d bytes: %w", what, url, limit, err)
	}
	return answer, nil
}

// decode reads an answer when the shared budgets have space for it. The servers of a pool, which
// have the same token, get at most half.
func (r *Reader) decode(ctx context.Context, pool string, response *http.Response, limit int64, answer any) error {
	size := limit
	if response.ContentLength >= 0 {
		size = min(response.ContentLength, limit)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body bytes.Buffer
	release, err := r.bodies.Read(ctx, pool, &body, response.Body, int(size), timeout,
		func() { _ = response.Body.Close() })
	defer release()
	if errors.Is(err, fairness.ErrNoPart) {
		return fmt.Errorf("waiting for the answers of other servers: %w", err)
	}
	if err != nil {
		return err
	}
	if err := r.decoding.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting for the answers of other servers: %w", err)
	}
	defer r.decoding.Release(1)
	return json.Unmarshal(body.Bytes(), answer)
}
