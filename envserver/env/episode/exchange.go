package episode

import (
	"strings"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios/talk"
)

// Exchange is a message to the customer of a conversation as a model heard it, and the answer as a
// model worded it. With the exchanges, the actions of an episode are played again without a model.
type Exchange struct {
	Heard talk.Heard `json:"heard,omitzero"`
	Words string     `json:"words"`
	// Counts are of this exchange alone.
	Counts score.CustomerCounts `json:"counts"`
}

// Conversing is an Environment whose steps may call a customer with a model, so that the actions
// alone are not enough to play an episode again.
type Conversing interface {
	// Exchanges returns those of the episode so far. The list is shared.
	Exchanges() []Exchange
	// Recall makes the customer of the episode that has just begun hear and say what the exchanges
	// have, before it hears and says anything else.
	Recall([]Exchange)
}

// customerMark stands before the customer's name in a grader's version.
const customerMark = "+customer="

// WithCustomer is the version of a grader for episodes whose customer is a model: another customer
// may say other words, to which an agent may act differently.
func WithCustomer(version, customer string) string { return version + customerMark + customer }

// CustomerIn returns the customer's name in a grader's version, "" for the embedded one.
func CustomerIn(version string) string {
	_, name, _ := strings.Cut(version, customerMark)
	return name
}
