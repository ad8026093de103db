package scenarios

import (
	"maps"
	"slices"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/tasks"
)

// WorkflowScenario is the template of a workflow. It is immutable and safe for concurrent use.
type WorkflowScenario struct {
	ID       string
	Version  int
	Split    string // public-train, public-dev, public-test or private
	Class    string // simple, medium or complex; easy, medium or hard if generated
	Language string // BCP-47
	Family   string `json:",omitempty"` // of a generated case, "" for others

	// File is the path of its file within the pack, after the pack's name.
	File string
	Pack pack.Info `json:"-"`

	// Modifiers are a generated case's modifiers, ordered, and nil for others.
	Modifiers []string `json:",omitempty"`
	// Talks means that the customer of a generated case answers the agent's messages.
	Talks bool `json:",omitempty"`

	// template draws the workflows. That of a scenario known by the index is compiled at its first
	// call.
	template func() (workflowTemplate, error)
}

// workflowTemplate draws workflows. It is a writtenWorkflow or a composedWorkflow.
type workflowTemplate interface {
	instantiate(seed int64) (*Workflow, error)
}

// writtenWorkflow is a compiled workflow file.
type writtenWorkflow struct {
	*WorkflowScenario

	salt string
	file *workflowFile
	harm []Harm
	loc  *expr.Locale
}

// Category is the family of a generated case, and "workflow" otherwise.
func (s *WorkflowScenario) Category() string {
	if s.Family != "" {
		return s.Family
	}
	return "workflow"
}

// Task is the name of the task that plays the workflow.
func (s *WorkflowScenario) Task() string {
	return tasks.OfWorkflow(s.Class, s.Family != "", s.Talks)
}

// Instantiate draws a workflow, in the same way as TicketScenario.Instantiate.
func (s *WorkflowScenario) Instantiate(seed int64) (*Workflow, error) {
	t, err := s.template()
	if err != nil {
		return nil, err
	}
	return t.instantiate(seed)
}

func (s *writtenWorkflow) instantiate(seed int64) (*Workflow, error) {
	w, _, err := s.buildWorkflow(seed)
	return w, err
}

func (s *writtenWorkflow) drawRequest(seed int64) params.Request {
	return params.Request{Salt: s.salt, ID: s.ID, Version: s.Version, Seed: seed}
}

// buildWorkflow instantiates a workflow and also returns its values.
func (s *writtenWorkflow) buildWorkflow(seed int64) (*Workflow, *instance, error) {
	f := s.file
	vals, _, err := f.Draw(s.drawRequest(seed))
	if err != nil {
		return nil, nil, err
	}
	in := &instance{expr.Scope{Vals: vals, Loc: s.loc}}
	key := expr.NewStreamKey(s.salt, s.ID, s.Version, seed)
	w := &Workflow{
		Category: s.Category(), Rules: WrittenRules, ScenarioID: s.ID, Version: s.Version, Seed: seed,
		Now:      expr.ToNative[time.Time](vals["now"]),
		Language: s.Language,
		Customer: in.renderCustomer(&f.Customer), Query: in.drawQuery(f, key.Stream("query")),
		Visible: Visible(f.Visible), Records: in.renderRecords(&f.State), Steps: in.renderSteps(f.Steps),
		Neutral: in.renderNeutral(f.Neutral), Forbidden: in.renderForbidden(f.Forbidden),
		Facts: in.renderFacts(f.Facts), Harm: s.harm, MaxSteps: f.Limits.MaxSteps,
		StepMinutes: f.Limits.minutes(),
	}
	for _, g := range f.Goal {
		w.Goal = append(w.Goal, in.bindPredicate(g))
	}
	w.Faults = expr.FilterMap(&in.Scope, f.Faults, func(f faultFile) desk.Fault {
		return desk.Fault{Action: string(f.Action), Call: f.Call,
			Error: f.Error}
	})
	w.AllowedValues = in.workflowValues(w)
	w.References = in.renderReferences(&f.References)
	if terminal := countTerminal(w.Steps); terminal != 1 {
		in.Fail(f.Metadata.Pos.Errorf("seed %d has %d terminal steps: it must have exactly one", seed, terminal))
	}
	if in.Err != nil {
		return nil, nil, in.Err
	}
	return w, in, nil
}

// drawQuery renders one of the texts in which the customer may describe the issue.
func (in *instance) drawQuery(f *workflowFile, s *expr.Stream) string {
	queries := expr.Filter(&in.Scope, f.Query)
	if len(queries) == 0 {
		in.Fail(f.Metadata.Pos.Errorf("no query is left: let one have no condition"))
		return ""
	}
	return in.Text(queries[s.Below(uint64(len(queries)))].Text)
}

