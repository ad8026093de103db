package transcript

import (
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// reviewWorkflow reviews a workflow.
func reviewWorkflow(f *workflow.Reviewed, v *grader.Verdict) Review {
	r := Review{Heading: "given and gold"}
	if v == nil {
		v = &grader.Verdict{}
	}
	criterion := func(id string) (paid *Points, why string) {
		for _, c := range v.Criteria {
			if name, _, _ := strings.Cut(c.ID, " "); name == id {
				return newPoints(c), c.Reason
			}
		}
		return nil, ""
	}
	paid, why := criterion("steps")
	r.add(Row{Criterion: "steps", Points: paid, Why: why})
	for _, s := range f.Workflow.Steps {
		r.add(Row{Part: true, Criterion: s.ID, Given: listSentActions(f.History, s.Action), Gold: StepText(s)})
	}
	paid, why = criterion("resolution")
	r.add(Row{Criterion: "resolution", Points: paid, Why: why})
	r.told(f.Workflow.Required(), f.Stated, f.Told)
	for i, goal := range f.Workflow.Goal {
		given := "not met"
		if f.Met[i] {
			given = "met"
		}
		r.add(Row{Part: true, Criterion: "goal", Given: given, Gold: goal.Source})
	}
	for _, c := range v.Criteria {
		if action, ok := strings.CutPrefix(c.ID, "action "); ok {
			r.add(Row{Criterion: "action " + action, Points: &Points{Kind: Cost, Value: c.Earned}, Why: c.Reason})
		}
	}
	r.gates(v.Gates)
	r.Harm = v.Harm
	r.good(f.Workflow.References)
	return r
}

// listSentActions lists the actions of a type, with their payloads except messages.
func listSentActions(history []workflow.Entry, action string) string {
	var all []string
	for _, e := range history {
		if e.ActionType != action {
			continue
		}
		text := "action " + strconv.Itoa(e.Step)
		if action != desk.RespondUser {
			text += " " + encodeInline(e.Payload)
		}
		all = append(all, text)
	}
	return orDash(strings.Join(all, "\n"))
}

// StepText describes a required step.
func StepText(s scenarios.WorkflowStep) string {
	out := ActionText(s.Action, s.Args)
	if len(s.Requires) > 0 {
		out += ", after " + strings.Join(s.Requires, ", ")
	}
	if s.Terminal {
		out += ", ends the episode"
	}
	if s.Answer != "" {
		out += ", which must be a question; the customer answers: " + s.Answer
	}
	return out
}

// ActionText describes an action with the arguments that it accepts.
func ActionText(action string, args []scenarios.Arg) string {
	if len(args) == 0 {
		return action
	}
	return action + " " + encodeInline(AcceptedValues(args))
}

// AcceptedValues gives the accepted value of each argument, a list of several, or "any". Amounts
// are in dollars, as agents send them.
func AcceptedValues(args []scenarios.Arg) map[string]any {
	out := map[string]any{}
	for _, a := range args {
		values := slices.Clone(a.In)
		for i, v := range values {
			if cents, ok := v.(int64); ok && a.Name == "amount" {
				values[i] = scenarios.Cents(cents)
			}
		}
		switch {
		case a.Any:
			out[a.Name] = "any"
		case len(values) == 1:
			out[a.Name] = values[0]
		default:
			out[a.Name] = values
		}
	}
	return out
}
