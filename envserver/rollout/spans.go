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
	if !tracing.On(ctx) {
		return ctx, tracing.None
	}
	e := j.episode
	return tracing.Start(ctx, "invoke_agent "+s.Identity.Name, trace.WithAttributes(
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
		tracing.Fail(span, failed.class)
		span.SetAttributes(tracing.KeyOutcome.String(string(score.Errored)))
		return
	case err != nil: // the shard ends
		tracing.Fail(span, semconv.ErrorTypeOther.Value.AsString())
		return
	}
	span.SetAttributes(tracing.KeyOutcome.String(string(end.Metadata.Outcome)))
	if points := end.Metadata.EpisodeScore; points != nil {
		label := "fail"
		if math.Round(*points*score.One) >= float64(s.Plan.PassScore) {
			label = "pass"
		}
		evaluated(span, "score", *points, semconv.GenAIEvaluationScoreLabel(label))
	}
	for _, d := range end.Metadata.ScoreBreakdown {
		evaluated(span, d.Name, d.Earned)
	}
}

// evaluated adds a part of the score. There is no explanation, because it may contain the right
// answers.
func evaluated(span trace.Span, name string, value float64, more ...attribute.KeyValue) {
	span.AddEvent(tracing.EventEvaluation, trace.WithAttributes(append(more, semconv.GenAIEvaluationName(name),
		semconv.GenAIEvaluationScoreValue(value))...))
}

// spent adds an attempt's tokens to its span.
func spent(ctx context.Context, used score.Tokens) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(semconv.GenAIUsageInputTokens(int(used.Prompt)),
			semconv.GenAIUsageOutputTokens(int(used.Completion)))
	}
}

// startStep starts the span of an action and its effect.
func startStep(ctx context.Context, step int) (context.Context, trace.Span) {
	ctx, span := tracing.Start(ctx, tracing.SpanStep)
	if span.IsRecording() {
		span.SetAttributes(tracing.KeyStep.Int(step))
	}
	return ctx, span
}

// endStep ends the span of a step. A refused action is no error: the agent may try another one.
func endStep(span trace.Span, err error) {
	defer span.End()
	if err == nil || !span.IsRecording() {
		return
	}
	if refusal(err) != "" {
		span.SetAttributes(tracing.KeyRefused.Bool(true))
		return
	}
	tracing.Fail(span, classOf(err))
}

// classOf is the class of an error of a step.
func classOf(err error) string {
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed.class
	}
	return classify(err)
}

// endTool ends the span of an action. A type that the environment doesn't have is no name, because
// it may be anything that the agent said.
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
	if tracing.Content(ctx) {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(tracing.Clip(action)))
		if !seen.Done { // agents don't see the last observation, which follows the grading
			span.SetAttributes(semconv.GenAIToolCallResultKey.String(tracing.Clip(seen.Observation)))
		}
	}
	if refusal(err) != "" {
		tracing.Fail(span, "refused")
	} else if err != nil {
		tracing.Fail(span, classOf(err))
	}
}
