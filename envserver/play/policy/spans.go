package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
)

// startChat starts the span of one request to a model.
func (p *modelPlayer) startChat(ctx context.Context, request *endpoint.ChatRequest) (context.Context,
	trace.Span) {
	if !tracing.IsRecording(ctx) {
		return ctx, tracing.None
	}
	ctx, span := tracing.StartSpan(ctx, "chat "+p.config.Model, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(semconv.GenAIOperationNameChat, semconv.GenAIProviderNameOpenAI,
			semconv.GenAIRequestModel(p.config.Model)))
	span.SetAttributes(tracing.ServerAttributes(p.config.BaseURL)...)
	if request.Seed != nil {
		span.SetAttributes(semconv.GenAIRequestSeed(int(*request.Seed)))
	}
	if request.Temperature != nil {
		span.SetAttributes(semconv.GenAIRequestTemperature(*request.Temperature))
	}
	if p.config.MaxTokens > 0 {
		span.SetAttributes(semconv.GenAIRequestMaxTokens(int(p.config.MaxTokens)))
	}
	if tracing.HasContent(ctx) {
		p.recordInput(span, len(request.Tools) > 0)
	}
	return ctx, span
}

// endChat ends the span with the model's answer or the class of the error.
func endChat(ctx context.Context, span trace.Span, answer *endpoint.Answer, err error) {
	defer span.End()
	if !hasAnswer(span, err) {
		return
	}
	used := tokensOf(answer.Usage.PromptTokens, answer.Usage.CompletionTokens)
	span.SetAttributes(semconv.GenAIResponseID(clipText(answer.ID, maxName)),
		semconv.GenAIResponseModel(clipText(answer.Model, maxName)),
		semconv.GenAIUsageInputTokens(int(used.Prompt)), semconv.GenAIUsageOutputTokens(int(used.Completion)))
	if cached := answer.Usage.PromptDetails.Cached; cached > 0 {
		span.SetAttributes(semconv.GenAIUsageCacheReadInputTokens(int(min(cached, maxTokenCount))))
	}
	span.SetAttributes(semconv.GenAIResponseFinishReasons(clipText(answer.FinishReason, maxName)))
	if tracing.HasContent(ctx) {
		recordOutput(span, answer)
	}
}

// hasAnswer records the error of a request, and reports whether there is an answer to record.
func hasAnswer(span trace.Span, err error) bool {
	if !span.IsRecording() {
		return false
	}
	if err != nil {
		tracing.FailSpan(span, classOf(err))
	}
	return err == nil
}

// maxName bounds, in bytes, what an endpoint may add to a span as a name or an id.
const maxName = 256

// classOf is the status of an endpoint's answer, or the class of a request without one.
func classOf(err error) string {
	e, ok := errors.AsType[*endpoint.Error](err)
	switch {
	case !ok:
		return semconv.ErrorTypeOther.Value.AsString()
	case e.Status >= http.StatusBadRequest:
		return strconv.Itoa(e.Status)
	}
	return e.Class.String()
}

// startPost starts the span of one request to an HTTP policy, and passes it on with the request, so
// that the policy's own spans are part of the trace.
func (r *remote) startPost(ctx context.Context, request *http.Request) trace.Span {
	if !tracing.IsRecording(ctx) {
		return tracing.None
	}
	name := hostOf(r.service.BaseURL)
	ctx, span := tracing.StartSpan(ctx, "invoke_agent "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(semconv.GenAIOperationNameInvokeAgent,
			semconv.GenAIProviderNameKey.String(tracing.Provider), semconv.GenAIAgentName(name)))
	span.SetAttributes(tracing.ServerAttributes(r.service.BaseURL)...)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	return span
}

func endPost(span trace.Span, answer *Response, err error) {
	defer span.End()
	if !hasAnswer(span, err) {
		return
	}
	used := tokensOf(answer.Usage.Prompt, answer.Usage.Completion)
	if used != (score.Tokens{}) {
		span.SetAttributes(semconv.GenAIUsageInputTokens(int(used.Prompt)),
			semconv.GenAIUsageOutputTokens(int(used.Completion)))
	}
}

// message is one of the semantic conventions' messages, and part a part of it.
type message struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Content   string          `json:"content,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

// recordInput records what is new in a request: the earlier messages are in the earlier spans of
// the episode.
func (p *modelPlayer) recordInput(span trace.Span, withTools bool) {
	if len(p.talk.turns) == 0 {
		mode := ModeJSON
		if withTools {
			mode = ModeTools
		}
		span.SetAttributes(semconv.GenAISystemInstructionsKey.String(encodeJSON([]part{newTextPart(p.system[mode])})),
			semconv.GenAIInputMessagesKey.String(encodeJSON([]message{{Role: "user",
				Parts: []part{newTextPart("Task: " + p.talk.task + "\nObservation: " + string(p.talk.first))}}})))
		return
	}
	last := p.talk.turns[len(p.talk.turns)-1]
	input := message{Role: "user", Parts: []part{newTextPart(last.result)}}
	if last.call != nil && withTools {
		input = message{Role: "tool", Parts: []part{{Type: "tool_call_response", ID: last.call.id,
			Response: clipText(last.result, maxSaid)}}}
	}
	span.SetAttributes(semconv.GenAIInputMessagesKey.String(encodeJSON([]message{input})))
}

// recordOutput records an answer.
func recordOutput(span trace.Span, answer *endpoint.Answer) {
	output := message{Role: "assistant", Parts: []part{}, FinishReason: clipText(answer.FinishReason, maxName)}
	if said := cmp.Or(answer.Text, answer.Refusal); said != "" {
		output.Parts = append(output.Parts, newTextPart(said))
	}
	for _, call := range answer.Calls {
		arguments := reencodeObject([]byte(call.Function.Arguments))
		if len(arguments) > maxSaid {
			arguments = nil
		}
		output.Parts = append(output.Parts, part{Type: "tool_call", ID: clipText(call.ID, maxName),
			Name: clipText(call.Function.Name, maxName), Arguments: arguments})
	}
	span.SetAttributes(semconv.GenAIOutputMessagesKey.String(encodeJSON([]message{output})))
}

func newTextPart(content string) part { return part{Type: "text", Content: clipText(content, maxSaid)} }

// encodeJSON is the JSON of parts or messages, whose texts are valid UTF-8.
func encodeJSON(parts any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	return string(data)
}
