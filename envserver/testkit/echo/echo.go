// Package echo is an environment for tests of the server. Its actions determine the results.
package echo

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

// Kind is an environment whose actions determine the results.
type Kind struct {
	// Broken makes New return no environment, and Explosive makes it panic.
	Broken, Explosive bool
	// Refusing makes its environments refuse every action.
	Refusing bool
	// Made, if not nil, is called for every environment that New makes.
	Made func()
}

func (Kind) Name() string           { return "echo" }
func (Kind) Description() string    { return "Says what it is told." }
func (Kind) ScenarioDigest() string { return "sha256:00ff" }
func (Kind) GraderVersion() string  { return "echo.1" }
func (Kind) Judge() string          { return "rules" }

// Tasks implements episode.Kind.
func (Kind) Tasks() []score.Task {
	return []score.Task{{Name: "talk", Scenarios: []score.Scenario{
		{ID: "E01", Category: "billing", Difficulty: "easy", Language: "en", Split: "public-train"},
		{ID: "E02", Category: "shipping", Difficulty: "hard", Language: "de", Split: "public-train"},
		{ID: "E03", Category: "shipping", Difficulty: "hard", Language: "de", Split: "public-test"},
	}}}
}

// Schemas implements episode.Kind.
func (Kind) Schemas() episode.Schemas {
	return episode.Schemas{
		Action: json.RawMessage(
			`{"type":"object","properties":{"kind":{"type":"string"}},"additionalProperties":false}`),
		Observation: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		State:       json.RawMessage(`{"type":"object","properties":{"step_count":{"type":"integer"}}}`),
		Tools:       Tools,
	}
}

// Tools are some of its actions. The last three fail in different ways.
var Tools = []episode.Tool{
	{Name: "say", Description: "Says a text.", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"text":{"type":"string"}}}`)},
	{Name: "finish", Description: "Ends the episode.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"score":{"type":"integer"}}}`)},
	{Name: "zzz", Description: "Is refused.", InputSchema: json.RawMessage(`{"type":"object"}`)},
	{Name: "fail", Description: "Fails.", InputSchema: json.RawMessage(`{"type":"object"}`)},
	{Name: "panic", Description: "Panics.", InputSchema: json.RawMessage(`{"type":"object"}`)},
}

// New implements episode.Kind.
func (k Kind) New() episode.Environment {
	switch {
	case k.Explosive:
		panic("no environments today")
	case k.Broken:
		return nil
	}
	if k.Made != nil {
		k.Made()
	}
	return &echo{refusing: k.Refusing}
}

type echo struct {
	options  episode.Options
	steps    int
	reset    bool
	done     bool
	refusing bool
}

// Action is an action of the environment.
type Action struct {
	Type   string        `json:"action_type"`
	Kind   string        `json:"kind"`
	Text   string        `json:"text"`
	Reward int64         `json:"reward"`
	Score  int64         `json:"score"`
	Bytes  int           `json:"bytes"`
	Wait   time.Duration `json:"wait"`
}

// Observation is the result of a reset or an action.
type Observation struct {
	Text string `json:"text"`
	Seed int64  `json:"seed"`
}

type state struct {
	EpisodeID  *string            `json:"episode_id"`
	StepCount  int                `json:"step_count"`
	Seed       int64              `json:"seed"`
	Task       string             `json:"task"`
	Scenario   string             `json:"scenario"`
	RewardMode episode.RewardMode `json:"reward_mode"`
}

// Steps implements episode.Stepped.
func (s state) Steps() int { return s.StepCount }

// WithSteps implements episode.Stepped.
func (s state) WithSteps(steps int) any {
	s.StepCount = steps
	return s
}

func (e *echo) Reset(o episode.Options) (episode.Result, error) {
	if o.Task != "" && o.Task != "talk" {
		return episode.Result{}, fmt.Errorf("%w %q: the task is talk", episode.ErrUnknownTask, o.Task)
	}
	if o.Scenario == "" {
		o.Scenario = []string{"E01", "E02"}[o.Seed%2]
	}
	if o.Scenario != "E01" && o.Scenario != "E02" && o.Scenario != "E03" {
		return episode.Result{}, fmt.Errorf("%w %q", episode.ErrUnknownScenario, o.Scenario)
	}
	o.Task = "talk"
	*e = echo{options: o, reset: true, refusing: e.refusing}
	return episode.Result{Observation: Observation{Text: "hello", Seed: o.Seed}}, nil
}

func (e *echo) Fork() episode.Environment {
	fork := *e
	return &fork
}

func (e *echo) Step(ctx context.Context, raw json.RawMessage) (episode.Result, error) {
	var a Action
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&a)
	if a.Kind == "" {
		a.Kind = a.Type
	}
	if err != nil || a.Kind == "zzz" || e.refusing {
		return episode.Result{}, &episode.ActionError{Items: []episode.ErrorItem{
			{Type: "literal_error", Loc: []any{"kind"}, Msg: "kind should be say", Input: json.RawMessage(`"zzz"`)},
		}}
	}
	if !e.reset {
		return episode.Result{}, episode.ErrNotReset
	}
	result := episode.Result{Observation: Observation{Text: a.Text + strings.Repeat("x", a.Bytes),
		Seed: e.options.Seed}, Reward: a.Reward, Done: e.done}
	switch a.Kind {
	case "wait":
		select {
		case <-time.After(a.Wait):
		case <-ctx.Done():
			return episode.Result{}, ctx.Err()
		}
	case "fail":
		return episode.Result{}, errors.New("the backend is gone")
	case "unjudged":
		return episode.Result{}, &episode.JudgeError{Cause: "judge_timeout",
			Err: unjudged{fmt.Errorf("no answer to %q", a.Text)}}
	case "panic":
		panic("out of ideas")
	case "unencodable":
		result.Observation = map[string]any{"text": func() {}}
	case "list":
		result.Observation = []int{1}
	case "finish", "failed", "errored", "judged":
		outcome := map[string]score.Outcome{"finish": score.Scored, "failed": score.Failed,
			"errored": score.Errored, "judged": score.Scored}[a.Kind]
		result.Done, e.done = true, true
		result.Final = &episode.Final{
			Task: "talk", Scenario: e.options.Scenario, Category: "billing", Outcome: outcome, Score: a.Score,
			Judge:      "rules",
			Dimensions: []score.Dimension{{Name: "talk", Earned: a.Score / 1000, Offered: 1000}},
		}
		if a.Kind == "judged" {
			result.Final.Verdicts = []json.RawMessage{[]byte(`{"criteria":[{"id":"Q1","reason":"f2 missing"}]}`)}
		}
		if outcome == score.Errored {
			result.Final.Cause, result.Final.Detail = "judge_timeout", unjudged{}.Public()
		}
	}
	e.steps++
	return result, nil
}

func (e *echo) State() any {
	s := state{StepCount: e.steps, Seed: e.options.Seed, Task: e.options.Task, Scenario: e.options.Scenario,
		RewardMode: e.options.RewardMode}
	if e.reset {
		s.EpisodeID = &e.options.EpisodeID
	}
	return s
}

// LedgerKey signs ledgers in tests.
func LedgerKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

// unjudged is a failure to judge with a part for operators.
type unjudged struct{ error }

// Public omits the text.
func (unjudged) Public() string { return "the endpoint answered 401 Unauthorized" }
