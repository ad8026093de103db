package figures

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/score"
)

const officialKey, tenantKey = "b2ZmaWNpYWwtb2ZmaWNpYWwtb2ZmaWNpYWwtb2ZmaWM=", "dGVuYW50LXRlbmFudC10ZW5hbnQtdGVuYW50LXRlbmE="

// boardRun is a complete run of a pool, NAMESPACE/NAME, whose scores by scenario are all its mean.
func boardRun(namespace, name, pool, key, mean string) *source.LoadedRun {
	of, called, _ := strings.Cut(pool, "/")
	run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"},
		Spec: v1alpha1.EvaluationRunSpec{EnvironmentRef: v1alpha1.EnvironmentReference{Namespace: of, Name: called},
			Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent, Builtin: &v1alpha1.BuiltinAgentSpec{
				Policy: v1alpha1.NoopPolicy}},
			Tasks: []v1alpha1.TaskSelection{{Name: "ticket-resolve", Trials: 1}}},
		Status: v1alpha1.EvaluationRunStatus{PassScore: "0.75", PassRate: "0.5",
			Score: &v1alpha1.Score{Mean: mean, CI95: &v1alpha1.Interval{Low: mean, High: mean}},
			Provenance: &v1alpha1.Provenance{ScenarioDigest: "sha256:00", GraderVersion: "3", Judge: "rules",
				Seed: new(int64(7)), LedgerKey: key},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue,
				Reason: v1alpha1.ReasonCompleted}}}}
	return &source.LoadedRun{EvaluationRun: run, Signer: "pool " + pool,
		Scores: func(context.Context) ([]score.ScenarioScore, error) { return nil, nil }}
}

// A run has a place only among those of the same pool and key, and a run for which nobody vouches
// has none.
func TestWhatBoardsRank(t *testing.T) {
	official := func(name, mean string) *source.LoadedRun {
		return boardRun("team-"+name, name, "bench/acme", officialKey, mean)
	}
	changed := func(r *source.LoadedRun, change func(*source.LoadedRun)) *source.LoadedRun { change(r); return r }
	stored := func(name, key, signer string, claimed int) *source.LoadedRun {
		return changed(boardRun("", name, "/", key, "1.0000"), func(r *source.LoadedRun) {
			r.Stored, r.Signer = &source.StoredFigures{Claimed: claimed}, signer
		})
	}
	for name, tt := range map[string]struct {
		run *source.LoadedRun
		// apart is what the heading of the run's own board says, or reason why the run has no
		// place.
		apart, reason string
	}{
		"a pool of the team's own": {boardRun("team-x", "x", "team-x/acme", tenantKey, "1.0000"),
			"pool team-x/acme, key " + tenantKey[:keyDigits], ""},
		"a pool that was created again": {boardRun("team-x", "x", "bench/acme", tenantKey, "1.0000"),
			"in: key " + tenantKey[:keyDigits], ""},
		"a run of an earlier release": {boardRun("team-x", "x", "bench/acme", "", "1.0000"), "in: key not recorded", ""},
		"an edited table": {changed(official("x", "0.2000"), func(r *source.LoadedRun) {
			r.Scores = func(context.Context) ([]score.ScenarioScore, error) {
				return nil, fmt.Errorf("ConfigMap x-scores %w", source.ErrTable)
			}
		}), "", "ConfigMap x-scores is not the one that was counted"},
		"a running run": {changed(official("x", "1.0000"), func(r *source.LoadedRun) {
			r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, "Running"
		}), "", "Running"},
		"a training": {changed(official("x", "1.0000"), func(r *source.LoadedRun) {
			r.Spec.Agent.Type = v1alpha1.ExternalAgent
		}), "", "its trainers chose the episodes"},
		"claimed scores": {stored("x", officialKey, "pool bench/acme", 3), "",
			"3 episodes stored without a valid receipt"},
		"a key that a manifest names": {stored("x", tenantKey, "", 0), "",
			"nobody vouches for the key of its signatures: add --key " + tenantKey},
		"errors that nothing proves": {changed(stored("x", officialKey, "pool bench/acme", 0),
			func(r *source.LoadedRun) { r.Status.Episodes = &v1alpha1.RunEpisodes{Total: 4, Scored: 3, Errored: 1} }),
			"", "1 episode errored, which no receipt proves"},
		"a run that only a store has": {changed(stored("x", officialKey, "pool bench/acme", 0),
			func(r *source.LoadedRun) { r.Apart = "only stored" }), "in: only stored", ""},
	} {
		boards, left := RankRuns(t.Context(), []*source.LoadedRun{official("a", "0.6501"), tt.run, official("b", "0.6400")})
		if len(boards[0].Entries) != 2 || boards[0].Entries[0].Run != "a" || boards[0].Entries[0].Rank != 1 ||
			!strings.HasPrefix(boards[0].Basis, "pool bench/acme, key "+officialKey[:keyDigits]+", task ") {
			t.Errorf("%s: the official board is %+v", name, boards[0])
		}
		text := printBoards(t, boards, left)
		switch {
		case tt.reason != "":
			if len(boards) != 1 || len(left) != 1 || !strings.Contains(left[0].Reason, tt.reason) {
				t.Errorf("%s: %d boards, %+v", name, len(boards), left)
			}
			if !strings.Contains(text, "not ranked,,x,Noop") || !strings.Contains(text, tt.reason) {
				t.Errorf("%s: the output doesn't say it:\n%s", name, text)
			}
		case len(boards) != 2 || len(left) != 0 || !strings.Contains(boards[1].Basis+" "+boards[1].Apart, tt.apart):
			t.Errorf("%s: %+v, %+v", name, boards, left)
		}
	}
}

