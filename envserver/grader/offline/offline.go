// Package offline judges without a model: it compares facts exactly, and doesn't judge the letter.
//
// It compares what an agent states beside its messages with what the scenario requires to be told
// (package facts). In the message it looks for these values only, and for the reasons not to send
// it that need no grammar: it is empty, a copy or in another language, or has an amount, a date or
// an id that nothing supports. There is no network, no clock and no floating point, so the same
// bytes earn the same points on every machine.
package offline

import (
	"context"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// Name is the scale of the judge's verdicts.
const Name = "facts-v1"

// CriterionFacts is the only criterion of a verdict.
const CriterionFacts = "facts"

// The caps of a reply that may not be sent, in milli-points.
const (
	copyCap        = 100
	unsupportedCap = 150
	foreignCap     = 250
)

// maxPrepared is the maximum number of prepared tickets, and of workflows, that a judge keeps.
const maxPrepared = 256

// Judge compares facts. It is safe for concurrent use.
type Judge struct {
	library facts.Library
	// tickets and workflows are the gold of the last judged ones.
	tickets   *lru.Cache[*scenarios.Ticket, *facts.Gold]
	workflows *lru.Cache[*scenarios.Workflow, *facts.Gold]
}

var _ grader.Judge = (*Judge)(nil)

// New makes a judge.
func New() *Judge {
	return &Judge{library: facts.NewLibrary(), tickets: newCache[*scenarios.Ticket](),
		workflows: newCache[*scenarios.Workflow]()}
}

func newCache[K comparable]() *lru.Cache[K, *facts.Gold] {
	c, err := lru.New[K, *facts.Gold](maxPrepared)
	if err != nil {
		panic(err) // The size is a positive constant.
	}
	return c
}

// Name returns the constant Name.
func (*Judge) Name() string { return Name }

// Judge grades the reply. A long reply waits for its client's share of the processors. It fails
// only without a ticket or workflow, or if the context ends while it waits.
func (j *Judge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	if c.Ticket == nil && c.Workflow == nil {
		return grader.Verdict{Judge: Name, Status: grader.StatusError, Cause: grader.CauseFailed},
			errors.New("judging a reply: the case has no ticket and no workflow")
	}
	release, err := fairness.OccupyProcessor(ctx, len(c.Reply))
	if err != nil {
		return grader.Verdict{Judge: Name, Status: grader.StatusError, Cause: grader.CauseFailed}, err
	}
	defer release()
	r := j.Read(c)
	return r.Verdict(), nil
}

// Reading is a reply that was compared with what its ticket or workflow requires to be told.
type Reading struct {
	Told    grader.Told
	Gold    *facts.Gold
	Message *facts.Message
}

// Read reads the reply of a case.
func (j *Judge) Read(c grader.Case) Reading {
	if c.Workflow != nil {
		return readMessage(j.workflow(c.Workflow), c.Reply, c.Stated)
	}
	return readMessage(j.ticket(c.Ticket), c.Reply, c.Stated)
}

// Verdict is the verdict on the reply without a model.
func (r *Reading) Verdict() grader.Verdict {
	points := r.Told.Facts.Points(grader.ResponsePoints)
	return grader.Verdict{Judge: Name, Status: grader.StatusOK, Gates: r.Told.Gates, PreGate: points,
		Criteria: []grader.Criterion{{ID: CriterionFacts, Earned: points, Offered: grader.ResponsePoints}},
		PostGate: r.Told.Points(grader.ResponsePoints), Right: r.Told.IsRight()}
}

// Tell compares a message to a workflow's customer, and what is stated beside it, with what the
// workflow requires to be told.
func (j *Judge) Tell(w *scenarios.Workflow, message string, stated []facts.Fact) grader.Told {
	return readMessage(j.workflow(w), message, stated).Told
}

// TellTicket is Tell for a ticket.
func (j *Judge) TellTicket(t *scenarios.Ticket, message string, stated []facts.Fact) grader.Told {
	return readMessage(j.ticket(t), message, stated).Told
}

// readMessage reads a message once.
func readMessage(g *facts.Gold, message string, stated []facts.Fact) Reading {
	m := g.Context().NewMessage(message)
	return Reading{grader.Told{Facts: g.Compare(stated, m), Gates: findGates(g, m)}, g, m}
}

// findGates are the reasons why a message may not be sent.
func findGates(g *facts.Gold, m *facts.Message) (found []grader.Gate) {
	if m.IsEmpty() {
		return []grader.Gate{{ID: "empty", Reason: "has neither words nor values"}}
	}
	if g.IsCopy(m) {
		found = append(found, grader.Gate{ID: "copied", Cap: copyCap,
			Reason: "is copied from what was served, by more than half"})
	}
	if quote := g.Unsupported(m); quote != "" {
		found = append(found, grader.Gate{ID: "unsupported", Cap: unsupportedCap, Quote: quote,
			Reason: fmt.Sprintf("states %q, which nothing supports", quote)})
	}
	if m.Foreign {
		found = append(found, grader.Gate{ID: "language", Cap: foreignCap,
			Reason: "is in another language than the customer's"})
	}
	return found
}
