package ticket

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/leak"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// byDesign are sights that may tell what is right, with the reason.
func byDesign() []leak.Permission {
	return []leak.Permission{
		{Sights: `(dense|pressure|queue) probe\.both`,
			Why: "dense rewards pay for labels when both are set, and each can be set once"},
		{Sights: `dense probe\.(category|priority)`,
			Why: "dense rewards without a clock pay for each label, and each can be set once"},
		{Sights: `queue probe\.(submit|resolve|escalate)`, Why: "dense rewards pay for a closed ticket"},
		{Sights: `probe\.search`, Questions: []string{"category"},
			Why: "the knowledge base of a ticket is about its subject"},
	}
}

// setting is a way to play tickets.
type setting struct {
	name    string
	options episode.Options
}

func settings() []setting {
	return []setting{
		{"classify", episode.Options{Task: tasks.TicketClassify}},
		{"pressure", episode.Options{Task: tasks.TicketResolve, RewardMode: episode.Dense, Pressure: true}},
		{"resolve", episode.Options{Task: tasks.TicketResolve}},
		{"dense", episode.Options{Task: tasks.TicketResolve, RewardMode: episode.Dense}},
	}
}

// TestNothingServedTellsWhatIsRight lets a learner guess a ticket's labels and decision from each
// field that is served before the first action and from the answer to each single probing action:
// among instances of one ticket, some of which have another decision, and from the instances of
// other tickets. There are 40 tickets only; leak.Find says how chance is excluded. That a text's
// length tells nothing requires that each branch of a ticket mentions what the others mention: a
// deadline, or that there is time.
func TestNothingServedTellsWhatIsRight(t *testing.T) {
	kind := publicKind(t)
	seeds, rounds, with := int64(40), 100, settings()
	if testing.Short() {
		seeds, rounds, with = 14, 20, with[:2]
	}
	var instances []leak.Instance
	for _, s := range kind.catalog.Tickets() {
		for seed := range seeds {
			i := leak.Instance{Seen: map[string]string{}, Scenario: s.ID, Seed: seed}
			for _, to := range with {
				to.options.Scenario, to.options.Seed = s.ID, seed
				env := resetTo(t, kind, to.options)
				gold := env.state.selectedTicket().ticket.Gold
				i.Right = rightOf(gold)
				lookAt(t, env, to.name, i.Seen)
			}
			instances = append(instances, i)
		}
	}
	checkLeaks(t, instances, rounds)
}

// TestNoQueueTellsWhatIsRight does the same with the first ticket of each queue, and lets the
// learner guess each ticket from its place.
func TestNoQueueTellsWhatIsRight(t *testing.T) {
	kind := publicKind(t)
	seeds, rounds := int64(8), 100
	if testing.Short() {
		seeds, rounds = 2, 20
	}
	var first, placed []leak.Instance
	for k, q := range kind.queues {
		// Each queue has seeds of its own, because a ticket is in several and would be the same.
		for seed := int64(k) * seeds; seed < int64(k+1)*seeds; seed++ {
			env := resetTo(t, kind, episode.Options{Task: tasks.QueueManagement, RewardMode: episode.Dense, Scenario: q.ID,
				Seed: seed})
			seen := map[string]string{}
			lookAt(t, env, "queue", seen)
			for place := range env.state.tickets {
				drawn := env.state.tickets[place].ticket
				i := leak.Instance{Seen: map[string]string{"place": fmt.Sprint(place)}, Scenario: drawn.ScenarioID,
					Seed: seed, Right: rightOf(drawn.Gold)}
				placed = append(placed, i)
				if place == 0 {
					i.Seen = seen
					first = append(first, i)
				}
			}
		}
	}
	checkLeaks(t, first, rounds)
	checkLeaks(t, placed, rounds)
}

