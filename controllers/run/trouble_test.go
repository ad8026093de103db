package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// exits makes a pod fail with an exit code.
func exits(pod *corev1.Pod, code int32, message string) *corev1.Pod {
	ends(pod, corev1.PodFailed, message).Status.ContainerStatuses[0].State.Terminated.ExitCode = code
	return pod
}

func completeOf(d decision) metav1.Condition {
	return *meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionComplete)
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
		stopped := exits(runnerPodOf(s.run, 1), score.ExitStopped, "error: the runner was stopped")
		stopped.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(start().Add(time.Hour))
		addPods(&s, exits(runnerPodOf(s.run, 0), code, words), stopped)
		jobWith(&s, batchv1.JobFailed, "Container runner for pod ns/baseline-0 failed with exit code")
		c := completeOf(decide(s))
		if c.Reason != reason || !strings.Contains(c.Message, "Last message of pod baseline-0: "+words) {
			t.Errorf("exit code %d: %s: %s", code, c.Reason, c.Message)
		}
	}
}

// Repeated reports of a runner don't count as failures, except those that only a user can resolve.
func TestJobEndsWhenTheAgentIsRefused(t *testing.T) {
	actions := map[int32]batchv1.PodFailurePolicyAction{}
	for _, rule := range runnerJob(newTestRun(), pool(), runnerOptions{}, jobSpec{}).Spec.PodFailurePolicy.Rules {
		if rule.OnExitCodes != nil {
			for _, code := range rule.OnExitCodes.Values {
				actions[code] = rule.Action
			}
		}
	}
	if actions[score.ExitAgentRefused] != batchv1.PodFailurePolicyActionFailJob ||
		actions[score.ExitStopped] != batchv1.PodFailurePolicyActionIgnore {
		t.Errorf("actions %v", actions)
	}
}

// A run whose runners wait reports the reason.
func TestWaitingRunnersAreExplained(t *testing.T) {
	full := score.Sessions{Active: 8, Capacity: 8}
	tests := map[string]struct {
		live   liveFigures
		change func(*snapshot)
		reason string
		words  string
	}{
		"plays":      {liveFigures{known: true, active: 3, sessions: full}, nil, v1alpha1.ReasonRunning, ""},
		"just began": {liveFigures{known: true, idle: idleAfter - 1, sessions: full}, nil, v1alpha1.ReasonRunning, ""},
		"not polled": {liveFigures{idle: time.Hour, sessions: full}, nil, v1alpha1.ReasonRunning, ""},
		"full": {liveFigures{known: true, idle: idleAfter, sessions: full}, nil, v1alpha1.ReasonWaitingForCapacity,
			"all 8 of pool"},
		"room enough": {liveFigures{known: true, idle: time.Hour, sessions: score.Sessions{Active: 7, Capacity: 8}},
			nil, v1alpha1.ReasonRunning, ""},
		"no pool": {liveFigures{known: true, idle: idleAfter}, func(s *snapshot) { s.env = nil },
			v1alpha1.ReasonWaitingForEnvironment, "There is no CustomerSupportEnv"},
		"no runner yet": {liveFigures{known: true, idle: time.Hour, sessions: full}, func(s *snapshot) {
			s.pods[0].Status.Phase = corev1.PodPending
		}, v1alpha1.ReasonRunning, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			pod := runnerPodOf(s.run, 0)
			pod.Status.Phase = corev1.PodRunning
			addPods(&s, pod)
			s.live = &tc.live
			if tc.change != nil {
				tc.change(&s)
			}
			d := decide(s)
			if c := completeOf(d); c.Reason != tc.reason || !strings.Contains(c.Message, tc.words) {
				t.Errorf("%s: %s, want %s", c.Reason, c.Message, tc.reason)
			}
			if tc.reason == v1alpha1.ReasonWaitingForCapacity && len(told(d, tc.reason)) != 1 {
				t.Errorf("events %v", d.events)
			}
		})
	}
}

