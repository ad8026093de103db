package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// testQueue returns five tickets, three of which should be escalated. All are about billing and for
// the team finance.
func testQueue() []*scenarios.Ticket {
	cases := []queue.Case{{Priority: "low"}, {Priority: "urgent", Escalate: true}, {Priority: "high"},
		{Priority: "medium", Escalate: true}, {Priority: "high", Escalate: true}}
	tickets := make([]*scenarios.Ticket, len(cases))
	for i, c := range cases {
		t := talkative()
		t.ScenarioID, t.Subject = fmt.Sprintf("B9%d", i), fmt.Sprintf("Matter %d", i)
		t.Gold.Priority, t.Gold.Escalate, t.Gold.CategoryAlternates = c.Priority, c.Escalate, nil
		if !c.Escalate {
			t.Gold.Team = ""
		}
		tickets[i] = t
	}
	return tickets
}

func testCases() [queue.Size]queue.Case {
	var cases [queue.Size]queue.Case
	for i, t := range testQueue() {
		cases[i] = queue.CaseOf(&t.Served)
	}
	return cases
}

// turnTo selects a ticket of a queue with seed 7.
func turnTo(place int) string {
	return `{"action_type":"select_ticket","ticket_id":"` + ticketID("", 7, place) + `"}`
}

func labels(category, priority string) string {
	return fmt.Sprintf(`{"action_type":"classify","category":%q,"priority":%q}`, category, priority)
}

// actionsOf returns the actions of a schedule with perfect answers.
func actionsOf(tickets []*scenarios.Ticket, acts []queue.Act) []string {
	var actions []string
	for _, a := range acts {
		gold := tickets[a.Ticket].Gold
		actions = append(actions, turnTo(a.Ticket))
		switch a.Kind {
		case queue.Category:
			actions = append(actions, `{"action_type":"classify","category":"`+gold.Category+`"}`)
		case queue.Priority:
			actions = append(actions, `{"action_type":"classify","priority":"`+gold.Priority+`"}`)
		case queue.Reply:
			actions = append(actions, say(respond, goodReply))
		case queue.Resolve:
			actions = append(actions, justResolve)
		case queue.Escalate:
			actions = append(actions, escalateFinance)
		}
	}
	return actions
}

// perfectShift is the best schedule, followed by the resolution of the remaining tickets until the
// end of the shift.
func perfectShift() []string {
	acts := queue.FindBestSchedule(testCases()).Acts
	actions := actionsOf(testQueue(), acts)
	for place := range queue.Size {
		if !slices.ContainsFunc(acts, func(a queue.Act) bool { return a.Ticket == place && a.Kind >= queue.Resolve }) {
			actions = append(actions, turnTo(place), justResolve)
		}
	}
	e := start(tasks.QueueManagement, episode.Terminal, goodJudge)
	e.state.task = roomy(e.state.task)
	for i, a := range actions {
		if r, err := e.Step(context.Background(), json.RawMessage(a)); err != nil || r.Done {
			return actions[:i+1]
		}
	}
	return actions
}

func TestPerfectShiftScoresOne(t *testing.T) {
	for _, mode := range []episode.RewardMode{episode.Dense, episode.Terminal} {
		e := start(tasks.QueueManagement, mode, goodJudge)
		e.state.task = roomy(e.state.task)
		rewards, last := play(t, e, perfectShift()...)
		if last.Final == nil || last.Final.Outcome != score.Scored || last.Final.Score != score.One ||
			sum(rewards) != 1000 {
			t.Fatalf("%s: %d, %+v, want scored with 1", mode, sum(rewards), last.Final)
		}
		if got := last.Final; got.Scenario != "B99" || got.Category != "queue" || got.Judge != "test-judge" ||
			len(got.Verdicts) != 4 {
			t.Errorf("final = %+v with %d verdicts, want the queue's with 4: the fifth reply does not fit", got,
				len(got.Verdicts))
		}
	}
}

