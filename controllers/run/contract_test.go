package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// brokenAgent returns no action.
type brokenAgent struct{}

func (brokenAgent) Act(context.Context, policy.Turn) (json.RawMessage, error) {
	return nil, errors.New("the model is gone")
}

// A manifest has the same outcome in the cluster and on this machine if the same episodes are
// played.
func TestOutcomesAgreeWithTheCommandLine(t *testing.T) {
	threshold := func(metric v1alpha1.Metric, least string) []v1alpha1.Threshold {
		return []v1alpha1.Threshold{{Metric: metric, Min: v1alpha1.Number{Text: least}}}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.EvaluationRun)
		agent  string
		// broken reports whether an episode has an error.
		broken func(index int64) bool
		// stored turns the store on, and unreadable makes it fail.
		stored, unreadable bool
		want               string
	}{
		"complete":  {agent: policy.Oracle, want: "Complete=True/Completed Failed=False/NotFailed"},
		"no points": {agent: policy.Noop, want: "Complete=True/Completed Failed=False/NotFailed"},
		"too many errored": {
			agent: policy.Oracle, broken: func(index int64) bool { return index < 2 },
			want: "Complete=False/TooManyErrored Failed=True/TooManyErrored",
		},
		"too many errored for the default": {
			change: func(run *v1alpha1.EvaluationRun) { run.Spec.Retries.MaxErroredPercent = nil },
			agent:  policy.Oracle, broken: func(index int64) bool { return index == 0 },
			want: "Complete=False/TooManyErrored Failed=True/TooManyErrored",
		},
		"errored within the limit": {
			change: func(run *v1alpha1.EvaluationRun) { run.Spec.Retries.MaxErroredPercent = new(int32(50)) },
			agent:  policy.Oracle, broken: func(index int64) bool { return index == 0 },
			want: "Complete=True/Completed Failed=False/NotFailed",
		},
		"all errored": {
			change: func(run *v1alpha1.EvaluationRun) { run.Spec.Retries.MaxErroredPercent = new(int32(100)) },
			agent:  policy.Oracle, broken: func(int64) bool { return true },
			want: "Complete=True/Completed Failed=False/NotFailed",
		},
		"threshold reached": {
			change: func(run *v1alpha1.EvaluationRun) {
				run.Spec.Thresholds = threshold(v1alpha1.MeanScoreMetric, "1")
			},
			agent: policy.Oracle,
			want:  "Complete=True/Completed Failed=False/NotFailed ThresholdsMet=True/ThresholdsReached",
		},
		"threshold missed": {
			change: func(run *v1alpha1.EvaluationRun) {
				run.Spec.Thresholds = threshold(v1alpha1.MeanScoreMetric, "0.9")
			},
			agent: policy.Noop,
			want:  "Complete=True/Completed Failed=False/NotFailed ThresholdsMet=False/ThresholdsMissed",
		},
		"threshold of a run that failed": {
			change: func(run *v1alpha1.EvaluationRun) {
				run.Spec.Thresholds = threshold(v1alpha1.MeanScoreMetric, "0")
			},
			agent: policy.Oracle, broken: func(int64) bool { return true },
			want: "Complete=False/TooManyErrored Failed=True/TooManyErrored ThresholdsMet=Unknown/ThresholdsPending",
		},
		"threshold unreachable": {
			change: func(run *v1alpha1.EvaluationRun) { run.Spec.Thresholds = threshold("passHat3", "0") },
			agent:  policy.Oracle,
			want:   "Complete=False/InvalidPlan Failed=True/InvalidPlan ThresholdsMet=Unknown/ThresholdsPending",
		},
		"too few of the planned episodes": {
			change: func(run *v1alpha1.EvaluationRun) {
				run.Spec.Retries.MaxErroredPercent = new(int32(50))
				run.Spec.Thresholds = threshold(v1alpha1.CoverageMetric, "0.8")
			},
			agent: policy.Oracle, broken: func(index int64) bool { return index == 0 },
			want: "Complete=True/Completed Failed=False/NotFailed ThresholdsMet=False/ThresholdsMissed",
		},
		"invalid plan": {
			change: func(run *v1alpha1.EvaluationRun) { run.Spec.Tasks[0].Scenarios.IDs = []string{"X99"} },
			agent:  policy.Oracle,
			want:   "Complete=False/InvalidPlan Failed=True/InvalidPlan",
		},
		"stored": {
			agent: policy.Oracle, stored: true,
			want: "Complete=True/Completed Failed=False/NotFailed ResultsStored=True/Stored",
		},
		"stored, and too many errored": {
			agent: policy.Oracle, stored: true, broken: func(int64) bool { return true },
			want: "Complete=False/TooManyErrored Failed=True/TooManyErrored ResultsStored=True/Stored",
		},
		"not stored": {
			agent: policy.Oracle, stored: true, unreadable: true,
			want: "Complete=True/Completed Failed=False/NotFailed ResultsStored=False/StoreFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := runtest.NewRun()
			run.UID = "0e1c5d9e-0000-0000-0000-000000000000"
			run.Spec.Parallelism, run.Spec.Concurrency = new(int32(1)), new(int32(4))
			run.Spec.Retries.EpisodeAttempts = 1
			run.Spec.Tasks = []v1alpha1.TaskSelection{{Name: "ticket-classify", Trials: 2,
				Scenarios: &v1alpha1.ScenarioSelection{IDs: []string{"B06", "S03"}}}}
			if tc.change != nil {
				tc.change(run)
			}
			if tc.stored {
				run.Spec.Results = &v1alpha1.Results{URL: "s3://bucket"}
			}
			here := run.DeepCopy()
			played := playHere(t, here, tc.agent, tc.broken, tc.stored, tc.unreadable)
			early := strings.Contains(tc.want, v1alpha1.ReasonTooManyErrored)
			wantHere := tc.want
			if early {
				// The command line ends early, so that it can be resumed.
				wantHere = strings.Replace(tc.want, "ResultsStored=True/Stored", "ResultsStored=Unknown/StorePending", 1)
				// A runner plays the rest of its shard.
				whole := run.DeepCopy()
				whole.Spec.Retries.MaxErroredPercent = new(int32(100))
				played = playHere(t, whole, tc.agent, tc.broken, tc.stored, tc.unreadable)
			}
			there := playThere(t, run, played)
			if got := outcomeStates(here.Status.Conditions); got != wantHere {
				t.Errorf("the command line ends with %s, want %s", got, wantHere)
			}
			if got := outcomeStates(there.Conditions); got != tc.want {
				t.Errorf("the controller ends with %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(figuresOf(here.Status), figuresOf(there)); diff != "" && !early {
				t.Errorf("figures (-command line +controller)\n%s", diff)
			}
		})
	}
}

