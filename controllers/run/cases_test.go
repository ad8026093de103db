package run

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// caseTasks returns the tasks of generated cases, with each case in four languages.
func caseTasks(t *testing.T) []score.Task {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	env := runtest.NewPool()
	env.Spec.Environment = v1alpha1.WorkflowEnvironment
	kind, err := local.NewKind(env, catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	var tasks []score.Task
	for _, task := range kind.Tasks() {
		if !strings.HasPrefix(task.Name, "case-") {
			continue
		}
		inFour := score.Task{Name: task.Name}
		for _, sc := range task.Scenarios {
			if sc.Language != "en" {
				continue
			}
			for _, language := range []string{"en", "de", "es", "fr"} {
				translated := sc
				translated.ID, translated.Language = sc.ID+"-"+language, language
				inFour.Scenarios = append(inFour.Scenarios, translated)
			}
		}
		tasks = append(tasks, inFour)
	}
	return tasks
}

// A run over all generated cases in four languages fits into its summaries, its status and its
// ConfigMaps, has figures of every family, and compares those with thresholds.
func TestRunOverAllCases(t *testing.T) {
	s := snapshot.Snapshot{Run: runtest.NewRun(), Env: runtest.NewPool(), Report: &score.Report{Environment: "workflow",
		ScenarioDigest: runtest.DigestA, GraderVersion: "1", Judge: "offline-v1", Tasks: caseTasks(t)},
		Now: runtest.StartTime()}
	s.Run.Spec.Parallelism, s.Run.Spec.Tasks = new(int32(1)), nil
	for _, task := range s.Report.Tasks {
		s.Run.Spec.Tasks = append(s.Run.Spec.Tasks, v1alpha1.TaskSelection{Name: task.Name, Trials: 4})
	}
	threshold := func(category, least string) v1alpha1.Threshold {
		return v1alpha1.Threshold{Metric: v1alpha1.MeanScoreMetric, Category: category,
			Min: v1alpha1.Number{Text: least}}
	}
	s.Run.Spec.Thresholds = []v1alpha1.Threshold{threshold("return", "0.1"), threshold("wrong-item", "0.9")}
	d := rules.DecideRun(s)
	if d.CreatePlan == nil || d.CreateJob.Inputs != nil {
		t.Fatalf("the plan isn't in a ConfigMap: %+v", d.Status.Conditions)
	}
	plan, planMap := runtest.ParsePlan(t, d.CreatePlan), runner.MakePlanMap(s.Run, d.CreatePlan)
	sums, table := playAll(t, plan, s.Report.Tasks)
	status := d.Status
	evaluation.WriteFigures(&status, sums, score.IndexSet{})

	if len(status.Categories) != 31 || len(status.Difficulties) != 3 || len(status.Languages) != 4 {
		t.Errorf("%d categories, %d difficulties, %d languages, want 31, 3, 4", len(status.Categories),
			len(status.Difficulties), len(status.Languages))
	}
	var episodes int64
	for _, category := range status.Categories {
		episodes += category.Episodes
	}
	if episodes != plan.Episodes() {
		t.Errorf("the categories have %d episodes of %d", episodes, plan.Episodes())
	}
	met := thresholdsMet(s.Run, status, sums)
	if met.Status != metav1.ConditionFalse || !strings.Contains(met.Message, "wrong-item") ||
		strings.Contains(met.Message, "return") {
		t.Errorf("thresholds: %s %s", met.Status, met.Message)
	}
	sizes(t, plan, planMap, status, table)
}

// sizes checks that what the cluster stores of a run is small enough.
func sizes(t *testing.T, plan score.Plan, planMap *corev1.ConfigMap, status v1alpha1.EvaluationRunStatus,
	table score.ScenarioTable) {
	t.Helper()
	rows, err := table.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	inStatus, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	inPlan, err := json.Marshal(planMap)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d episodes in %d shards; status %d bytes, %d of them sums; plan %d bytes, scores %d", plan.Episodes(),
		plan.Shards, len(inStatus), len(status.Shards.Accumulator), len(inPlan), len(rows))
	if len(inStatus) > 32<<10 || len(inPlan) > 512<<10 {
		t.Error("the status has more than 32 KiB, or the plan more than 512 KiB")
	}
}

// playAll plays the shards of a plan with random scores, and folds what their runners report.
func playAll(t *testing.T, plan score.Plan, tasks []score.Task) (score.Accumulator, score.ScenarioTable) {
	t.Helper()
	attributes := map[string]score.Scenario{}
	for _, task := range tasks {
		for _, sc := range task.Scenarios {
			attributes[sc.ID] = sc
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	var sums score.Accumulator
	var table score.ScenarioTable
	for shard := range plan.Shards {
		ledger := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore,
			ScenarioDigest: plan.ScenarioDigest, GraderVersion: plan.GraderVersion, Judge: plan.Judge}
		summary := score.Summary{Retried: 1 << 20, Tokens: score.Tokens{Prompt: 1e14 - 1, Completion: 1e14 - 1},
			Stored: score.Stored{Error: strings.Repeat("x", score.MaxStoreError)}}
		for ep := range plan.Shard(shard) {
			summary.Durations.Observe(random.Int64N(1 << (1 + random.IntN(24))))
			sc := attributes[ep.Scenario]
			e := score.Episode{Outcome: score.Scored, Score: random.Int64N(score.One + 1), Category: sc.Category,
				Difficulty: sc.Difficulty, Language: sc.Language}
			for _, name := range []string{"penalties", "resolution", "steps"} {
				e.Dimensions = append(e.Dimensions, score.Dimension{Name: name, Earned: random.Int64N(500), Offered: 500})
			}
			if err := ledger.Add(ep, e); err != nil {
				t.Fatal(err)
			}
			ledger.Opened++
		}
		var err error
		if summary.Ledger, err = ledger.Sign(runtest.PoolKey()); err != nil {
			t.Fatal(err)
		}
		if _, err := summary.Encode(); err != nil {
			t.Fatal(fmt.Errorf("shard %d: %w", shard, err))
		}
		sums.FoldSummary(ledger, summary)
		table.Fold(ledger)
	}
	return sums, table
}

func thresholdsMet(run *v1alpha1.EvaluationRun, status v1alpha1.EvaluationRunStatus,
	sums score.Accumulator) metav1.Condition {
	for _, c := range evaluation.BuildConditions(run, status, sums, evaluation.Outcome{State: evaluation.Completed}) {
		if c.Type == v1alpha1.ConditionThresholdsMet {
			return c
		}
	}
	return metav1.Condition{}
}
