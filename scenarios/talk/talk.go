// Package talk is the customer of a conversation. What the customer wants, knows, tells and accepts
// is drawn with the case. A state machine over typed acts decides what they say next, a template or
// a model only words it, and code checks the words.
package talk

import (
	"time"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// Kind is what the customer does with an act.
type Kind string

// The kinds.
const (
	// Request asks for something: in the first message, or later.
	Request Kind = "request"
	// Tell gives a value, asked or unasked. It may be wrong.
	Tell Kind = "tell"
	// Evade puts a question off. The customer answers it when they are asked again.
	Evade Kind = "evade"
	// Correct replaces what the customer told wrongly.
	Correct Kind = "correct"
	// Rethink withdraws a wish and states another one.
	Rethink Kind = "rethink"
	// Insist repeats a request that was refused.
	Insist Kind = "insist"
	// Accept and Decline answer an offer. Accept without a topic gives in to a refusal.
	Accept  Kind = "accept"
	Decline Kind = "decline"
	// Confirm and Deny answer the question whether a change should be made.
	Confirm Kind = "confirm"
	Deny    Kind = "deny"
	// Complain says how the customer feels.
	Complain Kind = "complain"
	// Remind answers a message that neither asks nor refuses: it asks what happens now.
	Remind Kind = "remind"
	// Exhausted says that the customer has told all that they know.
	Exhausted Kind = "exhausted"
	// Close says that nothing is left to ask.
	Close Kind = "close"
)

// Act is one thing that the customer says in a turn.
type Act struct {
	Kind Kind `json:"kind"`
	// Topic is what the act is about: a topic of questions for Tell and Correct, the name of a tool
	// that changes records for Accept, Decline, Confirm and Deny, and a kind of request otherwise.
	Topic string `json:"topic,omitempty"`
	// Values are what the words of the act must state, each in any usual form.
	Values []facts.Wanted `json:"values,omitempty"`
	// Words are the act in the case's language and voice, from a template.
	Words string `json:"words"`
}

// Heard is what an agent does with a message besides what its prose says.
type Heard struct {
	// Facts are what it states.
	Facts []facts.Fact `json:"facts,omitempty"`
	// Asks are topics about which it asks.
	Asks []string `json:"asks,omitempty"`
	// Offers are the tools with which it proposes to settle a request.
	Offers []string `json:"offers,omitempty"`
	// Confirms are the changes of which it asks whether they should be made.
	Confirms []desk.Effect `json:"confirms,omitempty"`
}

// Turn is what the customer says at once, and what its words are checked against.
type Turn struct {
	// Language is that of the case, Voice the one of its templates, and Mood one of Moods.
	Language, Voice, Mood string
	Acts                  []Act
	// Now is the present moment, with which days are read.
	Now time.Time
	// Said are the messages so far of both sides, oldest first. The customer's is the first one.
	Said []string
	// Hidden are values that the customer must not state yet.
	Hidden []facts.Wanted
}

// The topics about which an agent asks, the same in every case.
const (
	AboutOrder    = "order"
	AboutPhoto    = "photo"
	AboutSerial   = "serial"
	AboutDelivery = "delivery_day"
	AboutWish     = "wish"
	AboutAddress  = "address"
	AboutRest     = "anything_else"
)

// Topics lists them.
var Topics = []string{AboutOrder, AboutPhoto, AboutSerial, AboutDelivery, AboutWish, AboutAddress, AboutRest}

// Moods are ordered by rising anger.
var Moods = []string{"calm", "uneasy", "annoyed", "angry"}

// Template returns the words of the acts in their order.
func (t *Turn) Template() string { return template(t.Acts) }