func countTerminal(steps []WorkflowStep) int {
	n := 0
	for _, s := range steps {
		if s.Terminal {
			n++
		}
	}
	return n
}

func (in *instance) renderRecords(f *recordsFile) desk.Records {
	return desk.Records{
		Orders: expr.FilterMap(&in.Scope, f.Orders, in.renderOrder),
		Payments: expr.FilterMap(&in.Scope, f.Payments, func(p paymentFile) desk.Payment {
			return desk.Payment{
				ID: in.Text(p.ID), OrderID: in.Text(p.OrderID), Status: in.Text(p.Status),
				Amount: Cents(in.Amount(p.Amount)), Method: in.Text(p.Method),
				At: in.Instant(p.At), Details: in.renderDetails(p.Details),
			}
		}),
		Refunds: expr.FilterMap(&in.Scope, f.Refunds, func(r refundFile) desk.Refund {
			return desk.Refund{ID: in.Text(r.ID), OrderID: in.Text(r.OrderID), PaymentID: in.Text(r.PaymentID),
				Amount: Cents(in.Amount(r.Amount)), At: in.Instant(r.At)}
		}),
		Cases: expr.FilterMap(&in.Scope, f.Cases, func(c openCaseFile) desk.Escalation {
			return desk.Escalation{ID: in.Text(c.ID), Team: in.Text(c.Team), OrderID: in.Text(c.OrderID),
				Reason: in.Text(c.Reason)}
		}),
	}
}

func (in *instance) renderOrder(o orderFile) desk.Order {
	return desk.Order{
		ID: in.Text(o.ID), Status: in.Text(o.Status), Placed: in.Instant(o.Placed),
		Delivered: in.Instant(o.Delivered), Carrier: in.Text(o.Carrier),
		Tracking: in.Text(o.Tracking), Total: Cents(in.Amount(o.Total)), Notes: in.Texts(o.Notes),
		Details: in.renderDetails(o.Details),
		Items: expr.FilterMap(&in.Scope, o.Items, func(i itemFile) desk.Item {
			return desk.Item{Name: in.Text(i.Name), Quantity: in.Integer(i.Quantity), Shipped: in.Integer(i.Shipped),
				Price: Cents(in.Amount(i.Price))}
		}),
	}
}

func (in *instance) renderDetails(files source.Ordered[expr.Text]) map[string]string {
	if len(files) == 0 {
		return nil
	}
	out := make(map[string]string, len(files))
	for _, e := range files {
		out[e.Name] = in.Text(e.Value)
	}
	return out
}

// renderSteps renders the steps that the instance has. A missing prerequisite is ignored.
func (in *instance) renderSteps(files []stepFile) []WorkflowStep {
	steps := expr.FilterMap(&in.Scope, files, func(f stepFile) WorkflowStep {
		return WorkflowStep{
			ID: f.ID, Action: string(f.Action), Args: in.renderArguments(f.Args), Requires: slices.Clone(f.Requires),
			Terminal: f.Terminal, Ask: f.Ask, Answer: in.Text(f.Answer),
			About: f.About,
		}
	})
	for i := range steps {
		steps[i].Requires = slices.DeleteFunc(steps[i].Requires, func(id string) bool {
			return !slices.ContainsFunc(steps, func(s WorkflowStep) bool { return s.ID == id })
		})
	}
	return steps
}

func (in *instance) renderArguments(files source.Ordered[argFile]) []Arg {
	if len(files) == 0 {
		return nil
	}
	args := make([]Arg, 0, len(files))
	for _, e := range files {
		a := Arg{Name: e.Name, Any: e.Value.any}
		if e.Value.Eq.Given() {
			a.In = []any{in.renderArgument(e.Value.Eq)}
		}
		for _, v := range e.Value.In {
			a.In = append(a.In, in.renderArgument(v))
		}
		args = append(args, a)
	}
	return args
}

func (in *instance) renderNeutral(files []neutralFile) []NeutralAction {
	return expr.FilterMap(&in.Scope, files, func(f neutralFile) NeutralAction {
		return NeutralAction{Action: string(f.Action), Args: in.renderArguments(f.Args), Max: max(f.Max, 1)}
	})
}

func (in *instance) renderForbidden(files []spoilerFile) []ForbiddenAction {
	return expr.FilterMap(&in.Scope, files, func(f spoilerFile) ForbiddenAction {
		return ForbiddenAction{ID: f.ID, Action: string(f.Action), When: in.bindPredicate(f.If), Why: f.Why}
	})
}

