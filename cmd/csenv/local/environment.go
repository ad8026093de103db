package local

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/tasks"
)

// NewKind makes the environment of a pool from a catalogue that includes its packs, and a judge of
// replies.
func NewKind(pool *v1alpha1.CustomerSupportEnv, catalog *scenarios.Catalog,
	replies grader.Judge) (episode.Kind, error) {
	if splits := pool.Spec.Scenarios.Splits; len(splits) > 0 {
		catalog = catalog.Split(view.MapItems(splits, v1alpha1.ScenarioSplit.Name)...)
	}
	if pool.Spec.Environment == v1alpha1.WorkflowEnvironment {
		return workflow.NewJudged(catalog, replies)
	}
	return ticket.New(catalog, replies)
}

// NewJudgeOptions returns the pool's judge, with its key from the environment.
func NewJudgeOptions(
	pool *v1alpha1.CustomerSupportEnv,
	lookup func(string) (string, bool),
) (modelflags.Judge, error) {
	o, spec := modelflags.DefaultJudge(), pool.Spec.Judge
	if spec.Type != v1alpha1.LLMJudge || spec.LLM == nil {
		return o, nil
	}
	o.Type = strings.ToLower(string(spec.Type))
	o.Model.BaseURL, o.Model.Model = spec.LLM.BaseURL, spec.LLM.Model
	o.Model.MaxConcurrency = int(spec.LLM.MaxConcurrency)
	o.Model.Timeout = time.Duration(spec.LLM.TimeoutSeconds) * time.Second
	o.Model.OnFailure = llm.OnFailure(strings.ToLower(string(spec.LLM.OnFailure)))
	o.FromEnvironment(lookup)
	if spec.LLM.APIKeySecretRef != nil && o.Model.APIKey == "" {
		return o, fmt.Errorf("the pool's judge asks for a key (judge.llm.apiKeySecretRef): set %s to it, Secrets are "+
			"the cluster's", envvars.JudgeKey)
	}
	return o, o.Validate()
}

// NewCustomerOptions returns the pool's customer of conversations, with its key from the
// environment.
func NewCustomerOptions(pool *v1alpha1.CustomerSupportEnv, lookup func(string) (string, bool)) (
	modelflags.Customer, error) {
	o, spec := modelflags.DefaultCustomer(), pool.Spec.Customer
	if spec.LLM == nil {
		return o, nil
	}
	o.Type = strings.ToLower(string(spec.Type))
	o.Model.BaseURL, o.Model.Model = spec.LLM.BaseURL, spec.LLM.Model
	o.Model.MaxConcurrency = int(spec.LLM.MaxConcurrency)
	o.Model.Timeout = time.Duration(spec.LLM.TimeoutSeconds) * time.Second
	o.FromEnvironment(lookup)
	if spec.LLM.APIKeySecretRef != nil && o.Model.APIKey == "" {
		return o, fmt.Errorf("the pool's customer asks for a key (customer.llm.apiKeySecretRef): set %s to it, "+
			"Secrets are the cluster's", envvars.CustomerKey)
	}
	return o, o.Validate()
}

// AgentConfig is the agent as a runner reads it.
func AgentConfig(agent v1alpha1.Agent) (policy.Config, error) {
	data, err := evaluation.AgentJSON(agent)
	if err != nil {
		return policy.Config{}, err
	}
	return policy.ParseConfig(data)
}

// FindEndpoint returns the URL of the agent's endpoint, "" if it has none, and whether the manifest
// refers to a key.
func FindEndpoint(agent v1alpha1.Agent) (address string, needsKey bool) {
	switch {
	case agent.OpenAI != nil:
		return agent.OpenAI.BaseURL, agent.OpenAI.APIKeySecretRef != nil
	case agent.HTTP != nil:
		return agent.HTTP.URL, agent.HTTP.TokenSecretRef != nil
	case agent.Container != nil:
		return fmt.Sprintf("http://localhost:%d%s", agent.Container.Port, agent.Container.Path), false
	}
	return "", false
}

const reachTimeout = 5 * time.Second

// CheckConnection checks that the URL of a container accepts connections, so that a run fails at
// once and doesn't wait for it to start. It checks nothing if the URL is behind a proxy.
func CheckConnection(ctx context.Context, address string) error {
	target, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the agent's URL: %w", err)
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		return fmt.Errorf("reading the proxy's URL from the environment: %w", err)
	}
	if proxy != nil {
		return nil
	}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil {
		return fmt.Errorf("the agent's endpoint %s can't be reached: %w; start it, or correct its address", address,
			err)
	}
	return conn.Close()
}

// EnvironmentOf returns the environment that plays a task.
func EnvironmentOf(name string) (v1alpha1.EnvironmentType, error) {
	switch task, _ := tasks.Find(name); task.Environment {
	case tasks.Ticket:
		return v1alpha1.TicketEnvironment, nil
	case tasks.Workflow:
		return v1alpha1.WorkflowEnvironment, nil
	}
	if task := taskOf(name); task != "" {
		return "", fmt.Errorf("%[1]s is a scenario, not a task: `csenv eval %[2]s --scenario %[1]s` plays it",
			name, task)
	}
	return "", fmt.Errorf("there is no task %q%s", name, source.SuggestWord(name, tasks.Names()))
}

// taskOf is a task that plays a built-in scenario, "" if there is none of that id.
func taskOf(id string) string {
	public, err := scenarios.LoadPublic()
	if err != nil {
		return ""
	}
	if _, ok := public.Ticket(id); ok {
		return tasks.TicketResolve
	}
	if w, ok := public.Workflow(id); ok {
		return w.Task()
	}
	return ""
}

// explainScenario names the task of a selected scenario that the selected task doesn't play, or
// returns the error.
func explainScenario(run *v1alpha1.EvaluationRun, err error) error {
	for _, selected := range run.Spec.Tasks {
		for _, id := range ptr.Deref(selected.Scenarios, v1alpha1.ScenarioSelection{}).IDs {
			task := taskOf(id)
			right, _ := tasks.Find(task)
			given, _ := tasks.Find(selected.Name)
			if task != "" && (right.Class != given.Class || right.Talks != given.Talks) {
				return fmt.Errorf("task %[1]s has no scenario %[2]s: `csenv eval %[3]s --scenario %[2]s` plays it",
					selected.Name, id, task)
			}
			if task == "" {
				err = fmt.Errorf("%w; a scenario of your own needs --pack FOLDER", err)
			}
		}
	}
	return err
}
