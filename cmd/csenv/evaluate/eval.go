// Package evaluate starts evaluations: on this machine, in a cluster, and against a server.
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/judgeflags"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/rollout"
	"github.com/csenv/csenv/scenarios"
)

// evalCommand holds the options of csenv eval.
type evalCommand struct {
	spec    runFlags
	files   []string
	packs   *[]string
	judge   judgeflags.Options
	verbose bool
	// store is the location of the episodes; fresh plays the stored ones again.
	store  string
	fresh  bool
	output *view.Format
}

// NewEvalCommand returns the command that plays a run on this machine.
func NewEvalCommand() *cobra.Command {
	e := evalCommand{judge: judgeflags.Default()}
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Play an evaluation on this machine and print its score, without a cluster",
		Args:  cobra.NoArgs,
	}
	cli.Help(cmd, "eval")
	f := cmd.Flags()
	f.StringArrayVarP(&e.files, "filename", "f", nil, "`file` with an EvaluationRun or its CustomerSupportEnv; "+
		"may be repeated, - is standard input")
	e.spec.add(cmd)
	e.packs, e.output = cli.PackFlag(f), view.FormatFlag(f, "table", "json", "yaml", "csv", "markdown")
	e.judge.AddFlags(f)
	f.StringVar(&e.store, "results", "", "`folder or URL` to store episodes in; episodes that an earlier call "+
		"stored for the same run aren't played again")
	f.BoolVar(&e.fresh, "fresh", false, "play every episode, even if --results contains it")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "log every failed attempt")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return e.eval(cmd) }
	return cmd
}

func (e *evalCommand) eval(cmd *cobra.Command) error {
	run, pool, err := e.objects(cmd)
	if err != nil {
		return err
	}
	catalog, err := cli.LoadCatalog(*e.packs)
	if err != nil {
		return err
	}
	options, err := e.options(cmd, run, pool, catalog)
	if err != nil {
		return err
	}
	if run.UID, err = local.UID(run, options.Kind); err != nil {
		return err
	}
	if e.fresh {
		run.UID = types.UID(uuid.NewString())
	}
	if e.store != "" {
		if options.Store, err = results.Open(cmd.Context(), e.store); err != nil {
			return err
		}
		defer options.Store.Close()
		options.Location, options.LedgerKey = e.store, local.LedgerKey(run.UID)
	}
	var resumed int64
	meter := view.NewMeter(cmd.ErrOrStderr(), "playing "+run.Name, options.Clock.Now)
	options.Progress = func(p local.Progress) {
		resumed = p.Resumed
		meter.Set(p.Ended, p.Total, p.Errored)
	}
	failures := newFailureLog(e.verbose, cmd.ErrOrStderr())
	options.Log = slog.New(failures)
	err = local.Play(cmd.Context(), run, options)
	meter.Finish()
	if err != nil {
		return err
	}
	failures.print(cmd.ErrOrStderr())
	if resumed > 0 {
		view.Paragraph(cmd.ErrOrStderr(), "", fmt.Sprintf("%s reused from %s: --fresh plays them again",
			view.Count(int(resumed), "episode"), e.store))
	}
	if err := figures.PrintRun(cmd.OutOrStdout(), e.output, run); err != nil {
		return err
	}
	return figures.OutcomeOf(run)
}

// objects returns the run, completed and validated, and its pool.
func (e *evalCommand) objects(cmd *cobra.Command) (*v1alpha1.EvaluationRun, *v1alpha1.CustomerSupportEnv, error) {
	ctx := cmd.Context()
	if len(e.files) == 0 {
		run, err := e.spec.run("local")
		if err == nil {
			run, err = manifest.Run(ctx, run)
		}
		if err != nil {
			return nil, nil, err
		}
		pool, err := poolOf(ctx, run, nil)
		return run, pool, err
	}
	objects, err := e.spec.read(cmd, e.files)
	if err != nil {
		return nil, nil, err
	}
	if len(objects.Runs) != 1 {
		return nil, nil, fmt.Errorf("-f contains %s: give one EvaluationRun at a time",
			view.Count(len(objects.Runs), "EvaluationRun"))
	}
	run := objects.Runs[0]
	if run.Spec.Suspend != nil && *run.Spec.Suspend {
		return nil, nil, errors.New("the run's spec.suspend is true, so nothing would be played: remove it")
	}
	if run.Spec.Agent.Type == v1alpha1.ExternalAgent {
		return nil, nil, errors.New("the run's agent is External: it counts the episodes that trainers play against " +
			"a pool in a cluster. Create it in the cluster with `csenv run -f`, or choose another agent")
	}
	e.unused(cmd.ErrOrStderr(), run)
	pool, err := poolOf(ctx, run, objects.Pools)
	return run, pool, err
}