// TestShiftFollowsItsSchedule plays many schedules in the environment and compares the rewards with
// package queue.
func TestShiftFollowsItsSchedule(t *testing.T) {
	cases := testCases()
	par := queue.FindBestSchedule(cases).WeightedScore
	for _, order := range [][queue.Size]int{{0, 1, 2, 3, 4}, {1, 4, 2, 3, 0}, {0, 3, 2, 4, 1}, {4, 3, 2, 1, 0},
		{2, 0, 4, 1, 3}} {
		for name, acts := range map[string][]queue.Act{"one by one": queue.OneByOne(cases, order),
			"labels first": queue.LabelsFirst(cases, order)} {
			worth, _ := queue.PlayActs(cases, acts)
			e := start(tasks.QueueManagement, episode.Dense, goodJudge)
			e.state.task = roomy(e.state.task)
			rewards, _ := play(t, e, actionsOf(testQueue(), acts)...)
			if want := (2*1000*worth + par) / (2 * par); sum(rewards) != want {
				t.Errorf("%s %v: the environment pays %d, want %d", name, order, sum(rewards), want)
			}
		}
	}
}

// roomy returns the task with enough steps for a selection before every act.
func roomy(t *task) *task {
	c := *t
	c.MaxSteps = 200
	return &c
}

func TestFirstObservationOfAQueue(t *testing.T) {
	k := testKind(judgeFunc(goodJudge))
	e := &environment{kind: k}
	got := begin(e, tasks.QueueManagement, testQueue(), episode.Options{Seed: 7,
		RewardMode: episode.Terminal}).Observation.(Observation)
	zero := 0
	want := &QueueStatus{MinutesLeft: 36, EscalationsLeft: 2}
	for i := range queue.Size {
		want.Queue = append(want.Queue, QueuedTicket{TicketID: ticketID("", 7, i), Subject: fmt.Sprintf("Matter %d", i),
			AccountLevel: "premium", Status: "open"})
	}
	if diff := cmp.Diff(want, got.QueueStatus); diff != "" {
		t.Errorf("shift (-want +got):\n%s", diff)
	}
	if got.TicketID != ticketID("", 7, 0) || got.Subject != "Matter 0" || got.MaxSteps != 40 ||
		!cmp.Equal(got.ClockMinutes, &zero) {
		t.Errorf("observation = %+v, want the first ticket of the queue", got)
	}
	testkit.ValidateJSON(t, testkit.CompileSchema(t, k.schemas.Observation), testkit.EncodeJSON(got))
}

