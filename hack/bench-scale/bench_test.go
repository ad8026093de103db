package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/cmd/envserver/serve"
)

// TestMain makes this program a client or an env server if it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != clientCommand && os.Args[1] != "--addr" {
		m.Run()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var err error
	if os.Args[1] == clientCommand {
		err = serveOrders(ctx, os.Stdin, os.Stdout)
	} else {
		err = serve.NewCommand(serve.Setting{Use: "envserver", Version: "test", LookupEnv: os.LookupEnv,
			Logs: os.Stderr}).ExecuteContext(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tiny is a trial of seconds.
func tiny(t *testing.T) options {
	t.Helper()
	if testing.Short() {
		t.Skip("sessions move within the servers' time to drain, which a busy machine exceeds")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limitFiles(limit.Cur); err != nil {
			t.Error(err)
		}
	})
	o := defaultOptions()
	o.servers, o.sessions, o.files, o.binary = 2, 60, 2000, self
	o.pause, o.drain, o.settle, o.duration = 100*time.Millisecond, 6*time.Second, time.Second, 200*time.Millisecond
	o.growthServers, o.growthSessions = []int{1, 2}, []int{10, 40}
	return o
}

// A whole trial: every session is opened, moves when its server is replaced, and neither a session
// nor an episode is lost. The page and the chart have the figures.
func TestTrial(t *testing.T) {
	o, folder := tiny(t), t.TempDir()
	o.out, o.chart = filepath.Join(folder, "scale.md"), filepath.Join(folder, "scale.svg")
	var progress strings.Builder
	if err := runBenchmark(t.Context(), o, io.Discard, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	page, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| sessions open | 60 of 60,", "| connects refused while they were opened | 0 |",
		"| servers replaced | 2 in", "| sessions lost | 0; 60 were open at the end |", "| episodes lost | 0 |",
		"| failures by cause | none |", "| 1 | 10 | 10 | 0 |", "| 2 | 40 | 40 | 0 |"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, figure := range []string{"sessions that moved to another server", "episodes ended"} {
		if !regexp.MustCompile(`\| ` + figure + ` \| [1-9]\d+ \|`).Match(page) {
			t.Errorf("too few %s in\n%s", figure, page)
		}
	}
	chart, err := os.ReadFile(o.chart)
	// Two servers have a line each for rate and latency. In so short a time they may take no
	// processor time that is counted.
	if err != nil || strings.Count(string(chart), "<polyline") < 4 {
		t.Errorf("%v, chart\n%s", err, chart)
	}
}

// A drain shorter than the rest of an episode cuts sessions, which are counted.
func TestLostEpisodesAreCounted(t *testing.T) {
	o := tiny(t)
	o.pause, o.drain, o.settle = 2*time.Second, time.Second, time.Second
	b, err := newBench(t.Context(), o, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	e, err := b.endure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.tally.LostEpisodes == 0 || e.tally.LostSessions != 0 || len(e.causes) == 0 {
		t.Errorf("%+v", e)
	}
}

func TestPreflight(t *testing.T) {
	o := defaultOptions()
	rich := host{files: 20_000, ports: 28_000, memory: 32 << 30}
	if err := checkHost(o, rich); err != nil {
		t.Errorf("the defaults on a machine that has enough: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*options, *host)
		want   []string
	}{
		"files":   {func(_ *options, h *host) { h.files = 1024 }, []string{"a process may have 1024"}},
		"ports":   {func(_ *options, h *host) { h.ports = 5000 }, []string{"its address has 5000"}},
		"memory":  {func(_ *options, h *host) { h.memory = 1 << 30 }, []string{"1024 MiB are available"}},
		"servers": {func(o *options, _ *host) { o.servers = 2 }, []string{"51000 sessions of one process need 51500"}},
		"several": {func(_ *options, h *host) { *h = host{} }, []string{"open files", "ports", "memory"}},
		"a fault": {func(_ *options, h *host) { h.faults = []error{errors.New("no /proc")} }, []string{"no /proc"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, h := o, rich
			c.change(&o, &h)
			err := checkHost(o, h)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	if err := defaultOptions().validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*options){
		"no servers":                  func(o *options) { o.servers = 0 },
		"fewer sessions than servers": func(o *options) { o.sessions = 5 },
		"a short drain":               func(o *options) { o.drain = 149 * time.Second },
	} {
		o := defaultOptions()
		change(&o)
		if o.validate() == nil {
			t.Errorf("no error for %s", name)
		}
	}
}

// The growth leaves out more sessions of a process than its files allow.
func TestGrowthCells(t *testing.T) {
	var got []string
	for _, c := range growthCells(defaultOptions()) {
		got = append(got, fmt.Sprintf("%d/%d", c.servers, c.sessions))
	}
	want := "1/100 1/1000 1/10000 2/100 2/1000 2/10000 4/100 4/1000 4/10000 6/100 6/1000 6/10000 6/100000"
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Error(diff)
	}
	total := 0
	for i := range 6 {
		total += sessionShare(100, 6, i)
	}
	if total != 100 || sessionShare(100, 6, 0) != 16 || sessionShare(102_000, 6, 5) != 17_000 {
		t.Errorf("shares add up to %d", total)
	}
}

func TestAdd(t *testing.T) {
	c := cell{servers: 2, sessions: 4000}
	c.add([]report{{Open: 2000, Steps: 100, Rate: 50, StepP99: time.Second}, {Open: 1999, Failed: 1, Steps: 300,
		Rate: 150, StepP99: 2 * time.Second}}, 40*time.Millisecond, 3999*1024)
	want := "| 2 | 4000 | 3999 | 1 | 200 | 2s | 100µs | 1.0 KiB |\n"
	if got := growthTable([]cell{c}); !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestChart(t *testing.T) {
	cells := []cell{{servers: 1, sessions: 100, rate: 900, p99: time.Millisecond, cpu: 40_000},
		{servers: 1, sessions: 1000, rate: 700, p99: 9 * time.Millisecond, cpu: 50_000, bytes: 40_000},
		{servers: 2, sessions: 1000}}
	chart := chartOf(cells)
	decoder := xml.NewDecoder(strings.NewReader(chart))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, chart)
		}
	}
	for _, want := range []string{"1 server, 1000 sessions: 700", ">2 servers<", "resident KiB per session"} {
		if !strings.Contains(chart, want) {
			t.Errorf("no %q in\n%s", want, chart)
		}
	}
	if n := strings.Count(chart, "<polyline"); n != 3 {
		t.Errorf("%d lines, want those of one number of servers in three panels", n)
	}
	a := axisOf([]float64{0, 3, 250}, 0, 300)
	if diff := cmp.Diff([]float64{1, 10, 100, 1000}, a.powers()); diff != "" || a.at(10) != 100 {
		t.Errorf("10 is at %v, powers %s", a.at(10), diff)
	}
}

func TestQuantile(t *testing.T) {
	var took []time.Duration
	for i := range 100 {
		took = append(took, time.Duration(i))
	}
	if sortedQuantile(took, 0.5) != 50 || sortedQuantile(took, 0.99) != 99 || sortedQuantile(took, 1) != 99 || sortedQuantile(nil, 0.5) != 0 {
		t.Error(sortedQuantile(took, 0.5), sortedQuantile(took, 0.99), sortedQuantile(took, 1))
	}
}

func TestGauge(t *testing.T) {
	const metrics = "# TYPE go_memstats_heap_alloc_bytes gauge\ngo_memstats_heap_alloc_bytes 4096\n"
	if got, err := parseGauge(strings.NewReader(metrics), "go_memstats_heap_alloc_bytes"); err != nil || got != 4096 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseGauge(strings.NewReader(metrics), "other"); err == nil {
		t.Error("a gauge that isn't there has a value")
	}
}
