package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// models are the flags of the endpoints to try.
type models struct {
	agent policy.OpenAIConfig
	mode  string
	task  string
	judge llm.Config
}

func (m *models) addFlags(f *pflag.FlagSet) {
	f.StringVar(&m.agent.Model, "model", "", "model of an agent to try at its endpoint, as a run plays it")
	f.StringVar(&m.agent.BaseURL, "base-url", "https://api.openai.com/v1", "OpenAI-compatible `URL` up to its version")
	f.StringVar(&m.mode, "mode", "tools", "how the model sends actions: tools or json")
	f.StringVar(&m.task, "task", "ticket-resolve", "task whose actions the model is offered")
	f.StringVar(&m.judge.Model, "judge-model", "", "model of a judge to try at its endpoint")
	f.StringVar(&m.judge.BaseURL, "judge-base-url", "https://api.openai.com/v1", "`URL` of the judge's endpoint")
}

// namesModel reports whether the flags name a model.
func (m *models) namesModel() bool { return m.agent.Model != "" || m.judge.Model != "" }

// checkModels tries the models of the flags.
func (c *checkup) checkModels(ctx context.Context, m *models, progress io.Writer) {
	if m.agent.Model != "" {
		view.WriteParagraph(progress, "", fmt.Sprintf("trying model %s at %s with about eight requests", m.agent.Model,
			m.agent.BaseURL))
		began := time.Now()
		waiting, stop := context.WithCancel(ctx)
		go view.CallEvery(waiting, view.LineInterval, func() {
			fmt.Fprintf(progress, "still waiting for the model, %s\n", time.Since(began).Round(time.Second))
		})
		if err := c.tryAgent(ctx, m, progress); err != nil {
			c.addFinding("model", "model "+m.agent.Model, newBad(err.Error(), adviceFor(err, envvars.AgentKey)))
		}
		stop()
	}
	if m.judge.Model != "" {
		view.WriteParagraph(progress, "", fmt.Sprintf("asking judge %s at %s", m.judge.Model, m.judge.BaseURL))
		c.addFinding("judge", "judge "+m.judge.Model, m.tryJudge(ctx))
	}
}

// tryAgent probes the agent's model, adds what it can do, and shows that as it comes.
func (c *checkup) tryAgent(ctx context.Context, m *models, progress io.Writer) error {
	config := m.agent
	switch strings.ToLower(m.mode) {
	case "tools":
		config.Mode = policy.ModeTools
	case "json":
		config.Mode = policy.ModeJSON
	default:
		return fmt.Errorf("--mode is %q: choose tools or json", m.mode)
	}
	environment, err := local.EnvironmentOf(m.task)
	if err != nil {
		return err
	}
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return fmt.Errorf("loading the catalogue: %w", err)
	}
	kind, err := local.NewKind(&v1alpha1.CustomerSupportEnv{Spec: v1alpha1.CustomerSupportEnvSpec{
		Environment: environment}}, catalog, offline.New())
	if err != nil {
		return err
	}
	agent, err := policy.New(policy.Config{Type: policy.TypeOpenAI, OpenAI: &config},
		policy.Options{Environment: kind.Name(), Key: os.Getenv(envvars.AgentKey)})
	if err != nil {
		return err
	}
	if err := agent.Try(ctx); err != nil {
		return err
	}
	turn := policy.Turn{Environment: kind.Name(), Task: m.task, Schema: kind.Schemas().Action,
		Planned: score.PlannedEpisode{Task: m.task, Scenario: "trial"}}
	err = agent.Probe(ctx, turn, func(a policy.Ability) {
		f := newOK(cmp.Or(a.Found, a.State))
		switch {
		case a.State == policy.Yes || a.Name == policy.AbilityLeftOut:
		case a.Name == policy.AbilityTurns:
			f = newBad(a.Found, adviceOn[a.Name])
		default:
			f = newNote(a.Found, adviceOn[a.Name])
		}
		c.addFinding("model", a.Name, f)
		view.WriteParagraph(progress, "", fmt.Sprintf("%s: %s", a.Name, f.Found))
	})
	if err != nil {
		return err
	}
	c.addFinding("model", "cost of a run", newOK(fmt.Sprintf("csenv eval --task %s --model %s --dry-run estimates its "+
		"requests and tokens", m.task, config.Model)))
	return nil
}

// adviceOn says what follows from an ability that an endpoint doesn't have, where something does.
var adviceOn = map[string]string{
	policy.AbilityTurns: "a run would score such answers as the agent's failures: switch the server's parser of tool " +
		"calls on and the parser of thoughts off, or play with --mode json",
	policy.AbilityTools:   "play with --mode json, or switch the server's parser of tool calls on",
	policy.AbilitySeed:    "use --temperature 0 and more --trials: runs can't be repeated exactly",
	policy.AbilityUsage:   "tokens and cost of runs stay unknown",
	policy.AbilityJSON:    "play with --mode tools if the model calls them",
	policy.AbilityContext: "set maxConversationBytes if episodes fail with agent_context",
}

// adviceFor is what to do about an endpoint that can't be used. Its key is in a variable.
func adviceFor(err error, key string) string {
	e, ok := errors.AsType[*endpoint.Error](err)
	switch {
	case !ok:
		return ""
	case e.Class == endpoint.Unauthorised:
		return "set the endpoint's key in $" + key
	}
	return e.Advice()
}

// tryJudge asks the judge's model one question.
func (m *models) tryJudge(ctx context.Context) finding {
	flags := modelflags.DefaultJudge()
	flags.Type = "llm"
	flags.Model.Model, flags.Model.BaseURL = m.judge.Model, m.judge.BaseURL
	flags.FromEnvironment(os.LookupEnv)
	judge, err := flags.New()
	if err != nil {
		return newBad(err.Error(), "")
	}
	model, is := judge.(*llm.Judge)
	if !is {
		return newBad(fmt.Sprintf("%T is no model", judge), "")
	}
	if err := model.Try(ctx); err != nil {
		return newBad(err.Error(), adviceFor(err, envvars.JudgeKey))
	}
	found := "it judges a reply in the form of a run's questions"
	if left := model.LeftOut(); left != "" {
		found += "; left out of requests, because it is refused: " + left
	}
	return newOK(found)
}
