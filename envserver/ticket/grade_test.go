package ticket

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
)

func (judgeFunc) Name() string { return "test-judge" }

func TestRewards(t *testing.T) {
	tests := map[string]struct {
		task    string
		mode    episode.RewardMode
		actions []string
		want    []int64
		outcome score.Outcome
	}{
		"gold": {"ticket-resolve", episode.Dense, []string{classifyRight, say(respond, goodReply),
			escalateFinance}, []int64{300, 0, 700}, score.Scored},
		"gold held back": {"ticket-resolve", episode.Terminal, []string{classifyRight, say(respond, goodReply),
			escalateFinance}, []int64{0, 0, 1000}, score.Scored},
		"no reply": {"ticket-resolve", episode.Dense, []string{classifyRight, escalateFinance},
			[]int64{300, 200}, score.Scored},
		"wrong team": {"ticket-resolve", episode.Dense,
			[]string{`{"action_type":"escalate","team":"security"}`}, []int64{100}, score.Scored},
		"other name of team": {"ticket-resolve", episode.Dense,
			[]string{`{"action_type":"escalate","team":"Billing Ops team"}`}, []int64{200}, score.Scored},
		"no team": {"ticket-resolve", episode.Dense, []string{`{"action_type":"escalate"}`}, []int64{100},
			score.Scored},
		"wrong decision": {"ticket-resolve", episode.Dense, []string{justResolve}, []int64{0}, score.Scored},
		"alternate category": {"ticket-resolve", episode.Dense,
			[]string{`{"action_type":"classify","category":"technical"}`, justResolve}, []int64{100, 0}, score.Scored},
		"all at once": {"ticket-resolve", episode.Dense,
			[]string{`{"action_type":"submit","category":"billing","priority":"high","message":"` + goodReply +
				`","decision":"escalate","team":"finance"}`}, []int64{1000}, score.Scored},
		"nothing at once": {"ticket-resolve", episode.Dense, []string{`{"action_type":"submit"}`}, []int64{0},
			score.Scored},
		"reply with resolve": {"ticket-resolve", episode.Dense, []string{say(resolve, goodReply)}, []int64{500},
			score.Scored},
		"classify": {"ticket-classify", episode.Dense, []string{classifyRight}, []int64{1000},
			score.Scored},
		"classify in parts": {"ticket-classify", episode.Dense,
			[]string{`{"action_type":"classify","priority":"high"}`, `{"action_type":"classify","category":"billing"}`},
			[]int64{333, 667}, score.Scored},
		"category alone": {"ticket-classify", episode.Dense,
			[]string{`{"action_type":"submit","category":"billing"}`}, []int64{667}, score.Scored},
		"classify wrong": {"ticket-classify", episode.Dense, []string{classifyWrong}, []int64{0}, score.Scored},
		"decision not asked": {"ticket-classify", episode.Dense,
			[]string{`{"action_type":"submit","decision":"escalate","message":"hi"}`}, []int64{0}, score.Scored},
		"revised": {"ticket-resolve", episode.Terminal,
			[]string{classifyWrong, classifyRight, justResolve}, []int64{0, 0, 300}, score.Scored},
		"not revised": {"ticket-resolve", episode.Dense, []string{classifyWrong, classifyRight, justResolve},
			[]int64{0, 0, 0}, score.Scored},
		"revised by submit": {"ticket-resolve", episode.Dense, []string{classifyWrong,
			`{"action_type":"submit","priority":"high"}`, justResolve}, []int64{0, 0, 0}, score.Scored},
		"second half is no 2nd": {"ticket-resolve", episode.Dense,
			[]string{`{"action_type":"classify","category":"billing"}`, `{"action_type":"classify","priority":"high"}`,
				justResolve}, []int64{200, 100, 0}, score.Scored},
		"respond not in task": {"ticket-classify", episode.Dense, []string{say(respond, goodReply), classifyRight},
			[]int64{0, 1000}, score.Scored},
		"out of steps": {
			"ticket-classify", episode.Terminal, []string{`{"action_type":"classify","category":"billing"}`,
				justResolve, justResolve, justResolve},
			[]int64{0, 0, 0, 667}, score.Failed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, last := play(t, start(tc.task, tc.mode, goodJudge), tc.actions...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rewards (-want +got):\n%s", diff)
			}
			if !last.Done || last.Final == nil || last.Final.Outcome != tc.outcome {
				t.Fatalf("last = %+v, want done and %s", last, tc.outcome)
			}
			if want := sum(got) * score.One / 1000; last.Final.Score != want {
				t.Errorf("Score = %d, want %d, the sum of the rewards", last.Final.Score, want)
			}
			if last.Observation.(Observation).Score == nil {
				t.Error("the last observation has no score")
			}
		})
	}
}

func TestFinalBreaksTheScoreDown(t *testing.T) {
	e := start("ticket-resolve", episode.Terminal, goodJudge)
	_, last := play(t, e, `{"action_type":"classify","category":"technical","priority":"high"}`, say(respond, "Hm."),
		escalateFinance)
	digest := e.state.tickets[0].judged().Digest()
	want := &episode.Final{
		Task: "ticket-resolve", Scenario: "B99", Category: "billing", Outcome: score.Scored, Score: 500_000,
		Judge: "test-judge",
		Dimensions: []score.Dimension{
			{Name: "category", Earned: 100, Offered: 200}, {Name: "priority", Earned: 100, Offered: 100},
			{Name: "escalation", Earned: 200, Offered: 200}, {Name: "response", Earned: 100, Offered: 500},
		},
		Verdicts: []json.RawMessage{json.RawMessage(`{"ticket_id":"` + episode.OpaqueID("T", 7) +
			`","judge":"test-judge","case":"` + digest +
			`","status":"ok","criteria":null,"preGate":0,"postGate":100}`)},
	}
	if diff := cmp.Diff(want, last.Final); diff != "" {
		t.Errorf("Final (-want +got):\n%s", diff)
	}
}

func TestClassifyOffersTwoDimensions(t *testing.T) {
	_, last := play(t, start("ticket-classify", episode.Dense, goodJudge),
		`{"action_type":"classify","category":"billing","priority":"low"}`)
	want := &episode.Final{
		Task: "ticket-classify", Scenario: "B99", Category: "billing", Outcome: score.Scored, Score: 667_000,
		Judge:      "rules",
		Dimensions: []score.Dimension{{Name: "category", Earned: 200, Offered: 200}, {Name: "priority", Offered: 100}},
	}
	if diff := cmp.Diff(want, last.Final); diff != "" {
		t.Errorf("Final (-want +got):\n%s", diff)
	}
}

func TestJudgeReadsTheWholeHandling(t *testing.T) {
	var got grader.Case
	judge := func(_ context.Context, c grader.Case) (int64, error) {
		got = c
		return 0, nil
	}
	e := start("ticket-resolve", episode.Dense, judge)
	ticket := e.state.tickets[0].ticket
	play(t, e, say(respond, "One."), say(respond, "Two."), say(resolve, "Three."))
	want := grader.Case{Ticket: ticket, Reply: "One.\n\nTwo.\n\nThree.",
		Actions: grader.Actions{Ending: grader.Resolved}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Case (-want +got):\n%s", diff)
	}
}