func TestShiftRules(t *testing.T) {
	type view struct {
		Feedback string
		Minutes  int
		Slots    int
	}
	refused := func(why string, minutes, slots int) view { return view{"Nothing was done: " + why, minutes, slots} }
	tests := map[string]struct {
		actions []string
		want    view
	}{
		"labels cost a minute each": {[]string{labels("billing", "low")}, view{"Category: billing. Priority: low.", 34,
			2}},
		"selecting is free": {[]string{turnTo(3)}, view{"This is ticket " + ticketID("", 7, 3) + ", open.", 36,
			2}},
		"searching is free": {[]string{`{"action_type":"search_knowledge_base","query":"zebra"}`},
			view{"The knowledge base has no article with these words.", 36, 2}},
		"a reply costs five": {[]string{say(respond, goodReply)},
			view{"Your reply was sent, and the customer has answered. Reply again, or resolve or escalate the ticket " +
				"to end it.", 31, 2}},
		"a last reply costs six":     {[]string{say(resolve, goodReply)}, view{"The ticket is resolved.", 30, 2}},
		"an escalation costs a slot": {[]string{escalateFinance}, view{"The ticket is escalated.", 34, 1}},
		"all at once costs the sum": {
			[]string{
				`{"action_type":"submit","category":"billing","priority":"low","message":"x","decision":"escalate"}`},
			view{"The ticket is escalated.", 27, 1}},
		"undecided stays open": {[]string{`{"action_type":"submit","priority":"low"}`},
			view{"Your answer was taken; the ticket stays open, for you did not decide to resolve or to escalate it.",
				35, 2}},
		"closed is closed": {[]string{justResolve, labels("billing", "low")},
			refused("ticket "+ticketID("", 7, 0)+" is resolved. Select another one.", 35, 2)},
		"two escalations": {[]string{escalateFinance, turnTo(1), escalateFinance, turnTo(2),
			escalateFinance}, refused("no escalation is left in this shift.", 32, 0)},
		"two escalations, all at once": {
			[]string{escalateFinance, turnTo(1), escalateFinance, turnTo(2),
				`{"action_type":"submit","decision":"escalate","message":"x"}`},
			refused("no escalation is left in this shift.", 32, 0),
		},
		"no such ticket": {[]string{`{"action_type":"select_ticket","ticket_id":"B90"}`},
			refused("the queue has no ticket of this id.", 36, 2)},
		"too long": {
			[]string{say(respond, "1"), say(respond, "2"), say(respond, "3"), say(respond, "4"), say(respond, "5"),
				say(respond, "6"), say(respond, "7"), say(resolve, "8")},
			refused("this takes 6 minutes and 1 are left.", 1, 2),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, last := play(t, start(tasks.QueueManagement, episode.Terminal, goodJudge), tc.actions...)
			o := last.Observation.(Observation)
			if diff := cmp.Diff(tc.want, view{o.Feedback, o.MinutesLeft, o.EscalationsLeft}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if *o.ClockMinutes != queue.Minutes-o.MinutesLeft || last.Done {
				t.Errorf("clock %d, %d left, done %v", *o.ClockMinutes, o.MinutesLeft, last.Done)
			}
		})
	}
}

func TestShiftEnds(t *testing.T) {
	closing := []string{}
	for i := range queue.Size {
		closing = append(closing, turnTo(i), justResolve)
	}
	replies := slices.Repeat([]string{say(respond, "Hm.")}, 7)
	tests := map[string]struct {
		actions []string
		outcome score.Outcome
		message string
	}{
		"all closed": {actions: closing, outcome: score.Scored, message: "The ticket is resolved."},
		"out of minutes": {actions: append(replies, `{"action_type":"classify","priority":"low"}`),
			outcome: score.Scored,
			message: "The minutes have run out."},
		"out of steps": {actions: slices.Repeat([]string{turnTo(1)}, 40), outcome: score.Failed,
			message: "The steps have run out."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := start(tasks.QueueManagement, episode.Terminal, goodJudge)
			play(t, e, upToLast(tc.actions)...)
			if e.state.outcome != "" {
				t.Fatal("the shift is over before its last action")
			}
			last := step(t, e, tc.actions[len(tc.actions)-1])
			if last.Final == nil || last.Final.Outcome != tc.outcome ||
				!strings.Contains(last.Observation.(Observation).Feedback, tc.message) {
				t.Errorf("last = %+v, want %s: %s", last, tc.outcome, tc.message)
			}
		})
	}
}

// TestMinutesToSLAFollowsTheAgentsLabel checks that it doesn't follow gold: the first ticket's
// priority is low.
func TestMinutesToSLAFollowsTheAgentsLabel(t *testing.T) {
	e := start(tasks.QueueManagement, episode.Terminal, goodJudge)
	see := func(action string) string {
		q := step(t, e, action).Observation.(Observation).Queue[0]
		if q.MinutesToSLA == nil {
			return fmt.Sprint("none ", q.WaitingMinutes)
		}
		return fmt.Sprint(*q.MinutesToSLA, " ", q.WaitingMinutes)
	}
	var got []string
	for _, a := range []string{
		`{"action_type":"classify","category":"billing"}`, `{"action_type":"classify","priority":"urgent"}`,
		`{"action_type":"classify","priority":"medium"}`, say(respond, "Hm."),
		`{"action_type":"classify","category":"billing"}`,
	} {
		got = append(got, see(a))
	}
	if diff := cmp.Diff([]string{"none 1", "8 2", "42 3", "none 8", "none 8"}, got); diff != "" {
		t.Errorf("minutes to SLA and waiting (-want +got):\n%s", diff)
	}
}

