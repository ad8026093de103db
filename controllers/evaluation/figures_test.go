package evaluation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
		t.Error("the sums aren't stored")
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
		PassHatK: []v1alpha1.PassHat{{K: 1, Value: "0.5000", Scenarios: 3}, {K: 2, Value: "0.0000", Scenarios: 1}},
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
	f := sums.Figures()
	f.Episodes = 0
	bare := v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{Total: 9}}
	WriteTotals(&bare, f)
	ClearScores(&got)
	bare.Progress, bare.Shards = got.Progress, got.Shards
	if diff := cmp.Diff(bare, got); diff != "" {
		t.Errorf("a figure made of scores isn't cleared: %s", diff)
	}
}

func TestFiguresWithoutEpisodes(t *testing.T) {
	got := v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{Total: 9}, Shards: &v1alpha1.Shards{Total: 2}}
	WriteFigures(&got, score.Accumulator{Errored: 3}, score.IndexSet{})
	if got.Score != nil || got.PassRate != "" || got.Progress != "3/9" {
		t.Errorf("score %v, pass rate %q, progress %q", got.Score, got.PassRate, got.Progress)
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
