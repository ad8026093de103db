package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

const held = "EnvironmentReady=True/EnvironmentAvailable Suspended=True/Suspended "

func suspend(run *v1alpha1.EvaluationRun, yes bool) { run.Spec.Suspend = new(yes) }

func enqueue(s *snapshot) {
	s.run.Labels = map[string]string{labelQueue: "gpus"}
	if s.job != nil {
		s.job.Labels = runnerJob(s.run, s.env, runnerOptions{}, jobSpec{}).Labels
		s.job.Annotations[annotationQueue] = "gpus"
		s.job.Spec.Suspend = new(true)
	}
}

// defaultQueue puts the Job of a run without a label into a queue, as Kueue's admission does in a
// namespace with a default queue.
func defaultQueue(s *snapshot) {
	s.job.Labels = runnerJob(s.run, s.env, runnerOptions{}, jobSpec{}).Labels
	s.job.Labels[labelQueue] = "default"
	s.job.Spec.Suspend = new(true)
}

// TestSuspension starts every case with a run of four shards whose Job plays.
func TestSuspension(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*snapshot)
		states  string
		message string
		job     string
	}{
		"suspended": {func(s *snapshot) { suspend(s.run, true) },
			held + "Complete=False/Suspended" + notFailed, "Set spec.suspend to false", "suspend"},
		"suspended, its Job too": {func(s *snapshot) {
			suspend(s.run, true)
			s.job.Spec.Suspend = new(
				true)
		}, held + "Complete=False/Suspended" + notFailed, "0 of 4", ""},
		"suspended, its Job was deleted": {func(s *snapshot) { suspend(s.run, true); s.job = nil },
			held + "Complete=False/Suspended" + notFailed, "0 of 4", ""},
		"resumed": {func(s *snapshot) { s.job.Spec.Suspend = new(true) },
			envReady + "Complete=False/Running" + notFailed, "0 of 4", "resume"},
		"queued and not admitted yet": {enqueue, envReady + "Complete=False/Queued" + notFailed,
			"Job baseline waits until queue gpus admits it", ""},
		"admitted by its queue": {
			func(s *snapshot) { enqueue(s); s.job.Spec.Suspend = new(false) }, envReady + "Complete=False/Running" +
				notFailed, "0 of 4", "",
		},
		"waits in another queue than the run's": {
			func(s *snapshot) { enqueue(s); s.run.Labels[labelQueue] = "other" }, envReady + "Complete=False/Queued" +
				notFailed, "waits until queue gpus", "delete",
		},
		"waits in a queue that the run has left": {
			func(s *snapshot) { enqueue(s); s.run.Labels = nil }, envReady + "Complete=False/Queued" + notFailed,
			"waits until queue gpus", "delete",
		},
		"waits in a default queue": {defaultQueue, envReady + "Complete=False/Queued" + notFailed,
			"waits until queue default", ""},
		"waits in a default queue, and the run names another": {
			func(s *snapshot) { defaultQueue(s); s.run.Labels = map[string]string{labelQueue: "gpus"} },
			envReady + "Complete=False/Queued" + notFailed, "waits until queue default", "delete",
		},
		"waits in a default queue, suspended": {func(s *snapshot) { defaultQueue(s); suspend(s.run, true) },
			held + "Complete=False/Suspended" + notFailed, "0 of 4", "delete"},
		"admitted by a default queue": {func(s *snapshot) { defaultQueue(s); s.job.Spec.Suspend = new(false) },
			envReady + "Complete=False/Running" + notFailed, "0 of 4", ""},
		"waits in its queue since an earlier version": {
			func(s *snapshot) { enqueue(s); delete(s.job.Annotations, annotationQueue) },
			envReady + "Complete=False/Queued" + notFailed, "waits until queue gpus", "",
		},
		"plays, and the run has left the queue": {
			func(s *snapshot) { enqueue(s); s.job.Spec.Suspend = new(false); s.run.Labels = nil },
			envReady + "Complete=False/Running" + notFailed, "0 of 4", "",
		},
		"plays, suspended, and the run has left the queue": {
			func(s *snapshot) {
				enqueue(s)
				s.job.Spec.Suspend = new(false)
				s.run.Labels = nil
				suspend(s.run, true)
			},
			held + "Complete=False/Suspended" + notFailed, "0 of 4", "delete",
		},
		"queued and suspended": {
			func(s *snapshot) { enqueue(s); suspend(s.run, true); s.job.Spec.Suspend = new(false) },
			held + "Complete=False/Suspended" + notFailed, "0 of 4", "delete",
		},
		"queued and suspended without a Job": {
			func(s *snapshot) { enqueue(s); suspend(s.run, true); s.job = nil }, held + "Complete=False/Suspended" +
				notFailed, "0 of 4", "",
		},
		"queued and resumed": {func(s *snapshot) { enqueue(s); s.job = nil }, envReady + "Complete=False/Running" +
			notFailed, "0 of 4", "create"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			tc.change(&s)
			d := decide(s)
			if got := states(d.status.Conditions); got != tc.states {
				t.Errorf("conditions\n%s, want\n%s", got, tc.states)
			}
			if c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionComplete); !strings.Contains(
				c.Message, tc.message) {
				t.Errorf("Complete is %q, want it to contain %q", c.Message, tc.message)
			}
			if got := jobDecision(d); got != tc.job {
				t.Errorf("job: %q, want %q", got, tc.job)
			}
			if d.createJob != nil && d.createJob.suspended != queued(s.run) {
				t.Errorf("the new Job is suspended: %v", d.createJob.suspended)
			}
		})
	}
}

