package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
)

// creation holds the options of csenv run.
type creation struct {
	cluster.Flags
	spec       runFlags
	files      []string
	pool       string
	keySecret  string
	resultsURL string
	baseline   string
	detach     bool
	follow     string
	resume     string
	output     *view.Format
	pollEvery  time.Duration
}

// NewRunCommand returns the command that creates and follows a run in a cluster.
func NewRunCommand() *cobra.Command {
	c := &creation{pollEvery: followInterval}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Create an EvaluationRun in the cluster and follow it until it ends",
		Args:  cobra.NoArgs,
	}
	cli.SetHelp(cmd, "run")
	f := cmd.Flags()
	f.StringArrayVarP(&c.files, "filename", "f", nil, "`file` with an EvaluationRun; - is standard input")
	f.StringVar(&c.pool, "pool", "", "CustomerSupportEnv to play against")
	c.spec.add(cmd)
	f.StringVar(&c.keySecret, "key-secret", "", "`NAME/KEY` of the Secret with the key of the agent's endpoint, in "+
		"the run's namespace")
	f.StringVar(&c.resultsURL, "results-url", "", "bucket and prefix to store episodes in, such as "+
		"s3://bucket/prefix")
	f.StringVar(&c.baseline, "baseline", "", "run to compare with")
	f.BoolVar(&c.detach, "detach", false, "don't wait for the run to end")
	f.StringVar(&c.follow, "follow", "", "follow an existing `run` instead of creating one")
	f.StringVar(&c.resume, "resume", "", "resume a failed `run`, and follow it: shards without errors stay counted")
	c.Add(cmd)
	c.output = view.FormatFlag(f, "table", "json", "yaml", "csv", "markdown")
	_ = cmd.RegisterFlagCompletionFunc("pool", c.Complete(&v1alpha1.CustomerSupportEnvList{}))
	for _, flag := range existing {
		_ = cmd.RegisterFlagCompletionFunc(flag, c.Complete(&v1alpha1.EvaluationRunList{}))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return c.run(cmd) }
	return cmd
}

func (c *creation) run(cmd *cobra.Command) error {
	if err := c.alone(cmd.Flags()); err != nil {
		return err
	}
	connected, run, err := c.start(cmd)
	if err != nil {
		return err
	}
	if c.detach {
		fmt.Fprintln(cmd.OutOrStdout(), run.Name)
		return nil
	}
	run = followRun(cmd, connected, run, c.pollEvery)
	if err := figures.PrintRun(cmd.OutOrStdout(), c.output, run, nil, ""); err != nil {
		return err
	}
	return figures.OutcomeOf(run)
}

// followInterval is the interval between two reads of a followed run.
const followInterval = time.Second

// followPatience is how long reads of a followed run may fail before following stops.
const followPatience = 5 * time.Minute

// followRun waits until the run has ended and shows its progress. It returns the run as last read.
func followRun(cmd *cobra.Command, c *cluster.Connection, run *v1alpha1.EvaluationRun,
	every time.Duration) *v1alpha1.EvaluationRun {
	ctx, name := cmd.Context(), run.Name
	bar := view.NewMeter(cmd.ErrOrStderr(), "run "+name, time.Now)
	state := ""
	answered := time.Now()
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		read := &v1alpha1.EvaluationRun{}
		if err := c.Get(ctx, cluster.NameOf(run), read); err != nil {
			if isTemporary(err) && time.Since(answered) < followPatience {
				return false, nil
			}
			return false, cluster.ExplainError(err, "reading run "+name)
		}
		run, answered = read, time.Now()
		if evaluation.HasNewAttempt(run) {
			return false, nil // the conditions describe the last attempt
		}
		if now, message := figures.StateOf(run); now != state {
			state = now
			if !bar.Terminal || now != v1alpha1.ReasonRunning {
				view.WriteParagraph(cmd.ErrOrStderr(), "", fmt.Sprintf("%s: %s", now, message))
			}
		}
		if e := run.Status.Episodes; e != nil {
			mean := ptr.Deref(run.Status.Score, v1alpha1.Score{}).Mean
			bar.Set(view.Progress{Ended: e.Scored + e.Failed + e.Errored, Total: countEpisodes(run), Errored: e.Errored,
				Score: mean})
		}
		return evaluation.HasEnded(run.Status.Conditions), nil
	})
	bar.Finish()
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
	if err == nil {
		return run
	}
	if ctx.Err() == nil {
		view.WriteParagraph(cmd.ErrOrStderr(), "", "stopped following: "+err.Error())
	}
	if ctx.Err() != nil || !apierrors.IsNotFound(err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "the run continues; follow it with: csenv run --follow %s -n %s\n", name,
			c.Namespace)
	}
	return run
}

