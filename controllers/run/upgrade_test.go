package run

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
	"github.com/csenv/csenv/envserver/score"
)

// A release that encodes plans differently goes on with a run that an older one has begun.
func TestRunGoesOnWithThePlanOfAnOlderRelease(t *testing.T) {
	s, plan := begun(t)
	var older bytes.Buffer
	if err := json.Indent(&older, []byte(s.planMap.Data[planKey]), "", "  "); err != nil {
		t.Fatal(err)
	}
	s.planMap.Data[planKey] = older.String()
	sums := score.Accumulator{Plan: score.FingerprintOf(older.Bytes())}
	evaluation.WriteFigures(&s.run.Status, sums, score.IndexSet{})
	s.job = jobOf(s, jobSpec{attempt: 1, shards: allShards(),
		inputs: inputsOf(s.planMap)})
	d := decide(s)
	if d.removePlan || d.createPlan != nil || d.deleteJob || evaluation.Ended(d.status.Conditions) {
		t.Errorf("removes the plan: %v, makes it again: %v, deletes the Job: %v, conditions %+v", d.removePlan,
			d.createPlan != nil, d.deleteJob, d.status.Conditions)
	}
	if diff := cmp.Diff(plan, d.plan); diff != "" {
		t.Errorf("the plan: %s", diff)
	}
}

// After a rollback, a run whose figures only the newer release can read waits for that release.
func TestRunWaitsForTheReleaseThatWroteItsFigures(t *testing.T) {
	s, _ := begun(t)
	pod := runnerPodOf(s.run, 0)
	pod.Status.Phase = corev1.PodSucceeded
	s.pods, s.succeeded = []corev1.Pod{*pod}, []corev1.Pod{*pod}
	raw, err := base64.StdEncoding.DecodeString(s.run.Status.Shards.Accumulator)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] = 200
	s.run.Status.Shards.Accumulator = base64.StdEncoding.EncodeToString(raw)
	d := decide(s)
	if evaluation.Ended(d.status.Conditions) || len(d.release) > 0 || d.deleteJob || d.again == 0 {
		t.Errorf("conditions %+v, releases %d pods", d.status.Conditions, len(d.release))
	}
	if diff := cmp.Diff(s.run.Status.Shards, d.status.Shards); diff != "" {
		t.Errorf("the figures changed: %s", diff)
	}
	if got := conditionOf(d.status, v1alpha1.ConditionComplete); !strings.Contains(got, "newest release") {
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
