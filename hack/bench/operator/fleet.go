package operator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// fleet answers for the environment servers of all simulated pods. Each pod has a loopback address,
// as Linux gives the whole of 127.0.0.0/8, and listens there on the operations port for as long as
// it runs: an address that is gone refuses connections, as a real one would.
type fleet struct {
	capacity int64
	answer   string // of /stats, with a verb for the active sessions
	delay    time.Duration
	// busy makes every answer report another number of sessions than the one before.
	busy    atomic.Bool
	answers atomic.Int64
	// full are the addresses whose servers have no free session, or almost none while busy.
	full atomic.Pointer[map[string]bool]

	mu    sync.Mutex
	pods  map[types.UID]*http.Server // at their addresses
	next  uint32
	sweep *sweep
}

// sweep is one round over all pods: it ends when each of those that ran when it began has answered.
type sweep struct {
	pods        int
	missing     map[string]bool // addresses
	first, last time.Time
	done        chan struct{}
}

// newFleet returns a fleet whose servers answer with the report of an idle one.
func newFleet(report score.Report, delay time.Duration) (*fleet, error) {
	answer, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("encoding a report: %w", err)
	}
	return &fleet{
		capacity: report.Sessions.Capacity,
		answer:   strings.Replace(string(answer), `"active":0`, `"active":%d`, 1),
		delay:    delay, pods: map[types.UID]*http.Server{},
	}, nil
}

// start has the pod's server listen and returns its address, the same for every call until stop.
// The handler answers for trainers' episodes.
func (f *fleet) start(ctx context.Context, pod types.UID, rollouts http.HandlerFunc) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if server, ok := f.pods[pod]; ok {
		return server.Addr, nil
	}
	f.next++
	// Nothing else listens in 127.1.0.0/16, and when its addresses come around again, the first
	// pods are long gone.
	var octets [4]byte
	binary.BigEndian.PutUint32(octets[:], 127<<24|1<<16|f.next%(1<<16))
	address := netip.AddrFrom4(octets).String()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4",
		net.JoinHostPort(address, strconv.Itoa(v1alpha1.OperationsPort)))
	if err != nil {
		return "", fmt.Errorf("listening for a simulated pod (does something else use port %d on all addresses?): %w",
			v1alpha1.OperationsPort, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, r *http.Request) { f.stats(r.Context(), w, address) })
	mux.HandleFunc("GET /rollouts", rollouts)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	f.pods[pod] = server
	// It returns when the server is closed.
	go func() { _ = server.Serve(listener) }()
	return address, nil
}

// stop ends the pod's server, if it has one.
func (f *fleet) stop(pod types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if server, ok := f.pods[pod]; ok {
		_ = server.Close()
		delete(f.pods, pod)
	}
}

// close ends all servers.
func (f *fleet) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, server := range f.pods {
		_ = server.Close()
	}
	clear(f.pods)
	return nil
}

// stats answers like a server. What every answer has in common is encoded once: the operator is to
// be measured, and shares its processors.
func (f *fleet) stats(ctx context.Context, w http.ResponseWriter, address string) {
	f.asked()
	active := f.active(address)
	timer := time.NewTimer(f.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := fmt.Fprintf(w, f.answer, active)
	f.answered(address, err)
}

// active is the number of sessions that a server reports.
func (f *fleet) active(address string) int64 {
	n, busy := f.answers.Add(1), f.busy.Load()
	full := f.full.Load()
	switch {
	case full != nil && !(*full)[address]:
		return 0
	case full != nil && busy:
		return f.capacity - n%churn
	case full != nil:
		return f.capacity
	case busy:
		return n % f.capacity
	}
	return 0
}

// churn bounds the sessions of a full server that have ended and aren't replaced yet.
const churn = 50

// fill has every server that runs now be full, and servers that start later be empty. It returns
// the number of sessions.
func (f *fleet) fill() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := map[string]bool{}
	for _, server := range f.pods {
		full[server.Addr] = true
	}
	f.full.Store(&full)
	return int64(len(full)) * f.capacity
}

// took is the time from the first question to the last answer. It may be called once done is
// closed.
func (s *sweep) took() time.Duration { return s.last.Sub(s.first) }

func (f *fleet) asked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sweep != nil && f.sweep.first.IsZero() {
		f.sweep.first = time.Now()
	}
}

func (f *fleet) answered(address string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sweep
	if s == nil || err != nil {
		return
	}
	if !s.missing[address] {
		return
	}
	delete(s.missing, address)
	if len(s.missing) == 0 {
		s.last, f.sweep = time.Now(), nil
		close(s.done)
	}
}
