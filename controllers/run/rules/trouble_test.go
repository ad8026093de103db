package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// exits makes a pod fail with an exit code.
func exits(pod *corev1.Pod, code int32, message string) *corev1.Pod {
	runtest.EndPod(pod, corev1.PodFailed, message).Status.ContainerStatuses[0].State.Terminated.ExitCode = code
	return pod
}

func completeOf(d Decision) metav1.Condition {
	return *meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionComplete)
}

// If the agent's endpoint refuses every request, the run ends with the endpoint's message,
// regardless of the runners that the Job stopped after that.
func TestRefusedAgentEndsTheRun(t *testing.T) {
	const words = "error: the agent can't play: the endpoint http://m/v1 answered 401 Unauthorized: no such key"
	for code, reason := range map[int32]string{
		score.ExitAgentRefused:     v1alpha1.ReasonAgentRefused,
		score.ExitAgentUnavailable: v1alpha1.ReasonAgentUnavailable,
	} {
		s, _ := begun(t)
		stopped := exits(runtest.RunnerPod(s.Run, 1), score.ExitStopped, "error: the runner was stopped")
		stopped.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(runtest.StartTime().Add(time.Hour))
		addPods(&s, exits(runtest.RunnerPod(s.Run, 0), code, words), stopped)
		jobWith(&s, batchv1.JobFailed, "Container runner for pod ns/baseline-0 failed with exit code")
		c := completeOf(DecideRun(s))
		if c.Reason != reason || !strings.Contains(c.Message, "Last message of pod baseline-0: "+words) {
			t.Errorf("exit code %d: %s: %s", code, c.Reason, c.Message)
		}
	}
}

// A run whose runners wait reports the reason.
func TestWaitingRunnersAreExplained(t *testing.T) {
	full := score.Sessions{Active: 8, Capacity: 8}
	tests := map[string]struct {
		live   snapshot.Live
		change func(*snapshot.Snapshot)
		reason string
		words  string
	}{
		"plays":      {snapshot.Live{Known: true, Active: 3, Sessions: full}, nil, v1alpha1.ReasonRunning, ""},
		"just began": {snapshot.Live{Known: true, Idle: idleAfter - 1, Sessions: full}, nil, v1alpha1.ReasonRunning, ""},
		"not polled": {snapshot.Live{Idle: time.Hour, Sessions: full}, nil, v1alpha1.ReasonRunning, ""},
		"full": {snapshot.Live{Known: true, Idle: idleAfter, Sessions: full}, nil, v1alpha1.ReasonWaitingForCapacity,
			"all 8 of pool"},
		"room enough": {snapshot.Live{Known: true, Idle: time.Hour, Sessions: score.Sessions{Active: 7, Capacity: 8}},
			nil, v1alpha1.ReasonRunning, ""},
		"no pool": {snapshot.Live{Known: true, Idle: idleAfter}, func(s *snapshot.Snapshot) { s.Env = nil },
			v1alpha1.ReasonWaitingForEnvironment, "There is no CustomerSupportEnv"},
		"no runner yet": {snapshot.Live{Known: true, Idle: time.Hour, Sessions: full}, func(s *snapshot.Snapshot) {
			s.Pods[0].Status.Phase = corev1.PodPending
		}, v1alpha1.ReasonRunning, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			pod := runtest.RunnerPod(s.Run, 0)
			pod.Status.Phase = corev1.PodRunning
			addPods(&s, pod)
			s.Live = &tc.live
			if tc.change != nil {
				tc.change(&s)
			}
			d := DecideRun(s)
			if c := completeOf(d); c.Reason != tc.reason || !strings.Contains(c.Message, tc.words) {
				t.Errorf("%s: %s, want %s", c.Reason, c.Message, tc.reason)
			}
			if tc.reason == v1alpha1.ReasonWaitingForCapacity && len(told(d, tc.reason)) != 1 {
				t.Errorf("events %v", d.Events)
			}
		})
	}
}

// The Job of a failed run is stopped without an event about an unknown deadline, unless a queue
// could start it again.
func TestJobOfAFailedRunIsStopped(t *testing.T) {
	for name, want := range map[string]string{"": "suspend", "gpus": "end"} {
		s, _ := begun(t)
		s.Revoked = true
		if name != "" {
			enqueue(&s)
			s.Job.Spec.Suspend = new(false)
		}
		d := DecideRun(s)
		if got := jobDecision(d); got != want {
			t.Errorf("queue %q: %s, want %s", name, got, want)
		}
	}
}

