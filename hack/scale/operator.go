package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
)

// readyTimeout is how long the operator may take to answer for its metrics.
const readyTimeout = time.Minute

// operator is the released program as a process of its own.
type operator struct {
	process *process
	metrics string // URL
}

// startOperator starts the operator and waits until its metrics can be read.
func (r *rig) startOperator(ctx context.Context) error {
	metrics, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	// One replica needs no Lease.
	p, err := r.start("manager", filepath.Join(r.folder, "manager"),
		"--image=csenv:scale", "--metrics-insecure", "--metrics-bind-address="+metrics, "--health-probe-bind-address=0")
	if err != nil {
		return err
	}
	r.operator = &operator{process: p, metrics: "http://" + metrics + "/metrics"}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, readyTimeout, true,
		func(ctx context.Context) (bool, error) {
			_, err := r.operator.scrape(ctx)
			return err == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for the operator's metrics: %w", err)
	}
	return nil
}

func (r *rig) stopOperator() error {
	p := r.operator.process
	r.operator = nil
	return p.stop()
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
	p, err := procfs.NewProc(o.process.cmd.Process.Pid)
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
