// Package policy plays episodes: by agents behind an endpoint, and by four built-in policies that
// calibrate the scores.
//
// Noop does nothing useful and must score 0. Random draws legal actions. Heuristic is a rule-based
// agent that reads words, amounts and deadlines of the observation. Oracle plays the scenario's
// gold answers, which it takes from the catalogue, and must score 1 where rules alone grade. An
// agent should beat Heuristic; if Noop or Oracle miss their scores, the environment is broken.
package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/tasks"
)

// Policy plays one episode. It may keep state and is not safe for concurrent use.
type Policy interface {
	// Act chooses the next action, a JSON object of the environment's schema.
	Act(ctx context.Context, turn Turn) (json.RawMessage, error)
}

// Turn is a policy's input before each action.
type Turn struct {
	// Environment is "ticket" or "workflow".
	Environment string
	Task        string
	// Observation is the environment's answer to the reset or the last action, a JSON object.
	Observation json.RawMessage
	// Schema is the JSON Schema of the environment's actions, as its server returns it.
	Schema json.RawMessage
	// Step counts the actions from 0, including refused ones.
	Step int
	// Refused is the reason why the last action was outside the environment's schema, or "". If it
	// is set, the observation is the one before that action.
	Refused string
	Planned score.PlannedEpisode
}

// Factory makes the policy of one episode. It is safe for concurrent use.
type Factory func(planned score.PlannedEpisode) (Policy, error)

// The names of the built-in policies.
const (
	Heuristic = "Heuristic"
	Random    = "Random"
	Noop      = "Noop"
	Oracle    = "Oracle"
)

// NewBuiltin returns the built-in policy with the name for the environment. Only Oracle reads the
// catalogue; for the others it may be nil.
func NewBuiltin(name, environment string, catalog *scenarios.Catalog) (Factory, error) {
	if environment != tasks.Ticket && environment != tasks.Workflow {
		return nil, fmt.Errorf("no built-in policy plays environment %q: use %s or %s", environment, tasks.Ticket,
			tasks.Workflow)
	}
	isTicket := environment == tasks.Ticket
	switch known := FindName(name); {
	case known == Noop:
		return func(score.PlannedEpisode) (Policy, error) { return noop{isTicket}, nil }, nil
	case known == Random:
		return func(planned score.PlannedEpisode) (Policy, error) { return newRandom(isTicket, planned), nil }, nil
	case known == Heuristic:
		return func(planned score.PlannedEpisode) (Policy, error) { return newHeuristic(planned.Task), nil }, nil
	case known == Oracle && catalog == nil:
		return nil, fmt.Errorf("policy %s needs the catalogue of scenarios", Oracle)
	case known == Oracle:
		return oracleFactory(isTicket, catalog), nil
	}
	return nil, fmt.Errorf("unknown policy %q: use one of %s", name, strings.Join(Names(), ", "))
}

// noop uses up the steps. It doesn't end the ticket, because the decision to resolve could be right
// by chance.
type noop struct{ ticket bool }

// Act searches for nothing, or looks up an order without an id.
func (n noop) Act(context.Context, Turn) (json.RawMessage, error) {
	if n.ticket {
		return encodeAction("search_knowledge_base", map[string]any{"query": "-"})
	}
	return encodeCall(desk.CheckOrder, nil)
}

func oracleFactory(isTicket bool, catalog *scenarios.Catalog) Factory {
	queues := sync.OnceValue(func() []queue.Queue { return queue.ComposeQueues(catalog) })
	return func(planned score.PlannedEpisode) (Policy, error) {
		if planned.Task != tasks.QueueManagement {
			return newOracle(isTicket, catalog, planned)
		}
		return newOracleQueue(catalog, queues(), planned)
	}
}

// Names lists the built-in policies.
func Names() []string { return []string{Heuristic, Random, Oracle, Noop} }

// FindName returns the built-in policy of a name in upper or lower case, "" if there is none. Null
// is another name of Noop, which manifests and stored runs may have.
func FindName(name string) string {
	if strings.EqualFold(name, "Null") {
		return Noop
	}
	at := slices.IndexFunc(Names(), func(known string) bool { return strings.EqualFold(known, name) })
	if at < 0 {
		return ""
	}
	return Names()[at]
}

// encodeAction encodes an action with the given members.
func encodeAction(kind string, members map[string]any) (json.RawMessage, error) {
	full := map[string]any{"action_type": kind}
	maps.Copy(full, members)
	raw, err := json.Marshal(full)
	if err != nil {
		return nil, fmt.Errorf("writing action %s: %w", kind, err)
	}
	return raw, nil
}

// encodeCall encodes an action of the workflow environment.
func encodeCall(kind string, payload map[string]any) (json.RawMessage, error) {
	return encodeAction(kind, map[string]any{"payload": payload})
}

func selectTicket(id string) (json.RawMessage, error) {
	return encodeAction("select_ticket", map[string]any{"ticket_id": id})
}
