package operator

import (
	"testing"

	"github.com/go-logr/logr"

	runs "github.com/csenv/csenv/controllers/run"
)

// Runners get the operator's variables only if it can use them: a URL with a password stays here.
func TestTracingVariablesOfRunners(t *testing.T) {
	for endpoint, want := range map[string]bool{"": false, "http://me:secret@localhost:1": false,
		"http://localhost:1?key=secret": false, "http://localhost:1": true} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		var options runs.Options
		traceRuns(t.Context(), &options, logr.Discard())()
		if (options.Traces != nil) != want || (len(options.TracingVariables) > 0) != want {
			t.Errorf("%q: traces %v, variables %v", endpoint, options.Traces, options.TracingVariables)
		}
	}
}
