package rollout

import (
	"errors"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
)

var (
	// ErrAgentRefused means that the agent's endpoint refuses every request. Further attempts fail
	// until what endpoint.Error.Advice names is corrected.
	ErrAgentRefused = errors.New("the agent can't play")
	// ErrAgentUnavailable means that the agent's endpoint didn't answer within agentPatience.
	ErrAgentUnavailable = errors.New("the agent's endpoint can't be used")
)

const (
	// agentPatience is the maximum time of the trials of an endpoint that may be starting or
	// recovering.
	agentPatience = endpoint.Patience
	// confirmAfter is the pause before a refusal is confirmed, because starting gateways refuse
	// too.
	confirmAfter = 5 * time.Second
	// betweenTrials is the least time between two trials while episodes are played.
	betweenTrials = 30 * time.Second
)
