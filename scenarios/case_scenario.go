package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
)

// compileCases compiles a pack's generated cases, adds them to the catalogue, and returns the
// faults.
func (p *openPack) compileCases(c *Catalog) []error {
	own := p.caseFiles()
	if len(own) == 0 {
		return nil
	}
	set, err := p.caseSet()
	if err != nil {
		return []error{err}
	}
	if c.caseSet == nil {
		c.caseSet = func() *cases.Set { return set }
	}
	var faults []error
	for _, listed := range set.Listed() {
		switch {
		case !slices.ContainsFunc(own, func(f cases.File) bool { return f.Name == listed.File }):
		case !listed.Tickets:
			c.cases = append(c.cases, caseWorkflow(p, listed))
		case p.articles.find(triageArticle) == nil:
			faults = append(faults, fmt.Errorf("%s: tickets need the article kb/%s.md", listed.File, triageArticle))
		default:
			c.tickets = append(c.tickets, caseTicket(p, listed))
		}
	}
	return faults
}

// caseSet compiles a pack's cases with those of its base.
func (p *openPack) caseSet() (*cases.Set, error) {
	files := p.caseFiles()
	if p.base != nil {
		files = slices.Concat(p.base.caseFiles(), files)
	}
	people := map[string]*params.NameList{}
	for language := range expr.Locales {
		people[language] = p.names.find(language)
	}
	return cases.Load(files, people)
}

// caseFiles are the pack's own files that describe generated cases.
func (p *openPack) caseFiles() (files []cases.File) {
	for _, d := range p.documents {
		if slices.Contains([]string{"names", "families", "modifiers"}, d.Folder) && d.isOfCases() {
			if _, root := d.parse(); root != nil {
				files = append(files, cases.File{Name: d.Path, Root: root})
			}
		}
	}
	return files
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
		Language: c.Language, File: c.File, Pack: p.info, Family: c.Family, Modifiers: c.Modifiers, Talks: c.Talks}
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
	if c.Talk != nil {
		w.Rules, w.Talk, w.StepMinutes = TalkRules, c.Talk, talkMinutes()
		w.Answers, w.Unasked, w.AskWords = nil, "", nil
	}
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
var caseMinutes = sync.OnceValue(func() map[string]int { return toolMinutes(desk.Cases) })

// talkMinutes are those in every conversation.
var talkMinutes = sync.OnceValue(func() map[string]int { return toolMinutes(desk.Talks) })

// caseSteps makes the steps of the decision.
func caseSteps(c *cases.Case) []WorkflowStep {
	var steps []WorkflowStep
	add := func(step WorkflowStep) {
		step.ID = "s" + strconv.Itoa(len(steps)+1)
		steps = append(steps, step)
	}
	questions := c.Questions
	if c.Talk != nil {
		for _, asks := range c.Talk.Rounds(c.ListAsked()) {
			add(WorkflowStep{Action: desk.Tell, Asks: asks})
		}
	}
	for _, r := range c.Decision.Reads {
		step := WorkflowStep{Action: r.Tool}
		if tool := desk.FindTool(r.Tool); tool.Show == nil && c.Talk != nil {
			continue
		} else if tool.Show == nil {
			step.Ask, step.Answer, step.About = true, questions[0].Answer, questions[0].About
			questions = questions[1:]
		} else if needed := tool.Args[0]; !strings.HasSuffix(needed, "?") {
			step.Args = newEqualArgs(needed, r.Key)
		}
		add(step)
	}
	known := listStepIDs(steps)
	for _, e := range c.Decision.Effects {
		if slices.Contains(c.Decision.Confirms, e) {
			for _, asked := range c.Talk.Confirmations(e) {
				add(WorkflowStep{Action: desk.Tell, Confirms: &asked, Requires: known})
			}
		}
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
