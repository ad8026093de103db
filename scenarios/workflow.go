package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// Cents is an amount of US dollars in cents.
type Cents = desk.Cents

// Workflow is one workflow, instantiated from its scenario by a seed. The environment serves Query
// and Visible; tools return other data, and the grader uses the rest. It is immutable.
type Workflow struct {
	ScenarioID string
	Version    int
	Seed       int64
	Now        time.Time
	Language   string
	Customer   Customer
	// Category groups the workflow in statistics: a generated case's family, or "workflow".
	Category string `json:"-"`
	Rules    Rules  `json:"-"`
	Query    string
	// Answers are what the customer of a generated case says about topics when asked, also if the
	// case doesn't require it, and Unasked about anything else.
	Answers []cases.Answer `json:",omitempty"`
	Unasked string         `json:",omitempty"`
	// AskWords are the beginnings of words that make a sentence to the customer of a generated case
	// a question.
	AskWords []string `json:",omitempty"`
	// Talk is the customer of a conversation, nil for other workflows.
	Talk    *talk.Script `json:",omitempty"`
	Visible Visible
	// Records are those behind the tools. An environment changes a clone of them.
	Records desk.Records
	// Policy is the policy of a generated case, nil for written workflows.
	Policy *desk.Policy `json:",omitempty"`
	// Decision is what the policy says about a generated case. Steps and facts follow from it.
	Decision  *desk.Decision `json:"-"`
	Steps     []WorkflowStep
	Neutral   []NeutralAction
	Forbidden []ForbiddenAction
	// Goal contains the predicates on the end state, all of which must be true for a resolution.
	Goal []Predicate
	// Facts must be stated by the reply that ends the episode.
	Facts []Fact
	// True are what the reply to a generated case may state besides. Closed means that it must not
	// state anything else.
	True     []facts.Wanted `json:"-"`
	Closed   bool           `json:"-"`
	Harm     []Harm         `json:",omitempty"`
	Faults   []desk.Fault
	MaxSteps int
	// StepMinutes is the duration of each action on the simulated clock, in minutes.
	StepMinutes map[string]int
	// AllowedValues are as in ReplySpec.
	AllowedValues []string
	References    References
}

// Rules are how a workflow is played and paid, as far as written workflows and generated cases
// differ.
type Rules struct {
	// Tools are those that agents have. Where there are more than in written workflows, there is
	// one to ask the customer, and every reply ends the episode.
	Tools desk.TaskKinds
	// PlainRecords means that answers contain records by their kinds, with the members that records
	// of written workflows have.
	PlainRecords bool
	// FinesExcess means that each step beyond the number of required ones costs points.
	FinesExcess bool
	// ChangesNeedLookUps means that a change is refused before the look-ups that its tool always
	// depends on.
	ChangesNeedLookUps bool
	// OtherChangesSpoil means that a change that isn't required prevents the resolution.
	OtherChangesSpoil bool
	// PaysLookUpsApart means that all look-ups and questions together are paid a fixed sum, and
	// that the resolution depends on the changes alone.
	PaysLookUpsApart bool
}

// The rules of written workflows, of generated cases, and of those with conversations.
var (
	WrittenRules = Rules{Tools: desk.Written, FinesExcess: true, PlainRecords: true}
	CaseRules    = caseRules(desk.Cases)
	TalkRules    = caseRules(desk.Talks)
)

func caseRules(tools desk.TaskKinds) Rules {
	return Rules{Tools: tools, ChangesNeedLookUps: true, OtherChangesSpoil: true, PaysLookUpsApart: true}
}

// Visible is the part of the backend's state in the first observation. "" and "unknown" both mean
// that it hasn't been looked up. It is never the true value.
type Visible struct {
	OrderStatus   string
	PaymentStatus string
}

// WorkflowStep is a required step. The steps form a DAG: each is satisfied once, by an action that
// Accepts, when all of Requires are satisfied.
type WorkflowStep struct {
	ID       string
	Action   string
	Args     []Arg
	Requires []string
	// Terminal marks the reply that ends the episode; exactly one step has it, and it has action
	// respond_user.
	Terminal bool
	// Ask marks a respond_user that must be a question. The episode continues, and the customer
	// answers with Answer.
	Ask    bool
	Answer string
	// About lists the words of which the question must contain one. It is empty for any question.
	About []string
	// Asks are the topics that the customer of a conversation must have told, and Confirms is a
	// change about which they must have been asked. Either makes the step a message to them.
	Asks     []string     `json:",omitempty"`
	Confirms *desk.Effect `json:",omitempty"`
}

// Accepts reports whether a payload meets every Arg of the step. Payload values are string, int64,
// float64 or bool; amounts are int64 cents, so an environment converts the agent's dollars first.
func (s WorkflowStep) Accepts(payload map[string]any) bool { return acceptsAll(s.Args, payload) }

// Message are the arguments of a message to the customer of a conversation that does what a step
// requires.
func (w *Workflow) Message(step WorkflowStep) map[string]any {
	args := map[string]any{}
	if step.Confirms != nil {
		args = maps.Collect(step.Confirms.Args())
		args["confirms"] = []string{step.Confirms.Tool}
	} else {
		args["asks"] = step.Asks
	}
	greeting, _, _ := strings.Cut(w.References.Good[0], ".")
	args["message"] = greeting + "."
	return args
}

