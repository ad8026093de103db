package run

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

func TestRunFromPlanToScore(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	plan := w.plan()
	if job := w.job(); job == nil || *job.Spec.Completions != 4 || *job.Spec.Parallelism != 4 {
		t.Fatalf("job %+v, want one of 4 shards", job)
	}
	w.wait(rules.ProgressAfter)
	w.create(runtest.NewSucceededPod(t, w.run(), plan, 2))
	w.mustPass()
	if run := w.run(); run.Status.Shards.CompletedIndexes != "2" || run.Status.Score == nil || w.held() != "" {
		t.Errorf("after one shard: %+v, held %q", run.Status, w.held())
	}
	w.create(runtest.NewSucceededPod(t, w.run(), plan, 0), runtest.NewSucceededPod(t, w.run(), plan, 1), runtest.NewSucceededPod(t, w.run(), plan, 3))
	w.mustPass()
	run := w.run()
	if got, want := runtest.FormatConditions(run.Status.Conditions), "EnvironmentReady=True/EnvironmentAvailable "+
		"Complete=True/Completed Failed=False/NotFailed"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if diff := cmp.Diff(&v1alpha1.RunEpisodes{Total: 14, Scored: 14, Retried: 4}, run.Status.Episodes); diff != "" {
		t.Error(diff)
	}
	if run.Status.Progress != "14/14" || run.Status.CompletionTime == nil || w.held() != "" {
		t.Errorf("progress %q, completion %v, held %q", run.Status.Progress, run.Status.CompletionTime, w.held())
	}
	if diff := cmp.Diff([]string{"Normal Progress", "Normal Completed"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if got := testutil.ToFloat64(w.r.metrics.counted); got != 4 {
		t.Errorf("%v shards in the metric, want 4", got)
	}
}

// A run of one shard takes eight writes of 16 KiB in all, and each further shard whose runner ends
// at about the same time another of 256 bytes: each is of another object, or before and after what
// is played.
func TestWritesOfARun(t *testing.T) {
	for shards := range 3 {
		shards++
		run := runtest.NewRun()
		run.Spec.Parallelism = new(int32(shards)) //nolint:gosec // at most 3
		w := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), run)
		got := map[string]int{}
		w.fault = func(write string, do func() error) error { got[write]++; return do() }
		w.mustPass()
		job, plan := w.job(), w.plan()
		for shard := range shards {
			pod := ofJob(runtest.NewSucceededPod(t, w.run(), plan, shard), job, shard)
			pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(w.clock.Now())
			w.create(pod)
			w.mustPass()
		}
		for range 3 {
			w.mustPass()
		}
		for _, event := range w.events() {
			got[event]++
		}
		want := map[string]int{"status": 3, "create *v1.Secret": 1, "create *v1.Job": 1, "create *v1.ConfigMap": 1,
			"patch *v1.Pod": shards, "delete *v1.Job": 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d shards: %s", shards, diff)
		}
		if w.sent > 16<<10+shards<<8 {
			t.Errorf("%d shards: writes of %d bytes", shards, w.sent)
		}
		t.Logf("%d shards: writes of %d bytes", shards, w.sent)
		w.tableIsWhole()
	}
}

