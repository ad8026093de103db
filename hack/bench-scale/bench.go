package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

	"github.com/csenv/csenv/envserver/testkit/process"
)

// bench has the program of the servers, and those that run.
type bench struct {
	options

	tell    func(format string, args ...any)
	folder  string
	servers []*process.Server
}

// newBench builds the server.
func newBench(ctx context.Context, o options, tell func(string, ...any)) (*bench, error) {
	folder, err := os.MkdirTemp("", "csenv-bench-scale-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, tell: tell, folder: folder}
	if b.binary != "" {
		return b, nil
	}
	tell("building the server")
	b.binary = filepath.Join(folder, "envserver")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.binary, "./cmd/envserver")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		b.close()
		return nil, fmt.Errorf("building the server: %w", err)
	}
	return b, nil
}

// close ends the servers.
func (b *bench) close() {
	b.kill()
	_ = os.RemoveAll(b.folder)
}

func (b *bench) kill() {
	for _, s := range b.servers {
		s.Kill()
	}
	b.servers = nil
}

// start starts n servers, which replace those before.
func (b *bench) start(ctx context.Context, n int) error {
	b.kill()
	for range n {
		s, err := b.startOne(ctx)
		if err != nil {
			return err
		}
		b.servers = append(b.servers, s)
	}
	return nil
}

// startOne starts a server with the flags of a pod, without limits of idle sessions.
func (b *bench) startOne(ctx context.Context) (*process.Server, error) {
	cmd := exec.CommandContext(ctx, b.binary, "--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
		"--max-sessions", strconv.FormatUint(b.files-spareFiles, 10), "--session-idle-timeout", "0",
		"--session-max-duration", "0", "--drain-timeout", b.drain.String())
	return process.StartServer(ctx, "an env server", cmd)
}

func (b *bench) addresses() []string {
	addresses := make([]string, len(b.servers))
	for i, s := range b.servers {
		addresses[i] = s.Address
	}
	return addresses
}

// usage is what processes use.
type usage struct {
	resident, heap float64 // bytes
	cpu            time.Duration
}

func (u usage) minus(earlier usage) usage {
	return usage{u.resident - earlier.resident, u.heap - earlier.heap, u.cpu - earlier.cpu}
}

func (u usage) plus(other usage) usage {
	return usage{u.resident + other.resident, u.heap + other.heap, u.cpu + other.cpu}
}

// serverUsage sums up the servers.
func (b *bench) serverUsage(ctx context.Context) (usage, error) {
	var sum usage
	for _, s := range b.servers {
		u, err := usageOf(s.PID())
		if err != nil {
			return usage{}, err
		}
		if u.heap, err = heapOf(ctx, s.Ops); err != nil {
			return usage{}, err
		}
		sum = sum.plus(u)
	}
	return sum, nil
}

func usageOf(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("reading what a process uses: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, fmt.Errorf("reading what a process uses: %w", err)
	}
	cpu := time.Duration(stat.CPUTime() * float64(time.Second))
	return usage{resident: float64(stat.ResidentMemory()), cpu: cpu}, nil
}

// heapOf reads the bytes of the objects on a server's heap.
func heapOf(ctx context.Context, ops string) (float64, error) {
	const name = "go_memstats_heap_alloc_bytes"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading a server's metrics: %w", err)
	}
	defer response.Body.Close()
	return parseGauge(response.Body, name)
}

func parseGauge(metrics io.Reader, name string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return 0, fmt.Errorf("reading a server's metrics: %w", err)
	}
	found := families[name].GetMetric()
	if len(found) != 1 {
		return 0, fmt.Errorf("a server's metrics have no %s", name)
	}
	return found[0].GetGauge().GetValue(), nil
}

// cell is a point of the growth.
type cell struct {
	servers, sessions int
	open, failed      int
	rate              float64 // steps per second
	p99               time.Duration
	cpu               time.Duration // of the servers, per step
	bytes             float64       // resident, of the servers, per session
}

// growthCells are the points of the growth for which the open files of a process suffice.
func growthCells(o options) []cell {
	var cells []cell
	for _, servers := range o.growthServers {
		for _, sessions := range o.growthSessions {
			//nolint:gosec // small and positive
			if sessions >= servers && uint64(perProcess(sessions, servers)+spareFiles) <= o.files {
				cells = append(cells, cell{servers: servers, sessions: sessions})
			}
		}
	}
	return cells
}

// measure has one client process for each server.
func (b *bench) measure(ctx context.Context, c *cell) error {
	if err := b.start(ctx, c.servers); err != nil {
		return err
	}
	idle, err := b.serverUsage(ctx)
	if err != nil {
		return err
	}
	var orders []order
	for i, address := range b.addresses() {
		orders = append(orders, order{Kind: kindLoad, Servers: []string{address}, Source: clientAddress(i),
			Sessions: sessionShare(c.sessions, c.servers, i), Seed: int64(1 + i*seedsPerClient), Dialing: b.dialing,
			Duration: b.duration})
	}
	clients, err := startClients(ctx, orders, b.tell)
	if err != nil {
		return err
	}
	defer clients.kill()
	if err := clients.await(ctx, func(r report) bool { return r.Opened }); err != nil {
		return err
	}
	before, err := b.serverUsage(ctx)
	if err != nil {
		return err
	}
	if err := clients.tell(order{Go: true}); err != nil {
		return err
	}
	if err := clients.await(ctx, func(r report) bool { return r.Stepped }); err != nil {
		return err
	}
	after, err := b.serverUsage(ctx)
	if err != nil {
		return err
	}
	if err := clients.tell(order{Stop: true}); err != nil {
		return err
	}
	if err := clients.await(ctx, func(r report) bool { return r.Done }); err != nil {
		return err
	}
	c.add(clients.reports(), after.minus(before).cpu, after.minus(idle).resident)
	return clients.finish(ctx)
}

// add puts the reports of the clients together. The latency is the greatest of the clients.
func (c *cell) add(results []report, cpu time.Duration, resident float64) {
	var steps int64
	for _, r := range results {
		c.open += r.Open
		c.failed += r.Failed
		steps += r.Steps
		c.rate += r.Rate
		c.p99 = max(c.p99, r.StepP99)
	}
	c.cpu = cpu / time.Duration(max(steps, 1))
	c.bytes = resident / float64(max(c.open, 1))
}

// seedsPerClient is the distance of the first seeds of two clients, more than a client plays.
const seedsPerClient = 1_000_000_000

// sessionShare is the number of sessions of the process at the place.
func sessionShare(sessions, processes, place int) int {
	return sessions*(place+1)/processes - sessions*place/processes
}

// clientAddress is the address of a client. Linux gives the whole of 127.0.0.0/8 to the loopback
// interface.
func clientAddress(place int) string { return fmt.Sprintf("127.0.2.%d", 1+place) }