// told returns the notes of a pass's events with a reason.
func told(d decision, reason string) []string {
	var notes []string
	for _, e := range d.events {
		if e.reason == reason {
			notes = append(notes, e.kind+" "+e.note)
		}
	}
	return notes
}

// Each hold-up is reported once.
func TestHoldUpsAreReported(t *testing.T) {
	stuck := func(s *snapshot) { s.pods = []corev1.Pod{*pulling(runnerPodOf(s.run, 0))} }
	for name, tc := range map[string]struct {
		begin, end   func(*snapshot)
		reason, want string
	}{
		"a queue": {enqueue, func(s *snapshot) { s.job.Spec.Suspend = new(false) }, v1alpha1.ReasonQueued,
			"Normal 0 of 4 shards are counted. Job baseline waits until queue gpus admits it."},
		"an image": {
			stuck, func(s *snapshot) { s.pods = nil }, v1alpha1.ReasonRunnersNotStarted,
			"Warning 0 of 4 shards are counted. A runner can't start: pod baseline-0: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			for _, step := range []struct {
				change func(*snapshot)
				times  int
			}{{tc.begin, 1}, {func(*snapshot) {}, 0}, {tc.end, 0}, {tc.begin, 1}} {
				step.change(&s)
				d := decide(s)
				if got := told(d, tc.reason); len(got) != step.times || step.times > 0 &&
					!strings.HasPrefix(got[0], tc.want) {
					t.Errorf("told %q, want %d times %q", got, step.times, tc.want)
				}
				s.run.Status = d.status
			}
		})
	}
}

