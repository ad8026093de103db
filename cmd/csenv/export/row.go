package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/rollout"
)

// row is an episode as a line of JSON or a row of a table. Its messages and tools have the form of
// OpenAI's chat completions, which chat templates and trainers read; parts without a fixed schema
// are JSON texts, because columns of tables have one type.
type row struct {
	Run         string `json:"run" parquet:"run,dict"`
	RunUID      string `json:"run_uid" parquet:"run_uid,dict"`
	Episode     int64  `json:"episode" parquet:"episode"`
	EpisodeID   string `json:"episode_id" parquet:"episode_id"`
	Environment string `json:"environment" parquet:"environment,dict"`
	Task        string `json:"task" parquet:"task,dict"`
	Scenario    string `json:"scenario" parquet:"scenario,dict"`
	Split       string `json:"split" parquet:"split,dict"`
	Trial       int64  `json:"trial" parquet:"trial"`
	Seed        int64  `json:"seed" parquet:"seed"`
	Agent       string `json:"agent" parquet:"agent,dict"`
	// Began and Completed are the run's times in RFC 3339, Completed null if it hasn't ended.
	// Version is the release of csenv that ran it.
	Began     string  `json:"run_began" parquet:"run_began,dict"`
	Completed *string `json:"run_completed" parquet:"run_completed,dict"`
	Version   string  `json:"program_version" parquet:"program_version,dict"`

	Outcome string `json:"outcome" parquet:"outcome,dict"`
	// Class is the class of error of an errored episode, which has no score: judge_unavailable and
	// the like if its reply was not judged.
	Class *string  `json:"error_class" parquet:"error_class"`
	Score *float64 `json:"score" parquet:"score"`
	// Reward is the sum of the rewards of the steps.
	Reward     float64     `json:"reward" parquet:"reward"`
	Dimensions []dimension `json:"dimensions" parquet:"dimensions,list"`

	// Answers are the agent's, of which the environment refused NoAction. Provoking
	// are the replies that alone made their judgement fail.
	Answers   int64 `json:"answers" parquet:"answers"`
	NoAction  int64 `json:"no_action" parquet:"no_action"`
	Provoking int64 `json:"provoking" parquet:"provoking"`

	Messages []message `json:"messages" parquet:"messages,list"`
	// Tools is JSON: the functions that the agent could call.
	Tools string `json:"tools" parquet:"tools,dict"`
	Steps []step `json:"steps" parquet:"steps,list"`
	// PromptTokens and CompletionTokens are the sums of the steps, null if they are unknown.
	PromptTokens     *int64 `json:"prompt_tokens" parquet:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens" parquet:"completion_tokens"`

	Judge string `json:"judge" parquet:"judge,dict"`
	// Basis says what the score rests on, "" for tasks without a message to the customer.
	Basis          string `json:"basis" parquet:"basis,dict"`
	GraderVersion  string `json:"grader_version" parquet:"grader_version,dict"`
	ScenarioDigest string `json:"scenario_digest" parquet:"scenario_digest,dict"`
	Attempts       int64  `json:"attempts" parquet:"attempts"`
	DurationMS     int64  `json:"duration_ms" parquet:"duration_ms"`
	// Objection is why a person finds the grade wrong, null if nobody does.
	Objection *string `json:"grade_is_wrong_because" parquet:"grade_is_wrong_because"`
	// Gold is JSON, and null unless it is asked for.
	Gold *string `json:"gold" parquet:"gold"`
}

// dimension is a part of the score, in points.
type dimension struct {
	Name    string  `json:"name" parquet:"name,dict"`
	Earned  float64 `json:"earned" parquet:"earned"`
	Offered float64 `json:"offered" parquet:"offered"`
}

type message struct {
	Role       string  `json:"role" parquet:"role,dict"`
	Content    *string `json:"content" parquet:"content"`
	ToolCalls  []call  `json:"tool_calls" parquet:"tool_calls,list,optional"`
	ToolCallID *string `json:"tool_call_id" parquet:"tool_call_id"`
}

type call struct {
	ID       string   `json:"id" parquet:"id"`
	Type     string   `json:"type" parquet:"type,dict"`
	Function function `json:"function" parquet:"function"`
}

type function struct {
	Name string `json:"name" parquet:"name,dict"`
	// Arguments are JSON, as models write them.
	Arguments string `json:"arguments" parquet:"arguments"`
}

