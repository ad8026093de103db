package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/manifest"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// runFlags are the flags that define an EvaluationRun without a manifest.
type runFlags struct {
	name         string
	tasks        []string
	scenarios    v1alpha1.ScenarioSelection
	difficulties []string
	splits       []string
	trials       int32
	seed         int64
	pressure     bool
	passScore    string
	thresholds   []string
	concurrency  int32
	parallelism  int32
	agent        string
	model        string
	baseURL      string
	agentURL     string
	mode         string
	temperature  string
	maxTokens    int32
	perMinute    int32
	systemPrompt string
	prices       v1alpha1.Prices
	maxCost      string
	tokenBudget  int64
	conversation int32

	flags *pflag.FlagSet
}

// openAIBaseURL is the endpoint of OpenAI's models.
const openAIBaseURL = "https://api.openai.com/v1"

// agentNames are the values of --agent.
var agentNames = append(view.MapItems(policy.Names(), strings.ToLower), "openai", "http")

func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	r.flags = f
	f.SortFlags = false
	f.StringVar(&r.name, "name", "", "name of the run; the model or the agent by default")
	f.StringSliceVar(&r.tasks, "task", nil, "`task` to play; may be repeated: "+strings.Join(tasks.Names(), ", "))
	f.StringVar(&r.agent, "agent", "heuristic", "agent that plays: "+strings.Join(agentNames, ", ")+
		"; --model implies openai, --agent-url implies http")
	f.StringVar(&r.model, "model", "", "name of the model at its endpoint")
	f.StringVar(&r.baseURL, "base-url", openAIBaseURL, "OpenAI-compatible `URL` up to its version (--agent openai)")
	f.StringVar(&r.mode, "mode", "tools", "how the model sends actions: tools or json (--agent openai)")
	f.StringVar(&r.temperature, "temperature", "", "temperature of sampling (--agent openai)")
	f.Int32Var(&r.maxTokens, "max-tokens", 0, "maximum tokens per answer (--agent openai)")
	f.Int32Var(&r.perMinute, "requests-per-minute", 0, "maximum requests per minute (--agent openai)")
	f.StringVar(&r.prices.Input, "price-in", "", "`price` of a million tokens of prompts, such as 0.15, for the run's "+
		"cost (--agent openai)")
	f.StringVar(&r.prices.Output, "price-out", "", "`price` of a million tokens of answers (--agent openai)")
	f.StringVar(&r.maxCost, "max-cost", "", "stop when the run has cost more than this `amount` by --price-in and "+
		"--price-out (--agent openai)")
	f.Int64Var(&r.tokenBudget, "max-total-tokens", 0, "stop when the run has used more tokens (--agent openai)")
	f.Int32Var(&r.conversation, "max-conversation-bytes", 0, "shorten old turns of longer conversations, 98304 by "+
		"default (--agent openai)")
	f.StringVar(&r.systemPrompt, "system-prompt", "",
		"`file` with a system prompt that replaces the default one (--agent openai)")
	f.StringVar(&r.agentURL, "agent-url", "", "`URL` that receives observations and returns actions")
	f.Int32Var(&r.trials, "trials", 1, "number of times each scenario is played, each with other values")
	f.Int64Var(&r.seed, "seed", 0, "seed of the drawn values: the same seed plays the same episodes")
	r.addSelection(cmd)
	f.BoolVar(&r.pressure, "pressure", false, "play ticket-resolve under simulated time: a late reply scores less")
	f.StringVar(&r.passScore, "pass-score", "", "minimum score of an episode that passes (default "+passScores()+")")
	f.StringSliceVar(&r.thresholds, "threshold", nil, "required `METRIC[:SCOPE]=MIN`, such as meanScore=0.7 or "+
		"passRate:billing=0.5, where SCOPE is a task or a category; may be repeated. A missed threshold exits "+
		"with code 1")
	f.Int32Var(&r.parallelism, "parallelism", 1, "number of shards played at the same time")
	f.Int32Var(&r.concurrency, "concurrency", 16, "number of concurrent episodes in each shard")
	cli.CompleteFlag(cmd, "agent", agentNames...)
	cli.CompleteFlag(cmd, "task", tasks.Names()...)
	cli.CompleteFlag(cmd, "mode", "tools", "json")
}

