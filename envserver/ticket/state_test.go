package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/internal/testkit"
	"github.com/csenv/csenv/scenarios"
)

// judgeFunc is a judge made of a function that gives points.
type judgeFunc func(ctx context.Context, c grader.Case) (int64, error)

func (judgeFunc) Name() string { return "test-judge" }

func (f judgeFunc) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	points, err := f(ctx, c)
	if err != nil {
		return grader.Verdict{Status: grader.StatusError, Cause: "test_away"}, err
	}
	return grader.Verdict{Judge: "test-judge", Status: grader.StatusOK, PostGate: points}, nil
}

// goodReply is the text that goodJudge pays in full; it pays 100 for any other.
const goodReply = "Dear Ada, our finance team will refund $300.00."

func goodJudge(_ context.Context, c grader.Case) (int64, error) {
	if c.Reply == goodReply {
		return 500, nil
	}
	return 100, nil
}

func testTicket() *scenarios.Ticket {
	return &scenarios.Ticket{
		ScenarioID: "B99", Now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC), Language: "en",
		Customer: scenarios.Customer{Name: "Ada Moss", Company: "Fern Ltd", AccountLevel: "premium",
			Since: time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)},
		Subject: "Wrong invoice", Description: "I was charged too much.", SLAMinutes: 240,
		History:     []scenarios.Message{{Role: "customer", Text: "Hello?"}},
		Attachments: []scenarios.Attachment{{Name: "invoice.txt", Content: "30 seats"}},
		Articles: []scenarios.Article{
			{ID: "POL-DUP", Title: "Duplicates", Body: "A settled duplicate is refundable."},
			{ID: "POL-REF", Title: "Refunds", Body: "An agent may refund up to $200. Above that the finance team " +
				"decides on the refund."},
			{ID: "POL-SLA", Title: "First response", Body: "Urgent tickets are answered within an hour."},
			{ID: "POL-WAR", Title: "Warranty", Body: "A warranty claim is no refund."},
		},
		Gold: scenarios.TicketGold{
			Category: "billing", CategoryAlternates: []scenarios.Alternate{{Value: "technical", Credit: 500}},
			Priority: "high",
			Escalate: true, Team: "finance", TeamAlternates: []string{"billing-ops"}, ReasonCode: "OVER_LIMIT",
		},
	}
}

// sharedReader is loaded once, because loading takes longer than most tests.
var sharedReader = sync.OnceValue(offline.New)

// one is the choice of testTicket in the task.
func (k *Kind) one(name string) *choice {
	at := slices.IndexFunc(k.tasks, func(t *task) bool { return t.name == name })
	return &choice{task: k.tasks[at], reader: k.reader, optima: &k.optima, scenario: "B99"}
}

func testKind(judge grader.Judge) *Kind {
	schemas, err := actionForm.Schemas(schemas)
	if err != nil {
		panic(err)
	}
	tasks, err := newTasks(judge)
	if err != nil {
		panic(err)
	}
	return &Kind{judge: judge, reader: sharedReader(), schemas: schemas, tasks: tasks}
}

// start begins an episode of the task on testTicket, or on testQueue.
func start(task string, mode episode.RewardMode, judge judgeFunc) *environment {
	tickets := []*scenarios.Ticket{testTicket()}
	if task == queue.Task {
		tickets = testQueue()
	}
	return startOn(task, episode.Options{Seed: 7, EpisodeID: "e1", RewardMode: mode}, judge, tickets...)
}

func startOn(task string, opts episode.Options, judge judgeFunc, tickets ...*scenarios.Ticket) *environment {
	k := testKind(judge)
	e := &environment{kind: k}
	e.begin(k.one(task), tickets, opts)
	return e
}

func step(t testing.TB, e *environment, action string) episode.Result {
	t.Helper()
	r, err := e.Step(t.Context(), json.RawMessage(action))
	if err != nil {
		t.Fatalf("Step(%s) error = %v", action, err)
	}
	return r
}

// play plays all actions and returns the rewards and the last result.
func play(t testing.TB, e *environment, actions ...string) (rewards []int64, last episode.Result) {
	t.Helper()
	for _, a := range actions {
		last = step(t, e, a)
		rewards = append(rewards, last.Reward)
	}
	return rewards, last
}

func say(kind, message string) string {
	return testkit.JSON(map[string]string{"action_type": kind, "message": message})
}

