package rules

import (
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
)

const held = "EnvironmentReady=True/EnvironmentAvailable Suspended=True/Suspended "

func enqueue(s *snapshot.Snapshot) {
	s.Run.Labels = map[string]string{runner.LabelQueue: "gpus"}
	if s.Job != nil {
		s.Job.Labels = runner.MakeJob(s.Run, s.Env, runner.Options{}, runner.JobSpec{}).Labels
		s.Job.Annotations[runner.AnnotationQueue] = "gpus"
		s.Job.Spec.Suspend = new(true)
	}
}

// defaultQueue puts the Job of a run without a label into a queue, as Kueue's admission does in a
// namespace with a default queue.
func defaultQueue(s *snapshot.Snapshot) {
	s.Job.Labels = runner.MakeJob(s.Run, s.Env, runner.Options{}, runner.JobSpec{}).Labels
	s.Job.Labels[runner.LabelQueue] = "default"
	s.Job.Spec.Suspend = new(true)
}

// TestSuspension starts every case with a run of four shards whose Job plays.
func TestSuspension(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*snapshot.Snapshot)
		states  string
		message string
		job     string
	}{
		"suspended": {func(s *snapshot.Snapshot) { runtest.SetSuspend(s.Run, true) },
			held + "Complete=False/Suspended" + runtest.NotFailed, "Set spec.suspend to false", "suspend"},
		"suspended, its Job too": {func(s *snapshot.Snapshot) {
			runtest.SetSuspend(s.Run, true)
			s.Job.Spec.Suspend = new(
				true)
		}, held + "Complete=False/Suspended" + runtest.NotFailed, "0 of 4", ""},
		"suspended, its Job was deleted": {func(s *snapshot.Snapshot) { runtest.SetSuspend(s.Run, true); s.Job = nil },
			held + "Complete=False/Suspended" + runtest.NotFailed, "0 of 4", ""},
		"resumed": {func(s *snapshot.Snapshot) { s.Job.Spec.Suspend = new(true) },
			runtest.EnvReady + "Complete=False/Running" + runtest.NotFailed, "0 of 4", "resume"},
		"queued and not admitted yet": {enqueue, runtest.EnvReady + "Complete=False/Queued" + runtest.NotFailed,
			"Job baseline waits until queue gpus admits it", ""},
		"admitted by its queue": {
			func(s *snapshot.Snapshot) { enqueue(s); s.Job.Spec.Suspend = new(false) }, runtest.EnvReady + "Complete=False/Running" +
				runtest.NotFailed, "0 of 4", "",
		},
		"waits in another queue than the run's": {
			func(s *snapshot.Snapshot) { enqueue(s); s.Run.Labels[runner.LabelQueue] = "other" }, runtest.EnvReady + "Complete=False/Queued" +
				runtest.NotFailed, "waits until queue gpus", "delete",
		},
		"waits in a queue that the run has left": {
			func(s *snapshot.Snapshot) { enqueue(s); s.Run.Labels = nil }, runtest.EnvReady + "Complete=False/Queued" + runtest.NotFailed,
			"waits until queue gpus", "delete",
		},
		"waits in a default queue": {defaultQueue, runtest.EnvReady + "Complete=False/Queued" + runtest.NotFailed,
			"waits until queue default", ""},
		"waits in a default queue, and the run names another": {
			func(s *snapshot.Snapshot) {
				defaultQueue(s)
				s.Run.Labels = map[string]string{runner.LabelQueue: "gpus"}
			},
			runtest.EnvReady + "Complete=False/Queued" + runtest.NotFailed, "waits until queue default", "delete",
		},
		"waits in a default queue, suspended": {func(s *snapshot.Snapshot) { defaultQueue(s); runtest.SetSuspend(s.Run, true) },
			held + "Complete=False/Suspended" + runtest.NotFailed, "0 of 4", "delete"},
		"admitted by a default queue": {func(s *snapshot.Snapshot) { defaultQueue(s); s.Job.Spec.Suspend = new(false) },
			runtest.EnvReady + "Complete=False/Running" + runtest.NotFailed, "0 of 4", ""},
		"waits in its queue since an earlier version": {
			func(s *snapshot.Snapshot) { enqueue(s); delete(s.Job.Annotations, runner.AnnotationQueue) },
			runtest.EnvReady + "Complete=False/Queued" + runtest.NotFailed, "waits until queue gpus", "",
		},
		"plays, and the run has left the queue": {
			func(s *snapshot.Snapshot) { enqueue(s); s.Job.Spec.Suspend = new(false); s.Run.Labels = nil },
			runtest.EnvReady + "Complete=False/Running" + runtest.NotFailed, "0 of 4", "",
		},
		"plays, suspended, and the run has left the queue": {
			func(s *snapshot.Snapshot) {
				enqueue(s)
				s.Job.Spec.Suspend = new(false)
				s.Run.Labels = nil
				runtest.SetSuspend(s.Run, true)
			},
			held + "Complete=False/Suspended" + runtest.NotFailed, "0 of 4", "delete",
		},
		"queued and suspended": {
			func(s *snapshot.Snapshot) {
				enqueue(s)
				runtest.SetSuspend(s.Run, true)
				s.Job.Spec.Suspend = new(false)
			},
			held + "Complete=False/Suspended" + runtest.NotFailed, "0 of 4", "delete",
		},
		"queued and suspended without a Job": {
			func(s *snapshot.Snapshot) { enqueue(s); runtest.SetSuspend(s.Run, true); s.Job = nil }, held + "Complete=False/Suspended" +
				runtest.NotFailed, "0 of 4", "",
		},
		"queued and resumed": {func(s *snapshot.Snapshot) { enqueue(s); s.Job = nil }, runtest.EnvReady + "Complete=False/Running" +
			runtest.NotFailed, "0 of 4", "create"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			tc.change(&s)
			d := DecideRun(s)
			if got := runtest.FormatConditions(d.Status.Conditions); got != tc.states {
				t.Errorf("conditions\n%s, want\n%s", got, tc.states)
			}
			if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionComplete); !strings.Contains(
				c.Message, tc.message) {
				t.Errorf("Complete is %q, want it to contain %q", c.Message, tc.message)
			}
			if got := jobDecision(d); got != tc.job {
				t.Errorf("job: %q, want %q", got, tc.job)
			}
			if d.CreateJob != nil && d.CreateJob.Suspended != runner.IsQueued(s.Run) {
				t.Errorf("the new Job is suspended: %v", d.CreateJob.Suspended)
			}
		})
	}
}

