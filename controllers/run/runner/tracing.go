package runner

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/tracing"
)

// SelectTracingVariables returns the operator's variables for tracing that its runners get as well.
// There are no headers among them, because those contain keys, and no files, because runners don't
// have them.
func SelectTracingVariables(getenv func(string) string) []corev1.EnvVar {
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

// listOwnVariables are those that a run sets for its runners.
func listOwnVariables(run *v1alpha1.EvaluationRun) []corev1.EnvVar {
	if run.Spec.Template == nil {
		return nil
	}
	return run.Spec.Template.Env
}

// SendsTracesElsewhere reports whether a run has an exporter of its own, or none.
func SendsTracesElsewhere(run *v1alpha1.EvaluationRun) bool {
	return slices.ContainsFunc(listOwnVariables(run), func(own corev1.EnvVar) bool {
		return strings.HasPrefix(own.Name, tracing.ExporterVariables) || own.Name == "OTEL_SDK_DISABLED" ||
			own.Name == "OTEL_TRACES_EXPORTER"
	})
}