// Idleness is measured from the last change, not from the first poll.
func TestIdleness(t *testing.T) {
	report := score.Report{Sessions: score.Sessions{Active: 2, Capacity: 2},
		Runs: []score.RunReport{{Run: "run-uid", Scored: 3}}}
	reports := fakePool{"10.0.0.1": report}
	p, servers := pollerOf(reports), []string{"10.0.0.1"}
	after := func(d time.Duration) *liveFigures {
		asked(t, p, servers, start().Add(d))
		return p.figures(t.Context(), types.NamespacedName{Namespace: namespace, Name: poolName}, "", servers,
			"run-uid", 0,
			start().Add(d))
	}
	if live := after(6 * time.Second); live.idle != 0 || live.sessions != report.Sessions {
		t.Errorf("first: %+v", live)
	}
	if live := after(46 * time.Second); live.idle != 40*time.Second {
		t.Errorf("unchanged: %+v", live)
	}
	reports["10.0.0.1"] = score.Report{Runs: []score.RunReport{{Run: "run-uid", Scored: 4}}}
	if live := after(60 * time.Second); live.idle != 0 {
		t.Errorf("another episode has ended: %+v", live)
	}
	reports["10.0.0.1"] = score.Report{Runs: []score.RunReport{{Run: "run-uid", Active: 1, Scored: 4}}}
	after(90 * time.Second)
	if live := after(100 * time.Second); live.idle != 0 {
		t.Errorf("one is played: %+v", live)
	}
}

// The Job of a failed run is stopped without an event about an unknown deadline, unless a queue
// could start it again.
func TestJobOfAFailedRunIsStopped(t *testing.T) {
	for name, want := range map[string]string{"": "suspend", "gpus": "end"} {
		s, _ := begun(t)
		s.revoked = true
		if name != "" {
			enqueue(&s)
			s.job.Spec.Suspend = new(false)
		}
		d := decide(s)
		if got := jobDecision(d); got != want {
			t.Errorf("queue %q: %s, want %s", name, got, want)
		}
	}
}

// refuse has the API server refuse an operation as an exceeded quota does.
func refuse(operation string) func(what string, do func() error) error {
	return func(what string, do func() error) error {
		if what == operation {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, runName,
				errors.New("exceeded quota: requested: 1, used: 5, limited: 5"))
		}
		return do()
	}
}

// An object that the API server refuses is reported with its words, tried again, and subject to
// startDeadlineSeconds.
func TestRefusedObjects(t *testing.T) {
	for _, operation := range []string{"create *v1.Job", "create *v1.ConfigMap"} {
		t.Run(operation, func(t *testing.T) {
			w := readyWorld(t)
			w.fault = refuse(operation)
			result := w.mustPass()
			if c := w.complete(); c.Reason != v1alpha1.ReasonJobRefused || !strings.Contains(c.Message, "exceeded quota") {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
			if result.RequeueAfter != minRefusedRetry {
				t.Errorf("tried again after %v", result.RequeueAfter)
			}
			if diff := cmp.Diff([]string{"Normal Started", "Warning JobRefused"}, w.events()); diff != "" {
				t.Errorf("events: %s", diff)
			}
			before := w.run().ResourceVersion
			w.wait(10 * time.Minute)
			if result := w.mustPass(); result.RequeueAfter != time.Minute || w.run().ResourceVersion != before ||
				len(w.events()) > 0 {
				t.Errorf("again: requeued after %v, events %v", result.RequeueAfter, w.events())
			}
			w.fault = nil
			w.mustPass()
			w.mustPass()
			if c := w.complete(); c.Reason != v1alpha1.ReasonRunning || w.job() == nil {
				t.Errorf("accepted: %s: %s", c.Reason, c.Message)
			}
		})
	}
}

func TestStartDeadlineOfWhatIsRefusedOrQueued(t *testing.T) {
	for name, change := range map[string]func(s *snapshot){
		v1alpha1.ReasonJobRefused: func(s *snapshot) {
			s.job = nil
			c := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionComplete)
			c.Reason, c.Message = v1alpha1.ReasonJobRefused, "The API server refuses Job baseline: quota."
		},
		v1alpha1.ReasonRunnersRefused: func(s *snapshot) { s.podsRefused = "quota" },
		v1alpha1.ReasonQueued:         func(s *snapshot) { enqueue(s) },
	} {
		s, _ := begun(t)
		s.run.Spec.StartDeadlineSeconds = new(int32(60))
		change(&s)
		s.now = start().Add(59 * time.Second)
		if c := completeOf(decide(s)); c.Reason != name {
			t.Errorf("before the deadline: %s: %s, want %s", c.Reason, c.Message, name)
		}
		s.now = start().Add(60 * time.Second)
		if c := completeOf(decide(s)); c.Reason != v1alpha1.ReasonStartDeadlineExceeded {
			t.Errorf("%s: after the deadline: %s: %s", name, c.Reason, c.Message)
		}
	}
}

