// Package episode says what an environment is: something that is reset to a scenario, stepped with
// actions and, when it is done, has an outcome and a score. The ticket and the workflow environment
// implement it, the OpenEnv server serves it, and neither knows the other.
package episode

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/csenv/csenv/envserver/score"
)

// RewardMode says when reward is paid.
type RewardMode string

const (
	// Dense pays each step what it changed in the episode's return.
	Dense RewardMode = "dense"
	// Terminal pays 0 until the last step and the whole return there, so that no reward tells an
	// agent what it got right.
	Terminal RewardMode = "terminal"
)

// Options are what a client may ask for at reset. The zero value is a valid request: the server's
// default task, and a scenario drawn by seed 0.
type Options struct {
	// Seed fixes every drawn value of the episode. It is at least 0 and below 2^53, so that every
	// JSON reader keeps it exactly.
	Seed int64
	// EpisodeID is reported by State. The server fills it in when the client gave none.
	EpisodeID string
	// Task is one of the environment's tasks, "" for its default.
	Task string
	// Scenario is a scenario id of the task, "" to draw one by Seed.
	Scenario string
	// RewardMode is "" for the server's default.
	RewardMode RewardMode
	// Pressure asks for simulated minutes: every action takes some, and a late reply earns less.
	// Tasks that have no use for it, or have a clock anyway, ignore it.
	Pressure bool
}

// Environment plays one episode at a time for one session. It is not safe for concurrent use, holds
// no reference to another session's state, and answers the same scenario, seed and actions with the
// same bytes.
type Environment interface {
	// Reset begins a new episode, whatever state the last one was in. An error wraps ErrUnknownTask
	// or ErrUnknownScenario when the options ask for what isn't there.
	Reset(opts Options) (Result, error)
	// Step plays one action (a JSON object). It returns an *ActionError for an action outside the
	// schema, which costs no step, and ErrNotReset before the first Reset. After the end of the
	// episode it answers done with reward 0. Any other error is a failure of ours: the step is not
	// consumed, and the same action may be sent again. It is a *JudgeError when a reply could not
	// be judged; the last of MaxJudgeFailures of those without a verdict between ends the episode
	// as errored.
	Step(ctx context.Context, action json.RawMessage) (Result, error)
	// State is what the state message reports: {"episode_id", "step_count", ...}. It never holds
	// gold labels.
	State() any
}

// Result answers a reset or a step.
type Result struct {
	// Observation holds the environment's own fields; it marshals to a JSON object without done and
	// reward and is not changed by later steps.
	Observation any
	// Reward is in milli-points, 0 on reset.
	Reward int64
	// Done is true from the last step of the episode on.
	Done bool
	// Final is set exactly once, on the step that ended the episode.
	Final *Final
}

// Final is the end of an episode as the grader sees it.
type Final struct {
	Task     string
	Scenario string
	Category string
	Outcome  score.Outcome
	// Score is in micro-points, 0 to score.One.
	Score int64
	// Dimensions in the order of the task's rubric, in milli-points.
	Dimensions []score.Dimension
	// Judge names the scale that graded the reply, for example "offline-v2"; "rules" where no reply
	// is judged.
	Judge string
	// Verdicts are the judge's on the replies, a JSON object each. They name criteria, points and
	// reasons, so they are for the end of an episode only.
	Verdicts []json.RawMessage
	// Cause is the machine-readable class of the failure that an errored episode ended by, for
	// example "judge_timeout"; "" for every other outcome.
	Cause string
	// Receipt is the server's signed word for an episode of a run, which it adds itself; "" for
	// every other episode.
	Receipt string
}

// Kind is an environment that a server can serve: its catalogue, its schemas and a factory of
// sessions' environments. It is safe for concurrent use.
type Kind interface {
	// Name is "ticket" or "workflow".
	Name() string
	// Description is one or two sentences for people.
	Description() string
	// Tasks in the order in which they are reported; the first one is the default.
	Tasks() []score.Task
	// ScenarioDigest is "sha256:<hex>" over every served or graded byte of the catalogue.
	ScenarioDigest() string
	// GraderVersion changes whenever a score can change for the same episode.
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
}

var (
	// ErrUnknownTask means that the environment has no task of the name asked for.
	ErrUnknownTask = errors.New("unknown task")
	// ErrUnknownScenario means that the task has no scenario of the id asked for.
	ErrUnknownScenario = errors.New("unknown scenario")
	// ErrNotReset means that an action came before the first reset.
	ErrNotReset = errors.New("no episode yet: send reset first")
)

// MaxJudgeFailures is the number of failures to judge, without a verdict between, that end an
// episode as errored: a client that repeats its action doesn't do so for ever, and the episode's
// end says that it has no score.
const MaxJudgeFailures = 3

// JudgeError means that a reply could not be judged. That is a failure of ours, so it is neither a
// score nor a step.
type JudgeError struct {
	// Cause is the machine-readable class of the failure, for example "judge_timeout".
	Cause string
	// Err is the failure itself. It may quote the reply or the model's answer, so it goes to no
	// client and into no log above the debug level.
	Err error
}

// Error says what to do, and nothing of the failure's text.
func (e *JudgeError) Error() string {
	return "the reply could not be judged (" + e.Cause + "): the step was not taken, send the same action again"
}

// Unwrap returns the failure itself.
func (e *JudgeError) Unwrap() error { return e.Err }

// ActionError says why an action is outside the environment's schema. Its items have the shape of
// pydantic's, which OpenEnv clients know.
type ActionError struct {
	Items []ErrorItem
}

// ErrorItem is one fault in an action.
type ErrorItem struct {
	// Type is pydantic's name of the fault: missing, extra_forbidden, literal_error, string_type,
	// string_too_long, …
	Type string `json:"type"`
	// Loc is the path of the fault, from the action's own fields on.
	Loc []any `json:"loc"`
	// Msg tells a person what to send instead.
	Msg string `json:"msg"`
	// Input is what was sent there.
	Input json.RawMessage `json:"input,omitempty"`
}

// Error lists the messages of the items.
func (e *ActionError) Error() string {
	msgs := make([]string, len(e.Items))
	for i, item := range e.Items {
		msgs[i] = item.Msg
	}
	return "invalid action: " + strings.Join(msgs, "; ")
}
