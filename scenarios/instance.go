package scenarios

import (
	"slices"
	"time"
)

// Ticket is one ticket, instantiated from its scenario by a seed: every value is drawn and every
// text rendered. The environment serves Customer, Subject, Description, History, Attachments,
// Language, Now and the articles; everything else is for the grader and the oracle. It is immutable
// and may be shared.
type Ticket struct {
	ScenarioID string
	Version    int
	Seed       int64
	Now        time.Time
	// Language is the BCP-47 tag in which the customer wrote and expects the reply.
	Language    string
	Customer    Customer
	Subject     string
	Description string
	History     []Message
	Attachments []Attachment
	// Articles are the knowledge base's articles that a search can find, distractors among them,
	// ordered by id.
	Articles   []Article
	SLAMinutes int
	// Tone is the customer's: angry, calm, neutral or worried. It is never an input of gold.
	Tone  string
	Gold  TicketGold
	Reply ReplySpec
	// UserSim is the customer who writes back where an episode has several turns, nil where the
	// scenario has none.
	UserSim    *UserSim `json:",omitempty"`
	References References
}

// Customer is who wrote the ticket.
type Customer struct {
	Name         string
	Company      string
	AccountLevel string // basic, premium or enterprise
	Since        time.Time
}

// Message is one entry of a conversation.
type Message struct {
	Role string // customer or agent
	At   time.Time
	Text string
}

// Attachment is a named text that came with the ticket.
type Attachment struct {
	Name    string
	Content string
}

// Article is a policy or help article of the knowledge base.
type Article struct {
	ID    string
	Title string
	Body  string
}

// TicketGold is the right handling of a ticket.
type TicketGold struct {
	Category           string // billing, shipping, technical or general
	CategoryAlternates []Alternate
	Priority           string // low, medium, high or urgent
	PriorityAlternates []Alternate
	Escalate           bool
	Team               string // "" when Escalate is false
	TeamAlternates     []string
	ReasonCode         string
	Policy             string // article and section, as in POL-REF#limit
}

// Alternate is a second answer that earns part of the credit, in thousandths.
type Alternate struct {
	Value  string
	Credit int64
}

// ReplySpec is what a good reply states, answers and avoids. Values are rendered texts in the
// ticket's language.
type ReplySpec struct {
	Facts     []Fact
	Outcome   Outcome
	Questions []Question
	Forbidden []Forbidden
	// Points are the milli-points of the criteria Q1 to Q8; they sum to 500.
	Points Points
	// MinWords and MaxWords bound a reply that loses nothing for its length.
	MinWords, MaxWords int
	// AllowedValues hold every amount, date, duration and id that a reply may state. Those of facts
	// and state stand alone, formatted for the ticket's language; those of the served texts and the
	// articles stand within their text. A grader extracts claims from each entry as it does from a
	// reply.
	AllowedValues []string
	// Rubric are the texts that a reply must not copy wholesale: fact ids, slots, context words,
	// article bodies.
	Rubric []string
}

// Fact is one statement that a reply must make: the value and a context word in the same sentence,
// with the polarity asked for.
type Fact struct {
	ID       string
	Slot     string
	Value    string
	Accept   []string
	Context  []string
	Negative bool
	Optional bool
	// Drawn tells that the seed decides Value, so that a reply written for another seed can't state
	// it but by accident.
	Drawn bool
}

// Outcome is the next step that policy allows for the ticket. It holds when the reply states the
// facts named by Facts and one of the phrases of Accept.
type Outcome struct {
	Value  string
	Accept []string
	Facts  []string
}

// Question is something the customer asked, with the facts that answer it.
type Question struct {
	ID         string
	Text       string
	AnsweredBy []string
}

// Forbidden is a gate on the reply.
type Forbidden struct {
	ID string
	// Kind is commitment (promising one of Verbs), amount_not_in (an amount outside Values),
	// disclosure (stating one of Values) or missing_safety (not stating one of Values).
	Kind   string
	Verbs  []string
	Values []string
	// Cap is the most that a reply which trips the gate can earn, in milli-points.
	Cap int64
}

