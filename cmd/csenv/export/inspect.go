package export

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/score"
)

// inspect writes a run as a log of Inspect, RUN.eval: a ZIP archive with a file for each sample, a
// list of the samples and a header, version 2 of Inspect's schema (inspect_ai.log.EvalLog).
type inspect struct {
	folder *folder
	logs   map[string]*inspectLog
	order  []*inspectLog
}

func newInspect(f *folder) writer { return &inspect{folder: f, logs: map[string]*inspectLog{}} }

// inspectLog is the log of a run.
type inspectLog struct {
	run     *source.LoadedRun
	file    io.WriteCloser
	archive *zip.Writer
	taken   map[string]bool // names of files
	samples []inspectSummary
	ids     []string
	scored  int
	sum     float64
	used    score.Tokens
	epochs  int
	// environment is the environment of the run's first episode.
	environment string
}

type inspectSample struct {
	inspectSummary
	Messages []inspectMessage `json:"messages"`
	Output   inspectOutput    `json:"output"`
	Error    *inspectError    `json:"error,omitempty"`
}

// inspectSummary is the part of a sample that the list of samples repeats.
type inspectSummary struct {
	ID        string                  `json:"id"`
	Epoch     int                     `json:"epoch"`
	Input     string                  `json:"input"`
	Target    string                  `json:"target"`
	Metadata  map[string]any          `json:"metadata"`
	Scores    map[string]inspectScore `json:"scores,omitempty"`
	Usage     map[string]inspectUsage `json:"model_usage,omitempty"`
	TotalTime float64                 `json:"total_time"`
	UUID      string                  `json:"uuid"`
	// Completed and MessageCount are in the list alone.
	Completed    bool   `json:"completed,omitempty"`
	MessageCount int    `json:"message_count,omitempty"`
	Failure      string `json:"error,omitempty"`
}

type inspectScore struct {
	Value    float64        `json:"value"`
	Metadata map[string]any `json:"metadata"`
}

type inspectUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
}

type inspectError struct {
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	ANSI      string `json:"traceback_ansi"`
}

type inspectOutput struct {
	Model   string          `json:"model"`
	Choices []inspectChoice `json:"choices"`
}

type inspectChoice struct {
	Message    inspectMessage `json:"message"`
	StopReason string         `json:"stop_reason"`
}

type inspectMessage struct {
	Role     string          `json:"role"`
	Content  string          `json:"content"`
	Calls    []inspectCall   `json:"tool_calls,omitempty"`
	CallID   string          `json:"tool_call_id,omitempty"`
	Function string          `json:"function,omitempty"`
	Error    *inspectRefusal `json:"error,omitempty"`
	Metadata map[string]any  `json:"metadata,omitempty"`
}

type inspectCall struct {
	ID        string          `json:"id"`
	Function  string          `json:"function"`
	Arguments json.RawMessage `json:"arguments"`
	Type      string          `json:"type"`
}

type inspectRefusal struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (w *inspect) add(t *trajectory) error {
	l := w.logs[t.run.Name]
	if l == nil {
		file, err := w.folder.create(t.run.Name + ".eval")
		if err != nil {
			return err
		}
		l = &inspectLog{run: t.run, file: file, archive: zip.NewWriter(file), taken: map[string]bool{},
			environment: t.Environment}
		w.logs[t.run.Name], w.order = l, append(w.order, l)
	}
	return l.add(t)
}

func (w *inspect) close() error {
	for _, l := range w.order {
		if err := l.close(); err != nil {
			return err
		}
	}
	return nil
}

func (l *inspectLog) write(name string, content any) error {
	// Without a time, the same episodes give the same bytes.
	file, err := l.archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err == nil {
		err = json.NewEncoder(file).Encode(content)
	}
	if err != nil {
		return fmt.Errorf("writing an Inspect log: %w", err)
	}
	return nil
}

func (l *inspectLog) add(t *trajectory) error {
	id, epoch := t.Task+":"+t.Scenario, t.Trial+1
	name := func() string { return fmt.Sprintf("samples/%s_epoch_%d.json", id, epoch) }
	for l.taken[name()] {
		epoch++
	}
	if !l.taken[fmt.Sprintf("samples/%s_epoch_1.json", id)] {
		l.ids = append(l.ids, id)
	}
	l.taken[name()] = true
	s := newInspectSample(t, id, epoch)
	l.count(t, epoch)
	listed := s.inspectSummary
	listed.Completed, listed.MessageCount = true, len(s.Messages)
	if s.Error != nil {
		listed.Failure = s.Error.Message
	}
	l.samples = append(l.samples, listed)
	return l.write(name(), s)
}

// count adds a sample to the log's figures.
func (l *inspectLog) count(t *trajectory, epoch int) {
	l.epochs = max(l.epochs, epoch)
	if t.Score != nil {
		l.scored++
		l.sum += *t.Score
	}
	if used := t.tokens(); used != nil {
		l.used.Add(*used)
	}
}

