package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

func TestRewards(t *testing.T) {
	tests := map[string]struct {
		workflow *scenarios.Workflow
		actions  []string
		want     []int64
		outcome  score.Outcome
		score    int64
	}{
		"gold": {workflow: calm(), actions: []string{order, payment, refundGood, reply},
			want: []int64{200, 200, 200, 700}, outcome: score.Scored, score: score.One},
		"gold in the other order": {workflow: calm(), actions: []string{payment, order, refundGood, reply},
			want: []int64{200, 200, 200, 700}, outcome: score.Scored, score: score.One},
		"a retry is no repeat": {workflow: testWorkflow(), actions: []string{order, payment, payment, refundGood,
			reply},
			want: []int64{200, 0, 200, 200, 700}, outcome: score.Scored, score: score.One},
		"giving up after a fault": {workflow: testWorkflow(), actions: []string{order, payment, reply},
			want:    []int64{200, 0, -100},
			outcome: score.Scored, score: 47_619},
		"a fault of a repeat is free": {workflow: testWorkflow(), actions: []string{order, order, order, order, order,
			payment, reply},
			want: []int64{200, -100, -100, -100, -100, 0, -100}, outcome: score.Scored, score: 0},
		"the last action alone": {workflow: calm(), actions: []string{reply}, want: []int64{-100},
			outcome: score.Scored, score: 0},
		"reversed": {workflow: calm(), actions: []string{refundGood, payment, order, reply},
			want: []int64{-100, 200, 200, -100}, outcome: score.Scored, score: 95_238},
		"refund before the look-ups": {workflow: calm(), actions: []string{refundGood, order, payment, refundGood,
			reply},
			want: []int64{-100, 200, 200, 200, 680}, outcome: score.Scored, score: 907_692},
		"repeated": {workflow: calm(), actions: []string{order, order, order}, want: []int64{200, -100, -100},
			outcome: "", score: 0},
		"harmless look-up": {workflow: calm(), actions: []string{otherOrder, order, payment, refundGood, reply},
			want: []int64{-20, 200, 200, 200, 680}, outcome: score.Scored, score: 969_231},
		"harmless once only": {workflow: calm(), actions: []string{otherOrder, noOrder, otherOrder},
			want: []int64{-20, -100, -100}, outcome: "",
			score: 0},
		"harmless beyond the count": {workflow: calm(), actions: []string{order, payment, refundGood, refundMore,
			otherOrder},
			want: []int64{200, 200, 200, -100, -20}, outcome: "", score: 0},
		"wrong amount": {workflow: calm(), actions: []string{order, payment, refundMore, reply},
			want: []int64{200, 200, -100, -100}, outcome: score.Scored, score: 95_238},
		"forbidden act": {workflow: calm(), actions: []string{order, payment, escalate, refundGood, reply},
			want: []int64{200, 200, -100, 200, 200}, outcome: score.Scored, score: 333_333},
		"a wrong fact": {workflow: calm(), actions: []string{order, payment, refundGood, wrongFact},
			want: []int64{200, 200, 200, 0}, outcome: score.Scored, score: 285_714},
		"facts missing": {workflow: calm(), actions: []string{order, payment, refundGood, emptyWords},
			want: []int64{200, 200, 200, 0}, outcome: score.Scored, score: 285_714},
		"no message": {workflow: calm(), actions: []string{`{"action_type":"respond_user"}`, order},
			want:    []int64{-100, 200},
			outcome: "", score: 0},
		"no payload": {workflow: calm(), actions: []string{`{"action_type":"check_payment","payload":null}`,
			`{"action_type":"initiate_refund"}`}, want: []int64{-100, -100}, outcome: "", score: 0},
		"no team": {workflow: calm(), actions: []string{`{"action_type":"escalate_issue","payload":{}}`},
			want: []int64{-100}, outcome: "", score: 0},
		"steps run out": {workflow: calm(), actions: slices.Repeat([]string{order}, 8),
			want: []int64{200, -100, -100, -100, -100, -100, -100, -300}, outcome: score.Failed, score: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, last := play(t, start(tc.workflow, episode.Dense), tc.actions...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rewards (-want +got):\n%s", diff)
			}
			held, lastHeld := play(t, start(tc.workflow, episode.Terminal), tc.actions...)
			if tc.outcome == "" {
				if last.Done || last.Final != nil || sum(held) != 0 {
					t.Errorf("last = %+v, want not done; held back %v", last, held)
				}
				return
			}
			if diff := cmp.Diff(last.Final, lastHeld.Final); diff != "" {
				t.Errorf("final of dense and terminal rewards differ (-dense +terminal):\n%s", diff)
			}
			if !last.Done || last.Final.Outcome != tc.outcome || last.Final.Score != tc.score {
				t.Errorf("final = %+v, want %s with %d", last.Final, tc.outcome, tc.score)
			}
			want := make([]int64, len(got))
			want[len(want)-1] = sum(got)
			if diff := cmp.Diff(want, held); diff != "" {
				t.Errorf("terminal rewards (-want +got):\n%s", diff)
			}
			var booked int64
			for _, d := range last.Final.Dimensions {
				booked += d.Earned
			}
			if booked != sum(got) {
				t.Errorf("dimensions add up to %d, rewards to %d", booked, sum(got))
			}
		})
	}
}