// workflowValues lists the texts whose amounts, dates, durations and ids a reply may state.
func (in *instance) workflowValues(w *Workflow) []string {
	out := make([]string, 0, 64)
	for _, f := range w.Facts {
		out = append(out, f.Value)
	}
	out = in.TimeForms(w.Now, append(out, w.Query))
	for _, s := range w.Steps {
		if s.Ask {
			out = append(out, s.Answer)
		}
	}
	for _, o := range w.Records.Orders {
		out = in.orderValues(&o, out)
	}
	for _, p := range w.Records.Payments {
		out = in.moneyForms(p.Amount, append(out, p.ID, p.Method))
		out = append(in.maybeTimeForms(p.At, out), sortedValues(p.Details)...)
	}
	for _, r := range w.Records.Refunds {
		out = in.moneyForms(r.Amount, append(out, r.ID))
		out = in.maybeTimeForms(r.At, out)
	}
	for _, c := range w.Records.Cases {
		out = append(out, c.ID, c.Reason)
	}
	return out
}

func (in *instance) orderValues(o *desk.Order, out []string) []string {
	out = in.moneyForms(o.Total, append(out, o.ID, o.Tracking))
	out = in.maybeTimeForms(o.Delivered, in.maybeTimeForms(o.Placed, out))
	for _, i := range o.Items {
		out = in.moneyForms(i.Price, append(out, i.Name))
	}
	out = append(out, o.Notes...)
	return append(out, sortedValues(o.Details)...)
}

func (in *instance) maybeTimeForms(t time.Time, out []string) []string {
	if t.IsZero() {
		return out
	}
	return in.TimeForms(t, out)
}

// sortedValues lists the values of a map in the order of its keys.
func sortedValues(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

// loadWorkflow compiles a workflow file and tries it out. It returns nil after a fault.
func (d *document) loadWorkflow() *WorkflowScenario {
	s := d.compileWorkflow()
	if s == nil || tryOut(d, s.Instantiate) == nil {
		return nil
	}
	return s.WorkflowScenario
}

// compileWorkflow compiles a workflow file. It returns nil after a fault.
func (d *document) compileWorkflow() *writtenWorkflow {
	f := &workflowFile{Language: "en"}
	m := &f.Metadata
	if !d.decode(f, &m.baseMetadata) {
		return nil
	}
	s := &writtenWorkflow{
		WorkflowScenario: &WorkflowScenario{ID: m.ID, Version: m.Version, Split: m.Split, Class: m.Difficulty,
			Language: f.Language, File: d.Path, Pack: d.pack.info},
		salt: d.pack.salt, file: f, loc: expr.Locales[f.Language], harm: newHarms(f.Harm),
	}
	s.template = func() (workflowTemplate, error) { return s, nil }
	c := &params.Compiler{Compiler: expr.NewCompiler(s.loc), Lists: d.pack.names.find}
	for _, e := range f.Params {
		if slices.Contains(expr.MomentVariables(), e.Name) {
			c.Failf(e.Pos, "param %q hides a variable of predicates: choose another name", e.Name)
		}
	}
	f.CompileParams(c)
	expr.CompileAll(c.Compiler, source.ValueOf(f))
	checkWorkflow(c.Compiler, f)
	c.CheckCost(m.Pos)
	d.errs = append(d.errs, c.Errs...)
	if len(c.Errs) > 0 {
		return nil
	}
	return s
}

// checkWorkflow checks the fields against each other, without a seed.
func checkWorkflow(c *expr.Compiler, f *workflowFile) {
	ids := make([]string, 0, len(f.Steps))
	for _, s := range f.Steps {
		// Prerequisites precede the step in the list, so that the steps can't form a cycle.
		checkNames(c, s.Pos, "requires of step "+s.ID, s.Requires, ids)
		if (s.Terminal || s.Ask) && s.Action != desk.RespondUser {
			c.Failf(s.Pos, "step %s: only respond_user asks or ends the episode", s.ID)
		}
		if s.Ask != s.Answer.Given() || s.Ask && s.Terminal {
			c.Failf(s.Pos,
				"step %s: an asking step has an answer, no other step has one, and it does not end the episode", s.ID)
		}
		if len(s.About) > 0 && !s.Ask {
			c.Failf(s.Pos, "step %s: about belongs to an asking step", s.ID)
		}
		ids = append(ids, s.ID)
	}
	if len(f.Goal) == 0 {
		c.Failf(f.Metadata.Pos, "goal needs at least one predicate")
	}
	checkRange(c, f.Metadata.Pos, "limits.max_steps", f.Limits.MaxSteps, 1, 100)
	minutes := f.Limits.minutes()
	for _, action := range slices.Sorted(maps.Keys(minutes)) {
		checkRange(c, f.Metadata.Pos, "limits.step_minutes."+action, minutes[action], 0, 120)
	}
	for _, t := range f.Faults {
		checkRange(c, f.Metadata.Pos, "tool_faults.call", t.Call, 1, 100)
	}
	checkFacts(c, f.Facts)
	checkReferences(c, &f.References)
}