func publicKind(t *testing.T) *Kind {
	t.Helper()
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

func resetTo(t *testing.T, kind *Kind, options episode.Options) *environment {
	t.Helper()
	options.EpisodeID = "e"
	env, _ := kind.New().(*environment)
	if _, err := env.Reset(options); err != nil {
		t.Fatal(err)
	}
	return env
}

func rightOf(gold scenarios.TicketGold) map[string]string {
	decision := resolve
	if gold.Escalate {
		decision = escalate
	}
	return map[string]string{"category": gold.Category, "priority": gold.Priority, "decision": decision,
		"team": gold.Team}
}

// checkLeaks reports the sights that tell what is right.
func checkLeaks(t *testing.T, instances []leak.Instance, rounds int) {
	t.Helper()
	leak.AddRanges(instances)
	t.Logf("%d instances with %d sights", len(instances), len(instances[0].Seen))
	for name, by := range map[string]leak.Comparison{"the same scenario": leak.OfScenario(),
		"other scenarios": leak.OfOtherScenarios()} {
		for _, found := range leak.Find(instances, by, rounds, byDesign()...) {
			t.Errorf("by instances of %s, %s", name, found)
		}
	}
}

// lookAt adds the fields of the first observation and of the state, and the answers to probing
// actions.
func lookAt(t *testing.T, env *environment, setting string, seen map[string]string) {
	t.Helper()
	first := env.state.observation()
	observation, _ := leak.RoundTripJSON(t, first).(map[string]any)
	delete(observation, "ticket_id") // follows from the seed alone
	observation["customer_since"] = ""
	if since := env.state.selectedTicket().ticket.Customer.Since; !since.IsZero() {
		observation["customer_since"] = int(first.Now.Sub(since) / (24 * time.Hour))
	}
	leak.AddSights(seen, setting+" observation", observation)
	state, _ := leak.RoundTripJSON(t, env.State()).(map[string]any)
	delete(state, "seed")
	delete(state, "ticket_id")
	leak.AddSights(seen, setting+" state", state)
	before := len(testkit.EncodeJSON(first))
	for name, action := range probes(env.state) {
		fork, _ := env.Fork().(*environment)
		result, err := fork.Step(context.Background(), json.RawMessage(action))
		if err == nil && result.Done {
			continue
		}
		probe := setting + " probe." + name
		if err != nil {
			seen[probe] = fmt.Sprint(err, fork.state.invalid)
			continue
		}
		after, _ := result.Observation.(Observation)
		seen[probe] = fmt.Sprint(result.Reward, shape(after, env.state.selectedTicket().id))
		seen[probe+".size"] = fmt.Sprint(len(testkit.EncodeJSON(after)) - before)
	}
}

// shape is what an answer consists of: everything but the texts of the customer, and of articles
// the id alone.
func shape(o Observation, id string) string {
	var articles []string
	for _, a := range o.KnowledgeBase {
		articles = append(articles, a.ID)
	}
	parts := []any{o.Step, o.MaxSteps, o.Status, o.Score != nil, o.AllowedActions, o.CustomerMood, articles,
		len(o.ConversationHistory), strings.ReplaceAll(o.Feedback, id, "ID")}
	if o.ClockMinutes != nil {
		parts = append(parts, *o.ClockMinutes)
	}
	if q := o.QueueStatus; q != nil {
		first := q.Queue[0]
		parts = append(parts, q.MinutesLeft, q.EscalationsLeft, first.WaitingMinutes, first.MinutesToSLA != nil)
	}
	return fmt.Sprint(parts...)
}

// probes are the actions that an agent can try first, by name.
func probes(s *state) map[string]string {
	out := map[string]string{"malformed": "{", "unknown": `{"action_type":"refund"}`,
		"without query":  `{"action_type":"search_knowledge_base"}`,
		"wrong category": `{"action_type":"classify","category":"x"}`}
	add := func(name string, fields map[string]string) { out[name] = testkit.EncodeJSON(fields) }
	for k, category := range scenarios.Categories {
		priority := scenarios.Priorities[k]
		add("category "+category, map[string]string{"action_type": classify, "category": category})
		add("priority "+priority, map[string]string{"action_type": classify, "priority": priority})
		for name, action := range map[string]string{"both": classify, "submit": submit} {
			add(name+" "+category, map[string]string{"action_type": action, "category": category,
				"priority": priority})
		}
	}
	for _, query := range []string{"refund", "parcel", "urgent priority", "escalate team", "finance", "logistics",
		"legal", "security", "account", "warranty", "zzz"} {
		add("search "+query, map[string]string{"action_type": search, "query": query})
	}
	for name, message := range map[string]string{"hello": "Hello.", "holding": "We look into it and write again soon.",
		"order": "What is your order number?", "photo": "Could you send a photo, please?",
		"sorry": "I'm sorry for the trouble that this causes you."} {
		add("respond "+name, map[string]string{"action_type": respond, "message": message})
	}
	add(resolve, map[string]string{"action_type": resolve})
	add("resolve with a message", map[string]string{"action_type": resolve, "message": "Done."})
	for _, team := range []string{"", "finance", "logistics", "security"} {
		add("escalate "+team, map[string]string{"action_type": escalate, "team": team})
	}
	add("select", map[string]string{"action_type": selectTicket, "ticket_id": s.selectedTicket().id})
	add("select none", map[string]string{"action_type": selectTicket, "ticket_id": "T"})
	return out
}

// TestLeaksAreFound puts leaks back: a limit of steps, a refusal, and a text that depend on what is
// right, the last one for two thirds of the instances only.
func TestLeaksAreFound(t *testing.T) {
	kind := publicKind(t)
	var instances []leak.Instance
	for _, s := range kind.catalog.Tickets() {
		for seed := range int64(40) {
			drawn, err := s.Draw(seed)
			if err != nil {
				t.Fatal(err)
			}
			right := rightOf(drawn.Gold)
			seen := map[string]string{"max_steps": fmt.Sprint(10 + len(right["decision"])), "feedback": "No.",
				"refusal": fmt.Sprint("Not done", right["category"] == "billing"), "seed": fmt.Sprint(seed % 5)}
			if seed%3 > 0 {
				seen["feedback"] = "Not by " + right["team"]
			}
			instances = append(instances, leak.Instance{Seen: seen, Right: right, Scenario: s.ID, Seed: seed})
		}
	}
	tests := map[string]struct {
		by   leak.Comparison
		want []string
	}{
		"among instances of one ticket": {leak.OfScenario(), []string{"feedback decision",
			"max_steps decision", "feedback team", "max_steps team"}},
		"from other tickets": {leak.OfOtherScenarios(), []string{"refusal category", "feedback decision",
			"max_steps decision", "feedback team", "max_steps team"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, f := range leak.Find(instances, tt.by, 20) {
				found = append(found, f.Sight+" "+f.Question)
			}
			for _, want := range tt.want {
				if !slices.Contains(found, want) {
					t.Errorf("%s isn't found in %q", want, found)
				}
			}
			if slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "seed ") }) {
				t.Errorf("a sight that tells nothing is found in %q", found)
			}
		})
	}
}