// countEpisodes returns the number of episodes of a complete run, or UnknownTotal if trainers may
// play any number.
func countEpisodes(run *v1alpha1.EvaluationRun) int64 {
	if agent := run.Spec.Agent; agent.Type == v1alpha1.ExternalAgent &&
		(agent.External == nil || agent.External.Episodes == nil) {
		return view.UnknownTotal
	}
	return run.Status.Episodes.Total
}

// isTemporary reports whether an error of the API server may be temporary.
func isTemporary(err error) bool {
	return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
}

// existing are the flags that name a run of the cluster.
var existing = []string{"follow", "resume"}

// alone refuses flags that have no effect on an existing run.
func (c *creation) alone(flags *pflag.FlagSet) error {
	for _, flag := range existing {
		if !flags.Changed(flag) {
			continue
		}
		var err error
		flags.Visit(func(f *pflag.Flag) {
			kept := []string{flag, "detach", "output", "kubeconfig", "context", "namespace"}
			if err == nil && !slices.Contains(kept, f.Name) {
				err = fmt.Errorf("--%s can't be combined with --%s: the run exists and keeps its spec", f.Name, flag)
			}
		})
		return err
	}
	return nil
}

// start returns the run to follow: an existing one, a resumed one or a new one.
func (c *creation) start(cmd *cobra.Command) (*cluster.Connection, *v1alpha1.EvaluationRun, error) {
	if name := cmp.Or(c.follow, c.resume); name != "" {
		connected, err := c.Connect()
		if err != nil {
			return nil, nil, err
		}
		run, err := connected.Run(cmd.Context(), name)
		if err == nil && c.resume != "" {
			err = resumeRun(cmd, connected, run)
		}
		return connected, run, err
	}
	run, err := c.object(cmd)
	if err != nil {
		return nil, nil, err
	}
	connected, err := c.Connect()
	if err != nil {
		return nil, nil, err
	}
	if run.Namespace == "" || c.Namespace != "" {
		run.Namespace = connected.Namespace
	}
	connected.Namespace = run.Namespace
	if err := createRun(cmd.Context(), connected, run); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "created run %s in namespace %s\n", run.Name, run.Namespace)
	return connected, run, nil
}

// resumeRun raises spec.attempt of a failed run.
func resumeRun(cmd *cobra.Command, c *cluster.Connection, run *v1alpha1.EvaluationRun) error {
	state, _ := figures.StateOf(run)
	switch {
	case evaluation.IsExternal(run):
		return fmt.Errorf("run %s is of type External and can't be resumed: create another one", run.Name)
	case !meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFailed):
		return fmt.Errorf("run %s has not failed, it is %s: only failed runs can be resumed; follow it with --follow "+
			"%s", run.Name, state, run.Name)
	case evaluation.HasNewAttempt(run):
		fmt.Fprintf(cmd.ErrOrStderr(), "run %s is being resumed already\n", run.Name)
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"attempt":%d}}`, evaluation.NextAttempt(run))
	if err := c.Merge(cmd.Context(), run, patch); err != nil {
		return cluster.ExplainError(err, "resuming run "+run.Name)
	}
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
	fmt.Fprintf(cmd.ErrOrStderr(), "resumed run %s in namespace %s: attempt %d\n", run.Name, run.Namespace,
		*run.Spec.Attempt)
	return nil
}

// object returns the run to create.
func (c *creation) object(cmd *cobra.Command) (*v1alpha1.EvaluationRun, error) {
	if len(c.files) == 0 {
		return c.fromFlags(cmd.Context())
	}
	objects, err := c.spec.read(cmd, c.files)
	if err != nil {
		return nil, err
	}
	if len(objects.Runs) != 1 || len(objects.Pools) > 0 {
		return nil, fmt.Errorf(
			"-f contains %s and %s: give one EvaluationRun, and apply pools with kubectl",
			view.FormatCount(len(objects.Runs), "EvaluationRun"),
			view.FormatCount(len(objects.Pools), "CustomerSupportEnv"),
		)
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
	return manifest.CompleteRun(ctx, run)
}

// createRun creates a run and explains the common errors.
func createRun(ctx context.Context, c *cluster.Connection, run *v1alpha1.EvaluationRun) error {
	err := c.Create(ctx, run)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("run %s already exists in namespace %s: choose another --name, or follow it with "+
			"--follow %s", run.Name, run.Namespace, run.Name)
	}
	if apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces") {
		return fmt.Errorf("there is no namespace %s: create it, or choose another namespace with -n", run.Namespace)
	}
	return cluster.ExplainError(err, "creating the run")
}
