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
	"github.com/csenv/csenv/envserver/score"
)

func TestFiguresInTheStatus(t *testing.T) {
	var sums score.Accumulator
	ledger := &score.Ledger{PassScore: 800_000}
	for i, e := range []struct {
		scenario, category string
		points             int64
	}{{"B01", "billing", 900_000}, {"B01", "billing", 500_000}, {"B02", "billing", 700_000}, {"S01", "shipping",
		1_000_000}} {
		ep := score.PlannedEpisode{Index: int64(i), Task: "ticket-resolve", Scenario: e.scenario}
		episode := score.Episode{Outcome: score.Scored, Score: e.points, Category: e.category, Language: "en",
			Dimensions: []score.Dimension{{Name: "reply", Earned: e.points / 2000, Offered: 500}}}
		if i == 1 {
			episode.Outcome = score.Failed
		}
		if err := ledger.Add(ep, episode); err != nil {
			t.Fatal(err)
		}
	}
	lost := score.ErrorClass{Class: "env_lost"}
	lost.Episodes.Add(7)
	sums.FoldSummary(ledger, score.Summary{Errored: []score.ErrorClass{lost},
		RetriedBy: map[string]int64{"agent_timeout": 2}, Tokens: score.Tokens{Prompt: 700, Completion: 30}})
	var done score.IndexSet
	done.Add(0)
	got := v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{Total: 9}, Shards: &v1alpha1.Shards{Total: 2}}
	WriteFigures(&got, sums, done)
	if got.Shards.Accumulator == "" {
		t.Error("the sums aren't kept")
	}
	got.Shards.Accumulator = ""
	want := v1alpha1.EvaluationRunStatus{
		Progress: "5/9",
		Episodes: &v1alpha1.RunEpisodes{Total: 9, Scored: 3, Failed: 1, Errored: 1},
		Score: &v1alpha1.Score{
			Mean: "0.7750", StandardError: "0.0859", CI95: &v1alpha1.Interval{Low: "0.4053", High: "1.0000"},
			Min: "0.5000", P50: "0.7200", Max: "1.0000",
		},
		PassRate: "0.5000", PassRateCI95: &v1alpha1.Interval{Low: "0.1159", High: "0.8841"},
		PassHatK: []v1alpha1.PassHat{{K: 1, Value: "0.5000"}, {K: 2, Value: "0.0000"}},
		Tasks: []v1alpha1.TaskResult{{
			Name: "ticket-resolve", Episodes: 4, PassRate: "0.5000",
			Score: &v1alpha1.Score{Mean: "0.7750", StandardError: "0.0859",
				CI95: &v1alpha1.Interval{Low: "0.4053", High: "1.0000"}, Min: "0.5000", P50: "0.7200", Max: "1.0000"},
			Dimensions: []v1alpha1.DimensionResult{{Name: "reply", Mean: "0.3875", Max: "0.5000"}},
		}},
		Categories: []v1alpha1.CategoryResult{
			{Name: "billing", Episodes: 3, PassRate: "0.3333", Score: &v1alpha1.Score{Mean: "0.7000",
				StandardError: "0.0000", CI95: &v1alpha1.Interval{Low: "0.7000", High: "0.7000"}}},
			{Name: "shipping", Episodes: 1, PassRate: "1.0000", Score: &v1alpha1.Score{Mean: "1.0000"}},
		},
		Languages: []v1alpha1.CategoryResult{
			{Name: "en", Episodes: 4, PassRate: "0.5000", Score: &v1alpha1.Score{Mean: "0.7750",
				StandardError: "0.0859", CI95: &v1alpha1.Interval{Low: "0.4053", High: "1.0000"}}},
		},
		Errors: []v1alpha1.ErrorCount{{Class: "agent_timeout", Retried: 2}, {Class: "env_lost", Errored: 1}},
		Tokens: &v1alpha1.Tokens{Prompt: 700, Completion: 30},
		Shards: &v1alpha1.Shards{Total: 2, CompletedIndexes: "0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFiguresWithoutEpisodes(t *testing.T) {
	got := v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{Total: 9}, Shards: &v1alpha1.Shards{Total: 2}}
	WriteFigures(&got, score.Accumulator{Errored: 3}, score.IndexSet{})
	if got.Score != nil || got.PassRate != "" || got.Progress != "3/9" {
		t.Errorf("score %v, pass rate %q, progress %q", got.Score, got.PassRate, got.Progress)
	}
}

// What was mended by another attempt is told with the score: it took time, and may say that an
// endpoint is overloaded.
func TestCompletedMessageTellsOfRetries(t *testing.T) {
	status := v1alpha1.EvaluationRunStatus{
		Episodes: &v1alpha1.RunEpisodes{Total: 9, Scored: 8, Failed: 1, Retried: 3},
		Score:    &v1alpha1.Score{Mean: "0.5000"}, PassRate: "0.2500",
		Errors: []v1alpha1.ErrorCount{{Class: "agent_rate_limited", Retried: 2}, {Class: "agent_timeout", Retried: 1},
			{Class: "capacity"}},
	}
	want := "All there: 9 episodes, mean score 0.5000, pass rate 0.2500; 1 failed by the agent's fault, 0 errored " +
		"and are in no score. " +
		"Attempts that failed and were made again: agent_rate_limited 2, agent_timeout 1."
	if got := completedMessage("All there", status); got != want {
		t.Errorf("completedMessage() = %q, want %q", got, want)
	}
	status.Errors = nil
	if got := completedMessage("All there", status); !strings.HasSuffix(got, "in no score.") {
		t.Errorf("without retries: %q", got)
	}
}