// TestWhatTheBestLeavesCostsNoPass ends tickets of a shift of which the best schedules leave a high
// one.
func TestWhatTheBestLeavesCostsNoPass(t *testing.T) {
	const right, left, unclosed, wrongReply, wrongDecision = "right", "left", "unclosed", "wrong reply", "wrong decision"
	tests := map[string]struct {
		urgent, high, other, low string
		want                     bool
	}{
		"all right":             {right, right, right, right, false},
		"what the best leaves":  {right, right, left, left, false},
		"an equally good one":   {right, left, right, left, false},
		"answered alone":        {right, right, unclosed, left, false},
		"both":                  {right, left, left, right, true},
		"more than it leaves":   {left, right, right, right, true},
		"a wrong reply":         {right, right, wrongReply, right, true},
		"a wrong decision":      {right, right, wrongDecision, right, true},
		"a low one in a hurry":  {right, right, left, wrongReply, false},
		"a low one sent astray": {right, right, right, wrongDecision, false},
	}
	for name, tt := range tests {
		tickets := testQueue()[:4]
		s := &state{task: testKind(judgeFunc(goodJudge)).one(tasks.QueueManagement).task,
			optimum: queue.Optimum{Left: queue.PriorityWeight("high")}}
		for i, how := range []string{tt.urgent, tt.high, tt.other, tt.low} {
			tickets[i].Gold.Priority, tickets[i].Gold.Escalate = []string{"urgent", "high", "high", "low"}[i], false
			one := ticketState{ticket: &scenarios.DrawnTicket{Served: tickets[i].Served}, status: statusResolved,
				verdict: &grader.Verdict{Status: grader.StatusOK, Right: how != wrongReply}}
			switch how {
			case left:
				one.status, one.verdict = statusOpen, nil
			case unclosed:
				one.status = statusPending
			case wrongDecision:
				one.status = statusEscalated
			}
			s.tickets = append(s.tickets, one)
		}
		if got := s.isWrong(); got != tt.want {
			t.Errorf("%s: wrong is %v, want %v", name, got, tt.want)
		}
	}
}

func TestShiftDimensions(t *testing.T) {
	// The urgent ticket (weight 4 of 13) is handled perfectly and in time; the low one (1 of 13)
	// gets a wrong label and a late decision without a reply.
	actions := []string{turnTo(1), labels("billing", "urgent"), say(respond, goodReply), escalateFinance, turnTo(0),
		labels("general", "urgent"), justResolve}
	e := start(tasks.QueueManagement, episode.Terminal, goodJudge)
	play(t, e, actions...)
	last := step(t, e, `{"action_type":"search_knowledge_base","query":"zebra"}`)
	for last.Final == nil {
		last = step(t, e, turnTo(2))
	}
	want := []score.Dimension{
		{Name: "category", Earned: 62, Offered: 200}, {Name: "priority", Earned: 31, Offered: 100},
		{Name: "escalation", Earned: 77, Offered: 200},
		{Name: "response", Earned: 154, Offered: 500}, {Name: "timeliness", Earned: 185, Offered: 600},
	}
	if diff := cmp.Diff(want, last.Final.Dimensions); diff != "" {
		t.Errorf("dimensions (-want +got):\n%s", diff)
	}
}

// TestRepeatsNeverPayInAQueue repeats every action of a shift.
func TestRepeatsNeverPayInAQueue(t *testing.T) {
	once := []string{turnTo(1), labels("billing", "urgent"), say(respond, goodReply), escalateFinance, turnTo(2),
		say(respond, goodReply), justResolve}
	earned := func(actions []string) int64 {
		e := start(tasks.QueueManagement, episode.Dense, goodJudge)
		var total int64
		for e.state.outcome == "" {
			a := turnTo(0)
			if len(actions) > 0 {
				a, actions = actions[0], actions[1:]
			}
			total += step(t, e, a).Reward
		}
		return total
	}
	most := earned(once)
	for i, a := range once {
		for k := 1; k <= 3; k++ {
			if got := earned(slices.Insert(slices.Clone(once), i, slices.Repeat([]string{a}, k)...)); got > most {
				t.Errorf("%d more %s pays %d, without them %d", k, a, got, most)
			}
		}
	}
}

