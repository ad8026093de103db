package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"

	"github.com/csenv/csenv/hack/process"
)

// readyTimeout is how long the operator may take to answer for its metrics.
const readyTimeout = time.Minute

// operator is the released program as a process of its own.
type operator struct {
	process *process.Process
	metrics string // URL
}

// startOperator starts the operator and waits until its metrics can be read.
func (r *rig) startOperator(ctx context.Context) error {
	free, err := process.FreeAddresses(ctx, 1)
	if err != nil {
		return err
	}
	metrics := free[0]
	// One replica needs no Lease.
	p, err := r.start("manager", filepath.Join(r.folder, "manager"),
		"--image=csenv:scale", "--metrics-insecure", "--metrics-bind-address="+metrics, "--health-probe-bind-address=0")
	if err != nil {
		return err
	}
	r.operator = &operator{process: p, metrics: "http://" + metrics + "/metrics"}
	return p.Await(ctx, readyTimeout, func() bool {
		_, err := r.operator.scrape(ctx)
		return err == nil
	})
}

func (r *rig) stopOperator() error {
	p := r.operator.process
	r.operator = nil
	return p.Stop(stopTimeout)
}

func (o *operator) scrape(ctx context.Context) (samples, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.metrics, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	defer resp.Body.Close()
	return parseSamples(resp.Body)
}

// usage is what the operator has used so far.
type usage struct {
	peakMiB    float64 // the most memory that was resident
	cpuSeconds float64
}

func (o *operator) usage() (usage, error) {
	p, err := procfs.NewProc(o.process.PID())
	if err != nil {
		return usage{}, fmt.Errorf("reading what the operator uses: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return usage{}, fmt.Errorf("reading what the operator uses: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, fmt.Errorf("reading what the operator uses: %w", err)
	}
	return usage{peakMiB: float64(status.VmHWM) / (1 << 20), cpuSeconds: stat.CPUTime()}, nil
}
