package authoring

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

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

func (f workflow) print(w io.Writer) {
	view.WriteParagraph(w, "", fmt.Sprintf("%s, workflow, task %s, version %d, seed %d (%s)", f.scenario.ID,
		f.scenario.Task(), f.Version, f.Seed, f.scenario.File))
	view.WriteHeading(w, "what the agent is served")
	printCustomer(w, f.Customer)
	view.WriteField(w, "now", f.Now.Format(view.ClockTime))
	view.WriteField(w, "language", f.Language)
	view.WriteField(w, "order", orUnknown(f.Visible.OrderStatus))
	view.WriteField(w, "payment", orUnknown(f.Visible.PaymentStatus))
	fmt.Fprintln(w)
	view.WriteParagraph(w, "  ", f.Query)
}

func (f workflow) printHidden(w io.Writer) {
	view.WriteHeading(w, "behind the tools (served only by them)")
	if f.Rules.PlainRecords {
		r := f.Records.Plain()
		writeRecords(w, "order", r.Orders)
		writeRecords(w, "payment", r.Payments)
		writeRecords(w, "refund", r.Refunds)
		writeRecords(w, "case", r.Cases)
	} else {
		view.WriteField(w, "customer", view.FormatYAML(f.Records.ShowCustomer()))
		writeRecords(w, "order", f.Records.Orders)
		writeRecords(w, "parcel", f.Records.Shipments)
		writeRecords(w, "payment", f.Records.Payments)
	}
	for _, fault := range f.Faults {
		view.WriteField(w, "fault", fmt.Sprintf("call %d of %s answers %s", fault.Call, fault.Action, fault.Error))
	}
}

func writeRecords[T any](w io.Writer, name string, records []T) {
	for _, r := range records {
		view.WriteField(w, name, view.FormatYAML(r))
	}
}

// printGold writes the steps, the goal and the good replies.
func (f workflow) printGold(w io.Writer) {
	view.WriteField(w, "steps", "at most "+strconv.Itoa(f.MaxSteps))
	for _, s := range f.Steps {
		view.WriteField(w, "step "+s.ID, transcript.StepText(s))
	}
	for _, n := range f.Neutral {
		text := transcript.ActionText(n.Action, n.Args)
		if n.Max > 0 {
			text += fmt.Sprintf(", at most %d times", n.Max)
		}
		view.WriteField(w, "harmless", text)
	}
	for _, a := range f.Forbidden {
		view.WriteField(w, "forbidden "+a.ID, forbiddenText(a))
	}
	if f.Decision != nil {
		view.WriteField(w, "decision", f.Decision.Outcome)
		view.WriteField(w, "rules", strings.Join(f.Decision.Rules, ", "))
	} else {
		view.WriteField(w, "goal", strings.Join(f.goal(), "\n"))
	}
	printFacts(w, f.Facts)
	printReplies(w, f.References.Good)
}

func forbiddenText(a scenarios.ForbiddenAction) string {
	out := a.Action
	if a.When.Source != "" {
		out += " when " + a.When.Source
	}
	if a.Why != "" {
		out += " (" + a.Why + ")"
	}
	return out
}