// UserSim is the script of a customer who answers the agent's messages. Its texts are rendered;
// nothing in it decides what is right.
type UserSim struct {
	// Persona is terse, chatty, formal or anxious. It describes the lines and selects nothing.
	Persona string
	// MaxTurns is the most messages that the customer sends.
	MaxTurns int
	Answers  []SimAnswer
	// Lines are what the customer says when nothing was asked, by mood: calm, uneasy, annoyed and
	// angry, each with at least one line.
	Lines map[string][]string
	// StopWhen lists what leaves the customer with nothing to add: outcome_stated, facts_stated.
	StopWhen []string
}

// SimAnswer is what the customer says to a question that holds one of Ask.
type SimAnswer struct {
	ID   string
	Ask  []string
	Text string
	// Known is false where Text says that the customer doesn't know.
	Known bool
	// Told is true where the ticket says it already, so that asking is asking again.
	Told bool
}

// Points are the milli-points of the judge's criteria.
type Points struct {
	Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8 int64
}

// References are replies that calibrate the judge. They are never served; the oracle policy sends
// Good[0].
type References struct {
	Good []string
	Bad  []BadReference
}

// BadReference is a reply that must earn at most Max milli-points.
type BadReference struct {
	Text string
	Max  int64
	Why  string
}

// Workflow is one workflow, instantiated from its scenario by a seed. The environment serves Query
// and Visible; everything else sits behind the tools or with the grader. It is immutable: the
// environment clones State before it changes it.
type Workflow struct {
	ScenarioID string
	Version    int
	Seed       int64
	Now        time.Time
	Language   string
	Customer   Customer
	Query      string
	Visible    Visible
	State      Backend
	Steps      []WorkflowStep
	Neutral    []NeutralAction
	Forbidden  []ForbiddenAction
	// Goal are the predicates over the end state, all of which must hold for a resolution.
	Goal []Predicate
	// Facts must be stated by the reply that ends the episode.
	Facts    []Fact
	Faults   []Fault
	MaxSteps int
	// StepMinutes is what each action takes of the simulated clock, in minutes.
	StepMinutes map[string]int
	// AllowedValues are as in ReplySpec.
	AllowedValues []string
	References    References
}

// Visible is what the first observation shows of the backends; "" and "unknown" both mean not
// looked up yet. It is never the true value.
type Visible struct {
	OrderStatus   string
	PaymentStatus string
}

// Actions of a workflow.
const (
	CheckOrderStatus = "check_order_status"
	CheckPayment     = "check_payment"
	InitiateRefund   = "initiate_refund"
	EscalateIssue    = "escalate_issue"
	RespondUser      = "respond_user"
)

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
	// Ask marks a respond_user that must be a question; the episode goes on and the customer
	// answers with Answer.
	Ask    bool
	Answer string
	// About are the words of which the question must hold one; empty for any question.
	About []string
}

// Accepts reports whether a payload meets every Arg of the step. Payload values are string, int64,
// float64 or bool; amounts are int64 cents, so an environment converts the agent's dollars first.
func (s WorkflowStep) Accepts(payload map[string]any) bool { return acceptsAll(s.Args, payload) }

// NeutralAction is a harmless read: it costs little and may happen Max times before it counts as
// wrong.
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
	// Any accepts every value but nil and "".
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

// ForbiddenAction ends all hope of a resolution when an action matches it: Action is the same and
// When holds (before the action changes anything), or, for a respond_user, the reply commits to one
// of Verbs.
type ForbiddenAction struct {
	ID     string
	Action string
	// When is the zero Predicate where every such action is forbidden (Verbs empty) or only Verbs
	// count.
	When  Predicate
	Verbs []string
	Why   string
}

// Fault makes the Call-th call (from 1) of an action fail with Error, as a backend would that is
// down for a moment.
type Fault struct {
	Action string
	Call   int
	Error  string
}
