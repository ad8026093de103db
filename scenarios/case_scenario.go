package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/triage"
)

// caseSet compiles a pack's cases with its base's.
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

// triageArticle is the article by which generated tickets are labelled.
const triageArticle = "POL-TRI"

// caseTicket makes the scenario of a generated ticket.
func caseTicket(p *openPack, c *cases.Composition) *TicketScenario {
	s := &TicketScenario{ID: c.ID, Version: c.Version(), Split: c.Split, Difficulty: c.Difficulty,
		Language: c.Language, Category: c.Category(), Family: c.Family, File: c.File, Pack: p.info}
	t := &composedTicket{s, p.salt, c, p.articles.find(triageArticle).standard}
	s.template = func() (ticketTemplate, error) { return t, nil }
	return s
}

// composedTicket is a composition that is shown as tickets.
type composedTicket struct {
	*TicketScenario

	salt        string
	composition *cases.Composition
	triage      Article // about priorities
}

func (s *composedTicket) variants(seed int64) ([]*Ticket, error) {
	t, err := s.Instantiate(seed)
	return []*Ticket{t}, err
}

// The maximum length of a reply to a generated ticket, in words, and the cap on a reply that
// promises a remedy that the policy doesn't give or tells what is withheld, in milli-points.
const caseMaxWords = 180

// draw draws a generated case as a ticket. The message contains what the customer would answer,
// an attachment contains the records, and the articles are the pages of the policy.
func (s *composedTicket) draw(seed int64) (*DrawnTicket, error) {
	c, err := s.composition.Instantiate(s.salt, seed)
	if err != nil {
		return nil, err
	}
	customer := &c.Records.Customer
	t := Served{
		ScenarioID: s.ID, Version: s.Version, Seed: seed, Now: c.Now, Language: s.Language,
		Customer:    Customer{Name: customer.Name, AccountLevel: customer.Level, Since: customer.Since},
		Subject:     c.Ticket.Subject,
		Description: strings.Join(append([]string{c.Query}, c.Ticket.Answers...), "\n\n"),
		Attachments: []Attachment{{Name: recordName, Content: recordText(&c.Records)}},
		Tone:        toneOf(c.Voice), Decision: &c.Decision,
	}
	for _, page := range c.Policy.Pages() {
		t.Articles = append(t.Articles, Article{ID: pageID(page.Topic), Title: page.Title, Body: page.Body})
	}
	t.Articles = append(t.Articles, s.triage)
	slices.SortFunc(t.Articles, func(a, b Article) int { return strings.Compare(a.ID, b.ID) })
	t.Gold = caseGold(c)
	minutes, err := triage.SLAMinutes(t.Gold.Priority)
	if err != nil {
		return nil, err
	}
	t.SLAMinutes = int(minutes)
	return &DrawnTicket{t, sync.OnceValues(func() (*Ticket, error) {
		return &Ticket{Served: t, Reply: caseReply(c),
			References: References{Good: []string{c.Reply}}}, nil
	})}, nil
}

// recordName is the name of the attachment with the records.
const recordName = "record.txt"

// recordText writes the records as lines, with the names that the desk's tools give the values.
func recordText(r *desk.Records) string {
	var b strings.Builder
	writeRecord(&b, "customer", r.Customer)
	recordAll(&b, "order", r.Orders)
	recordAll(&b, "payment", r.Payments)
	recordAll(&b, "shipment", r.Shipments)
	recordAll(&b, "subscription", r.Subscriptions)
	recordAll(&b, "outage", r.Outages)
	recordAll(&b, "refund", r.Refunds)
	recordAll(&b, "credit", r.Credits)
	return strings.TrimSpace(b.String())
}

func recordAll[T any](b *strings.Builder, title string, all []T) {
	for _, one := range all {
		writeRecord(b, title, one)
	}
}

// writeRecord writes a title and a line for each field of a struct.
func writeRecord(b *strings.Builder, title string, of any) {
	b.WriteString("\n" + title + "\n")
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if options != "" && field.IsZero() {
			continue
		}
		name = strings.ReplaceAll(name, "_", " ")
		if field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct {
			// The nested records are the last fields with a value.
			for k := range field.Len() {
				writeRecord(b, title+", "+strings.TrimSuffix(name, "s"), field.Index(k).Interface())
			}
			continue
		}
		b.WriteString("  " + name + ": " + recordValue(field.Interface()) + "\n")
	}
}

func recordValue(value any) string {
	switch v := value.(type) {
	case desk.Cents:
		return "$" + v.String()
	case time.Time:
		return v.Format("2006-01-02 15:04")
	case []string:
		return strings.Join(v, ", ")
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(value)
}

// pageID is the id of the article with a page of the desk's policy.
func pageID(topic string) string { return "DESK-" + strings.ToUpper(topic) }

// toneOf returns the tone of a voice.
func toneOf(voice string) string {
	switch voice {
	case "formal", "chatty", "polite":
		return "calm"
	case "worried":
		return "worried"
	}
	return "neutral"
}

// caseGold follows from the situation and the decision. If two teams have to take over a part each,
// either is right.
func caseGold(c *cases.Case) TicketGold {
	g := TicketGold{Category: c.Ticket.Category, ReasonCode: c.Decision.Handed}
	for _, a := range c.Ticket.Alternates {
		g.CategoryAlternates = append(g.CategoryAlternates, Alternate{Value: a.Name, Credit: a.Value})
	}
	g.Priority, _ = c.Ticket.Situation.Priority()
	for _, e := range c.Decision.Effects {
		switch {
		case e.Tool != desk.Escalating:
		case g.Team == "":
			g.Escalate, g.Team = true, e.Team
			g.Policy = pageID(desk.TopicOf(c.Decision.Handed)) + "#" + c.Decision.Handed
		default:
			g.TeamAlternates = append(g.TeamAlternates, e.Team)
		}
	}
	return g
}

// caseReply describes the reply that the decision makes right.
func caseReply(c *cases.Case) ReplySpec {
	return ReplySpec{Facts: caseFacts(c), Points: standardPoints(), MaxWords: caseMaxWords, True: c.True,
		Closed: c.Records.Closed()}
}