// The event is emitted by the pass that counts the shard, and by no other.
func TestUnreportedAttemptsAreAnnouncedOnce(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	w.events()
	message := runtest.SummaryOf(t, w.plan(), 2, runtest.Playing{Change: func(l *score.Ledger) { l.Opened += 3 }})
	w.create(runtest.EndPod(runtest.RunnerPod(w.run(), 2), corev1.PodSucceeded, message))
	w.mustPass()
	w.mustPass()
	if diff := cmp.Diff([]string{"Warning EpisodesReplayed"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	if got := runtest.FormatConditions(w.run().Status.Conditions); !strings.Contains(got, runtest.NotFailed) {
		t.Errorf("conditions %s, want a run that continues", got)
	}
}

// Whoever deletes or suspends a Job stops its runners, and the Job controller doesn't count them.
func TestAttemptsOfRunnersStoppedWithTheirJob(t *testing.T) {
	for name, tc := range map[string]struct {
		disturb func(*world)
		want    []string
	}{
		"the Job is left alone": {func(*world) {}, []string{"Warning EpisodesReplayed"}},
		"it is deleted": {func(w *world) {
			if err := w.client.Delete(t.Context(), w.job()); err != nil {
				t.Fatal(err)
			}
		}, nil},
		"it is suspended": {func(w *world) {
			job := w.job()
			job.Spec.Suspend = new(true)
			if err := w.client.Update(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			w.mustPass()
			tc.disturb(w)
			w.mustPass()
			w.events()
			message := runtest.SummaryOf(t, w.plan(), 2, runtest.Playing{Begun: 3, Change: func(l *score.Ledger) { l.Opened += 3 }})
			pod := runtest.EndPod(runtest.RunnerPod(w.run(), 2), corev1.PodSucceeded, message)
			maps.Copy(pod.Annotations, w.job().Spec.Template.Annotations)
			w.create(pod)
			w.mustPass()
			if diff := cmp.Diff(tc.want, w.events()); diff != "" {
				t.Errorf("events: %s", diff)
			}
		})
	}
}

// At each write in turn, the operator crashes before it, crashes after it, or gets a conflict, and
// then starts again. For every write, the figures equal those without faults, all finalizers are
// removed, and the plan is the one in the status.
func TestCrashAtEveryWrite(t *testing.T) {
	honest := readyWorld(t)
	want := honest.toTheEnd()
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "csenv.dev", Resource: "evaluationruns"}, runtest.RunName,
		runtest.ErrCrash)
	for played, forged := range map[string]map[int]bool{"all summaries are honest": nil,
		"two are forged": {1: true, 2: true}} {
		writes := 0
		begin := func(t *testing.T) *world {
			w := readyWorld(t)
			w.forged = forged
			if forged != nil {
				w.wait(90 * time.Second) // the end of the runners: their summaries wait for others
			}
			return w
		}
		reference := begin(t)
		reference.fault = func(_ string, do func() error) error { writes++; return do() }
		reference.toTheEnd()
		if writes < 8 {
			t.Fatalf("%d writes, want at least a plan, a Job, some status writes and four pods", writes)
		}
		for name, hit := range map[string]func(do func() error) error{
			"crash before": func(func() error) error { return runtest.ErrCrash },
			"crash after":  func(do func() error) error { return errors.Join(do(), runtest.ErrCrash) },
			"conflict":     func(func() error) error { return conflict },
		} {
			for at := range writes {
				t.Run(fmt.Sprintf("%s, %s write %d", played, name, at), func(t *testing.T) {
					w := begin(t)
					n := 0
					w.fault = func(_ string, do func() error) error {
						n++
						if n-1 == at {
							return hit(do)
						}
						return do()
					}
					got := w.toTheEnd()
					if attempts := int32(1 + min(len(forged), 1)); got.Shards.JobAttempts != attempts {
						t.Errorf("%d job attempts, want %d", got.Shards.JobAttempts, attempts)
					}
					got.Shards.JobAttempts = want.Shards.JobAttempts
					if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.Time{}, &metav1.Time{})); diff != "" {
						t.Error(diff)
					}
					w.tableIsWhole()
				})
			}
		}
	}
}

