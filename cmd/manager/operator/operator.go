// Package operator is the program manager: the operator, which reconciles CustomerSupportEnvs and
// EvaluationRuns.
package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment"
	"github.com/csenv/csenv/controllers/objects"
	runs "github.com/csenv/csenv/controllers/run"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/tracing/otlp"
)

// leaderElectionID names the Lease for which replicas of the operator compete.
const leaderElectionID = "csenv-manager"

// version is the program's version.
var version = "dev"

// Main runs the program of a version.
func Main(of string) {
	version = of
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		exitWithError(err)
	case o.showVersion:
		fmt.Println(version)
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.log)))
	if err := limitMemory(os.Getenv); err != nil {
		exitWithError(err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		exitWithError(fmt.Errorf("finding the cluster: %w", err))
	}
	do := runManager
	if o.cleanUp {
		do = cleanUp
	}
	if err := do(ctrl.SetupSignalHandler(), config, o); err != nil {
		exitWithError(err)
	}
}

func exitWithError(err error) {
	fmt.Fprintln(os.Stderr, "manager:", err)
	os.Exit(1)
}

// limitMemory has the garbage collector keep the memory below nine tenths of $MEMORY_LIMIT, the
// container's limit in bytes. The rest is for what isn't on the heap. GOMEMLIMIT takes precedence.
func limitMemory(getenv func(string) string) error {
	limit := getenv("MEMORY_LIMIT")
	if limit == "" || getenv("GOMEMLIMIT") != "" {
		return nil
	}
	bytes, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || bytes <= 0 {
		return fmt.Errorf("MEMORY_LIMIT is %q: set it to the memory limit of the container in bytes, or unset it",
			limit)
	}
	debug.SetMemoryLimit(bytes / 10 * 9)
	return nil
}

const defaultMaxUpdates = 5

// options are the command line flags.
type options struct {
	metricsAddress string
	probeAddress   string
	image          string
	leaseNamespace string
	namespace      string
	namespaces     namespaceList
	maxUpdates     int
	leaderElect    bool
	cleanUp        bool
	insecure       bool
	showVersion    bool
	log            zap.Options
}

// namespaceFile holds the namespace of a pod's service account.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the pod's namespace, "" outside of a cluster.
func ownNamespace(getenv func(string) string, file string) string {
	if namespace := getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func parseOptions(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "address of /metrics; 0 disables it")
	flags.BoolVar(&o.insecure, "metrics-insecure", false,
		"serve metrics over HTTP without authorisation, instead of HTTPS to clients that the cluster authorises")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.BoolVar(&o.leaderElect, "leader-elect", false,
		"reconcile only while holding the Lease "+leaderElectionID+"; required with more than one replica")
	flags.StringVar(&o.leaseNamespace, "leader-election-namespace", "",
		"namespace of the Lease; defaults to the pod's")
	flags.StringVar(&o.image, "image", os.Getenv("CSENV_IMAGE"),
		"image of servers and runners; defaults to $CSENV_IMAGE")
	flags.StringVar(&o.namespace, "namespace", ownNamespace(os.Getenv, namespaceFile),
		"namespace of this program, which managed NetworkPolicies admit to the operations port; defaults to "+
			"$POD_NAMESPACE or the service account's namespace; if empty, they admit every client to that port")
	flags.Var(&o.namespaces, "watch-namespaces",
		"comma-separated `names` of the namespaces whose pools and runs are reconciled; all by default")
	flags.BoolVar(&o.cleanUp, "cleanup", false,
		"delete all pools and runs of the watched namespaces, wait until they are gone, and exit; the operator "+
			"must run meanwhile")
	flags.IntVar(&o.maxUpdates, "max-pool-updates", defaultMaxUpdates,
		"number of pools whose servers are replaced at the same time after an update of this program")
	flags.BoolVar(&o.showVersion, "version", false, "print the version and exit")
	o.log.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: the manager accepts only flags", flags.Arg(0))
	}
	if o.maxUpdates < 1 {
		return options{}, fmt.Errorf("--max-pool-updates is %d: use at least 1", o.maxUpdates)
	}
	if o.image == "" && !o.showVersion && !o.cleanUp {
		return options{}, errors.New("no image for servers and runners: set --image or CSENV_IMAGE to the image " +
			"of this program")
	}
	return o, nil
}

// runManager reconciles until the context ends.
func runManager(ctx context.Context, config *rest.Config, o options) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managerOptions(o, scheme))
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := objects.IndexRuns(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := environment.New(mgr, environment.Options{Image: o.image, Namespace: o.namespace,
		MaxUpdates: o.maxUpdates}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the environment controller: %w", err)
	}
	options := runs.Options{Image: o.image, Version: version}
	defer traceRuns(ctx, &options, mgr.GetLogger())()
	if err := runs.New(mgr, options).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the run controller: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("adding health checks: %w", err)
		}
	}
	mgr.GetLogger().Info("Starting", "version", version, "image", o.image, "namespace", o.namespace,
		"watching", cmp.Or(o.namespaces.String(), "all namespaces"))
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// traceRuns has runs traced, by the operator and its runners, if the OTEL_ variables turn tracing
// on. The returned function sends the last spans.
func traceRuns(ctx context.Context, options *runs.Options, log logr.Logger) func() {
	traces := otlp.New(ctx, otlp.Config{Service: "csenv-manager", Version: version,
		Log: slog.New(logr.ToSlogHandler(log))})
	if traces != nil { // a nil pointer in the interface would be no nil
		options.Traces, options.TracingVariables = traces, runner.SelectTracingVariables(os.Getenv)
	}
	return func() { traces.Close(ctx) }
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

func managerOptions(o options, scheme *runtime.Scheme) ctrl.Options {
	options := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsOptions(o),
		HealthProbeBindAddress:  o.probeAddress,
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        leaderElectionID,
		LeaderElectionNamespace: o.leaseNamespace,
		// The program ends with the manager, so nothing continues to work without the Lease.
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cacheOptions(o.namespaces),
		// The operator may not read Secrets, so none may reach a cache. Of ConfigMaps, whose number
		// and size users determine, it caches only the metadata.
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	}
	if len(o.namespaces) > 0 {
		options.NewClient = newScopedClient(o.namespaces)
	}
	return options
}

// metricsOptions serves metrics with a self-signed certificate to clients that the API server
// authorises to get /metrics.
func metricsOptions(o options) metricsserver.Options {
	if o.insecure {
		return metricsserver.Options{BindAddress: o.metricsAddress}
	}
	return metricsserver.Options{
		BindAddress:    o.metricsAddress,
		SecureServing:  true,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
		// HTTP/2 lets clients reset streams faster than the server handles them (CVE-2023-44487).
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
}

// cacheOptions limits the cache to csenv's objects, because few pods are servers or runners.
func cacheOptions(namespaces []string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(
		labels.Set{v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue})}
	watched := map[string]cache.Config{} // if empty, all
	for _, name := range namespaces {
		watched[name] = cache.Config{}
	}
	return cache.Options{
		DefaultNamespaces: watched,
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            ours,
			&batchv1.Job{}:                  ours,
			&corev1.ConfigMap{}:             ours,
			&corev1.Pod{}:                   ours,
			&corev1.Service{}:               ours,
			&networkingv1.NetworkPolicy{}:   ours,
			&policyv1.PodDisruptionBudget{}: ours,
		},
	}
}
