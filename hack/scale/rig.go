package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/api/v1alpha1"
)

// zapErrors leaves warnings and less out.
const zapErrors = zapcore.ErrorLevel

// stopTimeout is how long a process may take to end when asked to.
const stopTimeout = 30 * time.Second

// rig is a cluster without nodes and an operator in it.
type rig struct {
	tell   func(format string, args ...any)
	config *rest.Config
	client client.Client
	api    *kubernetes.Clientset
	fleet  *fleet
	// players are of the simulated runners.
	players *players

	folder     string // of what is built, configured and logged
	kubeconfig string
	operator   *operator
	undo       []func() error // in order of what was done
}

// newRig brings up everything but the operator.
func newRig(ctx context.Context, s settings, tell func(string, ...any)) (*rig, error) {
	fleet, err := newFleet(idleReport(s.Scenarios), s.AnswerDelay.Duration)
	if err != nil {
		return nil, err
	}
	r := &rig{tell: tell, fleet: fleet}
	for _, step := range []func(context.Context) error{r.prepare, r.startAPIServer, r.startControllerManager,
		r.startNode} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

// close ends what runs, the last first.
func (r *rig) close() error {
	var errs []error
	for len(r.undo) > 0 {
		last := len(r.undo) - 1
		errs = append(errs, r.undo[last]())
		r.undo = r.undo[:last]
	}
	return errors.Join(errs...)
}

// prepare makes the folder and builds the operator as it is released.
func (r *rig) prepare(ctx context.Context) error {
	var err error
	if r.folder, err = os.MkdirTemp("", "csenv-scale-"); err != nil {
		return err
	}
	r.undo = append(r.undo, func() error { return os.RemoveAll(r.folder) }, r.fleet.close)
	r.tell("building the operator")
	_, err = output(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(r.folder, "manager"),
		"./cmd/manager")
	return err
}

// startAPIServer starts etcd and kube-apiserver with the CRDs.
func (r *rig) startAPIServer(ctx context.Context) error {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		said, err := output(ctx, "go", "run", "./hack/cluster", "envtest")
		if err != nil {
			return err
		}
		assets = said
	}
	r.tell("starting etcd and kube-apiserver of %s", assets)
	server := &envtest.Environment{CRDDirectoryPaths: []string{"config/crd/bases"}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets}
	cfg, err := server.Start()
	if err != nil {
		return fmt.Errorf("starting kube-apiserver: %w", err)
	}
	r.undo = append(r.undo, server.Stop)
	r.kubeconfig = filepath.Join(r.folder, "kubeconfig")
	if err := os.WriteFile(r.kubeconfig, server.KubeConfig, 0o600); err != nil {
		return err
	}
	return r.connect(cfg)
}

func (r *rig) connect(cfg *rest.Config) error {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	cfg.QPS = -1
	var err error
	if r.api, err = kubernetes.NewForConfig(cfg); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	if r.client, err = client.New(cfg, client.Options{Scheme: scheme.Scheme}); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	r.config = cfg
	return nil
}

// startControllerManager runs the controllers that pools and runs build upon.
func (r *rig) startControllerManager(ctx context.Context) error {
	binary, err := output(ctx, "go", "run", "./hack/cluster", "binaries", "kube-controller-manager")
	if err != nil {
		return err
	}
	r.tell("starting kube-controller-manager")
	p, err := r.start("kube-controller-manager", binary,
		"--kubeconfig="+r.kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=deployment-controller,replicaset-controller,job-controller,disruption-controller,"+
			"garbage-collector-controller",
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10", "--concurrent-job-syncs=10")
	if err != nil {
		return err
	}
	r.undo = append(r.undo, p.stop)
	return nil
}

func (r *rig) startNode(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r.players = newPlayers(r.client)
	done, err := startNode(ctx, r.config, r.fleet, r.players)
	if err != nil {
		cancel()
		return err
	}
	r.undo = append(r.undo, func() error {
		cancel()
		return <-done
	})
	return nil
}

// process is a program that runs until it is stopped, and logs to a file.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
	err       error // once done is closed
}

func (r *rig) start(name, binary string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(r.folder, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Not bound to a context, which would kill it: it is asked to end.
	p.cmd = exec.Command(binary, args...) //nolint:noctx // see above
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// stop ends the process. It is an error when it had ended by itself: the end of its log is in it.
func (p *process) stop() error {
	select {
	case <-p.done:
		log, _ := os.ReadFile(p.log)
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		return fmt.Errorf("%s has ended (%w):\n%s", p.name, p.err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s did not end within %s", p.name, stopTimeout), p.cmd.Process.Kill())
	}
}

// output runs a command at the checkout's root and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// freeAddress is a loopback address that nothing listens on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