// step is an action with its reward.
type step struct {
	// Message is the index of the agent's message.
	Message int64 `json:"message" parquet:"message"`
	// Action is JSON, as it was sent to the environment.
	Action string `json:"action" parquet:"action"`
	// Refused is why the action was refused, null if it wasn't.
	Refused *string `json:"refused" parquet:"refused"`
	// Reward is the recorded reward, and DenseReward the dense mode's, null if it is unknown.
	Reward      float64  `json:"reward" parquet:"reward"`
	DenseReward *float64 `json:"dense_reward" parquet:"dense_reward"`

	PromptTokens     *int64 `json:"prompt_tokens" parquet:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens" parquet:"completion_tokens"`
	// The token-level trace of the answer, null unless the model's endpoint returned it.
	PromptTokenIDs     []int32   `json:"prompt_token_ids" parquet:"prompt_token_ids,list,optional"`
	CompletionTokenIDs []int32   `json:"completion_token_ids" parquet:"completion_token_ids,list,optional"`
	CompletionTexts    []string  `json:"completion_token_texts" parquet:"completion_token_texts,list,optional"`
	LogProbs           []float64 `json:"logprobs" parquet:"logprobs,list,optional"`
}

// newRow writes an episode as a row.
func newRow(t *trajectory) (*row, error) {
	tools, err := json.Marshal(t.tools)
	if err != nil {
		return nil, fmt.Errorf("writing the tools of episode %d: %w", t.Index, err)
	}
	counts := rollout.CountAnswers(t.Outcome, t.Turns, t.Verdicts, t.Customer)
	r := &row{
		Answers: counts.Answers, NoAction: counts.NoAction, Provoking: counts.Unread,
		Run: t.run.Name, RunUID: string(t.run.UID), Episode: t.Index, EpisodeID: t.EpisodeID,
		Environment: t.Environment, Task: t.Task, Scenario: t.Scenario, Split: t.split, Trial: int64(t.Trial),
		Seed: t.Seed, Agent: source.AgentName(t.run.EvaluationRun), Outcome: string(t.Outcome), Class: orNil(t.Class),
		Score: t.Score, Reward: t.sumRewards(), Dimensions: []dimension{}, Tools: string(tools), Judge: t.Judge,
		Basis: t.describeTrust(), GraderVersion: t.GraderVersion, ScenarioDigest: t.ScenarioDigest,
		Attempts:   int64(t.Attempts),
		DurationMS: t.DurationMS, Objection: orNil(t.objection), Steps: make([]step, len(t.Turns)),
		Version: versionOf(t.run),
	}
	r.Began, r.Completed = timesOf(t.run)
	for _, d := range t.Dimensions {
		r.Dimensions = append(r.Dimensions, dimension{d.Name, float64(d.Earned) / 1000, float64(d.Offered) / 1000})
	}
	if sum := t.sumTokens(); sum != nil {
		r.PromptTokens, r.CompletionTokens = &sum.Prompt, &sum.Completion
	}
	r.addMessages(t)
	for i := range t.Turns {
		r.Steps[i] = newStep(t, i)
	}
	if t.gold != nil {
		gold, err := json.Marshal(t.gold)
		if err != nil {
			return nil, fmt.Errorf("writing the gold of episode %d: %w", t.Index, err)
		}
		r.Gold = orNil(string(gold))
	}
	return r, nil
}

// timesOf are the times at which a run began and, unless it hasn't, ended.
func timesOf(run *source.LoadedRun) (began string, completed *string) {
	start := run.CreationTimestamp
	if run.Status.StartTime != nil {
		start = *run.Status.StartTime
	}
	if run.Status.CompletionTime != nil {
		completed = new(run.Status.CompletionTime.UTC().Format(time.RFC3339))
	}
	return start.UTC().Format(time.RFC3339), completed
}

// versionOf is the version of csenv that a run is of.
func versionOf(run *source.LoadedRun) string {
	if run.Status.Provenance == nil {
		return "unknown"
	}
	return cmp.Or(run.Status.Provenance.OperatorVersion, "unknown")
}

func (r *row) addMessages(t *trajectory) {
	r.Messages = make([]message, len(t.messages))
	for i, m := range t.messages {
		r.Messages[i] = message{Role: m.Role, Content: m.Content, ToolCallID: orNil(m.ToolCallID)}
		for _, c := range m.ToolCalls {
			r.Messages[i].ToolCalls = append(r.Messages[i].ToolCalls,
				call{c.ID, c.Type, function{c.Function.Name, c.Function.Arguments}})
		}
	}
}

func newStep(t *trajectory, i int) step {
	turn := t.Turns[i]
	s := step{Message: int64(resultOf(i) - 1), Action: string(turn.Action), Refused: orNil(turn.Refused),
		Reward: turn.Reward}
	if t.dense != nil {
		s.DenseReward = &t.dense[i]
	}
	if turn.Tokens != nil {
		s.PromptTokens, s.CompletionTokens = &turn.Tokens.Prompt, &turn.Tokens.Completion
	}
	if turn.Trace != nil {
		s.PromptTokenIDs, s.CompletionTokenIDs = turn.Trace.PromptIDs, turn.Trace.IDs
		s.CompletionTexts, s.LogProbs = turn.Trace.Tokens, turn.Trace.LogProbs
	}
	return s
}

// orNil returns nil for an empty text.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