// addSelection adds the flags that restrict the scenarios. Two of them have plural names too, which
// scripts use.
func (r *runFlags) addSelection(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		singular := map[string]string{"scenarios": "scenario", "categories": "category"}
		return pflag.NormalizedName(cmp.Or(singular[name], name))
	})
	f.StringSliceVar(&r.scenarios.IDs, "scenario", nil, "only these scenarios, by `id`, such as B01,B02")
	f.StringSliceVar(&r.scenarios.Categories, "category", nil, "only scenarios of this `category`, such as billing; "+
		"that of a generated case is its family, such as return; may be repeated; so may the next three flags")
	f.StringSliceVar(&r.scenarios.Modifiers, "modifier", nil, "only generated cases with this `modifier`, such as "+
		"plus, or with one of several")
	f.StringSliceVar(&r.difficulties, "difficulty", nil, "only this `difficulty`: "+strings.Join(difficulties, ", "))
	f.StringSliceVar(&r.splits, "split", nil, "only this `split`: "+strings.Join(scenarios.Splits, ", "))
	cli.CompleteFlagFrom(cmd, "scenario", cli.ScenarioIDs)
	cli.CompleteFlagFrom(cmd, "category", cli.ListCategories)
	cli.CompleteFlagFrom(cmd, "modifier", cli.ListModifiers)
	cli.CompleteFlag(cmd, "difficulty", difficulties...)
	cli.CompleteFlag(cmd, "split", scenarios.Splits...)
}

var difficulties = []string{"easy", "medium", "hard", "simple", "complex"}

// selection returns the selection that the flags make, nil if none of them is given.
func (r *runFlags) selection() (*v1alpha1.ScenarioSelection, error) {
	s := r.scenarios
	for _, name := range r.difficulties {
		lower := strings.ToLower(name)
		if !slices.Contains(difficulties, lower) {
			return nil, fmt.Errorf("--difficulty is %q: choose one of %s", name, strings.Join(difficulties, ", "))
		}
		s.Difficulties = append(s.Difficulties, v1alpha1.Difficulty(lower))
	}
	for _, name := range r.splits {
		split := v1alpha1.SplitNamed(name)
		if split == "" {
			return nil, fmt.Errorf("--split is %q: choose one of %s", name, strings.Join(scenarios.Splits, ", "))
		}
		s.Splits = append(s.Splits, split)
	}
	if equality.Semantic.DeepEqual(s, v1alpha1.ScenarioSelection{}) {
		return nil, nil
	}
	return &s, nil
}

// passScores describes the default pass scores.
func passScores() string {
	byScore := map[int64][]string{}
	for _, task := range tasks.Names() {
		pass := tasks.PassScore(task)
		byScore[pass] = append(byScore[pass], task)
	}
	each := make([]string, 0, len(byScore))
	for _, pass := range slices.Sorted(maps.Keys(byScore)) {
		each = append(each, score.FormatExact(pass)+" for "+strings.Join(byScore[pass], ", "))
	}
	return strings.Join(each, "; ") + "; " + score.FormatExact(tasks.PassScore()) + " if the tasks differ"
}

