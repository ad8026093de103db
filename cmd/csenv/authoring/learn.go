package authoring

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/audit"
	"github.com/csenv/csenv/envserver/score"
)

// defaultSteps is the number of steps after which the learner improves little.
const defaultSteps = 512

func newLearnCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "learn",
		Short: "Train a policy on the words of tickets and measure what it can transfer",
		Args:  cobra.NoArgs,
	}
	cli.Help(cmd, "learn")
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "text", "json")
	steps := cmd.Flags().Int("steps", defaultSteps, "number of steps, with one instance of each training ticket each")
	seed := cmd.Flags().Int64("seed", 0, "seed of the instances and of the sampled answers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *steps < 1 {
			return fmt.Errorf("--steps is %d: give at least 1", *steps)
		}
		c, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		l, err := audit.Learn(cmd.Context(), c, *steps, *seed)
		if err != nil {
			return err
		}
		if l == nil {
			return errors.New("the packs need tickets of the split public-train and of another split")
		}
		if output.Name == "json" {
			return output.Encode(cmd.OutOrStdout(), l)
		}
		printLearning(cmd.OutOrStdout(), l)
		return nil
	}
	return cmd
}

func printLearning(w io.Writer, l *audit.Learning) {
	printTable(w, "Scores of ticket-classify while learning, on new instances", []string{"steps", "train", "held out"},
		l.Curve, func(p audit.LearningPoint) []any {
			return []any{p.Step, score.Thousandths(p.Train), score.Thousandths(p.HeldOut)}
		})
	printTable(w, "After the last step", []string{"split", "tickets", "score"}, l.Splits,
		func(s audit.SplitScore) []any { return []any{s.Split, s.Tickets, score.Thousandths(s.Score)} })
	fmt.Fprintln(w)
	printGap(w, l)
}

func printGap(w io.Writer, l *audit.Learning) {
	last := l.Curve[len(l.Curve)-1]
	view.Paragraph(w, "", fmt.Sprintf("A linear policy of %d words, trained for %s, earns %s of ticket-classify on "+
		"the training split and %s on the others: the gap is %s.", l.Words, view.Count(last.Step, "step"),
		score.Thousandths(last.Train), score.Thousandths(last.HeldOut), score.Thousandths(l.Gap)))
}