// A run that is created suspended makes no plan and waits for no pool until it is resumed. Later
// suspensions don't repeat ended shards.
func TestSuspendedAndResumed(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	suspend(run, true)
	run.Spec.StartDeadlineSeconds = new(int32(60))
	w.update(run)
	w.clock.SetTime(start().Add(time.Hour))
	if w.mustPass(); w.job() != nil || w.run().Status.Provenance != nil {
		t.Fatal("a suspended run begins")
	}
	run = w.run()
	suspend(run, false)
	w.update(run)
	w.mustPass()
	plan := w.plan()
	w.create(succeeded(t, run, plan, 2))
	run = w.run()
	suspend(run, true)
	w.update(run)
	w.mustPass()
	if got := w.run().Status.Shards.CompletedIndexes; got != "2" || !*w.job().Spec.Suspend || w.held() != "" {
		t.Errorf("completed %q, job suspended %v, held %q", got, *w.job().Spec.Suspend, w.held())
	}
	if err := w.client.Delete(t.Context(), w.job()); err != nil {
		t.Fatal(err)
	}
	run = w.run()
	suspend(run, false)
	w.update(run)
	w.mustPass()
	if job := w.job(); job == nil || *job.Spec.Suspend || job.Annotations[annotationShards] != "0-1,3" {
		t.Errorf("Job %+v, want one of the missing shards", job)
	}
	want := []string{"Normal Suspended", "Normal Resumed", "Normal Started", "Normal Suspended", "Normal Progress",
		"Normal Resumed"}
	got := w.events()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

func TestDeadlines(t *testing.T) {
	missing := func(s *snapshot) { s.env, s.report, s.run.Status = nil, nil, v1alpha1.EvaluationRunStatus{} }
	for name, tc := range map[string]struct {
		change func(*snapshot)
		reason string // reason of Failed, "" if the run continues
		again  time.Duration
	}{
		"time to start remains": {func(s *snapshot) {
			missing(s)
			s.run.Spec.StartDeadlineSeconds = new(int32(10))
		}, "", 10 * time.Second},
		"time to start is over": {func(s *snapshot) {
			missing(s)
			s.run.Spec.StartDeadlineSeconds = new(int32(10))
			s.run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSuspended,
				Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(start().Add(-10 * time.Second))}}
		}, v1alpha1.ReasonStartDeadlineExceeded, 0},
		"time to start counts from the resumption": {func(s *snapshot) {
			missing(s)
			s.run.Spec.StartDeadlineSeconds = new(int32(10))
			s.run.CreationTimestamp = metav1.NewTime(start().Add(-time.Hour))
			s.run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSuspended,
				Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start().Add(-time.Hour))}}
		}, "", 10 * time.Second},
		"time to end remains": {func(s *snapshot) {
			s.run.Spec.ActiveDeadlineSeconds = new(int32(10))
			s.now = start().Add(9 * time.Second)
		}, "", time.Second},
		"time to end is over": {func(s *snapshot) {
			s.run.Spec.ActiveDeadlineSeconds = new(int32(10))
			s.now = start().Add(10 * time.Second)
		}, v1alpha1.ReasonDeadlineExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := begun(t)
			tc.change(&s)
			d := decide(s)
			got := ""
			if c := meta.FindStatusCondition(d.status.Conditions,
				v1alpha1.ConditionFailed); c.Status == metav1.ConditionTrue {
				got = c.Reason
			}
			if got != tc.reason || d.again != tc.again {
				t.Errorf("failed %q, requeued after %v; want %q, %v", got, d.again, tc.reason, tc.again)
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
			s.run.Spec.Retain, s.run.Spec.TTLSecondsAfterFinished = tc.retain, new(int32(60))
			s.run.Status.CompletionTime = new(metav1.NewTime(start()))
			meta.SetStatusCondition(&s.run.Status.Conditions,
				metav1.Condition{Type: tc.kind, Status: metav1.ConditionTrue, Reason: "Test"})
			if tc.missed {
				meta.SetStatusCondition(&s.run.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionThresholdsMet, Status: metav1.ConditionFalse, Reason: "Test"})
			}
			jobWith(&s, batchv1.JobComplete, "")
			s.now = start().Add(20 * time.Second)
			early := decide(s)
			if early.deleteRun || (early.again == 40*time.Second) == tc.keeps || early.deleteJob == tc.keeps {
				t.Errorf("before its time: deletes the run %v, its Job %v, requeued after %v", early.deleteRun,
					early.deleteJob, early.again)
			}
			s.now = start().Add(time.Minute)
			if got := decide(s).deleteRun; got == tc.keeps {
				t.Errorf("after its time: deletes the run %v", got)
			}
		})
	}
}

func TestRunIsDeletedAfterItsRetention(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.Spec.TTLSecondsAfterFinished = new(int32(0))
	w.update(run)
	w.toTheEnd()
	w.clock.SetTime(start().Add(time.Second))
	w.mustPass()
	var gone v1alpha1.EvaluationRun
	if err := w.client.Get(t.Context(), key(runName), &gone); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the run still exists (%v)", err)
	}
}
