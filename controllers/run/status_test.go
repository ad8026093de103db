package run

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// The largest status of a run of a thousand shards: every second shard is counted, in three tasks
// over sixty scenarios of eight categories. Larger objects would slow down every list of runs.
func TestStatusStaysSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, plan := begun(t)
	sums, done, err := counted(s.run)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 1000 {
		ledger := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore}
		for trial := range 12 {
			ep := score.PlannedEpisode{Task: []string{"queue-management", "ticket-classify", "ticket-resolve"}[trial%3],
				Scenario: fmt.Sprintf("S%02d", shard%60)}
			e := score.Episode{Outcome: score.Scored, Score: random.Int64N(score.One + 1), Category: fmt.Sprintf(
				"a-long-category-%d", shard%8), Difficulty: []string{"easy", "medium", "hard"}[shard%3]}
			for _, name := range []string{"category", "decision", "escalation", "priority", "response", "sla"} {
				e.Dimensions = append(e.Dimensions, score.Dimension{Name: name, Earned: random.Int64N(500),
					Offered: 500})
			}
			if err := ledger.Add(ep, e); err != nil {
				t.Fatal(err)
			}
		}
		sums.Fold(ledger)
		if shard%2 == 0 {
			done.Add(int64(shard))
		}
	}
	s.run.Status.Shards.Total = 1000
	addPods(&s, pulling(runnerPodOf(s.run, 0)))
	s.pods[0].Status.ContainerStatuses[0].State.Waiting.Message = strings.Repeat("a long story ", 500)
	d := decision{status: s.run.Status, folding: folding{sums: sums, completed: done}}
	evaluation.WriteFigures(&d.status, sums, done)
	setConditions(&d, s, inPlay(&d, s))
	data, err := json.Marshal(d.status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d of them sums and %d indexes", len(data), len(d.status.Shards.Accumulator),
		len(d.status.Shards.CompletedIndexes))
	if len(data) > 16<<10 {
		t.Errorf("%d bytes of status, want at most 16 KiB", len(data))
	}
	// The API's own limits: a status that exceeds them can't be written.
	if len(d.status.Shards.Accumulator) > 32768 || len(d.status.Shards.CompletedIndexes) > 8192 ||
		len(d.status.Categories) > 32 {
		t.Errorf("sums of %d bytes, indexes of %d, %d categories", len(d.status.Shards.Accumulator),
			len(d.status.Shards.CompletedIndexes), len(d.status.Categories))
	}
}

// The largest run that the API permits: sixteen tasks of eight dimensions, the maximum number of
// categories, and names of maximum length.
func TestLargestRunFitsIntoItsStatus(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s, plan := begun(t)
	sums, _, err := counted(s.run)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 1000 {
		ledger := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore}
		for trial := range 128 {
			ep := score.PlannedEpisode{Task: fmt.Sprintf("a-task-whose-name-is-very-long-%d", trial%16),
				Scenario: fmt.Sprintf("S%04d", shard)}
			e := score.Episode{Outcome: score.Scored, Score: random.Int64N(score.One + 1),
				Category: fmt.Sprintf(strings.Repeat("c", 61)+"%02d", shard%evaluation.MaxCategories)}
			for i := range 8 {
				e.Dimensions = append(e.Dimensions, score.Dimension{Name: strings.Repeat("d", 62) + strconv.Itoa(i),
					Earned: random.Int64N(500), Offered: 500})
			}
			if err := ledger.Add(ep, e); err != nil {
				t.Fatal(err)
			}
		}
		sums.Fold(ledger)
	}
	status := s.run.Status
	evaluation.WriteFigures(&status, sums, score.IndexSet{})
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d of them sums", len(data), len(status.Shards.Accumulator))
	if len(status.Shards.Accumulator) > 32768 || len(status.Tasks) != 16 || len(status.Categories) != 32 {
		t.Errorf("sums of %d bytes, %d tasks, %d categories", len(status.Shards.Accumulator), len(status.Tasks),
			len(status.Categories))
	}
	if len(data) > 48<<10 {
		t.Errorf("%d bytes of status, want at most 48 KiB", len(data))
	}
}

func TestRunnerJob(t *testing.T) {
	run := newTestRun()
	run.Labels = map[string]string{"team": "a", labelQueue: "gpus", v1alpha1.LabelRun: "another"}
	wish := jobSpec{attempt: 2, inputs: "sha256:0"}
	for _, shard := range []int64{1, 3, 5} {
		wish.shards.Add(shard)
	}
	job := runnerJob(run, pool(), runnerOptions{image: operatorImage}, wish)
	pod := job.Spec.Template.Spec
	wantArgs := []string{
		"--plan=/etc/csenv/plan.json", "--shards=1,3,5", "--shard=$(JOB_COMPLETION_INDEX)",
		"--pool=support-pods.default.svc:8000", "--agent=@/etc/csenv/agent.json", "--inputs=sha256:0",
		"--agent-share=3", "--concurrency=16", "--episode-attempts=3", "--termination-log=/dev/termination-log", "--run=default/baseline",
	}
	if diff := cmp.Diff(wantArgs, pod.Containers[0].Args); diff != "" {
		t.Error(diff)
	}
	if *job.Spec.Completions != 3 || *job.Spec.Parallelism != 3 || *job.Spec.BackoffLimitPerIndex != 2 ||
		*job.Spec.Suspend {
		t.Errorf("completions %d, parallelism %d, backoff limit %d, suspended %v", *job.Spec.Completions,
			*job.Spec.Parallelism, *job.Spec.BackoffLimitPerIndex, *job.Spec.Suspend)
	}
	if diff := cmp.Diff([]string{summaryFinalizer}, job.Spec.Template.Finalizers); diff != "" {
		t.Error(diff)
	}
	if *pod.AutomountServiceAccountToken || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("a runner has a token, or is restarted in place")
	}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		if labels[v1alpha1.LabelManagedBy] != v1alpha1.LabelManagedByValue || labels[v1alpha1.LabelRun] != runName ||
			labels[labelRunUID] != "run-uid" {
			t.Errorf("labels %v: the operator's cache would omit it", labels)
		}
	}
	for label, want := range map[string]string{labelQueue: "gpus", "team": "a"} {
		if got, pods := job.Labels[label], job.Spec.Template.Labels[label]; got != want || pods != "" {
			t.Errorf("label %s of the Job is %q, of its pods %q: they would wait in a queue, or a Service selects them",
				label, got, pods)
		}
	}
	if jobAttemptOf(job) != 2 {
		t.Errorf("job attempt %d, want 2", jobAttemptOf(job))
	}
	if diff := cmp.Diff(job, runnerJob(run, pool(), runnerOptions{image: operatorImage}, wish)); diff != "" {
		t.Errorf("two Jobs of one run differ: %s", diff)
	}
}

func TestRunnerJobFollowsTheSpec(t *testing.T) {
	run, wish := newTestRun(), jobSpec{attempt: 1, shards: allShards()}
	run.Spec.Parallelism, run.Spec.Retries.ShardBackoffLimit = ptr.To[int32](2), ptr.To[int32](0)
	if job := runnerJob(run, pool(), runnerOptions{image: operatorImage}, wish); *job.Spec.Parallelism != 2 || *job.Spec.BackoffLimitPerIndex != 0 {
		t.Errorf("parallelism %d, backoff limit %d, want 2 and 0", *job.Spec.Parallelism,
			*job.Spec.BackoffLimitPerIndex)
	}
}
