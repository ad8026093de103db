package authoring

import (
	"cmp"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// workflow is an instance of a workflow to show.
type workflow struct {
	*scenarios.Workflow
	scenario *scenarios.WorkflowScenario
}

func (f workflow) encode(gold bool) object {
	s := f.scenario
	out := object{"id", s.ID, "kind", kindWorkflow, "version", s.Version, "seed", f.Seed, "task", s.Task(),
		"file", s.File, "served", object{
			"now", f.Now, "language", f.Language, "customer", encodeCustomer(f.Customer), "query", f.Query,
			"order_status", orUnknown(f.Visible.OrderStatus), "payment_status", orUnknown(f.Visible.PaymentStatus),
		}}
	if gold {
		out = append(out, "gold", f.gold())
	}
	return out
}

func orUnknown(status string) string { return cmp.Or(status, "unknown") }

// gold is the state behind the tools, and the right handling.
func (f workflow) gold() object {
	var written desk.PlainRecords
	var generated *desk.Desk
	if f.Rules.PlainRecords {
		written = f.Records.Plain()
	} else {
		generated = &desk.Desk{Now: f.Now, Policy: f.Policy, Records: &f.Records}
	}
	return object{
		"max_steps", f.MaxSteps, "orders,omitempty", written.Orders, "payments,omitempty", written.Payments,
		"refunds,omitempty", written.Refunds, "cases,omitempty", written.Cases,
		"steps", view.MapItems(f.Steps, func(s scenarios.WorkflowStep) object {
			return object{"id,omitempty", s.ID, "action", s.Action, "args,omitempty", transcript.AcceptedValues(s.Args),
				"requires,omitempty", s.Requires, "terminal,omitempty", s.Terminal, "answer,omitempty", s.Answer}
		}),
		"neutral,omitempty", view.MapItems(f.Neutral, func(n scenarios.NeutralAction) object {
			return object{
				"action",
				n.Action,
				"args,omitempty",
				transcript.AcceptedValues(n.Args),
				"max,omitempty",
				n.Max,
			}
		}),
		"forbidden,omitempty", view.MapItems(f.Forbidden, func(a scenarios.ForbiddenAction) object {
			return object{"id", a.ID, "action", a.Action, "when_action,omitempty", a.When.Source,
				"why,omitempty", a.Why}
		}),
		"goal,omitempty", f.goal(), "decision,omitempty", f.Decision, "desk,omitempty", generated,
		"facts", view.MapItems(f.Facts, encodeFact), "harm,omitempty", view.MapItems(f.Harm, encodeHarm),
		"tool_faults,omitempty", view.MapItems(f.Faults, func(f desk.Fault) object {
			return object{"action", f.Action, "call", f.Call, "error", f.Error}
		}),
		"good_replies", f.References.Good,
	}
}

func (f workflow) goal() []string {
	return view.MapItems(f.Goal, func(p scenarios.Predicate) string { return p.Source })
}