// outcomeStates abbreviates the conditions that an outcome sets.
func outcomeStates(conditions []metav1.Condition) string {
	var set []metav1.Condition
	for _, kind := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed,
		v1alpha1.ConditionThresholdsMet, v1alpha1.ConditionResultsStored} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			set = append(set, *c)
		}
	}
	return runtest.FormatConditions(set)
}

// figuresOf returns the parts of a status that don't depend on where a run is played, and the
// messages of a complete run.
func figuresOf(s v1alpha1.EvaluationRunStatus) map[string]any {
	figures := map[string]any{
		"agent": s.Agent, "progress": s.Progress, "score": s.Score, "pass rate": s.PassRate, "pass^k": s.PassHatK,
		"tasks": s.Tasks, "categories": s.Categories, "episodes": s.Episodes, "errors": s.Errors,
	}
	for _, c := range s.Conditions {
		if c.Type == v1alpha1.ConditionThresholdsMet || c.Reason == v1alpha1.ReasonCompleted ||
			c.Reason == v1alpha1.ReasonInvalidPlan {
			figures[c.Type] = c.Message
		}
	}
	return figures
}

// playedRun contains a run's environment and its episodes.
type playedRun struct {
	report   score.Report
	episodes []record.Episode
	stored   score.Stored
}

