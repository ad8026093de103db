package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// trajectory is an episode with everything that its record leaves out.
type trajectory struct {
	record.Episode
	run   *source.LoadedRun
	split string
	tools []endpoint.ChatTool
	// messages are the instructions, the first observation, and two for each turn: the agent's and
	// the result.
	messages []endpoint.ChatMessage
	// dense are the rewards of the turns in the dense mode, nil if they are unknown.
	dense []float64
	// objection is why a person finds the grade wrong, "" if nobody does.
	objection string
	// gold is the gold of each ticket or of the workflow, nil unless it is asked for.
	gold []gold
}

// gold is what a ticket or a workflow asks for.
type gold struct {
	Heading  string          `json:"heading"`
	Criteria []goldCriterion `json:"criteria"`
	// Reply is a good reply, "" if there is none.
	Reply string `json:"reply,omitempty"`
}

type goldCriterion struct {
	Name string `json:"name"`
	Gold string `json:"gold"`
}

// resultOf is the index of the message with the result of a turn.
func resultOf(turn int) int { return 3 + 2*turn }

// reader plays recorded episodes again. It is not safe for concurrent use.
type reader struct {
	kinds  *transcript.Kinds
	splits map[string]map[string]string // by task and scenario
	gold   bool
	// objections are those to the grades of the run that is read, by episode.
	objections map[int64]results.Objection
}

func newReader(catalog *scenarios.Catalog, withGold bool) *reader {
	return &reader{kinds: transcript.NewKinds(catalog), splits: map[string]map[string]string{}, gold: withGold}
}

// errChanged means that an episode can't be reproduced by the loaded scenarios and this version.
var errChanged = errors.New("its scenarios or the grader have changed since: export it with the version of csenv " +
	"and the packs that played it")

// replayEpisode plays an episode again. It fails if the observations or the score could differ from
// those that the agent had.
func (r *reader) replayEpisode(ctx context.Context, run *source.LoadedRun, e record.Episode) (*trajectory, error) {
	t := &trajectory{Episode: e, run: run, objection: r.objections[e.Index].Because}
	kind, err := r.kinds.For(e)
	if err != nil {
		return nil, err
	}
	t.split = r.splitOf(kind, e)
	if err := t.playRecorded(ctx, kind, r.gold); err != nil {
		if errors.Is(err, episode.ErrUnknownScenario) {
			err = fmt.Errorf("scenario %s isn't in the catalogue: load your own scenarios with --pack", e.Scenario)
		}
		return nil, err
	}
	// The judge's verdicts on the replies of a terminal episode may not cover all replies.
	e.RewardMode = episode.Dense
	if again, err := record.RegradeEpisode(ctx, kind, e); err == nil && again.Outcome == e.Outcome &&
		e.Outcome != score.Errored && len(again.Turns) == len(e.Turns) {
		for _, turn := range again.Turns {
			t.dense = append(t.dense, turn.Reward)
		}
	}
	return t, ctx.Err()
}

// splitOf returns the split of the episode's scenario, "" if it is unknown.
func (r *reader) splitOf(kind episode.Kind, e record.Episode) string {
	if r.splits[e.Task] == nil {
		r.splits[e.Task] = map[string]string{}
		for _, task := range kind.Tasks() {
			for _, s := range task.Scenarios {
				if task.Name == e.Task {
					r.splits[e.Task][s.ID] = s.Split
				}
			}
		}
	}
	return r.splits[e.Task][e.Scenario]
}

// playRecorded plays the recorded actions in the recorded mode and writes the messages.
func (t *trajectory) playRecorded(ctx context.Context, kind episode.Kind, withGold bool) error {
	env := kind.New()
	begun, err := t.Begin(env)
	if err != nil {
		return err
	}
	own := ""
	if agent := t.run.Spec.Agent.OpenAI; agent != nil {
		own = agent.SystemPrompt
	}
	seen, err := encodeObservation(begun.Observation)
	if err != nil {
		return err
	}
	dialogue, err := policy.NewDialogue(own, t.Environment, t.Task, kind.Schemas().Action, seen)
	if err != nil {
		return err
	}
	var final *episode.Final
	for _, turn := range t.Turns {
		result, err := env.Step(ctx, turn.Action)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, refused := errors.AsType[*episode.ActionError](err); refused != (turn.Refused != "") {
			return errChanged
		}
		if err == nil {
			if seen, err = encodeObservation(result.Observation); err != nil {
				return err
			}
			final = result.Final
		}
		dialogue.Add(turn.Action, turn.Said, seen, turn.Refused)
	}
	if t.Score != nil && (final == nil || float64(final.Score)/score.One != *t.Score) ||
		t.ScenarioDigest != "" && t.ScenarioDigest != kind.ScenarioDigest() {
		return errChanged
	}
	t.messages, t.tools = dialogue.Messages(), dialogue.Tools()
	if withGold {
		reviews, _ := transcript.ReviewOf(t.Grade, env)
		for _, review := range reviews {
			t.gold = append(t.gold, goldOf(review))
		}
	}
	return nil
}

// encodeObservation writes an observation as a server sends it.
func encodeObservation(observation any) (json.RawMessage, error) {
	var out bytes.Buffer
	if err := protocol.EncodeJSON(&out, observation); err != nil {
		return nil, fmt.Errorf("encoding an observation: %w", err)
	}
	return out.Bytes(), nil
}

func goldOf(review transcript.Review) gold {
	g := gold{Heading: review.Heading, Reply: review.Good, Criteria: []goldCriterion{}}
	for _, row := range review.Rows {
		if row.Gold != "" {
			g.Criteria = append(g.Criteria, goldCriterion{row.Criterion, row.Gold})
		}
	}
	return g
}

// describeTrust says what the score rests on.
func (t *trajectory) describeTrust() string { return grader.DescribeTrust(t.Judge, []string{t.Task}) }

// sumRewards is the sum of the recorded rewards.
func (t *trajectory) sumRewards() float64 {
	sum := int64(0)
	for _, turn := range t.Turns {
		sum += toThousandths(turn.Reward)
	}
	return float64(sum) / 1000
}

// toThousandths converts a reward, whose last digit is a thousandth.
func toThousandths(reward float64) int64 {
	if reward < 0 {
		return int64(reward*1000 - 0.5)
	}
	return int64(reward*1000 + 0.5)
}

// sumTokens sums the tokens of the answers, nil if none is known.
func (t *trajectory) sumTokens() *score.Tokens {
	var sum *score.Tokens
	for _, turn := range t.Turns {
		if turn.Tokens == nil {
			continue
		}
		if sum == nil {
			sum = &score.Tokens{}
		}
		sum.Add(*turn.Tokens)
	}
	return sum
}