// The time in a queue doesn't count for activeDeadlineSeconds, and the deadline doesn't end a run
// in the very pass that sees its admission.
func TestActiveDeadlineCountsFromAdmission(t *testing.T) {
	s, _ := begun(t)
	s.run.Spec.ActiveDeadlineSeconds = new(int32(60))
	enqueue(&s)
	pass := func(at time.Duration) string {
		s.now = start().Add(at)
		d := decide(s)
		s.run.Status = d.status
		return completeOf(d).Reason
	}
	if got := pass(2 * time.Hour); got != v1alpha1.ReasonQueued {
		t.Errorf("in the queue: %s", got)
	}
	s.job.Spec.Suspend = new(false)
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

// A summary that an earlier Job's runner left is no reason to fail the last repetition.
func TestRefusalOfAnEarlierJob(t *testing.T) {
	for round, reason := range map[string]string{"1": v1alpha1.ReasonRunning, "2": v1alpha1.ReasonSummaryRefused} {
		s, _ := begun(t)
		s.run.Spec.Retries.ShardBackoffLimit = new(int32(1))
		s.run.Status.Shards.Rounds = 2
		s.job.Annotations[annotationAttempt] = "2"
		pod := ends(runnerPodOf(s.run, 1), corev1.PodSucceeded, "forged")
		pod.Annotations[annotationAttempt] = round
		addPods(&s, pod)
		if c := completeOf(decide(s)); c.Reason != reason {
			t.Errorf("Job %s: %s: %s, want %s", round, c.Reason, c.Message, reason)
		}
	}
}

// A pod of a node that doesn't answer is ended when it is overdue; one whose node answers stops by
// itself.
func TestPodsOfLostNodesAreEnded(t *testing.T) {
	for lost, want := range map[bool]string{true: "baseline-0", false: ""} {
		for _, after := range []time.Duration{deleteGrace - 1, deleteGrace} {
			s, _ := begun(t)
			pod := deleting(runnerPodOf(s.run, 0), -after)
			pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
			addPods(&s, pod)
			s.lostNodes = map[string]bool{"node": lost}
			d := decide(s)
			if after < deleteGrace {
				want = ""
			} else if lost {
				want = "baseline-0"
			}
			if got := podNames(d.lost); got != want {
				t.Errorf("node lost %v, overdue %v: %q, want %q", lost, after, got, want)
			}
		}
	}
}

// The operator of single namespaces has no right on nodes.
func TestNodesThatMayNotBeReadAreNotLost(t *testing.T) {
	s := snapshot{run: newTestRun(), now: start()}
	pod := deleting(runnerPodOf(s.run, 0), -deleteGrace)
	pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
	s.pods = []corev1.Pod{*pod}
	r := &Reader{direct: interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object,
			_ ...client.GetOption) error {
			return apierrors.NewForbidden(corev1.Resource("nodes"), key.Name, nil)
		},
	})}
	if err := r.readLostNodes(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	if lost, known := s.lostNodes["node"]; lost || !known {
		t.Errorf("lost nodes %v", s.lostNodes)
	}
}

// jobDecision returns the change of the Job in one word.
func jobDecision(d decision) string {
	switch {
	case d.createJob != nil:
		return "create"
	case d.deleteJob:
		return "delete"
	case d.changeJob.parallelism != nil:
		return "resize"
	case d.changeJob.suspend != nil && *d.changeJob.suspend:
		return "suspend"
	case d.changeJob.suspend != nil:
		return "resume"
	case d.changeJob.deadline != nil:
		return "end"
	default:
		return ""
	}
}
