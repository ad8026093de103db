package run

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/tracing"
)

// Traces makes the spans of runs.
type Traces interface {
	Run(ctx context.Context, uid string, options ...trace.SpanStartOption) trace.Span
}

// TracingVariables returns the operator's variables for tracing that its runners get as well. There
// are no headers among them, because those contain keys, and no files, because runners don't have
// them.
func TracingVariables(getenv func(string) string) []corev1.EnvVar {
	var variables []corev1.EnvVar
	add := func(name string) {
		if value := getenv(name); value != "" {
			// Kubernetes expands $(NAME) otherwise.
			variables = append(variables, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$(", "$$(")})
		}
	}
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"} {
		add(name)
	}
	for _, name := range []string{"ENDPOINT", "PROTOCOL", "INSECURE", "COMPRESSION", "TIMEOUT"} {
		add(tracing.ExporterVariables + name)
		add(tracing.ExporterVariables + "TRACES_" + name)
	}
	return variables
}

// ownVariables are those that a run sets for its runners.
func ownVariables(run *v1alpha1.EvaluationRun) []corev1.EnvVar {
	if run.Spec.Template == nil {
		return nil
	}
	return run.Spec.Template.Env
}

// sendsElsewhere reports whether a run has an exporter of its own, or none.
func sendsElsewhere(run *v1alpha1.EvaluationRun) bool {
	return slices.ContainsFunc(ownVariables(run), func(own corev1.EnvVar) bool {
		return strings.HasPrefix(own.Name, tracing.ExporterVariables) || own.Name == "OTEL_SDK_DISABLED" ||
			own.Name == "OTEL_TRACES_EXPORTER"
	})
}

// tracingEnv returns the operator's variables without those that the run sets itself. A run with an
// exporter of its own gets nothing of the operator's exporter: the run's headers are for another
// endpoint.
func tracingEnv(run *v1alpha1.EvaluationRun, o runnerOptions) []corev1.EnvVar {
	own, elsewhere := ownVariables(run), sendsElsewhere(run)
	if len(o.tracingVariables) == 0 && !slices.ContainsFunc(own, func(v corev1.EnvVar) bool {
		return strings.HasPrefix(v.Name, "OTEL_")
	}) {
		return nil
	}
	env := append(slices.Clone(o.tracingVariables), corev1.EnvVar{Name: "POD_NAME",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	if o.traced && !elsewhere {
		root := tracing.Root(string(run.UID))
		env = append(env, corev1.EnvVar{Name: "TRACEPARENT",
			Value: fmt.Sprintf("00-%s-%s-%s", root.TraceID, root.SpanID, root.TraceFlags)})
	}
	return slices.DeleteFunc(env, func(v corev1.EnvVar) bool {
		return elsewhere && strings.HasPrefix(v.Name, tracing.ExporterVariables) ||
			slices.ContainsFunc(own, func(o corev1.EnvVar) bool { return o.Name == v.Name })
	})
}

// traceEnd makes the span of a run that has just ended, above those of its shards.
func (r *Reconciler) traceEnd(ctx context.Context, run *v1alpha1.EvaluationRun, status v1alpha1.EvaluationRunStatus) {
	if r.options.Traces == nil || sendsElsewhere(run) || run.Spec.Agent.Type == v1alpha1.ExternalAgent ||
		evaluation.Ended(run.Status.Conditions) || status.CompletionTime == nil {
		return
	}
	about := []attribute.KeyValue{tracing.KeyRun.String(string(run.UID)), tracing.KeyRunName.String(run.Name),
		semconv.K8SNamespaceName(run.Namespace), semconv.GenAIAgentName(evaluation.AgentName(run.Spec.Agent))}
	span := r.options.Traces.Run(ctx, string(run.UID), trace.WithTimestamp(run.CreationTimestamp.Time),
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