// playHere plays a run like csenv eval.
func playHere(t *testing.T, run *v1alpha1.EvaluationRun, agent string, broken func(int64) bool,
	stored, unreadable bool) playedRun {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := local.NewKind(runtest.NewPool(), catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	builtin, err := policy.NewBuiltin(agent, "ticket", catalog)
	if err != nil {
		t.Fatal(err)
	}
	p := playedRun{report: score.Report{Environment: kind.Name(), ScenarioDigest: kind.ScenarioDigest(),
		GraderVersion: kind.GraderVersion(), Judge: kind.Judge(), Tasks: kind.Tasks()}}
	episodes := make(chan record.Episode, 64)
	options := local.Options{
		Kind: kind, Pool: runtest.PoolName, LedgerKey: runtest.PoolKey(), Version: "test", Log: slog.New(slog.DiscardHandler),
		Clock: rollout.SystemClock(), Record: func(e record.Episode) { episodes <- e },
		Agent: func(planned score.PlannedEpisode) (policy.Policy, error) {
			if broken != nil && broken(planned.Index) {
				return brokenAgent{}, nil
			}
			return builtin(planned)
		},
	}
	if stored {
		folder := t.TempDir()
		if options.Store, err = results.Open(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
		defer options.Store.Close()
		options.Location = folder
		if unreadable {
			before := run.DeepCopy()
			first := options
			first.Record = nil
			if err := local.Play(t.Context(), before, first); err != nil {
				t.Fatal(err)
			}
			spoil(t, folder)
		}
	}
	if err := local.Play(t.Context(), run, options); err != nil && !strings.Contains(err.Error(), "spec.") {
		t.Fatal(err)
	}
	close(episodes)
	for e := range episodes {
		p.episodes = append(p.episodes, e)
	}
	p.stored.Episodes = int64(len(p.episodes))
	if unreadable {
		p.stored = score.Stored{Error: "the store can't be read"}
	}
	return p
}

// spoil replaces a store's segments by folders.
func spoil(t *testing.T, folder string) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".jsonl" {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700),
				os.WriteFile(filepath.Join(path, "foreign"), nil, 0o600), filepath.SkipDir)
		}
		return err
	}); err != nil && !errors.Is(err, filepath.SkipDir) {
		t.Fatal(err)
	}
}

// playThere passes a summary of the same episodes to the controller.
func playThere(t *testing.T, run *v1alpha1.EvaluationRun, p playedRun) v1alpha1.EvaluationRunStatus {
	t.Helper()
	s := snapshot.Snapshot{Run: run, Env: runtest.NewPool(), Report: &p.report, Now: runtest.StartTime()}
	s.Env.Status.ScenarioDigest, s.Env.Status.GraderVersion, s.Env.Status.Judge = p.report.ScenarioDigest,
		p.report.GraderVersion, p.report.Judge
	d := rules.DecideRun(s)
	if evaluation.HasEnded(d.Status.Conditions) {
		return d.Status
	}
	plan := runtest.ParsePlan(t, d.CreateJob.Inputs)
	run.Status, s.Report = d.Status, nil
	s.Job = runner.MakeJob(run, s.Env, runner.Options{Image: runtest.OperatorImage}, *d.CreateJob)
	s.Pods = []corev1.Pod{*runtest.EndPod(runtest.RunnerPod(run, 0), corev1.PodSucceeded, summaryOfEpisodes(t, plan, p))}
	s.Succeeded = s.Pods
	return rules.DecideRun(s).Status
}

// summaryOfEpisodes returns the summary of a runner that has played these episodes.
func summaryOfEpisodes(t *testing.T, plan score.Plan, p playedRun) string {
	t.Helper()
	key, err := score.ParsePublicKey(plan.LedgerKey)
	if err != nil {
		t.Fatal(err)
	}
	ledger := &score.Ledger{Run: plan.Run, PassScore: plan.PassScore, ScenarioDigest: plan.ScenarioDigest,
		GraderVersion: plan.GraderVersion, Judge: plan.Judge}
	summary := score.Summary{Stored: p.stored}
	errored := score.ErrorClass{}
	for _, e := range p.episodes {
		if e.Outcome == score.Errored {
			errored.Class = e.Class
			errored.Episodes.Add(e.Index)
			ledger.Opened++
			continue
		}
		receipt, err := score.VerifyReceipt(e.Receipt, key)
		if err != nil {
			t.Fatalf("episode %d: %v", e.Index, err)
		}
		if err := ledger.Add(receipt.Planned, receipt.Episode); err != nil {
			t.Fatal(err)
		}
		ledger.Opened++
	}
	if errored.Class != "" {
		summary.Errored = []score.ErrorClass{errored}
	}
	if summary.Ledger, err = ledger.Sign(runtest.PoolKey()); err != nil {
		t.Fatal(err)
	}
	message, err := summary.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}
