// Package evaluate starts evaluations: on this machine, in a cluster, and against a server.
package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// evalCommand holds the options of csenv eval.
type evalCommand struct {
	spec     runFlags
	files    []string
	packs    *[]string
	judge    modelflags.Judge
	customer modelflags.Customer
	verbose  bool
	// traffic are the requests to the endpoints.
	traffic *traffic
	// store is the location of the episodes; fresh plays the stored ones again.
	store    string
	fresh    bool
	baseline string
	dryRun   bool
	labels   []string
	note     string
	// limit is the number of scenarios of each task, 0 for all.
	limit int
	// mu guards the figures of a dry run, and meter estimates its tokens; nil without a model.
	mu     sync.Mutex
	meter  *policy.Meter
	output *view.Format
	errs   io.Writer
}

// NewEvalCommand returns the command that plays a run on this machine.
func NewEvalCommand() *cobra.Command {
	e := &evalCommand{judge: modelflags.DefaultJudge(), customer: modelflags.DefaultCustomer()}
	cmd := &cobra.Command{
		Use:       "eval [TASK...]",
		Short:     "Play an evaluation on this machine and print its score, without a cluster",
		ValidArgs: tasks.Names(), SuggestFor: []string{"evaluate", "evaluation", "play"},
	}
	cli.SetHelp(cmd, "eval")
	f := cmd.Flags()
	f.StringArrayVarP(&e.files, "filename", "f", nil, "`file` with an EvaluationRun or its CustomerSupportEnv; "+
		"may be repeated, - is standard input")
	e.spec.add(cmd)
	e.packs, e.output = cli.PackFlag(f), view.FormatFlag(f, "table", "json", "yaml", "csv", "markdown")
	e.judge.AddFlags(f)
	e.customer.AddFlags(f)
	f.StringVar(&e.store, "results", "", "`folder or URL` to store episodes in, or none; "+source.DefaultStore+" or "+
		"$"+envvars.Results+" by default. An interrupted run is continued; a complete one is reused with this "+
		"flag, and played again without it")
	f.BoolVar(&e.fresh, "fresh", false, "play every episode, even if it is stored")
	f.StringVar(&e.baseline, "baseline", "", "stored `RUN` to compare with: the name of a run or of its folder, "+
		"or STORE/RUN of another store")
	f.StringSliceVar(&e.labels, "label", nil, "`NAME=VALUE` by which -l selects the run; may be repeated")
	f.StringVar(&e.note, "note", "", "what the run is for, in a `text` that its page shows")
	f.IntVar(&e.limit, "limit", 0, "play at most this `number` of scenarios of each task, drawn by the seed; 0 for all")
	f.BoolVar(&e.dryRun, "dry-run", false, "print what would be played, and play nothing")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "log every failed attempt")
	cmd.RunE = func(cmd *cobra.Command, tasks []string) error {
		if e.limit < 0 {
			return fmt.Errorf("--limit is %d: give a number of scenarios, or 0 for all", e.limit)
		}
		if len(tasks) > 0 && len(e.files) > 0 {
			return fmt.Errorf("the task %s can't be combined with -f: change the manifest, or omit -f", tasks[0])
		}
		e.spec.tasks = append(e.spec.tasks, tasks...)
		e.store = cmp.Or(e.store, source.StoreOfEval())
		return e.eval(cmd)
	}
	return cmd
}