// unused warns about fields of a manifest that matter only in a cluster.
func (e *evalCommand) unused(w io.Writer, run *v1alpha1.EvaluationRun) {
	if run.Spec.Results != nil && e.store == "" {
		view.Paragraph(w, "", "spec.results is ignored outside a cluster, so nothing is stored: --results stores "+
			"every episode")
	}
	if ref := run.Spec.BaselineRef; ref != nil {
		view.Paragraph(w, "", fmt.Sprintf("spec.baselineRef is ignored outside a cluster: compare with `csenv "+
			"compare %s %s`", run.Name, ref.Name))
	}
}

// poolOf returns the pool that the run refers to. Without manifests of pools it is the default pool
// of the tasks' environment.
func poolOf(ctx context.Context, run *v1alpha1.EvaluationRun,
	pools []*v1alpha1.CustomerSupportEnv) (*v1alpha1.CustomerSupportEnv, error) {
	ref := run.Spec.EnvironmentRef
	names := make([]string, len(pools))
	for i, pool := range pools {
		if pool.Name == ref.Name {
			return pool, nil
		}
		names[i] = pool.Name
	}
	if len(pools) > 0 {
		return nil, fmt.Errorf("the run's environmentRef is %s, and -f contains the pools %s: give that pool's "+
			"manifest", ref.Name, strings.Join(names, ", "))
	}
	environment, err := local.EnvironmentOf(run.Spec.Tasks[0].Name)
	if err != nil {
		return nil, err
	}
	pool := &v1alpha1.CustomerSupportEnv{Spec: v1alpha1.CustomerSupportEnvSpec{Environment: environment}}
	pool.Name = ref.Name
	return manifest.Pool(ctx, pool)
}

// options returns the options of local.Play.
func (e *evalCommand) options(cmd *cobra.Command, run *v1alpha1.EvaluationRun, pool *v1alpha1.CustomerSupportEnv,
	catalog *scenarios.Catalog) (local.Options, error) {
	o := local.Options{Pool: pool.Name, Limits: pool.Spec.Runs, Version: cli.Version, Clock: rollout.SystemClock()}
	if wanted := len(pool.Spec.Scenarios.Packs); wanted > len(*e.packs) {
		return o, fmt.Errorf("pool %s plays %s that are stored in the cluster: give their folders with --pack",
			pool.Name, view.Count(wanted, "pack"))
	}
	judge := e.judge
	var err error
	if cmd.Flags().Changed("judge") {
		judge.FromEnvironment(os.LookupEnv)
		err = judge.Validate(strings.ToLower(string(pool.Spec.Environment)))
	} else if err = judge.Stray(); err == nil {
		judge, err = local.Judge(pool, os.LookupEnv)
	}
	if err != nil {
		return o, err
	}
	if o.Kind, err = local.NewKind(pool, catalog, judge); err != nil {
		return o, err
	}
	o.Agent, o.ActTimeout, err = newAgent(cmd.Context(), run, o.Kind.Name(), catalog)
	return o, err
}

// newAgent builds the agent after checking that its endpoint is reachable, and returns the time
// limit of an action.
func newAgent(ctx context.Context, run *v1alpha1.EvaluationRun, environment string,
	catalog *scenarios.Catalog) (policy.Factory, time.Duration, error) {
	config, err := local.AgentConfig(run.Spec.Agent)
	if err != nil {
		return nil, 0, err
	}
	key := os.Getenv(envvars.AgentKey)
	address, needsKey := local.Endpoint(run.Spec.Agent)
	if (needsKey || strings.HasPrefix(address, openAIBaseURL)) && key == "" {
		return nil, 0, fmt.Errorf("the agent's endpoint %s requires a key: set it in %s", address, envvars.AgentKey)
	}
	if address != "" {
		if err := local.Reach(ctx, address); err != nil {
			return nil, 0, err
		}
	}
	parallel := int(*run.Spec.Parallelism) * int(*run.Spec.Concurrency)
	o := policy.Options{Environment: environment, Catalog: catalog, Key: key, Concurrency: parallel}
	agent, err := policy.New(config, o)
	return agent, config.ActTimeout(o), err
}
