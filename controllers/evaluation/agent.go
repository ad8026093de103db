package evaluation

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/csenv/csenv/api/v1alpha1"
)

// AgentName is a short name of the agent: its policy, model, host or image.
func AgentName(agent v1alpha1.Agent) string {
	switch {
	case agent.Builtin != nil:
		return string(agent.Builtin.Policy)
	case agent.OpenAI != nil:
		return agent.OpenAI.Model
	case agent.HTTP != nil:
		if u, err := url.Parse(agent.HTTP.URL); err == nil {
			return u.Host
		}
		return agent.HTTP.URL
	case agent.Container != nil:
		return agent.Container.Image
	default:
		return string(agent.Type)
	}
}

// AgentJSON is the agent for a runner, as policy.ParseConfig reads it: without the references to
// Secrets, whose values are environment variables of the runner, and without the fields of the
// agent's container that only Kubernetes needs.
func AgentJSON(agent v1alpha1.Agent) ([]byte, error) {
	agent = *agent.DeepCopy()
	if agent.OpenAI != nil {
		agent.OpenAI.APIKeySecretRef = nil
	}
	if agent.HTTP != nil {
		agent.HTTP.TokenSecretRef = nil
	}
	if c := agent.Container; c != nil {
		agent.Container = &v1alpha1.ContainerAgentSpec{Port: c.Port, Path: c.Path, TimeoutSeconds: c.TimeoutSeconds}
	}
	data, err := json.Marshal(agent)
	if err != nil {
		return nil, fmt.Errorf("encoding the agent: %w", err)
	}
	return data, nil
}
