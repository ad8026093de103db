package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// Ticket is one ticket, instantiated from its scenario by a seed: every value is drawn and every
// text rendered. Reply is for the judge, References for the oracle. It is immutable and may be
// shared.
type Ticket struct {
	Served
	Reply      ReplySpec
	References References
}

// DrawnTicket is a ticket of which the parts for the judge are rendered when they are needed first.
type DrawnTicket struct {
	Served
	// Complete returns the whole ticket, the same one at each call. An error contains the file and
	// line of an expression that fails with this seed's values. It is safe for concurrent use.
	Complete func() (*Ticket, error)
}

// Served is what an episode of a ticket has from its beginning. The environment serves Customer,
// Subject, Description, History, Attachments, Language, Now and the articles; everything else is
// for the grader and the scripted customer.
type Served struct {
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
	// Articles are the articles of the knowledge base that a search can find, including
	// distractors, ordered by id.
	Articles   []Article
	SLAMinutes int
	// Tone is the customer's tone: angry, calm, neutral or worried. Gold never depends on it.
	Tone string
	Gold TicketGold
	// UserSim is the script of a customer who answers in episodes with several turns, or nil.
	UserSim *UserSim `json:",omitempty"`
	// Decision is what is right to do in a generated ticket, nil for others.
	Decision *desk.Decision `json:",omitempty"`
}

// ServedTexts are the texts that the agent receives with the ticket, without articles.
func (t *Served) ServedTexts() []string {
	served := append(make([]string, 0, 2+len(t.History)+2*len(t.Attachments)), t.Subject, t.Description)
	for _, m := range t.History {
		served = append(served, m.Text)
	}
	for _, a := range t.Attachments {
		served = append(served, a.Name, a.Content)
	}
	return served
}

// Customer is the author of the ticket.
type Customer struct {
	Name         string
	Company      string
	AccountLevel string // basic, premium or enterprise; in generated cases basic, plus or business
	Since        time.Time
}

// Message is one entry of a conversation.
type Message struct {
	Role string // customer or agent
	At   time.Time
	Text string
}

// Attachment is a named text attached to the ticket.
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

// Categories are the categories of tickets.
var Categories = []string{"billing", "shipping", "technical", "general"}

// Priorities are the priorities of tickets, the lowest first.
var Priorities = []string{"low", "medium", "high", "urgent"}

// Alternate is a second answer with part of the credit, in thousandths.
type Alternate struct {
	Value  string
	Credit int64
}

// ReplySpec describes what a good reply states, answers and avoids. Values are rendered texts in
// the ticket's language.
type ReplySpec struct {
	Facts []Fact
	// NextSteps are the right values of next_step where the ticket is resolved, the usual one
	// first.
	NextSteps []string
	// True and Closed are as in Workflow.
	True      []facts.Wanted `json:"-"`
	Closed    bool           `json:"-"`
	Questions []Question
	Harm      []Harm `json:",omitempty"`
	// Points are the milli-points of the criteria Q1 to Q8; they sum to 500.
	Points Points
	// MinWords and MaxWords are the bounds of a reply's length without a deduction.
	MinWords, MaxWords int
	// AllowedValues contains every amount, date, duration and id that a reply may state. Values of
	// facts and state are separate entries, formatted for the ticket's language; values of the
	// served texts and the articles are within their texts. A grader extracts claims from each
	// entry in the same way as from a reply.
	AllowedValues []string
}

// Fact is what a reply must tell.
type Fact struct {
	ID   string
	Slot string
	// What is the fact's name in the vocabulary, "" if Judged.
	What string
	// Stated is the value in the form in which an agent states it, and Also are other right values.
	Stated string
	Also   []string
	// Judged means that only a model can read the fact, or that it says in other words what another
	// one states. It isn't required without a model.
	Judged bool
	// Value is the value in a message.
	Value    string
	Negative bool
	Optional bool
	// Seeded means that Value depends on the seed, so that a reply written for another seed can
	// state it only by chance. The golden hashes cover the JSON name.
	Seeded bool `json:"Drawn"`
}

// Question is a question of the customer, with the facts that answer it.
type Question struct {
	ID         string
	Text       string
	AnsweredBy []string
}

// Harm is a kind of statement that a support lead wouldn't send in answer to this ticket or
// workflow, as "freezes the price", which the agent can't do.
type Harm struct {
	ID string
	// Severity is unacceptable or serious.
	Severity string
	// Why completes "the reply …".
	Why string
}

// UserSim is the script of a customer who answers the agent's messages. Its texts are rendered. It
// doesn't affect the gold.
type UserSim struct {
	// Persona is terse, chatty, formal or anxious. It describes the lines and has no effect.
	Persona string
	// MaxTurns is the maximum number of messages that the customer sends.
	MaxTurns int
	Answers  []SimAnswer
	// Lines are the customer's messages when the agent asked nothing, by mood: calm, uneasy,
	// annoyed and angry, each with at least one line.
	Lines map[string][]string
	// StopWhen lists the conditions after which the customer is silent: outcome_stated,
	// facts_stated.
	StopWhen []string
}

// SimAnswer is the customer's answer to a question that contains one of Ask.
type SimAnswer struct {
	ID   string
	Ask  []string
	Text string
	// Known is false if Text means that the customer doesn't know the answer.
	Known bool
	// Told is true if the ticket already contains the answer.
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

// nextStep is the name and the id of the fact that says what was done about a ticket.
const nextStep = "next_step"

// Required are the facts that an agent must state: the file's facts, and the next step of a ticket
// that is resolved. The first value of each is the usual one.
func (t *Ticket) Required() []facts.Wanted {
	out := wantedFacts(t.Reply.Facts, false)
	if len(t.Reply.NextSteps) > 0 && !t.Gold.Escalate {
		out = append(out, facts.Wanted{ID: nextStep, What: nextStep, Values: t.Reply.NextSteps})
	}
	return out
}

// Optional are true facts that an agent may state: also that it explained something, that it
// refused what the ticket's facts deny, and that it handed the ticket over.
func (t *Ticket) Optional() []facts.Wanted {
	listed := slices.Concat(wantedFacts(t.Reply.Facts, true), t.Reply.True)
	steps := []string{"explained"}
	if slices.ContainsFunc(t.Reply.Facts, func(f Fact) bool { return f.Negative && !f.Optional }) {
		steps = append(steps, "refused")
	}
	if t.Gold.Escalate {
		steps = append(steps, "handed_over")
	}
	return append(listed, facts.Wanted{ID: nextStep, What: nextStep, Values: steps})
}

// Right are the right values of a fact, the usual one first, or the words of one that only a model
// can read.
func (f *Fact) Right() []string {
	if f.What == "" {
		return []string{f.Value}
	}
	return append([]string{f.Stated}, f.Also...)
}

// NextStep says what is right to do about a ticket.
func (t *Ticket) NextStep() string {
	step := "what the facts say"
	switch {
	case t.Gold.Escalate:
		step = "the matter is handed over to the team " + t.Gold.Team
	case len(t.Reply.NextSteps) > 0:
		step = strings.Join(t.Reply.NextSteps, " or ")
	case t.Decision != nil:
		step = strings.ReplaceAll(t.Decision.Outcome, "+", ", and ")
	}
	return strings.ReplaceAll(step, "_", " ")
}

func wantedFacts(all []Fact, optional bool) []facts.Wanted {
	var out []facts.Wanted
	for _, f := range all {
		if !f.Judged && f.Optional == optional {
			out = append(out, facts.Wanted{ID: f.ID, What: f.What, Values: append([]string{f.Stated}, f.Also...)})
		}
	}
	return out
}