func TestFinalBreaksTheScoreDown(t *testing.T) {
	_, last := play(t, start(calm(), episode.Dense), otherOrder, order, payment, refundGood, reply)
	want := &episode.Final{
		Task: "refund", Scenario: "C99", Category: "workflow", Outcome: score.Scored, Score: 969_231, Judge: "rules",
		Dimensions: []score.Dimension{{Name: "steps", Earned: 800, Offered: 800},
			{Name: "resolution", Earned: 500, Offered: 500}, {Name: "penalties", Earned: -40}},
	}
	want.Verdicts = []json.RawMessage{[]byte(`{"judge":"rules","status":"ok","criteria":[` +
		`{"id":"steps","earned":800,"offered":800},{"id":"resolution","earned":500,"offered":500},` +
		`{"id":"penalty","step":1,"action":"check_order_status","earned":-20,"offered":0,"reason":"a needless look-up"},` +
		`{"id":"penalty","step":5,"action":"respond_user","earned":-20,"offered":0,"reason":"more steps than the case needs"}],` +
		`"preGate":500,"postGate":500,"right":true}`)}
	if diff := cmp.Diff(want, last.Final); diff != "" {
		t.Errorf("Final (-want +got):\n%s", diff)
	}
}

// TestReplyIsPaidByWhatItTells states facts about three required ones.
func TestReplyIsPaidByWhatItTells(t *testing.T) {
	amount, day, reference := `{"what":"refund_amount","value":"12.5"}`, `{"what":"arrives_by","value":"March 20"}`,
		`{"what":"reference","value":"PAY-1"}`
	for name, tc := range map[string]struct {
		facts string
		want  int64
		right bool
	}{
		"everything":     {amount + "," + day + "," + reference, 500, true},
		"one is missing": {amount + "," + reference, 100, false},
		"one is wrong":   {amount + `,{"what":"arrives_by","value":"March 21"},` + reference, 50, false},
		"nothing":        {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := calm()
			w.Facts = []scenarios.Fact{{ID: "f1", What: "refund_amount", Stated: "$12.50"},
				{ID: "f2", What: "arrives_by", Stated: "5 business days"}, {ID: "f3", What: "reference", Stated: "PAY-1"}}
			_, last := play(t, start(w, episode.Dense), order, payment, refundGood, `{"action_type":"respond_user","payload":`+
				`{"message":"The $12.50 of PAY-1 are back by March 20.","facts":[`+tc.facts+`]}}`)
			if got := last.Final.Dimensions[1].Earned; got != tc.want || last.Final.Wrong == tc.right {
				t.Errorf("resolution %d, wrong %v; want %d, %v", got, last.Final.Wrong, tc.want, !tc.right)
			}
		})
	}
}

