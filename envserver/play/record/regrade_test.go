package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/tasks"
)

func kindOf(t *testing.T, environment string, judge grader.Judge) episode.Kind {
	t.Helper()
	var kind episode.Kind
	var err error
	if environment == "ticket" {
		kind, err = ticket.New(testkit.Catalog(t), judge)
	} else {
		kind, err = workflow.New(testkit.Catalog(t), offline.New())
	}
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// played plays an episode with a built-in policy and records its actions, without a grade.
func played(t *testing.T, kind episode.Kind, name, task, scenario string, seed int64) record.Episode {
	t.Helper()
	e := record.Episode{Environment: kind.Name(), Task: task, Scenario: scenario, Seed: seed,
		RewardMode: episode.Terminal, Attempts: 1}
	factory, err := policy.NewBuiltin(name, kind.Name(), testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	turn := policy.Turn{Environment: kind.Name(), Task: task, Planned: score.PlannedEpisode{Task: task,
		Scenario: scenario, Seed: seed}}
	agent, err := factory(turn.Planned)
	if err != nil {
		t.Fatal(err)
	}
	env := kind.New()
	result, err := env.Reset(episode.Options{Task: task, Scenario: scenario, Seed: seed, RewardMode: e.RewardMode})
	if err != nil {
		t.Fatal(err)
	}
	for ; !result.Done; turn.Step++ {
		if turn.Observation, err = json.Marshal(result.Observation); err != nil {
			t.Fatal(err)
		}
		action, err := agent.Act(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		sent := bytes.Clone(action)
		if result, err = env.Step(t.Context(), sent); err != nil {
			t.Fatal(err)
		}
		clear(sent) // the server reuses the memory
		e.Turns = append(e.Turns, record.Turn{Action: action, Reward: float64(result.Reward) / 1000})
	}
	points := float64(result.Final.Score) / score.One
	e.Grade = record.Grade{
		Outcome: result.Final.Outcome, Score: &points, Wrong: result.Final.Wrong, Dimensions: result.Final.Dimensions, Judge: result.Final.Judge,
		GraderVersion: kind.GraderVersion(), ScenarioDigest: kind.ScenarioDigest(),
	}
	return e
}

// Without a change of the grader, the grade stays the same.
func TestRegradeByTheSameGrader(t *testing.T) {
	for _, environment := range []string{"ticket", "workflow"} {
		kind := kindOf(t, environment, offline.New())
		for _, name := range policy.Names() {
			for _, task := range kind.Tasks() {
				for _, scenario := range task.Scenarios[:1] {
					was := played(t, kind, name, task.Name, scenario.ID, 11)
					got, err := record.RegradeEpisode(t.Context(), kind, was)
					if err != nil {
						t.Fatal(err)
					}
					want := was
					want.Before = &was.Grade
					if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(record.Grade{}, "Verdicts")); diff != "" {
						t.Errorf("%s plays %s %s (-want +got)\n%s", name, task.Name, scenario.ID, diff)
					}
				}
			}
		}
	}
}

// brokenJudge always fails.
type brokenJudge struct{}

func (brokenJudge) Name() string { return "broken" }

func (brokenJudge) Judge(context.Context, grader.Case) (grader.Verdict, error) {
	return grader.Verdict{Status: grader.StatusError}, errors.New("the endpoint is down")
}

// If the judge fails, there is no score, and the first grade stays on record. Another judge can
// score the same actions later.
func TestRegradeByAFailingJudge(t *testing.T) {
	sound := kindOf(t, "ticket", offline.New())
	was := played(t, sound, policy.Oracle, tasks.TicketResolve, "B07", 5)
	failed, err := record.RegradeEpisode(t.Context(), kindOf(t, "ticket", brokenJudge{}), was)
	if err != nil {
		t.Fatal(err)
	}
	if failed.Outcome != score.Errored || failed.Score != nil || failed.Class != string(grader.CauseFailed) {
		t.Errorf("grade %+v of a reply that wasn't judged", failed.Grade)
	}
	again, err := record.RegradeEpisode(t.Context(), sound, failed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was.Score, again.Score); diff != "" || *again.Score < 0.9 {
		t.Errorf("score judged again (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(&was.Grade, again.Before); diff != "" {
		t.Errorf("the first grade (-want +got)\n%s", diff)
	}
}

func TestRegradeRefuses(t *testing.T) {
	kind := kindOf(t, "ticket", offline.New())
	whole := played(t, kind, policy.Oracle, tasks.TicketResolve, "B07", 5)
	for name, c := range map[string]struct {
		change func(*record.Episode)
		want   error
	}{
		"an episode that broke off": {func(e *record.Episode) { e.Turns = e.Turns[:len(e.Turns)-1] },
			record.ErrUnfinished},
		"an unknown task":     {func(e *record.Episode) { e.Task = "chess" }, episode.ErrUnknownTask},
		"an unknown scenario": {func(e *record.Episode) { e.Scenario = "Z99" }, episode.ErrUnknownScenario},
		"another environment": {func(e *record.Episode) { e.Environment = "workflow" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := whole
			c.change(&e)
			_, err := record.RegradeEpisode(t.Context(), kind, e)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}