// The worst that a run of a thousand shards leaves in its status: every second shard is counted, in
// three tasks over sixty scenarios of eight categories. An object of more than some kilobytes would
// be felt by everything that lists runs.
func TestStatusStaysSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, plan := begun(t)
	sums, done, err := counted(s)
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
	WriteFigures(&d.status, sums, done)
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
	// The API's own limits: a status beyond them could never be written.
	if len(d.status.Shards.Accumulator) > 32768 || len(d.status.Shards.CompletedIndexes) > 8192 ||
		len(d.status.Categories) > 32 {
		t.Errorf("sums of %d bytes, indexes of %d, %d categories", len(d.status.Shards.Accumulator),
			len(d.status.Shards.CompletedIndexes), len(d.status.Categories))
	}
}

// The largest run that the API allows: sixteen tasks of eight dimensions, in as many categories as
// a plan may have, all with the longest names.
func TestLargestRunFitsIntoItsStatus(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s, plan := begun(t)
	sums, _, err := counted(s)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 1000 {
		ledger := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore}
		for trial := range 128 {
			ep := score.PlannedEpisode{Task: fmt.Sprintf("a-task-whose-name-is-very-long-%d", trial%16),
				Scenario: fmt.Sprintf("S%04d", shard)}
			e := score.Episode{Outcome: score.Scored, Score: random.Int64N(score.One + 1),
				Category: fmt.Sprintf(strings.Repeat("c", 61)+"%02d", shard%maxCategories)}
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
	WriteFigures(&status, sums, score.IndexSet{})
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

func TestFiguresShowDurations(t *testing.T) {
	var sums score.Accumulator
	var summary score.Summary
	summary.Durations.Observe(1000)
	sums.FoldSummary(&score.Ledger{}, summary)
	got := v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{}, Shards: &v1alpha1.Shards{}}
	WriteFigures(&got, sums, score.IndexSet{})
	if diff := cmp.Diff(&v1alpha1.Durations{EpisodeP50: "1.024", EpisodeP99: "1.024"}, got.Durations); diff != "" {
		t.Error(diff)
	}
}

func TestRunnerJob(t *testing.T) {
	s := snap()
	run := s.run
	run.Labels = map[string]string{"team": "a", labelQueue: "gpus", v1alpha1.LabelRun: "another"}
	wish := jobWish{round: 2}
	for _, shard := range []int64{1, 3, 5} {
		wish.shards.Add(shard)
	}
	job := runnerJob(s, wish)
	pod := job.Spec.Template.Spec
	wantArgs := []string{
		"--plan=/etc/csenv/plan.json", "--shards=1,3,5", "--shard=$(JOB_COMPLETION_INDEX)",
		"--pool=support-pods.default.svc:8000", "--agent=@/etc/csenv/agent.json",
		"--agent-share=3", "--concurrency=16", "--episode-attempts=3", "--termination-log=/dev/termination-log",
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
		t.Error("a runner gets a token, or is restarted in place")
	}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		if labels[v1alpha1.LabelManagedBy] != v1alpha1.LabelManagedByValue || labels[v1alpha1.LabelRun] != runName ||
			labels[labelRunUID] != "run-uid" || labels["team"] != "a" {
			t.Errorf("labels %v: the operator's cache wouldn't hold it, or the run's own are missing", labels)
		}
	}
	if job.Labels[labelQueue] != "gpus" || job.Spec.Template.Labels[labelQueue] != "" {
		t.Errorf("the Job's labels are %v, its pods' %v: the Job alone waits in a queue", job.Labels,
			job.Spec.Template.Labels)
	}
	if roundOf(job) != 2 {
		t.Errorf("round %d, want 2", roundOf(job))
	}
	if diff := cmp.Diff(job, runnerJob(s, wish)); diff != "" {
		t.Errorf("two Jobs of one run differ: %s", diff)
	}
}

func TestRunnerJobFollowsTheSpec(t *testing.T) {
	s, wish := snap(), jobWish{round: 1, shards: allShards()}
	s.run.Spec.Parallelism, s.run.Spec.Retries.ShardBackoffLimit = ptr.To[int32](2), ptr.To[int32](0)
	if job := runnerJob(s, wish); *job.Spec.Parallelism != 2 || *job.Spec.BackoffLimitPerIndex != 0 {
		t.Errorf("parallelism %d, backoff limit %d, want 2 and 0", *job.Spec.Parallelism,
			*job.Spec.BackoffLimitPerIndex)
	}
}