func TestEpisodeContinuesAfterQuestion(t *testing.T) {
	w := calm()
	w.Steps = []scenarios.WorkflowStep{
		{ID: "s0", Action: desk.RespondUser, Ask: true, Answer: "It is LD-1."},
		{ID: "s1", Action: desk.CheckOrder, Args: theOrder(), Requires: []string{"s0"}},
		{ID: "s2", Action: desk.RespondUser, Requires: []string{"s1"}, Terminal: true},
	}
	ask := `{"action_type":"respond_user","payload":{"message":"Which order is it?"}}`
	e := start(w, episode.Dense)
	asked := step(t, e, ask)
	if got, want := string(asked.Observation.(Observation).LastResult), `{"ok":true,"sent":"Which order is it?",`+
		`"answer":"It is LD-1."}`; got != want ||
		asked.Done || asked.Reward != 200 {
		t.Errorf("asked = %s, done %v, reward %d; want %s, false, 200", got, asked.Done, asked.Reward, want)
	}
	if got, _ := play(t, e, order, reply); sum(got) != 900 {
		t.Errorf("rest = %v, want 900 in all", got)
	}
	if got, last := play(t, start(w, episode.Dense), ask, ask); !last.Done || sum(got) != 100 {
		t.Errorf("asking twice = %v, done %v, want 100 in all, done", got, last.Done)
	}
	if got, last := play(t, start(w, episode.Dense), emptyWords); !last.Done || sum(got) != -100 {
		t.Errorf("a reply in place of the question = %v, done %v, want -100, done", got, last.Done)
	}
}

func TestInvalidActionsEndTheEpisode(t *testing.T) {
	e := start(calm(), episode.Dense)
	step(t, e, order)
	for i := range episode.MaxInvalidActions - 1 {
		_, err := e.Step(t.Context(), json.RawMessage(`{"action_type":"refund"}`))
		if _, invalid := errors.AsType[*episode.ActionError](err); !invalid {
			t.Fatalf("invalid action %d: error = %v, want an ActionError", i+1, err)
		}
	}
	if got := e.State().(State); got.StepCount != 1 || got.InvalidActions != 4 || got.Done {
		t.Errorf("state = %+v, want step 1, 4 invalid actions, not done", got)
	}
	last := step(t, e, `{"action_type":"refund"}`)
	if !last.Done || last.Final == nil || last.Final.Outcome != score.Failed || last.Reward != -500 {
		t.Errorf("fifth invalid action: %+v, want done, failed, five penalties", last)
	}
}

func TestPenaltyOfAnInvalidActionIsInTheNextReward(t *testing.T) {
	e := start(calm(), episode.Dense)
	if _, err := e.Step(t.Context(), json.RawMessage(`{}`)); err == nil {
		t.Fatal("Step() took an action without a type")
	}
	if got := step(t, e, order).Reward; got != 100 {
		t.Errorf("reward = %d, want 200 less 100", got)
	}
}

func TestStepAfterTheEndHasNoReward(t *testing.T) {
	e := start(calm(), episode.Dense)
	_, last := play(t, e, order, payment, refundGood, reply)
	for _, action := range []string{reply, order, `{"action_type":"nonsense"}`, `no json`} {
		again := step(t, e, action)
		if !again.Done || again.Reward != 0 || again.Final != nil {
			t.Errorf("Step(%s) after the end = %+v, want done, reward 0, no final", action, again)
		}
		if diff := cmp.Diff(last.Observation, again.Observation); diff != "" {
			t.Errorf("observation (-want +got):\n%s", diff)
		}
	}
}