func (e *evalCommand) eval(cmd *cobra.Command) error {
	ctx := cmd.Context()
	e.errs = cmd.ErrOrStderr()
	run, pool, err := e.objects(cmd)
	if err != nil {
		return err
	}
	given, err := labels.ConvertSelectorToLabelsMap(strings.Join(e.labels, ","))
	if err != nil {
		return fmt.Errorf("--label: %w: write, for example, team=support", err)
	}
	for name, value := range given {
		metav1.SetMetaDataLabel(&run.ObjectMeta, name, value)
	}
	if e.note != "" {
		metav1.SetMetaDataAnnotation(&run.ObjectMeta, local.NoteAnnotation, e.note)
	}
	catalog, err := cli.LoadCatalog(*e.packs)
	if err != nil {
		return err
	}
	e.traffic = newTraffic(time.Now)
	tried := e.announce(cmd.ErrOrStderr())
	options, err := e.options(cmd, run, pool, catalog)
	tried()
	if err != nil {
		return err
	}
	if e.dryRun {
		return e.estimate(cmd, run, options)
	}
	if options.Baseline, err = e.loadBaseline(cmd, run); err != nil {
		return err
	}
	closeStore, err := e.keep(ctx, run, &options, cmd.Flags().Changed("results"))
	if err != nil {
		return err
	}
	defer closeStore()
	errs := cmd.ErrOrStderr()
	meter := e.newFollowing(errs, run, &options)
	failures := newFailureLog(e.verbose, errs)
	options.Log = slog.New(failures)
	err = local.Play(ctx, run, options)
	resumed := meter.finish()
	if err != nil {
		return err
	}
	if bound := e.traffic.bound(); bound != "" {
		view.WriteParagraph(errs, "", bound)
	}
	failures.print(errs, run.Status.Episodes.Scored+run.Status.Episodes.Failed)
	if resumed > 0 {
		view.WriteParagraph(errs, "", fmt.Sprintf("%s reused from %s: --fresh plays them again",
			view.FormatCount(int(resumed), "episode"), e.store))
	}
	if e.output.Name == "table" && options.Store != nil {
		from := ""
		if cmd.Flags().Changed("results") {
			from = " --results " + e.store
		}
		name, program := results.RunFolder("", run.Name, string(run.UID)), cli.CalledAs()
		packs := strings.Join(append([]string{""}, *e.packs...), " --pack ")
		worst := ""
		if meter.worst.Score != nil {
			worst = fmt.Sprintf("`%s transcript %s %d%s%s` the episode with the lowest score, ", program, name,
				meter.worst.Index, from, packs)
		}
		figures.PrintSummary(cmd.OutOrStdout(), run, fmt.Sprintf("`%[1]s results %[2]s%[3]s` shows all figures, %[6]s"+
			"`%[1]s ui%[3]s%[4]s` the conversations. Stored in %[5]s.", program, name, from, packs, run.Status.Results,
			worst))
	} else if err := figures.PrintRun(cmd.OutOrStdout(), e.output, run, nil, ""); err != nil {
		return err
	}
	return figures.OutcomeOf(run)
}

// estimate prints what a run would play. The options have the policy that knows the right answers,
// and the judge by rules, so that no endpoint is called. Any other agent that asks, searches or
// errs takes more actions.
func (e *evalCommand) estimate(cmd *cobra.Command, run *v1alpha1.EvaluationRun, o local.Options) error {
	played := run.DeepCopy()
	played.Spec.Thresholds, played.UID = nil, "dry-run"
	var actions, replies int
	o.Log = slog.New(slog.DiscardHandler)
	o.Record = func(r record.Episode) {
		e.mu.Lock()
		defer e.mu.Unlock()
		actions += len(r.Turns)
		replies += len(r.Verdicts)
	}
	if e.meter != nil {
		o.Agent = e.meter.Measure(o.Agent)
	}
	if err := local.Play(cmd.Context(), played, o); err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return fmt.Errorf("estimating the run: %w", err)
	}
	s := view.Section{Header: []string{"what", "value"}}
	value := view.Object{}
	add := func(name, what, text string) {
		s.Rows = append(s.Rows, []string{what, text})
		value = append(value, name, text)
	}
	add("run", "run", run.Name)
	add("agent", "agent", source.AgentName(run))
	if address, _ := local.FindEndpoint(run.Spec.Agent); address != "" {
		add("endpoint", "endpoint", address)
	}
	for _, task := range played.Status.Tasks {
		add(task.Name, "task "+task.Name, view.FormatCount(int(task.Episodes), "episode"))
	}
	add("episodes", "episodes", strconv.FormatInt(played.Status.Episodes.Total, 10))
	add("actions", "actions, at least", strconv.Itoa(actions))
	add("replies", "replies to judge, at least", strconv.Itoa(replies))
	if e.meter != nil {
		requests, used := e.meter.Measured()
		tokens := v1alpha1.Tokens{Prompt: used.Prompt, Completion: used.Completion}
		add("requests", "requests to the model, at least", strconv.FormatInt(requests, 10))
		add("promptTokens", "tokens of prompts, about", strconv.FormatInt(tokens.Prompt, 10))
		add("completionTokens", "tokens of answers, about", strconv.FormatInt(tokens.Completion, 10))
		if cost := evaluation.FormatCost(run.Spec.Prices, &tokens); cost != "" {
			add("cost", "cost, about", cost)
		}
	}
	add("results", "episodes stored in", e.store)
	return e.output.Print(cmd.OutOrStdout(), view.Result{Value: value, Header: s.Header, Rows: s.Rows,
		Document: view.Document{Sections: []view.Section{s}}})
}

