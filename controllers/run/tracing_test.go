package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/tracing"
)

// traces keeps the spans of runs.
type traces struct {
	memory *tracetest.InMemoryExporter
	tracer trace.Tracer
	uids   []string
}

func newTraces() *traces {
	memory := tracetest.NewInMemoryExporter()
	return &traces{memory: memory,
		tracer: tracing.Tracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory)))}
}

func (t *traces) Run(ctx context.Context, uid string, options ...trace.SpanStartOption) trace.Span {
	t.uids = append(t.uids, uid)
	_, span := t.tracer.Start(ctx, tracing.SpanRun, options...)
	return span
}

func TestVariablesOfTheOperator(t *testing.T) {
	set := map[string]string{tracing.ExporterVariables + "ENDPOINT": "http://collector:4318", "OTEL_TRACES_SAMPLER_ARG": "0.1",
		tracing.ExporterVariables + "HEADERS": "x-key=secret", tracing.ExporterVariables + "TRACES_HEADERS": "x-key=secret",
		tracing.ExporterVariables + "CERTIFICATE": "/file/of/the/operator", "OTEL_SERVICE_NAME": "operator",
		"OTEL_RESOURCE_ATTRIBUTES": "team=$(TEAM)"}
	got := map[string]string{}
	for _, v := range TracingVariables(func(name string) string { return set[name] }) {
		got[v.Name] = v.Value
	}
	if diff := cmp.Diff(map[string]string{tracing.ExporterVariables + "ENDPOINT": "http://collector:4318", "OTEL_TRACES_SAMPLER_ARG": "0.1",
		"OTEL_RESOURCE_ATTRIBUTES": "team=$$(TEAM)"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestVariablesOfRunners(t *testing.T) {
	operators := []corev1.EnvVar{{Name: tracing.ExporterVariables + "ENDPOINT", Value: "http://collector:4318"},
		{Name: tracing.ExporterVariables + "PROTOCOL", Value: "http/json"}, {Name: "OTEL_TRACES_SAMPLER_ARG", Value: "0.1"}}
	const parent = "TRACEPARENT=00-0123456789abcdef0123456789abcdef-ae8a9e0016934b97-01"
	for name, tc := range map[string]struct {
		operators []corev1.EnvVar
		runs      map[string]string
		want      string
	}{
		"nobody traces": {nil, map[string]string{"HTTPS_PROXY": "proxy"}, "HTTPS_PROXY=proxy"},
		"the operator traces": {operators, nil, "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 " +
			"OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_TRACES_SAMPLER_ARG=0.1 POD_NAME=metadata.name " + parent},
		"the run samples": {operators, map[string]string{"OTEL_TRACES_SAMPLER_ARG": "1"},
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/json " +
				"POD_NAME=metadata.name " + parent + " OTEL_TRACES_SAMPLER_ARG=1"},
		"the run has a collector": {operators, map[string]string{tracing.ExporterVariables + "ENDPOINT": "http://mine"},
			"OTEL_TRACES_SAMPLER_ARG=0.1 POD_NAME=metadata.name OTEL_EXPORTER_OTLP_ENDPOINT=http://mine"},
		"the run has a parent": {operators, map[string]string{"TRACEPARENT": "00-1"},
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/json " +
				"OTEL_TRACES_SAMPLER_ARG=0.1 POD_NAME=metadata.name TRACEPARENT=00-1"},
		"the run alone traces": {nil, map[string]string{tracing.ExporterVariables + "ENDPOINT": "http://mine"},
			"POD_NAME=metadata.name OTEL_EXPORTER_OTLP_ENDPOINT=http://mine"},
	} {
		t.Run(name, func(t *testing.T) {
			run := newTestRun()
			run.UID = "01234567-89ab-cdef-0123-456789abcdef"
			run.Spec.Template = &v1alpha1.PodOverrides{}
			for name, value := range tc.runs {
				run.Spec.Template.Env = append(run.Spec.Template.Env, corev1.EnvVar{Name: name, Value: value})
			}
			o := runnerOptions{tracingVariables: tc.operators, traced: tc.operators != nil}
			var got []string
			for _, v := range runnerJob(run, pool(), o, jobSpec{attempt: 1, shards: allShards()}).Spec.Template.Spec.Containers[0].Env {
				switch {
				case v.ValueFrom != nil && v.ValueFrom.FieldRef != nil:
					got = append(got, v.Name+"="+v.ValueFrom.FieldRef.FieldPath)
				case v.ValueFrom == nil && v.Name != "GOMEMLIMIT":
					got = append(got, v.Name+"="+v.Value)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run that ends has one span, from its creation to its end, with its score.
func TestSpanOfARun(t *testing.T) {
	w := readyWorld(t)
	kept := newTraces()
	w.r.options.Traces = kept
	run := w.run()
	run.CreationTimestamp = metav1.NewTime(start().Add(-5 * time.Second))
	w.update(run)
	w.toTheEnd()
	w.mustPass()
	spans := kept.memory.GetSpans()
	if len(spans) != 1 || len(kept.uids) != 1 || kept.uids[0] != "run-uid" {
		t.Fatalf("%d spans of %v", len(spans), kept.uids)
	}
	span, ended := spans[0], w.run().Status
	if !span.StartTime.Equal(run.CreationTimestamp.Time) || !span.EndTime.Equal(ended.CompletionTime.Time) ||
		span.Status.Code != codes.Unset {
		t.Errorf("from %v to %v: %v", span.StartTime, span.EndTime, span.Status)
	}
	got := map[attribute.Key]string{}
	for _, a := range append(span.Attributes, span.Events[0].Attributes...) {
		got[a.Key] = a.Value.String()
	}
	if diff := cmp.Diff(map[attribute.Key]string{"csenv.run": "run-uid", "csenv.run.name": runName,
		"k8s.namespace.name": namespace, "gen_ai.agent.name": "Heuristic", "gen_ai.evaluation.name": "mean_score",
		"gen_ai.evaluation.score.value": strings.TrimRight(ended.Score.Mean, "0")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSpanOfAFailedRun(t *testing.T) {
	kept := newTraces()
	w := readyWorld(t)
	w.r.options.Traces = kept
	run, status := w.run(), w.run().Status
	status.CompletionTime = new(metav1.NewTime(start()))
	status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonInvalidPlan}}
	w.r.traceEnd(t.Context(), run, status)
	run.Spec.Template = &v1alpha1.PodOverrides{Env: []corev1.EnvVar{{Name: tracing.ExporterVariables + "ENDPOINT", Value: "http://mine"}}}
	w.r.traceEnd(t.Context(), run, status) // its shards are elsewhere
	if spans := kept.memory.GetSpans(); len(spans) != 1 || spans[0].Status.Description != v1alpha1.ReasonInvalidPlan {
		t.Errorf("%+v", spans)
	}
}