// TestEveryEpisodeKeepsTheRules plays random episodes: none pays more than gold, rewards add up to
// the dimensions, every observation matches the served schema, the same actions give the same
// bytes, and no later step changes an earlier observation.
func TestEveryEpisodeKeepsTheRules(t *testing.T) {
	kind := start(calm(), episode.Dense).kind
	schema := testkit.CompileSchema(t, kind.schemas.Observation)
	all := []string{
		order, otherOrder, noOrder, payment, refundGood, refundMore, escalate, reply, emptyWords, wrongFact,
		`{"action_type":"respond_user"}`, `{"action_type":"fly"}`,
		order, payment, refundGood,
	}
	rapid.Check(t, func(rt *rapid.T) {
		actions := rapid.SliceOfN(rapid.SampledFrom(all), 1, 12).Draw(rt, "actions")
		mode := rapid.SampledFrom([]episode.RewardMode{episode.Dense, episode.Terminal}).Draw(rt, "mode")
		e, twin := start(testWorkflow(), mode), start(testWorkflow(), mode)
		var total int64
		var final *episode.Final
		var seen []Observation
		var texts []string
		for _, a := range actions {
			r, err := e.Step(context.Background(), json.RawMessage(a))
			r2, err2 := twin.Step(context.Background(), json.RawMessage(a))
			if fmt.Sprint(err) != fmt.Sprint(err2) {
				rt.Fatalf("the same step gave %v and %v", err, err2)
			}
			if err != nil {
				continue
			}
			text := testkit.EncodeJSON(r.Observation)
			if text != testkit.EncodeJSON(r2.Observation) || r.Reward != r2.Reward {
				rt.Fatal("the same step gave something else")
			}
			testkit.ValidateJSON(rt, schema, text)
			if final != nil && (r.Reward != 0 || r.Final != nil || !r.Done) {
				rt.Fatalf("a step after the end gave %+v", r)
			}
			total += r.Reward
			if r.Final != nil {
				final = r.Final
			}
			seen, texts = append(seen, r.Observation.(Observation)), append(texts, text)
		}
		for i := range seen {
			if testkit.EncodeJSON(seen[i]) != texts[i] {
				rt.Fatalf("observation %d changed later", i)
			}
		}
		if total > 1300 {
			rt.Fatalf("return %d is above gold", total)
		}
		if final == nil {
			return
		}
		if booked := final.Dimensions[0].Earned + final.Dimensions[1].Earned +
			final.Dimensions[2].Earned; booked != total {
			rt.Fatalf("dimensions add up to %d, rewards to %d", booked, total)
		}
		if final.Score < 0 || final.Score > score.One {
			rt.Fatalf("score %d is outside 0 to 1", final.Score)
		}
	})
}

// TestRepeatsNeverPay plays gold with every action repeated k times.
func TestRepeatsNeverPay(t *testing.T) {
	gold := []string{order, payment, refundGood, reply}
	for i, a := range gold {
		for k := 2; k <= 5; k++ {
			repeated := slices.Concat(gold[:i], slices.Repeat([]string{a}, k), gold[i+1:])
			got, _ := play(t, start(calm(), episode.Dense), repeated...)
			if a == reply && sum(got) != 1300 {
				t.Errorf("%d times the last action pays %d, want 1300", k, sum(got))
			}
			if a != reply && sum(got) >= 1300 {
				t.Errorf("%d times %s pays %d", k, a, sum(got))
			}
		}
	}
}

// TestSessionsOfOneInstance plays two episodes of the same instance, whose list of refunds has
// spare capacity.
func TestSessionsOfOneInstance(t *testing.T) {
	w := calm()
	w.Records.Refunds = make([]desk.Refund, 0, 4)
	a, b := start(w, episode.Dense), start(w, episode.Dense)
	for _, action := range []string{order, payment} {
		step(t, a, action)
		step(t, b, action)
	}
	step(t, a, refundGood)
	step(t, b, refundMore)
	if got := a.state.records.Refunds[0].Amount; got != 1250 {
		t.Errorf("the first session's refund is %s after the second one's", got)
	}
	seen := step(t, a, reply).Observation.(Observation)
	seen.History[0].ActionType = "changed by the client"
	if got := a.state.history[0].ActionType; got != desk.CheckOrder {
		t.Errorf("the history reads %q after a client wrote into an observation", got)
	}
}