// told returns the notes of a pass's events with a reason.
func told(d Decision, reason string) []string {
	var notes []string
	for _, e := range d.Events {
		if e.Reason == reason {
			notes = append(notes, e.Kind+" "+e.Note)
		}
	}
	return notes
}

// Each hold-up is reported once.
func TestHoldUpsAreReported(t *testing.T) {
	stuck := func(s *snapshot.Snapshot) { s.Pods = []corev1.Pod{*runtest.MarkPulling(runtest.RunnerPod(s.Run, 0))} }
	for name, tc := range map[string]struct {
		begin, end   func(*snapshot.Snapshot)
		reason, want string
	}{
		"a queue": {enqueue, func(s *snapshot.Snapshot) { s.Job.Spec.Suspend = new(false) }, v1alpha1.ReasonQueued,
			"Normal 0 of 4 shards are counted. Job baseline waits until queue gpus admits it."},
		"an image": {
			stuck, func(s *snapshot.Snapshot) { s.Pods = nil }, v1alpha1.ReasonRunnersNotStarted,
			"Warning 0 of 4 shards are counted. A runner can't start: pod baseline-0: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			for _, step := range []struct {
				change func(*snapshot.Snapshot)
				times  int
			}{{tc.begin, 1}, {func(*snapshot.Snapshot) {}, 0}, {tc.end, 0}, {tc.begin, 1}} {
				step.change(&s)
				d := DecideRun(s)
				if got := told(d, tc.reason); len(got) != step.times || step.times > 0 &&
					!strings.HasPrefix(got[0], tc.want) {
					t.Errorf("told %q, want %d times %q", got, step.times, tc.want)
				}
				s.Run.Status = d.Status
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	missing := func(s *snapshot.Snapshot) { s.Env, s.Report, s.Run.Status = nil, nil, v1alpha1.EvaluationRunStatus{} }
	for name, tc := range map[string]struct {
		change func(*snapshot.Snapshot)
		reason string // reason of Failed, "" if the run continues
		again  time.Duration
	}{
		"time to start remains": {func(s *snapshot.Snapshot) {
			missing(s)
			s.Run.Spec.StartDeadlineSeconds = new(int32(10))
		}, "", 10 * time.Second},
		"time to start is over": {func(s *snapshot.Snapshot) {
			missing(s)
			s.Run.Spec.StartDeadlineSeconds = new(int32(10))
			s.Run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSuspended,
				Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(runtest.StartTime().Add(-10 * time.Second))}}
		}, v1alpha1.ReasonStartDeadlineExceeded, 0},
		"time to start counts from the resumption": {func(s *snapshot.Snapshot) {
			missing(s)
			s.Run.Spec.StartDeadlineSeconds = new(int32(10))
			s.Run.CreationTimestamp = metav1.NewTime(runtest.StartTime().Add(-time.Hour))
			s.Run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSuspended,
				Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(runtest.StartTime().Add(-time.Hour))}}
		}, "", 10 * time.Second},
		"time to end remains": {func(s *snapshot.Snapshot) {
			s.Run.Spec.ActiveDeadlineSeconds = new(int32(10))
			s.Now = runtest.StartTime().Add(9 * time.Second)
		}, "", time.Second},
		"time to end is over": {func(s *snapshot.Snapshot) {
			s.Run.Spec.ActiveDeadlineSeconds = new(int32(10))
			s.Now = runtest.StartTime().Add(10 * time.Second)
		}, v1alpha1.ReasonDeadlineExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			tc.change(&s)
			d := DecideRun(s)
			got := ""
			if c := meta.FindStatusCondition(d.Status.Conditions,
				v1alpha1.ConditionFailed); c.Status == metav1.ConditionTrue {
				got = c.Reason
			}
			if got != tc.reason || d.Again != tc.again {
				t.Errorf("failed %q, requeued after %v; want %q, %v", got, d.Again, tc.reason, tc.again)
			}
			if tc.reason == v1alpha1.ReasonDeadlineExceeded && jobDecision(d) != "suspend" {
				t.Errorf("job: %q", jobDecision(d))
			}
		})
	}
}

