package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/testkit/process"
)

// readyTimeout is how long the operator may take to answer for its metrics.
const readyTimeout = time.Minute

// operator is the released program as a process of its own.
type operator struct {
	process *process.Process
	metrics string // URL
}

const (
	// operatorUser is the operator's name to the API server, and the file of its kubeconfig.
	operatorUser      = "csenv-manager"
	operatorNamespace = "csenv-system"
	// auditLog is the file with the operator's writes.
	auditLog = "audit.log"
	// deployment is what the operator is released with.
	deployment = "config/manager/deployment.yaml"
)

// parseDeployment returns the arguments and the environment with which a Deployment runs the
// operator. A container's processor limit throttles all its threads; here the same number of them
// run.
func parseDeployment(manifest []byte) (args, env []string, err error) {
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(manifest, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the operator's Deployment: %w", err)
	}
	if len(d.Spec.Template.Spec.Containers) != 1 {
		return nil, nil, fmt.Errorf("the operator's Deployment has %d containers", len(d.Spec.Template.Spec.Containers))
	}
	c := d.Spec.Template.Spec.Containers[0]
	memory, processors := c.Resources.Limits.Memory().Value(), c.Resources.Limits.Cpu().Value()
	if memory == 0 || processors == 0 {
		return nil, nil, errors.New("the operator's Deployment limits no memory or no processors")
	}
	return c.Args, []string{fmt.Sprintf("MEMORY_LIMIT=%d", memory), fmt.Sprintf("GOMAXPROCS=%d", processors),
		"POD_NAMESPACE=" + operatorNamespace, "CSENV_IMAGE=csenv:scale"}, nil
}

// startOperator starts the operator as it is released and waits until its metrics can be read.
func (r *rig) startOperator(ctx context.Context) error {
	manifest, err := os.ReadFile(deployment)
	if err != nil {
		return err
	}
	args, env, err := parseDeployment(manifest)
	if err != nil {
		return err
	}
	free, err := process.FreeAddresses(ctx, 1)
	if err != nil {
		return err
	}
	args = append(args, "--leader-election-namespace="+operatorNamespace, "--metrics-insecure",
		"--metrics-bind-address="+free[0], "--health-probe-bind-address=0")
	cmd := exec.Command(filepath.Join(r.folder, "manager"), args...) //nolint:noctx // close stops it
	cmd.Env = append(append(os.Environ(), env...), "KUBECONFIG="+filepath.Join(r.folder, operatorUser))
	p, err := process.Start("manager", cmd)
	if err != nil {
		return err
	}
	r.operator = &operator{process: p, metrics: "http://" + free[0] + "/metrics"}
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

func parseSamples(r io.Reader) (samples, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
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
