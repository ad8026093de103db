package rules

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// A release that encodes plans differently, and names the counts of Jobs differently, goes on with
// a run that an older one has begun.
func TestRunGoesOnWithThePlanOfAnOlderRelease(t *testing.T) {
	s, plan := begun(t)
	var older bytes.Buffer
	if err := json.Indent(&older, []byte(s.PlanMap.Data[runner.PlanKey]), "", "  "); err != nil {
		t.Fatal(err)
	}
	s.PlanMap.Data[runner.PlanKey] = older.String()
	sums := score.Accumulator{Plan: score.FingerprintOf(older.Bytes())}
	evaluation.WriteFigures(&s.Run.Status, sums, score.IndexSet{})
	s.Job = jobOf(s, runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards(),
		Digest: runner.DigestInputs(s.PlanMap.Data)})
	// It counted the Job by other names, which this one reads as 0.
	s.Run.Status.Shards.JobAttempts = 0
	delete(s.Job.Annotations, runner.AnnotationJobAttempt)
	d := DecideRun(s)
	if d.RemovePlan || d.CreatePlan != nil || d.DeleteJob || evaluation.HasEnded(d.Status.Conditions) {
		t.Errorf("removes the plan: %v, makes it again: %v, deletes the Job: %v, conditions %+v", d.RemovePlan,
			d.CreatePlan != nil, d.DeleteJob, d.Status.Conditions)
	}
	if got, err := s.StoredPlan(); err != nil || cmp.Diff(plan, got) != "" {
		t.Errorf("the plan: %s, %v", cmp.Diff(plan, got), err)
	}
}

// After a rollback, a run whose figures only the newer release can read waits for that release.
func TestRunWaitsForTheReleaseThatWroteItsFigures(t *testing.T) {
	s, _ := begun(t)
	pod := runtest.RunnerPod(s.Run, 0)
	pod.Status.Phase = corev1.PodSucceeded
	s.Pods, s.Succeeded = []corev1.Pod{*pod}, []corev1.Pod{*pod}
	raw, err := base64.StdEncoding.DecodeString(s.Run.Status.Shards.Accumulator)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] = 200
	s.Run.Status.Shards.Accumulator = base64.StdEncoding.EncodeToString(raw)
	d := DecideRun(s)
	if evaluation.HasEnded(d.Status.Conditions) || len(d.Release) > 0 || d.DeleteJob || d.Again == 0 {
		t.Errorf("conditions %+v, releases %d pods", d.Status.Conditions, len(d.Release))
	}
	if diff := cmp.Diff(s.Run.Status.Shards, d.Status.Shards); diff != "" {
		t.Errorf("the figures changed: %s", diff)
	}
	if got := conditionOf(d.Status, v1alpha1.ConditionComplete); !strings.Contains(got, "newest release") {
		t.Errorf("the condition says %q", got)
	}
}

func conditionOf(status v1alpha1.EvaluationRunStatus, kind string) string {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}
