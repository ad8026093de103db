// Package transcript turns an episode into what people read: the conversation with its tools, and
// what the agent gave beside the gold.
//
// Records contain no observations. Environments are deterministic, so the recorded actions are
// played again to get them. The gold isn't recorded either: it follows from the scenario and the
// seed. All texts are as agents, customers and packs wrote them: whoever shows them escapes them.
package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/tasks"
)

// Transcript is an episode as people read it.
type Transcript struct {
	Episode record.Episode
	// Missing says why observations are missing or may differ, and Unknown why the gold is unknown.
	// Each is "" if that isn't so.
	Missing, Unknown string
	// Steps begins with step 0, which has no action.
	Steps []Step
	// Reviews has a review for each ticket or for the workflow. If the gold is unknown, it has one
	// for each recorded verdict.
	Reviews []Review
	// Totals say how the tickets of a queue add up to its score.
	Totals []Total
	// Lost says in a sentence for what most points were lost, "" if none were or it isn't known.
	Lost string
}

// Step is an action and what the agent saw after it.
type Step struct {
	Number int
	Action Action
	// Refused is the reason why the action was refused, or "".
	Refused string
	// Said is the text that the agent's model sent with the action, and Took what the answer took,
	// "" if that is unknown.
	Said, Took string
	// Reward is paid by the step, and Total is the sum of the rewards up to it.
	Reward, Total float64
	Items         []Item
	// Language is the language of the ticket or the case, as a BCP-47 tag, "" if it is unknown.
	Language string
	// Marks are the sentences of the agent's message on which the grade rests, in their order.
	Marks []*Mark
}

// ReplayEpisode replays an episode. It fails only if the context ends.
func ReplayEpisode(ctx context.Context, catalog *scenarios.Catalog, e record.Episode) (Transcript, error) {
	t := Transcript{Episode: e, Steps: make([]Step, 1, len(e.Turns)+1)}
	var watcher Watcher
	env, seen := t.begin(catalog)
	t.Steps[0].Items = watcher.See(seen)
	total := 0.0
	for i, turn := range e.Turns {
		total += turn.Reward
		// Rewards are thousandths: sums have no more digits either.
		total = math.Round(total*1000) / 1000
		step := Step{Number: i + 1, Action: ReadAction(turn.Action), Refused: turn.Refused, Said: turn.Said,
			Took: describeAnswer(turn.Answer), Reward: turn.Reward, Total: total}
		if seen := playAction(ctx, env, turn.Action); turn.Refused == "" {
			step.Items = watcher.See(seen)
		}
		if ctx.Err() != nil {
			return Transcript{}, ctx.Err()
		}
		t.Steps = append(t.Steps, step)
	}
	if env != nil {
		t.Reviews, t.Totals = ReviewOf(e.Grade, env)
		t.Lost = describeLosses(t.Reviews)
	} else {
		t.Reviews = ReviewVerdicts(e.Verdicts)
	}
	t.mark()
	t.nameVoices()
	language := ""
	for i := range t.Steps {
		t.Steps[i].Language = language // a message is on the ticket that was open before
		for _, item := range t.Steps[i].Items {
			if item.Opened != nil {
				language = item.Opened.Language
			}
		}
	}
	return t, nil
}

// nameVoices marks the answers of customers that are in the words of a model.
func (t *Transcript) nameVoices() {
	left := t.Episode.Customer
	for i := range t.Steps {
		for _, item := range t.Steps[i].Items {
			if len(left) == 0 || item.Call == nil || item.Call.Action != desk.Tell || item.Call.Answer() == "" {
				continue
			}
			if left[0].Counts.Replaced == 0 {
				item.Call.Voice = "a model's words"
			}
			left = left[1:]
		}
	}
}

// ShowCommand is the command that shows the scenario with the episode's values and its gold.
func (t *Transcript) ShowCommand(packs []string) string {
	return fmt.Sprintf("csenv scenarios show %s --seed %d%s", t.Episode.Scenario, t.Episode.Seed,
		strings.Join(append([]string{""}, packs...), " --pack "))
}