// announce says what is waited for while the endpoints are tried, until the returned function is
// called.
func (e *evalCommand) announce(errs io.Writer) (stop func()) {
	return startTicker(view.LineInterval, func() {
		if waits := e.traffic.waits(); waits != "" {
			fmt.Fprintf(errs, "trying the endpoints: %s\n", waits)
		}
	})
}

// following shows how far an evaluation is.
type following struct {
	meter *view.Meter
	stop  func()

	mu   sync.Mutex
	last view.Progress
	// worst is the episode with the lowest score that this call played, the first of several.
	worst record.Episode
}

// remindInterval is how often a terminal is drawn anew although nothing has ended.
const remindInterval = time.Second

// newFollowing follows the play of a run with the given options.
func (e *evalCommand) newFollowing(errs io.Writer, run *v1alpha1.EvaluationRun, o *local.Options) *following {
	f := &following{meter: view.NewMeter(errs, "playing "+run.Name, o.Clock.Now)}
	o.Record = func(r record.Episode) {
		e.traffic.count(r)
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Score != nil && (f.worst.Score == nil || *r.Score < *f.worst.Score ||
			*r.Score == *f.worst.Score && r.Index < f.worst.Index) {
			f.worst = record.Episode{Index: r.Index, Grade: record.Grade{Score: r.Score}}
		}
	}
	o.Progress = func(p local.Progress) {
		shown := view.Progress{Ended: p.Ended, Total: p.Total, Errored: p.Errored, Resumed: p.Resumed,
			Notes: []string{e.traffic.pace(), e.traffic.bound()}}
		if p.Scored > 0 {
			shown.Score = score.FormatDecimal(p.Scores / p.Scored)
		}
		f.mu.Lock()
		f.last = shown
		f.mu.Unlock()
		f.meter.Set(shown)
	}
	f.stop = startTicker(remindInterval, func() {
		f.mu.Lock()
		shown := f.last
		f.mu.Unlock()
		waits := e.traffic.waits()
		if shown.Total == 0 && waits == "" {
			return // nothing has ended, and nothing is late
		}
		if shown.Total == 0 {
			shown.Total = view.UnknownTotal
		}
		shown.Notes = []string{e.traffic.pace(), e.traffic.bound(), waits}
		f.meter.Remind(shown)
	})
	return f
}

// finish ends the progress, and returns the number of episodes that an earlier call played.
func (f *following) finish() (resumed int64) {
	f.stop()
	f.meter.Finish()
	return f.last.Resumed
}

