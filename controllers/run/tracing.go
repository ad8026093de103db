package run

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/tracing"
)

// Traces makes the spans of runs.
type Traces interface {
	Run(ctx context.Context, uid string, options ...trace.SpanStartOption) trace.Span
}

// traceEnd makes the span of a run that has just ended, above those of its shards.
func traceEnd(ctx context.Context, traces Traces, run *v1alpha1.EvaluationRun,
	status v1alpha1.EvaluationRunStatus) {
	if traces == nil || runner.SendsTracesElsewhere(run) || run.Spec.Agent.Type == v1alpha1.ExternalAgent ||
		evaluation.Ended(run.Status.Conditions) || status.CompletionTime == nil {
		return
	}
	about := []attribute.KeyValue{tracing.KeyRun.String(string(run.UID)), tracing.KeyRunName.String(run.Name),
		semconv.K8SNamespaceName(run.Namespace), semconv.GenAIAgentName(evaluation.AgentName(run.Spec.Agent))}
	span := traces.Run(ctx, string(run.UID), trace.WithTimestamp(run.CreationTimestamp.Time),
		trace.WithAttributes(about...))
	ended := trace.WithTimestamp(status.CompletionTime.Time)
	if status.Score != nil {
		if mean, err := strconv.ParseFloat(status.Score.Mean, 64); err == nil {
			span.AddEvent(tracing.EventEvaluation, ended, trace.WithAttributes(
				semconv.GenAIEvaluationName("mean_score"), semconv.GenAIEvaluationScoreValue(mean)))
		}
	}
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionFailed) {
		tracing.Fail(span, meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFailed).Reason)
	}
	span.End(ended)
}
