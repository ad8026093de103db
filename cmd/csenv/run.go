package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/manifest"
)

// creation is a call of csenv run.
type creation struct {
	clusterFlags
	spec       runFlags
	files      []string
	pool       string
	keySecret  string
	resultsURL string
	baseline   string
	detach     bool
	follow     string
	output     *format
	pollEvery  time.Duration
}

// followInterval is how often a run that is followed is read.
const followInterval = time.Second

func newRunCommand() *cobra.Command {
	c := &creation{pollEvery: followInterval}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Create an EvaluationRun in the cluster and follow it to its score",
		Long: `Create an EvaluationRun in the cluster and follow it to its score: from a manifest with -f, or from
flags. Ctrl-C stops following; the run goes on.

Exit codes: 0 complete, 1 failed, below a threshold, not all stored or no longer followed, 2 not
created.`,
		Example: `  csenv run --pool support --task ticket-resolve --agent heuristic --trials 4
  csenv run --pool support --task ticket-resolve --agent openai --model gpt-4.1-2025-04-14 \
    --key-secret openai/key --threshold meanScore=0.7
  csenv run -f run.yaml --detach
  csenv run --follow heuristic-x7k2p`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVarP(&c.files, "filename", "f", nil, "`file` with an EvaluationRun; - is standard input")
	f.StringVar(&c.pool, "pool", "", "CustomerSupportEnv to play against")
	c.spec.add(cmd)
	f.StringVar(&c.keySecret, "key-secret", "", "`NAME/KEY` of the Secret with the key of the agent's endpoint, in "+
		"the run's namespace")
	f.StringVar(&c.resultsURL, "results-url", "", "bucket and prefix to store every episode in, such as "+
		"s3://bucket/prefix")
	f.StringVar(&c.baseline, "baseline", "", "run to compare with")
	f.BoolVar(&c.detach, "detach", false, "don't wait for the score")
	f.StringVar(&c.follow, "follow", "", "follow a `run` that is there, in place of creating one")
	c.add(cmd)
	c.output = formats(f, "table", "json", "yaml", "csv", "markdown")
	_ = cmd.RegisterFlagCompletionFunc("pool", func(cmd *cobra.Command, _ []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		return c.names(cmd.Context(), &v1alpha1.CustomerSupportEnvList{}), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("follow", func(cmd *cobra.Command, _ []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		return c.names(cmd.Context(), &v1alpha1.EvaluationRunList{}), cobra.ShellCompDirectiveNoFileComp
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return c.run(cmd) }
	return cmd
}

func (c *creation) run(cmd *cobra.Command) error {
	name := c.follow
	var made *v1alpha1.EvaluationRun
	if name == "" {
		var err error
		if made, err = c.object(cmd); err != nil {
			return err
		}
	}
	connected, err := c.connect()
	if err != nil {
		return err
	}
	if made != nil {
		if made.Namespace == "" || c.namespace != "" {
			made.Namespace = connected.namespace
		}
		connected.namespace, name = made.Namespace, made.Name
		if err := create(cmd.Context(), connected, made); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "created run %s in namespace %s\n", made.Name, made.Namespace)
	}
	if c.detach {
		fmt.Fprintln(cmd.OutOrStdout(), name)
		return nil
	}
	run := made
	if run == nil {
		if run, err = connected.run(cmd.Context(), name); err != nil {
			return err
		}
	}
	run = followRun(cmd, connected, run, c.pollEvery)
	if err := printRun(cmd.OutOrStdout(), c.output, run); err != nil {
		return err
	}
	return outcomeOf(run)
}

// object is the run to create.
func (c *creation) object(cmd *cobra.Command) (*v1alpha1.EvaluationRun, error) {
	if len(c.files) == 0 {
		return c.fromFlags(cmd.Context())
	}
	if given := c.spec.given(); len(given) > 0 {
		return nil, fmt.Errorf("%s given together with -f: change the manifest instead, or leave -f out",
			strings.Join(given, ", "))
	}
	objects, err := manifest.Read(cmd.Context(), c.files, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	if len(objects.Runs) != 1 || len(objects.Pools) > 0 {
		return nil, fmt.Errorf("-f holds %s and %s: give one EvaluationRun, and apply pools with kubectl",
			count(len(objects.Runs), "EvaluationRun"), count(len(objects.Pools), "CustomerSupportEnv"))
	}
	return objects.Runs[0], nil
}

func (c *creation) fromFlags(ctx context.Context) (*v1alpha1.EvaluationRun, error) {
	if c.pool == "" {
		return nil, errors.New("--pool is missing: name the CustomerSupportEnv to play against, `kubectl get cse` " +
			"lists them; or give a manifest with -f")
	}
	run, err := c.spec.run(c.pool)
	if err != nil {
		return nil, err
	}
	if c.spec.name == "" {
		run.Name += "-" + rand.String(5)
	}
	if c.keySecret != "" {
		name, key, ok := strings.Cut(c.keySecret, "/")
		ref := &v1alpha1.SecretKeyReference{Name: name, Key: key}
		switch {
		case !ok:
			return nil, fmt.Errorf("--key-secret is %q: write NAME/KEY, a Secret's name and a key in it", c.keySecret)
		case run.Spec.Agent.OpenAI != nil:
			run.Spec.Agent.OpenAI.APIKeySecretRef = ref
		case run.Spec.Agent.HTTP != nil:
			run.Spec.Agent.HTTP.TokenSecretRef = ref
		default:
			return nil, errors.New("--key-secret is for --agent openai and --agent http")
		}
	}
	if c.resultsURL != "" {
		run.Spec.Results = &v1alpha1.Results{URL: c.resultsURL}
	}
	if c.baseline != "" {
		run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: c.baseline}
	}
	return manifest.Run(ctx, run)
}

// create creates a run. A pool that isn't there is told at once: the run would wait for it.
func create(ctx context.Context, c *cluster, run *v1alpha1.EvaluationRun) error {
	err := c.Create(ctx, run)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a run %s in namespace %s already: give another --name, or follow it with "+
			"--follow %s", run.Name, run.Namespace, run.Name)
	}
	if apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces") {
		return fmt.Errorf("there is no namespace %s: create it, or choose another one with -n", run.Namespace)
	}
	return explain(err, "creating the run")
}

