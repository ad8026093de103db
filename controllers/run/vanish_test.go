package run

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// remove deletes an object as somebody else does.
func (w *world) remove(object client.Object, name string) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), key(name), object); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// Runners that wait for the run's credential get it again.
func TestADeletedCredentialComesBack(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	name := runner.NameCredential(w.run())
	before := &corev1.Secret{}
	w.remove(before, name)
	w.mustPass()
	if err := w.client.Get(t.Context(), key(name), &corev1.Secret{}); err == nil {
		t.Error("the Secret is created although no runner waits for it")
	}
	w.create(runtest.RunnerWaits(runtest.RunnerPod(w.run(), 0), "ContainerCreating"))
	w.mustPass()
	again := &corev1.Secret{}
	if err := w.client.Get(t.Context(), key(name), again); err != nil || cmp.Diff(before.Data, again.Data) != "" {
		t.Errorf("the Secret: %v", err)
	}
}

// complete plays the run of a world to its end.
func completeWorld(t *testing.T) *world {
	t.Helper()
	w := readyWorld(t)
	w.toTheEnd()
	w.checkLikeUndisturbed()
	w.events()
	return w
}

// The table of a complete run that is deleted is written again. An operator that has restarted
// doesn't know it any more, and says that it was deleted.
func TestADeletedTableComesBack(t *testing.T) {
	w := completeWorld(t)
	name := snapshot.NameScores(w.run())
	w.remove(&corev1.ConfigMap{}, name)
	w.mustPass()
	w.tableIsWhole()
	if got := w.events(); len(got) > 0 || w.run().Status.ScoresRef == nil {
		t.Errorf("events %v, reference %v", got, w.run().Status.ScoresRef)
	}
	w.remove(&corev1.ConfigMap{}, name)
	w.r.reader.Contents = observe.NewContents()
	w.mustPass()
	w.mustPass()
	c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionUnedited)
	if c == nil || !strings.Contains(c.Message, name+" was deleted") || w.run().Status.ScoresRef != nil {
		t.Errorf("condition %+v, reference %v", c, w.run().Status.ScoresRef)
	}
	if diff := cmp.Diff([]string{"Warning EditedByHand"}, w.events()); diff != "" {
		t.Error(diff)
	}
}

// Figures of an ended run that somebody changes are restored, and a condition says so. What isn't
// changed stays without a word.
func TestFiguresOfAnEndedRunAreRestored(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.EvaluationRunStatus){
		"":         func(*v1alpha1.EvaluationRunStatus) {},
		"score":    func(s *v1alpha1.EvaluationRunStatus) { s.Score.Mean = "0.9999" },
		"passRate": func(s *v1alpha1.EvaluationRunStatus) { s.PassRate = "1.0000" },
		"episodes": func(s *v1alpha1.EvaluationRunStatus) { s.Episodes.Failed++ },
		"tasks":    func(s *v1alpha1.EvaluationRunStatus) { s.Tasks[0].Score.Mean = "1.0000" },
		"tokens":   func(s *v1alpha1.EvaluationRunStatus) { s.Tokens = &v1alpha1.Tokens{Prompt: 1} },
		"cost":     func(s *v1alpha1.EvaluationRunStatus) { s.Cost = "0.0001" },
	} {
		w := completeWorld(t)
		before, run := w.run(), w.run()
		edit(&run.Status)
		if name != "" {
			if !isEditAfterEnd(event.UpdateEvent{ObjectOld: before, ObjectNew: run}) {
				t.Errorf("%s: no pass follows", name)
			}
			if err := w.client.Status().Update(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		w.mustPass()
		w.mustPass()
		after := w.run()
		c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionUnedited)
		if (c != nil) != (name != "") || c != nil && !strings.Contains(c.Message, name+" had other values") ||
			len(w.events()) != len(name[:min(len(name), 1)]) {
			t.Errorf("%q: condition %+v", name, c)
		}
		after.Status.Conditions = before.Status.Conditions
		if diff := cmp.Diff(before.Status, after.Status); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A run that is stuck for ten minutes, with a shard that is counted and an image that can't be
// pulled, is written a few times: when it begins, when the shard is counted, when it is stuck.
func TestWritesOfAStuckRun(t *testing.T) {
	w := readyWorld(t)
	report := score.Report{Runs: []score.RunReport{{Run: "run-uid", Scored: 4}}}
	w.r.reader.Live = observe.NewLivePoller(runtest.FakePool{"10.0.0.1": report}, func(ctx context.Context,
		_ types.NamespacedName, poll func(context.Context)) {
		poll(ctx)
	})
	server := runtest.RunningServer("support-b", "10.0.0.1")
	w.create(server)
	writes := 0
	w.fault = func(write string, do func() error) error {
		if write == "status" {
			writes++
		}
		return do()
	}
	w.mustPass()
	stuck := runtest.MarkPulling(runtest.RunnerPod(w.run(), 1))
	w.create(runtest.NewSucceededPod(t, w.run(), w.plan(), 0), stuck)
	const why = `failed to pull and unpack image "csenv:tset": not found`
	for i := range 10 * 60 / 5 {
		w.wait(5 * time.Second)
		waiting := stuck.Status.ContainerStatuses[0].State.Waiting
		waiting.Reason, waiting.Message = "ErrImagePull", why
		if i%2 == 0 {
			waiting.Reason, waiting.Message = "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s",
				"csenv:tset", why)
		}
		if err := w.client.Status().Update(t.Context(), stuck); err != nil {
			t.Fatal(err)
		}
		w.mustPass()
	}
	const most = 5 // one of them is of the pool
	if writes > most {
		t.Errorf("%d writes of statuses", writes)
	}
	t.Logf("%d writes in ten minutes", writes)
	if c := w.complete(); c.Reason != v1alpha1.ReasonRunnersNotStarted || !strings.Contains(c.Message, why) {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
}
