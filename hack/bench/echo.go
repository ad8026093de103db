package main

import (
	"context"
	"encoding/json"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

// echoKind is an environment that returns the message of each step. It does almost no work, so that
// the measurement shows the cost of the server.
type echoKind struct{ form *episode.Form }

func newEchoKind() echoKind {
	return echoKind{episode.NewForm("EchoAction", []episode.Field{{Name: "message", Description: "What to say.",
		MaxLength: 4000}},
		[]episode.Variant{{Type: "say", Description: "Says the message.", Required: []string{"message"}}})}
}

func (echoKind) Name() string           { return "echo" }
func (echoKind) Description() string    { return "Says what it is told." }
func (echoKind) ScenarioDigest() string { return "none" }
func (echoKind) GraderVersion() string  { return "none" }
func (echoKind) Judge() string          { return "rules" }
func (echoKind) Tasks() []score.Task {
	return []score.Task{{Name: "echo", Scenarios: []score.Scenario{{ID: "E01"}}}}
}

func (k echoKind) Schemas() episode.Schemas {
	action, err := json.Marshal(k.form.Schema())
	if err != nil {
		panic(err) // the schema is in this file
	}
	object := json.RawMessage(`{"type":"object"}`)
	return episode.Schemas{Action: action, Observation: object, State: object}
}

func (k echoKind) New() episode.Environment { return &echo{form: k.form} }

type echo struct {
	form  *episode.Form
	id    string
	steps int
}

type echoObservation struct {
	Message string `json:"echoed_message"`
	Length  int    `json:"message_length"`
}

func (e *echo) Reset(o episode.Options) (episode.Result, error) {
	e.id, e.steps = o.EpisodeID, 0
	return episode.Result{Observation: echoObservation{Message: "ready"}}, nil
}

func (e *echo) Step(_ context.Context, raw json.RawMessage) (episode.Result, error) {
	action, err := e.form.Decode(raw)
	if err != nil {
		return episode.Result{}, err
	}
	e.steps++
	message := action.Get("message")
	return episode.Result{Observation: echoObservation{message, len(message)}, Reward: 100 * int64(len(message))}, nil
}

func (e *echo) Fork() episode.Environment {
	fork := *e
	return &fork
}

func (e *echo) State() any {
	return struct {
		EpisodeID string `json:"episode_id"`
		StepCount int    `json:"step_count"`
	}{e.id, e.steps}
}