// describeAnswer says how long an agent's answer took, and its tokens.
func describeAnswer(a record.Answer) string {
	var parts []string
	if a.DurationMS > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", float64(a.DurationMS)/1000))
	}
	if t := a.Tokens; t != nil {
		parts = append(parts, fmt.Sprintf("%d tokens read, %d written", t.Prompt, t.Completion))
	}
	return strings.Join(parts, ", ")
}

// maxLosses bounds the losses that a sentence names.
const maxLosses = 3

// describeLosses says for what most points were lost.
func describeLosses(reviews []Review) string {
	var all []loss
	for _, r := range reviews {
		for _, l := range r.losses {
			if r.name != "" {
				l.text = r.name + ": " + l.text
			}
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b loss) int { return cmp.Compare(b.points, a.points) })
	var b strings.Builder
	for i, l := range all {
		if i == maxLosses {
			fmt.Fprintf(&b, "; and %d more", len(all)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(l.text)
	}
	return b.String()
}

// ReviewVerdicts returns the verdicts of an episode whose gold is unknown or isn't shown.
func ReviewVerdicts(verdicts []json.RawMessage) []Review {
	reviews := make([]Review, len(verdicts))
	for i, raw := range verdicts {
		r := &reviews[i]
		r.Heading = "judge of reply " + strconv.Itoa(i+1)
		var v struct {
			grader.Verdict
			TicketID string `json:"ticket_id"`
		}
		if err := json.Unmarshal(raw, &v); err != nil || len(v.Criteria) == 0 {
			_ = json.Unmarshal(raw, &r.Other) // a verdict that isn't JSON is left out
			continue
		}
		if v.TicketID != "" {
			r.Heading += ", ticket " + v.TicketID
		}
		for _, c := range v.Criteria {
			r.add(Row{Criterion: strings.TrimSpace(c.ID + " " + inWords(c.Action)), Points: newPoints(c),
				Why: c.Reason})
			for _, e := range c.Evidence {
				r.add(Row{Depth: 2, Criterion: strings.TrimSpace(e.Kind + " " + e.About), Evidence: &e})
			}
		}
		r.gates(v.Gates)
		r.harm(&v.Verdict, nil, false)
		r.Earned = v.PostGate
	}
	return reviews
}

// begin resets an environment to the beginning of the episode and returns the first observation.
// It grades by rules only, because the record has the grade. If the environment or the scenario is
// unknown, it returns nil and sets the reasons.
func (t *Transcript) begin(catalog *scenarios.Catalog) (episode.Environment, any) {
	e := &t.Episode
	kind, err := NewKind(catalog, e.Environment, nil)
	if err != nil {
		t.Missing, t.Unknown = err.Error(), err.Error()
		return nil, nil
	}
	env := kind.New()
	begun, err := e.Begin(env)
	if err != nil {
		t.Unknown = err.Error()
		if errors.Is(err, episode.ErrUnknownScenario) {
			t.Unknown = fmt.Sprintf("scenario %s isn't in the catalogue", e.Scenario)
		}
		t.Missing = fmt.Sprintf("observations can't be shown: %v; --pack loads your own scenarios", err)
		return nil, nil
	}
	if e.ScenarioDigest != "" && e.ScenarioDigest != kind.ScenarioDigest() {
		t.Missing = "the scenarios have changed: the observations and the gold are those of this version"
	}
	return env, begun.Observation
}

// playAction plays an action and returns the observation, nil after an error or without an
// environment.
func playAction(ctx context.Context, env episode.Environment, action json.RawMessage) any {
	if env == nil {
		return nil
	}
	result, err := env.Step(ctx, action)
	if err != nil {
		return nil
	}
	return result.Observation
}

// NewKind returns an environment by name, ticket or workflow. Without a judge, facts are
// compared.
func NewKind(catalog *scenarios.Catalog, environment string, judge grader.Judge) (episode.Kind, error) {
	if judge == nil {
		judge = offline.New()
	}
	switch environment {
	case tasks.Ticket:
		return ticket.New(catalog, judge)
	case tasks.Workflow:
		return workflow.NewJudged(catalog, judge)
	}
	return nil, fmt.Errorf("unknown environment %q: choose ticket or workflow", environment)
}
