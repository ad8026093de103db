// Package stats reads the operations port of environment servers: their reports on /stats and the
// episodes of trainers on /rollouts. Users choose the image of a pool, so answers are bounded in
// time and size, and redirects aren't followed.
package stats

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// timeout is for one answer.
	timeout = 3 * time.Second
	// maxReport bounds a report: it lists every scenario once for each task, in some 100 bytes, so
	// a thousand scenarios in three tasks take a third of it.
	maxReport = 1 << 20
	// maxSegment bounds a segment of rollouts, which is a signed ledger in base64 and little else.
	// A pass holds those of all servers.
	maxSegment = 128 << 10
	// idleTimeout outlives the time between two polls of a pool.
	idleTimeout = 30 * time.Second
	// maxDetail bounds, in bytes, what is told of an answer that is an error: events and conditions
	// quote it.
	maxDetail = 256
)

// Reader reads reports over HTTP from the operations port. It is safe for concurrent use.
type Reader struct {
	client *http.Client
	port   int
}

// NewReader returns a reader.
func NewReader() *Reader {
	return &Reader{
		client: &http.Client{
			Timeout: timeout,
			// No proxy stands between the operator and a pod, and no pod sends it elsewhere.
			Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: idleTimeout},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		port: v1alpha1.OperationsPort,
	}
}

// Report reads the statistics of the server at a pod's address.
func (r *Reader) Report(ctx context.Context, podIP string) (score.Report, error) {
	return get[score.Report](ctx, r, podIP, "/stats", "report", maxReport)
}

// Rollouts reads the next segment of a run's rollouts from the server at a pod's address.
func (r *Reader) Rollouts(ctx context.Context, podIP string, question score.CollectRequest) (score.Segment, error) {
	return get[score.Segment](ctx, r, podIP, "/rollouts?"+question.Query().Encode(), "rollouts", maxSegment)
}

// StatusError is an answer with another status than 200.
type StatusError struct {
	Path string
	Code int
	// Detail is the detail of the answer, "" if there is none, of at most maxDetail bytes.
	Detail string
}

func (e *StatusError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s is answered with %d", e.Path, e.Code)
	}
	return fmt.Sprintf("%s is answered with %d %q", e.Path, e.Code, e.Detail)
}

// detailOf reads the detail of an error's answer.
func detailOf(answer io.Reader) string {
	var said struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(answer, maxReport)).Decode(&said) // what isn't ours says nothing
	return strings.ToValidUTF8(said.Detail[:min(len(said.Detail), maxDetail)], "")
}

func get[T any](ctx context.Context, r *Reader, podIP, path, what string, limit int64) (answer T, err error) {
	url := "http://" + net.JoinHostPort(podIP, strconv.Itoa(r.port)) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("asking for its %s: %w", what, err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return answer, fmt.Errorf("asking for its %s: %w", what, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("asking for its %s: %w", what, &StatusError{response.Request.URL.Path,
			response.StatusCode, detailOf(response.Body)})
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, limit)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("decoding the %s of %s, of which %d bytes are read at most: %w", what, url, limit,
			err)
	}
	return answer, nil
}
