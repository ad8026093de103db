package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// TestProceed starts every case with a run of four shards whose Job plays.
func TestProceed(t *testing.T) {
	const runs, stuck = "Complete=False/Running" + runtest.NotFailed, "Complete=False/RunnersNotStarted" + runtest.NotFailed
	cases := map[string]struct {
		change    func(*testing.T, *snapshot.Snapshot, score.Plan)
		states    string
		message   string // of Complete
		completed string
		released  string
		again     time.Duration
		job       string // change of the Job: "", create, delete or resize
	}{
		"nothing has ended": {
			change:  func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) { addPods(s, runtest.RunnerPod(s.Run, 0)) },
			states:  runtest.EnvReady + runs,
			message: "0 of 4 shards",
		},
		"several have ended": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				addPods(s, runtest.RunnerPod(s.Run, 0), runtest.NewSucceededPod(t, s.Run, p, 1), runtest.NewSucceededPod(t, s.Run, p, 3))
			},
			states:    runtest.EnvReady + runs,
			message:   "2 of 4 shards",
			completed: "1,3",
			released:  "baseline-1 baseline-3",
		},
		"all have ended": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				for i := range 4 {
					addPods(s, runtest.NewSucceededPod(t, s.Run, p, i))
				}
			},
			states:    runtest.EnvReady + "Complete=True/Completed" + runtest.NotFailed,
			message:   "Every episode is counted",
			completed: "0-3",
			released:  "baseline-0 baseline-1 baseline-2 baseline-3",
			job:       "delete",
		},
		"all have ended, the pool went": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				for i := range 4 {
					addPods(s, runtest.NewSucceededPod(t, s.Run, p, i))
				}
				s.Env = nil
			},
			states:    runtest.EnvMissing + "Complete=True/Completed" + runtest.NotFailed,
			message:   "Every episode is counted",
			completed: "0-3",
			released:  "baseline-0 baseline-1 baseline-2 baseline-3",
			job:       "delete",
		},
		"a sidecar runs after its runner": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				pod := runtest.KeepBySidecar(runtest.NewSucceededPod(t, s.Run, p, 0))
				s.Now = runner.ReadFinishedTime(pod).Add(runner.SidecarPatience - time.Second)
				addPods(s, pod)
			},
			states:    runtest.EnvReady + runs,
			message:   "1 of 4 shards",
			completed: "0",
			released:  "baseline-0",
			again:     time.Second,
		},
		"a sidecar outlives its runner": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				pod := runtest.KeepBySidecar(runtest.NewSucceededPod(t, s.Run, p, 0))
				s.Now = runner.ReadFinishedTime(pod).Add(runner.SidecarPatience)
				addPods(s, pod)
			},
			states:    runtest.EnvReady + "Complete=False/SidecarRunning" + runtest.NotFailed,
			message:   "the container istio-proxy still runs",
			completed: "0",
			released:  "baseline-0",
		},
		"sidecars use up the parallelism": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				s.Run.Spec.Parallelism, s.Job.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2)
				for i := range 2 {
					addPods(s, runtest.KeepBySidecar(runtest.NewSucceededPod(t, s.Run, p, i)))
				}
				s.Now = runner.ReadFinishedTime(&s.Pods[0]).Add(runner.SidecarPatience)
			},
			states:    runtest.EnvReady + "Complete=False/SidecarRunning" + runtest.NotFailed,
			message:   "2 of 4 shards",
			completed: "0-1",
			released:  "baseline-0 baseline-1",
			job:       "delete",
		},
		"a runner failed beside its sidecar": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				pod := runtest.KeepBySidecar(runtest.EndPod(runtest.RunnerPod(s.Run, 0), corev1.PodFailed, "error: timeout"))
				addPods(s, pod)
			},
			states:  runtest.EnvReady + runs,
			message: "0 of 4 shards",
		},
		"the same index twice": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				again := runtest.NewSucceededPod(t, s.Run, p, 1)
				again.Name = "baseline-1-again"
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 1), again)
			},
			states:    runtest.EnvReady + runs,
			message:   "1 of 4 shards",
			completed: "1",
			released:  "baseline-1 baseline-1-again",
		},
		"a runner failed and is tried again": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				addPods(s, runtest.EndPod(runtest.RunnerPod(s.Run, 2), corev1.PodFailed, "error: timeout"))
			},
			states:   runtest.EnvReady + runs,
			message:  "0 of 4 shards",
			released: "baseline-2",
		},
		"a shard failed for good": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0), runtest.EndPod(runtest.RunnerPod(s.Run, 2), corev1.PodFailed,
					"error: the pool can't be reached\n"))
				jobWith(s, batchv1.JobFailed, "Job has failed indexes")
				s.Job.Status.FailedIndexes = new("2")
			},
			states: runtest.EnvReady + "Complete=False/ShardsFailed Failed=True/ShardsFailed",
			message: "Shards 2 failed more often than retries.shardBackoffLimit allows. Last message of pod " +
				"baseline-2: error: the pool can't be reached. Correct",
			completed: "0",
			released:  "baseline-0 baseline-2",
		},
		"the Job failed otherwise": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				pod := runtest.EndPod(runtest.RunnerPod(s.Run, 2), corev1.PodFailed, "")
				pod.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
				addPods(s, pod)
				jobWith(s, batchv1.JobFailed, "Job was active longer than specified deadline.")
			},
			states: runtest.EnvReady + "Complete=False/ShardsFailed Failed=True/ShardsFailed",
			message: "longer than specified deadline. Last message of pod baseline-2: exit code 1 OOMKilled, with a " +
				"memory limit of 512Mi. Delete the run and create it again with another spec.template.resources.limits.memory.",
			released: "baseline-2",
		},
		"a summary with a foreign signature": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0), runtest.EndPod(runtest.RunnerPod(s.Run, 1), corev1.PodSucceeded,
					runtest.SummaryOf(t, p, 1, runtest.Playing{Key: runtest.OtherKey()})))
			},
			states:    runtest.EnvReady + runs,
			message:   "1 of 4 shards",
			completed: "0",
			released:  "baseline-0 baseline-1",
		},
		"a summary with a foreign signature, and no shard may be played again": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				s.Run.Spec.Retries.ShardBackoffLimit = new(int32(0))
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0), runtest.EndPod(runtest.RunnerPod(s.Run, 1), corev1.PodSucceeded,
					runtest.SummaryOf(t, p, 1, runtest.Playing{Key: runtest.OtherKey()})))
			},
			states:    runtest.EnvReady + "Complete=False/SummaryRefused Failed=True/SummaryRefused",
			message:   "pod baseline-1 is not counted: the ledger's signature",
			completed: "0",
			released:  "baseline-0 baseline-1",
			job:       "suspend",
		},
		"too many errored": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				addPods(s, runtest.EndPod(runtest.RunnerPod(s.Run, 0), corev1.PodSucceeded,
					runtest.SummaryOf(t, p, 0, runtest.Playing{Errored: []int64{0, 1}})))
			},
			states:    runtest.EnvReady + "Complete=False/TooManyErrored Failed=True/TooManyErrored",
			message:   "2 of 14 episodes errored (timeout 2), more than the 10 %",
			completed: "0",
			released:  "baseline-0",
			job:       "suspend",
		},
		"as many errored as allowed": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				addPods(s, runtest.EndPod(runtest.RunnerPod(s.Run, 0), corev1.PodSucceeded,
					runtest.SummaryOf(t, p, 0, runtest.Playing{Errored: []int64{1}})))
			},
			states:    runtest.EnvReady + runs,
			message:   "1 of 4",
			completed: "0",
			released:  "baseline-0",
		},
		"the pool's scenarios changed": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				s.Env.Status.ScenarioDigest, s.Report = "sha256:bb", new(runtest.NewReport())
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0), runtest.RunnerPod(s.Run, 1))
			},
			states:    runtest.EnvReady + "Complete=False/EnvironmentChanged Failed=True/EnvironmentChanged",
			message:   "The scenarios of pool support changed from " + runtest.DigestA + " to sha256:bb",
			completed: "0",
			released:  "baseline-0 baseline-1",
			job:       "suspend",
		},
		"the pool's judge changed": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Env.Status.Judge, s.Report = "offline-v2", new(runtest.NewReport())
			},
			states:  runtest.EnvReady + "Complete=False/EnvironmentChanged Failed=True/EnvironmentChanged",
			message: "The judge of",
			job:     "suspend",
		},
		"the pool's key changed": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Env.Status.LedgerPublicKey = runtest.PublicText(runtest.OtherKey())
				s.Report = new(runtest.NewReport())
			},
			states:  runtest.EnvReady + "Complete=False/EnvironmentChanged Failed=True/EnvironmentChanged",
			message: "The ledger key of",
			job:     "suspend",
		},
		"the pool restarts and has no report yet": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Env.Status = v1alpha1.CustomerSupportEnvStatus{}
			},
			states:  "EnvironmentReady=False/EnvironmentNotAvailable " + runs,
			message: "0 of 4",
		},
		"an image that can't be pulled": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(4 * time.Minute)
				addPods(s, runtest.MarkPulling(runtest.RunnerPod(s.Run, 0)))
			},
			states:  runtest.EnvReady + stuck,
			message: `A runner can't start: pod baseline-0: ImagePullBackOff: Back-off pulling image "csenv:tset".`,
			again:   6 * time.Minute,
		},
		"an image that can't be pulled for long": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(stuckDeadline)
				addPods(s, runtest.MarkPulling(runtest.RunnerPod(s.Run, 0)))
			},
			states:   runtest.EnvReady + "Complete=False/RunnersNotStarted Failed=True/RunnersNotStarted",
			message:  "could not start for 10m0s: pod baseline-0: ImagePullBackOff",
			released: "baseline-0",
			job:      "suspend",
		},
		"an image that can't be pulled, after a long wait for a node": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(stuckDeadline + time.Hour)
				pod := runtest.MarkPulling(runtest.RunnerPod(s.Run, 0))
				pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(runtest.StartTime().Add(time.Hour + 9*time.Minute))
				addPods(s, pod)
			},
			states:  runtest.EnvReady + stuck,
			message: "A runner can't start: pod baseline-0: ImagePullBackOff",
			again:   9 * time.Minute,
		},
		"a Secret that doesn't exist": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(4 * time.Minute)
				pod := runtest.RunnerPod(s.Run, 0)
				state := runtest.NewWaitingState("CreateContainerConfigError")
				state.Waiting.Message = `secret "openai" not found`
				addPods(s, runtest.AgentWaits(pod, corev1.ContainerStatus{State: state}))
			},
			states: runtest.EnvReady + stuck,
			message: `CreateContainerConfigError: secret "openai" not found. Create it: ` +
				"`kubectl create secret generic openai -n default --from-literal=KEY=VALUE`.",
			again: 6 * time.Minute,
		},
		"a volume that is being mounted": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(time.Minute + 20*time.Second)
				addPods(s, runtest.RunnerWaits(runtest.RunnerPod(s.Run, 0), "ContainerCreating"))
			},
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
			again:   40 * time.Second,
		},
		"a volume that doesn't exist": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(4 * time.Minute)
				addPods(s, runtest.RunnerWaits(runtest.RunnerPod(s.Run, 0), "ContainerCreating"))
			},
			states: runtest.EnvReady + stuck,
			message: "A runner can't start: pod baseline-0: its containers haven't been created for more than 2m0s. " +
				"`kubectl describe pod -n default baseline-0`",
			again: 6 * time.Minute,
		},
		"an agent's image that can't be pulled for long": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(stuckDeadline)
				addPods(s, runtest.AgentWaits(runtest.RunnerPod(s.Run, 0), corev1.ContainerStatus{State: runtest.NewWaitingState("ErrImagePull")}))
			},
			states:   runtest.EnvReady + "Complete=False/RunnersNotStarted Failed=True/RunnersNotStarted",
			message:  "could not start for 10m0s: pod baseline-0: the agent's container: ErrImagePull.",
			released: "baseline-0",
			job:      "suspend",
		},
		"an agent that ends before it listens": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(4 * time.Minute)
				addPods(s, runtest.AgentWaits(runtest.RunnerPod(s.Run, 0), corev1.ContainerStatus{Started: new(false),
					State: runtest.NewWaitingState("CrashLoopBackOff"), LastTerminationState: runtest.EndsWith(2)}))
			},
			states: runtest.EnvReady + stuck,
			message: "A runner can't start: pod baseline-0: the agent's container doesn't listen on port " +
				"9000, and ended with exit code 2.",
			again: 6 * time.Minute,
		},
		"an agent that never listens": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(stuckDeadline)
				addPods(s, runtest.AgentWaits(runtest.RunnerPod(s.Run, 0), corev1.ContainerStatus{Started: new(false),
					RestartCount: 1, LastTerminationState: runtest.EndsWith(137)}))
			},
			states:   runtest.EnvReady + "Complete=False/RunnersNotStarted Failed=True/RunnersNotStarted",
			message:  "the agent's container doesn't listen on port 9000, and ended with exit code 137.",
			released: "baseline-0",
			job:      "suspend",
		},
		"a slow agent": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(stuckDeadline)
				addPods(s, runtest.AgentWaits(runtest.RunnerPod(s.Run, 0), corev1.ContainerStatus{Started: new(false)}))
			},
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
		},
		"an agent that ends while its runner plays": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				s.Now = runtest.StartTime().Add(stuckDeadline)
				pod := runtest.AgentWaits(runtest.RunnerPod(s.Run, 0), corev1.ContainerStatus{Started: new(false), RestartCount: 3,
					State: runtest.NewWaitingState("CrashLoopBackOff")})
				pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
				addPods(s, pod)
			},
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
		},
		"no node fits a runner": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				pod := runtest.RunnerPod(s.Run, 0)
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}
				addPods(s, pod)
			},
			states:  runtest.EnvReady + "Complete=False/Unschedulable" + runtest.NotFailed,
			message: "Runner pod baseline-0 can't be scheduled: 0/1 nodes",
		},
		"a pod is deleted before it ran": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				addPods(s, runtest.MarkDeleting(runtest.RunnerPod(s.Run, 0), time.Minute))
			},
			states:   runtest.EnvReady + runs,
			message:  "0 of 4",
			released: "baseline-0",
		},
		"a pod is deleted while it runs": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				pod := runtest.MarkDeleting(runtest.RunnerPod(s.Run, 0), 30*time.Second)
				pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
				addPods(s, pod)
			},
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
			again:   90 * time.Second,
		},
		"a deleted pod's node is lost": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				pod := runtest.MarkDeleting(runtest.RunnerPod(s.Run, 0), -snapshot.DeleteGrace)
				pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
				addPods(s, pod)
			},
			states:   runtest.EnvReady + runs,
			message:  "0 of 4",
			released: "baseline-0",
			again:    waitDelay,
		},
		"a pod that has ended is deleted": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				addPods(s, runtest.MarkDeleting(runtest.NewSucceededPod(t, s.Run, p, 0), 0))
			},
			states:    runtest.EnvReady + runs,
			message:   "1 of 4",
			completed: "0",
			released:  "baseline-0",
		},
		"the Job was deleted": {
			change:  func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) { s.Job = nil },
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
			again:   waitDelay,
			job:     "create",
		},
		"another object has the Job's name": {
			change:  func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) { s.Job, s.Taken = nil, []string{"Job baseline"} },
			states:  runtest.EnvReady + "Complete=False/NameTaken" + runtest.NotFailed,
			message: "Job baseline belongs to something else",
			again:   waitDelay,
		},
		"parallelism was lowered": {
			change:  func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) { s.Run.Spec.Parallelism = ptr.To[int32](2) },
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
			job:     "resize",
		},
		"parallelism was raised above the shards": {
			change:  func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) { s.Run.Spec.Parallelism = ptr.To[int32](400) },
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
		},
		"the Job is complete, its last pod isn't seen yet": {
			change:  func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) { jobWith(s, batchv1.JobComplete, "") },
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
			again:   lostDeadline,
		},
		"the Job is complete, its pods were removed by force": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				jobWith(s, batchv1.JobComplete, "")
				s.Now = runtest.StartTime().Add(lostDeadline)
			},
			states:  runtest.EnvReady + runs,
			message: "0 of 4",
			job:     "delete",
		},
		"the Job is complete, its pods were removed by force too often": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				jobWith(s, batchv1.JobComplete, "")
				s.Job.Annotations[runner.AnnotationJobAttempt], s.Run.Status.Shards.JobAttempts = "3", 3
				s.Now = runtest.StartTime().Add(lostDeadline)
			},
			states:  runtest.EnvReady + "Complete=False/SummariesLost Failed=True/SummariesLost",
			message: "or their pods were removed before they were read",
		},
		"the plan and the pool are missing": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				s.PlanMap, s.Env = nil, nil
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0))
			},
			states:  runtest.EnvMissing + runs,
			message: "can't be made again yet",
			again:   waitDelay,
		},
		"the plan was changed": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				p.Seed++
				changePlan(t, s, p)
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0))
			},
			states:  runtest.EnvReady + runs,
			message: "its content was changed",
			again:   waitDelay,
		},
		"the plan is missing and the pool's offer differs": {
			change: func(_ *testing.T, s *snapshot.Snapshot, _ score.Plan) {
				report := runtest.NewReport()
				report.Tasks[1].Scenarios = report.Tasks[1].Scenarios[:3]
				s.PlanMap, s.Report = nil, &report
			},
			states:  runtest.EnvReady + "Complete=False/EnvironmentChanged Failed=True/EnvironmentChanged",
			message: "The scenarios or the ledger key of pool support changed",
			job:     "suspend",
		},
		"the status was edited": {
			change: func(t *testing.T, s *snapshot.Snapshot, p score.Plan) {
				s.Run.Status.Shards.Accumulator = "AAAA"
				addPods(s, runtest.NewSucceededPod(t, s.Run, p, 0))
			},
			states:   runtest.EnvReady + "Complete=False/SummaryRefused Failed=True/SummaryRefused",
			message:  "status.shards.accumulator",
			released: "baseline-0",
			job:      "suspend",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, plan := begun(t)
			tc.change(t, &s, plan)
			before := s.Run.DeepCopy()
			d := DecideRun(s)
			if got := runtest.FormatConditions(d.Status.Conditions); got != tc.states {
				t.Errorf("conditions\n%s, want\n%s", got, tc.states)
			}
			if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionComplete); !strings.Contains(
				c.Message, tc.message) {
				t.Errorf("Complete is %q, want it to contain %q", c.Message, tc.message)
			}
			if got := d.Status.Shards.CompletedIndexes; got != tc.completed {
				t.Errorf("completed %q, want %q", got, tc.completed)
			}
			if got := runtest.PodNames(d.Release); got != tc.released {
				t.Errorf("releases %q, want %q", got, tc.released)
			}
			if d.Again != tc.again {
				t.Errorf("requeued after %v, want %v", d.Again, tc.again)
			}
			job := jobDecision(d)
			if job != tc.job {
				t.Errorf("job: %q, want %q", job, tc.job)
			}
			if diff := cmp.Diff(before, s.Run); diff != "" {
				t.Errorf("the decision changed its input: %s", diff)
			}
		})
	}
}
