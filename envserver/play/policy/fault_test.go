package policy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// faulty plays like Oracle but for one fault. It counts how often it made it.
type faulty struct {
	policy.Policy
	fault func(action map[string]any) (changed, drop bool)
	made  int
	// urgent tells in which tickets of a queue the fault is made. It is nil for all.
	urgent []bool
}

func (f *faulty) Act(ctx context.Context, turn policy.Turn) (json.RawMessage, error) {
	for {
		raw, err := f.Policy.Act(ctx, turn)
		if err != nil {
			return nil, err
		}
		var action map[string]any
		if err := json.Unmarshal(raw, &action); err != nil {
			return nil, err
		}
		var seen struct {
			TicketID string `json:"ticket_id"`
			Queue    []struct {
				TicketID string `json:"ticket_id"`
			}
		}
		if err := json.Unmarshal(turn.Observation, &seen); err != nil {
			return nil, err
		}
		for i := range f.urgent {
			if seen.Queue[i].TicketID == seen.TicketID && !f.urgent[i] {
				return raw, nil
			}
		}
		changed, drop := f.fault(action)
		if !changed {
			return raw, nil
		}
		f.made++
		if !drop {
			return json.Marshal(action)
		}
	}
}

// payloadOf returns the members of an action.
func payloadOf(action map[string]any) map[string]any {
	if payload, ok := action["payload"].(map[string]any); ok {
		return payload
	}
	return action
}

// wrongValues are values of each type that no instance has.
var wrongValues = map[facts.Type]string{facts.Amount: "$7,771.23", facts.When: "2039-01-01",
	facts.Duration: "777 hours",
	facts.Number:   "7771", facts.ID: "ZZ-777123", facts.Text: "Nowhere 777"}

// changeFact changes the first stated fact of which a function returns another value, or drops it
// if that is "".
func changeFact(action map[string]any, change func(f facts.Fact, of facts.Name) (value string, ok bool)) bool {
	payload := payloadOf(action)
	stated, _ := payload["facts"].([]any)
	for i := range stated {
		f, _ := stated[i].(map[string]any)
		what, _ := f["what"].(string)
		value, _ := f["value"].(string)
		name, _ := facts.Find(what)
		if other, ok := change(facts.Fact{What: what, Value: value}, name); ok {
			if f["value"] = other; other == "" {
				payload["facts"] = slices.Delete(stated, i, i+1)
			}
			return true
		}
	}
	return false
}

// faults are single faults by name.
func faults() map[string]func(action map[string]any) (changed, drop bool) {
	other := func(f facts.Fact, of facts.Name) string {
		for _, v := range of.Values {
			if v != f.Value {
				return v
			}
		}
		return wrongValues[of.Type]
	}
	changes := []string{desk.Refunding, desk.Crediting, desk.Replacing, desk.Cancelling, desk.Readdressing,
		desk.Escalating}
	return map[string]func(action map[string]any) (bool, bool){
		"none": func(map[string]any) (bool, bool) { return false, false },
		"wrong fact": func(a map[string]any) (bool, bool) {
			return changeFact(a, func(f facts.Fact, of facts.Name) (string, bool) { return other(f, of), true }),
				false
		},
		"wrong day": func(a map[string]any) (bool, bool) {
			return changeFact(a, func(f facts.Fact, of facts.Name) (string, bool) {
				return other(f, of), of.Type == facts.When
			}), false
		},
		"fact left out": func(a map[string]any) (bool, bool) {
			return changeFact(a, func(facts.Fact, facts.Name) (string, bool) { return "", true }), false
		},
		"wrong team told": func(a map[string]any) (bool, bool) {
			return changeFact(a, func(f facts.Fact, of facts.Name) (string, bool) {
				return other(f, of), of.What == "team"
			}), false
		},
		"wrong team": func(a map[string]any) (bool, bool) {
			payload := payloadOf(a)
			if payload["team"] == nil {
				return false, false
			}
			payload["team"] = map[bool]string{true: "logistics", false: "finance"}[payload["team"] == "finance"]
			return true, false
		},
		"wrong amount": func(a map[string]any) (bool, bool) {
			payload := payloadOf(a)
			if payload["amount"] == nil {
				return false, false
			}
			payload["amount"] = "1.07"
			return true, false
		},
		"wrong decision": func(a map[string]any) (bool, bool) {
			switch a["action_type"] {
			case "resolve":
				a["action_type"], a["team"], a["reason"] = "escalate", "legal", "unclear"
				return true, false
			case "escalate":
				delete(a, "team")
				delete(a, "reason")
				a["action_type"] = "resolve"
				return true, false
			}
			kind, _ := a["action_type"].(string)
			return slices.Contains(changes, kind), true
		},
	}
}

