package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
)

func TestJudgeFailureIsNotScored(t *testing.T) {
	failing := func(context.Context, grader.Case) (int64, error) {
		return 0, errors.New("connection refused at judge.example")
	}
	e := start("ticket-resolve", episode.Dense, failing)
	play(t, e, classifyRight, say(respond, goodReply))
	before := testkit.EncodeJSON(e.State())
	for range episode.MaxJudgeFailures - 1 {
		_, err := e.Step(t.Context(), json.RawMessage(escalateFinance))
		if unjudged, ok := errors.AsType[*episode.JudgeError](err); !ok || unjudged.Cause != "test_away" ||
			strings.Contains(err.Error(), "judge.example") {
			t.Fatalf("Step() error = %v, want a JudgeError with cause test_away and without internal details", err)
		}
		if after := testkit.EncodeJSON(e.State()); after != before {
			t.Fatalf("the step had an effect: %s, before %s", after, before)
		}
	}
	last := step(t, e, escalateFinance)
	want := &episode.Final{Task: "ticket-resolve", Scenario: "B99", Category: "billing", Outcome: score.Errored,
		Judge: "test-judge", Cause: "test_away"}
	if diff := cmp.Diff(want, last.Final); diff != "" {
		t.Errorf("Final (-want +got):\n%s", diff)
	}
	obs := last.Observation.(Observation)
	if !last.Done || last.Reward != 0 || obs.Score != nil {
		t.Errorf("done %v reward %d score %v, want true, 0, null", last.Done, last.Reward, obs.Score)
	}
	if strings.Contains(obs.Feedback, "judge.example") {
		t.Errorf("feedback contains internal details: %q", obs.Feedback)
	}
}

// TestOtherStepsKeepTheCountOfFailures sends other actions, or another reply, between the failures.
func TestOtherStepsKeepTheCountOfFailures(t *testing.T) {
	e := start("ticket-resolve", episode.Dense, func(context.Context, grader.Case) (int64, error) {
		return 0,
			errors.New("busy")
	})
	for i := range episode.MaxJudgeFailures - 1 {
		if _, err := e.Step(t.Context(), json.RawMessage(say(resolve, fmt.Sprint("Reply ", i)))); err == nil {
			t.Fatal("a judge that failed gave no error")
		}
		step(t, e, `{"action_type":"search_knowledge_base","query":"refund"}`)
	}
	if last := step(t, e, say(resolve, goodReply)); last.Final == nil || last.Final.Outcome != score.Errored {
		t.Errorf("last = %+v, want errored", last)
	}
}

// TestAnotherReplyAfterAFailure checks that the failed reply has no effect: the judge receives only
// the second one.
func TestAnotherReplyAfterAFailure(t *testing.T) {
	judge := func(ctx context.Context, c grader.Case) (int64, error) {
		if c.Reply == "Hm." {
			return 0, errors.New("busy")
		}
		return goodJudge(ctx, c)
	}
	e := start("ticket-resolve", episode.Terminal, judge)
	if _, err := e.Step(t.Context(), json.RawMessage(say(resolve, "Hm."))); err == nil {
		t.Fatal("a judge that failed gave no error")
	}
	if last := step(t, e, say(resolve, goodReply)); last.Final == nil || last.Final.Score != score.One/2 {
		t.Errorf("the other reply gave %+v, want its own score", last)
	}
}

func TestJudgeThatRecoversLosesNothing(t *testing.T) {
	calls := 0
	flaky := func(ctx context.Context, c grader.Case) (int64, error) {
		calls++
		if calls < episode.MaxJudgeFailures {
			return 0, errors.New("busy")
		}
		return goodJudge(ctx, c)
	}
	e := start("ticket-resolve", episode.Dense, flaky)
	play(t, e, classifyRight, say(respond, goodReply))
	for range episode.MaxJudgeFailures - 1 {
		if _, err := e.Step(t.Context(), json.RawMessage(escalateFinance)); err == nil {
			t.Fatal("a judge that failed gave no error")
		}
	}
	if last := step(t, e, escalateFinance); last.Final == nil || last.Final.Score != score.One || last.Reward != 700 {
		t.Errorf("the same action again gave %+v, want the full score", last)
	}
}

func TestCancelledStepHasNoEffect(t *testing.T) {
	waiting := func(ctx context.Context, _ grader.Case) (int64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	e := start("ticket-resolve", episode.Dense, waiting)
	step(t, e, classifyRight)
	before := e.State()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Step(ctx, json.RawMessage(say(resolve, goodReply))); !errors.Is(err, context.Canceled) {
		t.Fatalf("Step() error = %v, want context.Canceled", err)
	}
	if diff := cmp.Diff(before, e.State()); diff != "" {
		t.Errorf("state after (-before +after):\n%s", diff)
	}
	e.kind.judge = judgeFunc(goodJudge)
	if r := step(t, e, say(resolve, goodReply)); r.Final.Score != 800_000 {
		t.Errorf("the same step again scores %d, want 800000", r.Final.Score)
	}
}

func TestInvalidActionsEndTheEpisode(t *testing.T) {
	e := start("ticket-resolve", episode.Dense, goodJudge)
	step(t, e, classifyRight)
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
	if !last.Done || last.Final == nil || last.Final.Outcome != score.Failed || last.Final.Score != 300_000 {
		t.Errorf("fifth invalid action: %+v, want done, failed, scored in its current state", last)
	}
}

func TestStepAfterTheEndHasNoReward(t *testing.T) {
	e := start("ticket-resolve", episode.Dense, goodJudge)
	_, last := play(t, e, classifyRight, say(respond, goodReply), escalateFinance)
	state := e.State()
	for _, action := range []string{escalateFinance, classifyRight, `{"action_type":"nonsense"}`, `no json`} {
		again := step(t, e, action)
		if !again.Done || again.Reward != 0 || again.Final != nil {
			t.Errorf("Step(%s) after the end = %+v, want done, reward 0, no final", action, again)
		}
		want := last.Observation.(Observation)
		want.Feedback = "The episode is over: send reset to begin the next one."
		if diff := cmp.Diff(want, again.Observation); diff != "" {
			t.Errorf("observation (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(state, e.State()); diff != "" {
		t.Errorf("the state changed (-want +got):\n%s", diff)
	}
}
