package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
)

// startEpisode starts the span of an attempt at an episode.
func (s *shard) startEpisode(ctx context.Context, j job) (context.Context, trace.Span) {
	if !tracing.IsRecording(ctx) {
		return ctx, tracing.None
	}
	e := j.episode
	return tracing.StartSpan(ctx, "invoke_agent "+s.Identity.Name, trace.WithAttributes(
		semconv.GenAIOperationNameInvokeAgent, semconv.GenAIProviderNameKey.String(s.Identity.Provider),
		semconv.GenAIAgentName(s.Identity.Name), semconv.GenAIConversationID(s.episodeID(j)),
		tracing.KeyEpisode.Int64(e.Index), tracing.KeySeed.Int64(e.Seed), tracing.KeyAttempt.Int(j.attempts),
		tracing.KeyTask.String(e.Task), tracing.KeyScenario.String(e.Scenario), tracing.KeyTrial.Int(e.Trial)))
}

// endEpisode ends the span with the score, or with the class of the error.
func (s *shard) endEpisode(span trace.Span, end client.Observation, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	failed, _ := errors.AsType[*failure](err)
	switch {
	case failed != nil:
		tracing.FailSpan(span, failed.class)
		span.SetAttributes(tracing.KeyOutcome.String(string(score.Errored)))
		return
	case err != nil: // the shard ends
		tracing.FailSpan(span, semconv.ErrorTypeOther.Value.AsString())
		return
	}
	span.SetAttributes(tracing.KeyOutcome.String(string(end.Metadata.Outcome)))
	if points := end.Metadata.EpisodeScore; points != nil {
		label := "fail"
		if wrong := end.Metadata.Right != nil && !*end.Metadata.Right; !wrong &&
			math.Round(*points*score.One) >= float64(s.Plan.PassScore) {
			label = "pass"
		}
		addEvaluation(span, "score", *points, semconv.GenAIEvaluationScoreLabel(label))
	}
	for _, d := range end.Metadata.ScoreBreakdown {
		addEvaluation(span, d.Name, d.Earned)
	}
}

// addEvaluation adds a part of the score. There is no explanation, because it may contain the right
// answers.
func addEvaluation(span trace.Span, name string, value float64, more ...attribute.KeyValue) {
	span.AddEvent(tracing.EventEvaluation, trace.WithAttributes(append(more, semconv.GenAIEvaluationName(name),
		semconv.GenAIEvaluationScoreValue(value))...))
}

// classOf is the class of an error of a step.
func classOf(err error) string {
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed.class
	}
	return classifyError(err)
}

// endTool ends the span of an action. An unknown type isn't used as a name, because it may be
// anything that the agent said.
func (s *shard) endTool(ctx context.Context, span trace.Span, action json.RawMessage, seen client.Observation,
	err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolType(tracing.ToolFunction))
	var chosen struct {
		Type json.RawMessage `json:"action_type"`
	}
	// An action without a type has no name.
	_ = json.Unmarshal(action, &chosen)
	if name := strings.Trim(string(chosen.Type), `"`); name != "" && bytes.Contains(s.schema, chosen.Type) {
		span.SetName("execute_tool " + name)
		span.SetAttributes(semconv.GenAIToolName(name))
	}
	if tracing.HasContent(ctx) {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(tracing.ClipText(action)))
		if !seen.Done { // agents don't see the last observation, which follows the grading
			span.SetAttributes(semconv.GenAIToolCallResultKey.String(tracing.ClipText(seen.Observation)))
		}
	}
	if readRefusal(err) != "" {
		tracing.FailSpan(span, "refused")
	} else if err != nil {
		tracing.FailSpan(span, classOf(err))
	}
}
