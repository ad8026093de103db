package v1alpha1

// Labels of the objects that make up a pool or a run. The names of both kinds are short enough to
// be label values as they are.
const (
	// LabelName is LabelNameValue on every object.
	LabelName = "app.kubernetes.io/name"
	// LabelInstance names the pool.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelComponent distinguishes servers from runners.
	LabelComponent = "app.kubernetes.io/component"
	// LabelManagedBy is LabelManagedByValue on every object. The operator's caches hold only such
	// objects.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelEnvironment names the CustomerSupportEnv.
	LabelEnvironment = "csenv.dev/environment"
	// LabelRun names the EvaluationRun.
	LabelRun = "csenv.dev/run"
)

// AnnotationReplaceLedgerKey on a pool, with its status.ledgerPublicKey as the value, makes the
// operator create a new ledger key. The servers are replaced, and runs that play fail with
// EnvironmentChanged. With another value it has no effect, so it acts once.
const AnnotationReplaceLedgerKey = "csenv.dev/replace-ledger-key"

// FinalizerSummary keeps a runner's pod until its summary is counted.
const FinalizerSummary = "csenv.dev/summary"

// Values of labels.
const (
	// LabelNameValue is the value of LabelName.
	LabelNameValue = "csenv"
	// LabelManagedByValue is the value of LabelManagedBy.
	LabelManagedByValue = "csenv"
	// ComponentEnvServer marks a pool's servers.
	ComponentEnvServer = "env-server"
	// ComponentRunner marks a run's runners.
	ComponentRunner = "runner"
)

// Ports of an environment server's pods.
const (
	// EnvironmentPort serves the OpenEnv protocol and the ledgers.
	EnvironmentPort = 8000
	// OperationsPort serves probes, statistics and metrics.
	OperationsPort = 9000
)

// ScoresKey is the key of a run's ConfigMap under which the table of scenarios is stored.
const ScoresKey = "scores.csv"

// PodsServiceName returns the name of the headless Service that lists all servers of a pool,
// including full and starting ones, because a shard stays with the server that holds its ledger.
func PodsServiceName(environment string) string { return environment + "-pods" }