func TestRetention(t *testing.T) {
	for name, tc := range map[string]struct {
		retain v1alpha1.Retention
		kind   string
		missed bool
		keeps  bool
	}{
		"complete":                           {v1alpha1.RetainOnFailure, v1alpha1.ConditionComplete, false, false},
		"complete below a threshold":         {v1alpha1.RetainOnFailure, v1alpha1.ConditionComplete, true, true},
		"failed":                             {v1alpha1.RetainOnFailure, v1alpha1.ConditionFailed, false, true},
		"always":                             {v1alpha1.RetainAlways, v1alpha1.ConditionComplete, false, true},
		"never":                              {v1alpha1.RetainNever, v1alpha1.ConditionFailed, false, false},
		"no retention is set, and it failed": {"", v1alpha1.ConditionFailed, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			s.Run.Spec.Retain, s.Run.Spec.TTLSecondsAfterFinished = tc.retain, new(int32(60))
			s.Run.Status.CompletionTime = new(metav1.NewTime(runtest.StartTime()))
			meta.SetStatusCondition(&s.Run.Status.Conditions,
				metav1.Condition{Type: tc.kind, Status: metav1.ConditionTrue, Reason: "Test"})
			if tc.missed {
				meta.SetStatusCondition(&s.Run.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionThresholdsMet, Status: metav1.ConditionFalse, Reason: "Test"})
			}
			jobWith(&s, batchv1.JobComplete, "")
			s.Now = runtest.StartTime().Add(20 * time.Second)
			early := DecideRun(s)
			if early.DeleteRun || (early.Again == 40*time.Second) == tc.keeps || early.DeleteJob == tc.keeps {
				t.Errorf("before its time: deletes the run %v, its Job %v, requeued after %v", early.DeleteRun,
					early.DeleteJob, early.Again)
			}
			s.Now = runtest.StartTime().Add(time.Minute)
			if got := DecideRun(s).DeleteRun; got == tc.keeps {
				t.Errorf("after its time: deletes the run %v", got)
			}
		})
	}
}
