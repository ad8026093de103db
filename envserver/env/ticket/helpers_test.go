package ticket

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// judgeFunc is a judge made of a function that gives points.
type judgeFunc func(ctx context.Context, c grader.Case) (int64, error)

func (f judgeFunc) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	points, err := f(ctx, c)
	if err != nil {
		return grader.Verdict{Status: grader.StatusError, Cause: "test_away"}, err
	}
	return grader.Verdict{Judge: "test-judge", Status: grader.StatusOK, PostGate: points}, nil
}

// goodReply is the text for which goodJudge gives full points; it gives 100 for any other.
const goodReply = "Dear Ada, our finance team will refund $300.00."

func goodJudge(_ context.Context, c grader.Case) (int64, error) {
	if c.Reply == goodReply {
		return 500, nil
	}
	return 100, nil
}

func testTicket() *scenarios.Ticket {
	return &scenarios.Ticket{
		Served: scenarios.Served{ScenarioID: "B99", Now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC), Language: "en",
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
			}},
	}
}

// sharedReader is loaded once, because loading takes longer than most tests.
var sharedReader = sync.OnceValue(offline.New)

// one returns the choice of testTicket in the task.
func (k *Kind) one(name string) *choice {
	at := slices.IndexFunc(k.tasks, func(t *task) bool { return t.Name == name })
	return &choice{task: k.tasks[at], reader: k.reader, optima: &k.optima, library: &k.library, scenario: "B99"}
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
	if task == tasks.QueueManagement {
		tickets = testQueue()
	}
	return startOn(task, episode.Options{Seed: 7, EpisodeID: "e1", RewardMode: mode}, judge, tickets...)
}

func startOn(task string, opts episode.Options, judge judgeFunc, tickets ...*scenarios.Ticket) *environment {
	k := testKind(judge)
	e := &environment{kind: k}
	begin(e, task, tickets, opts)
	return e
}

// begin begins an episode on tickets that are complete.
func begin(e *environment, task string, tickets []*scenarios.Ticket, opts episode.Options) episode.Result {
	drawn := make([]*scenarios.DrawnTicket, len(tickets))
	for i, t := range tickets {
		drawn[i] = &scenarios.DrawnTicket{Served: t.Served,
			Complete: func() (*scenarios.Ticket, error) { return t, nil }}
	}
	return e.beginEpisode(e.kind.one(task), &drawn, opts)
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
	return testkit.EncodeJSON(map[string]string{"action_type": kind, "message": message})
}

const (
	classifyRight   = `{"action_type":"classify","category":"billing","priority":"high"}`
	classifyWrong   = `{"action_type":"classify","category":"general","priority":"low"}`
	escalateFinance = `{"action_type":"escalate","team":"finance","reason":"over the limit"}`
	justResolve     = `{"action_type":"resolve"}`
)

func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		total += v
	}
	return total
}

// step plays an action and checks its result.
func (w *watched) step(t *rapid.T, schema *jsonschema.Schema, action string) (episode.Result, error) {
	r, err := w.env.Step(context.Background(), json.RawMessage(action))
	if err != nil {
		return r, err
	}
	obs := r.Observation.(Observation)
	text := testkit.EncodeJSON(obs)
	testkit.ValidateJSON(t, schema, text)
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
