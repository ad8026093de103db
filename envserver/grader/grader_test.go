package grader

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// overbilled returns a ticket for the team finance.
func overbilled() *scenarios.Ticket {
	return &scenarios.Ticket{Served: scenarios.Served{ScenarioID: "B07", Gold: scenarios.TicketGold{
		Category: "billing", CategoryAlternates: []scenarios.Alternate{{Value: "general", Credit: 500}},
		Priority: "high", PriorityAlternates: []scenarios.Alternate{{Value: "medium", Credit: 333}},
		Escalate: true, Team: "finance", TeamAlternates: []string{"billing-ops"},
	}}}
}

func TestGradeTicket(t *testing.T) {
	verdict := Verdict{Status: StatusOK, PostGate: 430}
	tests := map[string]struct {
		task      string
		decisions Decisions
		want      []int64
	}{
		"gold": {tasks.TicketResolve, Decisions{"billing", "high", Escalated, "finance"},
			[]int64{200, 100, 200, 430}},
		"alternate category": {tasks.TicketResolve, Decisions{"general", "high", Escalated, "finance"},
			[]int64{100, 100, 200, 430}},
		"alternate priority": {tasks.TicketResolve, Decisions{"billing", "medium", Escalated, "finance"},
			[]int64{200, 33, 200, 430}},
		"adjacent priority": {tasks.TicketResolve, Decisions{"billing", "urgent", Escalated, "finance"},
			[]int64{200, 0, 200, 430}},
		"alternate team": {tasks.TicketResolve, Decisions{"billing", "high", Escalated, "billing-ops"},
			[]int64{200, 100, 200, 430}},
		"wrong team": {tasks.TicketResolve, Decisions{"billing", "high", Escalated, "legal"},
			[]int64{200, 100, 100, 430}},
		"no team": {tasks.TicketResolve, Decisions{"billing", "high", Escalated, ""},
			[]int64{200, 100, 100, 430}},
		"resolved": {tasks.TicketResolve, Decisions{"billing", "high", Resolved, ""},
			[]int64{200, 100, 0, 430}},
		"left open":               {tasks.TicketResolve, Decisions{"billing", "high", Open, ""}, []int64{200, 100, 0, 430}},
		"nothing":                 {tasks.TicketResolve, Decisions{}, []int64{0, 0, 0, 430}},
		"classify omits the rest": {tasks.TicketClassify, Decisions{"billing", "high", Resolved, ""}, []int64{200, 100}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dims, err := GradeTicket(&overbilled().Served, tc.task, tc.decisions, verdict)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, d := range dims {
				got = append(got, d.Earned)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGradeTicketResolvedByAgent(t *testing.T) {
	for ending, want := range map[Ending]int64{Resolved: 200, Escalated: 0, Open: 0} {
		if got := gradeEscalation(scenarios.TicketGold{}, Decisions{Ending: ending, Team: "finance"}); got != want {
			t.Errorf("ending %q earned %d, want %d", ending, got, want)
		}
	}
}

func TestGradeTicketRefuses(t *testing.T) {
	for name, v := range map[string]Verdict{"no verdict": {}, "failure": {Judge: "llm:x", Status: StatusError,
		Cause: CauseFailed},
		"failure with points": {Status: StatusError, PostGate: 250}} {
		if dims, err := GradeTicket(&overbilled().Served, tasks.TicketResolve, Decisions{}, v); !errors.Is(err, ErrUnjudged) ||
			dims != nil {
			t.Errorf("%s: got %v, %v, want no score and ErrUnjudged", name, dims, err)
		}
	}
	if _, err := GradeTicket(&overbilled().Served, tasks.TicketClassify, Decisions{}, Verdict{}); err != nil {
		t.Errorf("a task without a reply requires no verdict, got %v", err)
	}
	if _, err := GradeTicket(&overbilled().Served, "ticket-sing", Decisions{}, Verdict{Status: StatusOK}); err == nil {
		t.Error("an unknown task was graded")
	}
}

func TestEpisodeScore(t *testing.T) {
	tests := map[string]struct {
		dims []score.Dimension
		want int64
	}{
		"nothing offered": {nil, 0},
		"all":             {[]score.Dimension{{Earned: 200, Offered: 200}, {Earned: 100, Offered: 100}}, score.One},
		"two thirds":      {[]score.Dimension{{Earned: 200, Offered: 200}, {Earned: 0, Offered: 100}}, 666_667},
		"one third":       {[]score.Dimension{{Earned: 0, Offered: 200}, {Earned: 100, Offered: 100}}, 333_333},
		"half a unit":     {[]score.Dimension{{Earned: 1, Offered: 2_000_000}}, 1},
		"below zero":      {[]score.Dimension{{Earned: -10, Offered: 100}}, 0},
		"above one":       {[]score.Dimension{{Earned: 110, Offered: 100}}, score.One},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := EpisodeScore(tc.dims); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestEpisodeScoreProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decisions := Decisions{
			Category: rapid.SampledFrom([]string{"", "billing", "general", "shipping"}).Draw(t, "category"),
			Priority: rapid.SampledFrom([]string{"", "low", "medium", "high", "urgent"}).Draw(t, "priority"),
			Ending:   rapid.SampledFrom([]Ending{Open, Resolved, Escalated}).Draw(t, "ending"),
			Team:     rapid.SampledFrom([]string{"", "finance", "legal"}).Draw(t, "team"),
		}
		ticket := overbilled()
		ticket.Gold.CategoryAlternates = []scenarios.Alternate{
			{Value: "general", Credit: rapid.Int64().Draw(t, "credit")}}
		dims, err := GradeTicket(&ticket.Served, tasks.TicketResolve, decisions,
			Verdict{Status: StatusCached, PostGate: rapid.Int64().Draw(t, "reply")})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dims {
			if d.Earned < 0 || d.Earned > d.Offered {
				t.Errorf("%s earned %d of %d", d.Name, d.Earned, d.Offered)
			}
		}
		if s := EpisodeScore(dims); s < 0 || s > score.One {
			t.Errorf("score %d is outside [0, One]", s)
		}
	})
}
