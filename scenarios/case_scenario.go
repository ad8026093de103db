package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/pack"
)

// caseFile keeps a file of a pack's cases until all of the pack is read.
func (l *loader) caseFile(p *openPack, s pack.File, y document) {
	l.errs = append(l.errs, y.Errs...)
	if y.root == nil {
		return
	}
	l.digest.text(s.Canonical())
	l.digest.node(y.root, "")
	if len(p.cases) == 0 {
		l.cases = append(l.cases, p)
	}
	p.cases = append(p.cases, cases.File{Name: s.File, Root: y.root})
}

// caseMaxSteps is the limit of steps of every generated case. It is the same for all of
// them, because a limit that followed from the required steps would tell what is right. It
// leaves room for every look-up, every question and every change of the longest case.
const caseMaxSteps = 34

// instantiateCase draws a generated case as a workflow: a step for each look-up and question that
// the decision depends on, one for each change, which comes after them, and the reply.
func (s *WorkflowScenario) instantiateCase(seed int64) (*Workflow, error) {
	c, err := s.composition.Instantiate(s.salt, seed)
	if err != nil {
		return nil, err
	}
	w := &Workflow{
		Category: s.Category(), Unasked: c.Unasked, AskWords: c.AskWords, ScenarioID: s.ID, Version: s.Version,
		Seed: seed, Now: c.Now, Language: s.Language, Query: c.Query,
		Customer: Customer{Name: c.Records.Customer.Name, AccountLevel: c.Records.Customer.Level,
			Since: c.Records.Customer.Since},
		Desk:        &desk.Desk{Now: c.Now, Policy: c.Policy, Records: &c.Records},
		Decision:    &c.Decision,
		StepMinutes: caseMinutes(), References: References{Good: []string{c.Reply}},
	}
	w.Steps = caseSteps(c)
	for _, q := range c.Answers {
		w.Answers = append(w.Answers, Answer{About: q.About, Answer: q.Answer})
	}
	w.Neutral = caseNeutrals()
	w.Forbidden = caseForbidden(c)
	w.Facts, w.True, w.Closed = caseFacts(c), c.True, c.Records.Closed()
	for _, f := range c.Faults {
		w.Faults = append(w.Faults, Fault{Action: f.Tool, Call: 1, Error: f.Error})
	}
	w.AllowedValues = caseValues(c, s.loc)
	w.MaxSteps = caseMaxSteps
	return w, nil
}

func caseFacts(c *cases.Case) []Fact {
	facts := make([]Fact, len(c.Facts))
	for i, f := range c.Facts {
		facts[i] = Fact{ID: "f" + strconv.Itoa(i+1), Slot: f.Slot, What: f.What, Stated: f.Stated, Value: f.Value,
			Accept: f.Accept, Context: f.Context, Seeded: true}
	}
	return facts
}

// caseMinutes are the durations of the actions of every generated case.
var caseMinutes = sync.OnceValue(func() map[string]int {
	minutes := map[string]int{RespondUser: 4}
	for _, tool := range desk.ListTools() {
		minutes[tool] = 1
	}
	minutes[desk.AskCustomer], minutes[desk.Refunding], minutes[desk.Escalating] = 4, 3, 2
	return minutes
})

// caseSteps makes the steps of the decision.
func caseSteps(c *cases.Case) []WorkflowStep {
	var steps []WorkflowStep
	add := func(step WorkflowStep) {
		step.ID = "s" + strconv.Itoa(len(steps)+1)
		steps = append(steps, step)
	}
	questions := c.Questions
	for _, r := range c.Decision.Reads {
		step := WorkflowStep{Action: r.Tool}
		switch r.Tool {
		case desk.AskCustomer:
			step.Ask, step.Answer, step.About = true, questions[0].Answer, questions[0].About
			questions = questions[1:]
		case desk.LookUpPolicy:
			step.Args = newEqualArgs("topic", r.Key)
		case desk.CheckOrder, desk.CheckPayment, desk.CheckShipment:
			step.Args = newEqualArgs("order_id", r.Key)
		}
		add(step)
	}
	known := listStepIDs(steps)
	for _, e := range c.Decision.Effects {
		add(WorkflowStep{Action: e.Tool, Args: effectArgs(e), Requires: known})
	}
	add(WorkflowStep{Action: RespondUser, Requires: listStepIDs(steps), Terminal: true})
	return steps
}

