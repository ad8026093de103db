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
	"github.com/csenv/csenv/controllers/run/runtest"
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

// A run that ends has one span, from its creation to its end, with its score.
func TestSpanOfARun(t *testing.T) {
	w := readyWorld(t)
	kept := newTraces()
	w.r.options.Traces = kept
	run := w.run()
	run.CreationTimestamp = metav1.NewTime(runtest.StartTime().Add(-5 * time.Second))
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
	if diff := cmp.Diff(map[attribute.Key]string{"csenv.run": "run-uid", "csenv.run.name": runtest.RunName,
		"k8s.namespace.name": runtest.Namespace, "gen_ai.agent.name": "Heuristic", "gen_ai.evaluation.name": "mean_score",
		"gen_ai.evaluation.score.value": strings.TrimRight(ended.Score.Mean, "0")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSpanOfAFailedRun(t *testing.T) {
	kept := newTraces()
	w := readyWorld(t)
	w.r.options.Traces = kept
	run, status := w.run(), w.run().Status
	status.CompletionTime = new(metav1.NewTime(runtest.StartTime()))
	status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonInvalidPlan}}
	traceEnd(t.Context(), kept, run, status)
	run.Spec.Template = &v1alpha1.PodOverrides{Env: []corev1.EnvVar{{Name: tracing.ExporterVariables + "ENDPOINT", Value: "http://mine"}}}
	traceEnd(t.Context(), kept, run, status) // its shards are elsewhere
	if spans := kept.memory.GetSpans(); len(spans) != 1 || spans[0].Status.Description != v1alpha1.ReasonInvalidPlan {
		t.Errorf("%+v", spans)
	}
}
