package scenarios

import (
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

// Categories lists what a ticket can be about.
func Categories() []string { return []string{"billing", "shipping", "technical", "general"} }

// Priorities lists the priorities of tickets, the lowest first.
func Priorities() []string { return []string{"low", "medium", "high", "urgent"} }

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
	// Seeded reports that the seed decides Value, so that a reply written for another seed can
	// state it only by accident. The golden hashes cover the JSON name.
	Seeded bool `json:"Drawn"`
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
// nothing in it affects the gold.
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
	// Known is false if Text says that the customer doesn't know.
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
