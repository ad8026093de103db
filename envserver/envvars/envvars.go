// Package envvars names the environment variables through which the operator, servers, runners
// and the csenv command take secrets and settings. Secrets have no flags, because flags show in
// process lists.
package envvars

const (
	// AgentKey holds the API key or the bearer token of the agent's endpoint.
	AgentKey = "CSENV_AGENT_KEY"
	// PoolToken holds the bearer tokens of a protected pool, one a line.
	PoolToken = "CSENV_POOL_TOKEN" //nolint:gosec // a name, not a token
	// RunCredential holds the secret of a run, with which its runners open their ledgers.
	RunCredential = "CSENV_RUN_CREDENTIAL" //nolint:gosec // a name, not a credential
	// JudgeKey holds the API key of the judge's endpoint.
	JudgeKey = "CSENV_JUDGE_API_KEY"
	// CustomerKey holds the API key of the customer's endpoint.
	CustomerKey = "CSENV_CUSTOMER_API_KEY"
	// Results is the folder or URL in which csenv eval stores episodes without --results.
	Results = "CSENV_RESULTS"
	// Stores are the addresses of stores, separated by blanks, to which csenv may send the
	// credentials of its machine when a run of the cluster says that its episodes are there.
	Stores = "CSENV_STORES"
	// EvalKeyFile names the file of the key with which csenv eval signs, in place of the key in the
	// user's configuration folder.
	EvalKeyFile = "CSENV_EVAL_KEY_FILE"
)
