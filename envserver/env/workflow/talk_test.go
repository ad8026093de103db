package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// findTalk returns the first instance of a family's conversations that has a property.
func findTalk(t *testing.T, family string, has func(*scenarios.Workflow) bool) *scenarios.Workflow {
	t.Helper()
	for _, s := range testkit.Catalog(t).Cases() {
		if !s.Talks || s.Category() != family {
			continue
		}
		for seed := range int64(12) {
			w, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			if w = withoutFaults(w); has(w) {
				return w
			}
		}
	}
	t.Fatalf("no conversation of family %s is such", family)
	return nil
}

func confirmed(w *scenarios.Workflow) bool {
	return slices.ContainsFunc(w.Steps, func(s scenarios.WorkflowStep) bool { return s.Confirms != nil })
}

// playSteps plays those steps of gold for which keep reports true, and returns the final.
func playSteps(t *testing.T, w *scenarios.Workflow, keep func(scenarios.WorkflowStep) bool) *episode.Final {
	t.Helper()
	_, kind := publicKind(t)
	e := begin(kind, w, episode.Terminal)
	var last episode.Result
	for _, s := range w.Steps {
		if keep(s) {
			last = step(t, e, goldAction(w, s))
		}
	}
	return last.Final
}

// TestAChangeNeedsItsConfirmation leaves the question out, asks about other arguments, and then
// makes the right change: it spoils the case.
func TestAChangeNeedsItsConfirmation(t *testing.T) {
	for _, family := range []string{"cancel-order", "address-change", "damaged-refund"} {
		w := findTalk(t, family, confirmed)
		if got := playSteps(t, w, func(scenarios.WorkflowStep) bool { return true }); got.Score != score.One {
			t.Errorf("%s: gold earns %d", family, got.Score)
		}
		if got := playSteps(t, w, func(s scenarios.WorkflowStep) bool { return s.Confirms == nil }); !got.Wrong {
			t.Errorf("%s: the change passes without a confirmation", family)
		}
		_, kind := publicKind(t)
		e := begin(kind, w, episode.Terminal)
		var last episode.Result
		for _, s := range w.Steps {
			if s.Confirms != nil {
				other := *s.Confirms
				other.OrderID, other.Amount, other.Address = "LD-000000", other.Amount+1, "1 Another Street"
				s.Confirms = &other
			}
			last = step(t, e, goldAction(w, s))
		}
		if !last.Final.Wrong {
			t.Errorf("%s: another change was confirmed", family)
		}
	}
}

// TestACustomerIsHeardBeforeTheEnd closes without a message.
func TestACustomerIsHeardBeforeTheEnd(t *testing.T) {
	w := findTalk(t, "return", func(w *scenarios.Workflow) bool {
		return !slices.ContainsFunc(w.Steps, func(s scenarios.WorkflowStep) bool { return desk.IsChange(s.Action) })
	})
	if got := playSteps(t, w, func(s scenarios.WorkflowStep) bool { return s.Action != desk.Tell }); !got.Wrong ||
		got.Score > refusalScore {
		t.Errorf("a case without an answer to the customer earns %d", got.Score)
	}
}

// TestNeedlessMessagesCost asks for what was said, and writes without need.
func TestNeedlessMessagesCost(t *testing.T) {
	w := findTalk(t, "return", func(w *scenarios.Workflow) bool {
		return slices.ContainsFunc(w.Talk.Topics, func(t talk.Topic) bool {
			return t.Name == talk.AboutOrder && t.Said && t.Mistake == nil
		})
	})
	_, kind := publicKind(t)
	for name, tc := range map[string]struct {
		extra []string
		cost  int64
	}{
		"nothing":                {nil, 0},
		"asks for what was said": {[]string{`{"asks":["order"],"message":"M"}`}, 1},
		"asks for two things":    {[]string{`{"asks":["order","photo"],"message":"M"}`}, 2},
		"prose":                  {[]string{`{"message":"M"}`, `{"message":"M"}`}, 2},
	} {
		e := begin(kind, w, episode.Terminal)
		for _, s := range w.Steps {
			if s.Terminal {
				for _, payload := range tc.extra {
					step(t, e, `{"action_type":"tell","payload":`+payload+`}`)
				}
			}
			if got := step(t, e, goldAction(w, s)); s.Terminal && got.Final.Score != score.One-tc.cost*neutralPenalty*1000 {
				t.Errorf("%s: the score is %d", name, got.Final.Score)
			}
		}
	}
}

// TestConversationsAreReplayed plays the same acts twice, and once through a fork.
func TestConversationsAreReplayed(t *testing.T) {
	_, kind := publicKind(t)
	for _, family := range []string{"damaged", "address-change", "return"} {
		w := findTalk(t, family, func(w *scenarios.Workflow) bool { return len(w.Talk.First) > 0 || family == "address-change" })
		var all []string
		for range 2 {
			e := begin(kind, w, episode.Dense)
			var last episode.Result
			for i, s := range w.Steps {
				if i == 2 {
					fork, _ := e.Fork().(*environment)
					step(t, fork, `{"action_type":"tell","payload":{"message":"M","asks":["order","photo","wish"]}}`)
				}
				last = step(t, e, goldAction(w, s))
			}
			all = append(all, testkit.EncodeJSON(last.Observation)+testkit.EncodeJSON(last.Final))
		}
		if diff := cmp.Diff(all[0], all[1]); diff != "" {
			t.Errorf("%s (-first +second):\n%s", family, diff)
		}
	}
}

// modelled is a customer that hears a question in prose, and words an answer in capitals.
type modelled struct{ err error }

func (m *modelled) Name() string { return "modelled" }