// startTicker calls a function at an interval until the returned function is called.
func startTicker(interval time.Duration, call func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		view.CallEvery(ctx, interval, call)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// objects returns the run, completed and validated, and its pool.
func (e *evalCommand) objects(cmd *cobra.Command) (*v1alpha1.EvaluationRun, *v1alpha1.CustomerSupportEnv, error) {
	ctx := cmd.Context()
	if len(e.files) == 0 {
		run, err := e.spec.run("local")
		if err == nil {
			e.refer(run)
			run, err = manifest.CompleteRun(ctx, run)
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
			view.FormatCount(len(objects.Runs), "EvaluationRun"))
	}
	run := objects.Runs[0]
	if evaluation.IsSuspended(run) {
		return nil, nil, errors.New("the run's spec.suspend is true, so nothing would be played: remove it")
	}
	if evaluation.IsExternal(run) {
		return nil, nil, errors.New("the run's agent is External: it counts the episodes that trainers play against " +
			"a pool in a cluster. Create it in the cluster with `csenv run -f`, or choose another agent")
	}
	e.refer(run)
	e.unused(cmd.ErrOrStderr(), run)
	pool, err := poolOf(ctx, run, objects.Pools)
	return run, pool, err
}

// unused warns about fields of a manifest that matter only in a cluster.
func (e *evalCommand) unused(w io.Writer, run *v1alpha1.EvaluationRun) {
	if run.Spec.Results != nil {
		view.WriteParagraph(w, "", fmt.Sprintf("spec.results is ignored outside a cluster: --results is %s", e.store))
	}
}

// refer names the baseline of the flag in the run.
func (e *evalCommand) refer(run *v1alpha1.EvaluationRun) {
	if e.baseline != "" {
		run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: path.Base(e.baseline)}
	}
}

// loadBaseline reads the run to compare with. Without the flag's baseline nothing is played; a
// manifest's may be in a cluster.
func (e *evalCommand) loadBaseline(cmd *cobra.Command, run *v1alpha1.EvaluationRun) (evaluation.Baseline, error) {
	ref := run.Spec.BaselineRef
	if ref == nil {
		return evaluation.Baseline{}, nil
	}
	baseline, err := source.ReadBaseline(cmd.Context(), e.store, cmp.Or(e.baseline, ref.Name))
	switch {
	case err != nil && e.baseline != "":
		return baseline, fmt.Errorf("reading --baseline: %w", err)
	case err != nil:
		view.WriteParagraph(
			cmd.ErrOrStderr(),
			"",
			fmt.Sprintf("no comparison with spec.baselineRef: %v; name a stored run "+
				"with --baseline", err),
		)
		return evaluation.Baseline{}, nil
	case !meta.IsStatusConditionTrue(baseline.Run.Status.Conditions, v1alpha1.ConditionComplete):
		state, _ := figures.StateOf(baseline.Run)
		return baseline, fmt.Errorf("the baseline %s is not complete, it is %s: complete it first, or choose another "+
			"with --baseline", ref.Name, state)
	}
	return baseline, nil
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
	return manifest.CompletePool(ctx, pool)
}

// options returns the options of local.Play.
func (e *evalCommand) options(cmd *cobra.Command, run *v1alpha1.EvaluationRun, pool *v1alpha1.CustomerSupportEnv,
	catalog *scenarios.Catalog) (local.Options, error) {
	o := local.Options{Pool: pool.Name, Limits: pool.Spec.Runs, Version: cli.Version, Clock: rollout.SystemClock()}
	if wanted := len(pool.Spec.Scenarios.Packs); wanted > len(*e.packs) {
		return o, fmt.Errorf("pool %s plays %s that are stored in the cluster: give their folders with --pack",
			pool.Name, view.FormatCount(wanted, "pack"))
	}
	replies, err := e.newJudge(cmd, pool)
	if err != nil {
		return o, err
	}
	if o.Kind, err = local.NewKind(pool, catalog, replies); err != nil {
		return o, err
	}
	if e.limit > 0 {
		if err := local.LimitScenarios(run, o.Kind, e.limit); err != nil {
			return o, err
		}
	}
	if err := e.setCustomer(cmd, pool, o.Kind); err != nil {
		return o, err
	}
	return o, e.setAgent(cmd.Context(), run, catalog, &o)
}

