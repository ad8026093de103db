package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// passMark is the minimum score of a passed episode, in micro-points. The resolution of a workflow
// must be paid in full as well.
var passMark = tasks.PassScore("order-inquiry", "refund", "payment-exception")

// writtenSeeds is the number of instances of each written workflow that are attacked.
const writtenSeeds = 3

// way is a way to play a workflow: the actions, and the reply that follows them, nil for none.
type way struct {
	plan   func(*player) []map[string]any
	answer func(*player) (message string, stated []facts.Fact)
}

// player plays an instance of a workflow.
type player struct {
	task     string
	workflow *scenarios.Workflow
	env      episode.Environment
	seen     workflow.Observation
	known    []*caseMemory
}

// players are the attacked instances.
type players struct{ written, heldOut []*player }

func newPlayers(c *scenarios.Catalog, reader workflow.Reader) (*players, error) {
	out := &players{}
	if len(c.Workflows())+len(c.Cases()) == 0 {
		return out, nil
	}
	kind, err := workflow.New(c, reader)
	if err != nil {
		return nil, fmt.Errorf("making the workflow environment: %w", err)
	}
	known, err := rememberCases(c)
	if err != nil {
		return nil, err
	}
	add := func(to *[]*player, s *scenarios.WorkflowScenario, seed int64) error {
		w, err := s.Instantiate(seed)
		*to = append(*to, &player{task: s.Task(), workflow: w, env: kind.New(), known: known})
		return err
	}
	for _, s := range c.Workflows() {
		for seed := range int64(writtenSeeds) {
			if err := add(&out.written, s, seed); err != nil {
				return nil, err
			}
		}
	}
	for i, s := range c.Cases() {
		if len(known) > 0 && !s.Talks && s.Split == testSplit && i%caseStride == 0 {
			if err := add(&out.heldOut, s, int64(i)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// play plays instances in one way.
func (*players) play(ctx context.Context, t *tally, all []*player, how *way) error {
	for _, p := range all {
		final, err := p.play(ctx, how)
		if err != nil {
			return fmt.Errorf("scenario %s, seed %d: %w", p.workflow.ScenarioID, p.workflow.Seed, err)
		}
		resolved := slices.ContainsFunc(final.Dimensions,
			func(d score.Dimension) bool { return d.Name == "resolution" && d.Earned == d.Offered })
		t.add(0, final.Score, resolved && final.Score >= passMark)
	}
	return nil
}

// play plays an episode. An action that fails is played again, because tools may fail once. A way
// that doesn't end the episode scores 0.
func (p *player) play(ctx context.Context, how *way) (*episode.Final, error) {
	if _, err := p.env.Reset(episode.Options{Seed: p.workflow.Seed, Task: p.task, Scenario: p.workflow.ScenarioID,
		RewardMode: episode.Terminal}); err != nil {
		return nil, err
	}
	p.seen = workflow.Observation{}
	for _, action := range how.plan(p) {
		final, ok, err := p.send(ctx, action)
		if !ok && final == nil && err == nil {
			final, _, err = p.send(ctx, action)
		}
		if final != nil || err != nil {
			return final, err
		}
	}
	if how.answer != nil {
		message, stated := how.answer(p)
		if final, _, err := p.send(ctx, newAnswer(message, stated...)); final != nil || err != nil {
			return final, err
		}
	}
	return &episode.Final{}, nil
}

// send plays an action, and reports whether its tool answered. A refused action doesn't end the
// episode.
func (p *player) send(ctx context.Context, action map[string]any) (final *episode.Final, ok bool, err error) {
	raw, err := json.Marshal(action)
	if err != nil {
		return nil, false, fmt.Errorf("writing an action: %w", err)
	}
	result, err := p.env.Step(ctx, raw)
	if _, refused := errors.AsType[*episode.ActionError](err); refused {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	p.seen, ok = result.Observation.(workflow.Observation)
	if !ok {
		return nil, false, fmt.Errorf("the observation is a %T", result.Observation)
	}
	ok, _ = readResult(p.seen.LastResult)
	return result.Final, ok, nil
}

// listSequences are fixed sequences of actions, with a reply that states all facts, which the
// sequence doesn't have, and with one that copies the fields of the tools' results. They are given
// the right ids and team, so their figures are upper bounds. In a name O looks up the order, P the
// payment, R refunds the whole payment, E escalates, and A answers. The bounds are the scores and
// the shares of passed episodes.
func listSequences() []attack {
	var rows []attack
	for _, s := range []struct {
		name                       string
		gold, passed, copied, none int64
	}{
		{"A", 0, 0, 0, 0}, {"E A", 0, 0, 0, 0}, {"O A", 214, 183, 53, 0}, {"P A", 130, 100, 43, 0},
		{"O P A", 444, 400, 114, 0}, {"O P R A", 168, 67, 75, 0}, {"O P E A", 346, 250, 114, 0},
		{"P E R A", 30, 0, 13, 0}, {"O P R E A", 151, 0, 83, 0}, {"O O O O O A", 91, 0, 0, 0}, {"junk", 0, 0, 0, 0},
	} {
		limits := func(episode, passed int64) []Limit {
			return append(atMost(MeanEpisode, episode), atMost(PassedShare, passed)...)
		}
		plan := func(p *player) []map[string]any { return p.sequence(s.name) }
		rows = append(rows, attack{name: s.name + " with all facts", limits: limits(s.gold, s.passed),
			workflows: &way{plan, goldReply}},
			attack{name: s.name + " with copied fields", limits: limits(s.copied, s.none),
				workflows: &way{plan, copyFields}})
	}
	return rows
}

func goldReply(p *player) (string, []facts.Fact) {
	return strings.Join(p.workflow.References.Good[:1], ""), facts.Stated(p.workflow.Required())
}

// sequence returns the actions of a sequence before its answer.
func (p *player) sequence(name string) []map[string]any {
	order := p.workflow.Records.Orders[0].ID
	payments := p.workflow.Records.ShowPayments(order, "").Payments
	var actions []map[string]any
	for letter := range strings.FieldsSeq(name) {
		switch letter {
		case "O":
			actions = append(actions, newAction(desk.CheckOrder, map[string]any{"order_id": order}))
		case "P":
			actions = append(actions, newAction(desk.CheckPayment, map[string]any{"order_id": order}))
		case "R":
			last := payments[len(payments)-1]
			actions = append(actions, newAction(desk.Refunding, map[string]any{"order_id": order,
				"payment_id": last.ID, "amount": last.Amount}))
		case "E":
			actions = append(actions, newAction(desk.Escalating, map[string]any{"order_id": order, "team": p.team()}))
		case "junk":
			actions = slices.Repeat([]map[string]any{{"action_type": letter}}, 10)
		}
	}
	return actions
}

func newAction(action string, payload map[string]any) map[string]any {
	return map[string]any{"action_type": action, "payload": payload}
}

func newAnswer(message string, stated ...facts.Fact) map[string]any {
	return newAction(desk.RespondUser, map[string]any{"message": message, "facts": stated})
}

// team returns the team of the escalation, or any team if the issue requires none.
func (p *player) team() any {
	for _, s := range p.workflow.Steps {
		for _, arg := range s.Args {
			if s.Action == desk.Escalating && arg.Name == "team" && len(arg.In) > 0 {
				return arg.In[0]
			}
		}
	}
	return "finance"
}

// playDump asks what the workflow requires, looks everything up, and plays the required changes.
func playDump(p *player) []map[string]any {
	before, after := p.questions(), []map[string]any{}
	for _, s := range p.workflow.Steps {
		if s.Action == desk.Refunding || s.Action == desk.Escalating {
			after = append(after, newAction(s.Action, policy.BuildPayload(p.workflow, s)))
		}
	}
	for _, o := range p.workflow.Records.Orders {
		payload := map[string]any{"order_id": o.ID}
		before = append(before, newAction(desk.CheckOrder, payload), newAction(desk.CheckPayment, payload))
	}
	return append(before, after...)
}

// questions are those that the workflow requires.
func (p *player) questions() []map[string]any {
	var actions []map[string]any
	for _, step := range p.workflow.Steps {
		if step.Ask {
			actions = append(actions, newAction(step.Action, policy.BuildPayload(p.workflow, step)))
		}
	}
	return actions
}