// TestUnjudgedTicketOfAQueue has the judge fail when a ticket is closed: the action has no effect,
// and no reply is judged twice.
func TestUnjudgedTicketOfAQueue(t *testing.T) {
	calls, failures := 0, 0
	judge := func(ctx context.Context, c grader.Case) (int64, error) {
		calls++
		if calls == 2 {
			failures++
			return 0, errors.New("busy")
		}
		return goodJudge(ctx, c)
	}
	e := start(tasks.QueueManagement, episode.Dense, judge)
	play(t, e, say(resolve, goodReply), turnTo(2), say(respond, goodReply))
	if _, err := e.Step(t.Context(), json.RawMessage(justResolve)); err == nil {
		t.Fatal("a judge that failed gave no error")
	}
	if r := step(t, e, justResolve); r.Reward <= 0 || r.Observation.(Observation).Status != "resolved" {
		t.Errorf("the same action again gave %+v", r)
	}
	play(t, e, turnTo(1), justResolve, turnTo(3), justResolve, turnTo(4), justResolve)
	if calls != 3 || failures != 1 {
		t.Errorf("the judge was called %d times, want 3: once for each ticket with a reply, and one repetition", calls)
	}
}

// TestVerdictResetsTheCountOfFailures checks that only failures since the last verdict count
// towards the end of an episode, also in a queue.
func TestVerdictResetsTheCountOfFailures(t *testing.T) {
	failing := true
	judge := func(ctx context.Context, c grader.Case) (int64, error) {
		if failing {
			return 0, errors.New("busy")
		}
		return goodJudge(ctx, c)
	}
	e := start(tasks.QueueManagement, episode.Terminal, judge)
	unjudged := func() {
		t.Helper()
		for range episode.MaxJudgeFailures - 1 {
			if _, err := e.Step(t.Context(), json.RawMessage(say(resolve, "Hm."))); err == nil {
				t.Fatal("a judge that failed gave no error")
			}
		}
	}
	unjudged()
	failing = false
	play(t, e, say(resolve, goodReply), turnTo(1))
	failing = true
	unjudged()
	play(t, e, turnTo(2), justResolve, turnTo(1))
	if last := step(t, e, say(resolve, "Hm.")); last.Final == nil || last.Final.Outcome != score.Errored {
		t.Errorf("last = %+v, want errored: no verdict came in between", last)
	}
}

// limitedJudge is a judge whose judgements take at most a time. It notes the deadline of each.
type limitedJudge struct {
	judgeFunc
	deadlines []time.Time
}

func (*limitedJudge) Timeout() time.Duration { return time.Hour }

func (j *limitedJudge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	deadline, _ := ctx.Deadline()
	j.deadlines = append(j.deadlines, deadline)
	return j.judgeFunc.Judge(ctx, c)
}

// All replies that a step judges share the time of one judgement, so that a step of a queue takes
// no longer than that of a ticket.
func TestQueueSharesTheDeadline(t *testing.T) {
	e := start(tasks.QueueManagement, episode.Terminal, goodJudge)
	for place := range 3 {
		play(t, e, turnTo(place), say(respond, goodReply))
	}
	judge := &limitedJudge{judgeFunc: goodJudge}
	s := *e.state
	s.tickets = slices.Clone(s.tickets)
	s.outcome = score.Scored // the shift is over
	if err := s.judgeReplies(t.Context(), judge); err != nil {
		t.Fatal(err)
	}
	if n := len(judge.deadlines); n != 3 || judge.deadlines[0].IsZero() || !judge.deadlines[0].Equal(judge.deadlines[n-1]) {
		t.Errorf("the judgements of one step end at %v", judge.deadlines)
	}
}
