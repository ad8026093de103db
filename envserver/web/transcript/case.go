package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// reviewWorkflow reviews a workflow. Without a verdict it has no points.
func reviewWorkflow(f *workflow.Reviewed, v *grader.Verdict) Review {
	r := Review{Heading: "given and gold"}
	if v == nil {
		v = &grader.Verdict{}
	}
	paid := map[string]*Points{}
	sum, fined := Points{}, &Points{Kind: Cost}
	for _, c := range v.Criteria {
		sum.Value, sum.Offered = sum.Value+c.Earned, sum.Offered+c.Offered
		if paid[c.ID] = newPoints(c); c.Action != "" {
			fined.Value += c.Earned
		}
	}
	steps, needed := paid["steps"], workflow.PayRequired(f.Workflow)
	row := Row{Criterion: "steps", Points: steps}
	switch generated := f.Workflow.Rules.PaysLookUpsApart; {
	case generated && steps.Share() == "part" && paid["resolution"].Share() != "all":
		row.Why = "without a right reply, kinds of look-ups are paid, needed or not"
	case steps != nil && steps.Offered > needed:
		row.Why = fmt.Sprintf("%s for each of %d steps; "+
			"without a right reply divided as if all %d actions were needed, "+
			"so that the score doesn't tell how many are", score.FormatThousandths(needed/int64(len(f.Workflow.Steps))),
			len(f.Workflow.Steps), f.Workflow.MaxSteps)
		steps = &Points{Value: steps.Value, Offered: needed}
	}
	r.add(row)
	undone := r.steps(f)
	found := replyFaults{gates: v.Gates}
	r.add(Row{Criterion: "resolution", Points: paid["resolution"]})
	r.told(f.Workflow.Required(), f.Stated, f.Told, &found)
	var unmet []string
	for _, goal := range f.Unmet {
		if goal.Source != "replied" {
			unmet = append(unmet, goal.Source)
		}
	}
	if len(unmet) > 0 {
		r.add(Row{Depth: 1, Criterion: "records at the end", Given: "other",
			Gold: "what the steps change, and no more", Why: "not so at the end: " + strings.Join(unmet, "; ")})
	}
	r.gates(v.Gates)
	if len(undone) > 0 {
		r.lose(steps, "not done: "+strings.Join(undone[:min(len(undone), maxLosses)], ", "))
	}
	if f.Told == nil {
		r.lose(paid["resolution"], "no reply to the customer")
	} else if text := found.String(); text != "" {
		r.lose(paid["resolution"], text)
	} else {
		r.lose(paid["resolution"], "the case isn't settled as it should be")
	}
	if fined.Value < 0 {
		r.add(Row{Criterion: "penalties", Points: fined})
	}
	for _, c := range v.Criteria {
		if c.Action != "" {
			name := fmt.Sprintf("%s, action %d", inWords(c.Action), c.Step)
			r.add(Row{Depth: 1, Criterion: name, Points: &Points{Kind: Cost, Value: c.Earned}, Why: c.Reason})
			r.losses = append(r.losses, loss{name + ": " + c.Reason, -1000 * c.Earned})
		}
	}
	if sum.Offered > 0 {
		r.add(Row{Criterion: "sum", Points: &sum})
		name := fmt.Sprintf("score: %s of %s", score.FormatThousandths(sum.Value), score.FormatThousandths(sum.Offered))
		if sum.Value < 0 {
			name += ", and at least 0"
		}
		r.Totals = []Total{{name, score.FormatDecimal(grader.EpisodeScore([]score.Dimension{
			{Earned: sum.Value, Offered: sum.Offered}}))}}
	}
	if d := f.Workflow.Decision; d != nil {
		for _, rule := range d.Rules {
			r.Rules = append(r.Rules, strings.TrimSpace(rule+" "+f.Workflow.Policy.Rule(rule)))
		}
	}
	r.harm(v, f.Workflow.Harm, f.Workflow.Closed)
	r.good(f.Workflow.References, f.Workflow.Language)
	return r
}

// steps adds the rows of the required steps, and returns those that weren't done.
func (r *Review) steps(f *workflow.Reviewed) (undone []string) {
	for i, s := range f.Workflow.Steps {
		row := Row{Depth: 1, Criterion: inWords(s.Action), Given: "done", Met: f.Done[i],
			Gold: cmp.Or(describeArguments(s.Args), describeTelling(s))}
		switch sent := listSentActions(f.History, s.Action); {
		case f.Done[i]:
		case s.Terminal && sent != "":
			row.Given = "sent, and not right: see resolution"
		default:
			row.Given = "not done"
			if sent != "" {
				row.Why = "sent: " + sent
			}
			undone = append(undone, strings.TrimSpace(row.Criterion+" "+row.Gold))
		}
		r.add(row)
	}
	return undone
}

// describeTelling says what the agent of a conversation must write to the customer, "" for another
// step.
func describeTelling(s scenarios.WorkflowStep) string {
	switch {
	case s.Confirms != nil:
		return "before the change, ask whether the customer wants this: " + inWords(s.Confirms.Tool)
	case len(s.Asks) > 0:
		return "ask the customer about " + inWords(strings.Join(s.Asks, ", "))
	}
	return ""
}

// listSentActions lists the actions of a type, with their payloads except messages.
func listSentActions(history []workflow.Entry, action string) string {
	var all []string
	for _, e := range history {
		if e.ActionType != action {
			continue
		}
		text := "action " + strconv.Itoa(e.Step)
		arguments := ReadAction(json.RawMessage(e.Payload)).Summary()
		if action != desk.RespondUser && arguments != "" {
			text += ", " + arguments
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// describeArguments are the arguments of which not every value is accepted.
func describeArguments(args []scenarios.Arg) string {
	values := AcceptedValues(args)
	maps.DeleteFunc(values, func(_ string, value any) bool { return value == "any" })
	var named []string
	for _, f := range listFields(values) {
		named = append(named, inWords(f.Name)+" "+f.Value)
	}
	return strings.Join(named, ", ")
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
