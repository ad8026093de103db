package scenarios

import (
	"strconv"
	"strings"
	"sync"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
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

// composedWorkflow is a composition that is shown as workflows.
type composedWorkflow struct {
	*WorkflowScenario

	salt        string
	composition *cases.Composition
}

// caseWorkflow makes the scenario of a generated case.
func caseWorkflow(p *openPack, c *cases.Composition) *WorkflowScenario {
	s := &WorkflowScenario{ID: c.ID, Version: c.Version(), Split: c.Split, Class: c.Difficulty,
		Language: c.Language, File: c.File, Pack: p.info, Family: c.Family, Modifiers: c.Modifiers}
	s.template = func() (workflowTemplate, error) { return &composedWorkflow{s, p.salt, c}, nil }
	return s
}

// instantiate draws a generated case as a workflow: a step for each look-up and question that
// the decision depends on, one for each change, which comes after them, and the reply.
func (s *composedWorkflow) instantiate(seed int64) (*Workflow, error) {
	c, err := s.composition.Instantiate(s.salt, seed)
	if err != nil {
		return nil, err
	}
	w := &Workflow{
		Rules: CaseRules, Category: s.Category(), Unasked: c.Unasked, AskWords: c.AskWords,
		ScenarioID: s.ID, Version: s.Version, Seed: seed, Now: c.Now, Language: s.Language, Query: c.Query,
		Customer: Customer{Name: c.Records.Customer.Name, AccountLevel: c.Records.Customer.Level,
			Since: c.Records.Customer.Since},
		Records: c.Records, Policy: c.Policy, Decision: &c.Decision,
		StepMinutes: caseMinutes(), References: References{Good: []string{c.Reply}},
	}
	w.Steps = caseSteps(c)
	w.Answers, w.Faults = c.Answers, c.Faults
	w.Facts, w.True, w.Closed = caseFacts(c), c.True, c.Records.Closed()
	w.MaxSteps = caseMaxSteps
	return w, nil
}

func caseFacts(c *cases.Case) []Fact {
	facts := make([]Fact, len(c.Facts))
	for i, f := range c.Facts {
		facts[i] = Fact{ID: "f" + strconv.Itoa(i+1), Slot: f.Slot, What: f.What, Stated: f.Stated, Value: f.Value,
			Seeded: true}
	}
	return facts
}

// caseMinutes are the durations of the tools in every generated case.
var caseMinutes = sync.OnceValue(func() map[string]int { return toolMinutes(false) })

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
		if tool := desk.FindTool(r.Tool); tool.Show == nil {
			step.Ask, step.Answer, step.About = true, questions[0].Answer, questions[0].About
			questions = questions[1:]
		} else if needed := tool.Args[0]; !strings.HasSuffix(needed, "?") {
			step.Args = newEqualArgs(needed, r.Key)
		}
		add(step)
	}
	known := listStepIDs(steps)
	for _, e := range c.Decision.Effects {
		add(WorkflowStep{Action: e.Tool, Args: effectArgs(e), Requires: known})
	}
	add(WorkflowStep{Action: desk.RespondUser, Requires: listStepIDs(steps), Terminal: true})
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
	for name, value := range e.Args() {
		args = append(args, newEqualArgs(name, value)...)
	}
	return args
}