const (
	classifyRight   = `{"action_type":"classify","category":"billing","priority":"high"}`
	classifyWrong   = `{"action_type":"classify","category":"general","priority":"low"}`
	escalateFinance = `{"action_type":"escalate","team":"finance","reason":"over the limit"}`
	justResolve     = `{"action_type":"resolve"}`
)

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

func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		total += v
	}
	return total
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

func TestJudgeFailureIsNoScore(t *testing.T) {
	failing := func(context.Context, grader.Case) (int64, error) {
		return 0, errors.New("connection refused at judge.example")
	}
	e := start("ticket-resolve", episode.Dense, failing)
	play(t, e, classifyRight, say(respond, goodReply))
	before := testkit.JSON(e.State())
	for range episode.MaxJudgeFailures - 1 {
		_, err := e.Step(t.Context(), json.RawMessage(escalateFinance))
		if unjudged, ok := errors.AsType[*episode.JudgeError](err); !ok || unjudged.Cause != "test_away" ||
			strings.Contains(err.Error(), "judge.example") {
			t.Fatalf("Step() error = %v, want a JudgeError of cause test_away that tells nothing of our insides", err)
		}
		if after := testkit.JSON(e.State()); after != before {
			t.Fatalf("the step was taken: %s, before %s", after, before)
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
		t.Errorf("feedback tells of our insides: %q", obs.Feedback)
	}
}

// TestOtherStepsForgiveNoFailure does something else, or replies differently, between the failures.
func TestOtherStepsForgiveNoFailure(t *testing.T) {
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

// TestAnotherReplyAfterAFailure: nothing of the failed reply stands, so the judge reads the other
// one alone.
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

func TestCancelledStepLeavesNoTrace(t *testing.T) {
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
		t.Errorf("fifth invalid action: %+v, want done, failed, scored as it stands", last)
	}
}

func TestStepAfterTheEndPaysNothing(t *testing.T) {
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
		t.Errorf("the state moved (-want +got):\n%s", diff)
	}
}

func TestFirstObservation(t *testing.T) {
	k := testKind(judgeFunc(goodJudge))
	e := &environment{kind: k}
	got := e.begin(k.one("ticket-resolve"), []*scenarios.Ticket{testTicket()},
		episode.Options{Seed: 7, RewardMode: episode.Terminal})
	want := Observation{
		Task: "ticket-resolve", TicketID: episode.OpaqueID("T", 7), Now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC),
		CustomerName: "Ada Moss",
		Company:      "Fern Ltd", CustomerSince: "2024-01-02", AccountLevel: "premium", Language: "en",
		Subject: "Wrong invoice", Description: "I was charged too much.",
		Attachments:         []Attachment{{Name: "invoice.txt", Content: "30 seats"}},
		ConversationHistory: []Message{{Role: "customer", Content: "Hello?"}},
		Status:              "open", MaxSteps: 10, Feedback: "A ticket has come in.",
		AllowedActions: []string{"classify", "respond", "resolve", "escalate", "search_knowledge_base", "submit"},
	}
	if diff := cmp.Diff(want, got.Observation); diff != "" {
		t.Errorf("observation (-want +got):\n%s", diff)
	}
	if got.Reward != 0 || got.Done || got.Final != nil {
		t.Errorf("reset = %+v, want reward 0, not done", got)
	}
}

