// Package agreement compares the points that a judge gives replies with the labels that people gave
// them.
package agreement

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// MaxLabel is the label of a perfect reply: the points that a ticket offers for its reply.
const MaxLabel = float64(grader.ResponsePoints) / 1000

// Reply is a labelled reply, a line of the file.
type Reply struct {
	Scenario string `json:"scenario"`
	Seed     int64  `json:"seed"`
	// Class groups replies that were written with the same intention, such as "one omission".
	Class string `json:"class,omitempty"`
	// Label is the reader's points, 0 to MaxLabel.
	Label float64 `json:"label"`
	Text  string  `json:"reply"`
	// Why is the reader's reason.
	Why string `json:"why,omitempty"`
}

// maxLine bounds a line of the file, in bytes.
const maxLine = 1 << 20

// ReadReplies reads labelled replies, one JSON object a line. An error names the line at fault.
func ReadReplies(r io.Reader) ([]Reply, error) {
	var replies []Reply
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l Reply
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		err := d.Decode(&l)
		switch {
		case err != nil:
		case d.More():
			err = errors.New("more than one JSON object")
		case l.Scenario == "" || l.Text == "":
			err = errors.New("scenario and reply are required")
		case l.Label < 0 || l.Label > MaxLabel:
			err = fmt.Errorf("label is %g: give 0 to %g", l.Label, MaxLabel)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		replies = append(replies, l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the replies: %w", err)
	}
	if len(replies) == 0 {
		return nil, errors.New("the file has no replies")
	}
	return replies, nil
}

// Graded is a reply with the judge's points.
type Graded struct {
	Reply
	Language string  `json:"language"`
	Points   float64 `json:"points"`
	// Verdict explains the points.
	Verdict *grader.Verdict `json:"verdict,omitempty"`
	// Error is the reason why the judge could not grade the reply, or "".
	Error string `json:"error,omitempty"`
}

// Grader grades labelled replies. The reply to a ticket is graded by the judge, as the only reply
// of an episode with gold's decisions and, unless a model reads the letter, gold's facts. The reply
// to a workflow is sent after the gold actions; its points are its share of the points that remain
// after these, times MaxLabel.
type Grader struct {
	catalog   *scenarios.Catalog
	judge     grader.Judge
	workflows *workflow.Kind
	oracle    policy.Factory
}

// NewGrader returns a grader. Facts of replies to workflows are compared with any judge.
func NewGrader(catalog *scenarios.Catalog, judge grader.Judge) (*Grader, error) {
	g := &Grader{catalog: catalog, judge: judge}
	if len(catalog.Workflows()) == 0 {
		return g, nil
	}
	var err error
	if g.workflows, err = workflow.New(catalog, offline.New()); err != nil {
		return nil, err
	}
	g.oracle, err = policy.NewBuiltin(policy.Oracle, tasks.Workflow, catalog)
	return g, err
}

// Grade grades a reply. A failure of the judge is in Graded; an error means that the reply can't be
// graded by any judge, for example because its scenario isn't loaded.
func (g *Grader) Grade(ctx context.Context, r Reply) (Graded, error) {
	if s, ok := g.catalog.Ticket(r.Scenario); ok {
		t, err := s.Instantiate(r.Seed)
		if err != nil {
			return Graded{}, err
		}
		return g.gradeTicket(ctx, t, r)
	}
	s, ok := g.catalog.Workflow(r.Scenario)
	if !ok {
		return Graded{}, fmt.Errorf("no ticket or workflow is named %s", r.Scenario)
	}
	w, err := s.Instantiate(r.Seed)
	if err != nil {
		return Graded{}, err
	}
	full, err := g.play(ctx, s.Task(), w, r.Text)
	if err != nil {
		return Graded{}, err
	}
	base, err := g.play(ctx, s.Task(), w, emptyReply)
	if err != nil {
		return Graded{}, err
	}
	share := float64(max(full.Score-base.Score, 0)) / float64(max(score.One-base.Score, 1))
	graded := Graded{Reply: r, Language: s.Language, Points: MaxLabel * share, Verdict: &grader.Verdict{}}
	return graded, json.Unmarshal(full.Verdicts[0], graded.Verdict)
}

func (g *Grader) gradeTicket(ctx context.Context, t *scenarios.Ticket, r Reply) (Graded, error) {
	c := grader.Case{Ticket: t, Reply: r.Text, Actions: grader.Actions{Ending: grader.Resolved}}
	if !strings.HasPrefix(g.judge.Name(), "llm:") { // which reads the letter alone
		c.Stated = facts.Stated(t.Required())
	}
	if t.Gold.Escalate {
		c.Actions = grader.Actions{Ending: grader.Escalated, Team: t.Gold.Team}
	}
	v, err := g.judge.Judge(ctx, c)
	if ctx.Err() != nil {
		return Graded{}, ctx.Err()
	}
	graded := Graded{Reply: r, Language: t.Language, Verdict: &v, Points: float64(v.PostGate) / 1000}
	if err != nil || !v.Scored() {
		graded.Points, graded.Error = 0, fmt.Sprint(cmp.Or(err, grader.ErrUnjudged))
	}
	return graded, nil
}

// emptyReply ends a workflow without a statement.
const emptyReply = "."

// play plays gold with the reply as its last message and returns the score in micro-points.
func (g *Grader) play(ctx context.Context, task string, w *scenarios.Workflow, reply string) (*episode.Final, error) {
	if len(w.References.Good) == 0 {
		return nil, fmt.Errorf("workflow %s has no reference reply at seed %d", w.ScenarioID, w.Seed)
	}
	planned := score.PlannedEpisode{Task: task, Scenario: w.ScenarioID, Seed: w.Seed}
	oracle, err := g.oracle(planned)
	if err != nil {
		return nil, err
	}
	env := g.workflows.New()
	result, err := env.Reset(episode.Options{Task: task, Scenario: w.ScenarioID, Seed: w.Seed})
	turn := policy.Turn{Environment: tasks.Workflow, Task: task, Planned: planned}
	for ; err == nil && !result.Done; turn.Step++ {
		if turn.Observation, err = json.Marshal(result.Observation); err != nil {
			break
		}
		var action json.RawMessage
		if action, err = oracle.Act(ctx, turn); err == nil {
			result, err = env.Step(ctx, withMessage(action, w.References.Good[0], reply))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("playing %s at seed %d: %w", w.ScenarioID, w.Seed, err)
	}
	return result.Final, nil
}

// withMessage returns the action with another message in place of the gold reply.
func withMessage(action json.RawMessage, gold, reply string) json.RawMessage {
	var a struct {
		ActionType string         `json:"action_type"`
		Payload    map[string]any `json:"payload"`
	}
	if err := json.Unmarshal(action, &a); err != nil || a.Payload["message"] != gold {
		return action
	}
	a.Payload["message"] = reply
	other, err := json.Marshal(a)
	if err != nil {
		return action
	}
	return other
}
