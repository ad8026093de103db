// Package prose judges replies by rules alone: no network, no clock and no floating point, so the
// same bytes earn the same points on every machine.
//
// A ticket is [prepared] once. A reply is read into an [analysis], which looks for facts, promises,
// invented values, copies and stuffing, and grades the criteria and gates. An [Assessment] leaves
// what rules can't decide to a judge of language.
package prose

import (
	"context"
	"errors"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/envserver/share"
	"github.com/csenv/csenv/scenarios"
)

// Name is the scale of the offline judge's verdicts.
const Name = "offline-v7"

const (
	// unsupportedCap bounds replies that state no required fact, promise a forbidden or invented
	// value, or are copied or stuffed: style alone never passes.
	unsupportedCap = 100
	// inventedCost is the cost of each value without support in any text that the agent could read.
	inventedCost = 50
	// maxPrepared is the maximum number of prepared tickets that a judge keeps.
	maxPrepared = 256
)

// Judge judges a reply by matching. It can't recognise every free paraphrase and doesn't judge
// tact, so its scores for people are too low. Its scale is never mixed with a model's.
type Judge struct {
	libraries libraries

	// tickets are the last judged ones.
	tickets *lru.Cache[*scenarios.Ticket, *prepared]
}

var _ grader.Judge = (*Judge)(nil)

// New makes an offline judge. It reads the lexicon of a language when it first judges a reply in
// it, so share the judge.
func New() *Judge {
	return &Judge{libraries: newLibraries(), tickets: newCache[*scenarios.Ticket, *prepared](maxPrepared)}
}

// libraries make those of the languages at the first call.
type libraries map[string]func() *library

func newLibraries() libraries {
	all, aimed := libraries{}, sync.OnceValue(newInjectionIndex)
	for _, language := range text.Languages() {
		all[language] = sync.OnceValue(func() *library { return newLibrary(text.LoadLexicon(language), aimed()) })
	}
	return all
}

// Name returns the constant Name.
func (*Judge) Name() string { return Name }

// Judge grades the reply. A long reply waits for its client's share of the processors. It fails
// only without a ticket.
func (o *Judge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	if c.Ticket == nil {
		return grader.Verdict{Judge: Name, Status: grader.StatusError, Cause: grader.CauseFailed},
			errors.New("judging a reply: the case has no ticket")
	}
	release, err := share.OccupyProcessor(ctx, len(c.Reply))
	if err != nil {
		return grader.Verdict{Judge: Name, Status: grader.StatusError, Cause: grader.CauseFailed}, err
	}
	defer release()
	p := o.prepared(c.Ticket)
	d := p.lib.document()
	defer p.lib.documents.Put(d)
	return p.readReply(d, c.Reply, c.Actions).total(), nil
}

// prepared returns the prepared ticket.
func (o *Judge) prepared(t *scenarios.Ticket) *prepared {
	return loadOrCompute(o.tickets, t, func(t *scenarios.Ticket) *prepared { return prepareTicket(t, o.libraries) })
}
