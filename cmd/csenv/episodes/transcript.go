package episodes

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/web/transcript"
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
		_, e, err := find(cmd.Context(), &from, args[0], args[1])
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

// PrintTranscript writes the observations, actions and grade of an episode.
func PrintTranscript(ctx context.Context, w io.Writer, catalog *scenarios.Catalog, e record.Episode) error {
	t, err := transcript.Read(ctx, catalog, e)
	if err != nil {
		return err
	}
	view.Paragraph(w, "", fmt.Sprintf("episode %d of run %s: task %s, scenario %s, trial %d, seed %d", e.Index,
		view.OrDash(e.Run), e.Task, e.Scenario, e.Trial, e.Seed))
	if t.Missing != "" {
		view.Paragraph(w, "", "note: "+t.Missing)
	}
	view.Heading(w, "observations")
	printItems(w, t.Steps[0].Items)
	for _, step := range t.Steps[1:] {
		view.Heading(w, fmt.Sprintf("action %d of %d", step.Number, len(e.Turns)))
		printAction(w, step.Action)
		if step.Refused != "" {
			view.Paragraph(w, "  ", "refused: "+step.Refused)
		}
		printItems(w, step.Items)
	}
	printGrade(w, e.Grade)
	for _, r := range t.Reviews {
		if t.Unknown == "" {
			printReview(w, r)
		} else {
			printVerdict(w, r)
		}
	}
	if t.Unknown != "" {
		view.Paragraph(w, "", "\ngold unknown: "+t.Unknown)
	}
	return nil
}
