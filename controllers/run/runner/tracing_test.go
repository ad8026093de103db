package runner_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/tracing"
)

func TestVariablesOfTheOperator(t *testing.T) {
	set := map[string]string{tracing.ExporterVariables + "ENDPOINT": "http://collector:4318", "OTEL_TRACES_SAMPLER_ARG": "0.1",
		tracing.ExporterVariables + "HEADERS": "x-key=secret", tracing.ExporterVariables + "TRACES_HEADERS": "x-key=secret",
		tracing.ExporterVariables + "CERTIFICATE": "/file/of/the/operator", "OTEL_SERVICE_NAME": "operator",
		"OTEL_RESOURCE_ATTRIBUTES": "team=$(TEAM)"}
	got := map[string]string{}
	for _, v := range runner.SelectTracingVariables(func(name string) string { return set[name] }) {
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
			run := runtest.NewRun()
			run.UID = "01234567-89ab-cdef-0123-456789abcdef"
			run.Spec.Template = &v1alpha1.PodOverrides{}
			for name, value := range tc.runs {
				run.Spec.Template.Env = append(run.Spec.Template.Env, corev1.EnvVar{Name: name, Value: value})
			}
			o := runner.Options{TracingVariables: tc.operators, Traced: tc.operators != nil}
			var got []string
			for _, v := range runner.MakeJob(run, runtest.NewPool(), o, runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards()}).Spec.Template.Spec.Containers[0].Env {
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
