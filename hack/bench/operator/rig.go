package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/process"
)

// stopTimeout is how long a process may take to end after SIGTERM.
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

	folder     string // of binaries, kubeconfigs and the audit log
	kubeconfig string
	operator   *operator      // nil while none runs
	killed     mark           // what operators that were killed had done
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

// idleReport returns the report of a server without sessions, with the given number of scenarios in
// each of its tasks.
func idleReport(scenarios int) score.Report {
	report := score.Report{
		Protocol: score.Protocol, Environment: "ticket", ScenarioDigest: scenarioDigest,
		GraderVersion: graderVersion, Judge: judgeName,
		Sessions: score.Sessions{Capacity: sessionsPerPod},
	}
	for _, name := range []string{"ticket-classify", runTask, "queue-management"} {
		task := score.Task{Name: name}
		for i := range scenarios {
			task.Scenarios = append(task.Scenarios, score.Scenario{
				ID: scenarioID(i), Category: "billing", Difficulty: "medium", Language: "en", Split: "public-train",
			})
		}
		report.Tasks = append(report.Tasks, task)
	}
	return report
}

// close ends what runs, the operator and then the last first.
func (r *rig) close() error {
	var errs []error
	if r.operator != nil {
		errs = append(errs, r.stopOperator())
	}
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
	_, err = runCommand(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(r.folder, "manager"),
		"./cmd/manager")
	return err
}

// startAPIServer starts etcd and kube-apiserver with the CRDs.
func (r *rig) startAPIServer(ctx context.Context) error {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		said, err := runCommand(ctx, "go", "run", "./hack/cluster", "envtest")
		if err != nil {
			return err
		}
		assets = said
	}
	r.tell("starting etcd and kube-apiserver of %s", assets)
	server := &envtest.Environment{CRDDirectoryPaths: []string{"config/crd/bases"}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets}
	policy := filepath.Join(r.folder, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	server.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(r.folder, auditLog))
	cfg, err := server.Start()
	if err != nil {
		return fmt.Errorf("starting kube-apiserver: %w", err)
	}
	r.undo = append(r.undo, server.Stop)
	r.kubeconfig = filepath.Join(r.folder, "kubeconfig")
	if err := os.WriteFile(r.kubeconfig, server.KubeConfig, 0o600); err != nil {
		return err
	}
	if err := r.connect(cfg); err != nil {
		return err
	}
	return r.admitOperator(ctx, server)
}

// admitOperator makes the operator's namespace and its user, whose writes the API server logs.
func (r *rig) admitOperator(ctx context.Context, server *envtest.Environment) error {
	user, err := server.AddUser(envtest.User{Name: operatorUser, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("adding the operator's user: %w", err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return fmt.Errorf("adding the operator's user: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.folder, operatorUser), kubeconfig, 0o600); err != nil {
		return err
	}
	return r.createNamespace(ctx, operatorNamespace)
}

func (r *rig) createNamespace(ctx context.Context, name string) error {
	if err := r.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
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
	binary, err := runCommand(ctx, "go", "run", "./hack/cluster", "binaries", "kube-controller-manager")
	if err != nil {
		return err
	}
	r.tell("starting kube-controller-manager")
	cmd := exec.Command(binary, //nolint:noctx // close stops it
		"--kubeconfig="+r.kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=deployment-controller,replicaset-controller,job-controller,disruption-controller,"+
			"garbage-collector-controller",
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10", "--concurrent-job-syncs=10")
	p, err := process.Start("kube-controller-manager", cmd)
	if err != nil {
		return err
	}
	r.undo = append(r.undo, func() error { return p.Stop(stopTimeout) })
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

// runCommand runs a command at the checkout's root and returns what it printed.
func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
