package authoring

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/scenarios"
)

// WorkflowView is a workflow as it is shown.
type WorkflowView struct {
	ID      string         `json:"id"`
	Kind    string         `json:"kind"`
	Version int            `json:"version"`
	Seed    int64          `json:"seed"`
	Task    string         `json:"task"`
	File    string         `json:"file"`
	Served  workflowServed `json:"served"`
	Gold    *workflowGold  `json:"gold,omitempty"`
}

// workflowServed is the first observation's content.
type workflowServed struct {
	Now           time.Time    `json:"now"`
	Language      string       `json:"language"`
	Customer      customerView `json:"customer"`
	Query         string       `json:"query"`
	OrderStatus   string       `json:"order_status"`
	PaymentStatus string       `json:"payment_status"`
}

// workflowGold is what lies behind the tools, and what is right.
type workflowGold struct {
	MaxSteps    int                 `json:"max_steps"`
	Orders      []scenarios.Order   `json:"orders,omitempty"`
	Payments    []scenarios.Payment `json:"payments,omitempty"`
	Refunds     []scenarios.Refund  `json:"refunds,omitempty"`
	Cases       []scenarios.Case    `json:"cases,omitempty"`
	Steps       []step              `json:"steps"`
	Neutral     []step              `json:"neutral,omitempty"`
	Forbidden   []spoiler           `json:"forbidden,omitempty"`
	Goal        []string            `json:"goal"`
	Facts       []fact              `json:"facts"`
	Faults      []fault             `json:"tool_faults,omitempty"`
	GoodReplies []string            `json:"good_replies"`
}

type step struct {
	ID       string         `json:"id,omitempty"`
	Action   string         `json:"action"`
	Args     map[string]any `json:"args,omitempty"`
	Requires []string       `json:"requires,omitempty"`
	Terminal bool           `json:"terminal,omitempty"`
	Answer   string         `json:"answer,omitempty"`
	Max      int            `json:"max,omitempty"`
}

type spoiler struct {
	ID     string   `json:"id"`
	Action string   `json:"action"`
	When   string   `json:"when_action,omitempty"`
	Verbs  []string `json:"verbs,omitempty"`
	Why    string   `json:"why,omitempty"`
}

type fault struct {
	Action string `json:"action"`
	Call   int    `json:"call"`
	Error  string `json:"error"`
}

func newWorkflowView(s *scenarios.WorkflowScenario, f *scenarios.Workflow) *WorkflowView {
	return &WorkflowView{
		ID: s.ID, Kind: kindWorkflow, Version: s.Version, Seed: f.Seed, Task: s.Task(), File: s.File,
		Served: workflowServed{
			Now: f.Now, Language: f.Language, Customer: newCustomerView(f.Customer), Query: f.Query,
			OrderStatus: unknown(f.Visible.OrderStatus), PaymentStatus: unknown(f.Visible.PaymentStatus),
		},
		Gold: newWorkflowGold(f),
	}
}

func unknown(status string) string {
	if status == "" {
		return "unknown"
	}
	return status
}

func newWorkflowGold(f *scenarios.Workflow) *workflowGold {
	return &workflowGold{
		MaxSteps: f.MaxSteps, Orders: f.State.Orders, Payments: f.State.Payments, Refunds: f.State.Refunds,
		Cases: f.State.Cases,
		Steps: view.Each(f.Steps, func(s scenarios.WorkflowStep) step {
			return step{ID: s.ID, Action: s.Action, Args: argsOf(s.Args), Requires: s.Requires, Terminal: s.Terminal,
				Answer: s.Answer}
		}),
		Neutral: view.Each(f.Neutral, func(n scenarios.NeutralAction) step {
			return step{Action: n.Action,
				Args: argsOf(n.Args), Max: n.Max}
		}),
		Forbidden: view.Each(f.Forbidden, func(a scenarios.ForbiddenAction) spoiler {
			return spoiler{a.ID, a.Action, a.When.Source, a.Verbs, a.Why}
		}),
		Goal:        view.Each(f.Goal, func(p scenarios.Predicate) string { return p.Source }),
		Facts:       view.Each(f.Facts, newFact),
		Faults:      view.Each(f.Faults, func(f scenarios.Fault) fault { return fault(f) }),
		GoodReplies: f.References.Good,
	}
}

// argsOf gives each argument's accepted value, the list of them, or "any". An amount is in dollars,
// as agents send it.
func argsOf(args []scenarios.Arg) map[string]any {
	out := map[string]any{}
	for _, a := range args {
		values := view.Each(a.In, func(v any) any {
			if cents, ok := v.(int64); ok && a.Name == "amount" {
				return scenarios.Cents(cents)
			}
			return v
		})
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

func (v *WorkflowView) hideGold() { v.Gold = nil }

func (v *WorkflowView) print(w io.Writer) {
	fmt.Fprintf(w, "%s, workflow, task %s, version %d, seed %d (%s)\n", v.ID, v.Task, v.Version, v.Seed, v.File)
	view.Heading(w, "what the agent is served")
	v.Served.Customer.print(w)
	view.Field(w, "now", v.Served.Now.Format(view.ClockTime))
	view.Field(w, "language", v.Served.Language)
	view.Field(w, "order", v.Served.OrderStatus)
	view.Field(w, "payment", v.Served.PaymentStatus)
	fmt.Fprintln(w)
	view.Paragraph(w, "  ", v.Served.Query)
	if v.Gold == nil {
		return
	}
	view.Heading(w, "behind the tools (served only by them)")
	v.Gold.printState(w)
	view.Heading(w, "what is right (never served)")
	v.Gold.Print(w)
}

func (g *workflowGold) printState(w io.Writer) {
	for _, o := range g.Orders {
		view.Field(w, "order", view.YAML(o))
	}
	for _, p := range g.Payments {
		view.Field(w, "payment", view.YAML(p))
	}
	for _, r := range g.Refunds {
		view.Field(w, "refund", view.YAML(r))
	}
	for _, c := range g.Cases {
		view.Field(w, "case", view.YAML(c))
	}
	for _, f := range g.Faults {
		view.Field(w, "fault", fmt.Sprintf("call %d of %s answers %s", f.Call, f.Action, f.Error))
	}
}

func (g *workflowGold) Print(w io.Writer) {
	view.Field(w, "steps", "at most "+strconv.Itoa(g.MaxSteps))
	for _, s := range g.Steps {
		view.Field(w, "step "+s.ID, s.String())
	}
	for _, s := range g.Neutral {
		view.Field(w, "harmless", s.String())
	}
	for _, f := range g.Forbidden {
		view.Field(w, "forbidden "+f.ID, f.String())
	}
	view.Field(w, "goal", strings.Join(g.Goal, "\n"))
	printFacts(w, g.Facts)
	printReplies(w, g.GoodReplies)
}

func (s step) String() string {
	out := s.Action
	if len(s.Args) > 0 {
		out += " " + view.JSON(s.Args)
	}
	if len(s.Requires) > 0 {
		out += ", after " + strings.Join(s.Requires, ", ")
	}
	if s.Terminal {
		out += ", ends the episode"
	}
	if s.Answer != "" {
		out += ", which must be a question; the customer answers: " + s.Answer
	}
	if s.Max > 0 {
		out += fmt.Sprintf(", at most %d times", s.Max)
	}
	return out
}

func (f spoiler) String() string {
	out := f.Action
	if f.When != "" {
		out += " when " + f.When
	}
	if len(f.Verbs) > 0 {
		out += " that promises to " + strings.Join(f.Verbs, ", ")
	}
	if f.Why != "" {
		out += " (" + f.Why + ")"
	}
	return out
}