func TestStartDeadlineOfWhatIsRefusedOrQueued(t *testing.T) {
	for name, change := range map[string]func(s *snapshot.Snapshot){
		v1alpha1.ReasonJobRefused: func(s *snapshot.Snapshot) {
			s.Job = nil
			c := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionComplete)
			c.Reason, c.Message = v1alpha1.ReasonJobRefused, "The API server refuses Job baseline: quota."
		},
		v1alpha1.ReasonRunnersRefused: func(s *snapshot.Snapshot) { s.PodsRefused = "quota" },
		v1alpha1.ReasonQueued:         func(s *snapshot.Snapshot) { enqueue(s) },
	} {
		s, _ := begun(t)
		s.Run.Spec.StartDeadlineSeconds = new(int32(60))
		change(&s)
		s.Now = runtest.StartTime().Add(59 * time.Second)
		if c := completeOf(DecideRun(s)); c.Reason != name {
			t.Errorf("before the deadline: %s: %s, want %s", c.Reason, c.Message, name)
		}
		s.Now = runtest.StartTime().Add(60 * time.Second)
		if c := completeOf(DecideRun(s)); c.Reason != v1alpha1.ReasonStartDeadlineExceeded {
			t.Errorf("%s: after the deadline: %s: %s", name, c.Reason, c.Message)
		}
	}
}

// The time in a queue doesn't count for activeDeadlineSeconds, and the deadline doesn't end a run
// in the very pass that sees its admission.
func TestActiveDeadlineCountsFromAdmission(t *testing.T) {
	s, _ := begun(t)
	s.Run.Spec.ActiveDeadlineSeconds = new(int32(60))
	enqueue(&s)
	pass := func(at time.Duration) string {
		s.Now = runtest.StartTime().Add(at)
		d := DecideRun(s)
		s.Run.Status = d.Status
		return completeOf(d).Reason
	}
	if got := pass(2 * time.Hour); got != v1alpha1.ReasonQueued {
		t.Errorf("in the queue: %s", got)
	}
	s.Job.Spec.Suspend = new(false)
	if got := pass(3 * time.Hour); got != v1alpha1.ReasonRunning {
		t.Errorf("admitted: %s", got)
	}
	if got := pass(3*time.Hour + 59*time.Second); got != v1alpha1.ReasonRunning {
		t.Errorf("before the deadline: %s", got)
	}
	if got := pass(3*time.Hour + time.Minute); got != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("after the deadline: %s", got)
	}
}

// A summary that an earlier Job's runner left does not fail the last job attempt.
func TestRefusalOfAnEarlierJob(t *testing.T) {
	for jobAttempt, reason := range map[string]string{"1": v1alpha1.ReasonRunning, "2": v1alpha1.ReasonSummaryRefused} {
		s, _ := begun(t)
		s.Run.Spec.Retries.ShardBackoffLimit = new(int32(1))
		s.Run.Status.Shards.JobAttempts = 2
		s.Job.Annotations[runner.AnnotationJobAttempt] = "2"
		pod := runtest.EndPod(runtest.RunnerPod(s.Run, 1), corev1.PodSucceeded, "forged")
		pod.Annotations[runner.AnnotationJobAttempt] = jobAttempt
		addPods(&s, pod)
		if c := completeOf(DecideRun(s)); c.Reason != reason {
			t.Errorf("Job %s: %s: %s, want %s", jobAttempt, c.Reason, c.Message, reason)
		}
	}
}

// A pod of a node that doesn't answer is ended when it is overdue; one whose node answers stops by
// itself.
func TestPodsOfLostNodesAreEnded(t *testing.T) {
	for lost, want := range map[bool]string{true: "baseline-0", false: ""} {
		for _, after := range []time.Duration{snapshot.DeleteGrace - 1, snapshot.DeleteGrace} {
			s, _ := begun(t)
			pod := runtest.MarkDeleting(runtest.RunnerPod(s.Run, 0), -after)
			pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
			addPods(&s, pod)
			s.LostNodes = map[string]bool{"node": lost}
			d := DecideRun(s)
			if after < snapshot.DeleteGrace {
				want = ""
			} else if lost {
				want = "baseline-0"
			}
			if got := runtest.PodNames(d.Lost); got != want {
				t.Errorf("node lost %v, overdue %v: %q, want %q", lost, after, got, want)
			}
		}
	}
}

// jobDecision returns the change of the Job in one word.
func jobDecision(d Decision) string {
	switch {
	case d.CreateJob != nil:
		return "create"
	case d.DeleteJob:
		return "delete"
	case d.ChangeJob.Parallelism != nil:
		return "resize"
	case d.ChangeJob.Suspend != nil && *d.ChangeJob.Suspend:
		return "suspend"
	case d.ChangeJob.Suspend != nil:
		return "resume"
	case d.ChangeJob.Deadline != nil:
		return "end"
	default:
		return ""
	}
}

