package audit

import (
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

const (
	// dumpedSeeds is the number of instances of each workflow that are attacked.
	dumpedSeeds = 3
	// dumpedDates is the number of candidates for a date that must be computed.
	dumpedDates = 27
)

// dumpAttacks are dumps of the records with a number of dates.
func dumpAttacks() []dumpAttack {
	return []dumpAttack{
		// The limit is little more than the right actions earn with any reply, 256: the dump adds
		// nothing.
		{"workflow dump", dumpedDates, 360},
		// The limit is what the dump earns. Workflows that require only what a look-up returns are
		// resolved by it.
		{"workflow dump, without dates", 0, 450},
	}
}

type dumpAttack struct {
	name  string
	dates int
	bound int64
}

// playDumps plays every workflow with all look-ups, the right actions, and a reply that copies
// every field of the tools' results and names dates.
func playDumps(c *scenarios.Catalog, reader workflow.Reader) ([]AttackRow, error) {
	if len(c.Workflows()) == 0 {
		return nil, nil
	}
	kind, err := workflow.New(c, reader)
	if err != nil {
		return nil, fmt.Errorf("making the workflow environment: %w", err)
	}
	var rows []AttackRow
	for _, a := range dumpAttacks() {
		row, err := a.play(c, kind)
		if err != nil {
			return nil, fmt.Errorf("playing %q: %w", a.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (a dumpAttack) play(c *scenarios.Catalog, kind *workflow.Kind) (AttackRow, error) {
	var total tally
	for _, s := range c.Workflows() {
		for seed := range int64(dumpedSeeds) {
			w, err := s.Instantiate(seed)
			if err != nil {
				return AttackRow{}, err
			}
			p := player{task: s.Task(), workflow: w, env: kind.New()}
			if err := total.add(p.dump(a.dates)); err != nil {
				return AttackRow{}, fmt.Errorf("scenario %s, seed %d: %w", s.ID, seed, err)
			}
		}
	}
	return total.row(a.name, Limit{Figure: wholeEpisode, Bound: a.bound}), nil
}

// dump plays a question if the workflow requires one, all look-ups, the required actions, each
// again if it fails, and the reply.
func (p *player) dump(dates int) (*episode.Final, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	var before, after []map[string]any
	for _, s := range p.workflow.Steps {
		action := newAction(s.Action, policy.BuildPayload(p.workflow, s))
		switch {
		case s.Ask:
			before = append(before, action)
		case s.Action == scenarios.InitiateRefund, s.Action == scenarios.EscalateIssue:
			after = append(after, action)
		}
	}
	for _, o := range p.workflow.State.Orders {
		payload := map[string]any{"order_id": o.ID}
		before = append(before, newAction(scenarios.CheckOrderStatus, payload),
			newAction(scenarios.CheckPayment, payload))
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
	message, err := copyFields(p)
	if err != nil {
		return nil, err
	}
	for i := range dates {
		message += fmt.Sprintf(" The date is %s.", p.workflow.Now.AddDate(0, 0, 1+i).Format(englishDay))
	}
	final, _, err := p.send(newAction(scenarios.RespondUser, map[string]any{"message": message}))
	if final == nil && err == nil {
		final = &episode.Final{} // the reply was refused
	}
	return final, err
}