// read reads manifests, which can't be combined with these flags.
func (r *runFlags) read(cmd *cobra.Command, files []string) (*manifest.Objects, error) {
	own := &cobra.Command{}
	new(runFlags).add(own)
	var given []string
	r.flags.Visit(func(f *pflag.Flag) {
		if own.Flags().Lookup(f.Name) != nil {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		return nil, fmt.Errorf("%s can't be combined with -f: change the manifest, or omit -f",
			strings.Join(given, ", "))
	}
	return manifest.Read(cmd.Context(), files, cmd.InOrStdin())
}

// run builds the run. The API server or manifest.CompleteRun completes and validates it.
func (r *runFlags) run(pool string) (*v1alpha1.EvaluationRun, error) {
	if len(r.tasks) == 0 {
		return nil, fmt.Errorf("nothing to play: give --task (one of %s), or a manifest with -f",
			strings.Join(tasks.Names(), ", "))
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	agent, err := r.newAgent()
	if err != nil {
		return nil, err
	}
	run := &v1alpha1.EvaluationRun{Spec: v1alpha1.EvaluationRunSpec{
		EnvironmentRef: v1alpha1.EnvironmentReference{Name: pool}, Agent: agent, Seed: &r.seed,
		Parallelism: &r.parallelism, Concurrency: &r.concurrency,
	}}
	if r.prices != (v1alpha1.Prices{}) {
		run.Spec.Prices = &v1alpha1.Prices{Input: cmp.Or(r.prices.Input, "0"), Output: cmp.Or(r.prices.Output, "0")}
	}
	if r.maxCost != "" || r.tokenBudget > 0 {
		run.Spec.Budget = &v1alpha1.Budget{MaxCost: r.maxCost}
		if r.tokenBudget > 0 {
			run.Spec.Budget.MaxTokens = &r.tokenBudget
		}
	}
	if r.passScore != "" {
		if run.Spec.PassScore, err = parseNumber("pass-score", r.passScore); err != nil {
			return nil, err
		}
	}
	run.Name = cmp.Or(r.name, defaultName(agent))
	if r.pressure {
		run.Spec.Pressure = v1alpha1.ResponseTimePressure
	}
	selected, err := r.selection()
	if err != nil {
		return nil, err
	}
	for _, task := range r.tasks {
		run.Spec.Tasks = append(run.Spec.Tasks, v1alpha1.TaskSelection{Name: task, Trials: r.trials,
			Scenarios: selected.DeepCopy()})
	}
	for _, text := range r.thresholds {
		t, err := parseThreshold(text)
		if err != nil {
			return nil, err
		}
		run.Spec.Thresholds = append(run.Spec.Thresholds, t)
	}
	return run, nil
}

// parseThreshold reads a value of --threshold.
func parseThreshold(text string) (v1alpha1.Threshold, error) {
	figure, least, ok := strings.Cut(text, "=")
	if !ok {
		return v1alpha1.Threshold{}, fmt.Errorf("--threshold is %q: write METRIC=MIN, such as meanScore=0.7, or "+
			"METRIC:SCOPE=MIN, such as passRate:billing=0.5, where SCOPE is a task or a category", text)
	}
	value, err := parseNumber("threshold", least)
	metric, scope, scoped := strings.Cut(figure, ":")
	t := v1alpha1.Threshold{Metric: v1alpha1.Metric(metric), Min: value}
	switch {
	case err != nil:
		return t, err
	case scoped && slices.Contains(tasks.Names(), scope):
		t.Task = scope
	case scoped && scope == "":
		return t, fmt.Errorf("--threshold is %q: name a task or a category after the colon, or omit it", text)
	default:
		t.Category = scope
	}
	return t, nil
}

// parseNumber reads the value of a flag.
func parseNumber(flag, text string) (v1alpha1.Number, error) {
	value, err := v1alpha1.ParseNumber(text)
	if err != nil {
		return v1alpha1.Number{}, fmt.Errorf("--%s: %w", flag, err)
	}
	return value, nil
}

// decimalPrice is the form of the API's prices.
var decimalPrice = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,6})?$`)

// validate reports values with messages about the flags. The schema of the API would report them as
// fields.
func (r *runFlags) validate() error {
	if r.trials < 1 {
		return fmt.Errorf("--trials is %d: give 1 or more", r.trials)
	}
	if _, err := score.ParseDecimal(cmp.Or(r.passScore, "0")); err != nil {
		return fmt.Errorf("--pass-score is %q: give a number from 0 to 1, such as 0.8", r.passScore)
	}
	if err := r.validateBudget(); err != nil {
		return err
	}
	if r.name != "" && (len(r.name) > maxName || len(validation.IsDNS1035Label(r.name)) > 0) {
		return fmt.Errorf("--name is %q: use at most %d lower-case letters, digits and hyphens, beginning with a "+
			"letter, such as %s", r.name, maxName, cmp.Or(plainName(r.name), "my-agent"))
	}
	environments := map[v1alpha1.EnvironmentType][]string{}
	for _, task := range r.tasks {
		environment, err := local.EnvironmentOf(task)
		if err != nil {
			return err
		}
		environments[environment] = append(environments[environment], task)
	}
	if len(environments) > 1 {
		return fmt.Errorf("--task names tasks of two environments, and a run plays one: evaluate %s and %s apart",
			strings.Join(environments[v1alpha1.TicketEnvironment], ", "),
			strings.Join(environments[v1alpha1.WorkflowEnvironment], ", "))
	}
	return nil
}

// validateBudget checks the flags of prices and of what the run may cost.
func (r *runFlags) validateBudget() error {
	for flag, price := range map[string]string{"in": r.prices.Input, "out": r.prices.Output} {
		if price != "" && !decimalPrice.MatchString(price) {
			return fmt.Errorf("--price-%s is %q: give the price of a million tokens, such as 0.15", flag, price)
		}
	}
	switch {
	case r.maxCost != "" && !decimalPrice.MatchString(r.maxCost):
		return fmt.Errorf("--max-cost is %q: give an amount, such as 5.00", r.maxCost)
	case r.maxCost != "" && r.prices == (v1alpha1.Prices{}):
		return errors.New("--max-cost needs prices: give --price-in and --price-out too")
	case r.tokenBudget < 0:
		return fmt.Errorf("--max-total-tokens is %d: give 1 or more", r.tokenBudget)
	}
	return nil
}

// defaultName is the name of a run without --name: its model or its policy.
func defaultName(agent v1alpha1.Agent) string {
	switch {
	case agent.OpenAI != nil:
		return cmp.Or(plainName(agent.OpenAI.Model), "openai")
	case agent.Builtin != nil:
		return strings.ToLower(string(agent.Builtin.Policy))
	}
	return strings.ToLower(string(agent.Type))
}

// maxName is the maximum length of a run's name in the API.
const maxName = 50

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// plainName makes a name of a run from a text, "" if nothing of it can be used.
func plainName(s string) string {
	const most = 40
	s = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s), "-"), "-")
	if s != "" && s[0] <= '9' {
		s = "run-" + s
	}
	return strings.Trim(s[:min(len(s), most)], "-")
}

// flagsOf are the flags that only one type of agent has.
var flagsOf = []struct {
	agent string
	flags []string
}{
	{"openai", []string{"model", "base-url", "mode", "temperature", "max-tokens", "requests-per-minute",
		"system-prompt", "price-in", "price-out", "max-cost", "max-total-tokens", "max-conversation-bytes"}},
	{"http", []string{"agent-url"}},
}

// agentName is the value of --agent or, without one, the agent that the other flags are for.
func (r *runFlags) agentName() (string, error) {
	name, inferred := strings.ToLower(r.agent), false
	for _, of := range flagsOf {
		for _, flag := range of.flags {
			switch {
			case !r.flags.Changed(flag) || name == of.agent:
			case r.flags.Changed("agent") || inferred:
				return "", fmt.Errorf("--%s is for --agent %s, and the agent is %s: omit one of them", flag, of.agent,
					name)
			default:
				name, inferred = of.agent, true
			}
		}
	}
	return name, nil
}

// newAgent returns the agent that the flags describe.
func (r *runFlags) newAgent() (v1alpha1.Agent, error) {
	name, err := r.agentName()
	if err != nil {
		return v1alpha1.Agent{}, err
	}
	if known := policy.FindName(name); known != "" {
		return v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.BuiltinPolicy(known)}}, nil
	}
	switch name {
	case "openai":
		return r.openAI()
	case "http":
		if r.agentURL == "" {
			return v1alpha1.Agent{}, errors.New("--agent http requires --agent-url, the URL that receives " +
				"observations and returns actions")
		}
		return v1alpha1.Agent{Type: v1alpha1.HTTPAgent, HTTP: &v1alpha1.HTTPAgentSpec{URL: r.agentURL}}, nil
	}
	return v1alpha1.Agent{}, fmt.Errorf("--agent is %q: choose one of %s", r.agent, strings.Join(agentNames, ", "))
}

func (r *runFlags) openAI() (v1alpha1.Agent, error) {
	if r.model == "" {
		return v1alpha1.Agent{}, errors.New("--agent openai requires --model, the name of the model at its endpoint")
	}
	modes := map[string]v1alpha1.ActionMode{"tools": v1alpha1.ToolsMode, "json": v1alpha1.JSONMode}
	spec := &v1alpha1.OpenAIAgentSpec{BaseURL: r.baseURL, Model: r.model, Mode: modes[strings.ToLower(r.mode)]}
	if spec.Mode == "" {
		return v1alpha1.Agent{}, fmt.Errorf("--mode is %q: choose tools or json", r.mode)
	}
	if r.temperature != "" {
		var err error
		if spec.Temperature, err = parseNumber("temperature", r.temperature); err != nil {
			return v1alpha1.Agent{}, err
		}
	}
	if r.flags.Changed("max-tokens") {
		spec.MaxTokens = &r.maxTokens
	}
	if r.flags.Changed("max-conversation-bytes") {
		spec.MaxConversationBytes = &r.conversation
	}
	if r.flags.Changed("requests-per-minute") {
		spec.RequestsPerMinute = &r.perMinute
	}
	if r.systemPrompt != "" {
		text, err := os.ReadFile(r.systemPrompt)
		if err != nil {
			return v1alpha1.Agent{}, fmt.Errorf("reading --system-prompt: %w", err)
		}
		spec.SystemPrompt = string(text)
	}
	return v1alpha1.Agent{Type: v1alpha1.OpenAIAgent, OpenAI: spec}, nil
}
