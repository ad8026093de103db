package audit

import (
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

const (
	// dumpedSeeds is the number of instances of each workflow that are attacked.
	dumpedSeeds = 3
	// dumpBound is more than the dump earns, which is little more than what the right actions earn
	// with a reply without facts.
	dumpBound = 300
)

// playDump plays every workflow with all look-ups, the right actions, and a reply that copies every
// field of the tools' results and states those that have a name.
func playDump(c *scenarios.Catalog, reader workflow.Reader) ([]AttackRow, error) {
	if len(c.Workflows()) == 0 {
		return nil, nil
	}
	kind, err := workflow.New(c, reader)
	if err != nil {
		return nil, fmt.Errorf("making the workflow environment: %w", err)
	}
	var total tally
	for _, s := range c.Workflows() {
		for seed := range int64(dumpedSeeds) {
			w, err := s.Instantiate(seed)
			if err != nil {
				return nil, err
			}
			p := player{task: s.Task(), workflow: w, env: kind.New()}
			if err := total.add(p.dump()); err != nil {
				return nil, fmt.Errorf("scenario %s, seed %d: %w", s.ID, seed, err)
			}
		}
	}
	return []AttackRow{total.row("workflow dump", Limit{Figure: wholeEpisode, Bound: dumpBound})}, nil
}

// dump plays a question if the workflow requires one, all look-ups, the required actions, each
// again if it fails, and the reply.
func (p *player) dump() (*episode.Final, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	var before, after []map[string]any
	for _, s := range p.workflow.Steps {
		action := newAction(s.Action, policy.BuildPayload(p.workflow, s))
		switch {
		case s.Ask:
			before = append(before, action)
		case s.Action == desk.Refunding, s.Action == desk.Escalating:
			after = append(after, action)
		}
	}
	for _, o := range p.workflow.Records.Orders {
		payload := map[string]any{"order_id": o.ID}
		before = append(before, newAction(desk.CheckOrder, payload),
			newAction(desk.CheckPayment, payload))
	}
	for _, action := range append(before, after...) {
		final, ok, err := p.send(action)
		if !ok && final == nil && err == nil {
			final, _, err = p.send(action)
		}
		if final != nil || err != nil {
			return final, err
		}
	}
	message, stated, err := copyFields(p)
	if err != nil {
		return nil, err
	}
	final, _, err := p.send(newAnswer(message, stated...))
	if final == nil && err == nil {
		final = &episode.Final{} // the reply was refused
	}
	return final, err
}
