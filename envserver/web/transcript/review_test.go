package transcript

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

func TestWrongEnding(t *testing.T) {
	due := scenarios.TicketGold{Escalate: true, Team: "finance", TeamAlternates: []string{"billing-ops"},
		ReasonCode: "OVER_LIMIT", Policy: "POL-REF#2"}
	tests := map[string]struct {
		given grader.Decisions
		gold  scenarios.TicketGold
		want  string
	}{
		"open":     {grader.Decisions{}, due, "neither resolved nor escalated"},
		"needless": {grader.Decisions{Ending: grader.Escalated}, scenarios.TicketGold{}, "an agent may settle it"},
		"beyond an agent": {grader.Decisions{Ending: grader.Resolved}, due,
			`it exceeds an agent's authority: over limit, by the article "Refunds" (POL-REF#2)`},
		"settled":        {grader.Decisions{Ending: grader.Resolved}, scenarios.TicketGold{}, ""},
		"the team":       {grader.Decisions{Ending: grader.Escalated, Team: "finance"}, due, ""},
		"its other name": {grader.Decisions{Ending: grader.Escalated, Team: "billing-ops"}, due, ""},
		"no team":        {grader.Decisions{Ending: grader.Escalated}, due, "no team is named"},
		"another team":   {grader.Decisions{Ending: grader.Escalated, Team: "trade"}, due, "another team is responsible"},
	}
	for name, tt := range tests {
		if got := wrongEnding(tt.given, &scenarios.Ticket{Served: scenarios.Served{Gold: tt.gold,
			Articles: []scenarios.Article{{ID: "POL-REF", Title: "Refunds"}}}}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestTotals checks that the points of every review add up to the score of its episode, and that an
// episode that lost points says for what.
func TestTotals(t *testing.T) {
	catalog := public(t)
	label := func(category, priority string) string {
		return `{"action_type":"classify","category":"` + category + `","priority":"` + priority + `"}`
	}
	var shift []string
	for i, priority := range scenarios.Priorities {
		shift = append(shift, label(scenarios.Categories[i], priority),
			`{"action_type":"resolve","message":"Hello, we have refunded $1.","facts":[{"what":"team","value":"finance"}]}`,
			`{"action_type":"select_ticket","ticket_id":"next"}`)
	}
	for _, tt := range []struct {
		environment, task, scenario string
		pressure                    bool
		actions                     []string
	}{
		{"ticket", tasks.TicketClassify, "B07", false, []string{label("billing", "medium")}},
		{"ticket", tasks.TicketResolve, "B07", false, []string{label("billing", "low"), shift[1]}},
		{"ticket", tasks.TicketResolve, "T09", true, []string{label("billing", "urgent"),
			`{"action_type":"search_knowledge_base","query":"siren"}`, shift[1]}},
		{"ticket", tasks.QueueManagement, "Q001", false, shift}, {"ticket", tasks.QueueManagement, "Q007", false, shift},
		{"workflow", "refund", "C09", false, []string{`{"action_type":"check_order_status","payload":{"order_id":"LD-937813"}}`,
			`{"action_type":"respond_user","payload":{"message":"Hello"}}`}},
		{"workflow", "refund", "C09", false, []string{`{"action_type":"initiate_refund","payload":{"order_id":"X"}}`,
			`{"action_type":"initiate_refund","payload":{"order_id":"X"}}`,
			`{"action_type":"respond_user","payload":{"message":"Hello"}}`}},
	} {
		e := played(tt.environment, tt.task, tt.scenario)
		e.Pressure = tt.pressure
		kind, err := NewKind(catalog, e.Environment, nil)
		if err != nil {
			t.Fatal(err)
		}
		env := kind.New()
		if _, err := env.Reset(e.Options()); err != nil {
			t.Fatal(err)
		}
		var final *episode.Final
		for _, action := range tt.actions {
			if open := ticket.ReviewTickets(env); len(open) > 1 && strings.Contains(action, "next") {
				action = strings.Replace(action, "next", open[len(e.Turns)/3+1].ID, 1)
			}
			result, err := env.Step(t.Context(), json.RawMessage(action))
			if err != nil {
				t.Fatal(err)
			}
			e.Turns = append(e.Turns, record.Turn{Action: json.RawMessage(action)})
			final = result.Final
		}
		for final == nil { // the minutes run out
			action := json.RawMessage(`{"action_type":"search_knowledge_base","query":"x"}`)
			result, err := env.Step(t.Context(), action)
			if err != nil {
				t.Fatal(err)
			}
			e.Turns, final = append(e.Turns, record.Turn{Action: action}), result.Final
		}
		points := float64(final.Score) / score.One
		e.Score, e.Verdicts, e.Outcome = &points, final.Verdicts, final.Outcome
		got, err := ReplayEpisode(t.Context(), catalog, e)
		if err != nil {
			t.Fatal(err)
		}
		totals := got.Totals
		if len(got.Reviews) == 1 {
			totals = got.Reviews[0].Totals
		}
		shown, err := strconv.ParseFloat(totals[len(totals)-1].Value, 64)
		if err != nil || math.Abs(shown-points) > .00051 || got.Lost == "" && points < 1 {
			t.Errorf("%s %s: %v of %v, want %v; lost: %q", tt.task, tt.scenario, shown, totals, points, got.Lost)
		}
		t.Logf("%s %s: %v, lost: %s", tt.task, tt.scenario, totals, got.Lost)
	}
}
