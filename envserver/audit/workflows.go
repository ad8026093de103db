package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// passMark is the minimum score of a passed episode, in micro-points. The resolution of a workflow
// must be paid in full as well.
var passMark = tasks.PassScore("order-inquiry", "refund", "payment-exception")

// SequenceRow is the result of a fixed sequence of actions on the workflows.
type SequenceRow struct {
	// Policy is the sequence: O looks up the order, P the payment, R refunds the whole payment, E
	// escalates, A answers.
	Policy string
	// Episodes is the number of episodes of each kind.
	Episodes int
	// UpperBound is the outcome with a reply that states all facts, which the sequence doesn't
	// have.
	UpperBound Outcome
	// Template is the outcome with a reply that copies the fields of the tools' results, and states
	// as many of them as fit.
	Template Outcome
}

// Outcome is a mean score, in thousandths, and the number of passed episodes.
type Outcome struct {
	Score  int64
	Passed int
}

// ListSequences are the fixed sequences that are played, in the table's order.
func ListSequences() []string {
	return []string{"A", "E A", "O A", "P A", "O P A", "O P R A", "O P E A", "P E R A", "O P R E A", "O O O O O A",
		"junk"}
}

// PlaySequences plays the fixed sequences on every workflow of the catalogue at each of the seeds,
// in the environment. The sequences are given the right ids and team, and repeat a failed look-up,
// so their figures are upper bounds.
func PlaySequences(c *scenarios.Catalog, reader workflow.Reader, seeds ...int64) ([]SequenceRow, error) {
	kind, err := workflow.New(c, reader)
	if err != nil {
		return nil, fmt.Errorf("making the workflow environment: %w", err)
	}
	rows := make([]SequenceRow, 0, len(ListSequences()))
	for _, policy := range ListSequences() {
		row := SequenceRow{Policy: policy}
		if err := row.play(c, kind, seeds); err != nil {
			return nil, fmt.Errorf("playing %q: %w", policy, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *SequenceRow) play(c *scenarios.Catalog, kind *workflow.Kind, seeds []int64) error {
	var upper, template tally
	for _, s := range c.Workflows() {
		for _, seed := range seeds {
			w, err := s.Instantiate(seed)
			if err != nil {
				return err
			}
			p := player{task: s.Task(), workflow: w, env: kind.New()}
			if err := errors.Join(upper.add(p.play(r.Policy, goldReply)),
				template.add(p.play(r.Policy, copyFields))); err != nil {
				return fmt.Errorf("scenario %s, seed %d: %w", s.ID, seed, err)
			}
		}
	}
	r.Episodes, r.UpperBound, r.Template = upper.episodes, upper.outcome(), template.outcome()
	return nil
}

// tally sums up episodes. Scores are in micro-points.
type tally struct {
	episodes, passed int
	total, highest   int64
}

func (t *tally) add(final *episode.Final, err error) error {
	if err != nil {
		return err
	}
	t.episodes++
	t.total += final.Score
	t.highest = max(t.highest, final.Score)
	resolved := slices.ContainsFunc(final.Dimensions,
		func(d score.Dimension) bool { return d.Name == "resolution" && d.Earned == d.Offered })
	if resolved && final.Score >= passMark {
		t.passed++
	}
	return nil
}

func (t *tally) outcome() Outcome {
	if t.episodes == 0 {
		return Outcome{}
	}
	most := int64(t.episodes) * 1000
	return Outcome{Score: (2*t.total + most) / (2 * most), Passed: t.passed} // rounded half up
}

// row returns the figures of at least one episode.
func (t *tally) row(attack string, limit Limit) AttackRow {
	r := AttackRow{Attack: attack, Episodes: t.episodes, Episode: t.outcome().Score,
		Passed: toThousandths(float64(t.passed) / float64(t.episodes)), Limit: &limit}
	switch limit.Figure {
	case passedShare:
		limit.Value = r.Passed
	case highestEpisode:
		limit.Value = toThousandths(float64(t.highest) / score.One)
	default:
		limit.Value = r.Episode
	}
	return r
}

type player struct {
	task     string
	workflow *scenarios.Workflow
	env      episode.Environment
	seen     workflow.Observation
}

// reply writes the message that ends an episode, with the facts that it tells.
type reply func(p *player) (message string, stated []facts.Fact, err error)

func goldReply(p *player) (string, []facts.Fact, error) {
	if len(p.workflow.References.Good) == 0 {
		return "", nil, errors.New("there is no reference reply")
	}
	return p.workflow.References.Good[0], facts.Stated(p.workflow.Required()), nil
}

func (p *player) reset() error {
	_, err := p.env.Reset(episode.Options{Seed: p.workflow.Seed, Task: p.task, Scenario: p.workflow.ScenarioID,
		RewardMode: episode.Terminal})
	return err
}

// play plays a sequence to the end of the episode. A sequence that doesn't end it scores 0.
func (p *player) play(policy string, answer reply) (*episode.Final, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	actions := strings.Fields(policy)
	if policy == "junk" {
		actions = slices.Repeat(actions, 10)
	}
	for _, letter := range actions {
		action, err := p.action(letter, answer)
		if err != nil {
			return nil, err
		}
		final, err := p.step(action)
		if final != nil || err != nil {
			return final, err
		}
	}
	return &episode.Final{}, nil
}

// step plays an action, and repeats a look-up that failed.
func (p *player) step(action map[string]any) (*episode.Final, error) {
	final, ok, err := p.send(action)
	kind := action["action_type"]
	lookUp := kind == desk.CheckOrder || kind == desk.CheckPayment
	if lookUp && !ok && final == nil && err == nil {
		final, _, err = p.send(action)
	}
	return final, err
}

// send plays an action. A refused action doesn't end the sequence.
func (p *player) send(action map[string]any) (final *episode.Final, ok bool, err error) {
	raw, err := json.Marshal(action)
	if err != nil {
		return nil, false, fmt.Errorf("writing an action: %w", err)
	}
	result, err := p.env.Step(context.Background(), raw)
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
	last, err := readResult(p.seen.LastResult)
	return result.Final, last.OK, err
}

func (p *player) action(letter string, answer reply) (map[string]any, error) {
	order := p.workflow.Records.Orders[0].ID
	payments := p.workflow.Records.ShowPayments(order, "").Payments
	switch letter {
	case "O":
		return newAction(desk.CheckOrder, map[string]any{"order_id": order}), nil
	case "P":
		return newAction(desk.CheckPayment, map[string]any{"order_id": order}), nil
	case "R":
		last := payments[len(payments)-1]
		return newAction(desk.Refunding, map[string]any{"order_id": order, "payment_id": last.ID,
			"amount": last.Amount}), nil
	case "E":
		return newAction(desk.Escalating, map[string]any{"order_id": order, "team": p.team()}), nil
	case "A":
		message, stated, err := answer(p)
		return newAnswer(message, stated...), err
	}
	return map[string]any{"action_type": letter}, nil
}

func newAction(action string, payload map[string]any) map[string]any {
	return map[string]any{"action_type": action, "payload": payload}
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
