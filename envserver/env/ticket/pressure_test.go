package ticket

import (
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

func TestPressure(t *testing.T) {
	tests := map[string]struct {
		priority string
		actions  []string
		want     int64
	}{
		"in time": {priority: "urgent", actions: []string{labels("billing", "urgent"), say(respond, goodReply),
			escalateFinance}, want: 1000},
		"three searches": {priority: "urgent", actions: append(searches(3), labels("billing", "urgent"),
			say(respond, goodReply),
			escalateFinance), want: 1000},
		"six searches": {priority: "urgent", actions: append(searches(6), labels("billing", "urgent"),
			say(respond, goodReply),
			escalateFinance), want: 820},
		"not urgent": {priority: "high", actions: append(searches(6), labels("billing", "high"),
			say(respond, goodReply),
			escalateFinance), want: 1000},
		"never": {priority: "urgent", actions: []string{labels("billing", "urgent"), escalateFinance}, want: 200},
		"second reply later": {priority: "urgent", actions: []string{say(respond, goodReply), say(respond, goodReply),
			escalateFinance},
			want: 300},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []episode.RewardMode{episode.Dense, episode.Terminal} {
				ticket := testTicket()
				ticket.Gold.Priority = tc.priority
				e := startOn("ticket-resolve", episode.Options{Seed: 7, RewardMode: mode, Pressure: true}, goodJudge,
					ticket)
				rewards, last := play(t, e, tc.actions...)
				if sum(rewards) != tc.want || last.Final.Score != tc.want*1000 {
					t.Errorf("%s: rewards %v, score %d, want %d", mode, rewards, last.Final.Score, tc.want)
				}
				if d := last.Final.Dimensions[4]; d.Name != "timeliness" || d.Offered != 600 {
					t.Errorf("the last dimension is %+v, want timeliness", d)
				}
				if s := e.State().(State); !s.Pressure || s.ClockMinutes == 0 {
					t.Errorf("state = %+v, want pressure and a clock", s)
				}
			}
		})
	}
}

// TestRewardsDoNotRevealPriority plays tickets that differ only in their true priority. The
// rewards before both labels are set must be the same, and the rewards that were held back are
// paid after that.
func TestRewardsDoNotRevealPriority(t *testing.T) {
	category, late := `{"action_type":"classify","category":"billing"}`, append(searches(6), say(respond, goodReply))
	tests := map[string]struct {
		task    string
		actions []string
	}{
		"category in a queue": {tasks.QueueManagement, []string{category}},
		"reply in a queue": {tasks.QueueManagement, []string{say(respond, "Hm."), say(respond, "Hm."), category,
			say(respond, "Hm.")}},
		"late reply under pressure":   {"ticket-resolve", append(slices.Clone(late), category)},
		"late reply after a category": {"ticket-resolve", append([]string{category}, late...)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, priority := range []string{"low", "medium", "high", "urgent"} {
				tickets := []*scenarios.Ticket{testTicket()}
				if tc.task == tasks.QueueManagement {
					tickets = testQueue()
				}
				tickets[0].Gold.Priority = priority
				e := startOn(tc.task, episode.Options{Seed: 7, RewardMode: episode.Dense, Pressure: true}, goodJudge,
					tickets...)
				if rewards, _ := play(t, e, tc.actions...); sum(rewards) != 0 {
					t.Errorf("%s: rewards %v before the priority is set", priority, rewards)
				}
				if r := step(t, e, `{"action_type":"classify","priority":"`+priority+`"}`); r.Reward <= 0 {
					t.Errorf("%s: both labels are set and pay %d", priority, r.Reward)
				}
			}
		})
	}
}

// TestClosedTicketPaysItsOnlyLabel closes a ticket of a queue that has only one label.
func TestClosedTicketPaysItsOnlyLabel(t *testing.T) {
	for _, label := range []string{`{"action_type":"classify","category":"billing"}`,
		`{"action_type":"classify","priority":"low"}`} {
		rewards, _ := play(t, start(tasks.QueueManagement, episode.Dense, goodJudge), label, justResolve)
		_, last := play(t, start(tasks.QueueManagement, episode.Dense, goodJudge), justResolve)
		if rewards[0] != 0 || rewards[1] <= last.Reward {
			t.Errorf("%s and closing pay %v, want nothing and then more than the %d of closing", label, rewards,
				last.Reward)
		}
	}
}

func searches(n int) []string {
	return slices.Repeat([]string{`{"action_type":"search_knowledge_base","query":"refund"}`}, n)
}

func TestNoPressureByDefault(t *testing.T) {
	for task, opts := range map[string]episode.Options{"ticket-resolve": {Seed: 7},
		"ticket-classify": {Seed: 7, Pressure: true}} {
		e := startOn(task, opts, goodJudge, testTicket())
		r := step(t, e, `{"action_type":"search_knowledge_base","query":"refund"}`)
		if r.Observation.(Observation).ClockMinutes != nil || e.State().(State).ClockMinutes != 0 ||
			e.State().(State).Pressure {
			t.Errorf("%s runs a clock", task)
		}
	}
}
