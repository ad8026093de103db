package ticket_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/scenarios"
)

func publicKind(t testing.TB) (*scenarios.Catalog, *ticket.Kind) {
	t.Helper()
	catalog, err := scenarios.Public()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := ticket.New(catalog, grader.NewOffline())
	if err != nil {
		t.Fatal(err)
	}
	return catalog, kind
}

func TestKind(t *testing.T) {
	catalog, kind := publicKind(t)
	var names []string
	for _, task := range kind.Tasks() {
		names = append(names, task.Name)
		if task.Name != queue.Task && len(task.Scenarios) != len(catalog.Tickets()) {
			t.Errorf("%s has %d scenarios, want all %d tickets", task.Name, len(task.Scenarios), len(catalog.Tickets()))
		}
		for _, s := range task.Scenarios {
			if s.Category == "" || s.Difficulty == "" || s.Language == "" || s.Split == "" {
				t.Errorf("%s lacks an attribute: %+v", s.ID, s)
			}
		}
	}
	if diff := cmp.Diff([]string{"ticket-classify", "ticket-resolve", "queue-management"}, names); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	if got := []string{kind.Name(), kind.Judge(), kind.ScenarioDigest()}; !cmp.Equal(got, []string{"ticket", grader.OfflineName, catalog.Digest()}) {
		t.Errorf("name, judge, digest = %q", got)
	}
	if !strings.HasPrefix(kind.GraderVersion(), grader.GraderVersion) {
		t.Errorf("grader version %q doesn't begin with the grader's, %q", kind.GraderVersion(), grader.GraderVersion)
	}
}

func TestSchemasAreWhatClientsExpect(t *testing.T) {
	_, kind := publicKind(t)
	schemas := kind.Schemas()
	for name, tc := range map[string]struct {
		schema     json.RawMessage
		additional bool
		properties []string
	}{
		"action":      {schemas.Action, false, []string{"action_type", "metadata"}},
		"observation": {schemas.Observation, false, []string{"done", "reward", "metadata"}},
		"state":       {schemas.State, true, []string{"episode_id", "step_count"}},
	} {
		var s struct {
			Type                 string
			AdditionalProperties bool
			Properties           map[string]struct{ Description string }
		}
		if err := json.Unmarshal(tc.schema, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Type != "object" || s.AdditionalProperties != tc.additional {
			t.Errorf("%s: type %q, additionalProperties %v", name, s.Type, s.AdditionalProperties)
		}
		for _, p := range tc.properties {
			if _, ok := s.Properties[p]; !ok {
				t.Errorf("%s has no property %s", name, p)
			}
		}
		for p, property := range s.Properties {
			if property.Description == "" {
				t.Errorf("%s: property %s has no description", name, p)
			}
		}
	}
}

func TestResetRefuses(t *testing.T) {
	_, kind := publicKind(t)
	env := kind.New()
	if _, err := env.Step(t.Context(), json.RawMessage(`{}`)); !errors.Is(err, episode.ErrNotReset) {
		t.Errorf("Step() before Reset() error = %v, want ErrNotReset", err)
	}
	if _, err := env.Reset(episode.Options{EpisodeID: "first"}); err != nil {
		t.Fatal(err)
	}
	before := env.State()
	tests := map[string]struct {
		opts episode.Options
		want error
		text string
	}{
		"task":     {episode.Options{Task: "chess"}, episode.ErrUnknownTask, "ticket-classify, ticket-resolve"},
		"scenario": {episode.Options{Task: "ticket-resolve", Scenario: "X99"}, episode.ErrUnknownScenario, `"X99" of task ticket-resolve`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := env.Reset(tc.opts)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Reset() error = %v, want %v that says %q", err, tc.want, tc.text)
			}
			if diff := cmp.Diff(before, env.State()); diff != "" {
				t.Errorf("a refused reset changed the episode:\n%s", diff)
			}
		})
	}
}

func TestSeedDrawsTheScenario(t *testing.T) {
	_, kind := publicKind(t)
	seen := map[string]bool{}
	for seed := range int64(200) {
		env, twin := kind.New(), kind.New()
		first, err := env.Reset(episode.Options{Seed: seed, EpisodeID: "e"})
		if err != nil {
			t.Fatal(err)
		}
		second, err := twin.Reset(episode.Options{Seed: seed, EpisodeID: "e"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("seed %d gave two episodes:\n%s", seed, diff)
		}
		end, err := env.Step(t.Context(), json.RawMessage(`{"action_type":"submit"}`))
		if err != nil {
			t.Fatal(err)
		}
		seen[end.Final.Scenario] = true
	}
	if want := len(kind.Tasks()[0].Scenarios); len(seen) != want {
		t.Errorf("200 seeds drew %d of %d scenarios", len(seen), want)
	}
}

// TestNoTicketShowsItsGold looks, in all tickets, for what only the gold holds: scenario id, reason code, and the time to the first reply as a number of its own.
func TestNoTicketShowsItsGold(t *testing.T) {
	catalog, kind := publicKind(t)
	for _, s := range catalog.Tickets() {
		for seed := range int64(5) {
			instance, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			env := kind.New()
			first, err := env.Reset(episode.Options{Seed: seed, Task: "ticket-resolve", Scenario: s.ID, RewardMode: episode.Terminal})
			if err != nil {
				t.Fatal(err)
			}
			told, err := json.Marshal([]any{first.Observation, env.State()})
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{`"` + s.ID + `"`, instance.Gold.ReasonCode, "gold"} {
				if secret != "" && strings.Contains(string(told), secret) {
					t.Errorf("%s seed %d tells %q: %s", s.ID, seed, secret, told)
				}
			}
		}
	}
}

// TestInterleavedSessions plays two episodes turn by turn and alone.
func TestInterleavedSessions(t *testing.T) {
	_, kind := publicKind(t)
	actions := []string{
		`{"action_type":"search_knowledge_base","query":"refund"}`, `{"action_type":"classify","category":"billing"}`, `{"action_type":"respond","message":"Hello."}`,
		`{"action_type":"resolve"}`,
	}
	begin := func(seed int64) episode.Environment {
		env := kind.New()
		if _, err := env.Reset(episode.Options{Seed: seed, Task: "ticket-resolve"}); err != nil {
			t.Fatal(err)
		}
		return env
	}
	step := func(env episode.Environment, action string) episode.Result {
		r, err := env.Step(context.Background(), json.RawMessage(action))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b, alone := begin(1), begin(2), begin(1)
	var mixed, own []episode.Result
	for _, action := range actions {
		mixed = append(mixed, step(a, action))
		step(b, action)
	}
	for _, action := range actions {
		own = append(own, step(alone, action))
	}
	if diff := cmp.Diff(own, mixed); diff != "" {
		t.Errorf("a session feels another one (-alone +mixed):\n%s", diff)
	}
	if own[3].Final.Outcome != score.Scored {
		t.Errorf("outcome = %s", own[3].Final.Outcome)
	}
}

func BenchmarkReset(b *testing.B) {
	_, kind := publicKind(b)
	env := kind.New()
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if _, err := env.Reset(episode.Options{Seed: i, Task: "ticket-resolve"}); err != nil {
			b.Fatal(err)
		}
	}
}
