package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
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
		"gold": {task: "ticket-resolve", mode: episode.Dense, actions: []string{classifyRight, say(respond, goodReply),
			escalateFinance}, want: []int64{300, 0, 700}, outcome: score.Scored},
		"gold held back": {task: "ticket-resolve", mode: episode.Terminal,
			actions: []string{classifyRight, say(respond, goodReply),
				escalateFinance}, want: []int64{0, 0, 1000}, outcome: score.Scored},
		"no reply": {task: "ticket-resolve", mode: episode.Dense, actions: []string{classifyRight, escalateFinance},
			want: []int64{300, 200}, outcome: score.Scored},
		"wrong team": {task: "ticket-resolve", mode: episode.Dense,
			actions: []string{`{"action_type":"escalate","team":"security"}`}, want: []int64{100},
			outcome: score.Scored},
		"other name of team": {task: "ticket-resolve", mode: episode.Dense,
			actions: []string{`{"action_type":"escalate","team":"Billing Ops team"}`}, want: []int64{200},
			outcome: score.Scored},
		"no team": {task: "ticket-resolve", mode: episode.Dense, actions: []string{`{"action_type":"escalate"}`},
			want:    []int64{100},
			outcome: score.Scored},
		"wrong decision": {task: "ticket-resolve", mode: episode.Dense, actions: []string{justResolve},
			want: []int64{0}, outcome: score.Scored},
		"alternate category": {task: "ticket-resolve", mode: episode.Dense,
			actions: []string{`{"action_type":"classify","category":"technical"}`, justResolve}, want: []int64{100, 0},
			outcome: score.Scored},
		"all at once": {task: "ticket-resolve", mode: episode.Dense,
			actions: []string{`{"action_type":"submit","category":"billing","priority":"high","message":"` + goodReply +
				`","decision":"escalate","team":"finance"}`}, want: []int64{1000}, outcome: score.Scored},
		"nothing at once": {task: "ticket-resolve", mode: episode.Dense, actions: []string{`{"action_type":"submit"}`},
			want:    []int64{0},
			outcome: score.Scored},
		"reply with resolve": {task: "ticket-resolve", mode: episode.Dense, actions: []string{say(resolve, goodReply)},
			want:    []int64{500},
			outcome: score.Scored},
		"classify": {task: "ticket-classify", mode: episode.Dense, actions: []string{classifyRight},
			want:    []int64{1000},
			outcome: score.Scored},
		"classify in parts": {task: "ticket-classify", mode: episode.Dense,
			actions: []string{`{"action_type":"classify","priority":"high"}`,
				`{"action_type":"classify","category":"billing"}`},
			want: []int64{333, 667}, outcome: score.Scored},
		"category alone": {task: "ticket-classify", mode: episode.Dense,
			actions: []string{`{"action_type":"submit","category":"billing"}`}, want: []int64{667},
			outcome: score.Scored},
		"classify wrong": {task: "ticket-classify", mode: episode.Dense, actions: []string{classifyWrong},
			want: []int64{0}, outcome: score.Scored},
		"decision not required": {task: "ticket-classify", mode: episode.Dense,
			actions: []string{`{"action_type":"submit","decision":"escalate","message":"hi"}`}, want: []int64{0},
			outcome: score.Scored},
		"revised": {task: "ticket-resolve", mode: episode.Terminal,
			actions: []string{classifyWrong, classifyRight, justResolve}, want: []int64{0, 0, 300},
			outcome: score.Scored},
		"not revised": {task: "ticket-resolve", mode: episode.Dense, actions: []string{classifyWrong, classifyRight,
			justResolve},
			want: []int64{0, 0, 0}, outcome: score.Scored},
		"revised by submit": {task: "ticket-resolve", mode: episode.Dense, actions: []string{classifyWrong,
			`{"action_type":"submit","priority":"high"}`, justResolve}, want: []int64{0, 0, 0}, outcome: score.Scored},
		"second half is no 2nd": {task: "ticket-resolve", mode: episode.Dense,
			actions: []string{`{"action_type":"classify","category":"billing"}`,
				`{"action_type":"classify","priority":"high"}`,
				justResolve}, want: []int64{200, 100, 0}, outcome: score.Scored},
		"respond not in task": {task: "ticket-classify", mode: episode.Dense, actions: []string{say(respond, goodReply),
			classifyRight},
			want: []int64{0, 1000}, outcome: score.Scored},
		"out of steps": {
			task: "ticket-classify", mode: episode.Terminal,
			actions: []string{`{"action_type":"classify","category":"billing"}`,
				justResolve, justResolve, justResolve},
			want: []int64{0, 0, 0, 667}, outcome: score.Failed,
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
	judged, err := e.state.tickets[0].makeCase()
	if err != nil {
		t.Fatal(err)
	}
	want := &episode.Final{
		Task: "ticket-resolve", Scenario: "B99", Category: "billing", Outcome: score.Scored, Score: 500_000,
		Judge: "test-judge", Wrong: true,
		Dimensions: []score.Dimension{
			{Name: "category", Earned: 100, Offered: 200}, {Name: "priority", Earned: 100, Offered: 100},
			{Name: "escalation", Earned: 200, Offered: 200}, {Name: "response", Earned: 100, Offered: 500},
		},
		Verdicts: []json.RawMessage{json.RawMessage(`{"ticket_id":"` + episode.OpaqueID("T", "", 7) +
			`","judge":"test-judge","case":"` + judged.Digest() +
			`","status":"ok","criteria":null,"preGate":0,"postGate":100,"right":false}`)},
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
	ticket, err := e.state.tickets[0].ticket.Complete()
	if err != nil {
		t.Fatal(err)
	}
	play(t, e, say(respond, "One."), say(respond, "Two."), say(resolve, "Three."))
	want := grader.Case{Ticket: ticket, Reply: "One.\n\nTwo.\n\nThree.",
		Actions: grader.Actions{Ending: grader.Resolved}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Case (-want +got):\n%s", diff)
	}
}

// TestTicketIsCompletedForReplies fails to complete a ticket: only a reply needs the whole ticket,
// and an episode that lacks it isn't scored.
func TestTicketIsCompletedForReplies(t *testing.T) {
	for name, tc := range map[string]struct {
		script *scenarios.UserSim
		before []string // actions
		fails  string
	}{
		"the judge reads them": {nil, []string{say(respond, goodReply)}, justResolve},
		"a customer answers":   {talkative().UserSim, nil, say(respond, goodReply)},
	} {
		t.Run(name, func(t *testing.T) {
			completed := 0
			broken := &scenarios.DrawnTicket{Served: testTicket().Served, Complete: func() (*scenarios.Ticket, error) {
				completed++
				return nil, errors.New("B99.yaml:7: no such value")
			}}
			broken.UserSim = tc.script
			k := testKind(judgeFunc(goodJudge))
			e := &environment{kind: k}
			drawn := []*scenarios.DrawnTicket{broken}
			e.beginEpisode(k.one("ticket-resolve"), &drawn, episode.Options{Seed: 7})
			play(t, e, classifyRight, `{"action_type":"search_knowledge_base","query":"refund"}`)
			play(t, e, tc.before...)
			if completed != 0 {
				t.Errorf("the ticket was completed %d times before it was needed", completed)
			}
			for range episode.MaxJudgeFailures - 1 {
				_, err := e.Step(t.Context(), json.RawMessage(tc.fails))
				failed, ok := errors.AsType[*episode.JudgeError](err)
				if !ok || !strings.Contains(failed.Err.Error(), "B99.yaml:7") {
					t.Fatalf("Step error = %v, want a failure to judge with the line of the expression", err)
				}
			}
			if last := step(t, e, tc.fails); last.Final == nil || last.Final.Outcome != score.Errored {
				t.Errorf("the last step gave %+v, want an errored episode", last.Final)
			}
		})
	}
}