func listStepIDs(steps []WorkflowStep) []string {
	out := make([]string, len(steps))
	for i := range steps {
		out[i] = steps[i].ID
	}
	return out
}

func newEqualArgs(name string, value any) []Arg { return []Arg{{Name: name, In: []any{value}}} }

func effectArgs(e desk.Effect) []Arg {
	var args []Arg
	for _, arg := range [][2]string{{"order_id", e.OrderID}, {"payment_id", e.PaymentID}, {"sku", e.SKU},
		{"address", e.Address}, {"team", e.Team}} {
		if arg[1] != "" {
			args = append(args, newEqualArgs(arg[0], arg[1])...)
		}
	}
	if e.Amount != 0 {
		args = append(args, newEqualArgs("amount", int64(e.Amount))...)
	}
	return args
}

// caseNeutrals are the look-ups that cost little if the case doesn't need them.
var caseNeutrals = sync.OnceValue(func() []NeutralAction {
	return []NeutralAction{
		{Action: desk.LookUpCustomer, Max: 1},
		{Action: desk.LookUpPolicy, Max: len(desk.ListTopics())},
		{Action: desk.CheckOrder, Max: 1},
		{Action: desk.CheckPayment, Max: 2},
		{Action: desk.CheckShipment, Max: 1},
	}
})

// caseForbidden forbids to promise the remedies that the decision doesn't give, and to state what
// the customer must not be told.
func caseForbidden(c *cases.Case) []ForbiddenAction {
	// What was given before may be told.
	given := map[string]bool{"refund": len(c.Records.Refunds) > 0, "credit": len(c.Records.Credits) > 0}
	for _, f := range c.Decision.Facts {
		switch f.Slot {
		case "refund_amount", "given_before":
			given["refund"], given["credit"] = true, given["credit"] || f.Slot == "given_before"
		case "credit_amount":
			given["credit"] = true
			// A refund of what a gift card paid is store credit.
			given["refund"] = given["refund"] || slices.Contains(c.Decision.Rules, "MON-4")
		case "ship_day":
			given["replace"] = true
		}
	}
	from := ""
	for _, f := range c.Facts {
		if f.Slot == "lost_day" || f.Slot == "act_day" {
			from = f.Value
		}
	}
	var out []ForbiddenAction
	for _, remedy := range []string{"refund", "credit", "replace", "compensate"} {
		if !given[remedy] {
			out = append(out, ForbiddenAction{ID: "no-" + remedy, Action: RespondUser, Verbs: []string{remedy},
				From: from, Why: "the policy gives no such remedy here"})
		}
	}
	if len(c.Withheld) > 0 {
		out = append(out, ForbiddenAction{ID: "disclosure", Action: RespondUser, Values: c.Withheld,
			Why: "the customer must not be told it"})
	}
	return out
}

// caseValues lists the values of the records and the policy, which a reply may state.
func caseValues(c *cases.Case, loc *expr.Locale) []string {
	var out []string
	for _, f := range c.Facts {
		out = append(append(out, f.Value), f.Accept...)
	}
	for _, v := range c.Records.Values() {
		switch {
		case v.Amount != 0:
			out = append(out, loc.Money(int64(v.Amount)))
		case !v.Day.IsZero():
			out = append(out, loc.Day(v.Day))
		}
	}
	for _, n := range c.Policy.Values() {
		if n.Amount != 0 {
			out = append(out, loc.Money(int64(n.Amount)))
			continue
		}
		for _, unit := range c.Units {
			out = append(out, fmt.Sprintf("%d %s", n.Days, unit))
		}
	}
	return append(out, loc.Day(c.Now))
}
