package export

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
)

// atif writes an episode as a trajectory of the Agent Trajectory Interchange Format, version 1.7
// (Harbor's RFC 0001), in the place where Harbor expects that of a trial:
// RUN/EPISODE/agent/trajectory.json.
type atif struct{ folder *folder }

func newATIF(f *folder) writer { return atif{f} }

type atifTrajectory struct {
	SchemaVersion string         `json:"schema_version"`
	SessionID     string         `json:"session_id"`
	TrajectoryID  string         `json:"trajectory_id"`
	Agent         atifAgent      `json:"agent"`
	Steps         []atifStep     `json:"steps"`
	FinalMetrics  *atifTotals    `json:"final_metrics,omitempty"`
	Extra         map[string]any `json:"extra"`
}

type atifAgent struct {
	Name    string              `json:"name"`
	Version string              `json:"version"`
	Model   string              `json:"model_name,omitempty"`
	Tools   []endpoint.ChatTool `json:"tool_definitions"`
}

type atifStep struct {
	ID        int             `json:"step_id"`
	Source    string          `json:"source"`
	Message   string          `json:"message"`
	ToolCalls []atifCall      `json:"tool_calls,omitempty"`
	Seen      *atifResults    `json:"observation,omitempty"`
	Metrics   *atifMetrics    `json:"metrics,omitempty"`
	LLMCalls  *int            `json:"llm_call_count,omitempty"`
	Extra     *atifStepReward `json:"extra,omitempty"`
}

type atifCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"`
}

type atifResults struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	CallID  string `json:"source_call_id,omitempty"`
	Content string `json:"content"`
}

type atifMetrics struct {
	Prompt        *int64    `json:"prompt_tokens,omitempty"`
	Completion    *int64    `json:"completion_tokens,omitempty"`
	PromptIDs     []int32   `json:"prompt_token_ids,omitempty"`
	CompletionIDs []int32   `json:"completion_token_ids,omitempty"`
	LogProbs      []float64 `json:"logprobs,omitempty"`
}

type atifStepReward struct {
	Reward      float64  `json:"reward"`
	DenseReward *float64 `json:"dense_reward,omitempty"`
	Refused     string   `json:"refused,omitempty"`
}

type atifTotals struct {
	Prompt     int64 `json:"total_prompt_tokens"`
	Completion int64 `json:"total_completion_tokens"`
}

func (w atif) add(t *trajectory) error {
	content, err := json.Marshal(newATIFTrajectory(t))
	if err != nil {
		return fmt.Errorf("writing a trajectory: %w", err)
	}
	return w.folder.write(t.run.Name+"/"+strconv.FormatInt(t.Index, 10)+"/agent/trajectory.json", content)
}

func (w atif) close() error { return nil }

func newATIFTrajectory(t *trajectory) atifTrajectory {
	out := atifTrajectory{
		SchemaVersion: "ATIF-v1.7", SessionID: string(t.run.UID), TrajectoryID: t.EpisodeID,
		Agent: atifAgent{Name: source.AgentName(t.run.EvaluationRun), Version: versionOf(t.run), Tools: t.tools},
		Extra: collectFacts(t),
	}
	if agent := t.run.Spec.Agent.OpenAI; agent != nil {
		out.Agent.Model = agent.Model
	}
	for i, role := range []string{"system", "user"} {
		out.Steps = append(out.Steps, atifStep{ID: i + 1, Source: role, Message: getContent(t.messages[i])})
	}
	for i := range t.Turns {
		out.Steps = append(out.Steps, newATIFStep(t, i))
	}
	if sum := t.sumTokens(); sum != nil {
		out.FinalMetrics = &atifTotals{sum.Prompt, sum.Completion}
	}
	return out
}

func newATIFStep(t *trajectory, i int) atifStep {
	turn, asked, result := t.Turns[i], t.messages[resultOf(i)-1], t.messages[resultOf(i)]
	s := atifStep{ID: i + 3, Source: "agent", Message: getContent(asked),
		Seen:  &atifResults{[]atifResult{{CallID: result.ToolCallID, Content: getContent(result)}}},
		Extra: &atifStepReward{Reward: turn.Reward, Refused: turn.Refused}}
	for _, c := range asked.ToolCalls {
		s.ToolCalls = append(s.ToolCalls, atifCall{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments)})
	}
	if t.dense != nil {
		s.Extra.DenseReward = &t.dense[i]
	}
	if t.run.Spec.Agent.Builtin != nil {
		s.LLMCalls = new(int) // no model
		return s
	}
	var m atifMetrics
	if turn.Tokens != nil {
		m.Prompt, m.Completion = &turn.Tokens.Prompt, &turn.Tokens.Completion
		s.Metrics = &m
	}
	if turn.Trace != nil {
		m.PromptIDs, m.CompletionIDs, m.LogProbs = turn.Trace.PromptIDs, turn.Trace.IDs, turn.Trace.LogProbs
		s.Metrics = &m
	}
	return s
}

// collectFacts are the parts of an episode for which formats have no members of their own.
func collectFacts(t *trajectory) map[string]any {
	parts := map[string]any{}
	for _, d := range t.Dimensions {
		parts[d.Name] = map[string]any{"earned": float64(d.Earned) / 1000, "offered": float64(d.Offered) / 1000}
	}
	out := map[string]any{"run": t.run.Name, "episode": t.Index, "environment": t.Environment, "task": t.Task,
		"scenario": t.Scenario, "split": t.split, "trial": t.Trial, "seed": t.Seed, "outcome": t.Outcome,
		"score": t.Score, "reward": t.sumRewards(), "dimensions": parts, "judge": t.Judge, "basis": t.describeTrust(),
		"grader_version": t.GraderVersion, "scenario_digest": t.ScenarioDigest, "attempts": t.Attempts}
	counts := rollout.CountAnswers(t.Outcome, t.Turns, t.Verdicts)
	out["answers"], out["no_action"], out["provoking"] = counts.Answers, counts.NoAction, counts.Unread
	if t.Outcome == score.Errored {
		out["error_class"] = t.Class
	}
	if t.gold != nil {
		out["gold"] = t.gold
	}
	return out
}
