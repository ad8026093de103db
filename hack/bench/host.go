package main

import (
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
	if uint64(perProcess+spareFiles) > o.files { //nolint:gosec // positive
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
