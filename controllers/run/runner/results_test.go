package runner_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
)

func TestResultsOfARun(t *testing.T) {
	claim := &v1alpha1.VolumeClaimReference{ClaimName: "shared"}
	for name, tc := range map[string]struct {
		results *v1alpha1.Results
		want    string
	}{
		"none":     {nil, ""},
		"a bucket": {&v1alpha1.Results{URL: "s3://bucket"}, "s3://bucket/ns/base-0a1b2c3d"},
		"a prefix": {&v1alpha1.Results{URL: "gs://bucket/evals/"}, "gs://bucket/evals/ns/base-0a1b2c3d"},
		"parameters": {&v1alpha1.Results{URL: "s3://b/p?endpoint=http://minio:9000&use_path_style=true"},
			"s3://b/p/ns/base-0a1b2c3d?endpoint=http://minio:9000&use_path_style=true"},
		"a volume": {&v1alpha1.Results{PersistentVolumeClaim: claim}, "file:///results/ns/base-0a1b2c3d"},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "base",
				UID: "0a1b2c3d-4e5f"}, Spec: v1alpha1.EvaluationRunSpec{Results: tc.results}}
			if got := runner.LocateResults(run); got != tc.want {
				t.Errorf("resultsURL() = %q, want %q", got, tc.want)
			}
			if got := slices.Contains(runner.MakeJob(run, nil, runner.Options{}, runner.JobSpec{}).Spec.Template.Spec.Containers[0].Args,
				"--results="+tc.want); got != (tc.want != "") {
				t.Errorf("the runner has the URL: %v", got)
			}
		})
	}
}

// The longest URL that the schema permits, percent-encoded in every character, fits into
// status.results.
func TestTheLongestResultsFit(t *testing.T) {
	const longest, room = 1024, 4096
	run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("n", 63),
		Name: strings.Repeat("r", 253), UID: "0a1b2c3d-4e5f"}}
	run.Spec.Results = &v1alpha1.Results{URL: "s3://b/" + strings.Repeat(`"`, longest-len("s3://b/"))}
	if got := len(runner.LocateResults(run)); got <= 3*(longest-len("s3://b/")) || got > room {
		t.Errorf("status.results has %d characters of at most %d", got, room)
	}
}
