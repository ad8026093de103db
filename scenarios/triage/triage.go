// Package triage computes the right priority and escalation of a case from its situation, as the
// support policies define them.
package triage

import (
	"fmt"
	"time"
)

// Situation describes a case in the terms of the policies. Money is in cents.
type Situation struct {
	Hazard             bool // heat, smoke, swelling, a lock that fails open while people are at risk
	AuthorityEmergency bool // an authority reports danger to life
	Compromise         bool // an account or a payment is currently misused
	BusinessStop       bool // the customer can't do business
	Irreversible       bool // the consequences at the deadline can't be undone
	CoreUnusable       bool // a paid core function can't be used
	MoneyHarm          bool // the customer is losing money
	Degraded           bool // usable, with a workaround
	Delay              bool
	WholeSite          bool
	Pallet             bool
	WronglyTaken       int64
	Disputed           int64
	// Deadline is the time until the harm or the need, or 0.
	Deadline time.Duration
	Devices  int64
	Act      Act
	Limits   Limits
}

// Act is the action that would resolve the case.
type Act struct {
	Kind   string
	Amount int64
}

// Limits are the policy numbers that bound an agent's authority, as stated in the articles served
// with the case.
type Limits struct {
	Refund, Replacement, Goodwill int64 // cents
	IncidentDevices               int64
}

// StandardLimits returns the limits that apply unless an article states others.
func StandardLimits() Limits {
	return Limits{Refund: 200_00, Replacement: 150_00, Goodwill: 20_00, IncidentDevices: 5}
}

// highMoney is the wrongly charged or disputed amount above which a case has high priority. It is
// independent of the agent's limit.
const highMoney = 200_00

// Priority returns the priority of a case and the rule that determined it: the first applicable
// rule of the matrix. Account level and tone don't matter.
func (s *Situation) Priority() (priority, rule string) {
	matrix := []struct {
		applies        bool
		priority, rule string
	}{
		{s.Hazard, "urgent", "hazard"},
		{s.AuthorityEmergency, "urgent", "authority_emergency"},
		{s.Compromise, "urgent", "active_compromise"},
		{s.BusinessStop, "urgent", "business_stop"},
		{s.Irreversible && s.dueBy(4*time.Hour), "urgent", "loss_within_4h"},

		{s.CoreUnusable, "high", "core_unusable"},
		{s.WronglyTaken > highMoney, "high", "money_wrong_over_200"},
		{s.MoneyHarm, "high", "money_harm"},
		{s.dueBy(24*time.Hour - 1), "high", "deadline_under_24h"},
		{s.Disputed > highMoney, "high", "dispute_over_200"},

		{s.Degraded, "medium", "degraded"},
		{s.Delay, "medium", "delay"},
		{s.WronglyTaken > 0 || s.Disputed > 0, "medium", "dispute_up_to_200"},
		{s.Deadline > 0, "medium", "deadline_in_days"},
	}
	for _, m := range matrix {
		if m.applies {
			return m.priority, m.rule
		}
	}
	return "low", "information"
}

func (s *Situation) dueBy(d time.Duration) bool { return s.Deadline > 0 && s.Deadline <= d }

// Escalation is the team that must take a case, the reason, and the article that requires it ("" if
// the scenario names its own).
type Escalation struct {
	Team, ReasonCode, Article string
}

// Escalation returns the team that must take the case; needed is false if the act is within the
// agent's authority. Hazards, authorities and misuse are checked before the act.
func (s *Situation) Escalation() (e Escalation, needed bool) {
	switch {
	case s.Hazard:
		return Escalation{"safety", "SAFETY", "POL-HAZ"}, true
	case s.AuthorityEmergency:
		return Escalation{"legal", "EMERGENCY_DISCLOSURE", "POL-LEG"}, true
	case s.Compromise:
		return Escalation{"security", "FRAUD", "POL-FRD"}, true
	}
	return s.authority()
}

// authority returns the escalation that the agent's authority requires.
func (s *Situation) authority() (e Escalation, needed bool) {
	switch s.Act.Kind {
	case "refund":
		return Escalation{"finance", "OVER_LIMIT", "POL-REF"}, s.Act.Amount > s.Limits.Refund
	case "replacement":
		if s.Pallet {
			return Escalation{"logistics", "TEAM_ONLY", "POL-LOS"}, true
		}
		return Escalation{"logistics", "OVER_LIMIT", "POL-LOS"}, s.Act.Amount > s.Limits.Replacement
	case "goodwill":
		return Escalation{"finance", "OVER_LIMIT", "POL-GWL"}, s.Act.Amount > s.Limits.Goodwill
	case "troubleshoot":
		return Escalation{"incident", "INCIDENT", "POL-OUT"}, s.WholeSite || s.Devices >= s.Limits.IncidentDevices
	}
	e, needed = teamOnly[s.Act.Kind]
	return e, needed
}

// teamOnly lists the acts that no agent may perform, for any amount.
var teamOnly = map[string]Escalation{
	"fraud_case":           {"security", "FRAUD", "POL-FRD"},
	"invoice_correction":   {"finance", "TEAM_ONLY", "POL-TAX"},
	"customs_correction":   {"trade", "TEAM_ONLY", "POL-TAX"},
	"payment_plan":         {"finance", "TEAM_ONLY", "POL-REF"},
	"warehouse_release":    {"logistics", "TEAM_ONLY", "POL-LOS"},
	"data_request":         {"privacy", "PRIVACY", "POL-PRV"},
	"legal_request":        {"legal", "LEGAL", "POL-LEG"},
	"account_recovery":     {"trust", "OWNERSHIP", "POL-ACC"},
	"vulnerability_report": {"security", "VULNERABILITY", "POL-FRD"},
	"docs_correction":      {"documentation", "TEAM_ONLY", ""},
	"known_issue":          {"engineering", "KNOWN_ISSUE", ""},
}

// ActKinds are the kinds of act that a scenario may name, for its schema.
const ActKinds = "refund|replacement|goodwill|troubleshoot|fraud_case|invoice_correction|customs_correction|" +
	"payment_plan|warehouse_release|data_request|legal_request|account_recovery|vulnerability_report|" +
	"docs_correction|known_issue|inform|address_change|intercept|verify|grace|restore|resend|account_change"

// SLAMinutes returns the time of the first response that POL-SLA grants a priority.
func SLAMinutes(priority string) (int64, error) {
	minutes, ok := map[string]int64{"urgent": 60, "high": 240, "medium": 1440, "low": 4320}[priority]
	if !ok {
		return 0, fmt.Errorf("%q is not a priority: low, medium, high or urgent", priority)
	}
	return minutes, nil
}