// setCustomer makes a model the customer of conversations, and tries it: a wrong address or key is
// found before anything is played.
func (e *evalCommand) setCustomer(cmd *cobra.Command, pool *v1alpha1.CustomerSupportEnv, kind episode.Kind) error {
	flags := e.customer
	var err error
	if cmd.Flags().Changed("customer") {
		flags.FromEnvironment(os.LookupEnv)
		err = flags.Validate()
	} else if err = flags.Stray(); err == nil {
		flags, err = local.NewCustomerOptions(pool, os.LookupEnv)
	}
	if err != nil || e.dryRun {
		return err
	}
	flags.Model.HTTPClient = e.traffic.client(customerPeer, flags.Model.MaxConcurrency)
	customer, err := flags.New()
	if err != nil || customer == nil {
		return err
	}
	talking, ok := kind.(*workflow.Kind)
	if !ok {
		return fmt.Errorf("--customer %s is for conversations, the tasks talk-*: leave it out", flags.Type)
	}
	if err := customer.Try(cmd.Context()); err != nil {
		return fmt.Errorf("nothing was played: %w%s", err, adviceOn(err, envvars.CustomerKey))
	}
	talking.SetCustomer(customer)
	return nil
}

// newJudge makes the judge of replies, and tries it: nothing is played if it can't judge.
func (e *evalCommand) newJudge(cmd *cobra.Command, pool *v1alpha1.CustomerSupportEnv) (grader.Judge, error) {
	judge := e.judge
	var err error
	if cmd.Flags().Changed("judge") {
		judge.FromEnvironment(os.LookupEnv)
		err = judge.Validate()
	} else if err = judge.Stray(); err == nil {
		judge, err = local.NewJudgeOptions(pool, os.LookupEnv)
	}
	if err != nil {
		return nil, err
	}
	if e.dryRun {
		return offline.New(), nil
	}
	judge.Model.HTTPClient = e.traffic.client(judgePeer, judge.Model.MaxConcurrency)
	replies, err := judge.New()
	if err != nil {
		return nil, err
	}
	if model, ok := replies.(interface{ Try(context.Context) error }); ok {
		if err := model.Try(cmd.Context()); err != nil {
			return nil, fmt.Errorf("nothing was played: %w%s", err, adviceOn(err, envvars.JudgeKey))
		}
	}
	return replies, nil
}

// adviceOn is what to do about an endpoint's error, after a semicolon. The variable has its key.
func adviceOn(err error, variable string) string {
	e, ok := errors.AsType[*endpoint.Error](err)
	switch {
	case !ok:
		return ""
	case e.Class == endpoint.Unauthorised:
		return "; set the right key in " + variable
	}
	return "; " + e.Advice()
}

// setAgent builds the agent and tries its endpoint. That of a dry run knows the right answers.
func (e *evalCommand) setAgent(ctx context.Context, run *v1alpha1.EvaluationRun, catalog *scenarios.Catalog,
	o *local.Options) error {
	config, err := local.AgentConfig(run.Spec.Agent)
	if err != nil {
		return err
	}
	key := os.Getenv(envvars.AgentKey)
	address, needsKey := local.FindEndpoint(run.Spec.Agent)
	parallel := int(*run.Spec.Parallelism) * int(*run.Spec.Concurrency)
	setting := policy.Options{Environment: o.Kind.Name(), Catalog: catalog, Key: key, Concurrency: parallel,
		HTTPClient: e.traffic.client(agentPeer, parallel), Wait: e.traffic.wait}
	if e.dryRun {
		if o.Agent, err = policy.NewBuiltin(policy.Oracle, o.Kind.Name(), catalog); err == nil && config.OpenAI != nil {
			e.meter, err = policy.NewMeter(config, setting)
		}
		return err
	}
	agent, err := policy.New(config, setting)
	if err != nil {
		return err
	}
	if (needsKey || strings.HasPrefix(address, openAIBaseURL)) && key == "" {
		return fmt.Errorf("the agent's endpoint %s requires a key: set it in %s", address, envvars.AgentKey)
	}
	if run.Spec.Agent.Type == v1alpha1.ContainerAgent {
		if err := local.CheckConnection(ctx, address); err != nil {
			return err
		}
	}
	if err := agent.Try(ctx); err != nil {
		return fmt.Errorf("nothing was played, because the agent can't act: %w%s", err, adviceOn(err, envvars.AgentKey))
	}
	o.Agent, o.Rehearse, o.LeftOut = agent.Play, agent.Rehearse, agent.LeftOut
	o.ActTimeout, e.traffic.lowered = config.ActTimeout(setting), agent.Lowered
	return nil
}
