package transcript

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
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
			"it exceeds an agent's authority: OVER_LIMIT, POL-REF#2"},
		"settled":        {grader.Decisions{Ending: grader.Resolved}, scenarios.TicketGold{}, ""},
		"the team":       {grader.Decisions{Ending: grader.Escalated, Team: "finance"}, due, ""},
		"its other name": {grader.Decisions{Ending: grader.Escalated, Team: "billing-ops"}, due, ""},
		"no team":        {grader.Decisions{Ending: grader.Escalated}, due, "no team is named"},
		"another team":   {grader.Decisions{Ending: grader.Escalated, Team: "trade"}, due, "another team is responsible"},
	}
	for name, tt := range tests {
		if got := wrongEnding(tt.given, tt.gold); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