func (m *modelled) Hear(_ context.Context, message *Message, to *episode.Exchange) error {
	to.Heard = message.Stated
	to.Heard.Asks = append(slices.Clone(to.Heard.Asks), talk.AboutRest)
	return m.err
}

func (m *modelled) Word(_ context.Context, turn *talk.Turn, to *episode.Exchange) error {
	to.Words = "WORDED " + turn.Template()
	return m.err
}

// TestAnotherCustomerHearsAndWords wants what it hears and says in the record, and no step if it
// fails.
func TestAnotherCustomerHearsAndWords(t *testing.T) {
	_, kind := publicKind(t)
	w := findTalk(t, "return", func(w *scenarios.Workflow) bool { return len(w.Talk.First) == 0 })
	other := &modelled{err: errors.New("down")}
	kind.SetCustomer(other)
	e := begin(kind, w, episode.Terminal)
	const action = `{"action_type":"tell","payload":{"message":"Is there more?"}}`
	if _, err := e.Step(t.Context(), json.RawMessage(action)); err == nil || e.state.step != 0 {
		t.Errorf("a failed customer: %v, step %d", err, e.state.step)
	}
	other.err = nil
	got := step(t, e, action)
	want := `{"ok":true,"sent":"Is there more?","answer":"WORDED ` + w.Talk.Lines["close"] +
		`","heard":{"asks":["anything_else"]}}`
	if o, _ := got.Observation.(Observation); string(o.LastResult) != want || o.History[0].Result != o.LastResult {
		t.Errorf("the result is %s, want %s", o.LastResult, want)
	}
}

// TestToolsOfOtherTasks wants tell in conversations alone, and ask_customer only without them.
func TestToolsOfOtherTasks(t *testing.T) {
	_, kind := publicKind(t)
	for task, tool := range map[string]string{"case-easy": desk.Tell, "refund": desk.Tell, "talk-easy": desk.AskCustomer} {
		e, _ := kind.New().(*environment)
		if _, err := e.Reset(episode.Options{Task: task, Seed: 3}); err != nil {
			t.Fatal(err)
		}
		got := step(t, e, `{"action_type":"`+tool+`","payload":{"message":"What is the order's number?"}}`)
		if o, _ := got.Observation.(Observation); !json.Valid([]byte(o.LastResult)) || e.state.calls[tool] != 1 ||
			len(e.state.fines) != 1 {
			t.Errorf("%s in %s: %s", tool, task, o.LastResult)
		}
		if slices.Contains(kind.Schemas().Allowed[task], tool) {
			t.Errorf("%s is offered in %s", tool, task)
		}
	}
}

// TestNoShortcutPassesAConversation plays strategies that understand nothing in every combination.
func TestNoShortcutPassesAConversation(t *testing.T) {
	seeds, stride := int64(4), 1
	if testing.Short() {
		seeds, stride = 1, 9
	}
	earned, passed, played := map[string]int64{}, map[string]int{}, 0
	all := testkit.Catalog(t).Cases()
	for i := 0; i < len(all); i += stride {
		if !all[i].Talks {
			continue
		}
		for seed := range seeds {
			w, err := all[i].Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			played++
			for name, end := range shortcuts(w) {
				p := &prover{workflow: w, reader: comparing()}
				s := p.beginEpisode()
				for _, a := range end {
					p.playAction(s, a.tool, maps.Clone(a.args))
				}
				got, err := s.makeFinal()
				if err != nil || got == nil {
					t.Fatalf("%s: %v", name, err)
				}
				earned[name] += got.Score
				if got.Score >= talkPassScore() {
					passed[name]++
				}
			}
		}
	}
	for name, sum := range earned {
		mean := float64(sum) / float64(played) / score.One
		t.Logf("%s: %.4f in %d conversations, %d passes", name, mean, played, passed[name])
		if mean > 0.2 || passed[name] > 0 {
			t.Errorf("%s earns %.4f, %d passes", name, mean, passed[name])
		}
	}
}

type call struct {
	tool string
	args map[string]any
}

// shortcuts end every conversation in the same way.
func shortcuts(w *scenarios.Workflow) map[string][]call {
	hello := w.Message(w.Steps[0])["message"]
	tell := func(args map[string]any) call {
		args["message"] = hello
		return call{desk.Tell, args}
	}
	end := func(stated ...facts.Fact) call {
		return call{desk.RespondUser, map[string]any{"message": hello, "facts": stated}}
	}
	order := map[string]any{"order_id": w.Records.Orders[0].ID}
	looks := []call{{desk.LookUpCustomer, nil}, {desk.CheckOrder, order}, {desk.CheckPayment, order}, {desk.CheckShipment, order}}
	for _, topic := range append(desk.ListTopics(), desk.Conversations) {
		looks = append(looks, call{desk.LookUpPolicy, map[string]any{"topic": topic}})
	}
	asks := []call{tell(map[string]any{"asks": talk.Topics}), tell(map[string]any{"asks": talk.Topics}),
		tell(map[string]any{"asks": talk.Topics})}
	refused := facts.Fact{What: "next_step", Value: "refused"}
	team := facts.Fact{What: "team", Value: "finance"}
	return map[string][]call{
		"say nothing":    {end()},
		"ask everything": append(slices.Concat(asks, looks), end()),
		"refuse all":     append(slices.Concat([]call{tell(map[string]any{"facts": []facts.Fact{refused}})}, asks, looks), end(refused)),
		"hand over all": append(slices.Concat(asks, looks), call{desk.Escalating, map[string]any{"team": "finance"}},
			end(team, facts.Fact{What: "next_step", Value: "handed_over"})),
		"confirm all": append(slices.Concat(asks, looks), tell(map[string]any{"confirms": desk.ListChanges(),
			"order_id": w.Records.Orders[0].ID}), end(refused)),
	}
}