// urgentOf tells which tickets of a queue are urgent or high, which have to be right.
func urgentOf(t *testing.T, task, id string, seed int64) []bool {
	t.Helper()
	if task != tasks.QueueManagement {
		return nil
	}
	queues := queue.ComposeQueues(testkit.Catalog(t))
	tickets, err := queues[slices.IndexFunc(queues, func(q queue.Queue) bool { return q.ID == id })].Instantiate(
		testkit.Catalog(t), seed)
	if err != nil {
		t.Fatal(err)
	}
	urgent := make([]bool, len(tickets))
	for i, ticket := range tickets {
		urgent[i] = queue.IsPressing(ticket.Gold.Priority)
	}
	return urgent
}

// TestOneFaultPassesNowhere plays every scenario rightly, which passes, and but for one fault. No
// episode with a fault passes, and the same fault costs alike in easy, medium and hard cases.
func TestOneFaultPassesNowhere(t *testing.T) {
	const even = 50_000
	stride := 1
	if testing.Short() {
		stride = 5
	}
	type sum struct{ episodes, passed, points int64 }
	sums := map[string]map[string]*sum{}
	for _, kind := range kinds(t) {
		factory, err := policy.NewBuiltin(policy.Oracle, kind.Name(), testkit.Catalog(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range kind.Tasks() {
			row, _ := tasks.Find(task.Name)
			for name, fault := range faults() {
				if sums[name] == nil {
					sums[name] = map[string]*sum{}
				}
				s := &sum{}
				sums[name][task.Name] = s
				for i, scenario := range task.Scenarios {
					isQueue := task.Name == tasks.QueueManagement
					if len(task.Scenarios) > 20 && i%stride != 0 && (name != "none" || !isQueue) {
						continue
					}
					wrapped := &faulty{fault: fault, urgent: urgentOf(t, task.Name, scenario.ID, int64(i%3))}
					final := play(t, kind, func(p score.PlannedEpisode) (policy.Policy, error) {
						inner, err := factory(p)
						wrapped.Policy = inner
						return wrapped, err
					}, score.PlannedEpisode{Task: task.Name, Scenario: scenario.ID, Seed: int64(i % 3)})
					if wrapped.made == 0 && name != "none" {
						continue
					}
					s.episodes, s.points = s.episodes+1, s.points+final.Score
					passes := !final.Wrong && final.Score >= row.PassScore
					if passes {
						s.passed++
					}
					if passes != (name == "none") {
						t.Errorf("%s, seed %d, with the fault %q passes: %v, %+v", scenario.ID, i%3, name, passes,
							final.Dimensions)
					}
				}
			}
		}
	}
	for name, byTask := range sums {
		var cases []int64
		for task, s := range byTask {
			if s.episodes == 0 {
				continue
			}
			mean := s.points / s.episodes
			t.Logf("%-15s %-17s %4d episodes, score %s, %d passed", name, task, s.episodes, score.FormatDecimal(mean),
				s.passed)
			if strings.HasPrefix(task, "case-") {
				cases = append(cases, mean)
			}
		}
		if len(cases) > 0 && slices.Max(cases)-slices.Min(cases) > even {
			t.Errorf("a %s leaves %v of 1,000,000 in cases of different difficulty", name, cases)
		}
	}
}