// What keeps a runner from playing is named, with advice that can be followed although the template
// of a run can't be changed.
func TestWhatKeepsRunnersFromPlaying(t *testing.T) {
	const again = "delete the run and create it again with another spec."
	condition := func(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
	for name, tt := range map[string]struct {
		edit   func(*snapshot.Snapshot, *corev1.Pod)
		reason string
		words  string
	}{
		"a PriorityClass": {func(s *snapshot.Snapshot, _ *corev1.Pod) {
			s.Pods, s.PodsRefused = nil, `pods "b-" is forbidden: no PriorityClass with name gold was found.`
		}, v1alpha1.ReasonRunnersRefused, "was found. Create PriorityClass gold, or " + again + "template.priorityClassName."},
		"an unknown refusal": {func(s *snapshot.Snapshot, _ *corev1.Pod) { s.Pods, s.PodsRefused = nil, "no way." },
			v1alpha1.ReasonRunnersRefused, "no way. Correct that to continue."},
		"a node selector": {func(_ *snapshot.Snapshot, pod *corev1.Pod) {
			condition(pod, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable,
				"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
		}, v1alpha1.ReasonUnschedulable, "selector. Label a node as nodeSelector and affinity ask for"},
		"no scheduler": {func(_ *snapshot.Snapshot, pod *corev1.Pod) {
			pod.Spec.SchedulerName, pod.Status.Phase = "special", corev1.PodPending
			pod.CreationTimestamp = metav1.NewTime(runtest.StartTime().Add(-2 * time.Minute))
		}, v1alpha1.ReasonUnschedulable, "Scheduler special hasn't looked at runner pod baseline-0"},
		"a lost node": {func(_ *snapshot.Snapshot, pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning
			condition(pod, corev1.PodReady, corev1.ConditionFalse, "", "")
			condition(pod, corev1.ContainersReady, corev1.ConditionTrue, "", "")
		}, v1alpha1.ReasonNodeLost, "Node n1 of runner pod baseline-0 doesn't answer."},
		"the agent's image": {func(_ *snapshot.Snapshot, pod *corev1.Pod) {
			runtest.AgentWaits(pod, corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ErrImagePull", Message: "r.example/agent:1: not found"}}})
		}, v1alpha1.ReasonRunnersNotStarted, "not found. Push the image, or " + again + "agent.container.image."},
		"a memory limit that is too low to start": {func(s *snapshot.Snapshot, pod *corev1.Pod) {
			exits(pod, 128, "cannot start a stopped process")
			pod.Status.ContainerStatuses[0].State.Terminated.Reason = "StartError"
		}, v1alpha1.ReasonRunnersNotStarted, "A runner can't start: pod baseline-0: cannot start a stopped process, with a " +
			"memory limit of 512Mi. Delete the run and create it again with another spec.template.resources.limits.memory."},
		"a runner out of memory": {func(_ *snapshot.Snapshot, pod *corev1.Pod) {
			exits(pod, 137, "").Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
		}, v1alpha1.ReasonRunning, "its shard is played again. Last message of pod baseline-0: exit code 137 OOMKilled, with " +
			"a memory limit of 512Mi. To see"},
		"another failure": {func(_ *snapshot.Snapshot, pod *corev1.Pod) { exits(pod, 1, "error: interrupted") },
			v1alpha1.ReasonRunning, "0 of 4 shards are counted. To see"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			pod := runtest.RunnerPod(s.Run, 0)
			tt.edit(&s, pod)
			if s.PodsRefused == "" {
				addPods(&s, pod)
			}
			d := DecideRun(s)
			if c := completeOf(d); c.Reason != tt.reason || !strings.Contains(c.Message, tt.words) {
				t.Errorf("%s: %s, want %s: %s", c.Reason, c.Message, tt.reason, tt.words)
			}
		})
	}
}

// A scheduler that hasn't seen a pod is asked for again when it has had its time.
func TestPodsThatNoSchedulerSawAreLookedAtAgain(t *testing.T) {
	s, _ := begun(t)
	pod := runtest.RunnerPod(s.Run, 0)
	pod.Spec.SchedulerName, pod.Status.Phase = "special", corev1.PodPending
	pod.CreationTimestamp = metav1.NewTime(s.Now.Add(-time.Minute))
	addPods(&s, pod)
	if d := DecideRun(s); completeOf(d).Reason != v1alpha1.ReasonRunning || d.Again != time.Minute {
		t.Errorf("%s, again after %v", completeOf(d).Reason, d.Again)
	}
}

// A Job that isn't valid ends its run, because the spec that it follows from can't be changed. A
// quota or a policy may change.
func TestAJobThatIsNotValidEndsItsRun(t *testing.T) {
	const invalid = `Job.batch "baseline" is invalid: spec.template.spec.tolerations[0].operator: Invalid value: "Exist"`
	for name, tt := range map[string]struct {
		object, words string
		fails         bool
		advice        string
	}{
		"a value": {"Job baseline", invalid, true, "Delete the run and create it again with another spec.template as the " +
			"message says."},
		"a policy":     {"Job baseline", "jobs is forbidden: ValidatingAdmissionPolicy 'p' denied request: no", false, "policy"},
		"a quota":      {"Job baseline", "exceeded quota: small, requested: 1", false, "Raise ResourceQuota small"},
		"another kind": {"ConfigMap baseline-plan", invalid, false, ""},
	} {
		s := snap()
		d := ReportRefusal(s, Decision{Status: s.Run.Status}, tt.object, errors.New(tt.words))
		c := completeOf(d)
		failed := meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionFailed)
		if c.Reason != v1alpha1.ReasonJobRefused || failed != tt.fails || (d.Status.CompletionTime != nil) != tt.fails ||
			!strings.Contains(strings.ToLower(c.Message), strings.ToLower(tt.advice)) {
			t.Errorf("%s: failed %v, %s: %s", name, failed, c.Reason, c.Message)
		}
	}
}