// The cache may contain the run as it was before the last writes. A status write then conflicts,
// and nothing is counted twice.
func TestLaggingCacheCountsNothingTwice(t *testing.T) {
	want := readyWorld(t).toTheEnd()
	for lag := 1; lag <= 3; lag++ {
		t.Run(fmt.Sprintf("%d versions behind", lag), func(t *testing.T) {
			w := readyWorld(t)
			var seen []*v1alpha1.EvaluationRun
			reads := 0
			w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
				run, ok := object.(*v1alpha1.EvaluationRun)
				if !ok {
					return false, nil
				}
				reads++
				seen = append(seen, w.run())
				// Every second read is current, so that the run ends.
				if back := len(seen) - 1 - lag; reads%2 == 0 && back >= 0 {
					seen[back].DeepCopyInto(run)
					return true, nil
				}
				return false, nil
			}
			if diff := cmp.Diff(want, w.toTheEnd(), cmpopts.IgnoreTypes(metav1.Time{}, &metav1.Time{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStaleStatusWriteIsRetriedWithoutAnError(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	old := w.run()
	w.playShards()
	w.mustPass()
	counted := w.run().Status
	w.read = func(_ client.ObjectKey, object client.Object) (bool, error) {
		if run, ok := object.(*v1alpha1.EvaluationRun); ok {
			old.DeepCopyInto(run)
			return true, nil
		}
		return false, nil
	}
	w.create(runtest.NewSucceededPod(t, old, w.plan(), 3))
	w.events()
	result := w.mustPass()
	if result.RequeueAfter != objects.ConflictDelay {
		t.Errorf("requeued after %v, want %v", result.RequeueAfter, objects.ConflictDelay)
	}
	if diff := cmp.Diff(counted, w.run().Status); diff != "" {
		t.Error(diff)
	}
	if w.held() != "baseline-3" {
		t.Errorf("held %q: the finalizer of a pod was removed before its summary was written", w.held())
	}
	if got := w.events(); len(got) > 0 {
		t.Errorf("events %v of a write with a conflict", got)
	}
}

func TestWaitsForAPool(t *testing.T) {
	w := newWorld(t, runtest.NewRun())
	if result := w.mustPass(); result.RequeueAfter == 0 {
		t.Error("it isn't requeued")
	}
	if diff := cmp.Diff([]string{"Warning EnvironmentNotFound"}, w.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
	w.mustPass()
	if got := w.events(); len(got) > 0 {
		t.Errorf("the event is repeated: %v", got)
	}
	w.create(runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"))
	w.mustPass()
	if w.job() == nil {
		t.Errorf("no Job although the pool exists: %s", runtest.FormatConditions(w.run().Status.Conditions))
	}
}

func TestReportOfAnOldServerIsNotUsed(t *testing.T) {
	behind := runtest.NewReport()
	behind.GraderVersion = "0"
	starting := runtest.NewServer("support-0", "10.0.0.9")
	starting.Status.Conditions = nil
	cases := map[string]struct {
		servers []client.Object
		begins  bool
		message string
	}{
		"no server":            {nil, false, "no server is ready"},
		"one that is starting": {[]client.Object{starting}, false, "no server is ready"},
		"one that is behind": {[]client.Object{runtest.NewServer("support-a", "10.0.0.2")}, false,
			`server support-a: its grader version is "0", but "1" in the pool's status`},
		"one that doesn't answer": {[]client.Object{runtest.NewServer("support-a", "10.0.0.3")}, false,
			"server support-a: dialling 10.0.0.3"},
		"all that, then a good one": {[]client.Object{starting, runtest.NewServer("support-a", "10.0.0.2"),
			runtest.NewServer("support-b", "10.0.0.3"), runtest.NewServer("support-c", "10.0.0.1")}, true, "accepts sessions"},
		"a good one, then all sorts": {[]client.Object{runtest.NewServer("support-a", "10.0.0.1"),
			runtest.NewServer("support-b", "10.0.0.2")}, true, "accepts sessions"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append([]client.Object{runtest.NewPool(), runtest.NewRun()}, tc.servers...)...)
			w.r.reader.Pools = runtest.FakePool{"10.0.0.1": runtest.NewReport(), "10.0.0.2": behind, "10.0.0.9": runtest.NewReport()}
			w.mustPass()
			if (w.job() != nil) != tc.begins {
				t.Errorf("begun: %v, want %v", w.job() != nil, tc.begins)
			}
			if c := w.run().Status.Conditions[0]; !strings.Contains(c.Message, tc.message) {
				t.Errorf("EnvironmentReady is %q, want it to contain %q", c.Message, tc.message)
			}
		})
	}
}

func TestNameThatIsTaken(t *testing.T) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: runtest.RunName + "-plan", Namespace: runtest.Namespace},
		Data: map[string]string{"their": "data"}}
	w := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), runtest.NewRun(), theirs)
	w.mustPass()
	if got := runtest.FormatConditions(w.run().Status.Conditions); !strings.Contains(got, "Complete=False/NameTaken") {
		t.Errorf("conditions %s", got)
	}
	if err := w.client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if w.job() == nil {
		t.Error("the run doesn't begin when the name is free")
	}
}

func TestParallelismChangesTheJob(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	run := w.run()
	run.Spec.Parallelism = ptr.To[int32](2)
	if err := w.client.Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	before := w.job()
	w.mustPass()
	after := w.job()
	if *after.Spec.Parallelism != 2 {
		t.Errorf("parallelism %d, want 2", *after.Spec.Parallelism)
	}
	after.Spec.Parallelism, after.ResourceVersion = before.Spec.Parallelism, before.ResourceVersion
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something else changed: %s", diff)
	}
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	pending := runtest.RunnerPod(w.run(), 0)
	w.create(pending)
	w.mustPass()
	w.fault = func(write string, _ func() error) error {
		t.Errorf("writes: %s", write)
		return nil
	}
	w.clock.SetTime(runtest.StartTime().Add(time.Hour))
	w.mustPass()
	w.fault = nil
	runtest.EndPod(pending, corev1.PodSucceeded, runtest.SummaryOf(t, w.plan(), 0, runtest.Playing{}))
	if err := w.client.Status().Update(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	w.toTheEnd()
	w.fault = func(write string, _ func() error) error {
		t.Errorf("writes after the end: %s", write)
		return nil
	}
	w.mustPass()
}

func TestPodIsMappedToItsRun(t *testing.T) {
	run := runtest.NewRun()
	for name, tc := range map[string]struct {
		labels map[string]string
		want   int
	}{
		"a runner": {runner.MakeLabels(run), 1},
		"a server": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer,
			v1alpha1.LabelRun: runtest.RunName}, 0},
		"a runner of no run": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentRunner}, 0},
		"of another owner":   {nil, 0},
		"one without its UIDs": {map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentRunner,
			v1alpha1.LabelRun: runtest.RunName}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := mapPodToRun(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: runtest.Namespace,
				Labels: tc.labels}})
			if len(got) != tc.want || (len(got) == 1 && got[0].NamespacedName != key(runtest.RunName)) {
				t.Errorf("requests %v", got)
			}
		})
	}
}

func TestPoolIsMappedToUnendedRuns(t *testing.T) {
	elsewhere, other, over := runtest.NewRun(), runtest.NewRun(), runtest.NewRun()
	elsewhere.Namespace = "elsewhere"
	other.Name, other.Spec.EnvironmentRef.Name = "other", "another-pool"
	over.Name, over.Status.Conditions = "over", []metav1.Condition{
		{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue}}
	w := newWorld(t, runtest.NewRun(), elsewhere, other, over)
	got := w.r.mapPoolToRuns(t.Context(), runtest.NewPool())
	if len(got) != 1 || got[0].NamespacedName != key(runtest.RunName) {
		t.Errorf("requests %v, want %s alone", got, runtest.RunName)
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := newRunMetrics().register(registry); err != nil {
		t.Fatal(err)
	}
	if err := newRunMetrics().register(registry); err == nil {
		t.Error("a second reconciler registers the same metrics")
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %v (%v)", problems, err)
	}
}
