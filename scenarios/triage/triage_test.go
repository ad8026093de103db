package triage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPriority(t *testing.T) {
	tests := map[string]struct {
		s              Situation
		priority, rule string
	}{
		"question":     {Situation{}, "low", "information"},
		"hazard first": {Situation{Hazard: true, Compromise: true, Delay: true}, "urgent", "hazard"},
		"authority":    {Situation{AuthorityEmergency: true}, "urgent", "authority_emergency"},
		"compromise": {Situation{Compromise: true, WronglyTaken: 900_00}, "urgent",
			"active_compromise"},
		"business stop": {Situation{BusinessStop: true}, "urgent", "business_stop"},
		"loss within 4 h": {Situation{Irreversible: true, Deadline: 4 * time.Hour}, "urgent",
			"loss_within_4h"},
		"loss after 4 h": {Situation{Irreversible: true, Deadline: 4*time.Hour + 1}, "high",
			"deadline_under_24h"},
		"loss without deadline": {Situation{Irreversible: true}, "low", "information"},
		"reversible within 4 h": {Situation{Deadline: time.Hour}, "high", "deadline_under_24h"},
		"core unusable":         {Situation{CoreUnusable: true, Degraded: true}, "high", "core_unusable"},
		"over 200":              {Situation{WronglyTaken: 200_01}, "high", "money_wrong_over_200"},
		"exactly 200":           {Situation{WronglyTaken: 200_00}, "medium", "dispute_up_to_200"},
		"over 200 in dispute":   {Situation{Disputed: 640_00}, "high", "dispute_over_200"},
		"200 in dispute":        {Situation{Disputed: 200_00}, "medium", "dispute_up_to_200"},
		"immediate money harm":  {Situation{MoneyHarm: true, WronglyTaken: 89_00}, "high", "money_harm"},
		"deadline of a day":     {Situation{Deadline: 24 * time.Hour}, "medium", "deadline_in_days"},
		"degraded":              {Situation{Degraded: true, Deadline: 48 * time.Hour}, "medium", "degraded"},
		"delay":                 {Situation{Delay: true}, "medium", "delay"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if priority, rule := tt.s.Priority(); priority != tt.priority || rule != tt.rule {
				t.Errorf("Priority() = %s by %s, want %s by %s", priority, rule, tt.priority, tt.rule)
			}
		})
	}
}

func TestEscalation(t *testing.T) {
	tests := map[string]struct {
		s    Situation
		want string // "team reason article", or "" without an escalation
	}{
		"refund at the limit":      {Situation{Act: Act{"refund", 200_00}}, ""},
		"refund over the limit":    {Situation{Act: Act{"refund", 200_01}}, "finance OVER_LIMIT POL-REF"},
		"replacement at the limit": {Situation{Act: Act{"replacement", 150_00}}, ""},
		"replacement over it":      {Situation{Act: Act{"replacement", 150_01}}, "logistics OVER_LIMIT POL-LOS"},
		"pallet": {Situation{Pallet: true, Act: Act{"replacement", 1}},
			"logistics TEAM_ONLY POL-LOS"},
		"goodwill over it": {Situation{Act: Act{"goodwill", 20_01}}, "finance OVER_LIMIT POL-GWL"},
		"four devices":     {Situation{Devices: 4, Act: Act{Kind: "troubleshoot"}}, ""},
		"five devices": {Situation{Devices: 5, Act: Act{Kind: "troubleshoot"}},
			"incident INCIDENT POL-OUT"},
		"whole site": {Situation{WholeSite: true, Act: Act{Kind: "troubleshoot"}},
			"incident INCIDENT POL-OUT"},
		"five devices, information": {Situation{Devices: 5, Act: Act{Kind: "inform"}}, ""},
		"hazard before the act":     {Situation{Hazard: true, Act: Act{"refund", 1}}, "safety SAFETY POL-HAZ"},
		"authority": {Situation{AuthorityEmergency: true, Act: Act{Kind: "inform"}},
			"legal EMERGENCY_DISCLOSURE POL-LEG"},
		"compromise":    {Situation{Compromise: true, Act: Act{Kind: "inform"}}, "security FRAUD POL-FRD"},
		"customs paper": {Situation{Act: Act{Kind: "customs_correction"}}, "trade TEAM_ONLY POL-TAX"},
		"known issue":   {Situation{Act: Act{Kind: "known_issue"}}, "engineering KNOWN_ISSUE "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.s.Limits = StandardLimits()
			e, needed := tt.s.Escalation()
			got := strings.Join([]string{e.Team, e.ReasonCode, e.Article}, " ")
			if needed != (tt.want != "") || needed && got != tt.want {
				t.Errorf("Escalation() = %s, %t; want %q", got, needed, tt.want)
			}
		})
	}
}

func TestScenariosMayUseEveryTeamOnlyAct(t *testing.T) {
	kinds := strings.Split(ActKinds, "|")
	for kind := range teamOnly {
		if !slices.Contains(kinds, kind) {
			t.Errorf("scenarios may not use %s", kind)
		}
	}
}

// More harm never lowers the priority.
func TestPriorityIsMonotonic(t *testing.T) {
	order := []string{"low", "medium", "high", "urgent"}
	rapid.Check(t, func(t *rapid.T) {
		flags := rapid.SliceOfN(rapid.Bool(), 9, 9).Draw(t, "flags")
		s := Situation{
			Hazard: flags[0], Compromise: flags[1], BusinessStop: flags[2], Irreversible: flags[3],
			CoreUnusable: flags[4], MoneyHarm: flags[5], Degraded: flags[6],
			Delay: flags[7], AuthorityEmergency: flags[8], WronglyTaken: rapid.Int64Range(0, 500_00).Draw(t, "taken"),
			Deadline: time.Duration(rapid.IntRange(1, 100).Draw(t, "hours")) * time.Hour,
		}
		before, _ := s.Priority()
		worse := s
		worse.WronglyTaken += rapid.Int64Range(0, 500_00).Draw(t, "more")
		worse.Deadline -= time.Duration(rapid.Int64Range(0, int64(s.Deadline)-1).Draw(t, "sooner"))
		worse.CoreUnusable, worse.Irreversible = true, true
		after, _ := worse.Priority()
		if slices.Index(order, after) < slices.Index(order, before) {
			t.Fatalf("%+v is %s, the worse %+v is %s", s, before, worse, after)
		}
	})
}