// followPatience is how long a cluster may not answer while a run is followed.
const followPatience = 5 * time.Minute

// followRun waits until the run has ended, and shows how far it is. It returns the run as it was
// seen last: one that can't be followed any longer goes on in the cluster.
func followRun(cmd *cobra.Command, c *cluster, run *v1alpha1.EvaluationRun,
	every time.Duration) *v1alpha1.EvaluationRun {
	ctx, name := cmd.Context(), run.Name
	bar := newMeter(cmd.ErrOrStderr(), "run "+name, time.Now)
	defer bar.finish()
	state := ""
	answered := time.Now()
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		read := &v1alpha1.EvaluationRun{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(run), read); err != nil {
			if passing(err) && time.Since(answered) < followPatience {
				return false, nil
			}
			return false, explain(err, "reading run "+name)
		}
		run, answered = read, time.Now()
		if now, message := stateOf(run); now != state {
			state = now
			if !bar.terminal || now != v1alpha1.ReasonRunning {
				paragraph(cmd.ErrOrStderr(), "", fmt.Sprintf("%s: %s", now, message))
			}
		}
		if e := run.Status.Episodes; e != nil {
			bar.set(e.Scored+e.Failed+e.Errored, wanted(run), e.Errored)
		}
		return ended(run), nil
	})
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
	if err == nil {
		return run
	}
	if ctx.Err() == nil {
		paragraph(cmd.ErrOrStderr(), "", "no longer followed: "+err.Error())
	}
	if ctx.Err() != nil || !apierrors.IsNotFound(err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "the run goes on: csenv run --follow %s -n %s\n", name, c.namespace)
	}
	return run
}

// wanted is the number of episodes with which a run is complete, unknownTotal where trainers bring
// as many as they like.
func wanted(run *v1alpha1.EvaluationRun) int64 {
	if agent := run.Spec.Agent; agent.Type == v1alpha1.ExternalAgent &&
		(agent.External == nil || agent.External.Episodes == nil) {
		return unknownTotal
	}
	return run.Status.Episodes.Total
}

// passing reports whether an error of the API server may go away by itself.
func passing(err error) bool {
	return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
}

func ended(run *v1alpha1.EvaluationRun) bool {
	return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFailed)
}

func newResultsCommand() *cobra.Command {
	var from source
	cmd := &cobra.Command{
		Use:   "results RUN",
		Short: "Show a run's figures: overall, by task, dimension and category, errors, provenance",
		Example: `  csenv results heuristic
  csenv results heuristic -o markdown
  csenv results heuristic --results ./results -o csv`,
		Args: oneArgument("RUN", "the name of a run"),
	}
	from.add(cmd)
	output := formats(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printRun(cmd.OutOrStdout(), output, runs[0].EvaluationRun)
	}
	return cmd
}

func newEnvCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "env", Aliases: []string{"pool"}, Short: "Look at pools of environment servers",
		SuggestionsMinimumDistance: 2,
		Args:                       knownCommand, RunE: func(cmd *cobra.Command,
			_ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newEnvStatusCommand())
	return cmd
}
