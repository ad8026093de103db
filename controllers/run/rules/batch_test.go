package rules

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// A summary waits for others only while the Job plays and nothing depends on it. The runners end 90
// seconds after the start of the test.
func TestSummariesWaitForOthers(t *testing.T) {
	ended := func(s *snapshot.Snapshot, after time.Duration) {
		s.Now = runtest.StartTime().Add(90*time.Second + after)
	}
	for name, tc := range map[string]struct {
		change    func(*snapshot.Snapshot)
		completed string
		again     time.Duration
	}{
		"another may follow": {func(s *snapshot.Snapshot) { ended(s, 2*time.Second) }, "", 3 * time.Second},
		"the time is over":   {func(s *snapshot.Snapshot) { ended(s, BatchDelay) }, "0", 0},
		"one waits long enough": {func(s *snapshot.Snapshot) {
			ended(s, BatchDelay)
			later := s.Pods[0].DeepCopy()
			later.Name, later.Annotations[batchv1.JobCompletionIndexAnnotation] = "later", "0"
			later.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(s.Now)
			addPods(s, later)
		}, "0", 0},
		"the node's clock is ahead": {func(s *snapshot.Snapshot) { ended(s, -time.Hour) }, "0", 0},
		"the pod is being deleted": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			runtest.MarkDeleting(&s.Pods[0], time.Hour)
		}, "0", 0},
		"every shard has ended": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			s.Run.Status.Shards.Total = 1
		}, "0", 0},
		"many wait": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			s.Run.Status.Shards.Total = 2 * maxWaiting
			for shard := range maxWaiting {
				pod := s.Pods[0].DeepCopy()
				pod.Annotations[runner.AnnotationShards] = fmt.Sprintf("0-%d", maxWaiting)
				pod.Annotations[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(shard)
				addPods(s, pod)
			}
		}, "0", 0},
		"the run is suspended": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			runtest.SetSuspend(s.Run, true)
		}, "0", 0},
		"the Job has failed": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			jobWith(s, batchv1.JobFailed, "")
		}, "0", 0},
		"the Job is of an earlier attempt": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			s.Job.Annotations[runner.AnnotationJobAttempt] = "0"
		}, "0", 0},
		"there is no Job": {func(s *snapshot.Snapshot) { ended(s, 0); s.Job = nil }, "0", waitDelay},
		"the run fails": {func(s *snapshot.Snapshot) {
			ended(s, 0)
			s.Run.Spec.ActiveDeadlineSeconds = new(int32(1))
		}, "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, plan := begun(t)
			addPods(&s, runtest.NewSucceededPod(t, s.Run, plan, 0))
			tc.change(&s)
			d := DecideRun(s)
			if got := d.Status.Shards.CompletedIndexes; got != tc.completed {
				t.Errorf("completed %q, want %q", got, tc.completed)
			}
			if d.Again != tc.again {
				t.Errorf("requeued after %v, want %v", d.Again, tc.again)
			}
			if counted := tc.completed != ""; (len(d.Release) > 0) != counted || (d.Scores != nil) != counted {
				t.Errorf("released %q, a table: %v, want both only with what is counted", runtest.PodNames(d.Release),
					d.Scores != nil)
			}
		})
	}
}

// The progress of a run that lasts is announced at each quarter.
func TestProgressIsAnnounced(t *testing.T) {
	for after, want := range map[time.Duration]int{ProgressAfter - time.Second: 0, ProgressAfter: 1} {
		s, plan := begun(t)
		s.Now = runtest.StartTime().Add(after)
		addPods(&s, runtest.NewSucceededPod(t, s.Run, plan, 0))
		if got := told(DecideRun(s), v1alpha1.ReasonProgress); len(got) != want {
			t.Errorf("after %v: %q", after, got)
		}
	}
}

// The plan of a run that begins is in the Job and in nothing else, unless it is too large. An
// operator that lacks the Job reads it in a pod.
func TestPlanInTheJob(t *testing.T) {
	s, plan := begunInJob(t)
	if d := DecideRun(s); d.CreatePlan != nil || d.RemovePlan || d.DeleteJob {
		t.Errorf("a pass changes the plan: %+v", d)
	}
	pod := runtest.NewSucceededPod(t, s.Run, plan, 0)
	maps.Copy(pod.Annotations, s.Job.Spec.Template.Annotations)
	addPods(&s, pod)
	s.Job, s.Env = nil, nil
	if got := DecideRun(s).Status.Shards.CompletedIndexes; got != "0" {
		t.Errorf("without Job and pool %q is completed", got)
	}
	s, _ = begunInJob(t)
	s.Job.Spec.Template.Annotations["csenv.dev/"+runner.AgentKey] = `{"type":"Builtin","builtin":{"policy":"Oracle"}}`
	if _, err := s.StoredPlan(); err == nil {
		t.Error("another agent is not noticed")
	}
}

// A Job that is replaced leaves its plan in a ConfigMap, which the next one reads.
func TestReplacedJobLeavesThePlan(t *testing.T) {
	s, plan := begunInJob(t)
	older := runner.ReadInputs(&s.Job.Spec.Template)
	older[runner.PlanKey] += "\n" // as another release may write it
	evaluation.WriteFigures(&s.Run.Status, score.Accumulator{Plan: score.FingerprintOf([]byte(older[runner.PlanKey]))},
		score.IndexSet{})
	s.Job = jobOf(s, runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards(), Inputs: older})
	s.Run.Status.Shards.JobAttempts++
	d := DecideRun(s)
	if !d.DeleteJob || d.CreatePlan == nil || d.CreateJob != nil {
		t.Fatalf("deletes the Job: %v, stores the plan: %v", d.DeleteJob, d.CreatePlan != nil)
	}
	if diff := cmp.Diff(older, d.CreatePlan); diff != "" {
		t.Errorf("the plan in the ConfigMap isn't that of the Job: %s", diff)
	}
	planMap := runner.MakePlanMap(s.Run, d.CreatePlan)
	s.PlanMap, s.Job = planMap, nil
	d = DecideRun(s)
	if d.CreateJob == nil || d.CreateJob.Inputs != nil || d.CreateJob.Digest != runner.DigestInputs(planMap.Data) {
		t.Fatalf("the next Job: %+v", d.CreateJob)
	}
	if got, err := s.StoredPlan(); err != nil || got.Shards != plan.Shards {
		t.Errorf("the plan: %+v, %v", got, err)
	}

	// A pod of the first Job still has the plan, but those of the second one need the ConfigMap.
	first := runtest.RunnerPod(s.Run, 0)
	first.Annotations = jobOf(s, runner.JobSpec{JobAttempt: 1, Inputs: planMap.Data}).Spec.Template.Annotations
	first.Status.Phase = corev1.PodRunning
	s.Job, s.PlanMap = jobOf(s, *d.CreateJob), nil
	addPods(&s, first)
	if d := DecideRun(s); d.CreatePlan == nil {
		t.Error("the ConfigMap of the Job isn't made again")
	}
}
