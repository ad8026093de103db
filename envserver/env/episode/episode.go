// Package episode defines an environment: it is reset to a scenario, stepped with actions and, when
// it is done, has an outcome and a score. Packages ticket and workflow implement it; package
// openenv serves it. Neither side imports the other.
package episode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/score"
)

// RewardMode is the time at which rewards are paid.
type RewardMode string

const (
	// Dense pays on each step the change of the episode's return.
	Dense RewardMode = "dense"
	// Terminal pays the whole return on the last step and 0 before it, so that rewards don't reveal
	// which actions were right.
	Terminal RewardMode = "terminal"
)

// Options are a client's choices at reset. The zero value is valid: the server's default task, and
// a scenario drawn by seed 0.
type Options struct {
	// Seed fixes every drawn value of the episode. It is from 0 to 2^53-1, which every JSON reader
	// keeps exactly.
	Seed int64
	// EpisodeID is reported by State. The server fills it in when the client gave none.
	EpisodeID string
	// Task is one of the environment's tasks, or "" for its default.
	Task string
	// Scenario is the id of one of the task's scenarios, or "" to draw one by Seed.
	Scenario string
	// RewardMode is the mode of rewards, or "" for the server's default.
	RewardMode RewardMode
	// Pressure turns on simulated minutes: every action takes some, and a late reply earns less.
	// Tasks without replies, or with their own clock, ignore it.
	Pressure bool
	// IDKey keys the ids that the agent sees, "" for those that follow from the seed alone.
	IDKey string
}

// Environment plays one episode at a time for one session. It is not safe for concurrent use and
// shares no state with other sessions. The same scenario, seed and actions give the same bytes.
type Environment interface {
	// Reset begins a new episode in any state. If the task or the scenario doesn't exist, the error
	// wraps ErrUnknownTask or ErrUnknownScenario.
	Reset(opts Options) (Result, error)
	// Step plays one action (a JSON object). It returns an *ActionError for an action outside the
	// schema, which uses no step, and ErrNotReset before the first Reset. After the end of the
	// episode it returns done with reward 0. Only the *ActionError may share the action's memory.
	//
	// Any other error is a failure of the environment: the step had no effect, and the same action
	// may be sent again. It is a *JudgeError if a reply could not be judged. MaxJudgeFailures of
	// these without a verdict in between end the episode as errored.
	Step(ctx context.Context, action json.RawMessage) (Result, error)
	// Fork returns an environment in the same state: the same actions have the same results in
	// both, and neither changes the other. Both may be used at the same time.
	Fork() Environment
	// State is the reply to the message "state": {"episode_id", "step_count", ...}. It contains no
	// gold labels.
	State() any
}

// Judged is an Environment whose steps may call a judge, so that the actions alone are not enough
// to play an episode again.
type Judged interface {
	// Verdicts returns the verdicts of the episode so far, a JSON object each, as in Final.
	Verdicts() ([]json.RawMessage, error)
	// Recall makes the episode use verdicts where the judge would be called for what they judge.
	Recall(verdicts []json.RawMessage) error
}

// Stepped is a state that reports the number of steps. The server corrects it by the steps that it
// answers itself.
type Stepped interface {
	Steps() int
	// WithSteps returns the state with another number.
	WithSteps(steps int) any
}

// Result is the result of a reset or a step.
type Result struct {
	// Observation marshals to a JSON object of the environment's own fields, without done and
	// reward. Later steps don't change it.
	Observation any
	// Reward is in milli-points, 0 on reset.
	Reward int64
	// Done is true from the last step of the episode on.
	Done bool
	// Final is set only on the step that ended the episode.
	Final *Final
	// Ignored are the names of options of the reset that aren't known.
	Ignored []string
}

// Final contains the figures of an ended episode.
type Final struct {
	Task     string
	Scenario string
	Category string
	Outcome  score.Outcome
	// Score is in micro-points, 0 to score.One.
	Score int64
	// Wrong is set if the episode can't pass, whatever its score: a decision, a change or a fact is
	// wrong or missing.
	Wrong bool
	// Dimensions in the order of the task's rubric, in milli-points.
	Dimensions []score.Dimension
	// Judge is the scale that graded the reply, for example "facts-v1"; "rules" without a reply.
	Judge string
	// Verdicts are the judge's verdicts on the replies, one JSON object each. They contain
	// criteria, points and reasons. Agents receive them at the end of an episode, as ServeVerdicts
	// returns them.
	Verdicts []json.RawMessage
	// Customer are the exchanges with a customer that is a model. Agents receive them, too: they
	// have what was served.
	Customer []Exchange `json:",omitempty"`
	// Cause is the class of the failure that ended an errored episode, for example "judge_timeout".
	// It is "" for every other outcome. Detail is the JudgeError's; agents don't receive it.
	Cause, Detail string
	// Forked is set by the server for an episode whose beginning another session has, or had.
	Forked bool
	// Receipt is the signed proof that the server adds to a run's episodes; it is "" for others.
	Receipt string
}

