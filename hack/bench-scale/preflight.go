package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

const (
	// spareFiles are the open files of a process in addition to its sessions.
	spareFiles = 500
	// bytesPerSession is the memory of a session on both sides, with the kernel's sockets.
	bytesPerSession = 80 << 10
	// bytesPerProcess is the memory of a server or a client without sessions.
	bytesPerProcess = 150 << 20
)

// host is what the machine offers.
type host struct {
	files  uint64 // the greatest limit of open files
	ports  uint64 // of connections from one address
	memory uint64 // available bytes
	faults []error
}

func readHost() host {
	var h host
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		h.faults = append(h.faults, fmt.Errorf("reading the limit of open files: %w", err))
	}
	h.files = limit.Max
	var first, last uint64
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &last)
	}
	if err != nil {
		h.faults = append(h.faults, fmt.Errorf("reading the range of ports: %w", err))
	}
	h.ports = last - first + 1
	h.memory, err = availableMemory()
	if err != nil {
		h.faults = append(h.faults, err)
	}
	return h
}

func availableMemory() (uint64, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	info, err := fs.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("reading the available memory: %w", err)
	}
	if info.MemAvailableBytes == nil {
		return 0, errors.New("the kernel doesn't report the available memory")
	}
	return *info.MemAvailableBytes, nil
}

// checkHost returns everything that the machine lacks for the measurement.
func checkHost(o options, h host) error {
	if len(h.faults) > 0 {
		return errors.Join(h.faults...)
	}
	sessions := maxSessions(o)
	var lacks []string
	if needed := sessions + spareFiles; needed > o.files {
		lacks = append(lacks, fmt.Sprintf("--files %d: %d sessions of one process need %d open files", o.files,
			sessions, needed))
	}
	if o.files > h.files {
		lacks = append(lacks, fmt.Sprintf("open files: a process may have %d, and --files is %d (ulimit -Hn)", h.files,
			o.files))
	}
	if sessions > h.ports {
		lacks = append(lacks, fmt.Sprintf("ports: a client needs %d, and its address has %d "+
			"(net.ipv4.ip_local_port_range)", sessions, h.ports))
	}
	//nolint:gosec // validated to be positive
	needed := uint64(o.sessions)*bytesPerSession + uint64(2*o.servers+1)*bytesPerProcess
	if needed > h.memory {
		lacks = append(lacks, fmt.Sprintf("memory: about %d MiB are needed, and %d MiB are available", needed>>20,
			h.memory>>20))
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this machine can't run the measurement:\n- %s", strings.Join(lacks, "\n- "))
	}
	return nil
}

// maxSessions returns the largest number of sessions of one process.
func maxSessions(o options) uint64 {
	most := perProcess(o.sessions, o.servers)
	for _, c := range growthCells(o) {
		most = max(most, perProcess(c.sessions, c.servers))
	}
	return uint64(most) //nolint:gosec // validated to be positive
}

func perProcess(sessions, processes int) int { return (sessions + processes - 1) / processes }
