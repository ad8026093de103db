package episode_test

import (
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
)

func TestTeamName(t *testing.T) {
	tests := map[string]string{
		"": "", "finance": "finance", "Finance Team": "finance", " Billing_Ops ": "billing-ops",
		"trade-compliance desk": "trade-compliance",
		"team":                  "team", "teamwork": "teamwork",
	}
	for given, want := range tests {
		if got := episode.TeamName(given); got != want {
			t.Errorf("TeamName(%q) = %q, want %q", given, got, want)
		}
	}
}
