package episodes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// replayed compares an episode with its replay.
type replayed struct {
	Run      string         `json:"run"`
	Episode  int64          `json:"episode"`
	Same     bool           `json:"same"`
	Steps    []replayedStep `json:"steps"`
	Recorded replayedGrade  `json:"recorded"`
	Replayed replayedGrade  `json:"replayed"`
	// Verdicts says where the verdicts on replies came from.
	Verdicts string `json:"verdicts"`
}

// replayedStep has the reward of a step, and "refused" for an action outside the schema.
type replayedStep struct {
	Step     int     `json:"step"`
	Action   string  `json:"action"`
	Recorded outcome `json:"recorded"`
	Replayed outcome `json:"replayed"`
	Same     bool    `json:"same"`
}

type outcome struct {
	Reward  float64 `json:"reward"`
	Refused string  `json:"refused,omitempty"`
}

func (o outcome) String() string {
	if o.Refused != "" {
		return "refused"
	}
	return strconv.FormatFloat(o.Reward, 'f', 3, 64)
}

type replayedGrade struct {
	Outcome        score.Outcome `json:"outcome"`
	Score          *float64      `json:"score"`
	ScenarioDigest string        `json:"scenarioDigest"`
	GraderVersion  string        `json:"graderVersion"`
}

func gradeOf(e record.Episode) replayedGrade {
	return replayedGrade{e.Outcome, e.Score, e.ScenarioDigest, e.GraderVersion}
}

func (g replayedGrade) String() string {
	if g.Score == nil {
		return string(g.Outcome)
	}
	return string(g.Outcome) + ", score " + score.FormatDecimal(source.ToMicroPoints(*g.Score))
}

// NewReplayCommand returns the command that plays a stored episode again.
func NewReplayCommand() *cobra.Command {
	var from source.Flags
	cmd := &cobra.Command{
		Use:   "replay RUN EPISODE",
		Short: "Play a stored episode again, and compare every reward",
		Args:  cli.RequireArguments("RUN", "EPISODE"),
	}
	cli.SetHelp(cmd, "replay")
	from.Add(cmd)
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		run, e, err := findEpisode(cmd.Context(), &from, args[0], args[1])
		if err != nil {
			return err
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		result, err := replayEpisode(cmd.Context(), catalog, e)
		if err != nil {
			return err
		}
		result.Run = run.Name
		if err := result.print(cmd, output); err != nil || result.Same {
			return err
		}
		return cli.ErrOutcome
	}
	return cmd
}

// replayEpisode plays the actions of an episode with the recorded verdicts. No model is called.
func replayEpisode(ctx context.Context, catalog *scenarios.Catalog, e record.Episode) (replayed, error) {
	if e.Outcome == score.Errored {
		return replayed{}, fmt.Errorf("episode %d has no score (%s), so there is nothing to compare", e.Index, e.Class)
	}
	r := regrader{kinds: transcript.NewKinds(catalog)}
	again, err := r.play(ctx, e)
	if err != nil {
		return replayed{}, fmt.Errorf("episode %d can't be played again: %w", e.Index, err)
	}
	result := replayed{Episode: e.Index, Recorded: gradeOf(e), Replayed: gradeOf(again), Verdicts: "facts compared"}
	if len(e.Verdicts) > 0 && e.Judge != offline.New().Name() {
		result.Verdicts = "recorded, of " + e.Judge
	}
	result.Same = e.Outcome == again.Outcome && again.Score != nil && e.Score != nil && *e.Score == *again.Score &&
		len(e.Turns) == len(again.Turns)
	for i, turn := range e.Turns {
		step := replayedStep{Step: i + 1, Action: actionType(turn.Action), Recorded: outcome{turn.Reward, turn.Refused}}
		if i < len(again.Turns) {
			step.Replayed = outcome{again.Turns[i].Reward, again.Turns[i].Refused}
			step.Same = step.Recorded == step.Replayed
		}
		result.Same = result.Same && step.Same
		result.Steps = append(result.Steps, step)
	}
	return result, nil
}

// actionType returns the type of an action, "?" for none.
func actionType(action json.RawMessage) string {
	var a struct {
		Type string `json:"action_type"`
	}
	_ = json.Unmarshal(action, &a) // a refused action may be anything
	return cmp.Or(a.Type, "?")
}

func (r replayed) print(cmd *cobra.Command, output *view.Format) error {
	w := cmd.OutOrStdout()
	if output.Name != "table" {
		return output.Encode(w, r)
	}
	t := view.NewTable("step", "action", "recorded", "replayed", "")
	for _, s := range r.Steps {
		mark := ""
		if !s.Same {
			mark = "differs"
		}
		t.AppendRow([]any{s.Step, printable.EscapeLine(s.Action), s.Recorded, s.Replayed, mark})
	}
	fmt.Fprintln(w, t.Render())
	verdict := "the same"
	if !r.Same {
		verdict = "not the same"
	}
	lines := []string{"", "recorded: " + r.Recorded.String(), "replayed: " + r.Replayed.String(),
		"verdicts: " + r.Verdicts, verdict}
	if r.Recorded.ScenarioDigest != r.Replayed.ScenarioDigest || r.Recorded.GraderVersion != r.Replayed.GraderVersion {
		lines = append(lines, fmt.Sprintf("It was played with grader %s and scenarios %s; this version has "+
			"grader %s and scenarios %s.", r.Recorded.GraderVersion, r.Recorded.ScenarioDigest,
			r.Replayed.GraderVersion, r.Replayed.ScenarioDigest))
	}
	for _, line := range lines {
		fmt.Fprintln(w, printable.EscapeLine(line))
	}
	return nil
}
