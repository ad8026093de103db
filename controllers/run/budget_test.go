package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// limitedWorld returns a world with a run that has begun, whose budget is 1,000 tokens.
func limitedWorld(t *testing.T) *world {
	t.Helper()
	run := runtest.NewRun()
	run.Spec.Budget = &v1alpha1.Budget{MaxTokens: new(int64(1000))}
	w := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), run)
	w.mustPass()
	w.events()
	return w
}

// endWith ends the Job, whose shards have been played so.
func (w *world) endWith(shards map[int]runtest.Playing) {
	w.t.Helper()
	job, plan, index := w.job(), w.plan(), 0
	for shard := range 4 {
		played, has := shards[shard]
		if !has {
			continue
		}
		pod := runtest.EndPod(runtest.RunnerPod(w.run(), shard), corev1.PodSucceeded,
			runtest.SummaryOf(w.t, plan, shard, played))
		pod = ofJob(pod, job, index)
		pod.Name += job.Annotations[runner.AnnotationJobAttempt]
		pod.UID = types.UID(pod.Name)
		w.create(pod)
		index++
	}
	w.endJob(batchv1.JobComplete)
	w.mustPass()
}

func (w *world) conditions() string {
	w.t.Helper()
	return runtest.FormatConditions(w.run().Status.Conditions)
}

const completeWithin = runtest.EnvReady + "Complete=True/Completed" + runtest.NotFailed +
	" WithinBudget=True/WithinBudget"

// Shards that have used their share go on with what the others have left. That is no attempt of
// retries.shardBackoffLimit, and the figures are those of a run that wasn't stopped.
func TestStoppedShardsGetWhatOthersLeave(t *testing.T) {
	w := limitedWorld(t)
	if got := runner.ReadBudget(w.job()); cmp.Diff(&score.Budget{MaxTokens: 1000}, got) != "" {
		t.Fatalf("the runners share %+v", got)
	}
	w.endWith(map[int]runtest.Playing{0: {Tokens: 100}, 1: {Tokens: 100}, 2: {Tokens: 290, Unplayed: 1}, 3: {Tokens: 50}})
	status := w.run().Status
	if status.Shards.CompletedIndexes != "0-1,3" || status.Shards.JobAttempts-status.Shards.JobAttemptsBefore != 1 ||
		status.Tokens.Prompt != 250 {
		t.Fatalf("shards %+v, tokens %+v", status.Shards, status.Tokens)
	}
	w.mustPass() // the Job is replaced
	if job := w.job(); job.Annotations[runner.AnnotationShards] != "2" || cmp.Diff(&score.Budget{MaxTokens: 1000,
		Used: score.Tokens{Prompt: 250}}, runner.ReadBudget(job)) != "" {
		t.Fatalf("shards %s share %+v", job.Annotations[runner.AnnotationShards], runner.ReadBudget(job))
	}
	w.endWith(map[int]runtest.Playing{2: {Tokens: 400}})
	w.mustPass()
	if got := w.conditions(); got != completeWithin || w.held() != "" {
		t.Errorf("conditions %s, held %q", got, w.held())
	}
	if diff := cmp.Diff([]string{"Normal ShardsPlayedAgain"}, w.events()); diff != "" {
		t.Error(diff)
	}
	if got := w.run().Status; got.Tokens.Prompt != 650 || got.Episodes.Scored != 14 ||
		cmp.Diff(undisturbed(t).Score, got.Score) != "" {
		t.Errorf("tokens %+v, episodes %+v, score %+v", got.Tokens, got.Episodes, got.Score)
	}
}

// A run whose budget is used up ends with what was played of every shard. Resumed with a larger
// one, it plays the stopped shards on, and counts them once.
func TestBudgetEndsARun(t *testing.T) {
	for name, stopped := range map[string]map[int]runtest.Playing{
		"all is used":          {0: {Tokens: 500}, 1: {Tokens: 100}, 2: {Tokens: 400, Unplayed: 1}, 3: {Tokens: 1, Unplayed: 2}},
		"one has finished":     {0: {Tokens: 500}, 1: {Tokens: 100}, 2: {Tokens: 500, Unplayed: 1}, 3: {Tokens: 0}},
		"all used their share": {0: {Tokens: 284, Unplayed: 1}, 1: {Tokens: 284, Unplayed: 1}, 2: {Tokens: 284, Unplayed: 1}, 3: {Tokens: 142, Unplayed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := limitedWorld(t)
			w.endWith(stopped)
			w.mustPass()
			var tokens, unplayed int64
			var shards []int
			for shard := range 4 {
				p := stopped[shard]
				tokens, unplayed = tokens+p.Tokens, unplayed+p.Unplayed
				if p.Unplayed > 0 {
					shards = append(shards, shard)
				}
			}
			status := w.run().Status
			if !strings.Contains(w.conditions(), "Failed=True/BudgetExceeded") || w.held() != "" {
				t.Fatalf("conditions %s, held %q", w.conditions(), w.held())
			}
			over := meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionWithinBudget)
			if status.Tokens.Prompt != tokens || status.Episodes.Scored != 14-unplayed || over != (tokens > 1000) {
				t.Errorf("tokens %+v, episodes %+v, over its budget %v", status.Tokens, status.Episodes, over)
			}
			if got := len(w.events()); got != 1 {
				t.Errorf("%d events", got)
			}
			run := w.run()
			run.Spec.Budget.MaxTokens = new(int64(5000))
			w.update(run)
			w.raise(2)
			w.mustPass()
			w.mustPass()
			w.mustPass()
			w.endRest(shards...)
			w.mustPass()
			if got := w.conditions(); got != completeWithin || cmp.Diff(undisturbed(t).Score, w.run().Status.Score) != "" {
				t.Errorf("resumed: %s, %+v", got, w.run().Status.Score)
			}
		})
	}
}

// A budget that is changed while runners play has them replaced by others that share it.
func TestAChangedBudgetReplacesTheJob(t *testing.T) {
	w := limitedWorld(t)
	run := w.run()
	run.Spec.Budget.MaxTokens = new(int64(500))
	w.update(run)
	for range 3 {
		w.mustPass()
	}
	if got := runner.ReadBudget(w.job()); got == nil || got.MaxTokens != 500 {
		t.Errorf("the runners share %+v", got)
	}
	before := w.job().ResourceVersion
	w.mustPass()
	if w.job().ResourceVersion != before {
		t.Error("the Job is replaced again")
	}
}

// Runners that end without a summary, as on a node that fails, accuse nobody and cost no attempt.
func TestLostSummariesAreFree(t *testing.T) {
	w := readyWorld(t)
	w.mustPass()
	w.events()
	for attempt := range int32(4) {
		job := w.job()
		for shard := range 4 {
			pod := ofJob(runtest.EndPod(runtest.RunnerPod(w.run(), shard), corev1.PodSucceeded, ""), job, shard)
			pod.Name += job.Annotations[runner.AnnotationJobAttempt]
			pod.UID = types.UID(pod.Name)
			w.create(pod)
		}
		w.endJob(batchv1.JobComplete)
		w.mustPass()
		w.mustPass()
		if s := w.run().Status.Shards; s.JobAttempts != attempt+2 || s.JobAttempts-s.JobAttemptsBefore != 1 || w.held() != "" {
			t.Fatalf("shards %+v, held %q", s, w.held())
		}
	}
	for _, event := range w.events() {
		if event != "Normal ShardsPlayedAgain" {
			t.Errorf("event %s", event)
		}
	}
	w.toTheEnd()
	w.checkLikeUndisturbed()
}