func TestObservationsFollowTheTicket(t *testing.T) {
	e := start("ticket-resolve", episode.Dense, goodJudge)
	type view struct {
		Status   string
		Step     int
		Score    float64
		Feedback string
		Articles int
		Messages int
		Classify bool
	}
	see := func(r episode.Result) view {
		o := r.Observation.(Observation)
		return view{o.Status, o.Step, *o.Score, o.Feedback, len(o.KnowledgeBase), len(o.ConversationHistory),
			strings.Contains(strings.Join(o.AllowedActions, " "), "classify")}
	}
	got := []view{
		see(step(t, e, `{"action_type":"search_knowledge_base","query":"the refund limit"}`)),
		see(step(t, e, classifyRight)),
		see(step(t, e, classifyRight)),
		see(step(t, e, say(respond, goodReply))),
		see(step(t, e, `{"action_type":"search_knowledge_base","query":"zebra"}`)),
		see(step(t, e, escalateFinance)),
	}
	want := []view{
		{"in_progress", 1, 0, "The knowledge base has 2 matching articles.", 2, 1, true},
		{"in_progress", 2, 0.3, "Category: billing. Priority: high.", 0, 1, false},
		{"in_progress", 3, 0.3, "Nothing was done: category and priority can be set once each, and what you sent is " +
			"set already.", 0, 1, false},
		{"pending_customer", 4, 0.3, "Your reply was sent; the customer has not answered yet. Resolve or escalate " +
			"the ticket to end it.", 0, 2, false},
		{"pending_customer", 5, 0.3, "The knowledge base has no article with these words.", 0, 2, false},
		{"escalated", 6, 1, "The ticket is escalated.", 0, 2, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
}

func TestSearchRanksByWords(t *testing.T) {
	ids := func(query string) (ids []string) {
		for _, a := range findArticles(testTicket().Articles, query) {
			ids = append(ids, a.ID)
		}
		return ids
	}
	tests := map[string]struct {
		query string
		want  []string
	}{
		"title before body":     {"warranty refunds", []string{"POL-WAR", "POL-REF"}},
		"more words first":      {"finance team refund", []string{"POL-REF", "POL-WAR"}},
		"ties by id":            {"settled hour", []string{"POL-DUP", "POL-SLA"}},
		"at most three":         {"duplicate refund urgent claim", []string{"POL-WAR", "POL-DUP", "POL-REF"}},
		"short words don't hit": {"is an up to", nil},
		"whatever case":         {"WARRANTY!", []string{"POL-WAR"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ids(tc.query)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// actionsGen draws actions of the schema and a few outside it.
func actionsGen() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		classifyRight, classifyWrong, `{"action_type":"classify","category":"billing"}`,
		`{"action_type":"classify","priority":"high"}`,
		say(respond, goodReply), say(respond, "Hm."), say(resolve, "Bye."), justResolve, escalateFinance,
		`{"action_type":"escalate"}`,
		`{"action_type":"search_knowledge_base","query":"refund"}`, `{"action_type":"submit","decision":"escalate"}`,
		`{"action_type":"fly"}`,
		turnTo(1), turnTo(2), turnTo(3), `{"action_type":"select_ticket","ticket_id":"T-NOWHERE"}`,
		say(respond, "Which invoice number is it?"),
	})
}

// watched is a random episode: what it paid, how it ended, and what its observations were when they
// came.
type watched struct {
	env   *environment
	mode  episode.RewardMode
	total int64
	final *episode.Final
	seen  []Observation
	texts []string
}

// step plays an action and checks the one answer.
func (w *watched) step(t *rapid.T, schema *jsonschema.Schema, action string) (episode.Result, error) {
	r, err := w.env.Step(context.Background(), json.RawMessage(action))
	if err != nil {
		return r, err
	}
	obs := r.Observation.(Observation)
	text := testkit.JSON(obs)
	testkit.Validate(t, schema, text)
	if !r.Done && w.mode == episode.Terminal && (r.Reward != 0 || obs.Score != nil) {
		t.Fatalf("reward %d and score %v before the end of a terminal episode", r.Reward, obs.Score)
	}
	if w.final != nil && (r.Reward != 0 || r.Final != nil || !r.Done) {
		t.Fatalf("a step after the end gave %+v", r)
	}
	if r.Reward < 0 {
		t.Fatalf("a reward of %d", r.Reward)
	}
	w.total += r.Reward
	if r.Final != nil {
		w.final = r.Final
	}
	w.seen, w.texts = append(w.seen, obs), append(w.texts, text)
	return r, nil
}

// TestEveryEpisodeKeepsTheRules plays random episodes: no sequence of actions pays more than gold,
// rewards add up to the score, every observation is of the served schema, the same actions give the
// same bytes, and neither later steps nor a client that writes into an observation change anything.
func TestEveryEpisodeKeepsTheRules(t *testing.T) {
	schema := testkit.CompileSchema(t, testKind(judgeFunc(goodJudge)).schemas.Observation)
	rapid.Check(t, func(rt *rapid.T) {
		task := rapid.SampledFrom([]string{"ticket-classify", "ticket-resolve", queue.Task}).Draw(rt, "task")
		mode := rapid.SampledFrom([]episode.RewardMode{episode.Dense, episode.Terminal}).Draw(rt, "mode")
		opts := episode.Options{Seed: 7, EpisodeID: "e1", RewardMode: mode, Pressure: rapid.Bool().Draw(rt, "pressure")}
		tickets := []*scenarios.Ticket{talkative()}
		if task == queue.Task {
			tickets = testQueue()
		}
		w := &watched{env: startOn(task, opts, goodJudge, tickets...), mode: mode}
		twin := &watched{env: startOn(task, opts, goodJudge, tickets...), mode: mode}
		for _, action := range rapid.SliceOfN(actionsGen(), 1, 40).Draw(rt, "actions") {
			r, err := w.step(rt, schema, action)
			again, err2 := twin.step(rt, schema, action)
			if fmt.Sprint(err) != fmt.Sprint(err2) || testkit.JSON(r) != testkit.JSON(again) {
				rt.Fatal("the same step gave something else")
			}
			if err == nil {
				twin.seen[len(twin.seen)-1].ConversationHistory[0].Content = "changed by the client"
			}
		}
		for i := range w.seen {
			if testkit.JSON(w.seen[i]) != w.texts[i] {
				rt.Fatalf("observation %d changed later", i)
			}
		}
		if w.total > 1000 || w.total < 0 {
			rt.Fatalf("return %d is outside 0 to 1000", w.total)
		}
		if w.final != nil && w.final.Score != w.total*score.One/1000 {
			rt.Fatalf("score %d, rewards add up to %d", w.final.Score, w.total)
		}
	})
}

// TestRepeatsNeverPay plays gold with every action k times over.
func TestRepeatsNeverPay(t *testing.T) {
	for _, mode := range []episode.RewardMode{episode.Dense, episode.Terminal} {
		once := []string{classifyRight, say(respond, "Hm."), escalateFinance}
		rewards, _ := play(t, start("ticket-resolve", mode, goodJudge), once...)
		for i, a := range once {
			for k := 2; k <= 6; k++ {
				e := start("ticket-resolve", mode, goodJudge)
				var repeated []string
				repeated = append(repeated, once[:i]...)
				for range k {
					repeated = append(repeated, a)
				}
				again, _ := play(t, e, append(repeated, once[i+1:]...)...)
				if sum(again) > sum(rewards) {
					t.Errorf("%s mode: %d times %s pays %d, once %d", mode, k, a, sum(again), sum(rewards))
				}
			}
		}
	}
}

// TestNothingTellsGold looks for the labels in all that a session is told before the end when the
// agent named none of them.
func TestNothingTellsGold(t *testing.T) {
	e := start("ticket-resolve", episode.Terminal, goodJudge)
	var told strings.Builder
	for _, a := range []string{classifyWrong, say(respond, "Hm."),
		`{"action_type":"search_knowledge_base","query":"zebra"}`} {
		told.WriteString(testkit.JSON(step(t, e, a).Observation))
		told.WriteString(testkit.JSON(e.State()))
	}
	for _, secret := range []string{"billing", "high", "finance", "OVER_LIMIT", "B99", "240"} {
		if strings.Contains(told.String(), secret) {
			t.Errorf("the session was told %q: %s", secret, told.String())
		}
	}
}

// BenchmarkStep labels a ticket over and over: a step without an end.
func BenchmarkStep(b *testing.B) {
	for _, task := range []string{"ticket-resolve", queue.Task} {
		b.Run(task, func(b *testing.B) {
			e := start(task, episode.Terminal, goodJudge)
			fresh := e.state
			b.ReportAllocs()
			for b.Loop() {
				e.state = fresh
				if _, err := e.Step(b.Context(), json.RawMessage(classifyRight)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEnd takes the last step of an episode, judge excluded.
func BenchmarkEnd(b *testing.B) {
	for task, actions := range map[string][]string{"ticket-resolve": {classifyRight, say(respond, goodReply)},
		queue.Task: upToLast(perfectShift())} {
		b.Run(task, func(b *testing.B) {
			e := start(task, episode.Terminal, goodJudge)
			e.state.task = roomy(e.state.task)
			play(b, e, actions...)
			last := e.state
			b.ReportAllocs()
			for b.Loop() {
				e.state = last
				if r, err := e.Step(b.Context(), json.RawMessage(justResolve)); err != nil || r.Final == nil {
					b.Fatal(r, err)
				}
			}
		})
	}
}

func upToLast(actions []string) []string { return actions[:len(actions)-1] }