func newInspectSample(t *trajectory, id string, epoch int) inspectSample {
	s := inspectSample{inspectSummary: inspectSummary{ID: id, Epoch: epoch, Input: getContent(t.messages[1]),
		Metadata: collectFacts(t), TotalTime: float64(t.DurationMS) / 1000, UUID: t.EpisodeID}}
	model := source.AgentName(t.run.EvaluationRun)
	if t.Score != nil {
		s.Scores = map[string]inspectScore{scorer: {Value: *t.Score,
			Metadata: map[string]any{"judge": t.Judge, "basis": t.basis()}}}
	}
	if t.Outcome == score.Errored {
		s.Error = &inspectError{Message: t.Class}
	}
	if used := t.tokens(); used != nil {
		s.Usage = map[string]inspectUsage{model: usageOf(*used)}
	}
	for i, m := range t.messages {
		s.Messages = append(s.Messages, newInspectMessage(m))
		if i >= resultOf(0)-1 {
			s.Messages[i].describe(t, (i-2)/2)
		}
	}
	s.Output = inspectOutput{Model: model, Choices: []inspectChoice{}}
	if n := len(t.Turns); n > 0 {
		s.Output.Choices = append(s.Output.Choices, inspectChoice{s.Messages[resultOf(n-1)-1], "stop"})
	}
	return s
}

// scorer is the name of the score.
const scorer = "csenv"

func usageOf(t score.Tokens) inspectUsage {
	return inspectUsage{t.Prompt, t.Completion, t.Prompt + t.Completion}
}

func newInspectMessage(m endpoint.ChatMessage) inspectMessage {
	out := inspectMessage{Role: m.Role, Content: getContent(m), CallID: m.ToolCallID}
	for _, c := range m.ToolCalls {
		out.Calls = append(out.Calls, inspectCall{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments), c.Type})
	}
	return out
}

// describe adds the answer's tokens to a message of the agent, and the reward to one with a result.
func (m *inspectMessage) describe(t *trajectory, turn int) {
	played := t.Turns[turn]
	if m.Role == endpoint.RoleAssistant {
		m.Metadata = map[string]any{}
		if played.Tokens != nil {
			m.Metadata["usage"] = usageOf(*played.Tokens)
		}
		if played.Trace != nil {
			m.Metadata["trace"] = played.Trace
		}
		return
	}
	m.Metadata = map[string]any{"reward": played.Reward}
	if t.dense != nil {
		m.Metadata["dense_reward"] = t.dense[turn]
	}
	if m.Role != endpoint.RoleTool {
		return
	}
	m.Function = t.messages[resultOf(turn)-1].ToolCalls[0].Function.Name
	if played.Refused != "" {
		m.Error = &inspectRefusal{"parsing", played.Refused}
	}
}

// close writes the list of the samples and the header.
func (l *inspectLog) close() error {
	if err := l.write("summaries.json", l.samples); err != nil {
		return err
	}
	if err := l.write("header.json", l.header()); err != nil {
		return err
	}
	if err := l.archive.Close(); err != nil {
		return fmt.Errorf("writing an Inspect log: %w", err)
	}
	return l.file.Close()
}

func (l *inspectLog) header() map[string]any {
	run := l.run
	began := run.CreationTimestamp.Time
	if run.Status.StartTime != nil {
		began = run.Status.StartTime.Time
	}
	model, created := source.AgentName(run.EvaluationRun), began.UTC().Format(time.RFC3339)
	stats := map[string]any{"started_at": created}
	if run.Status.CompletionTime != nil {
		stats["completed_at"] = run.Status.CompletionTime.UTC().Format(time.RFC3339)
	}
	if l.used != (score.Tokens{}) {
		stats["model_usage"] = map[string]any{model: usageOf(l.used)}
	}
	results := map[string]any{"total_samples": len(l.samples), "completed_samples": l.scored}
	if l.scored > 0 {
		results["scores"] = []any{map[string]any{"name": scorer, "scorer": scorer, "scored_samples": l.scored,
			"unscored_samples": len(l.samples) - l.scored, "metrics": l.metrics()}}
	}
	return map[string]any{
		"version": 2, "status": "success", "plan": map[string]any{"name": "plan", "steps": []any{}},
		"results": results, "stats": stats,
		"eval": map[string]any{
			"eval_id": string(run.UID), "run_id": string(run.UID), "task_id": string(run.UID), "created": created,
			"task": run.Name, "model": model, "config": map[string]any{"epochs": l.epochs},
			"dataset":  map[string]any{"name": l.environment, "samples": len(l.ids), "sample_ids": l.ids},
			"packages": map[string]string{"csenv": versionOf(run)},
		},
	}
}

// metrics are the mean of the exported samples and, if they are the whole run, the run's standard
// error.
func (l *inspectLog) metrics() map[string]any {
	value := func(name string, v float64) map[string]any { return map[string]any{"name": name, "value": v} }
	out := map[string]any{"mean": value("mean", l.sum/float64(l.scored))}
	if counts, s := l.run.Status.Episodes, l.run.Status.Score; counts != nil && s != nil &&
		int64(l.scored) == counts.Scored+counts.Failed {
		if e, err := strconv.ParseFloat(s.StandardError, 64); err == nil {
			out["stderr"] = value("stderr", e)
		}
	}
	return out
}

// versionOf is the version of csenv that a run is of.
func versionOf(run *source.LoadedRun) string {
	if run.Status.Provenance == nil {
		return "unknown"
	}
	return cmp.Or(run.Status.Provenance.OperatorVersion, "unknown")
}
