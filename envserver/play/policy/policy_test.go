package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/tasks"
)

// queueStride skips most queues: there are a hundred, each with five tickets.
const queueStride = 5

// caseStride skips most generated cases of a task in the gate: there are hundreds, all of which the
// deep suite plays.
const caseStride = 5

// seedsOf returns the number of seeds for each scenario of a task, fewer in the gate.
func seedsOf(task string) int64 {
	switch {
	case task == tasks.QueueManagement, isGenerated(task):
		return 1
	case testing.Short():
		return 3
	}
	return 10
}

func isGenerated(task string) bool {
	row, _ := tasks.Find(task)
	return row.Generated
}

func ticketKind(t testing.TB) episode.Kind {
	t.Helper()
	kind, err := ticket.New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

func kinds(t testing.TB) []episode.Kind {
	t.Helper()
	workflows, err := workflow.New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return []episode.Kind{ticketKind(t), workflows}
}

// play plays one episode and returns its final figures.
func play(t testing.TB, kind episode.Kind, factory policy.Factory, planned score.PlannedEpisode) *episode.Final {
	t.Helper()
	agent, err := factory(planned)
	if err != nil {
		t.Fatal(err)
	}
	env := kind.New()
	result, err := env.Reset(episode.Options{Seed: planned.Seed, Task: planned.Task, Scenario: planned.Scenario,
		RewardMode: episode.Terminal})
	if err != nil {
		t.Fatal(err)
	}
	for step := 0; ; step++ {
		observation, err := json.Marshal(result.Observation)
		if err != nil {
			t.Fatal(err)
		}
		action, err := agent.Act(t.Context(), policy.Turn{Environment: kind.Name(), Task: planned.Task,
			Observation: observation, Step: step, Planned: planned})
		if err != nil {
			t.Fatalf("%s seed %d: Act() error = %v", planned.Scenario, planned.Seed, err)
		}
		if result, err = env.Step(t.Context(), action); err != nil {
			t.Fatalf("%s seed %d: Step(%s) error = %v", planned.Scenario, planned.Seed, action, err)
		}
		if result.Final != nil {
			return result.Final
		}
	}
}

// playAll plays every scenario of the task with several seeds and returns the mean score, in
// micro-points.
func playAll(t *testing.T, kind episode.Kind, name, task string,
	check func(score.PlannedEpisode, *episode.Final)) int64 {
	t.Helper()
	factory, err := policy.NewBuiltin(name, kind.Name(), testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	var sum, n int64
	for _, offered := range kind.Tasks() {
		if offered.Name != task {
			continue
		}
		for i, s := range offered.Scenarios {
			if task == tasks.QueueManagement && i%queueStride != 0 ||
				testing.Short() && isGenerated(task) && i%caseStride != 0 {
				continue
			}
			for seed := range seedsOf(task) {
				planned := score.PlannedEpisode{Task: task, Scenario: s.ID, Seed: seed}
				final := play(t, kind, factory, planned)
				check(planned, final)
				sum, n = sum+final.Score, n+1
			}
		}
	}
	t.Logf("%s scores %s in %s", name, score.FormatDecimal(sum/n), task)
	return sum / n
}

func anything(score.PlannedEpisode, *episode.Final) {}

func TestNullScoresNothing(t *testing.T) {
	for _, kind := range kinds(t) {
		for _, task := range kind.Tasks() {
			playAll(t, kind, policy.Noop, task.Name, func(planned score.PlannedEpisode, final *episode.Final) {
				for _, d := range final.Dimensions {
					if d.Earned > 0 {
						t.Errorf("%s: Null earned %d for %s", planned.Scenario, d.Earned, d.Name)
					}
				}
				if final.Score != 0 || final.Outcome != score.Failed {
					t.Errorf("%s: Null ended %s with %d, want failed with 0", planned.Scenario, final.Outcome,
						final.Score)
				}
			})
		}
	}
}

// TestOraclePlaysGold checks the catalogue's gold answers in the environments: all points of the
// rules, and a reply with a high score.
func TestOraclePlaysGold(t *testing.T) {
	const goodReply, goodShift = 450, 950_000
	for _, kind := range kinds(t) {
		for _, task := range kind.Tasks() {
			playAll(t, kind, policy.Oracle, task.Name, func(planned score.PlannedEpisode, final *episode.Final) {
				if task.Name == tasks.QueueManagement && final.Score < goodShift {
					t.Errorf("%s seed %d: Oracle scores %d", planned.Scenario, planned.Seed, final.Score)
				}
				for _, d := range final.Dimensions {
					if task.Name == tasks.QueueManagement {
						break // some tickets of a queue can't be finished in time
					}
					if short := d.Earned < d.Offered; short && (d.Name != "response" || d.Earned < goodReply) {
						t.Errorf("%s seed %d: Oracle earned %d of %d for %s", planned.Scenario, planned.Seed, d.Earned,
							d.Offered, d.Name)
					}
				}
				if final.Outcome != score.Scored {
					t.Errorf("%s seed %d: Oracle ended %s", planned.Scenario, planned.Seed, final.Outcome)
				}
			})
		}
	}
}

// TestOraclePlaysEveryQueue requires a full score, up to what the best schedule costs the replies:
// one that mentions a team loses points if no escalation is left for its ticket.
func TestOraclePlaysEveryQueue(t *testing.T) {
	const seeds, goodShift = 3, 985_000
	catalog, kind := testkit.Catalog(t), ticketKind(t)
	factory, err := policy.NewBuiltin(policy.Oracle, kind.Name(), catalog)
	if err != nil {
		t.Fatal(err)
	}
	queues := queue.ComposeQueues(catalog)
	for _, q := range queues {
		for seed := range int64(seeds) {
			final := play(t, kind, factory, score.PlannedEpisode{Task: tasks.QueueManagement, Scenario: q.ID, Seed: seed})
			if final.Score < goodShift {
				t.Errorf("%s seed %d: Oracle scores %d", q.ID, seed, final.Score)
			}
		}
	}
}

// TestHeuristicIsBetweenRandomAndOracle requires a margin on both sides, over an environment's
// tasks.
func TestHeuristicIsBetweenRandomAndOracle(t *testing.T) {
	const margin = score.One / 20
	for _, kind := range kinds(t) {
		mean := map[string]int64{}
		for _, name := range []string{policy.Random, policy.Heuristic, policy.Oracle} {
			for _, task := range kind.Tasks() {
				mean[name] += playAll(t, kind, name, task.Name, anything) / int64(len(kind.Tasks()))
			}
		}
		if mean[policy.Heuristic] < mean[policy.Random]+margin || mean[policy.Heuristic] > mean[policy.Oracle]-margin {
			t.Errorf("%s: means %v, want Random, Heuristic and Oracle at least %d apart", kind.Name(), mean, margin)
		}
	}
}

// TestPoliciesAreDeterministic plays the same episodes twice.
func TestPoliciesAreDeterministic(t *testing.T) {
	for _, kind := range kinds(t) {
		task := kind.Tasks()[0]
		for _, name := range policy.Names() {
			factory, err := policy.NewBuiltin(name, kind.Name(), testkit.Catalog(t))
			if err != nil {
				t.Fatal(err)
			}
			planned := score.PlannedEpisode{Task: task.Name, Scenario: task.Scenarios[0].ID, Seed: 11}
			first, second := play(t, kind, factory, planned), play(t, kind, factory, planned)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("%s in %s (-first +second):\n%s", name, task.Name, diff)
			}
		}
	}
}

func TestRandomFollowsTheEpisodesSeed(t *testing.T) {
	factory, err := policy.NewBuiltin(policy.Random, "ticket", nil)
	if err != nil {
		t.Fatal(err)
	}
	turn := policy.Turn{Observation: json.RawMessage(
		`{"allowed_actions":["classify","search_knowledge_base","submit"]}`)}
	seen := map[string]bool{}
	for seed := range int64(100) {
		agent, err := factory(score.PlannedEpisode{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		action, err := agent.Act(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(action)] = true
	}
	if len(seen) < 20 {
		t.Errorf("100 seeds gave %d different actions", len(seen))
	}
}

func TestFindName(t *testing.T) {
	for name, want := range map[string]string{"Noop": policy.Noop, "Null": policy.Noop, "null": policy.Noop,
		"heuristic": policy.Heuristic, "Genius": ""} {
		if got := policy.FindName(name); got != want {
			t.Errorf("FindName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestBuiltinRefuses(t *testing.T) {
	tests := map[string]struct {
		name, environment, want string
	}{
		"unknown policy": {name: "Genius", environment: "ticket",
			want: `unknown policy "Genius": use one of Heuristic, Random, Oracle, Noop`},
		"unknown environment": {name: policy.Noop, environment: "chess",
			want: `no built-in policy plays environment "chess": use ticket or workflow`},
		"oracle in the dark": {name: policy.Oracle, environment: "ticket",
			want: "policy Oracle needs the catalogue of scenarios"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.NewBuiltin(tc.name, tc.environment, nil)
			if err == nil || err.Error() != tc.want {
				t.Errorf("Builtin() error = %v, want %s", err, tc.want)
			}
		})
	}
}

func TestOracleRefusesAForeignScenario(t *testing.T) {
	for _, environment := range []string{"ticket", "workflow"} {
		factory, err := policy.NewBuiltin(policy.Oracle, environment, testkit.Catalog(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := factory(score.PlannedEpisode{Scenario: "X99"}); err == nil ||
			!strings.Contains(err.Error(), "X99") {
			t.Errorf("%s: error = %v, want it to contain X99", environment, err)
		}
	}
}