// Kind is an environment that a server can serve: its catalogue, its schemas and a factory of
// sessions. It is safe for concurrent use.
type Kind interface {
	// Name is "ticket" or "workflow".
	Name() string
	// Description is one or two sentences for people.
	Description() string
	// Tasks in the order in which they are reported; the first one is the default.
	Tasks() []score.Task
	// ScenarioDigest is "sha256:<hex>" over every served or graded byte of the catalogue.
	ScenarioDigest() string
	// GraderVersion must change if a score can change for the same episode.
	GraderVersion() string
	// Judge names the scale of the reply judge, as in Final.
	Judge() string
	// Schemas are JSON Schemas (draft 2020-12) of the action, the observation and the state.
	Schemas() Schemas
	// New makes the environment of one session.
	New() Environment
}

// Schemas are the JSON Schemas that /schema serves, each a JSON object, and the tools.
type Schemas struct {
	Action      json.RawMessage
	Observation json.RawMessage
	State       json.RawMessage
	// Tools are the actions as functions that an agent calls.
	Tools []Tool
	// Allowed are the types of actions of the tasks that don't allow all.
	Allowed map[string][]string
}

// ActionOf returns the JSON Schema of the actions that a task allows: an object for each type, with
// its own members alone.
func (s Schemas) ActionOf(task string) (json.RawMessage, error) {
	var variants []any
	for _, tool := range s.Tools {
		if allowed, some := s.Allowed[task]; some && !slices.Contains(allowed, tool.Name) {
			continue
		}
		variant, err := tool.variant()
		if err != nil {
			return nil, err
		}
		variants = append(variants, variant)
	}
	return json.Marshal(schema{"$schema": draft, "type": "object", "anyOf": variants})
}

var (
	// ErrUnknownTask means that the environment has no task with this name.
	ErrUnknownTask = errors.New("unknown task")
	// ErrUnknownScenario means that the task has no scenario with this id.
	ErrUnknownScenario = errors.New("unknown scenario")
	// ErrNotReset means that an action was sent before the first reset.
	ErrNotReset = errors.New("no episode yet: send reset first")
)

// InstanceError means that a scenario can't be drawn with a seed.
type InstanceError struct {
	Scenario string
	Seed     int64
	// Err is the failure itself. It names files of the catalogue, so it is logged and sent to no
	// client.
	Err error
}

// Error leaves the failure's text out.
func (e *InstanceError) Error() string {
	return fmt.Sprintf("scenario %s can't be drawn with seed %d: send another seed", e.Scenario, e.Seed)
}

func (e *InstanceError) Unwrap() error { return e.Err }

// MaxJudgeFailures is the number of failures to judge, without a verdict in between, that end an
// episode as errored, so that no client repeats its action forever.
const MaxJudgeFailures = 3

// JudgeError means that a reply could not be judged. It is neither a score nor a step.
type JudgeError struct {
	// Cause is the machine-readable class of the failure, for example "judge_timeout".
	Cause string
	// Err is the failure itself. It may quote the reply or the model's answer, so it is never sent
	// to clients and logged only at debug level.
	Err error
}

// Error is for agents, so it has the cause and nothing of the judge's endpoint.
func (e *JudgeError) Error() string {
	what := e.Cause
	if e.Cause == score.ClassJudgeUnavailable {
		what += ": the judge can't be reached"
	}
	return "the reply could not be judged (" + what + "): the step was not taken, send the same action again"
}

// Detail is for the log and the runner of a run. It is the part of the failure that quotes neither
// a reply nor an answer, or "": the status and the address of the judge's endpoint, for example,
// and the name of its model.
func (e *JudgeError) Detail() string {
	var public interface{ Public() string }
	if errors.As(e.Err, &public) {
		return public.Public()
	}
	return ""
}

func (e *JudgeError) Unwrap() error { return e.Err }

// ActionError lists the reasons why an action is outside the environment's schema. Its items have
// the shape of pydantic's, which OpenEnv clients parse.
type ActionError struct {
	Items []ErrorItem
}

// ErrorItem is one fault of an action.
type ErrorItem struct {
	// Type is pydantic's name of the fault: missing, extra_forbidden, literal_error, string_type,
	// string_too_long, …
	Type string `json:"type"`
	// Loc is the path of the fault, starting at the action's fields.
	Loc []any `json:"loc"`
	// Msg describes what to send instead.
	Msg string `json:"msg"`
	// Input is the value that was sent there.
	Input json.RawMessage `json:"input,omitempty"`
}

func (e *ActionError) Error() string {
	msgs := make([]string, len(e.Items))
	for i, item := range e.Items {
		msgs[i] = item.Msg
	}
	return "invalid action: " + strings.Join(msgs, "; ")
}
