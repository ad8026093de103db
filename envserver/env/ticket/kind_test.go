package ticket_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

func publicKind(t testing.TB) (*scenarios.Catalog, *ticket.Kind) {
	t.Helper()
	catalog := testkit.Catalog(t)
	kind, err := ticket.New(catalog, offline.New())
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
		if task.Name != tasks.QueueManagement && len(task.Scenarios) != len(catalog.Tickets()) {
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
	if got := []string{kind.Name(), kind.Judge(), kind.ScenarioDigest()}; !cmp.Equal(got,
		[]string{"ticket", offline.Name, catalog.Digest()}) {
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
		"action": {schema: schemas.Action, additional: false, properties: []string{"action_type", "metadata"}},
		"observation": {schema: schemas.Observation, additional: false,
			properties: []string{"done", "reward", "metadata"}},
		"state": {schema: schemas.State, additional: true, properties: []string{"episode_id", "step_count"}},
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
		"task": {opts: episode.Options{Task: "chess"}, want: episode.ErrUnknownTask,
			text: "ticket-classify, ticket-resolve"},
		"scenario": {opts: episode.Options{Task: "ticket-resolve", Scenario: "X99"}, want: episode.ErrUnknownScenario,
			text: `"X99" of task ticket-resolve`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := env.Reset(tc.opts)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Reset() error = %v, want %v that contains %q", err, tc.want, tc.text)
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

// TestObservationsDoNotRevealGold searches the observations of all tickets and queues for texts
// that only gold contains: scenario ids, reason codes, teams, and drawn facts that no served text
// states.
func TestObservationsDoNotRevealGold(t *testing.T) {
	const seeds = 20
	catalog, kind := publicKind(t)
	for _, s := range catalog.Tickets() {
		for seed := range int64(seeds) {
			drawn, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			checkSilence(t, kind, "ticket-resolve", s.ID, seed, []*scenarios.Ticket{drawn})
		}
	}
	queues := queue.ComposeQueues(catalog)
	for seed := range int64(seeds) {
		// Each seed plays some of the queues, and each queue has one seed, so that all tickets are
		// covered.
		for i := seed; i < int64(len(queues)); i += seeds {
			drawn, err := queues[i].Instantiate(catalog, seed)
			if err != nil {
				t.Fatal(err)
			}
			checkSilence(t, kind, tasks.QueueManagement, queues[i].ID, seed, drawn)
		}
	}
}

// checkSilence selects every ticket of an episode and searches everything that the agent receives.
func checkSilence(t *testing.T, kind *ticket.Kind, task, scenario string, seed int64, tickets []*scenarios.Ticket) {
	t.Helper()
	env := kind.New()
	r, err := env.Reset(episode.Options{Seed: seed, Task: task, Scenario: scenario, RewardMode: episode.Terminal,
		Pressure: true})
	if err != nil {
		t.Fatal(err)
	}
	told := marshal(t, r.Observation) + marshal(t, env.State())
	first := r.Observation.(ticket.Observation)
	if first.QueueStatus != nil {
		for _, q := range first.Queue {
			if r, err = env.Step(t.Context(), json.RawMessage(
				`{"action_type":"select_ticket","ticket_id":"`+q.TicketID+`"}`)); err != nil {
				t.Fatal(err)
			}
			told += marshal(t, r.Observation) + marshal(t, env.State())
		}
	}
	if strings.Contains(told, `"`+scenario+`"`) || strings.Contains(told, "gold") {
		t.Errorf("%s seed %d is named: %s", scenario, seed, told)
	}
	for _, secret := range secrets(t, tickets) {
		// The rules of a shift are the same for all tickets, so a number in them doesn't reveal a
		// secret of the same value.
		if tells(told, secret) && (first.QueueStatus == nil || !tells(first.Feedback, secret)) {
			t.Errorf("%s seed %d tells %q: %s", scenario, seed, secret, told)
		}
	}
}

// tells reports whether the text contains the secret, other than as the end of a longer number: "36
// minutes" doesn't contain "6 minutes".
func tells(text, secret string) bool {
	for {
		i := strings.Index(text, secret)
		if i < 0 {
			return false
		}
		if i == 0 || !isDigit(text[i-1]) || !isDigit(secret[0]) {
			return true
		}
		text = text[i+1:]
	}
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// secrets lists the texts that only the gold of the tickets contains, encoded as in JSON. It omits
// short texts, which occur everywhere.
func secrets(t *testing.T, tickets []*scenarios.Ticket) []string {
	t.Helper()
	const short = 4
	var served string
	var all []string
	for _, ticket := range tickets {
		served += marshal(t, []any{ticket.Customer, ticket.Subject, ticket.Description, ticket.History,
			ticket.Attachments, ticket.Now})
		all = append(all, `"`+ticket.ScenarioID+`"`, ticket.Gold.ReasonCode, ticket.Gold.Team, ticket.Gold.Policy)
		for _, f := range ticket.Reply.Facts {
			if f.Seeded {
				all = append(all, f.Value)
			}
		}
	}
	return slices.DeleteFunc(all, func(secret string) bool {
		text := strings.Trim(marshal(t, secret), `"`)
		return len(secret) < short || strings.Contains(served, text)
	})
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInterleavedSessions plays two episodes of each task with a clock, first alternately and then
// alone.
func TestInterleavedSessions(t *testing.T) {
	for _, task := range []string{"ticket-resolve", tasks.QueueManagement} {
		t.Run(task, func(t *testing.T) { interleave(t, task) })
	}
}

func interleave(t *testing.T, task string) {
	_, kind := publicKind(t)
	actions := []string{
		`{"action_type":"search_knowledge_base","query":"refund"}`, `{"action_type":"classify","category":"billing"}`,
		`{"action_type":"respond","message":"Hello."}`,
		`{"action_type":"resolve"}`,
	}
	begin := func(seed int64) episode.Environment {
		env := kind.New()
		if _, err := env.Reset(episode.Options{Seed: seed, Task: task, Pressure: true}); err != nil {
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
		t.Errorf("one session affects another (-alone +mixed):\n%s", diff)
	}
	if final := own[3].Final; task != tasks.QueueManagement && final.Outcome != score.Scored {
		t.Errorf("outcome = %s", final.Outcome)
	}
}

// Episodes that share their tickets end alike when they are played at the same time.
func TestEpisodesOfOneSeedTogether(t *testing.T) {
	_, kind := publicKind(t)
	for _, task := range []string{"ticket-resolve", tasks.QueueManagement} {
		results := make([]episode.Result, 4)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = finish(t, kind.New(), episode.Options{Seed: 3, Task: task}) })
		}
		wg.Wait()
		for i, r := range results {
			if diff := cmp.Diff(results[0], r); diff != "" {
				t.Errorf("%s: episode %d has another end (-first +it):\n%s", task, i, diff)
			}
		}
	}
}

func finish(t *testing.T, env episode.Environment, opts episode.Options) (last episode.Result) {
	if _, err := env.Reset(opts); err != nil {
		t.Error(err)
		return last
	}
	for _, action := range []string{`{"action_type":"search_knowledge_base","query":"refund team"}`,
		`{"action_type":"respond","message":"I am sorry. Which invoice is it?"}`, `{"action_type":"resolve"}`} {
		var err error
		if last, err = env.Step(t.Context(), json.RawMessage(action)); err != nil {
			t.Error(err)
		}
	}
	return last
}

func BenchmarkReset(b *testing.B) {
	_, kind := publicKind(b)
	env := kind.New()
	for _, task := range []string{"ticket-resolve", tasks.QueueManagement} {
		b.Run(task, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				if _, err := env.Reset(episode.Options{Seed: i, Task: task}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
