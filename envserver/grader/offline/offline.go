// Package offline judges replies by rules alone: no network, no clock and no floating point, so the
// same bytes earn the same points on every machine.
//
// A ticket is [prepared] once. A reply is read into an [analysis], which looks for facts, promises,
// invented values, copies and stuffing, and grades the criteria and gates. An [Assessment] leaves
// what rules can't decide to a judge of language.
package offline

import (
	"context"
	"errors"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// Name is the scale of the offline judge's verdicts.
const Name = "offline-v2"

const (
	// unsupportedCap bounds replies that state no required fact, promise what is forbidden or
	// invented, or are copied or stuffed: style alone never pays.
	unsupportedCap = 100
	inventedCost   = 50  // the cost of each value that nothing the agent could read supports
	maxPrepared    = 256 // the number of tickets that a judge keeps ready
)

// Judge judges a reply by matching. It can't recognise every free paraphrase and doesn't judge
// tact, so it under-scores people; its scale is never mixed with a model's.
type Judge struct {
	libraries map[string]*library

	ready *lru.Cache[*scenarios.Ticket, *prepared] // holds the tickets that were judged last
}

var _ grader.Judge = (*Judge)(nil)

// New makes an offline judge. Making one reads the lexicons, so share it.
func New() *Judge {
	return &Judge{libraries: newLibraries(), ready: newCache[*scenarios.Ticket, *prepared](maxPrepared)}
}

// Name is the constant Name.
func (*Judge) Name() string { return Name }

// Judge grades the reply. It never blocks, ignores the context and fails only without a ticket.
func (o *Judge) Judge(_ context.Context, c grader.Case) (grader.Verdict, error) {
	if c.Ticket == nil {
		return grader.Verdict{Judge: Name, Status: grader.StatusError, Cause: grader.CauseFailed},
			errors.New("judging a reply: the case has no ticket")
	}
	return o.prepared(c.Ticket).readReply(c.Reply, c.Actions).total(), nil
}

// prepared returns the ticket made ready.
func (o *Judge) prepared(t *scenarios.Ticket) *prepared {
	return cached(o.ready, t, func(t *scenarios.Ticket) *prepared { return prepare(t, o.libraries) })
}
