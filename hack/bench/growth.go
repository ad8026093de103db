package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/procfs"
)

// measureGrowth steps sessions without pauses, each server with a client of its own.
func measureGrowth(ctx context.Context, o options) ([]block, error) {
	servers, sessions := orDefault(o.servers, 1, 2, 4, 6), orDefault(o.sessions, 100, 1000, 10_000, 100_000)
	var sizes [][2]int
	for _, n := range servers {
		for _, m := range sessions {
			// More sessions of a process than its open files allow are left out.
			if n > 0 && m >= n && fits(o, m, n) {
				sizes = append(sizes, [2]int{n, m})
			}
		}
	}
	if len(sizes) == 0 {
		return nil, errTooFew
	}
	most := slices.Max(sessions)
	if err := prepareHost(o, 1, most, slices.Max(servers)); err != nil {
		return nil, err
	}
	binary, remove, err := buildServer(ctx, o)
	if err != nil {
		return nil, err
	}
	defer remove()
	var rows []table.Row
	for i, size := range sizes {
		o.tell("%d of %d: %d servers, %d sessions", i+1, len(sizes), size[0], size[1])
		row, err := measureSize(ctx, o, binary, size[0], size[1])
		if err != nil {
			return nil, fmt.Errorf("%d servers with %d sessions: %w", size[0], size[1], err)
		}
		o.tell("  %v", row)
		rows = append(rows, row)
	}
	return []block{{"machine", describeMachine() + fmt.Sprintf(". Every process may have %d open files.", o.files)},
		tableBlock("growth", table.Row{"servers", "sessions", "open", "failed", "steps/s", "step p99", "CPU per step",
			"per session"}, rows)}, nil
}

func measureSize(ctx context.Context, o options, binary string, servers, sessions int) (row table.Row, err error) {
	p, err := startPool(ctx, o, binary, servers)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	idle, err := p.usage()
	if err != nil {
		return nil, err
	}
	c, err := startClients(ctx, o, servers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.during(ctx, func(context.Context) error {
		_, err := c.call("Open", func(i int) any { return o.orderFor(i, servers, sessions, p.addresses()[i:i+1]) })
		return err
	}); err != nil {
		return nil, err
	}
	before, err := p.usage()
	if err != nil {
		return nil, err
	}
	if _, err := c.call("Begin", withoutArgument); err != nil {
		return nil, err
	}
	began := time.Now()
	sleepContext(ctx, o.duration)
	elapsed := time.Since(began)
	after, err := p.usage()
	if err != nil {
		return nil, err
	}
	played, err := c.call("Stop", withoutArgument)
	if err != nil {
		return nil, err
	}
	return table.Row{servers, sessions, played.Open, played.Failed + int(played.LostSessions),
		fmt.Sprintf("%.0f", float64(played.Steps)/elapsed.Seconds()), formatDuration(quantile(played.Answers, 99)),
		formatDuration(after.minus(before).cpu / time.Duration(max(played.Steps, 1))),
		formatMemory(after.minus(idle).memory, played.Open)}, ctx.Err()
}

func orDefault(given []int, usual ...int) []int {
	if len(given) > 0 {
		return given
	}
	return usual
}

const (
	// spareFiles are the open files of a process in addition to its sessions.
	spareFiles = 500
	// bytesPerSession is the memory of a session on both sides, with the kernel's sockets.
	bytesPerSession = 80 << 10
	// bytesPerProcess is the memory of a server or a client without sessions.
	bytesPerProcess = 150 << 20
)

// fits reports whether the open files of a process suffice for its part of the sessions.
func fits(o options, sessions, processes int) bool {
	return uint64((sessions+processes-1)/processes+spareFiles) <= o.files //nolint:gosec // positive
}

// prepareHost checks that the machine has what the sessions need, and sets the limit of open files
// of this process and of those that it starts.
func prepareHost(o options, perProcess, sessions, servers int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	var first, last int
	ports, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(ports), &first, &last)
	}
	if err != nil {
		return fmt.Errorf("reading the range of ports: %w", err)
	}
	memory, err := availableMemory()
	if err != nil {
		return err
	}
	if err := checkHost(o, perProcess, sessions, servers, limit.Max, last-first+1, memory); err != nil {
		return err
	}
	limit.Cur = o.files
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("setting the limit of open files: %w", err)
	}
	return nil
}

// checkHost returns everything that the machine lacks.
func checkHost(o options, perProcess, sessions, servers int, files uint64, ports int, memory uint64) error {
	var lacks []string
	if !fits(o, perProcess, 1) {
		lacks = append(lacks, fmt.Sprintf("%d sessions of one process need %d open files: raise --files %d, or give "+
			"more --servers", perProcess, perProcess+spareFiles, o.files))
	}
	if o.files > files {
		lacks = append(lacks, fmt.Sprintf("a process may have %d open files, and --files is %d (ulimit -Hn)", files,
			o.files))
	}
	if perProcess > ports {
		lacks = append(lacks, fmt.Sprintf("a client needs %d ports, and its address has %d "+
			"(net.ipv4.ip_local_port_range)", perProcess, ports))
	}
	//nolint:gosec // positive
	if needed := uint64(sessions)*bytesPerSession + uint64(2*servers+1)*bytesPerProcess; needed > memory {
		lacks = append(lacks, fmt.Sprintf("about %d MiB of memory are needed, and %d MiB are available", needed>>20,
			memory>>20))
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this machine can't run the measurement:\n- %s", strings.Join(lacks, "\n- "))
	}
	return nil
}

func availableMemory() (uint64, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	info, err := fs.Meminfo()
	if err != nil || info.MemAvailableBytes == nil {
		return 0, fmt.Errorf("reading the available memory: %w", err)
	}
	return *info.MemAvailableBytes, nil
}