// printBoards returns the CSV and, for what it says below the boards, the JSON.
func printBoards(t *testing.T, boards []Board, left []Unranked) string {
	t.Helper()
	result := BoardResult(boards, left)
	value := result.Value.([]Board)
	if unranked := len(value[len(value)-1].Unranked); unranked != len(left) {
		t.Errorf("the JSON has %d runs without a place, want %d", unranked, len(left))
	}
	var lines []string
	for _, row := range result.Rows {
		if len(row) != len(result.Header) {
			t.Errorf("%d columns, want %d: %v", len(row), len(result.Header), row)
		}
		lines = append(lines, strings.Join(row, ","))
	}
	last := result.Document.Sections[len(result.Document.Sections)-1]
	if said := last.Heading == "Not ranked" && len(last.Rows) == len(left); said != (len(left) > 0) {
		t.Errorf("the last table is %+v", last)
	}
	return strings.Join(lines, "\n")
}

// A board says how many runs a namespace has begun on the pool, deleted ones too.
func TestRunsOnABoard(t *testing.T) {
	pool := &v1alpha1.CustomerSupportEnv{}
	for i := range 100 {
		pool.Status.CountRun("team-a", fmt.Sprint("a", i))
	}
	pool.Status.CountRun("team-b", "b")
	runs := []*source.LoadedRun{boardRun("team-a", "best", "bench/acme", officialKey, "0.9000"),
		boardRun("team-a", "next", "bench/acme", officialKey, "0.8000"),
		boardRun("team-b", "only", "bench/acme", officialKey, "0.7000"),
		boardRun("team-a", "elsewhere", "bench/other", officialKey, "0.7000")}
	for _, r := range runs {
		r.Pool = func(context.Context) (*v1alpha1.CustomerSupportEnv, error) { return pool, nil }
	}
	boards, left := RankRuns(t.Context(), runs)
	var said []string
	for _, e := range boards[0].Entries {
		said = append(said, e.Run+": "+e.RunsText())
	}
	if want := []string{"best: 2 of 100 made", "next: 2 of 100 made", "only: 1 of 1 made"}; !slices.Equal(said, want) {
		t.Errorf("the board says %q, want %q", said, want)
	}
	if heading := BoardResult(boards, left).Document.Sections[0]; heading.Header[9] != "runs" ||
		heading.Rows[0][9] != "2 of 100 made" {
		t.Errorf("the table is %+v", heading)
	}
}

// A run whose episodes were graded again, or tried out, is named and not ranked.
func TestRepeatedRunsAreNotRanked(t *testing.T) {
	run := boardRun("team-x", "x", "bench/acme", officialKey, "1.0000")
	run.Status.Conditions = append(run.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPlayedOnce,
		Status: metav1.ConditionFalse, Message: "graded 1 episode more"})
	boards, left := RankRuns(t.Context(), []*source.LoadedRun{run})
	if len(boards) != 0 || len(left) != 1 || !strings.Contains(left[0].Reason, "graded 1 episode more") {
		t.Errorf("boards %+v, left %+v", boards, left)
	}
}