// NeutralAction is a harmless look-up: it costs little and may be done Max times before it counts
// as wrong.
type NeutralAction struct {
	Action string
	Args   []Arg
	Max    int
}

// Accepts is as for WorkflowStep.
func (n NeutralAction) Accepts(payload map[string]any) bool { return acceptsAll(n.Args, payload) }

func acceptsAll(args []Arg, payload map[string]any) bool {
	for _, a := range args {
		if !a.Matches(payload[a.Name]) {
			return false
		}
	}
	return true
}

// Arg constrains one field of an action's payload.
type Arg struct {
	Name string
	// Any accepts every value except nil and "".
	Any bool
	// In are the accepted values: string, int64 (cents for amounts) or bool.
	In []any
}

// Matches reports whether a payload value is accepted.
func (a Arg) Matches(value any) bool {
	if a.Any {
		return value != nil && value != ""
	}
	return slices.Contains(a.In, value)
}

// ForbiddenAction prevents a resolution if an action matches it: Action is the same and When is
// true, before the action changes anything.
type ForbiddenAction struct {
	ID     string
	Action string
	// When is the zero Predicate if every such action is forbidden.
	When Predicate
	Why  string
}

// Required are the facts that an agent must state. The first value of each is the usual one.
func (w *Workflow) Required() []facts.Wanted { return wantedFacts(w.Facts, false) }

// Optional are true facts that an agent may state, in a written workflow also what is done.
func (w *Workflow) Optional() []facts.Wanted {
	listed := slices.Concat(wantedFacts(w.Facts, true), w.True)
	if w.Policy != nil {
		return listed
	}
	done := []string{"explained"}
	for _, s := range w.Steps {
		if tool := desk.FindTool(s.Action); tool != nil && tool.NextStep != "" {
			done = append(done, tool.NextStep)
		}
	}
	if len(done) == 1 {
		done = append(done, "refused")
	}
	return append(listed, facts.Wanted{ID: nextStep, What: nextStep, Values: done})
}

// Moment is the input of a predicate: the records and the judged action.
type Moment struct {
	Records *desk.Records
	// Payload is the action's payload, normalised as for WorkflowStep.Accepts. It is nil if a goal
	// is judged.
	Payload map[string]any
	// Replied is true after the terminal reply was sent, and Message is that reply.
	Replied bool
	Message string
}

// Predicate is a CEL expression of a scenario, compiled with the catalogue and bound to the values
// that the seed drew. It is safe for concurrent use.
type Predicate struct {
	// Source is the expression as written.
	Source  string
	program expr.Program
	vars    interpreter.Activation
}

// IsZero reports whether there is no predicate.
func (p Predicate) IsZero() bool { return p.program == nil }

// Holds evaluates the predicate. An error means that the expression refers to missing data, such as
// a payload field that the action doesn't have. A caller that judges an agent's action treats an
// error as false.
func (p Predicate) Holds(m Moment) (bool, error) {
	vars, err := interpreter.NewActivation(m.predicateVariables())
	if err != nil {
		return false, fmt.Errorf("binding %q: %w", p.Source, err)
	}
	out, _, err := p.program.Eval(interpreter.NewHierarchicalActivation(p.vars, vars))
	if err != nil {
		return false, fmt.Errorf("evaluating %q: %w", p.Source, err)
	}
	return out == types.True, nil
}

// predicateVariables are the names that predicates can use in addition to the drawn values.
func (m Moment) predicateVariables() map[string]any {
	payload := m.Payload
	if payload == nil {
		payload = map[string]any{}
	}
	return map[string]any{
		"args": payload, "replied": m.Replied, "message": m.Message,
		"orders": convertRecords(m.Records.Orders,
			orderRecord), "payments": convertRecords(m.Records.Payments, paymentRecord),
		"refunds": convertRecords(m.Records.Refunds,
			refundRecord), "cases": convertRecords(m.Records.Cases, caseRecord),
	}
}

func convertRecords[T any](from []T, record func(T) map[string]any) []any {
	out := make([]any, len(from))
	for i, r := range from {
		out[i] = record(r)
	}
	return out
}

func orderRecord(o desk.Order) map[string]any {
	return map[string]any{"id": o.ID, "status": o.Status, "total": int64(o.Total), "details": o.Details}
}

func paymentRecord(p desk.Payment) map[string]any {
	return map[string]any{"id": p.ID, "order_id": p.OrderID, "status": p.Status, "amount": int64(p.Amount),
		"details": p.Details}
}

func refundRecord(r desk.Refund) map[string]any {
	return map[string]any{"id": r.ID, "order_id": r.OrderID, "payment_id": r.PaymentID, "amount": int64(r.Amount)}
}

func caseRecord(c desk.Escalation) map[string]any {
	return map[string]any{"id": c.ID, "team": c.Team, "order_id": c.OrderID, "reason": c.Reason}
}
