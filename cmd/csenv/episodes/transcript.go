package episodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

// NewTranscriptCommand returns the command that shows a stored episode.
func NewTranscriptCommand() *cobra.Command {
	var from source.Flags
	cmd := &cobra.Command{
		Use:   "transcript RUN EPISODE",
		Short: "Show a stored episode: observations, actions and grade",
		Args:  cli.Arguments("RUN", "EPISODE"),
	}
	cli.Help(cmd, "transcript")
	from.Add(cmd)
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		e, err := pick(cmd.Context(), runs[0], args[1])
		if err != nil {
			return err
		}
		if output.Name != "text" {
			return output.Encode(cmd.OutOrStdout(), e)
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		return PrintTranscript(cmd.Context(), cmd.OutOrStdout(), catalog, e)
	}
	return cmd
}

// stage replays recorded actions. It grades by rules only, because the record has the grade.
type stage struct {
	env episode.Environment
	// missing is the reason why observations are missing or may differ, or "", and unknown that why
	// the gold is unknown.
	missing, unknown string
}

func newStage(catalog *scenarios.Catalog, e record.Episode) (stage, any) {
	kind, err := newKind(catalog, e.Environment, nil)
	if err != nil {
		return stage{missing: err.Error(), unknown: err.Error()}, nil
	}
	s := stage{env: kind.New()}
	begun, err := s.env.Reset(e.Options())
	if err != nil {
		unknown := err.Error()
		if errors.Is(err, episode.ErrUnknownScenario) {
			unknown = fmt.Sprintf("scenario %s isn't in the catalogue", e.Scenario)
		}
		return stage{missing: fmt.Sprintf("observations can't be shown: %v; --pack loads your own scenarios", err),
			unknown: unknown}, nil
	}
	if e.ScenarioDigest != "" && e.ScenarioDigest != kind.ScenarioDigest() {
		s.missing = "the scenarios have changed: the observations and the gold are those of this version"
	}
	return s, begun.Observation
}

// newKind returns an environment by name. Without a judge, the rules grade replies.
func newKind(catalog *scenarios.Catalog, environment string, judge grader.Judge) (episode.Kind, error) {
	rules := offline.New()
	if judge == nil {
		judge = rules
	}
	switch environment {
	case "ticket":
		return ticket.New(catalog, judge)
	case "workflow":
		return workflow.New(catalog, rules)
	}
	return nil, fmt.Errorf("unknown environment %q: choose ticket or workflow", environment)
}

// step plays an action and returns the observation, nil after an error.
func (s stage) step(ctx context.Context, action json.RawMessage) any {
	if s.env == nil {
		return nil
	}
	result, err := s.env.Step(ctx, action)
	if err != nil {
		return nil
	}
	return result.Observation
}

// PrintTranscript writes the observations, actions and grade of an episode.
func PrintTranscript(ctx context.Context, w io.Writer, catalog *scenarios.Catalog, e record.Episode) error {
	view.Paragraph(w, "", fmt.Sprintf("episode %d of run %s: task %s, scenario %s, trial %d, seed %d", e.Index,
		view.OrDash(e.Run), e.Task, e.Scenario, e.Trial, e.Seed))
	s, seen := newStage(catalog, e)
	if s.missing != "" {
		view.Paragraph(w, "", "note: "+s.missing)
	}
	view.Heading(w, "observations")
	watcher := observer{out: w}
	watcher.show(seen)
	for i, turn := range e.Turns {
		view.Heading(w, fmt.Sprintf("action %d of %d", i+1, len(e.Turns)))
		printAction(w, turn.Action)
		if turn.Refused != "" {
			view.Paragraph(w, "  ", "refused: "+turn.Refused)
		}
		if seen := s.step(ctx, turn.Action); seen != nil && turn.Refused == "" {
			watcher.show(seen)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	printGrade(w, e.Grade)
	if s.env != nil {
		printReview(w, e.Grade, s.env)
		return nil
	}
	printVerdicts(w, e.Grade)
	view.Paragraph(w, "", "\ngold unknown: "+s.unknown)
	return nil
}

// printAction writes the members of an action, one per line.
func printAction(w io.Writer, action json.RawMessage) {
	var members map[string]any
	if json.Unmarshal(action, &members) != nil {
		view.Paragraph(w, "  ", string(action))
		return
	}
	name, _ := members["action_type"].(string)
	delete(members, "action_type")
	view.Field(w, "action", name)
	for _, key := range view.SortedKeys(members) {
		switch value := members[key].(type) {
		case nil:
		case string:
			view.Field(w, key, value)
		default:
			view.Field(w, key, view.JSON(value))
		}
	}
}
